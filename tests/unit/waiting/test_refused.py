"""Pods that have failed: what a kubelet says of them, and what it means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Phase
from shared.contract.waiting import Waiting, WaitingPod
from shared.waiting import verdict
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Verdict
from tests.unit.waiting import world
from tests.unit.waiting.world import GPU, node, pod

ADMISSION = "UnexpectedAdmissionError"
SECOND = 10**9
NO_DEVICE = f"Pod was rejected: Allocate failed due to no healthy devices present; {GPU}"


def registered(at_s: float, name: str = "gpu-a", resource: str = GPU) -> Fact:
    """The kubelet has taken the plugin's registration."""
    return Fact(
        stamp=world.stamp(name),
        id=f"{at_s}",
        kind=FactKind.REGISTERED,
        at_ns=int(at_s * SECOND),
        sentence="",
        resource=resource,
    )


def failed(
    message: str, *facts: Fact, view: NodeView | None = None, reason: str = ADMISSION
) -> Verdict:
    """The verdict on a pod that gpu-a has refused at second 100."""
    waits = pod(
        phase="Failed", node="gpu-a", reason=reason, message=message, failed_ns=100 * SECOND
    )
    return judged(waits, {"gpu-a": view or node(free=8)}, facts)


def judged(waits: WaitingPod, views: dict[str, NodeView], facts: Sequence[Fact]) -> Verdict:
    """The verdict on a pod."""
    waiting = Waiting(stamp=world.stamp("_controller"), pods=(waits,))
    return verdict.Judge(views, waiting, facts).of_pod(waits)


@pytest.mark.parametrize(
    "message",
    [
        NO_DEVICE,
        f"Allocate failed due to cannot allocate unregistered device {GPU}, which is unexpected",
        "Allocate failed due to previously allocated devices are no longer healthy",
        f"Allocate failed due to unknown Device Plugin {GPU}",
    ],
)
def test_admitted_before_the_plugin_was_there(message: str) -> None:
    """U027: the kubelet admits pods of a booted node in whatever order."""
    found = failed(message, registered(40), registered(104), registered(300))
    assert found.reason is Reason.NOT_REGISTERED
    assert found.sentence == (
        "rejected before registration: gpu-a had no plugin for 1 nvidia.com/gpu yet;"
        " 4 s later it had"
    )
    assert message.replace("; ", ", ") in found.hint  # parts of a hint are set apart by "; "
    assert [(each.node, each.free) for each in found.nodes] == [("gpu-a", 8)]


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(registered(90), id="before it"),
        pytest.param(registered(3600), id="long after it"),
        pytest.param(registered(104, name="gpu-b"), id="on another node"),
        pytest.param(registered(104, resource="nvidia.com/gpu.shared"), id="of another resource"),
    ],
)
def test_other_registrations_say_nothing_of_it(fact: Fact) -> None:
    """Then it is only known that the kubelet knew no plugin."""
    found = failed(NO_DEVICE, fact)
    assert found.reason is Reason.NOT_REGISTERED
    assert found.sentence == "refused by gpu-a, whose kubelet knew no plugin of it"


def test_no_healthy_device_because_they_are_sick() -> None:
    """The same sentence of the kubelet, for another cause."""
    found = failed(NO_DEVICE, view=node(unhealthy=4, sick=True))
    assert found.reason is Reason.UNHEALTHY


@pytest.mark.parametrize(
    ("message", "view", "reason"),
    [
        pytest.param(
            "2 slots requested, the limit is 1, because sharing.timeSlicing.x is true",
            node(free=8),
            Reason.REQUEST_TOO_LARGE,
            id="more than one",
        ),
        pytest.param(
            "2 distinct GPUs needed, 1 available", node(free=8), Reason.FRAGMENTED, id="distinct"
        ),
        pytest.param(
            "nvidia.com/gpu has no slot 'x' on this node", node(), Reason.RECONFIGURING, id="gone"
        ),
        pytest.param(
            "slot x is not handed out: sick", node(sick=True), Reason.UNHEALTHY, id="sick"
        ),
        pytest.param(
            "slot x is not handed out: being cut", node(), Reason.RECONFIGURING, id="withheld"
        ),
        pytest.param(
            "requested number of devices unavailable for nvidia.com/gpu. Requested: 1,"
            " Available: 0",
            node(held=["ml/a"]),
            Reason.ALL_HELD,
            id="a scheduler that is late",
        ),
        pytest.param(
            "requested number of devices unavailable for nvidia.com/gpu.",
            node(progress=world.progress("gpu-a", Phase.APPLYING)),
            Reason.RECONFIGURING,
            id="late in a change",
        ),
    ],
)
def test_what_the_plugin_or_the_kubelet_said(message: str, view: NodeView, reason: Reason) -> None:
    """Our own sentences are known, and so are the device manager's."""
    found = failed(message, view=view)
    assert found.reason is reason
    assert "delete it" in found.hint


