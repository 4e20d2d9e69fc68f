"""`slicewire plan`: one JSON object, exit status, places in the file."""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from services.commands import plan

T4 = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, 'plan/0/t4')}"
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing}
data:
  a100: |-
    version: v1
    sharing:
      timeSlicing:
        resources:
        - {name: nvidia.com/gpu, replicas: 4, devices: [0, 5]}
  default: |-
    version: v1
    flags: {migStrategy: mixed}
    sharing:
      timeSlicing:
        renameByDefault: true
        resources:
        - {name: nvidia.com/gpu, replicas: 4}
        - {name: nvidia.com/mig-1g.10gb, replicas: 2}
"""
STATE = """\
instances: {0: [{profile: 1g.10gb, start: 0, holder: ns/pod}, {profile: 2g.20gb, start: 2}]}
holders: {"nvidia.com/gpu": {"1": ns/a, "2::1": ns/b, "2::7": ns/c}}
"""


Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command on texts; give its status and JSON object."""

    def run(sharing: str, gpus: str, *words: str, state: str = "") -> tuple[int, dict[str, Any]]:
        file, state_file = tmp_path / "sharing.yaml", tmp_path / "state.yaml"
        file.write_text(sharing, encoding="utf-8")
        state_file.write_text(state, encoding="utf-8")
        asked = ["--sharing", str(file), "--gpus", gpus, "--state", str(state_file)]
        status = plan.main([*asked, "-o", "json", *words])
        form: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, form

    return run


def test_a_bare_text_on_catalogue_gpus(ask: Ask) -> None:
    """The whole object, for one GPU."""
    text = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"
    gpu = T4
    assert ask(text, "t4") == (
        0,
        {
            "ok": True,
            "errors": [],
            "warnings": [],
            "key": "",
            "resources": {"nvidia.com/gpu": 2},
            "labels": {
                "nvidia.com/gpu.product": "Tesla-T4-SHARED",
                "nvidia.com/gpu.count": "1",
                "nvidia.com/gpu.replicas": "2",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
                "nvidia.com/gpu.memory": "15360",
                "nvidia.com/gpu.family": "turing",
                "nvidia.com/gpu.compute.major": "7",
                "nvidia.com/gpu.compute.minor": "5",
                "nvidia.com/mig.capable": "false",
                "nvidia.com/mps.capable": "false",
            },
            "gpus": [
                {
                    "index": 0,
                    "uuid": gpu,
                    "model": "t4",
                    "offers": [
                        {
                            "resource": "nvidia.com/gpu",
                            "slots": [f"{gpu}::0", f"{gpu}::1"],
                            "retiring": [],
                        }
                    ],
                    "needs": {"modeChange": False, "reset": False},
                    "unused": {"memoryMiB": 0, "slices": 0},
                }
            ],
            "evictions": [],
        },
    )


@pytest.mark.parametrize(
    ("rules", "health"),
    [
        ("{}", None),
        ("{recoverAfter: 60s}", None),
        (
            "{ignore: [94, 79], fatal: [31], recoverAfter: 5m}",
            {"ignored": [13, 43, 45, 68, 79, 94, 109], "recoverAfterSeconds": 300},
        ),
        (
            "{fatal: [13, 31, 43, 45, 68, 109], recoverAfter: never}",
            {"ignored": [], "recoverAfterSeconds": None},
        ),
    ],
)
def test_what_health_rules_mean(ask: Ask, rules: str, health: dict[str, Any] | None) -> None:
    """Where a text has any: which XIDs withdraw nothing, and what gives a device back."""
    _, form = ask(f"slicewire: {{health: {rules}}}", "t4")
    found = form.get("health")
    reset = found.pop("afterReset") if found else [140]
    assert found == health
    assert 140 in reset
    assert not set(reset) & set(health["ignored"] if health else ())


def test_a_manifest_with_instances_and_holders(ask: Ask) -> None:
    """A key is chosen, MIG devices are multiplied, holders of the old name leave room for none."""
    status, form = ask(CONFIG_MAP, "a100-80gb=2,t4", state=STATE)
    assert (status, form["key"], form["warnings"]) == (0, "default", [])
    assert form["resources"] == {
        "nvidia.com/gpu": 0,
        "nvidia.com/gpu.shared": 2,
        "nvidia.com/mig-1g.10gb.shared": 2,
        "nvidia.com/mig-2g.20gb": 1,
    }
    cut, whole, shared = form["gpus"]
    assert [offer["retiring"] for offer in whole["offers"]] == [[], [whole["uuid"]]]
    assert shared["offers"][1]["retiring"] == [f"{shared['uuid']}::1", f"{shared['uuid']}::7"]
    assert cut["unused"]["slices"] == 4


