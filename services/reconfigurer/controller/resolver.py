"""Changes of nodes and of the ConfigMaps → intents on the bus, each under a new generation.

`app` feeds it from the watches and runs `run`. What a node shall be is decided in `intent`,
when in `settle`; here stands only what is marked, in which order, and where the spans are made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from services.reconfigurer.controller import (
    fleet,
    generations,
    intent,
    layouts,
    nodes,
    saying,
    settle,
)
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import ConfigState, Intent, MigPolicy, Stamp
from shared.runtime import clock, logs
from shared.sharing import select
from shared.telemetry import catalogue, spans

log = logging.getLogger(__name__)
YIELD_EACH = 50  # nodes decided without a pause for the rest of the process


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where decisions go: all calls are synchronous and queue."""

    publish: Callable[[str, Intent, str], None]  # node, intent, traceparent
    begun: Callable[[str, Intent | None, Intent, int], None]  # former, wanted, ns of the event
    say: Callable[[saying.Say], None]
    want: Callable[[str, nodes.Wanted], None]


@dataclass(frozen=True, slots=True)
class Mig:
    """What the values say of MIG: the layout of nodes without a label, and what agents may do."""

    default: str = ""
    policy: MigPolicy = field(default_factory=MigPolicy)


@dataclass(eq=False, slots=True)
class Change:
    """One event and the nodes that are still to be looked at because of it."""

    step: spans.Step
    by_label: bool
    nodes_left: set[str] = field(default_factory=set)
    generation: Generation | None = None  # given when the first node turns out to change


