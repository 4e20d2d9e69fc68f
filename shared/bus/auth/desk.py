"""Answers the server's questions for ever, each in its own time; every replica runs one.

Who is let in is `review`'s to say. A question that cannot be read gets no answer, and the server
refuses the client when its own time limit comes.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from shared.bus import errors
from shared.bus.auth import callout
from shared.bus.auth.callout import Clerk, Entrant, Question
from shared.bus.connection import Bus
from shared.bus.session import Message, Session
from shared.contract import permissions
from shared.runtime import clock

log = logging.getLogger(__name__)
SECOND_NS = 1_000_000_000

Review = Callable[[str], Awaitable[Entrant]]


class Desk:
    """Lets in whom `review` names, and keeps out all others."""

    def __init__(
        self, bus: Bus, clerk: Clerk, review: Review, life_s: int = permissions.LOGIN_LIFE_S
    ) -> None:
        self._bus = bus
        self._clerk = clerk
        self._review = review
        self._life_s = life_s

    async def run(self) -> None:
        """Answer for ever."""
        while True:
            session = await self._bus.session()
            try:
                await self._serve(session)
            except* errors.LostError as lost:
                log.debug("no questions for now: %s", lost.exceptions[0])

    async def _serve(self, session: Session) -> None:
        async with (
            session.listen(callout.SUBJECT, queue=callout.QUEUE) as ear,
            asyncio.TaskGroup() as tasks,
        ):
            log.info("answering who may enter the bus")
            while (message := await ear.next(math.inf)) is not None:
                tasks.create_task(self._take(session, message), name="answer a login")

    async def _take(self, session: Session, message: Message) -> None:
        try:
            server_key = message.headers.get(callout.SERVER_KEY, "")
            question = self._clerk.read(message.data, server_key)
        except callout.ForgedError as error:
            log.warning("%s; it gets no answer", error)
            return
        if question.expires_s >= _now_s():  # else nobody waits for the answer any more
            await session.respond(message, await self._answer(question))

    async def _answer(self, question: Question) -> bytes:
        try:
            entrant = await self._review(question.token)
        except callout.DeniedError as error:
            log.warning("a client at %s is kept off the bus: %s", question.host, error)
            return self._clerk.refuse(question, str(error), _now_s())
        except callout.UnsureError as error:
            log.warning("a client at %s has to come again: %s", question.host, error)
            return self._clerk.refuse(question, str(error), _now_s())
        who = f"{entrant.role} {entrant.node}".strip()
        log.debug("a client at %s is let in as %s (pod %s)", question.host, who, entrant.pod)
        return self._clerk.admit(question, entrant, _now_s(), self._life_s)


def _now_s() -> int:
    return clock.now_ns() // SECOND_NS
