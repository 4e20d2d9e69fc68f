"""What the simulated MPS control daemon answers to the commands that it is given, line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

FULL = "100.0"
FAULTY = "66"  # the user whose clients end in a fatal fault


class Commands:
    """One daemon's settings and servers. A default reaches servers that start after it."""

    def __init__(self, pid: int) -> None:
        self.quitting = False
        self._pid = pid
        self._percentage = FULL
        self._limits: dict[str, str] = {}  # by device
        self._servers: dict[str, dict[str, str]] = {}  # settings by server pid
        self._answers: Mapping[str, Callable[..., str]] = {
            "get_default_active_thread_percentage": lambda: self._percentage,
            "set_default_active_thread_percentage": self._set_percentage,
            "get_default_device_pinned_mem_limit": lambda device: self._limits.get(device, ""),
            "set_default_device_pinned_mem_limit": self._set_limit,
            "start_server": self._start_server,
            "get_server_list": lambda: "\n".join(self._servers),
            "get_server_status": lambda pid: self._servers[pid]["status"],
            "get_active_thread_percentage": lambda pid: self._servers[pid]["percentage"],
            "set_active_thread_percentage": self._set_server_percentage,
            "get_device_pinned_mem_limit": lambda pid, device: self._servers[pid].get(device, ""),
            "set_device_pinned_mem_limit": self._set_server_limit,
            "shutdown_server": self._shut_down,
            "quit": self._quit,
        }

    def answer(self, line: str) -> str:
        """Do what a line says; the answer ends with a line break where it is not empty."""
        words = line.split()
        if not words:
            return ""
        command = self._answers.get(words[0])
        if command is None:
            return f"{words[0]}: unknown command\n"
        try:
            said = command(*words[1:])
        except (KeyError, TypeError, ValueError):
            return f"{line}: invalid arguments\n"
        return f"{said}\n" if said else ""

    def _set_percentage(self, percentage: str) -> str:
        self._percentage = f"{float(percentage):.1f}"
        return self._percentage

    def _set_limit(self, device: str, limit: str) -> str:
        self._limits[device] = limit
        return ""

    def _start_server(self, flag: str, uid: str) -> str:
        del flag
        pid = str(self._pid + 1 + len(self._servers))
        self._servers[pid] = {
            "status": "FAULT" if uid == FAULTY else "ACTIVE",
            "percentage": self._percentage,
            **self._limits,
        }
        return ""

    def _set_server_percentage(self, pid: str, percentage: str) -> str:
        self._servers[pid]["percentage"] = f"{float(percentage):.1f}"
        return self._servers[pid]["percentage"]

    def _set_server_limit(self, pid: str, device: str, limit: str) -> str:
        self._servers[pid][device] = limit
        return ""

    def _shut_down(self, pid: str) -> str:
        del self._servers[pid]
        return ""

    def _quit(self) -> str:
        self.quitting = True
        return ""
