"""Cgroups of the cluster's nodes: made, asked who runs in them, and removed again.

A machine has one hierarchy (version 2) or one for each controller (version 1); a node has a cgroup
in each.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence

from tests.kube.processes import until

ROOT = pathlib.Path("/sys/fs/cgroup")
CPUSET = ("cpuset.cpus", "cpuset.mems")


def make(name: str) -> None:
    """Make a cgroup in which a kubelet may work."""
    for parent in _hierarchies():
        child = parent / name
        child.mkdir(exist_ok=True)
        if (parent / "cgroup.subtree_control").exists():
            controllers = (parent / "cgroup.controllers").read_text("ascii").split()
            wanted = " ".join(f"+{each}" for each in controllers)
            (parent / "cgroup.subtree_control").write_text(wanted, "ascii")
        elif parent.name == "cpuset":  # an empty set, which is what it begins with, takes nobody
            for each in CPUSET:
                (child / each).write_text((parent / each).read_text("ascii"), "ascii")


def members(names: Sequence[str]) -> set[int]:
    """Pids of everything that runs in these cgroups or below."""
    found: set[int] = set()
    for folder in _folders(names):
        with contextlib.suppress(FileNotFoundError):
            found.update(map(int, (folder / "cgroup.procs").read_text("ascii").split()))
    return found


def remove(names: Sequence[str]) -> None:
    """Remove empty cgroups; the kernel needs a moment after the last process."""
    for folder in _folders(names):
        until(f"removal of {folder}", functools.partial(_removed, folder))


def _hierarchies() -> list[pathlib.Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink()]


def _folders(names: Sequence[str]) -> Iterator[pathlib.Path]:
    """The cgroups and those below them, the lowest first."""
    for parent in _hierarchies():
        for name in names:
            for folder, _, _ in os.walk(parent / name, topdown=False):
                yield pathlib.Path(folder)


def _removed(folder: pathlib.Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    return True