def test_a_state_file_is_read_as_the_texts_are(ask: Ask) -> None:
    """`1:0` is a MIG device, not the number 60; `nvidia.com/` may be left out; a BOM is nothing."""
    text = "{flags: {migStrategy: mixed}}"
    state = "\ufeffinstances: {1: [{profile: 1g.10gb, start: 3}]}\n"
    state += "mode: {0: off, 1: on}\nholders: {mig-1g.10gb: {1:0: ns/a}, gpu: {0: ns/b}}\n"
    status, form = ask(text, "a100-80gb=2", state=state)
    assert (status, form["resources"]) == (0, {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1})


@pytest.mark.parametrize(
    ("strategy", "listed", "retiring"),
    [
        pytest.param("", [0, 1, 2, 3], [], id="as-the-text-says"),
        pytest.param("strategy: mps", [0, 1, 2, 3], [], id="the-same"),
        pytest.param("strategy: time-slicing", [1, 2, 3], [0], id="another"),
    ],
)
def test_holders_of_another_strategy_only_finish(
    ask: Ask, strategy: str, listed: list[int], retiring: list[int]
) -> None:
    """From time-slicing to MPS under one name, beside a pod that runs."""
    text = "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}"
    state = f"holders: {{gpu: {{0::0: ns/a}}}}\n{strategy}"
    status, form = ask(text, "t4", state=state)
    assert status == 0
    (offer,) = form["gpus"][0]["offers"]
    uuid = form["gpus"][0]["uuid"]
    assert offer["slots"] == [f"{uuid}::{number}" for number in listed]
    assert offer["retiring"] == [f"{uuid}::{number}" for number in retiring]


def test_a_pod_on_an_instance_keeps_its_gpu_from_being_offered_whole(ask: Ask) -> None:
    """Under migStrategy none, which has no name for the instance, the GPU waits for that pod."""
    state = "instances: {0: [{profile: 1g.10gb, start: 0, holder: ns/pod}]}"
    text = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}"
    status, form = ask(text, "a100-80gb", state=state)
    assert (status, form["resources"]) == (0, {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 0})
    ((retiring,),) = [offer["retiring"] for offer in form["gpus"][0]["offers"] if offer["retiring"]]
    assert retiring.startswith("MIG-")
    _, form = ask(text, "a100-80gb", state=state.replace(", holder: ns/pod", ""))
    assert form["resources"] == {"nvidia.com/gpu": 4}


def test_a_resource_may_be_written_in_both_ways_in_one_state_file(ask: Ask) -> None:
    """Nobody's slot is lost when one holder stands under `gpu` and one under `nvidia.com/gpu`."""
    text = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}"
    state = "holders: {gpu: {0::5: ns/a}, nvidia.com/gpu: {0::6: ns/b}}"
    _, form = ask(text, "t4", state=state)
    assert form["gpus"][0]["offers"][0]["slots"] == [f"{T4}::5", f"{T4}::6"]


@pytest.mark.parametrize("state", ["", "{}", "mode:", "holders: ~", "# nothing"])
def test_a_state_file_may_say_nothing(ask: Ask, state: str) -> None:
    """Then nobody holds anything."""
    assert ask("version: v1", "t4", state=state)[1]["resources"] == {"nvidia.com/gpu": 1}


def test_a_refusal_is_told_by_the_lines_of_the_manifest(ask: Ask) -> None:
    """What only the GPUs can refute has its place too."""
    status, form = ask(CONFIG_MAP, "t4=2", "--key", "a100")
    assert (status, form["ok"]) == (1, False)
    (error,) = form["errors"]
    assert error["path"] == "sharing.timeSlicing.resources[0].devices[1]"
    assert (error["line"], error["column"]) == (10, 60)
    assert "the node has no nvidia.com/gpu 5, it has 0, 1" in error["message"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--key", "a10"], "there is no key a10, the keys are a100, default"),
        (["--node-labels", "nvidia.com/device-plugin.config=a10"], "names the key a10, which is"),
    ],
)
def test_an_absent_key_is_refused(ask: Ask, words: list[str], part: str) -> None:
    """Named by flag or by the node's label."""
    status, form = ask(CONFIG_MAP, "t4", *words)
    assert (status, form["ok"]) == (1, False)
    (error,) = form["errors"]
    assert part in error["message"]
    assert (error["path"], error["suggestion"]) == ("data", 'did you mean "a100"?')


