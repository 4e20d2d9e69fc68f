"""A stand-in for nvidia-cuda-mps-control: its daemon in the foreground, and its commands on stdin.

    CUDA_VISIBLE_DEVICES=UUID nvidia-cuda-mps-control -f    serve a GPU until quit or killed
    echo COMMAND | nvidia-cuda-mps-control                  ask the daemon of the pipe directory

`simulate` puts it into the PATH of services on simulated GPUs. What the daemon does is told in
`mps_daemon`, which those who only ask need not import: they are started often.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
SOCKET = "control"
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
    if not argv[1:]:
        return _send(sys.stdin.read())

    from shared.simulation.gpu import mps_daemon  # noqa: PLC0415

    return mps_daemon.serve(Path(argv[0]), SOCKET, f"{PROGRAM}.pid")


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
