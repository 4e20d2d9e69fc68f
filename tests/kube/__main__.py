"""`make kube`: build what is missing, start two real clusters, run the tests on them, end them.

Arguments are pytest's (`-k name`, `-x`, `-n 0` for one cluster and the tests in this process).
Exit status 0: all tests passed; 1: not all, or a cluster could not be had, which is never passed
over in silence.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kube import build, places
from tests.kube.image import build as image_build

WORKERS = ("gw0", "gw1")  # one cluster leaves half of two cores idle
BESIDE = ("-n", str(len(WORKERS)), "--dist", "loadgroup", "--no-loadscope-reorder")


def main() -> int:
    """Build, test and end; say how long each took."""
    start = time.monotonic()
    try:
        for line in build.build_all():
            print(f"make kube: {line}", flush=True)
        image_build.archives()  # now, for the tests stand in a network without a way out
    except (build.CannotBuildError, image_build.CannotBuildError) as error:
        sys.stderr.write(f"make kube: NOTHING WAS TESTED. {error}\n")
        return 1
    built = time.monotonic()
    try:
        folder = str(Path(__file__).parent)
        result = pytest.main(["-m", "real", *BESIDE, "--durations", "10", *sys.argv[1:], folder])
    finally:
        _end()
    tested = time.monotonic()
    took = f"{built - start:.0f} s, cluster and tests {tested - built:.0f} s"
    print(f"make kube: programs and images {took}")
    print(f"make kube: what everything has said is in {places.kept_logs()}")
    return int(result != pytest.ExitCode.OK)


def _end() -> None:
    """End the clusters of a run that was cut off; after others there is nothing to end."""
    down = (sys.executable, "-m", "tests.kube.cluster", "down")
    for worker in ("", *WORKERS):
        subprocess.run(down, env=os.environ | {places.WORKER: worker}, check=True)


if __name__ == "__main__":
    sys.exit(main())
