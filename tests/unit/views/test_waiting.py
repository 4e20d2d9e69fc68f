"""What `slicewire why` and `status` say of pods that do not run."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import pathlib
import sys
from typing import Any

import pytest

from services.commands import why
from services.views import console as view
from services.views import page, proposals, waiting, waiting_lines
from services.views.fleet import NodeState
from shared.contract.spans import SpanRecord
from shared.contract.waiting import Waiting, WaitingPod
from shared.domain.gpu import Health, HealthState
from shared.simulation.gpu import catalogue
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Verdict
from tests.unit.waiting import world
from tests.unit.waiting.world import cut, node, pod

SMALL = "nvidia.com/mig-1g.10gb"
KEYS = {"node", "reason", "wanted", "total", "free", "held", "unhealthy", "hint"}


def state(known: NodeView) -> NodeState:
    """The node as the commands have it."""
    return NodeState(
        name=known.name,
        intent=known.intent,
        inventory=known.inventory,
        ledger=known.ledger,
        progress=known.progress,
        services={},
    )


def told(*pods: WaitingPod, nodes: tuple[str, ...] = ("gpu-a",)) -> Waiting:
    """The value of the fleet."""
    return Waiting(stamp=world.stamp("_controller"), pods=pods, places=(nodes,))


def verdict(waits: WaitingPod, *views: NodeView) -> Verdict:
    """Found as the command finds it."""
    value = told(waits, nodes=tuple(each.name for each in views))
    found = waiting.judge([state(each) for each in views], value).of_key(waits.pod)
    assert found is not None
    return found


def written(found: Verdict, trial: str = "", width: int | None = None) -> str:
    """What a person reads."""
    out = io.StringIO()
    on = dataclasses.replace(page.of(view.open_console(out)), width=width)
    why.write(found, trial, on)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_an_answer_fits_the_terminal(width: int) -> None:
    """A table that is too wide becomes a paragraph for each node."""
    far = [node(f"gpu-{name}.example.com", held=[f"ml/{name * 20}"]) for name in "abc"]
    lines = written(verdict(pod(), *far), width=width).splitlines()
    assert max(map(len, lines)) <= width
    for name in "abc":
        assert any(f"gpu-{name}.example.com" in line for line in lines)


def test_what_others_say_is_one_part_of_the_hint() -> None:
    """A health reason with a semicolon is not taken apart into things to do."""
    reason = "XID 79; NVML answered GPU_IS_LOST; reset it"
    lost = sick(node(unhealthy=4, sick=True), reason)
    marked = [line for line in written(verdict(pod(), lost)).splitlines() if "→" in line]
    assert marked == ["  → GPU 0 is sick: XID 79, NVML answered GPU_IS_LOST, reset it"]


def sick(known: NodeView, reason: str) -> NodeView:
    """The node, its GPUs sick for this reason."""
    assert known.inventory is not None
    health = Health(state=HealthState.SICK, reason=reason)
    gpus = tuple(dataclasses.replace(gpu, health=health) for gpu in known.inventory.gpus)
    return dataclasses.replace(known, inventory=dataclasses.replace(known.inventory, gpus=gpus))


def test_the_form_of_a_pod_that_waits() -> None:
    """Other programs rely on these keys."""
    form = waiting.form(verdict(pod(), node(held=["ml/a"])))
    assert {key: form[key] for key in ("pod", "reason", "sentence")} == {
        "pod": "ml/waits",
        "reason": "AllHeld",
        "sentence": "pods hold all slots of nvidia.com/gpu: 1 of 1",
    }
    (row,) = form["nodes"]
    assert row.keys() >= KEYS
    assert (row["node"], row["wanted"], row["total"], row["held"]) == ("gpu-a", 1, 1, 1)
    assert form["proposal"] is None


def test_the_form_of_a_pod_that_runs() -> None:
    """It has slots, on a node, by an Allocate call that can be traced."""
    running = waiting.judge([state(node(held=["ml/a", "ml/b"]))], None).of_key("ml/b")
    assert running is not None
    form = waiting.form(running)
    assert form["reason"] == "Running"
    assert form["trace"] == f"{1:032x}"
    assert [each["slot"] for each in form["slots"]] == ["GPU-gpu-a::1"]
    assert (form["nodes"][0]["reason"], form["nodes"][0]["wanted"]) == ("Running", 1)


def test_a_pod_that_nobody_knows() -> None:
    """It neither waits nor holds anything."""
    assert waiting.judge([state(node())], told(pod())).of_key("ml/other") is None


def test_a_pod_that_a_change_has_evicted() -> None:
    """It is gone, and its trace is that of the change; the newest one counts."""

    def span(number: int, key: str) -> SpanRecord:
        return SpanRecord(
            trace_id=f"t{number}",
            span_id="s",
            parent_id="",
            name="evict pod",
            service="controller",
            node="",
            start_ns=number,
            end_ns=number,
            attributes={"node": "gpu-a", "pod": key},
        )

    spans = [span(1, "ml/gone"), span(3, "ml/gone"), span(9, "ml/other")]
    found = waiting.evicted("ml/gone", spans)
    assert found is not None
    assert (found.reason, found.trace) == (Reason.RECONFIGURING, "t3")
    assert found.sentence.startswith("it was evicted from gpu-a")
    assert waiting.evicted("ml/never", spans) is None


def test_status_counts_them_by_reason() -> None:
    """With the sentence of the one that waits longest; what is not ours and what has failed not."""
    pods = [
        pod(pod="ml/1"),
        pod(pod="ml/2"),
        pod(9, pod="ml/3"),
        pod(pod="ml/4", phase="Failed"),
        pod(pod="ml/5", requests=()),
    ]
    found = waiting.summary([state(node(held=["ml/a"]))], told(*pods))
    assert [(each["reason"], each["pods"], each["first"]) for each in found] == [
        ("AllHeld", 2, "ml/1"),
        ("RequestTooLarge", 1, "ml/3"),
    ]
    assert found[0]["sentence"] == "pods hold all slots of nvidia.com/gpu: 1 of 1"
    assert waiting.summary([], None) == []


def test_people_read_the_reason_first() -> None:
    """Then the sentence, what to do, and the nodes."""
    lines = written(verdict(pod(), node(held=["ml/a"]), node("gpu-b", unhealthy=1, sick=True)))
    assert lines.splitlines()[:3] == [
        "ml/waits  Unhealthy",
        "  devices that are not healthy keep back 1 slot of nvidia.com/gpu on gpu-b",
        "  → GPU 0 is sick: XID 79",
    ]
    assert "gpu-a  AllHeld    nvidia.com/gpu  1       1      0     1     0" in lines


def test_many_nodes_are_not_all_shown() -> None:
    """Those that come nearest are."""
    views = [node(f"gpu-{number:03}", held=["ml/a"]) for number in range(40)]
    lines = written(verdict(pod(), *views)).splitlines()
    assert lines[-1] == "  and 20 nodes more: -o json has them all"


@pytest.fixture
def proposed() -> tuple[Verdict, str]:
    """A pod that wants a small instance beside a large one that is held, and the command."""
    known = cut(("3g.40gb", 0, ""), ("3g.40gb", 4, "ml/a"))
    found = verdict(pod(resource=SMALL), known)
    assert found.proposal is not None
    assert known.inventory is not None
    trial = proposals.trial(
        found.proposal,
        known.inventory,
        known.ledger,
        lambda product: catalogue.model_of_product(product).name,
    )
    return found, trial


def test_a_proposal_is_shown_with_words_that_try_it(proposed: tuple[Verdict, str]) -> None:
    """On paper, and on the cluster."""
    found, trial = proposed
    lines = written(found, trial)
    assert trial in lines
    assert "kubectl label node gpu-a nvidia.com/mig.config=proposed --overwrite" in lines
    form: dict[str, Any] = waiting.form(found)["proposal"]
    assert form["layout"] == {"1g.10gb": 1, "3g.40gb": 1}


async def test_the_words_that_try_a_proposal_do(
    proposed: tuple[Verdict, str], tmp_path: pathlib.Path
) -> None:
    """They are typed into a shell as they stand: plan keeps what is held and evicts nobody."""
    _, trial = proposed
    words = trial.replace("slicewire", f"{sys.executable} -m services.cli", 1)
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"{words} -o json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, (out, err)
    assert b'"evictions": []' in out
    assert b'"nvidia.com/mig-1g.10gb": 1' in out
    assert b'"kept": [{"profile": "3g.40gb", "start": 4}]' in out


def test_status_has_a_line_for_each_reason() -> None:
    """How many wait for it, and the sentence of one of them; a narrow terminal cuts it."""
    pods = [pod(pod="ml/1"), pod(pod="ml/2"), pod(9, pod="ml/3")]
    found = waiting.summary([state(node(held=["ml/a"]))], told(*pods))
    console = view.open_console(io.StringIO())
    wide = page.Page(console=console, signs=view.MARKS, now_ns=0)
    assert [line.plain for line in waiting_lines.draw(found, wide)] == [
        "2 pods wait: AllHeld  ml/1: pods hold all slots of nvidia.com/gpu: 1 of 1",
        "1 pod waits: RequestTooLarge  ml/3: 9 nvidia.com/gpu in one pod is more than any node has",
    ]
    narrow = page.Page(console=console, signs=view.MARKS, now_ns=0, width=40)
    assert all(len(line) <= 40 for line in waiting_lines.draw(found, narrow))
    assert waiting_lines.draw([], wide) == []
