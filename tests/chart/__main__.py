"""`make chart`: build helm from its Go module where it is missing, then test what it renders.

Arguments are pytest's. Exit status 0: all tests passed.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

from tests.kube import build


def main() -> int:
    """Build and test."""
    try:
        for line in build.build(build.HELM):
            print(f"make chart: {line}", flush=True)
    except build.CannotBuildError as error:
        sys.stderr.write(f"make chart: NOTHING WAS TESTED. {error}\n")
        return 1
    folder = str(pathlib.Path(__file__).parent / "rendered")
    return int(pytest.main(["-m", "chart", *sys.argv[1:], folder]))


if __name__ == "__main__":
    sys.exit(main())
