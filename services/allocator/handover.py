"""A planned stop without a gap: go on answering until the successor is registered.

The successor waits for the serving lock. Letting go of the lock before our sockets lets it bind,
register and take the kubelet's calls while ours are still answered. Once registered it removes our
socket files; the connections that stand are not touched by that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from services.allocator import endpoints as endpoints_
from services.allocator.folder import Folder, Look
from shared.runtime import clock, locks

GRACE_S = 5.0
ANSWER_S = 2.0


async def hand_over(
    lock: locks.ServingLock, folder: Folder, endpoints: endpoints_.Endpoints
) -> None:
    """Return when a successor serves or nobody waits, and no Allocate is being answered."""
    endpoints.leave()
    ours = _sockets(await folder.look(), endpoints)
    awaited = await lock.is_awaited()
    lock.release()
    if awaited:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await _until(lambda: not ours & _sockets(folder.current, endpoints))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            await endpoints.idle()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await clock.sleep(locks.POLL_S)


def _sockets(look: Look, endpoints: endpoints_.Endpoints) -> frozenset[tuple[str, object]]:
    return frozenset((name, it) for name, it in look.sockets.items() if name in endpoints.names)
