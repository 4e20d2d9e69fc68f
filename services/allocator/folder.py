"""The kubelet's folder of plugin sockets, looked at from time to time: who is there?

A kubelet that starts makes a new kubelet.sock and removes every other socket; both are seen as
changed inodes. `endpoint` reads `current` and is woken by each change.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.runtime import clock

KUBELET = "kubelet.sock"
OURS = "slicewire-"
LOOK_EVERY_S = 0.25

Identity = tuple[int, int]  # inode, time of change: an inode alone may be used again at once


@dataclass(frozen=True, slots=True)
class Look:
    """Sockets in the folder by name; `kubelet` is None while there is no kubelet.sock."""

    kubelet: Identity | None = None
    sockets: Mapping[str, Identity] = field(default_factory=dict)

    @property
    def newest_foreign(self) -> str:
        """The socket of another plugin that came last, empty if there is none."""
        foreign = {name: it for name, it in self.sockets.items() if not name.startswith(OURS)}
        return max(foreign, key=lambda name: foreign[name][1], default="")


class Folder:
    """Keeps `current`; `on_change` is called after each look that differs from the last."""

    def __init__(self, path: pathlib.Path, on_change: Callable[[], None]) -> None:
        self.path = path
        self.current = Look()
        self._on_change = on_change

    async def look(self) -> Look:
        """Look now."""
        seen = await asyncio.to_thread(_look, self.path)
        if seen != self.current:
            self.current = seen
            self._on_change()
        return seen

    async def is_served(self, name: str) -> bool:
        """Whether somebody answers at a socket; one that was killed leaves its file."""
        try:
            _, writer = await asyncio.open_unix_connection(self.path / name)
        except OSError:
            return False
        writer.close()
        return True

    async def remove(self, gone: Callable[[str], bool]) -> None:
        """Remove sockets whose names `gone` names: of a process before us, dead or leaving."""
        await asyncio.to_thread(_remove, self.path, gone)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await clock.sleep(LOOK_EVERY_S)


def _look(path: pathlib.Path) -> Look:
    found: dict[str, Identity] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".sock"):
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = (status.st_ino, status.st_ctime_ns)
    except OSError:  # no kubelet yet, or a socket went while we looked
        return Look()
    return Look(found.pop(KUBELET, None), found)


def _remove(path: pathlib.Path, gone: Callable[[str], bool]) -> None:
    for name in _look(path).sockets:
        if gone(name):
            (path / name).unlink(missing_ok=True)
