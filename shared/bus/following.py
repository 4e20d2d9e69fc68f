"""Follow keys of a bucket through every session: listen first, then look, then look again slowly.

State readers and writers share this loop; what they do with a message is theirs. Whatever is
missed (a lost message, a bucket that was away) the next look brings.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

from shared.bus import errors
from shared.bus.connection import Bus
from shared.bus.session import Ear, Message, Session
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
LOOK_EVERY_S = 60.0
LOST_PAUSE_S = 0.02

Look = Callable[[Session], Awaitable[None]]
Take = Callable[[Message], None]


async def follow(
    bus: Bus, subjects: tuple[str, ...], look: Look, take: Take, every: float = LOOK_EVERY_S
) -> None:
    """Give all messages on `subjects` to `take`; `look` with each session and each `every` s."""
    while True:
        session = await bus.session()
        try:
            async with session.listen(*subjects) as ear:
                await _follow_session(session, ear, look, take, every)
        except errors.LostError as error:
            # A client that is closing refuses at once, until its session is told: without a pause
            # this would turn for ever and never let the loop tell it.
            log.debug("%s: %s", subjects[0], error)
            await clock.sleep(LOST_PAUSE_S)


async def _follow_session(session: Session, ear: Ear, look: Look, take: Take, every: float) -> None:
    waits = backoff.Backoff()
    while True:
        try:
            await look(session)
        except errors.BusError as error:
            log.debug("%s", error)
            pause = waits.next()
        else:
            waits.reset()
            pause = every * random.uniform(0.8, 1.2)  # noqa: S311  # spreads a fleet's gets
        until = clock.loop_time() + pause
        while (message := await ear.next(until)) is not None:
            take(message)
