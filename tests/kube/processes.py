"""Programs of the cluster as processes that outlive whoever started them, known by pid files."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

READY_S = 120.0  # on a machine that has other things to do
GRACE_S = 20.0
POLL_S = 0.05
LOG_LINES = 15


class ClusterError(Exception):
    """A part of the cluster did not come up or go down; the text ends with its own last words."""


class Processes:
    """Starts programs, stops them, and knows them again from another process."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._logs = folder / "logs"
        self._pids = folder / "pids"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, argv: Sequence[object], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a program; what it says goes to its log."""
        for folder in (self._logs, self._pids):
            folder.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (environment or {}),
                start_new_session=True,  # a Ctrl-C at the tests leaves the cluster to its `down`
            )
        self._children[name] = child
        (self._pids / name).write_text(f"{child.pid} {_started(child.pid)}", encoding="utf-8")

    def pid(self, name: str) -> int | None:
        """The pid of a program that runs."""
        if name in self._children:
            self._children[name].poll()  # so that one that ended is no zombie
        try:
            number, start = (self._pids / name).read_text(encoding="utf-8").split()
            return int(number) if _started(int(number)) == start else None
        except (OSError, ValueError):
            return None

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a program and wait for it; one that has ended already is as good."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)
            until(f"the end of {name}", lambda: self.pid(name) is None, GRACE_S)
        if name in self._children:
            self._children.pop(name).wait(GRACE_S)

    def reap(self) -> None:
        """Wait for children that were killed from outside."""
        for child in self._children.values():
            child.wait(GRACE_S)
        self._children.clear()

    def ready(self, name: str, condition: Callable[[], bool]) -> None:
        """Wait until a program says that it is ready.

        Raises:
            ClusterError: it has ended, or is not ready in time.
        """
        try:
            until(name, lambda: self.pid(name) is None or condition())
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self._last_words(name)}") from error
        if self.pid(name) is None:
            raise ClusterError(f"{name} has ended:\n{self._last_words(name)}")

    def log(self, name: str) -> pathlib.Path:
        """The file with everything that a program has said."""
        return self._logs / f"{name}.log"

    def _last_words(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


def until(what: str, condition: Callable[[], bool], within: float = READY_S) -> None:
    """Wait for a condition; an OSError counts as not yet.

    Raises:
        ClusterError: it is not so in time.
    """
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(POLL_S)
    raise ClusterError(f"{what}: not within {within:g} s")


def output(*command: object, given: str | None = None) -> str:
    """Run a command to its end and return what it printed.

    Raises:
        ClusterError: it failed; the text has its words.
    """
    words = [str(word) for word in command]
    ended = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()
        raise ClusterError(f"`{' '.join(words)}` ended with {ended.returncode}: {said}")
    return ended.stdout


def _started(pid: int) -> str:
    """When a process started, in ticks since boot: pids are used again, this pair is not."""
    fields = (
        pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    )
    return "" if fields[0] == "Z" else fields[19]
