"""`make gpu`: run the read-only suite on this machine's NVML.

Exit status 0: everything is as expected; 1: something is not; 2: there is no GPU to ask.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shared.nvml import errors
from shared.nvml.driver import PynvmlDriver

SUITE = Path(__file__).with_name("real_nvml.py")


def main() -> int:
    """Ask whether there is a GPU, then run the suite on it."""
    if reason := without_gpu():
        sys.stderr.write(f"make gpu: {reason}; nothing was tested\n")
        return 2
    return int(pytest.main(["-p", "no:cacheprovider", "-v", str(SUITE)]) != pytest.ExitCode.OK)


def without_gpu() -> str:
    """Say why there is nothing to test; empty where there is."""
    nvml = PynvmlDriver()
    try:
        nvml.open()
    except errors.NvmlError as error:
        return str(error)
    try:
        return "" if nvml.count() else "NVML lists no GPU on this machine"
    finally:
        nvml.close()


if __name__ == "__main__":
    sys.exit(main())
