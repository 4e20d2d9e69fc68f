"""`make observe`: get Prometheus and a collector, play a story before them, look at what they say.

Arguments are pytest's. Exit status 0: all tests passed; 1: not all, or a program could not be had,
which is never passed over in silence.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

from tests.kube.build import CannotBuildError
from tests.observe import build


def main() -> int:
    """Build and test."""
    try:
        for line in build.build_all():
            print(f"make observe: {line}", flush=True)
    except CannotBuildError as error:
        sys.stderr.write(f"make observe: NOTHING WAS TESTED. {error}\n")
        return 1
    folder = str(pathlib.Path(__file__).parent)
    result = pytest.main(["-m", "observe", "--durations", "5", *sys.argv[1:], folder])
    return int(result != pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