def test_too_many_ids_are_told_where_the_number_stands(ask: Ask) -> None:
    """Path, line and column are all those of `replicas`, counted in the file."""
    text = CONFIG_MAP.replace("replicas: 4, devices: [0, 5]", "replicas: 10001")
    _, form = ask(text, "t4=2", "--key", "a100")
    (error,) = form["errors"]
    assert error["path"] == "sharing.timeSlicing.resources[0].replicas"
    assert (error["line"], error["column"]) == (10, 44)
    assert error["suggestion"] == "at most 10000 replicas fit"


def test_the_node_label_chooses_the_key(ask: Ask) -> None:
    """As on a node: the label comes before the key default."""
    label = "nvidia.com/device-plugin.config=a100"
    status, form = ask(CONFIG_MAP.replace(", 5", ""), "t4", "--node-labels", f"team=x,{label}")
    assert (status, form["key"], form["resources"]) == (0, "a100", {"nvidia.com/gpu": 4})


def test_nothing_selected_is_unshared_with_a_warning(ask: Ask) -> None:
    """U017: two keys, none of which speaks for itself."""
    status, form = ask(CONFIG_MAP.replace("default:", "t4:"), "t4")
    assert (status, form["key"], form["resources"]) == (0, "", {"nvidia.com/gpu": 1})
    assert "the ConfigMap has the keys a100, t4" in form["warnings"][0]["message"]


RULES = """\
sharing:
  rules:
  - {product: "*A100*", key: a100}
  - {pciId: "0x1EB810DE", key: t4}
  - {labels: {team: vision}, key: vision}
  defaultKey: rest
"""


@pytest.mark.parametrize(
    ("gpus", "labels", "key"),
    [
        pytest.param("a100-80gb,t4", "", "a100", id="product, the first rule first"),
        pytest.param("t4", "team=vision", "t4", id="PCI id"),
        pytest.param("l4", "team=vision", "vision", id="labels"),
        pytest.param("l4", "team=search", "rest", id="none: the values' key"),
        pytest.param("t4", "nvidia.com/device-plugin.config=rest", "rest", id="the label is first"),
    ],
)
def test_rules_of_the_values_choose_as_for_a_node(
    ask: Ask, tmp_path: pathlib.Path, gpus: str, labels: str, key: str
) -> None:
    """`--values` takes the file that the chart takes."""
    values = tmp_path / "values.yaml"
    values.write_text(RULES, encoding="utf-8")
    texts = "".join(f"  {each}: 'version: v1'\n" for each in ("a100", "t4", "vision", "rest"))
    config_map = CONFIG_MAP.partition("  a100")[0] + texts
    status, form = ask(config_map, gpus, "--values", str(values), "--node-labels", labels)
    assert (status, form["key"]) == (0, key)


