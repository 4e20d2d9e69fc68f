"""The daemon of the stand-in for nvidia-cuda-mps-control: one GPU's, in the foreground.

The owner of the GPUs knows it for as long as it lives, and may have it die. What the commands mean
is `mps_commands`'.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

from shared.simulation.gpu import wire
from shared.simulation.gpu.mps_commands import Commands


def serve(owner: Path, socket_name: str, pid_name: str) -> int:
    """Serve the GPU of CUDA_VISIBLE_DEVICES in the current folder; return the exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if connection.connect_ex(socket_name) == 0:
            sys.stdout.write("An instance of this daemon is already running\n")
            return 1
    Path(pid_name).write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        return asyncio.run(_daemon(owner, socket_name))
    finally:
        for name in (socket_name, pid_name):
            Path(name).unlink(missing_ok=True)


async def _daemon(owner: Path, socket_name: str) -> int:
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

    server = await asyncio.start_unix_server(converse, socket_name)
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