class Resolver:
    """Keeps the intent of every node of ours equal to what is wanted of it."""

    def __init__(
        self,
        fleet_: fleet.Fleet,
        choice: select.Choice,
        outlets: Outlets,
        telemetry: spans.Telemetry,
        writer: str,
        *,
        mig: Mig | None = None,
    ) -> None:
        self._fleet = fleet_
        self._choice = choice
        self._mig = mig or Mig()
        self._outlets = outlets
        self._telemetry = telemetry
        self._writer = writer
        self._generation = Generation()
        self._open: dict[str, Change] = {}  # by node
        self._due: dict[str, float] = {}  # nodes that wait for their label to settle
        self._labelled_at: dict[str, float] = {}  # last change by label that was applied
        self._woken = asyncio.Event()

    # ------------------------------------------------------------------ what has changed

    def look_at(self, found: Iterable[str], *, by_label: bool) -> None:
        """Mark nodes to be resolved anew because of one event, which happens now."""
        ours = [name for name in found if self._fleet.ours(name)]
        if not ours:
            return
        change = Change(self._telemetry.begin("change config"), by_label)
        for name in ours:
            self._forget(name)
            self._open[name] = change
            change.nodes_left.add(name)
        self._woken.set()

    def _forget(self, name: str) -> None:
        """The node needs no more looking at for the event that marked it."""
        self._due.pop(name, None)
        change = self._open.pop(name, None)
        if change is None:
            return
        change.nodes_left.discard(name)
        if not change.nodes_left and change.generation is not None:
            cause = "label" if change.by_label else "ConfigMap"
            self._telemetry.end(
                change.step,
                attributes={"cause": cause, "generation": str(change.generation)},
            )

    def forget(self, name: str) -> None:
        """Let go of a node that has been gone for long: it comes back as a new one, or never."""
        self._forget(name)
        self._labelled_at.pop(name, None)

    # ------------------------------------------------------------------ what follows

    async def run(self, transitions: int) -> NoReturn:
        """Resolve what was marked, until cancelled."""
        await self._fleet.complete()
        self._generation = generations.first(transitions, self._fleet.generations_in_use())
        self.look_at(list(self._fleet.nodes), by_label=False)
        while True:
            await self._marked()
            now = clock.loop_time()
            ready = [name for name in self._open if self._due.get(name, now) <= now]
            for number, name in enumerate(ready, start=1):
                if name in self._open:
                    self._look(name, clock.loop_time())
                if number % YIELD_EACH == 0:
                    await clock.sleep(0)

    async def _marked(self) -> None:
        """Wait for a mark, or until a label has settled."""
        until = min(self._due.values(), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._woken.wait()
        self._woken.clear()

    def _look(self, name: str, now: float) -> None:
        node = self._fleet.nodes.get(name)
        if node is None:
            self._forget(name)
            return
        change = self._open[name]
        serving = self._fleet.intents.get(name)
        began = clock.now_ns()
        inventory = self._fleet.inventories.get(name)
        gpus = inventory.gpus if inventory else ()
        mig = self._layout(node, serving)
        found = intent.resolve(node, gpus, self._fleet.config_map, self._choice, serving, mig=mig)
        decision = settle.decide(
            same=intent.same(found, serving) and self._stands(node, serving),
            by_label=change.by_label,
            last_by_label=self._labelled_at.get(name),
            now=now,
        )
        if isinstance(decision, settle.Wait):
            self._due[name] = decision.until
            return
        if isinstance(decision, settle.Apply):
            self._apply(node, found, change, began)
            if change.by_label:
                self._labelled_at[name] = now
        self._forget(name)

    def _layout(self, node: nodes.Node, serving: Intent | None) -> layouts.Layout:
        text = (self._fleet.mig_map.data or {}).get(layouts.TEXT_KEY)
        label = node.labels.get(names.MIG_CONFIG_LABEL)
        return layouts.wanted(label, self._mig.default, text, serving)

    def _stands(self, node: nodes.Node, serving: Intent | None) -> bool:
        """Whether what is wanted beside texts and labels is in the intent."""
        return serving is not None and (serving.mig_policy, serving.clear_health) == (
            self._mig.policy,
            node.clear_health,
        )

    def _apply(
        self, node: nodes.Node, found: intent.Resolution, change: Change, began: int
    ) -> None:
        if change.generation is None:
            change.generation = self._generation = self._generation.next()
        parent = change.step.traceparent
        resolving = self._telemetry.begin("resolve config", parent, start_ns=began)
        refused = found.state is ConfigState.REFUSED
        self._telemetry.end(
            resolving,
            attributes={
                "node": node.name,
                "key": found.source.key,
                "state": found.state,
                "mig": found.mig.name,
            },
            error=found.message if refused else "",
        )
        publishing = self._telemetry.begin("publish intent", parent)
        wanted = Intent(
            stamp=Stamp(node=node.name, writer=self._writer, generation=change.generation),
            sharing=found.sharing,
            source=found.source,
            state=found.state,
            problems=found.problems,
            refused=found.refused,
            mig_config=found.mig.name,
            mig_rows=found.mig.rows,
            mig_problems=found.mig.problems,
            mig_policy=self._mig.policy,
            clear_health=node.clear_health,
        )
        former = self._fleet.intents.get(node.name)
        self._outlets.begun(node.name, former, wanted, change.step.start_ns)
        self._fleet.intents[node.name] = wanted
        self._outlets.publish(node.name, wanted, publishing.traceparent)
        self._telemetry.end(publishing, attributes={"node": node.name})
        _log(wanted, found, trace=change.step.trace_id)
        annotation = {names.GENERATION_ANNOTATION: str(change.generation)}
        self._outlets.want(node.name, nodes.Wanted(annotations=annotation))
        for say in found.say(node.about):
            self._outlets.say(say)
            if say.warning and say.reason != names.CONFIG_NOT_SELECTED:
                self._telemetry.meters.count(catalogue.REFUSALS, reason=say.reason)


def _log(wanted: Intent, found: intent.Resolution, trace: str) -> None:
    """A line for each node that a change reaches: what it is to be, or why it stays as it is."""
    refused = found.state is ConfigState.REFUSED or bool(found.mig.problems)
    layout = found.mig.message or (f"MIG layout {found.mig.name}" if found.mig.name else "")
    words = "; ".join(part for part in (found.message or "served unshared", layout) if part)
    stamp = wanted.stamp
    told = logs.about(
        node=stamp.node, generation=stamp.generation, state=found.state.value, trace=trace
    )
    log.log(logging.WARNING if refused else logging.INFO, "%s", words, extra=told)
