"""Where things lie outside the repository: what is built once, and what one cluster leaves.

Two variables choose them: SLICEWIRE_CACHE for programs and images, SLICEWIRE_KUBE for the name of
the cluster, so that two of them may run on one machine.
"""

from __future__ import annotations

import os
import pathlib
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = HERE / "programs"


def cache() -> pathlib.Path:
    """The folder of everything that may be kept from one run to the next."""
    default = pathlib.Path.home() / ".cache" / "slicewire"
    return pathlib.Path(os.environ.get("SLICEWIRE_CACHE", default)).absolute()


def cluster_name() -> str:
    """The name of the cluster: of its network namespace, its cgroups and its folder."""
    return os.environ.get("SLICEWIRE_KUBE", "slicewire")


def cluster_folder() -> pathlib.Path:
    """The folder of everything that the cluster writes; short, for sockets have to lie in it."""
    return pathlib.Path(tempfile.gettempdir()) / f"{cluster_name()}-kube"


def kept_logs() -> pathlib.Path:
    """The folder of what the last tested cluster has said, which outlives it."""
    return pathlib.Path(tempfile.gettempdir()) / f"{cluster_name()}-kube-logs"
