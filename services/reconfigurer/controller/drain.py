"""The controller's part of MIG changes: looks at changing nodes and does what `prepare` says.

Only nodes that change, or that carry something of ours, are read, each once a second: serial per
node, parallel across nodes. `term` feeds it with what agents say, and takes outcomes from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from services.reconfigurer.controller import (
    evicting,
    eviction,
    fleet,
    kube,
    nodes,
    outcome,
    prepare,
    rollout,
    saying,
    snapshot,
)
from services.reconfigurer.controller.attempt import Attempt, Next, Policy, View
from services.reconfigurer.controller.eviction import Pod
from services.reconfigurer.controller.outcome import Outcome, State
from services.reconfigurer.controller.rollout import Stage
from shared.bus.state import Received
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Intent, Phase, Progress
from shared.runtime import clock
from shared.telemetry import spans

log = logging.getLogger(__name__)

LOOK_S = 1.0
SOON_S = 0.1  # after a write, ours or somebody else's
LOOKS_AT_ONCE = 8
AT_WORK = (Phase.HOLDING, Phase.APPLYING, Phase.REBOOTING)


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where decisions go: all calls are synchronous and queue."""

    publish: Callable[[str, Intent, str], None]  # node, intent, traceparent
    say: Callable[[saying.Say], None]
    told: Callable[[str, str], None]  # node whose outcome has changed, traceparent


