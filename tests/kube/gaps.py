"""How long a kubelet had less to hand out than it should, seen by asking it all the time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from grpclib import GRPCError

from shared.kubelet import sockets
from tests.support.node_view import NodeView

PERIOD_S = 0.05  # the kubelet answers a hundred questions a second, ours and the allocator's


@dataclass
class Gaps:
    """Asks pod-resources of one node for its healthy devices; `run` until cancelled."""

    node: NodeView
    wanted: int
    looks: int = 0
    longest_ms: int = 0
    _since: float | None = field(default=None, repr=False)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                self._note(len(await self.node.offered()) >= self.wanted)
            except (GRPCError, *sockets.UNREACHABLE):
                pass  # no answer says nothing of the devices
            await asyncio.sleep(PERIOD_S)

    def words(self) -> str:
        """The result for people."""
        return f"{self.node.name} had a gap of {self.longest_ms} ms in {self.looks} looks"

    def _note(self, whole: bool) -> None:
        now = time.monotonic()
        self.looks += 1
        if whole:
            self._since = None
            return
        self._since = now if self._since is None else self._since
        self.longest_ms = max(self.longest_ms, round((now - self._since + PERIOD_S) * 1000))
