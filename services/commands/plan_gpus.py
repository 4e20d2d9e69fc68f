"""The GPUs that `slicewire plan` is asked about, from its flags.

Catalogue GPUs are read through the simulated NVML by the very driver that reads real ones, so a
plan sees what an advertiser would see.
"""

from __future__ import annotations

import re

from services.commands import plan_state
from services.views import planned
from shared.domain.gpu import Gpu
from shared.nvml.driver import PynvmlDriver
from shared.simulation.gpu import boards, catalogue, cutting, install, state
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport

NODE = "plan"  # UUIDs are uuid5 of plan/<index>/<model>
MOST_GPUS = 64
_COUNT = re.compile("[1-9][0-9]{0,18}")


def models(words: str) -> tuple[str, ...]:
    """Read `a100-80gb=2,t4=1`: catalogue names in index order.

    Raises:
        StateError: a count is no number, or there are too many GPUs.
    """
    found: list[str] = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        name, equals, count = word.partition("=")
        if equals and not _COUNT.fullmatch(count):
            raise plan_state.StateError(f"--gpus {word}: write {name.strip()}=<count>")
        many = int(count) if equals else 1
        if len(found) + many > MOST_GPUS:
            raise plan_state.StateError(f"--gpus names more than {MOST_GPUS} GPUs")
        found += [name] * many
    if not found:
        raise plan_state.StateError("--gpus names no GPU: write for instance a100-80gb=2,t4=1")
    return tuple(found)


def made(names: tuple[str, ...], given: plan_state.State) -> tuple[planned.Board, ...]:
    """Make the GPUs of the node.

    Raises:
        StateError: a model is unknown, or the state cannot be that of these GPUs.
    """
    for index in {*given.mode, *given.instances} - set(range(len(names))):
        raise plan_state.StateError(
            f"the state file speaks of GPU {index}, --gpus names {len(names)} GPUs"
        )
    specs = [_spec(index, name, given) for index, name in enumerate(names)]
    try:
        simulated = boards.build(NODE, specs)
    except boards.SpecError as error:
        raise plan_state.StateError(str(error)) from None
    return tuple(
        planned.Board(gpu=gpu, model=name, table=cutting.board(catalogue.model(name)))
        for gpu, name in zip(_seen(simulated), names, strict=True)
    )


def _spec(index: int, name: str, given: plan_state.State) -> dict[str, object]:
    instances = [
        {"profile": instance.profile, "start": instance.start}
        for instance in given.instances.get(index, ())
    ]
    mode = given.mode.get(index, bool(instances))
    return {"model": name, "migMode": mode, "instances": instances}


def _seen(simulated: tuple[state.Gpu, ...]) -> tuple[Gpu, ...]:
    install.install(LocalTransport(Engine(NODE, simulated)))
    driver = PynvmlDriver()
    try:
        driver.open()
        try:
            return tuple(driver.gpu(index) for index in range(driver.count()))
        finally:
            driver.close()
    finally:
        install.remove()
