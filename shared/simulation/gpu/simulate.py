"""`slicewire simulate`: own a node's simulated GPUs, or run a service on them.

    slicewire simulate --socket S --node NAME --gpus a100-80gb,t4     (or --gpus @specs.yaml)
    slicewire simulate --socket S -- advertiser --node-name NAME ...
    slicewire simulate --socket S --fault '{"gpu": 0, "xid": 79}'     (or --heal the same)

The second form puts the shim into pynvml, stand-ins for nvidia-smi and nvidia-cuda-mps-control
first into the PATH, and then runs the service's own main, which is handed in: the simulation knows
no service, and no service knows the simulation. The third is how somebody outside of the node
breaks its GPUs.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_OWNER_WITHIN_S = 10.0


def main(argv: Sequence[str], run_service: Callable[[list[str]], int]) -> int:
    """Run what the arguments after `simulate` ask for; return the exit status."""
    own, service = _split(argv)
    options = _parser().parse_args(own)
    if service:
        return _run_on(options.socket, service, run_service)
    if options.fault is not None or options.heal is not None:
        return _break(options)
    if not options.node or not options.gpus:
        _parser().error("give --node and --gpus to own GPUs, or -- SERVICE to run one on them")
    return _own(options)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return list(argv), []
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slicewire simulate",
        usage="slicewire simulate --socket S"
        " (--node NAME --gpus LIST | -- SERVICE ... | --fault MAP | --heal MAP)",
        description="Own the simulated GPUs of a node, or run a service on them.",
    )
    parser.add_argument("--socket", type=Path, required=True, help="the owner's unix socket")
    parser.add_argument("--node", help="the node's name; UUIDs are made of it")
    parser.add_argument(
        "--gpus", help="catalogue names with commas between, or @FILE with a YAML list of GPUs"
    )
    parser.add_argument(
        "--proc", type=Path, help="a folder where the node's /proc is to stand, for --proc-root"
    )
    parser.add_argument(
        "--latency",
        default="",
        metavar="CALL=TIME,...",
        help="how long NVML calls take, such as nvmlGpuInstanceDestroy=1s",
    )
    parser.add_argument(
        "--fault",
        metavar="MAP",
        type=_map,
        help="break GPUs of the owner: a rehearsal's map, as JSON",
    )
    parser.add_argument("--heal", metavar="MAP", type=_map, help="mend what the same map broke")
    return parser


def _break(options: argparse.Namespace) -> int:
    from shared.simulation.gpu import faults  # noqa: PLC0415  # services on the shim need neither
    from shared.simulation.gpu.control import Control  # noqa: PLC0415

    control = Control(options.socket)
    try:
        if options.fault is not None:
            asyncio.run(control.fault(options.fault))
        if options.heal is not None:
            asyncio.run(control.heal(options.heal))
    except (FileNotFoundError, ConnectionRefusedError):
        sys.stderr.write(f"slicewire simulate: nobody owns GPUs at {options.socket}\n")
        return 1
    except (faults.FaultError, OSError) as error:
        sys.stderr.write(f"slicewire simulate: {error}\n")
        return 1
    return 0


def _map(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'{text!r} is no map: write {{"gpu": 0, "xid": 79}}')
    return found


def tools(socket: Path) -> Path:
    """Where the owner of this socket keeps programs for the services on its GPUs."""
    return socket.with_name(f"{socket.name}.bin")


def _run_on(socket: Path, service: list[str], run_service: Callable[[list[str]], int]) -> int:
    from shared.simulation.gpu import client, install  # noqa: PLC0415  # the owner needs neither

    words = itertools.takewhile(lambda word: not word.startswith("-"), service)
    transport = client.SocketTransport(socket, "-".join(words))
    install.install(transport)
    os.environ["PATH"] = f"{tools(socket)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if not transport.wait(_OWNER_WITHIN_S):
        log.warning("nobody owns simulated GPUs at %s: the driver counts as not loaded", socket)
    return run_service(service)


def _own(options: argparse.Namespace) -> int:
    # The catalogue and its YAML stay out of services that run on the shim.
    from shared.runtime import service  # noqa: PLC0415
    from shared.simulation.gpu import boards, faults, mps_control, owner, smi  # noqa: PLC0415
    from shared.simulation.gpu.engine import Engine  # noqa: PLC0415
    from shared.simulation.gpu.proc import ProcTree  # noqa: PLC0415

    try:
        gpus = boards.build(options.node, _specs(options.gpus))
        engine = Engine(options.node, gpus, _latencies(options.latency))
        for program in (smi, mps_control):
            program.write(tools(options.socket), options.socket)
    except (boards.SpecError, faults.FaultError, OSError) as error:
        sys.stderr.write(f"slicewire simulate: {error}\n")
        return 2
    proc = ProcTree(options.proc) if options.proc else None
    serve = functools.partial(owner.serve, engine, options.socket, proc)
    try:
        return service.run(serve, "simulate")
    finally:
        shutil.rmtree(tools(options.socket), ignore_errors=True)


def _latencies(text: str) -> dict[str, float]:
    from shared.simulation.gpu import answers, faults  # noqa: PLC0415

    found = {}
    for part in filter(None, text.split(",")):
        call, _, duration = part.partition("=")
        if call not in answers.ANSWERS:
            raise faults.FaultError(f"--latency names {call!r}, which is no call of NVML's")
        found[call] = faults.seconds(duration)
    return found


def _specs(gpus: str) -> list[str | Mapping[str, Any]]:
    if not gpus.startswith("@"):
        return [name.strip() for name in gpus.split(",") if name.strip()]

    import yaml  # noqa: PLC0415

    from shared.simulation.gpu import boards  # noqa: PLC0415

    try:
        listed = yaml.safe_load(Path(gpus[1:]).read_text("utf-8"))
    except yaml.YAMLError as error:
        raise boards.SpecError(f"{gpus[1:]} is no YAML: {error}") from error
    if not isinstance(listed, list):
        raise boards.SpecError(f"{gpus[1:]} is no list of GPUs: write one GPU a line, each after -")
    return listed
