"""When a refusal shows that a kubelet's table is stale: enough was free all the time around it."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import refusals
from shared.contract.facts import Fact, FactKind
from shared.contract.messages import DeviceCounts, Ledger, SlotCounts
from shared.contract.waiting import StaleTable, WaitingPod
from tests.unit.waiting import world
from tests.unit.waiting.world import GPU, SHARED

S = 10**9
NODE = "gpu-a"


def ledger(free: int, resource: str = GPU) -> Ledger:
    """A node's, with its free slots on two GPUs."""
    counts = (SlotCounts(free=free - free // 2), SlotCounts(free=free // 2))
    return Ledger(
        stamp=world.stamp(NODE),
        rows=(),
        counts=tuple(
            DeviceCounts(gpu_uuid=f"GPU-{number}", resource=resource, counts=each)
            for number, each in enumerate(counts)
        ),
    )


def refused(uid: str = "1", *, at_s: int = 100, available: int = 0) -> WaitingPod:
    """A pod that the kubelet has refused one slot."""
    return world.pod(
        uid=uid,
        phase="Failed",
        node=NODE,
        reason="UnexpectedAdmissionError",
        message=f"requested number of devices unavailable for {GPU}."
        f" Requested: 1, Available: {available}",
        failed_ns=at_s * S,
    )


def weighed(*ledgers: tuple[int, int], pod: WaitingPod | None = None) -> dict[str, int]:
    """What had been free for a pod that failed at second 100; ledgers are (second, free)."""
    found = refusals.Refusals()
    told = False
    for at_s, free in ledgers:
        if at_s > 100 and not told:
            found.seen(pod or refused(), 100 * S)
            told = True
        found.vacancies.seen(NODE, ledger(free), at_s * S)
    if not told:
        found.seen(pod or refused(), 100 * S)
    return found.weighed(103 * S)


@pytest.mark.parametrize(
    ("ledgers", "free"),
    [
        pytest.param([(10, 2)], 2, id="free for long"),
        pytest.param([(10, 2), (20, 1), (60, 1), (90, 2)], 1, id="the fewest of half a minute"),
        pytest.param([(10, 0), (90, 2)], 0, id="freed just before"),
        pytest.param([(10, 2), (101, 1)], 1, id="granted to another, told a second later"),
        pytest.param([(10, 0), (102, 2)], 0, id="freed just after"),
        pytest.param([(90, 2)], None, id="not known for long enough"),
        pytest.param([], None, id="not known at all"),
    ],
)
def test_what_counts_is_the_fewest_that_were_free_around_it(
    ledgers: list[tuple[int, int]], free: int | None
) -> None:
    """A pod that has just ended is in the kubelet's table by right."""
    assert weighed(*ledgers) == ({} if free is None else {"1": free})


def test_a_refusal_is_weighed_once_and_not_too_soon() -> None:
    """The grant that explains it may be on its way."""
    found = refusals.Refusals()
    found.vacancies.seen(NODE, ledger(2), 0)
    found.seen(refused(), 100 * S)
    assert found.weighed(102 * S) == {}
    assert found.weighed(103 * S) == {"1": 2}
    assert found.weighed(104 * S) == {}


def test_a_pod_that_failed_for_another_cause_is_not_weighed() -> None:
    pod = dataclasses.replace(refused(), message="OOMKilled")
    assert weighed((10, 2), pod=pod) == {}


def test_a_resource_that_is_offered_no_longer_has_nothing_free() -> None:
    vacancies = refusals.Vacancies()
    vacancies.seen(NODE, ledger(2), 0)
    vacancies.seen(NODE, ledger(4, SHARED), 10 * S)
    assert (vacancies.now(NODE, GPU), vacancies.now(NODE, SHARED)) == (0, 4)


def test_what_nobody_asks_about_any_more_is_forgotten() -> None:
    """A node whose slots come and go costs no more than one that rests."""
    vacancies = refusals.Vacancies()
    for second in range(5000):
        vacancies.seen(NODE, ledger(second % 2), second * S)
    assert vacancies.least(NODE, GPU, 4000 * S) is None
    assert vacancies.least(NODE, GPU, 4990 * S) == 0
    vacancies.forget(NODE)
    assert vacancies.now(NODE, GPU) == 0


def tables(
    *pods: WaitingPod, free: int = 2, restarted_s: int | None = None, now_s: int = 200
) -> list[tuple[str, str, int]]:
    """Whose tables are stale."""
    vacancies = refusals.Vacancies()
    vacancies.seen(NODE, ledger(free), 0)
    facts = []
    if restarted_s is not None:
        stamp, kind = world.stamp(NODE), FactKind.REGISTERED
        at_ns = restarted_s * S
        facts = [Fact(stamp=stamp, id="r", kind=kind, at_ns=at_ns, sentence="", resource=GPU)]
    suspects = refusals.suspects(pods, now_s * S)
    found: list[StaleTable] = list(refusals.tables(suspects, facts, vacancies))
    return [(each.node, each.resource, each.devices) for each in found]


def seen(pod: WaitingPod, free: int = 2) -> WaitingPod:
    """A refused pod that has been weighed."""
    return dataclasses.replace(pod, free=free)


def test_the_newest_refusal_says_how_many_devices_are_held_by_nobody() -> None:
    found = tables(seen(refused("1")), seen(refused("2", at_s=150), free=1))
    assert found == [(NODE, GPU, 1)]


@pytest.mark.parametrize(
    ("pods", "more"),
    [
        pytest.param([refused()], {}, id="a refusal that nobody has weighed"),
        pytest.param([seen(refused(), free=0)], {}, id="a refusal with reason"),
        pytest.param([seen(refused())], {"restarted_s": 120}, id="restarted since"),
        pytest.param([seen(refused())], {"free": 1}, id="handed out since"),
        pytest.param([seen(refused())], {"now_s": 2000}, id="long ago"),
    ],
)
def test_a_table_that_is_not_stale_now(pods: list[WaitingPod], more: dict[str, int]) -> None:
    assert tables(*pods, **more) == []
