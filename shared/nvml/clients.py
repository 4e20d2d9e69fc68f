"""Who holds a GPU's device node open: the processes that a reset waits for, by name and pid.

NVML names only what computes; daemons and monitoring hold the node and are found in /proc. The
reconfigurer's agent looks when a GPU is in use; a look blocks, so it runs in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_NODE = "/dev/nvidia"


@dataclass(frozen=True, slots=True, order=True)
class Client:
    """A process, by its pid and the name of its program."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.pid})"


def holding(
    minor: int, proc: Path = Path("/proc"), besides: Collection[int] = ()
) -> tuple[Client, ...]:
    """List the processes that hold /dev/nvidia<minor>, besides these pids, by pid.

    Processes that end while they are looked at, or that may not be looked at, are left out.
    """
    node = f"{_NODE}{minor}"
    pids = (int(name) for name in _entries(proc) if name.isdecimal())
    return tuple(
        Client(pid, program(proc / str(pid)))
        for pid in sorted(pids)
        if pid not in besides and node in _open_files(proc / str(pid))
    )


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _open_files(process: Path) -> Iterator[str]:
    descriptors = process / "fd"
    for name in _entries(descriptors):
        try:
            yield os.readlink(descriptors / name)
        except OSError:
            continue


def program(process: Path) -> str:
    """Name a process's program: the kernel's own short name ends after 15 characters."""
    try:
        path = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        return os.path.basename(path) or (process / "comm").read_text("utf-8").strip()
    except OSError:
        return "a process that has ended"
