"""Real services as processes of a rehearsal: started, watched, ended; none survives it.

Each runs under this interpreter as `python -m services.cli …` in a session of its own, so that a
Ctrl-C at the terminal reaches the rehearsal alone, which then ends them in order. What a service
writes goes to a file that is kept when a story fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence

GRACE_S = 5.0
TAIL_LINES = 5


class Process:
    """One service's process, and its successors after a restart; all write to one log."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: pathlib.Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self._arguments = tuple(arguments)
        self._log = log
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there now."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process's number; LookupError where it does not run."""
        if self._process is None:
            raise LookupError(f"the {self.name} does not run")
        return self._process.pid

    @property
    def ended_badly(self) -> str:
        """A sentence about a process that ended by itself, empty while there is none."""
        if self._process is None or self._process.returncode in (None, 0):
            return ""
        status = self._process.returncode
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return f"the {self.name} ended {how}; its last words are in {self._log}"

    async def start(self) -> None:
        """Start the process unless it runs."""
        if self.running:
            return
        with await asyncio.to_thread(self._log.open, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "services.cli"),
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    async def stop(self) -> None:
        """Ask the process to end, and end it if it does not."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End the process as `kill -9` does."""
        await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def tail(self) -> list[str]:
        """The last lines that the process wrote."""
        with contextlib.suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[
                -TAIL_LINES:
            ]
        return []


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without SLICEWIRE_* of somebody else's, and with `extra`."""
    inherited = {key: text for key, text in os.environ.items() if not key.startswith("SLICEWIRE_")}
    return inherited | {"NO_PROXY": "127.0.0.1,localhost"} | dict(extra)
