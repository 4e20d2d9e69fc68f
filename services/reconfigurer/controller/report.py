"""What nodes say on the bus → labels, conditions, and Events about health.

Labels are written once the inventory answers the newest intent, in one patch with the annotation
that names the generation: labels and slots always come from the same inventory. While the GPUs of
a node are cut anew its labels stay; the new ones come with `mig.config.state` success.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from services.reconfigurer.controller import (
    conditions,
    configured,
    daemons,
    fleet,
    health,
    nodes,
    outcome,
    saying,
)
from services.reconfigurer.controller.outcome import State
from shared.contract import names
from shared.contract.messages import Inventory, Ledger, Phase
from shared.sharing import features, labels
from shared.telemetry import catalogue, spans

MOST_NAMED = 3  # labels in a span


class Report:
    """Tells Kubernetes what the nodes have become."""

    def __init__(
        self,
        fleet_: fleet.Fleet,
        say: Callable[[saying.Say], None],
        want: Callable[[str, nodes.Wanted], None],
        telemetry: spans.Telemetry,
    ) -> None:
        self._fleet = fleet_
        self._say = say
        self._want = want
        self._telemetry = telemetry
        self._said: dict[str, set[str]] = {}  # by node: names of Events that still hold

    def inventory_seen(self, name: str, inventory: Inventory, traceparent: str) -> None:
        """Take a node's newest inventory."""
        before = self._fleet.inventories.get(name)
        self._fleet.inventories[name] = inventory
        if inventory.problems and (before is None or before.problems != inventory.problems):
            self._telemetry.meters.count(catalogue.REFUSALS, reason=names.CONFIG_REFUSED)
        node = self._fleet.nodes.get(name)
        if node is None:
            return
        if before:
            again = health.recovered(node.about, before, inventory)
            for say in (*again, *daemons.up(node.about, before, inventory)):
                self._say(say)
        self._tell_health(name)
        self.write(name, traceparent)

    def ledger_seen(self, name: str, ledger: Ledger) -> None:
        """Take a node's newest ledger: holders of a sick GPU may be known only now."""
        self._fleet.ledgers[name] = ledger
        self._tell_health(name)

    def node_touched(self, name: str) -> None:
        """Put labels back that somebody else has changed; or the node is here only now."""
        if node := self._fleet.nodes.get(name):
            self._tell_health(name)
            if wish := self._missing(node):
                self._want(name, wish)

    def forget(self, name: str) -> None:
        """Let go of what was said of a node that has been gone for long."""
        self._said.pop(name, None)

    def write(self, name: str, traceparent: str) -> None:
        """Bring labels and conditions to what has become of the node; one patch says all."""
        node = self._fleet.nodes.get(name)
        if node is None:
            return
        if wish := self._missing(node):
            step = self._telemetry.begin("write labels", traceparent)
            attributes = {"node": name, "labels": _changed(node, wish)}
            done = functools.partial(self._telemetry.end, step, attributes=attributes)
            self._want(name, dataclasses.replace(wish, done=(done,)))

    def _tell_health(self, name: str) -> None:
        node, inventory = self._fleet.nodes.get(name), self._fleet.inventories.get(name)
        if node is None or inventory is None:
            return
        ledger = self._fleet.ledgers.get(name)
        sick = health.unhealthy(node.about, inventory, ledger)
        down = daemons.down(node.about, inventory, ledger)
        holds = {say.event_name: say for say in (*sick, *down)}
        said = self._said.get(name, set())
        for event_name, say in holds.items():
            if event_name not in said:
                self._say(say)
        self._said[name] = set(holds)

    def _missing(self, node: nodes.Node) -> nodes.Wanted | None:
        """Labels and conditions of what the node has become, unless it has them."""
        wish = self._of_inventory(node).over(self._of_layout(node))
        wish = dataclasses.replace(wish, conditions=self._conditions(node))
        return wish if nodes.differences(node, wish) else None

    def _of_inventory(self, node: nodes.Node) -> nodes.Wanted:
        """Labels of the node's inventory, unless a newer one is due."""
        inventory = self._fleet.inventories.get(node.name)
        wanted = self._fleet.intents.get(node.name)
        if inventory is None or wanted is None or self._is_cut(node.name):
            return nodes.Wanted()
        generation = inventory.stamp.generation
        if generation != wanted.stamp.generation:
            return nodes.Wanted()  # it answers an older wish
        shown = labels.labels(inventory.gpus, inventory.shares, wanted.sharing.mig_strategy)
        if shown:
            shown |= features.versions(inventory.driver_version, inventory.cuda_version)
        return nodes.Wanted(
            labels=shown | dict.fromkeys(labels.ours(node.labels) - shown.keys()),
            annotations={names.LABELS_GENERATION_ANNOTATION: str(generation)},
        )

    def _of_layout(self, node: nodes.Node) -> nodes.Wanted:
        found = self._fleet.outcomes.get(node.name)
        if found is not None:
            return found.wish
        wanted = self._fleet.intents.get(node.name)
        return outcome.forget(node) if wanted and not wanted.mig_config else nodes.Wanted()

    def _is_cut(self, name: str) -> bool:
        """Whether the node's GPUs are being cut anew, or its kubelet has yet to report them."""
        found, received = self._fleet.outcomes.get(name), self._fleet.progress.get(name)
        if found is None or received is None or found.state is not State.PENDING:
            return False
        return received.value.phase in {Phase.HOLDING, Phase.APPLYING, Phase.SUCCESS}

    def _conditions(self, node: nodes.Node) -> conditions.Conditions:
        wanted = self._fleet.intents.get(node.name)
        if wanted is None:
            return ()
        inventory = self._fleet.inventories.get(node.name)
        return configured.of(wanted, inventory, self._fleet.outcomes.get(node.name))


def _changed(node: nodes.Node, wish: nodes.Wanted) -> str:
    """Name what is written, without its domain; the state of a layout in full."""
    changed = [name for name, value in wish.labels.items() if node.labels.get(name) != value]
    noted = wish.annotations.items()
    changed += [name for name, value in noted if node.annotations.get(name) != value]
    state = wish.labels.get(names.MIG_STATE_LABEL)
    short = [
        f"mig.config.state {state}" if name == names.MIG_STATE_LABEL else name.partition("/")[2]
        for name in changed
    ]
    more = f" and {len(short) - MOST_NAMED} more" if len(short) > MOST_NAMED else ""
    return ", ".join(short[:MOST_NAMED]) + more
