"""Pids that NVML names → whose the processes are, by /proc and the kubelet's links of logs. Blocks.

`sampling` calls it in a thread, for the processes of one look at the GPUs' use.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from services.advertiser import cgroups, log_links
from shared.domain.slots import Holder
from shared.nvml import clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that was there: its program, and the pod it belongs to.

    `holder` is None for a process of the host (then `pod_uid` is empty), and for one of a pod
    that is known no more.
    """

    pid: int
    program: str
    pod_uid: str = ""
    holder: Holder | None = None

    def __str__(self) -> str:
        if self.holder is not None:
            return self.holder.pod_key
        return f"pod {self.pod_uid}" if self.pod_uid else f"{self.program} ({self.pid})"


def read(proc: Path, links: Path, pids: Collection[int]) -> dict[int, Owner]:
    """Look the processes up; those that have ended, or cannot be seen, are left out."""
    named = log_links.read(_links(links)) if pids else {}
    found = (_owner(proc / str(pid), pid, named) for pid in pids)
    return {owner.pid: owner for owner in found if owner is not None}


def _owner(process: Path, pid: int, links: log_links.Links) -> Owner | None:
    try:
        text = (process / "cgroup").read_text("utf-8", errors="replace")
    except OSError:
        return None
    program = clients.program(process)
    if (member := cgroups.membership(text)) is None:
        return Owner(pid=pid, program=program)
    holder = log_links.holder(links, member)
    return Owner(pid=pid, program=program, pod_uid=member.pod_uid, holder=holder)


def _links(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return  # no container has run yet, or the folder is not mounted
    for name in names:
        try:
            yield name, os.readlink(folder / name)
        except OSError:
            continue  # gone by now, or no link
