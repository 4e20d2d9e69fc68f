"""A simulated NVML in the test's own process, taken out again afterwards."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import boards, install, library
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


def c_library(transport: library.Transport) -> SimpleNamespace:
    """The library's functions behind real C function pointers, which check argument types."""
    plain = library.library(transport)
    wrapped = {
        symbol: ctypes.CFUNCTYPE(
            ctypes.c_int, *(taken for argument in signature for taken in argument.takes)
        )(returning_unknown(getattr(plain, symbol)))
        for symbol, signature in library.SIGNATURES.items()
    }
    return SimpleNamespace(nvmlErrorString=library.error_string, **wrapped)


def returning_unknown(function: Callable[..., int]) -> Callable[..., int]:
    """An exception must not leave a C callback: it would be printed and lost."""

    def call(*args: Any) -> int:
        try:
            return function(*args)
        except Exception:
            return int(Code.UNKNOWN)

    return call
