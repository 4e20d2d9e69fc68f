"""Reviews that are remembered: a fleet that comes back at once asks the API server less.

A token that was good is taken for good for a minute, and while the API server is away until the
token's own end; never longer, and never once the API server has said no. Tokens are kept as hashes.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.reconfigurer.controller.auth.identity import Identity
from shared.bus.auth.callout import DeniedError, Entrant, UnsureError
from shared.runtime import clock

FRESH_S = 60.0
DENIED_S = 10.0
MOST = 20_000  # three services on each of 5,000 nodes

Review = Callable[[str], Awaitable[Identity]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a review brought, and when by the loop's time."""

    at: float
    said: Identity | DeniedError


class Cache:
    """Asks `review` where nothing that is remembered will do."""

    def __init__(self, review: Review, fresh_s: float = FRESH_S) -> None:
        self._review = review
        self._fresh_s = fresh_s
        self._answers: collections.OrderedDict[bytes, _Answer] = collections.OrderedDict()
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    async def entrant(self, token: str) -> Entrant:
        """Say whose token it is; several that show the same at once share one review.

        Raises:
            DeniedError: nobody's who may enter.
            UnsureError: nobody can say now, and nothing is remembered.
        """
        key = hashlib.sha256(token.encode()).digest()
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            said = self._remembered(key) or await self._ask(key, token)
        if isinstance(said, DeniedError):
            raise said
        return said.entrant

    def _remembered(self, key: bytes) -> Identity | DeniedError | None:
        """What was said so lately that it still holds."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        age = clock.loop_time() - answer.at
        if isinstance(answer.said, DeniedError):
            return answer.said if age < DENIED_S else None
        return answer.said if age < self._fresh_s and _lasts(answer.said) else None

    async def _ask(self, key: bytes, token: str) -> Identity | DeniedError:
        try:
            said: Identity | DeniedError = await self._review(token)
        except DeniedError as denied:
            said = denied
        except UnsureError:
            before = self._answers.get(key)
            if before and isinstance(before.said, Identity) and _lasts(before.said):
                return before.said
            raise
        self._keep(key, said)
        return said

    def _keep(self, key: bytes, said: Identity | DeniedError) -> None:
        self._answers[key] = _Answer(clock.loop_time(), said)
        self._answers.move_to_end(key)
        while len(self._answers) > MOST:
            self._answers.popitem(last=False)


def _lasts(identity: Identity) -> bool:
    return identity.ends_ns > clock.now_ns()
