"""One NATS connection that ends when it ends: nats-py, with its pitfalls kept out.

nats-py's own reconnecting gives up after 60 tries, buffers what is published while away and sends
it late, closes for good on an expired credential, and has no jitter. So it is switched off: a
client lives for one connection, and `shared.bus.connection` opens the next. The package takes
what it needs of nats from here.
"""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import cast

_AIOHTTP = "aiohttp"
if _AIOHTTP not in sys.modules:
    # nats-py imports aiohttp where it is installed, for WebSockets that nobody here speaks, and
    # that costs each node service 10 MB.
    sys.modules[_AIOHTTP] = cast("ModuleType", None)
try:
    from nats import errors as nats_errors
    from nats.aio.client import Client
    from nats.aio.msg import Msg
finally:
    if sys.modules[_AIOHTTP] is None:
        del sys.modules[_AIOHTTP]

__all__ = ["BusClient", "Client", "Msg", "nats_errors"]

CONNECT_TIMEOUT_S = 15  # a login may wait for a review of its token; nats-py allows 2 s
PING_INTERVAL_S = 20
MAX_OUTSTANDING_PINGS = 2  # a connection without a word for 60 s is dead


class BusClient(Client):
    """A client that waits for the server's verdict on its credential.

    With a public key it signs the server's text by `signature_cb`. Nats-py would do so by itself
    from a seed, with a package more than the controller needs otherwise.
    """

    def __init__(self, public_key: str = "") -> None:
        super().__init__()
        if public_key:
            self._public_nkey = public_key
            self._auth_configured = True

    async def _process_connect_init(self) -> None:
        """Log in; the first PING of the server (2.0-2.4 s after accept) is not the verdict.

        nats-py takes it for one and returns from `connect` without error and unconnected.
        """
        await super()._process_connect_init()
        if self._status == Client.CONNECTED or self._reading_task is None:
            return
        verdict = asyncio.get_running_loop().create_future()
        self._pongs.append(verdict)
        await asyncio.wait(
            {verdict, self._reading_task},
            timeout=CONNECT_TIMEOUT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not verdict.done():
            verdict.cancel()
            raise nats_errors.Error("nats: the server ended the login without letting us in")
        self._status = Client.CONNECTED
