"""MIG changes on eight simulated A100: NVML writes, what is destroyed and made, wall time, ratios.

The reference plans as clear-and-recreate does: on each GPU whose layout differs, everything is
destroyed and everything that is wanted is made; same simulator, same latency of each write. Layouts
are changed by the real agent, whose partners on the bus answer at once.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from shared.contract.generation import Generation
from shared.contract.messages import Phase
from shared.nvml import changes, threads
from shared.nvml.driver import PynvmlDriver
from shared.nvml.writing import PynvmlWriter
from shared.runtime import clock
from shared.simulation.gpu import boards, install
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport
from tests.bench.figures import Figure
from tests.support.mig_world import rows
from tests.unit.agent.rig import Rig

MODEL = "a100-80gb"
GPUS = 8
LATENCIES = {
    "nvmlGpuInstanceDestroy": 0.1,
    "nvmlComputeInstanceDestroy": 0.05,
    "nvmlDeviceCreateGpuInstanceWithPlacement": 0.1,
    "nvmlGpuInstanceCreateComputeInstance": 0.05,
}
Places = tuple[tuple[str, int], ...]
SEVEN: Places = tuple(("1g.10gb", start) for start in range(7))
MIXED: Places = (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))
DROPPED: Places = MIXED[1:]
IMPOSSIBLE: Places = (("3g.40gb", 0), ("3g.40gb", 4), ("1g.10gb", 0))


@dataclass(frozen=True)
class Case:
    """A change: the layout before, the one wanted, on how many of the GPUs, a peer's figures."""

    name: str
    before: Places
    wanted: Places
    on: int
    published: str


CASES = (
    Case(
        "drop one 1g on GPU 0", MIXED, DROPPED, 1, "0.51 s, 1,665 NVML calls, 4 destroyed, 3 made"
    ),
    Case(
        "7x1g to 2x1g+2g+3g", SEVEN, MIXED, GPUS, "0.50 s, 4,140 NVML calls, 56 destroyed, 32 made"
    ),
    Case(
        "infeasible on GPU 0", SEVEN, IMPOSSIBLE, 1, "12,068 NVML calls, 204 destroyed, GPU emptied"
    ),
)


async def measure() -> Mapping[str, Figure]:
    """All cases, each on a node of its own."""
    figures: dict[str, Figure] = {}
    for case in CASES:
        ours = await _ours(case)
        if case.wanted is IMPOSSIBLE:
            figures |= _figures(case, ours, None)
        else:
            figures |= _figures(case, ours, await _reference(case))
    return figures


@dataclass(frozen=True)
class Run:
    """What one change took."""

    seconds: float
    calls: int
    writes: Counter[str]
    writes_elsewhere: int
    evicted: int


def _node(before: Places) -> LocalTransport:
    spec = {
        "model": MODEL,
        "migMode": "on",
        "instances": [{"profile": name, "start": start} for name, start in before],
    }
    node = LocalTransport(Engine("bench", boards.build("bench", [spec] * GPUS), LATENCIES))
    install.install(node)
    return node


async def _ours(case: Case) -> Run:
    node = _node(case.before)
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(node, pathlib.Path(folder))
        wish = dict(Counter(name for name, _ in case.wanted))
        rig.want("bench", *rows(*[wish] * case.on), generation=Generation(1, 1))
        began, calls = clock.loop_time(), _calls(node)
        await rig.until(Phase.SUCCESS, Phase.FAILED, within=120)
        return _run(node, case.on, clock.loop_time() - began, calls, len(rig.evicted))


async def _reference(case: Case) -> Run:
    node = _node(case.before)
    nvml = threads.Nvml(PynvmlDriver())
    hands = changes.Changes(nvml, PynvmlWriter())
    began, calls = clock.loop_time(), _calls(node)
    await nvml.open()
    for gpu in (await nvml.observe()).gpus[: case.on]:
        board = await hands.board(gpu)
        for instance in await hands.instances(gpu):
            await hands.destroy_instance(gpu, instance.id)
        for name, start in case.wanted:
            await hands.create_instance(gpu, board.profile(name), start)
    await nvml.close()
    return _run(node, case.on, clock.loop_time() - began, calls, 0)


def _calls(node: LocalTransport) -> int:
    return sum(node.describe()["calls"].values())


def _run(node: LocalTransport, on: int, seconds: float, calls: int, evicted: int) -> Run:
    told = node.describe()["writes"]
    here, elsewhere = Counter[str](), 0
    for index in range(GPUS):
        made = Counter(told.get(str(index), {}))
        if index < on:
            here += made
        else:
            elsewhere += made.total()
    return Run(seconds, _calls(node) - calls, here, elsewhere, evicted)


def _figures(case: Case, ours: Run, reference: Run | None) -> dict[str, Figure]:
    def figure(value: float, unit: str, than: float | None = None) -> Figure:
        ratio = round(value / than, 3) if than else None
        against = "clear and recreate, same simulator and latency" if than else None
        return Figure(value=value, unit=unit, ratio=ratio, against=against)

    destroyed, made = _destroyed(ours), _made(ours)
    return {
        f"{case.name}, time": Figure(
            value=round(ours.seconds, 3),
            unit="s",
            ratio=round(ours.seconds / reference.seconds, 3) if reference else None,
            against="clear and recreate, same simulator and latency" if reference else None,
            published=case.published,
        ),
        f"{case.name}, NVML writes": figure(
            ours.writes.total(), "calls", reference.writes.total() if reference else None
        ),
        f"{case.name}, instances destroyed": figure(
            destroyed, "instances", _destroyed(reference) if reference else None
        ),
        f"{case.name}, instances made": figure(
            made, "instances", _made(reference) if reference else None
        ),
        f"{case.name}, NVML calls": figure(ours.calls, "calls"),
        f"{case.name}, NVML writes on other GPUs": figure(ours.writes_elsewhere, "calls"),
        f"{case.name}, evictions": figure(ours.evicted, "pods"),
    }


def _destroyed(run: Run) -> int:
    return run.writes["nvmlGpuInstanceDestroy"]


def _made(run: Run) -> int:
    return run.writes["nvmlDeviceCreateGpuInstanceWithPlacement"]
