"""The port through which containers get processes on the node's simulated hardware.

The kubelet knows nothing of GPUs: it says which pod's containers begin and end, and whoever put the
node together has them compute, or lets them be values only.
"""

from __future__ import annotations

from typing import Protocol

from shared.simulation.kube.kubelet.containers import RunningPod


class DiedError(Exception):
    """A pod's process ended as soon as it began; the text says of what."""


class Runtime(Protocol):
    """What runs containers."""

    async def begin(self, pod: RunningPod) -> None:
        """Start the processes of a pod.

        Raises:
            DiedError: they have ended already.
        """

    async def end(self, pod: RunningPod) -> None:
        """End the processes of a pod, if any are left."""


class Values:
    """The runtime of containers that are values: they have no process."""

    async def begin(self, pod: RunningPod) -> None:
        """Nothing begins."""

    async def end(self, pod: RunningPod) -> None:
        """Nothing ends."""