@dataclass(eq=False, slots=True)
class _Change:
    """What this process remembers of one node."""

    attempt: Attempt = field(default_factory=Attempt)
    heard_at: float = 0.0  # when the agent last said something
    succeeded_at: float | None = None
    differs: str | None = None  # how allocatable devices differ; None before a look
    later: dict[str, float] = field(default_factory=dict)  # until when budgets refuse, by UID
    preparing: spans.Step | None = None
    failed: Generation | None = None  # the newest generation that has failed here
    news: asyncio.Event = field(default_factory=asyncio.Event)  # the agent has said something
    followed: bool = False


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
        self._policy = policy
        self._outlets = outlets
        self._telemetry = telemetry
        self._changes: dict[str, _Change] = {}
        self._allowed: frozenset[str] = frozenset()
        self._woken = asyncio.Event()
        self._room = asyncio.Semaphore(LOOKS_AT_ONCE)

    # ------------------------------------------------------------------ what has changed

    def progress_seen(self, name: str, received: Received[Progress]) -> None:
        """Take what a node's agent says."""
        self._fleet.progress[name] = received
        change = self._change(name)
        change.heard_at = clock.loop_time()
        change.news.set()
        self.reconsider(name)

    def reconsider(self, name: str) -> None:
        """Say anew where a node's layout stands: intent, inventory or ledger have changed."""
        wanted = self._fleet.intents.get(name)
        if wanted is None:
            return
        found = self._outcome(name, wanted)
        if found != self._fleet.outcomes.get(name):
            if found is None:
                self._fleet.outcomes.pop(name, None)
            else:
                self._fleet.outcomes[name] = found
                self._tell(name, wanted, found)
            self._outlets.told(name, self._traceparent(name))
        self._woken.set()

    def _tell(self, name: str, wanted: Intent, found: Outcome) -> None:
        node, change = self._fleet.nodes.get(name), self._change(name)
        if found.state is State.FAILED and not wanted.mig_problems:
            change.failed = found.generation
        elif found.state is State.SUCCESS:
            change.failed = None
        if node is not None and not wanted.mig_problems:  # a refusal is told with its intent
            for say in found.say(node.about):
                self._outlets.say(say)

    def _outcome(self, name: str, wanted: Intent) -> Outcome | None:
        change, received = self._change(name), self._fleet.progress.get(name)
        progress = received.value if received else None
        now = clock.loop_time()
        self._note_success(name, wanted, progress, now)
        attempt = change.attempt
        failure = attempt.failure if attempt.generation == wanted.stamp.generation else None
        waited = now - change.succeeded_at if change.succeeded_at is not None else 0.0
        found = outcome.of(wanted, progress, failure, change.differs, waited)
        former = self._fleet.outcomes.get(name)
        return former if former and outcome.goes_on(former, found, wanted) else found

    def _note_success(
        self, name: str, wanted: Intent, progress: Progress | None, now: float
    ) -> None:
        """Begin to compare allocatable devices when the agent says that the layout stands."""
        change = self._change(name)
        generation = wanted.stamp.generation
        stands = progress is not None and progress.stamp.generation == generation
        if progress is None or not stands or progress.phase is not Phase.SUCCESS:
            change.succeeded_at = change.differs = None
        elif change.succeeded_at is None:
            change.succeeded_at = now
            node = self._fleet.nodes.get(name)
            if node and outcome.told(node, State.SUCCESS, generation):
                change.differs = ""  # a leader before us has looked

    # ------------------------------------------------------------------ which nodes, and when

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        await self._fleet.complete()
        await self._fleet.progress_read.wait()
        for name in list(self._fleet.intents):
            self.reconsider(name)
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._allowed = rollout.may_start(self._stages(), self._policy.max_unavailable)
                for name in self._due():
                    self._change(name).followed = True
                    tasks.create_task(self._follow(name), name=f"change {name}")
                self._woken.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._woken.wait()

    def _due(self) -> list[str]:
        known = [name for name in self._fleet.intents if name in self._fleet.nodes]
        return [name for name in known if not self._change(name).followed and self._needed(name)]

    def _needed(self, name: str) -> bool:
        """Whether a node has to be looked at now."""
        node, wanted = self._fleet.nodes.get(name), self._fleet.intents.get(name)
        if node is None or wanted is None:
            return False
        if prepare.marked(node.annotations):
            return True
        received, change = self._fleet.progress.get(name), self._change(name)
        if received is None:
            return False
        phase = received.value.phase
        if phase is Phase.PREPARE:
            view = self._view(name, wanted, snapshot.Snapshot(name=name))
            return prepare.stage_of(view, change.attempt) is prepare.Stage.PREPARING
        return phase is Phase.HOLDING or (phase is Phase.SUCCESS and change.differs != "")

    def _stages(self) -> dict[str, Stage]:
        return {
            name: self._stage(name, wanted)
            for name, wanted in self._fleet.intents.items()
            if wanted.mig_config and name in self._fleet.nodes
        }

    def _stage(self, name: str, wanted: Intent) -> Stage:
        change, received = self._change(name), self._fleet.progress.get(name)
        generation = wanted.stamp.generation
        node = self._fleet.nodes[name]
        if change.failed == generation or outcome.told(node, State.FAILED, generation):
            return Stage.FAILED
        if prepare.marked(node.annotations) or change.attempt.goes_on:
            return Stage.BEGUN
        if received is None or received.value.stamp.generation != generation:
            return Stage.SETTLED
        if wanted.prepared_for == generation and received.value.phase is not Phase.SUCCESS:
            return Stage.BEGUN
        if received.value.phase in AT_WORK:
            return Stage.BEGUN
        return Stage.WAITING if received.value.phase is Phase.PREPARE else Stage.SETTLED

    # ------------------------------------------------------------------ one node

    async def _follow(self, name: str) -> None:
        """Look at a node until nothing is to be done there."""
        change = self._change(name)
        try:
            while self._needed(name):
                change.news.clear()
                pause = LOOK_S
                async with self._room:
                    try:
                        pause = await self._look(name)
                    except kube.KubeError as error:
                        log.warning("change of node %s: %s; looking again", name, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await change.news.wait()
        finally:
            change.followed = False

    async def _look(self, name: str) -> float:
        """Look once and act; return when to look again, unless the agent speaks before."""
        wanted = self._fleet.intents[name]
        change = self._change(name)
        found = await self._api.call("GET", f"/api/v1/nodes/{name}")
        view = self._view(name, wanted, snapshot.of(found))
        stage = prepare.stage_of(view, change.attempt)
        if pods := await self._pods(view, stage):
            view = dataclasses.replace(view, pods=pods)
        if self._fleet.intents.get(name) is not wanted:
            return SOON_S  # another wish has come meanwhile
        step = prepare.decide(view, change.attempt)
        change.attempt = step.attempt
        if step.waits:
            log.info("change of node %s: %s", name, step.waits)
        self._begin_preparing(change, stage, name)
        if step.patch and not await self._patch(name, view, step):
            return SOON_S
        if step.prepared is not None and self._fleet.intents.get(name) is wanted:
            self._answer(name, wanted, view, prepared=step.prepared)
        for pod in step.evict:
            await self._evict(name, pod)
        if stage is prepare.Stage.OVER:
            change.differs = prepare.differences(view, step.attempt)
        self.reconsider(name)
        return SOON_S if step.patch else LOOK_S

    def _view(self, name: str, wanted: Intent, node: snapshot.Snapshot) -> View:
        change, received = self._change(name), self._fleet.progress.get(name)
        now = clock.loop_time()
        return View(
            wanted=wanted,
            progress=received.value if received else None,
            node=node,
            policy=self._policy,
            now=now,
            manager=kube.AGENT,
            silent_s=now - change.heard_at,
            ledger=self._fleet.ledgers.get(name),
            inventory=self._fleet.inventories.get(name),
            allowed=name in self._allowed,
            later=change.later,
        )

    async def _pods(self, view: View, stage: prepare.Stage) -> tuple[Pod, ...]:
        """Pods that the decision needs: all of the node before a hold, then those that block."""
        if stage is prepare.Stage.PREPARING:
            query = {"fieldSelector": f"spec.nodeName={view.node.name}"}
            listed = await self._api.call("GET", "/api/v1/pods", query=query)
            return tuple(eviction.of(each) for each in listed.get("items") or ())
        if stage is not prepare.Stage.HOLDING or view.progress is None:
            return ()
        keys = sorted({holder.pod_key for holder in view.progress.blockers})
        found = [await self._pod(*key.split("/", 1)) for key in keys]
        return tuple(pod for pod in found if pod is not None)

    async def _pod(self, namespace: str, name: str) -> Pod | None:
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            return eviction.of(await self._api.call("GET", path))
        except kube.KubeError as error:
            if not error.missing:
                raise
            return None

    async def _patch(self, name: str, view: View, step: Next) -> bool:
        """Patch exactly the node that was looked at; False where it has changed meanwhile."""
        try:
            found = await self._api.call(
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
        self._fleet.nodes[name] = nodes.node_of(found)
        return True

    async def _evict(self, name: str, pod: Pod) -> None:
        evicting_pod = self._telemetry.begin("evict pod", self._traceparent(name))
        result = await evicting.evict(self._api, pod)
        if isinstance(result, float):
            self._change(name).later[pod.uid] = clock.loop_time() + result
            log.info("pod %s may not be evicted now: a budget says so", pod.key)
            return
        self._telemetry.end(evicting_pod, attributes={"node": name, "pod": pod.key})
        if result is evicting.Result.EVICTED:
            namespace, _, pod_name = pod.key.partition("/")
            about = saying.About(kind="Pod", namespace=namespace, name=pod_name, uid=pod.uid)
            message = (
                f"Evicted from node {name}: it holds a slot on a GPU that is being cut anew"
                f" for {self._fleet.intents[name].mig_config}."
            )
            self._outlets.say(saying.Say(about=about, reason=names.POD_EVICTED, message=message))

    # ------------------------------------------------------------------ what the agent is told

    def _begin_preparing(self, change: _Change, stage: prepare.Stage, name: str) -> None:
        if stage is not prepare.Stage.PREPARING:
            change.preparing = None
        elif change.preparing is None:
            parent = self._traceparent(name)
            change.preparing = self._telemetry.begin("prepare node", parent)

    def _answer(self, name: str, wanted: Intent, view: View, *, prepared: bool) -> None:
        """Write that the agent's demands are met, or that they are no longer."""
        change, demand = self._change(name), view.progress
        step = change.preparing if prepared else None
        step = step or self._telemetry.begin("withdraw hold", self._traceparent(name))
        answer = dataclasses.replace(
            wanted,
            prepared_for=wanted.stamp.generation if prepared else None,
            prepared_order=demand.order if prepared and demand else 0,
        )
        self._fleet.intents[name] = answer
        self._outlets.publish(name, answer, step.traceparent)
        failure = change.attempt.failure
        error = failure.sentence if failure and not prepared else ""
        self._telemetry.end(step, attributes={"node": name}, error=error)
        change.preparing = None

    def _traceparent(self, name: str) -> str:
        received = self._fleet.progress.get(name)
        return received.traceparent if received else ""

    def _change(self, name: str) -> _Change:
        if name not in self._changes:
            self._changes[name] = _Change(heard_at=clock.loop_time())
        return self._changes[name]