def test_what_a_text_does_not_say_comes_from_the_values(ask: Ask, tmp_path: pathlib.Path) -> None:
    """The same text, on the same GPUs, under another MIG strategy."""
    values = tmp_path / "values.yaml"
    values.write_text("sharing: {migStrategy: mixed}", encoding="utf-8")
    state = "instances: {0: [{profile: 3g.40gb, start: 4}]}"
    _, form = ask("version: v1", "a100-80gb", state=state)
    assert form["resources"] == {"nvidia.com/gpu": 1}
    _, form = ask("version: v1", "a100-80gb", "--values", str(values), state=state)
    assert form["resources"] == {"nvidia.com/mig-3g.40gb": 1}


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ("sharing: {rule: []}", "the values, sharing.rule: there is no such value (did you mean"),
        ("sharing: {rules: [{key: a}]}", "the values, sharing.rules: rule 1 states"),
        ("sharing: {migStrategy: mixd}", "the values, sharing.migStrategy: Input should be 'none'"),
        ("- a", "the values are a mapping"),
        ("[]", "the values are a mapping"),
        ("a: [", "the values are not YAML"),
    ],
)
def test_wrong_values_end_with_2(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], values: str, part: str
) -> None:
    """Rules are refused as a whole: none of them chooses anything."""
    file, values_file = tmp_path / "sharing.yaml", tmp_path / "values.yaml"
    file.write_text("version: v1", encoding="utf-8")
    values_file.write_text(values, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        plan.main(["--sharing", str(file), "--gpus", "t4", "--values", str(values_file)])
    assert ended.value.code == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gpus", "state", "part"),
    [
        ("t44", "", 'did you mean "t4"?'),
        ("a100", "", 'did you mean "a100-40gb" or "a100-80gb"?'),
        ("t4=x", "", "write t4=<count>"),
        (",", "", "names no GPU"),
        ("t4=0", "", "write t4=<count>"),
        ("t4=\u0663", "", "write t4=<count>"),
        ("t4=9999", "", "more than 64"),
        ("t4=999999999999999999", "", "more than 64"),
        ("t4", "[]", "found a list"),
        ("t4", "modes: {}", 'did you mean "mode"?'),
        ("t4", "mode: {x: on}", 'line 1, column 8: "x" is no index of a GPU'),
        ("t4", "mode: {0: 1}", "found 1, accepted is true or false"),
        ("t4", "{mode: {0: on}, mode: {1: on}}", "stands twice"),
        ("t4", "mode: {}\n---\nmode: {}", "a second YAML document"),
        ("t4", "instances: {0: [{profile: 1g.10gb}]}", 'the key "start" is missing'),
        ("t4", "instances: {0: [{profile: 1g.10gb, start: 0, holder: p}]}", "namespace/name"),
        ("t4", "holders: {gpu: {'0::01': ns/a}}", "write 0::<number>"),
        ("t4", "holders: {gpu: {'0::\u0661': ns/a}}", "write 0::<number>"),
        ("t4", f"holders: {{gpu: {{'0::1': a/b, '{T4}::1': a/c}}}}", f"{T4}::1 twice"),
        ("t4", "holders: {gpu: {0::1: a/b}, nvidia.com/gpu: {0::1: a/c}}", "stands twice"),
        ("t4", "mode: {3: on}", "speaks of GPU 3"),
        ("t4", "mode: {0: on}", "a t4 cannot do MIG: leave MIG mode and instances out"),
        ("t4", "holders: {nvidia.com/gpu: {'7::1': ns/a}}", "names the slot '7::1'"),
        ("t4", "holders: {nvidia.com/gpu: {'0::1': pod}}", "holders"),
        ("t4", "a: [", "this is not YAML"),
    ],
)
def test_a_wrong_call_ends_with_2(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], gpus: str, state: str, part: str
) -> None:
    """Unknown models and impossible states are mistakes of the call, told in a sentence."""
    file, state_file = tmp_path / "sharing.yaml", tmp_path / "state.yaml"
    file.write_text("version: v1", encoding="utf-8")
    state_file.write_text(state, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        plan.main(["--sharing", str(file), "--gpus", gpus, "--state", str(state_file)])
    assert ended.value.code == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--sharing", "{wrong}"], id="sharing"),
        pytest.param(["--sharing", "{right}", "--state", "{wrong}"], id="state"),
        pytest.param(["--sharing", "{right}", "--values", "{wrong}"], id="values"),
        pytest.param(
            ["--sharing", "{right}", "--mig", "{wrong}", "--mig-config", "all-disabled"], id="mig"
        ),
    ],
)
def test_a_file_that_is_no_utf_8_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Some shells write UTF-16; of four files people have to know which."""
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.yaml"
    right.write_text("version: v1", encoding="utf-8")
    wrong.write_text("version: v1", encoding="utf-16")
    asked = [word.format(right=right, wrong=wrong) for word in words]
    with pytest.raises(SystemExit) as ended:
        plan.main([*asked, "--gpus", "t4"])
    assert ended.value.code == 2
    assert f"cannot read {wrong}: 'utf-8' codec" in capsys.readouterr().err


def test_a_label_has_a_name(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value alone is no label of any node."""
    file = tmp_path / "sharing.yaml"
    file.write_text("version: v1", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        plan.main(["--sharing", str(file), "--gpus", "t4", "--node-labels", "=t4"])
    assert ended.value.code == 2
    assert "--node-labels =t4: write <name>=<value>" in capsys.readouterr().err


def test_people_see_bars_and_refusals_on_standard_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -o json: a bar per resource, or the sentences of the refusal."""
    file = tmp_path / "sharing.yaml"
    file.write_text(CONFIG_MAP, encoding="utf-8")
    assert plan.main(["--sharing", str(file), "--gpus", "t4"]) == 0
    shown = capsys.readouterr().out
    assert "nvidia.com/gpu.shared  □□□□  4 free" in shown
    assert "no device of the node is a nvidia.com/mig-1g.10gb" in shown
    assert plan.main(["--sharing", str(file), "--gpus", "t4", "--key", "a100"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{file}: sharing.timeSlicing.resources[0].devices[1], line 10")
