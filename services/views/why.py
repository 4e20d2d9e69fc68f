"""A pod's name → its verdict, by what the bus holds now: for the command and for rehearsals."""

from __future__ import annotations

from services.views import waiting
from services.views.book import Book
from shared.bus import logs
from shared.bus.connection import Bus
from shared.contract.facts import FactKind
from shared.waiting.reasons import Verdict


async def find(bus: Bus, book: Book, key: str) -> Verdict | None:
    """The verdict on `namespace/name`; None where nothing is known of such a pod.

    Of a pod that has failed the registrations on its node are read besides, of one that is gone
    the evictions of the last hour.

    Raises:
        BusError: the bus does not answer.
    """
    told = book.waiting
    failed = [each for each in (told.pods if told else ()) if each.pod == key and each.failed]
    facts = [
        fact
        for pod in failed
        for fact in await logs.read_facts(bus, node=pod.node, kind=FactKind.REGISTERED)
    ]
    verdict = waiting.judge(book.states(), told, facts).of_key(key)
    return verdict or waiting.evicted(key, await logs.read_spans(bus))
