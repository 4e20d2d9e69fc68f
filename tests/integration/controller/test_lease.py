"""Leader election: one works, the others wait; whoever cannot be sure stops at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from services.reconfigurer.controller import lease
from shared.simulation.kube.apiserver import faults, kinds
from tests.integration.controller import cluster
from tests.support import logged
from tests.support.eventually import eventually

DURATION_S = 1.0


@dataclass
class Candidate:
    """A process that wants to lead, and what became of it."""

    name: str
    terms: list[int] = field(default_factory=list)
    leading: bool = False

    async def work(self, transitions: int) -> None:
        self.terms.append(transitions)
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False


@contextlib.asynccontextmanager
async def standing(at: cluster.Cluster, *names: str) -> AsyncIterator[dict[str, Candidate]]:
    """Candidates that stand until the block ends."""
    candidates = {name: Candidate(name) for name in names}
    async with asyncio.TaskGroup() as tasks:
        started = [start(tasks, at, candidate) for candidate in candidates.values()]
        yield candidates
        for task in started:
            task.cancel()


def start(
    tasks: asyncio.TaskGroup, at: cluster.Cluster, candidate: Candidate
) -> asyncio.Task[None]:
    """Let one candidate stand."""
    election = lease.Election(at.api, cluster.NAMESPACE, "leader", candidate.name, DURATION_S)
    return tasks.create_task(election.lead(candidate.work))


async def renewed(at: cluster.Cluster) -> None:
    """Wait for the next renewal."""
    before = at.all(kinds.LEASE)[0]["spec"]["renewTime"]
    await eventually(lambda: at.all(kinds.LEASE)[0]["spec"]["renewTime"] != before)


def leaders(candidates: dict[str, Candidate]) -> list[str]:
    return [name for name, candidate in candidates.items() if candidate.leading]


async def test_one_of_two_leads_and_the_other_waits() -> None:
    """However long they stand, one leads, under a Lease that names it."""
    async with cluster.running() as at, standing(at, "a", "b") as candidates:
        (leader,) = await eventually(lambda: leaders(candidates))
        for _ in range(3):
            await renewed(at)
            assert leaders(candidates) == [leader]
        assert at.all(kinds.LEASE)[0]["spec"]["holderIdentity"] == leader


async def test_a_planned_stop_hands_over_at_once_under_a_higher_term() -> None:
    """The Lease is released, so the successor does not wait for its end."""
    async with cluster.running() as at, asyncio.TaskGroup() as tasks:
        first, second = Candidate("first"), Candidate("second")
        leading = start(tasks, at, first)
        await eventually(lambda: first.leading)
        waiting = start(tasks, at, second)
        leading.cancel()
        await eventually(lambda: second.leading, within=DURATION_S * 0.9)
        assert not first.leading
        assert second.terms[0] > first.terms[0]
        waiting.cancel()


async def test_a_dead_leaders_lease_runs_out_by_the_successors_clock() -> None:
    """A Lease that nobody renews is taken after its duration, whatever times stand in it."""
    async with cluster.running() as at:
        spec = {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 1,
            "leaseTransitions": 4,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        }
        body = {"metadata": {"name": "leader"}, "spec": spec}
        at.server.objects.create(kinds.LEASE, cluster.NAMESPACE, body)
        async with standing(at, "next") as candidates:
            await eventually(lambda: candidates["next"].leading)
            assert candidates["next"].terms == [5]


async def test_a_refused_renewal_is_tried_again_within_the_term() -> None:
    """One 503 ends nothing: the next try comes while the Lease can still be trusted."""
    refusals = [faults.Refuse(503)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return refusals.pop() if call.method == "PUT" and refusals else None

    async with cluster.running(fault=fault) as at, standing(at, "a") as candidates:
        await eventually(lambda: not refusals)
        await renewed(at)
        assert candidates["a"].leading
        assert len(candidates["a"].terms) == 1


async def test_whoever_loses_the_lease_says_what_the_api_server_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Several tries were refused; the last reason stands in the log."""
    refused: list[str] = []

    async def fault(call: faults.Call) -> faults.Fault | None:
        if call.method != "PUT":
            return None
        refused.append(call.path)
        return faults.Refuse(503)

    async with cluster.running(fault=fault) as at, standing(at, "a"):
        await eventually(lambda: logged.lines(caplog, "leads no more"))
        (line,) = logged.lines(caplog, "leads no more")
        assert "could not be renewed in time: " in line.message
        assert not line.message.endswith(": ")
        assert len(refused) > 2


async def test_a_leader_that_cannot_renew_stops_before_its_lease_ends() -> None:
    """With the API server away the work ends; when it is back there is a leader again."""
    async with cluster.running() as at, standing(at, "a") as candidates:
        await eventually(lambda: candidates["a"].leading)
        await at.server.stop()
        await eventually(lambda: not candidates["a"].leading, within=DURATION_S)
        await at.server.start()
        await eventually(lambda: candidates["a"].leading)


async def test_a_leader_whose_lease_was_taken_stops() -> None:
    """Another identity in the Lease ends the work at the next renewal."""
    async with cluster.running() as at, standing(at, "a") as candidates:
        await eventually(lambda: candidates["a"].leading)
        taken = at.all(kinds.LEASE)[0]
        taken["spec"]["holderIdentity"] = "thief"
        at.server.objects.replace(kinds.LEASE, cluster.NAMESPACE, "leader", taken)
        await eventually(lambda: not candidates["a"].leading)


async def test_a_renewal_whose_answer_was_lost_is_still_ours() -> None:
    """The write happened and the answer did not arrive: the leader goes on under the same term."""
    drops = 0

    async def fault(call: faults.Call) -> faults.Fault | None:
        nonlocal drops
        if call.method == "PUT" and drops < 1:
            drops += 1
            return faults.DropAnswer()
        return None

    async with cluster.running(fault=fault) as at, standing(at, "a") as candidates:
        await eventually(lambda: candidates["a"].leading)
        await eventually(lambda: drops)
        await renewed(at)
        assert candidates["a"].leading
        assert len(candidates["a"].terms) == 1
