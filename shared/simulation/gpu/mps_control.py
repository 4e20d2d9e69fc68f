"""A stand-in for nvidia-cuda-mps-control: its daemon in the foreground, and its commands on stdin.

    CUDA_VISIBLE_DEVICES=UUID nvidia-cuda-mps-control -f    serve a GPU until quit or killed
    echo COMMAND | nvidia-cuda-mps-control                  ask the daemon of the pipe directory

`simulate` puts it into the PATH of services on simulated GPUs. The owner of the GPUs knows each
daemon for as long as it lives, and may have it die. What the commands mean is `mps_commands`'.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.simulation.gpu import wire
from shared.simulation.gpu.mps_commands import Commands

PROGRAM = "nvidia-cuda-mps-control"
SOCKET, PID = "control", f"{PROGRAM}.pid"
_NO_DAEMON = "Cannot find MPS control daemon process"


def write(folder: Path, owner: Path) -> None:
    """Write the executable that serves GPUs of this owner into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / PROGRAM
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m {__spec__.name} "{owner.absolute()}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)


def main(argv: Sequence[str]) -> int:
    """Run the daemon, or send the commands that stand on stdin; return the exit status."""
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))  # noqa: S108  # its own
    if list(argv[1:]) not in ([], ["-f"]):
        sys.stdout.write(f"usage: {PROGRAM} [-f]\n")
        return 1
    try:
        os.chdir(pipe)  # a path from here always fits into a socket's address
    except OSError as error:
        sys.stdout.write(f"{pipe}: {error.strerror}\n")
        return 1
    return _serve(Path(argv[0])) if argv[1:] else _send(sys.stdin.read())


def _send(commands: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(SOCKET)
            connection.sendall(commands.encode())
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                sys.stdout.write(part.decode())
        except OSError:
            sys.stdout.write(f"{_NO_DAEMON}\n")
            return 1
    return 0


def _serve(owner: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if connection.connect_ex(SOCKET) == 0:
            sys.stdout.write("An instance of this daemon is already running\n")
            return 1
    Path(PID).write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        return asyncio.run(_daemon(owner))
    finally:
        for name in (SOCKET, PID):
            Path(name).unlink(missing_ok=True)


async def _daemon(owner: Path) -> int:
    """Answer until told to quit; a status other than 0 where the daemon had to die."""
    commands, quitting = Commands(os.getpid()), asyncio.Event()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for line in (await reader.read()).decode().splitlines():
                writer.write(commands.answer(line).encode())
            await writer.drain()
        writer.close()
        if commands.quitting:
            quitting.set()

    server = await asyncio.start_unix_server(converse, SOCKET)
    try:
        return await _ended(owner, quitting)
    finally:
        server.close()


async def _ended(owner: Path, quitting: asyncio.Event) -> int:
    async with asyncio.TaskGroup() as tasks:
        dying = tasks.create_task(_until_dead(owner), name="the owner's word")
        asked = tasks.create_task(quitting.wait(), name="quit")
        _, left = await asyncio.wait((dying, asked), return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
    if not dying.cancelled():
        sys.stdout.write(f"{dying.result()}\n")
        return 1
    return 0


async def _until_dead(owner: Path) -> str:
    """Be known to the owner until it says that the daemon has to die; return why."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    try:
        reader, writer = await asyncio.open_unix_connection(owner)
        writer.write(wire.pack({"control": "mps", "gpu": gpu, "pid": os.getpid()}))
        reply = await wire.read(reader)
    except OSError:
        reply = None
    return str(reply["error"]) if reply else "no CUDA-capable device is detected"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
