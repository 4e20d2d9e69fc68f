"""nvidia-cuda-mps-control as a process: its daemon in the foreground, its commands on stdin.

    start()      nvidia-cuda-mps-control -f, in a session of its own, in folders of its own
    ask(WORDS)   echo WORDS | nvidia-cuda-mps-control
    quit()       the same with `quit`, then by force

`keeping` owns one for each GPU. The daemon sees its GPU alone, by UUID, so the device is 0 to it
and to its clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import shutil
import signal
from collections.abc import Sequence

from shared.contract import mps

PROGRAM = "nvidia-cuda-mps-control"
ANSWER_S = 5.0
QUIT_S = 5.0
LAST_LINES = 3
FORMER_LOG = f"{mps.LOG}.before"


class ControlError(Exception):
    """The daemon cannot be started or does not answer; the text says why."""


class Daemon:
    """The control daemon of one GPU, and its successors; folders stand below `folder`."""

    def __init__(self, gpu_uuid: str, folder: pathlib.Path, *, program: str = PROGRAM) -> None:
        self._gpu_uuid = gpu_uuid
        self._folder = folder
        self._program = program
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The daemon's process, 0 while it does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else 0

    async def start(self) -> None:
        """Start it. Nothing of one before it may be left, so the clients of that are lost.

        Raises:
            ControlError: the program or the folder is not there.
        """
        await self.quit()
        try:
            output = await asyncio.to_thread(self._prepare)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    self._program,
                    "-f",
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    env=self._environment(),
                    start_new_session=True,
                )
            finally:
                os.close(output)
        except OSError as error:
            raise ControlError(
                f"{self._program} cannot be run ({error}): the driver's container toolkit brings it"
                " into pods with the capability compute"
            ) from error

    async def wait(self) -> str:
        """Wait until it ends, and say how."""
        if self._process is None:
            return "it was never started"
        status = await self._process.wait()
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        said = await asyncio.to_thread(self._last_words)
        return f"it ended {how}" + (f": {said}" if said else "")

    async def ask(self, words: str) -> str:
        """Give it a command, or one a line, and return what it says.

        Raises:
            ControlError: it does not answer.
        """
        try:
            asking = await asyncio.create_subprocess_exec(
                self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environment(),
            )
        except OSError as error:
            raise ControlError(f"{self._program} cannot be run ({error})") from error
        answer = await _answer(asking, words)
        if asking.returncode != 0:
            raise ControlError(f"{words} failed: {answer or f'status {asking.returncode}'}")
        return answer

    async def quit(self) -> None:
        """End whatever daemon answers in the folder, by force if it does not end by itself."""
        if await asyncio.to_thread(self._lived):
            with contextlib.suppress(ControlError, TimeoutError):
                async with asyncio.timeout(QUIT_S):
                    await self.ask("quit")
                    if self._process is not None:
                        await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """End it by force, with all that is left of its session."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "CUDA_VISIBLE_DEVICES": self._gpu_uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folder / mps.PIPE),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folder / mps.LOG),
        }

    def _lived(self) -> bool:
        """Whether a daemon, perhaps of a process before this one, has not cleared up."""
        pipe = self._folder / mps.PIPE
        return pipe.is_dir() and any(pipe.iterdir())

    def _prepare(self) -> int:
        """Make the folders anew; clients of every user have to get through to the pipe.

        What the daemon before has logged is kept until the next one: it may say why that ended.
        """
        pipe, log = self._folder / mps.PIPE, self._folder / mps.LOG
        for old in (pipe, self._folder / FORMER_LOG):
            shutil.rmtree(old, ignore_errors=True)
        if log.exists():
            log.rename(self._folder / FORMER_LOG)
        for new in (pipe, log):
            new.mkdir(parents=True)
        return os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @property
    def _output(self) -> pathlib.Path:
        return self._folder / mps.LOG / "foreground.log"

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines: Sequence[str] = self._output.read_text("utf-8", errors="replace").splitlines()
            return " / ".join(lines[-LAST_LINES:])
        return ""


async def _answer(asking: asyncio.subprocess.Process, words: str) -> str:
    try:
        async with asyncio.timeout(ANSWER_S):
            said, _ = await asking.communicate(f"{words}\n".encode())
    except TimeoutError:
        raise ControlError(f"{words} was not answered within {ANSWER_S:g} s") from None
    finally:
        if asking.returncode is None:
            asking.kill()
            await asking.wait()
    return said.decode(errors="replace").strip()
