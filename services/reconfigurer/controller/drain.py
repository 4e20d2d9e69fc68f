"""The controller's part of MIG changes: looks at changing nodes and does what `prepare` says.

Only nodes that change, or that carry something of ours, are read, each once a second and when the
agent speaks: serial per node, parallel across nodes. `term` feeds it with what agents say, and
takes outcomes from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from services.reconfigurer.controller import (
    diary,
    draining,
    evicting,
    eviction,
    fleet,
    kube,
    prepare,
    saying,
    snapshot,
)
from services.reconfigurer.controller.attempt import Next, Policy, View
from services.reconfigurer.controller.changes import Change, Changes
from services.reconfigurer.controller.eviction import Later, Pod
from services.reconfigurer.controller.outcome import Outcome
from services.reconfigurer.controller.prepare import Stage
from shared.bus.state import Received
from shared.contract import messages, names
from shared.contract.messages import Intent, Progress
from shared.runtime import clock
from shared.telemetry import spans

LOOK_S = 1.0
SOON_S = 0.1  # after a write, ours or somebody else's
LOOKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where decisions go: all calls are synchronous and queue."""

    publish: Callable[[str, Intent, str], None]  # node, intent, traceparent
    say: Callable[[saying.Say], None]
    told: Callable[[str, str], None]  # node whose outcome has changed, traceparent


