"""Follows the pods that do not run, tells the bus of them, and reminds those that wait for long.

`term` runs one `Watching`. Bursts of pods are told together; while anything waits, the verdicts are
looked at again from time to time, because nodes change as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from services.reconfigurer.controller import (
    census,
    fleet,
    kube,
    measures,
    pods,
    refusals,
    saying,
    snapshot,
    standing,
    watch,
)
from services.reconfigurer.controller.pods import Seen
from services.reconfigurer.controller.snapshot import Snapshot
from shared.bus import errors, logs
from shared.bus.connection import Bus
from shared.bus.state import StateWriter
from shared.contract import table
from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Ledger
from shared.contract.waiting import StaleTable, Waiting, WaitingPod
from shared.runtime import clock
from shared.telemetry.catalogue import Sample
from shared.waiting.reasons import Finding, Reason, Verdict
from shared.waiting.verdict import Judge

log = logging.getLogger(__name__)

PODS = watch.Feed(
    says="pods that do not run",
    path="/api/v1/pods",
    field_selector="status.phase!=Running,status.phase!=Succeeded",
)
TOGETHER_S = 0.2  # pods of a burst are told together
PAUSE = 4.0  # times as long as it took to compose and judge: other work has most of the time
LOOK_EVERY_S = 5.0  # while something waits
MOST_LOOKED_AT = 4  # nodes a look
BOUND_SOON_NS = 3 * 10**9  # a pod younger than this may be bound any moment
MOST_REMINDED = 20  # pods a look: a storm of pods is told little by little
ODD = frozenset({Reason.NOT_OURS, Reason.NOT_REGISTERED})


class Watching:
    """One leader's. `say` posts an Event; a pod is reminded after `after_s`, 0 for never."""

    def __init__(
        self,
        api: kube.Kube,
        bus: Bus,
        fleet_: fleet.Fleet,
        say: Callable[[saying.Say], None],
        after_s: float,
    ) -> None:
        self._api = api
        self._bus = bus
        self._fleet = fleet_
        self._say = say
        self._after_s = after_s
        self._stamp = bus.stamp(table.CONTROLLER_PLACE)
        self._writer: StateWriter[Waiting] = StateWriter(
            bus, table.bucket("waiting"), table.CONTROLLER_PLACE
        )
        self._seen: dict[str, Seen] = {}  # by UID
        self._looked_at: dict[str, Snapshot] = {}
        self._look_again_at = 0.0
        self._said: frozenset[str] = frozenset()
        self._found: tuple[tuple[WaitingPod, Verdict], ...] = ()
        self._refusals = refusals.Refusals()
        self._stale: tuple[StaleTable, ...] = ()
        self._listed = asyncio.Event()
        self._woken = asyncio.Event()

    # ------------------------------------------------------------------ what the watch says

    def replaced(self, objects: list[kube.Json]) -> None:
        """Take all pods that do not run."""
        before = self._seen
        self._seen = {}
        for found in objects:
            self._keep(found, before)
        self._listed.set()
        self._woken.set()

    def changed(self, found: kube.Json) -> None:
        """Take one that is new or different."""
        self._keep(found, self._seen)
        self._woken.set()

    def gone(self, found: kube.Json) -> None:
        """Forget one: it runs, has succeeded or is no more."""
        self._seen.pop(found["metadata"]["uid"], None)
        self._woken.set()

    def reconsider(self) -> None:
        """A node is cordoned, or its change has come further."""
        if self._seen:
            self._woken.set()

    def ledger_seen(self, node: str, ledger: Ledger) -> None:
        """Take a node's newest ledger: what is free when a kubelet refuses a pod."""
        self._refusals.vacancies.seen(node, ledger, clock.now_ns())

    def forget(self, node: str) -> None:
        """Let go of a node that has been gone for long."""
        self._refusals.vacancies.forget(node)

    def samples(self) -> Iterator[Sample]:
        """Count pods by reason, and what they wait for; a thread of the meters' reader calls it."""
        return itertools.chain(measures.waiting(self._found), measures.stale(self._stale))

    def _keep(self, found: kube.Json, before: dict[str, Seen]) -> None:
        uid, now_ns = found["metadata"]["uid"], clock.now_ns()
        former = before.get(uid)
        seen = pods.of(found, (former.pod.failed_ns if former else 0) or now_ns)
        if former is not None and former.pod.failed:
            seen = _with_free(seen, former.pod.free)
        elif seen.pod.failed and self._listed.is_set():  # before our eyes
            self._refusals.seen(seen.pod, now_ns)
        self._seen[uid] = seen

    # ------------------------------------------------------------------ what follows

    async def run(self) -> NoReturn:
        """Tell until cancelled."""
        await self._fleet.complete()
        await self._listed.wait()
        self._note({pod.uid: pod.free for pod in await standing.waiting(self._bus)})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writer.run(), name="write waiting pods")
            while True:
                self._woken.clear()
                began = clock.loop_time()
                self._weigh()
                told = census.compose(
                    self._stamp, self._seen.values(), self._fleet, self._looked_at
                )
                suspects = refusals.suspects(told.pods, clock.now_ns())
                self._stale = await self._stale_tables(suspects)
                self._writer.put(dataclasses.replace(told, stale=self._stale))
                self._found = await self._judge(told)
                spent = clock.loop_time() - began
                self._remind([*self._found, *self._refused(told, suspects)])
                await self._look_closer(self._found)
                await clock.sleep(max(TOGETHER_S, PAUSE * spent))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S if told.pods else None):
                        await self._woken.wait()

    async def _judge(self, told: Waiting) -> tuple[tuple[WaitingPod, Verdict], ...]:
        """Say why each pod waits that asks for something of ours, and ask for that alone."""
        judge = Judge(census.views(self._fleet, told), told)
        found: list[tuple[WaitingPod, Verdict]] = []
        for pod in told.pods:
            if not pod.failed and (mine := judge.ours(pod)):
                found.append((dataclasses.replace(pod, requests=mine), judge.of_pod(pod)))
                await clock.sleep(0)  # a kind of pod that is new takes a while in a large fleet
        return tuple(found)

    def _weigh(self) -> None:
        """Note with the pods that were refused a while ago what had been free for them."""
        self._note(self._refusals.weighed(clock.now_ns()))

    def _note(self, free: Mapping[str, int | None]) -> None:
        for uid, slots in free.items():
            if seen := self._seen.get(uid):
                self._seen[uid] = _with_free(seen, slots)

    async def _stale_tables(self, suspects: Sequence[WaitingPod]) -> tuple[StaleTable, ...]:
        """Say which kubelets go on refusing what is free: those that have not been restarted."""
        facts: list[Fact] = []
        try:
            for node in {pod.node for pod in suspects}:
                facts += await logs.read_facts(self._bus, node=node, kind=FactKind.REGISTERED)
        except errors.BusError as error:
            log.debug("registrations of nodes: %s", error)
        return tuple(refusals.tables(suspects, facts, self._refusals.vacancies))

    def _refused(
        self, told: Waiting, suspects: Sequence[WaitingPod]
    ) -> Iterator[tuple[WaitingPod, Verdict]]:
        """Say of pods that a stale table has refused what `slicewire why` says."""
        if suspects:
            judge = Judge(census.views(self._fleet, told), told)
            yield from ((pod, judge.of_pod(pod)) for pod in suspects)

    def _remind(self, found: Iterable[tuple[WaitingPod, Verdict]]) -> None:
        if not self._after_s:
            return
        now_ns = clock.now_ns()
        due = {
            say.event_name: say
            for pod, verdict in found
            if (say := census.reminder(pod, verdict, now_ns, self._after_s))
        }
        new = [name for name in due if name not in self._said][:MOST_REMINDED]
        for name in new:
            self._say(due[name])
        self._said = self._said.intersection(due).union(new)

    async def _look_closer(self, found: Iterable[tuple[WaitingPod, Verdict]]) -> None:
        """Read the few nodes that have what a pod waits for: are they closed, or not reported?"""
        wanted = self._odd_nodes(found)
        if set(wanted) <= self._looked_at.keys() and clock.loop_time() < self._look_again_at:
            return
        self._look_again_at = clock.loop_time() + LOOK_EVERY_S
        before, self._looked_at = self._looked_at, {}
        for name in wanted:
            try:
                node = await self._api.call("GET", f"/api/v1/nodes/{name}")
            except kube.KubeError as error:
                log.debug("node %s is not looked at: %s", name, error)
            else:
                self._looked_at[name] = snapshot.of(node)
        if _says(before) != _says(self._looked_at):
            self._woken.set()

    def _odd_nodes(self, found: Iterable[tuple[WaitingPod, Verdict]]) -> list[str]:
        """Nodes that seem to have what is waited for, by how many pods wait for it."""
        now_ns, odd = clock.now_ns(), Counter[str]()
        for pod, verdict in found:
            if now_ns - pod.created_ns > BOUND_SOON_NS:
                odd.update(
                    each.node for each in verdict.nodes if each.reason in ODD or self._is_late(each)
                )
        return [name for name, _ in odd.most_common(MOST_LOOKED_AT)]

    def _is_late(self, found: Finding) -> bool:
        """Whether a look has shown that the kubelet has yet to report: the next one may end it."""
        return found.reason is Reason.RECONFIGURING and found.node in self._looked_at


def _says(looked_at: Mapping[str, Snapshot]) -> object:
    return {name: (each.unschedulable, dict(each.allocatable)) for name, each in looked_at.items()}


def _with_free(seen: Seen, free: int | None) -> Seen:
    """A refused pod with what had been free for it."""
    return dataclasses.replace(seen, pod=dataclasses.replace(seen.pod, free=free))