SHORT = f"Allocate failed due to requested number of devices unavailable for {GPU}. Requested: 1, "


def stale(free: int | None, *facts: Fact, view: NodeView, available: int = 0) -> Verdict:
    """The verdict on a pod that gpu-a has refused with so few available and so many free."""
    waits = pod(
        phase="Failed",
        node="gpu-a",
        reason=ADMISSION,
        message=f"{SHORT}Available: {available}, which is unexpected",
        failed_ns=100 * SECOND,
        free=free,
    )
    return judged(waits, {"gpu-a": view}, facts)


def test_u035_a_kubelet_that_counts_pods_deleted_by_force() -> None:
    """Both slots are free in ledger and pod-resources, and the kubelet knows of none."""
    found = stale(2, view=node(free=2))
    assert found.reason is Reason.KUBELET_STALE
    assert found.sentence == (
        "refused by gpu-a, whose kubelet's table is stale: 2 devices held by unknown pods"
    )
    cure, again, said = found.hint.split("; ")
    assert cure == "restart the kubelet on gpu-a"
    assert "delete it" in again
    assert "Requested: 1, Available: 0" in said
    assert [(each.reason, each.free) for each in found.nodes] == [(Reason.KUBELET_STALE, 2)]


def test_one_device_is_held_by_an_unknown_pod() -> None:
    """What it has besides may be handed out: a pod that asks for less would run."""
    waits = pod(
        2,
        phase="Failed",
        node="gpu-a",
        reason=ADMISSION,
        message=f"{SHORT.replace('1,', '2,')}Available: 1, which is unexpected",
        failed_ns=100 * SECOND,
        free=2,
    )
    found = judged(waits, {"gpu-a": node(free=2)}, ())
    assert found.sentence.endswith("is stale: 1 device held by unknown pods")


def test_a_kubelet_that_has_started_anew_needs_no_restart() -> None:
    """The pod is refused for good all the same."""
    found = stale(2, registered(130), view=node(free=2))
    assert found.sentence == (
        "refused by gpu-a, whose kubelet's table was stale; it has started anew since"
    )
    assert found.hint.startswith("it will not run any more: delete it")


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(registered(90), id="before"),
        pytest.param(registered(130, name="gpu-b"), id="on another node"),
        pytest.param(registered(130, resource="nvidia.com/gpu.shared"), id="another resource"),
    ],
)
def test_other_registrations_do_not_mend_a_table(fact: Fact) -> None:
    """Only that of the resource, on the node, after the refusal."""
    assert "is stale" in stale(2, fact, view=node(free=2)).sentence


@pytest.mark.parametrize(
    ("free", "view", "reason"),
    [
        pytest.param(None, node(free=2), Reason.ALL_HELD, id="nobody has seen it"),
        pytest.param(0, node(free=2), Reason.ALL_HELD, id="freed afterwards"),
        pytest.param(
            2,
            node(free=2, progress=world.progress("gpu-a", Phase.APPLYING)),
            Reason.RECONFIGURING,
            id="in a change",
        ),
    ],
)
def test_a_refusal_that_has_another_cause(free: int | None, view: NodeView, reason: Reason) -> None:
    """A restart of the kubelet is advised only where nothing else explains it."""
    assert stale(free, view=view).reason is reason


def test_out_of_a_resource_is_a_refusal_too() -> None:
    """The kubelet's own check of what fits, before it asks for devices."""
    found = failed("Node didn't have enough resource", reason=f"OutOf{GPU}")
    assert found.reason is Reason.ALL_HELD


@pytest.mark.parametrize("reason", ["Evicted", "", "Error"])
def test_a_pod_that_ran_and_failed(reason: str) -> None:
    """Its end is its own."""
    found = failed("it was too much", reason=reason)
    assert found.reason is Reason.NOT_OURS
    assert "it was too much" in found.sentence


def test_a_node_that_nobody_knows_any_more() -> None:
    """The pod is still there to be asked about."""
    waits = pod(phase="Failed", node="gone", reason=ADMISSION, message=NO_DEVICE)
    found = judged(waits, {}, ())
    assert (found.reason, found.nodes) == (Reason.NOT_REGISTERED, ())
