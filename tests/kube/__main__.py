"""`make kube`: build what is missing, start a real cluster, run the tests on it, end it.

Arguments are pytest's (`-k name`, `-x`). Exit status 0: all tests passed; 1: not all, or the
cluster could not be had, which is never passed over in silence.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.kube import build, cluster, places
from tests.kube.image import build as image_build


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
        result = pytest.main(["-m", "real", "--durations", "10", *sys.argv[1:], folder])
    finally:
        cluster.down()
    tested = time.monotonic()
    took = f"{built - start:.0f} s, cluster and tests {tested - built:.0f} s"
    print(f"make kube: programs and images {took}")
    print(f"make kube: what everything has said is in {places.kept_logs()}")
    return int(result != pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
