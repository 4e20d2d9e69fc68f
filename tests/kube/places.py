"""Where things lie outside the repository: what is built once, and what one cluster leaves.

Two variables choose them: SLICEWIRE_CACHE for programs and images, SLICEWIRE_KUBE for the name of
the cluster, so that two of them may run on one machine. Of the workers of one run of tests
(pytest-xdist) each has a cluster of its own.
"""

from __future__ import annotations

import os
import pathlib
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = HERE / "programs"
WORKER = "PYTEST_XDIST_WORKER"  # set by pytest-xdist: gw0, gw1


def cache() -> pathlib.Path:
    """The folder of everything that may be kept from one run to the next."""
    default = pathlib.Path.home() / ".cache" / "slicewire"
    return pathlib.Path(os.environ.get("SLICEWIRE_CACHE", default)).absolute()


def cluster_name() -> str:
    """The name of the cluster: of its network namespace, its cgroups and its folder."""
    worker = os.environ.get(WORKER)
    return f"{_name()}-{worker}" if worker else _name()


def cluster_folder() -> pathlib.Path:
    """The folder of everything that the cluster writes; short, for sockets have to lie in it."""
    return pathlib.Path(tempfile.gettempdir()) / f"{cluster_name()}-kube"


def kept_logs() -> pathlib.Path:
    """The folder of what the last tested clusters have said, which outlives them."""
    return pathlib.Path(tempfile.gettempdir()) / f"{_name()}-kube-logs"


def _name() -> str:
    return os.environ.get("SLICEWIRE_KUBE", "slicewire")
