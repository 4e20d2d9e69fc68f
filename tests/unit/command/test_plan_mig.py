"""`slicewire plan --mig`: layouts before and after, needs, evictions, what stays unused."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from services.commands import plan

SHARING = """\
version: v1
flags: {migStrategy: mixed}
sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 4}]}}
"""
MIG = """\
version: v1
mig-configs:
  sevenths:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
  half:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      4g.40gb: 1
      2g.20gb: 1
  too-much:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}
  off:
  - {devices: all, mig-enabled: false}
"""
STATE = """\
mode: {0: on}
instances:
  0:
  - {profile: 1g.10gb, start: 0, holder: team/train}
  - {profile: 1g.10gb, start: 1}
  - {profile: 2g.20gb, start: 2}
  - {profile: 3g.40gb, start: 4, holder: team/serve}
"""

Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Callable[..., list[str]]:
    """Write the texts; give the words of the command line."""

    def written(gpus: str, name: str, *, mig: str = MIG, state: str = STATE) -> list[str]:
        texts = {"sharing": SHARING, "mig": mig, "state": state}
        words = ["--gpus", gpus, "--mig-config", name]
        for key, text in texts.items():
            (tmp_path / f"{key}.yaml").write_text(text, encoding="utf-8")
            words += [f"--{key}", str(tmp_path / f"{key}.yaml")]
        return words

    return written


@pytest.fixture
def ask(files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command; give its status and JSON object."""

    def run(*words: str, **texts: str) -> tuple[int, dict[str, Any]]:
        status = plan.main([*files(*words, **texts), "-o", "json"])
        form: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, form

    return run


def places(layout: list[dict[str, Any]]) -> list[str]:
    """A layout of the answer, short: `1g.10gb@0`."""
    return [f"{each['profile']}@{each['start']}" for each in layout]


def test_only_what_must_change_goes(ask: Ask) -> None:
    """Both 1g stay with their holder, the rest goes with its pod, and slots follow the layout."""
    status, form = ask("a100-80gb", "sevenths")
    assert status == 0
    (gpu,) = form["gpus"]
    assert {name: places(layout) for name, layout in gpu["geometry"].items()} == {
        "before": ["1g.10gb@0", "1g.10gb@1", "2g.20gb@2", "3g.40gb@4"],
        "after": [f"1g.10gb@{start}" for start in range(7)],
        "kept": ["1g.10gb@0", "1g.10gb@1"],
        "destroyed": ["2g.20gb@2", "3g.40gb@4"],
        "created": [f"1g.10gb@{start}" for start in range(2, 7)],
    }
    assert gpu["needs"] == {"modeChange": False, "reset": False}
    assert gpu["unused"] == {"memoryMiB": 12800, "slices": 0, "multiprocessors": 0}
    assert form["evictions"] == ["team/serve"]
    assert form["resources"] == {"nvidia.com/mig-1g.10gb": 28}


def test_kept_instances_keep_their_uuid_and_holder(ask: Ask) -> None:
    """A slot that is held before is held after."""
    _, same = ask("a100-80gb", "all-balanced")
    _, changed = ask("a100-80gb", "sevenths")
    first = same["gpus"][0]["offers"][0]["slots"]
    assert changed["gpus"][0]["offers"][0]["slots"] == first
    assert same["evictions"] == []
    assert same["gpus"][0]["geometry"]["created"] == []


def test_a_pod_that_must_go_gives_back_all_that_it_holds(ask: Ask) -> None:
    """Its slot on another GPU is free afterwards."""
    state = STATE + 'holders: {"nvidia.com/gpu": {"1": team/serve}}\n'
    status, form = ask("a100-80gb,t4", "sevenths", state=state)
    assert (status, form["evictions"]) == (0, ["team/serve"])
    state = STATE + 'holders: {"nvidia.com/gpu.old": {"1": team/serve}}\n'
    _, form = ask("a100-80gb,t4", "sevenths", state=state)
    assert form["resources"]["nvidia.com/gpu"] == 1
    assert [offer["retiring"] for offer in form["gpus"][1]["offers"]] == [[]]


@pytest.mark.parametrize(
    ("model", "reset"), [("a100-80gb", True), ("a30-24gb", True), ("h100-sxm-80gb", False)]
)
def test_mode_needs_a_reset_up_to_ampere(ask: Ask, model: str, reset: bool) -> None:
    """Who holds the whole GPU has to go."""
    holder = 'holders: {"nvidia.com/gpu": {"0": team/whole}}\n'
    status, form = ask(model, "all-balanced", state=holder)
    assert status == 0
    assert form["gpus"][0]["needs"] == {"modeChange": True, "reset": reset}
    assert form["evictions"] == ["team/whole"]


