"""Calls of the command as a person makes them, and what they must not leave behind."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pathlib
import sys
from typing import Any


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
    process = await started(folder, *words)
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def rehearsed(folder: pathlib.Path, text: str) -> Ended:
    """Play a story given as text."""
    story = folder / "story.yaml"
    await asyncio.to_thread(story.write_text, text, encoding="utf-8")
    return await called(folder, "rehearse", str(story), "-o", "json")


def left_running(folder: pathlib.Path) -> list[str]:
    """Command lines of processes that name the folder: what a rehearsal forgot to end."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
        if str(folder) in words and f"/{os.getpid()}/" not in str(path):
            found.append(words)
    return found


def left_lying(folder: pathlib.Path) -> list[str]:
    """Names of files that a rehearsal left below the folder, besides the story."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in found if path.suffix != ".yaml"]
