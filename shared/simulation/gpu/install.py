"""Puts a simulated NVML into pynvml, in this process only, and takes it out again."""

from __future__ import annotations

from typing import Any

import pynvml

from shared.simulation.gpu import library
from shared.simulation.gpu.library import Transport

nvml: Any = pynvml  # nvidia-ml-py carries no types


def install(transport: Transport) -> None:
    """Have every NVML call of this process answered through `transport`."""
    replace(library.library(transport))


def remove() -> None:
    """Have the next nvmlInit load the real library again."""
    replace(None)


def replace(symbols: object | None) -> None:
    """Set what pynvml takes C symbols from.

    It keeps the functions it found, so those of the former library must be forgotten too.
    """
    with nvml.libLoadLock:
        nvml.nvmlLib = symbols
        nvml._nvmlGetFunctionPointer_cache.clear()