class Drain:
    """Works on every node whose geometry changes, until it is left as it was found."""

    def __init__(
        self,
        api: kube.Kube,
        fleet_: fleet.Fleet,
        policy: Policy,
        outlets: Outlets,
        telemetry: spans.Telemetry,
    ) -> None:
        self._api = api
        self._fleet = fleet_
        self._outlets = outlets
        self._telemetry = telemetry
        self._changes = Changes(fleet_, policy)
        self._diary = diary.Diary(fleet_)
        self._woken = asyncio.Event()
        self._room = asyncio.Semaphore(LOOKS_AT_ONCE)

    # ------------------------------------------------------------------ what has changed

    def progress_seen(self, name: str, received: Received[Progress]) -> None:
        """Take what a node's agent says."""
        self._fleet.progress[name] = received
        change = self._change(name)
        change.heard_at = clock.loop_time()
        change.news.set()
        self._woken.set()
        self.reconsider(name)

    def reconsider(self, name: str) -> None:
        """Say anew where a node's layout stands: intent, inventory or ledger have changed."""
        wanted = self._fleet.intents.get(name)
        if wanted is None:
            return
        former = self._fleet.outcomes.get(name)
        found = self._changes.outcome(name, clock.loop_time())
        if found != former:
            if found is None:
                del self._fleet.outcomes[name]
            else:
                self._fleet.outcomes[name] = found
                if not wanted.mig_problems:  # a refusal is told with its intent
                    self._tell(name, found)
                    self._diary.became(name, former, found)
            self._outlets.told(name, self._traceparent(name))
            self._woken.set()

    def forget(self, name: str) -> None:
        """Let go of a node that has been gone for long; nobody follows it any more."""
        self._changes.forget(name)

    # ------------------------------------------------------------------ which nodes, and when

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        await self._fleet.complete()
        await self._fleet.progress_read.wait()
        for name in list(self._fleet.intents):
            self.reconsider(name)
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._woken.clear()
                for name in list(self._changes.due(clock.loop_time())):
                    self._change(name).followed = True
                    tasks.create_task(self._follow(name), name=f"change {name}")
                for name in self._changes.queued:
                    self._tell_to_wait(name)
                await clock.sleep(SOON_S)  # a fleet that speaks at once is gone through once
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._woken.wait()

    def _tell_to_wait(self, name: str) -> None:
        """Let people see that a node waits for others; nothing is said again."""
        wanted, received = self._fleet.intents[name], self._fleet.progress.get(name)
        sentence = self._changes.in_line
        if received is None or (wanted.drain and wanted.drain.sentence == sentence):
            return
        self._publish(
            name, wanted, messages.Drain(sentence=sentence, since_ns=received.value.since_ns)
        )
        self.reconsider(name)

    async def _follow(self, name: str) -> None:
        """Look at a node until nothing is to be done there."""
        change = self._change(name)
        try:
            while self._changes.needed(name, clock.loop_time()):
                change.news.clear()
                pause = LOOK_S
                async with self._room:
                    try:
                        pause = await self._look(name, change)
                    except kube.KubeError as error:
                        self._diary.unread(name, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await change.news.wait()
        finally:
            change.followed = False

    # ------------------------------------------------------------------ one look

    async def _look(self, name: str, change: Change) -> float:
        """Look once and act; return when to look again, unless the agent speaks before."""
        found = await self._api.call("GET", f"/api/v1/nodes/{name}")
        view = self._changes.view(name, snapshot.of(found), clock.loop_time())
        stage = prepare.stage_of(view, change.attempt)
        if pods := await self._pods(view, stage):
            view = dataclasses.replace(view, pods=pods)
        if not self._stands(name, view):
            return SOON_S
        step = prepare.decide(view, change.attempt)
        change.attempt = step.attempt
        self._diary.decided(name, change, step)
        self._begin_preparing(change, stage, name)
        if step.patch and not await self._patch(name, view, step):
            return SOON_S
        if step.prepared is not None and self._stands(name, view):
            self._answer(name, view, prepared=step.prepared)
        for pod in step.evict:
            await self._evict(name, pod)
        if stage is Stage.OVER:
            change.differs = prepare.differences(view, step.attempt)
        self._show(name, view, step)
        self.reconsider(name)
        return SOON_S if step.patch else LOOK_S

    def _stands(self, name: str, view: View) -> bool:
        """Whether what was looked at is still what is wanted."""
        return self._fleet.intents.get(name) is view.wanted

    async def _pods(self, view: View, stage: Stage) -> tuple[Pod, ...]:
        """Pods that the decision needs: all of the node before a hold, then those that block."""
        if stage is Stage.PREPARING:
            query = {"fieldSelector": f"spec.nodeName={view.node.name}"}
            listed = await self._api.call("GET", "/api/v1/pods", query=query)
            return tuple(eviction.of(each) for each in listed.get("items") or ())
        if stage is not Stage.HOLDING or view.progress is None:
            return ()
        keys = sorted({holder.pod_key for holder in view.progress.blockers})
        found = [await evicting.read(self._api, key) for key in keys]
        return tuple(pod for pod in found if pod is not None)

    async def _patch(self, name: str, view: View, step: Next) -> bool:
        """Patch exactly the node that was looked at; False where it has changed meanwhile.

        What the node is now comes with the watch, which may be ahead of this answer.
        """
        try:
            await self._api.call(
                "PATCH",
                f"/api/v1/nodes/{name}",
                body=step.patch.body(view.node.version),
                content=kube.MERGE_PATCH,
                accept=kube.METADATA,
            )
        except kube.KubeError as error:
            if not error.conflict:
                raise
            return False
        self._diary.patched(name, step.patch)
        return True

    async def _evict(self, name: str, pod: Pod) -> None:
        step = self._telemetry.begin("evict pod", self._traceparent(name))
        result = await evicting.evict(self._api, pod)
        later = self._change(name).later
        if isinstance(result, Later):
            later[pod.uid] = result
            return
        later.pop(pod.uid, None)
        self._telemetry.end(step, attributes={"node": name, "pod": pod.key})
        self._diary.evicted(name, pod.key, result)
        if result is evicting.Result.EVICTED:
            namespace, _, pod_name = pod.key.partition("/")
            about = saying.About(kind="Pod", namespace=namespace, name=pod_name, uid=pod.uid)
            message = (
                f"Evicted from node {name}: it holds a slot on a GPU that is being cut anew"
                f" for {self._fleet.intents[name].mig_config}."
            )
            self._outlets.say(saying.Say(about=about, reason=names.POD_EVICTED, message=message))

    # ------------------------------------------------------------------ what the agent is told

    def _begin_preparing(self, change: Change, stage: Stage, name: str) -> None:
        if stage is not Stage.PREPARING:
            change.preparing = None
        elif change.preparing is None:
            change.preparing = self._telemetry.begin("prepare node", self._traceparent(name))

    def _answer(self, name: str, view: View, *, prepared: bool) -> None:
        """Write that the agent's demands are met, or that they are no longer."""
        change, demand, wanted = self._change(name), view.progress, view.wanted
        step = change.preparing if prepared else None
        step = step or self._telemetry.begin("withdraw hold", self._traceparent(name))
        answer = dataclasses.replace(
            wanted,
            prepared_for=wanted.stamp.generation if prepared else None,
            prepared_order=demand.order if prepared and demand else 0,
            ended=(),
        )
        self._fleet.intents[name] = answer
        self._outlets.publish(name, answer, step.traceparent)
        change.answered = (wanted.stamp.generation, step.traceparent)
        failure = change.attempt.failure
        error = failure.sentence if failure and not prepared else ""
        self._telemetry.end(step, attributes={"node": name}, error=error)
        change.preparing = None

    def _show(self, name: str, view: View, step: Next) -> None:
        """Let people see with the intent what is waited for, and the agent who has ended.

        What the agent does next goes on from the answer, however often this is said.
        """
        wanted = self._fleet.intents.get(name)
        if wanted is None or wanted.stamp.generation != step.attempt.generation:
            return
        limit_s = view.policy.timeout_s
        now, now_ns = clock.loop_time(), clock.now_ns()
        found = draining.of(step, wanted.drain, limit_s=limit_s, now=now, now_ns=now_ns)
        ended = wanted.ended if step.ended is None else step.ended
        if (found, ended) != (wanted.drain, wanted.ended):
            self._publish(name, dataclasses.replace(wanted, ended=ended), found)

    def _publish(self, name: str, wanted: Intent, found: messages.Drain | None) -> None:
        shown = dataclasses.replace(wanted, drain=found)
        self._fleet.intents[name] = shown
        generation, traceparent = self._change(name).answered
        if generation != wanted.stamp.generation:
            traceparent = self._traceparent(name)
        self._outlets.publish(name, shown, traceparent)

    def _tell(self, name: str, found: Outcome) -> None:
        """Tell of an end in an Event."""
        if node := self._fleet.nodes.get(name):
            for say in found.say(node.about):
                self._outlets.say(say)

    def _traceparent(self, name: str) -> str:
        received = self._fleet.progress.get(name)
        return received.traceparent if received else ""

    def _change(self, name: str) -> Change:
        return self._changes.of(name, clock.loop_time())
