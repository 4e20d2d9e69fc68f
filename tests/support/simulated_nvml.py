"""A simulated NVML in the test's own process, taken out again afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from shared.simulation.gpu import boards, install
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport

Spec = str | Mapping[str, Any]


@contextlib.contextmanager
def simulated_nvml(*gpus: Spec, node: str = "gpu-a") -> Iterator[LocalTransport]:
    """Have pynvml see these GPUs; the transport breaks and heals them."""
    transport = LocalTransport(Engine(node, boards.build(node, gpus)))
    install.install(transport)
    try:
        yield transport
    finally:
        install.remove()
