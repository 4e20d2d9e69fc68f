"""Facts that node services found out → Events: a resource taken over, memory beyond a pod's share.

Node services have no rights in the cluster to say it themselves. Facts are read by direct gets
from time to time: a consumer, or one more key for each node, would cost more than this news. How
old a fact is says the store: a node that has just booted may not know what time it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

from services.reconfigurer.controller import nodes, saying
from shared.bus import errors, logs
from shared.bus.connection import Bus
from shared.contract import names
from shared.contract.facts import Fact, FactKind
from shared.runtime import clock

log = logging.getLogger(__name__)
KINDS = (FactKind.TAKEN_OVER, FactKind.OVER_USE)
LOOK_EVERY_S = 5.0
FRESH_NS = 600 * 10**9  # in the store; older ones were told by the leader before


class Facts:
    """Tells each fact once, when its node is among the `known` ones."""

    def __init__(
        self, bus: Bus, known: Mapping[str, nodes.Node], say: Callable[[saying.Say], None]
    ) -> None:
        self._bus = bus
        self._known = known
        self._say = say
        self._told: frozenset[str] = frozenset()

    async def run(self) -> NoReturn:
        """Look for ever; while the bus is away there is nothing to tell."""
        while True:
            since_ns = clock.now_ns() - FRESH_NS
            try:
                facts = [
                    fact
                    for kind in KINDS
                    for fact in await logs.read_facts(self._bus, kind=kind, since_ns=since_ns)
                ]
            except errors.BusError as error:
                log.debug("facts of nodes: %s", error)
            else:
                self._tell(facts)
            await clock.sleep(LOOK_EVERY_S)

    def _tell(self, facts: Iterable[Fact]) -> None:
        told = set()
        for fact in facts:
            node = self._known.get(fact.stamp.node)
            if node is None:
                continue
            if fact.id not in self._told:
                for each in said(node.about, fact):
                    self._say(each)
            told.add(fact.id)
        self._told = frozenset(told)  # those that are no longer fresh need no remembering


def said(about: saying.About, fact: Fact) -> Iterator[saying.Say]:
    """What people are told of one fact, once for ever: on the node, or on the pods it names."""
    if fact.kind is FactKind.TAKEN_OVER:
        yield saying.Say(
            about=about,
            reason=names.RESOURCE_TAKEN_OVER,
            message=fact.sentence,
            warning=True,
            topic=fact.id,
        )
    if fact.kind is FactKind.OVER_USE:
        for holder in fact.holders:
            yield saying.Say(
                about=saying.About(kind="Pod", namespace=holder.namespace, name=holder.pod),
                reason=names.GPU_MEMORY_OVER_USE,
                message=f"Node {about.name}: {fact.sentence}",
                warning=True,
                topic=fact.id,
            )
