"""A stand-in for nvidia-smi that can do one thing, `nvidia-smi --gpu-reset -i GPU`.

`simulate` puts it before the real one in the PATH of services on simulated GPUs. It asks the
owner, and says what nvidia-smi says.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import wire

_REFUSED = 255
_IN_USE = """\
The following GPUs could not be reset:
  GPU {bus}: In use by another client

1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA\
 application, graphics application such as an X server, or a monitoring application such as another\
 instance of nvidia-smi). Please first kill all processes using this device and all compute\
 applications running in the system.
"""


def write(folder: Path, owner: Path) -> None:
    """Write the executable that asks this owner into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "nvidia-smi"
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m {__spec__.name} "{owner.absolute()}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)


def main(argv: Sequence[str]) -> int:
    """Reset the GPU; return the exit status."""
    parser = argparse.ArgumentParser(prog="nvidia-smi")
    parser.add_argument("owner", type=Path)
    parser.add_argument("--gpu-reset", "-r", action="store_true", required=True)
    parser.add_argument("--id", "-i", required=True, help="index, UUID or bus id")
    options = parser.parse_args(argv)
    try:
        reply = _ask(options.owner, {"control": "reset", "gpu": options.id})
    except OSError:
        sys.stdout.write(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make"
            " sure that the latest NVIDIA driver is installed and running.\n"
        )
        return Code.DRIVER_NOT_LOADED
    return _say(reply, options.id)


def _say(reply: dict[str, Any], asked: str) -> int:
    if reply["error"]:
        sys.stdout.write(f"No devices were found: {asked}\n")
        return Code.NOT_FOUND
    bus, code = reply["bus"], Code(reply["code"])
    if code is Code.SUCCESS:
        sys.stdout.write(f"GPU {bus} was successfully reset.\nAll done.\n")
        return 0
    if code is Code.IN_USE:
        sys.stdout.write(_IN_USE.format(bus=bus))
        return _REFUSED
    sys.stdout.write(f"Unable to reset GPU {bus}: GPU is lost\n")
    return code


def _ask(owner: Path, request: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(owner))
        connection.sendall(wire.pack(request))
        return wire.receive(connection)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
