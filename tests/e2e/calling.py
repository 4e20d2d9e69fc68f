"""Calls of the command as a person makes them, and what they must not leave behind."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pathlib
import signal
import sys
from typing import Any

from tests.support.eventually import eventually


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a command said and how it ended."""

    status: int
    out: str
    err: str

    @property
    def form(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        form: dict[str, Any] = json.loads(self.out)
        return form


async def started(folder: pathlib.Path, *words: str) -> asyncio.subprocess.Process:
    """Start the command; what it leaves behind goes below `folder`."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "services.cli"),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folder)},
    )


async def called(folder: pathlib.Path, *words: str) -> Ended:
    """Run the command to its end."""
    return await _end(await started(folder, *words))


async def _end(process: asyncio.subprocess.Process) -> Ended:
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def _pids(folder: pathlib.Path, service: str) -> list[int]:
    return [pid for pid, words in running(folder).items() if f" {service} " in words]


async def rehearsed(folder: pathlib.Path, text: str, without: str = "") -> Ended:
    """Play a story given as text; the service with these words is killed as soon as it is there."""
    story = folder / "story.yaml"
    await asyncio.to_thread(story.write_text, text, encoding="utf-8")
    process = await started(folder, "rehearse", str(story), "-o", "json")
    if without:
        (pid,) = await eventually(lambda: _pids(folder, without))
        os.kill(pid, signal.SIGKILL)
    return await _end(process)


def running(folder: pathlib.Path) -> dict[int, str]:
    """Command lines of processes that name the folder, by pid."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
        pid = int(path.parent.name)
        if str(folder) in words and pid != os.getpid():
            found[pid] = words
    return found


def left_running(folder: pathlib.Path) -> list[str]:
    """Command lines of what a rehearsal forgot to end."""
    return list(running(folder).values())


def left_lying(folder: pathlib.Path) -> list[str]:
    """Names of files that a rehearsal left below the folder, besides the story."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in found if path.suffix != ".yaml"]