def test_mode_off_leaves_a_whole_gpu(ask: Ask) -> None:
    """All instances go, and with them who holds one."""
    status, form = ask("a100-80gb", "off")
    assert (status, form["resources"]) == (0, {"nvidia.com/gpu": 1})
    (gpu,) = form["gpus"]
    assert gpu["geometry"]["after"] == []
    assert gpu["unused"] == {"memoryMiB": 0, "slices": 0}
    assert form["evictions"] == ["team/serve", "team/train"]


def test_the_infeasible_is_refused_in_slices(ask: Ask) -> None:
    """With path, place in the file, and what fits."""
    status, form = ask("a100-80gb", "too-much")
    assert (status, form["ok"]) == (1, False)
    (error,) = form["errors"]
    assert error["path"] == "mig-configs.too-much[0].mig-devices"
    assert (error["line"], error["column"]) == (12, 53)
    assert error["message"].endswith("3g.40gb + 3g.40gb + 1g.10gb: memory slices 9 of 8")
    assert error["suggestion"].startswith("what fits: 3g.40gb + 3g.40gb;")


def test_an_unknown_name_is_refused_with_the_nearest(ask: Ask) -> None:
    """U075: names of the text and built-in ones are listed."""
    status, form = ask("a100-80gb", "seventh")
    assert status == 1
    assert form["errors"][0]["suggestion"].startswith('did you mean "sevenths"? there are sevenths')


def test_a_manifest_is_told_by_its_own_lines(ask: Ask) -> None:
    """The key is that of mig-parted, or the only one."""
    inside = "".join(f"    {line}\n" for line in MIG.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mig}\ndata:\n  config.yaml: |\n"
    status, form = ask("a100-80gb", "too-much", mig=head + inside)
    assert status == 1
    assert (form["errors"][0]["line"], form["errors"][0]["column"]) == (17, 57)
    other = head.replace("config.yaml", "mig")
    status, form = ask("a100-80gb", "half", mig=other + inside)
    assert status == 0
    said = "a node gets the text under config.yaml only, this one is under mig"
    assert said in [warning["message"] for warning in form["warnings"]]
    several = other + inside + "  more: ''\n"
    status, form = ask("a100-80gb", "half", mig=several)
    assert status == 1
    assert form["errors"][0]["message"] == "the ConfigMap has no key config.yaml, it has mig, more"


def test_a_gpu_that_the_config_does_not_speak_of_stays(ask: Ask) -> None:
    """With a warning, and its geometry as it was."""
    status, form = ask(
        "a100-80gb=2", "half", state="instances: {1: [{profile: 7g.80gb, start: 0}]}"
    )
    assert status == 0
    second = form["gpus"][1]["geometry"]
    assert places(second["kept"]) == places(second["after"]) == ["7g.80gb@0"]
    assert "says nothing of GPU 1" in form["warnings"][0]["message"]


def test_sizes_that_nobody_published_are_not_invented(ask: Ask) -> None:
    """A model of which only the names are known can still be planned."""
    status, form = ask("b300-269gb", "all-balanced", state="")
    assert status == 0
    assert len(form["gpus"][0]["geometry"]["created"]) == 4
    assert form["gpus"][0]["unused"]["memoryMiB"] is None
    assert "nobody published" in form["warnings"][0]["message"]


def test_people_see_layouts_as_bars_of_slices(
    files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before above after, what goes and comes marked, and pods that would be evicted."""
    assert plan.main(files("a100-80gb", "half")) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == (
        "  before  [-1g.10gb][-1g.10gb][     -2g.20gb     ][               -3g.40gb               ]"
    )
    assert shown[2] == (
        "  after   [               +4g.40gb               ][     +2g.20gb     ]...................."
    )
    assert shown[3] == "  unused: 20736 MiB, 1 slice, 14 SMs"
    assert "evicts   team/serve" in shown


def test_a_text_without_a_name_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """Which layout is wanted must be said."""
    with pytest.raises(SystemExit) as ended:
        plan.main(["--sharing", "x", "--gpus", "t4", "--mig", "y"])
    assert ended.value.code == 2
    assert "--mig needs --mig-config" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", ["sevenths", "half", "off"])
def test_a_picture_fits_the_terminal(
    columns: int,
    name: str,
    files: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layouts before and after stand above each other, and are not wrapped into nonsense."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert plan.main(files("a100-80gb=2,t4=1", name)) == 0
    lines = capsys.readouterr().out.splitlines()
    pictures = [line for line in lines if "=" not in line]  # labels stay whole: people copy them
    assert max(map(len, pictures)) <= columns
    before, after = (next(line for line in lines if word in line) for word in ("before", "after"))
    assert before.index("[") == 10
    assert len(before) == len(after)
