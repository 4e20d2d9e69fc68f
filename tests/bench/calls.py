"""Latency of what the kubelet asks, through a real gRPC client on the allocator's own socket.

The reference is an empty unary call (GetDevicePluginOptions) on the same server and client in the
same run; `ratio` is our own work: what a call takes beyond the reference, as a part of it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping

from grpclib.client import Channel

from services.rehearsal.embedded.cluster import Cluster
from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from tests.bench import cluster as clusters
from tests.bench.figures import Figure, percentile

Call = Callable[[], Awaitable[object]]
CALLS = 400
WARM_UP = 50
SHAPES = {"8 whole GPUs": 1, "8 x 10 slots": 10, "8 x 100 slots": 100}
SIZES = (1, 2, 4)
PUBLISHED = {
    ("allocate", "8 whole GPUs"): "141-178 us p50, 411-453 us p99 (NVIDIA's plugin, Go client)",
    ("preferred", "8 whole GPUs"): "1,000 us (NVIDIA's plugin, NVML at no cost)",
    ("preferred", "8 x 100 slots"): "830, 1,220, 2,000 us for 1, 2, 4 (NVIDIA's plugin)",
}


async def measure(cluster: Cluster) -> Mapping[str, Figure]:
    """All shapes and sizes."""
    figures: dict[str, Figure] = {}
    for shape, replicas in SHAPES.items():
        await clusters.share(cluster, replicas)
        node = cluster.nodes[clusters.NODE].kubelet
        listed = node.record.lists[-1]
        async with sockets.channel(node.plugins_folder / listed.endpoint) as channel:
            figures |= await _shape(channel, shape, listed.healthy)
    return figures


async def _shape(channel: Channel, shape: str, slots: tuple[str, ...]) -> dict[str, Figure]:
    stub = api_grpc.DevicePluginStub(channel)
    empty = await latencies(functools.partial(stub.GetDevicePluginOptions, api_pb2.Empty()))
    reference = percentile(empty, 0.5)
    figures = _both(f"empty call, {shape}", empty, None, None)
    for size in SIZES:
        preferred = api_pb2.PreferredAllocationRequest(
            container_requests=[
                api_pb2.ContainerPreferredAllocationRequest(
                    available_deviceIDs=slots, allocation_size=size
                )
            ]
        )
        allocate = api_pb2.AllocateRequest(
            container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=slots[:size])]
        )
        calls: dict[str, Call] = {
            "preferred": functools.partial(stub.GetPreferredAllocation, preferred),
            "allocate": functools.partial(stub.Allocate, allocate),
        }
        for name, call in calls.items():
            label = f"{name} {size}, {shape}"
            figures |= _both(label, await latencies(call), reference, PUBLISHED.get((name, shape)))
    return figures


async def latencies(call: Call, calls: int = CALLS) -> list[float]:
    """Seconds of each of so many calls, after a warm-up."""
    seconds: list[float] = []
    for number in range(WARM_UP + calls):
        began = time.perf_counter()
        await call()
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - began)
    return seconds


def _both(
    label: str, seconds: list[float], reference: float | None, published: str | None
) -> dict[str, Figure]:
    median = percentile(seconds, 0.5)
    ratio = round((median - reference) / reference, 2) if reference else None
    against = "the empty call's p50: our own work as a part of it" if reference else None
    return {
        f"{label}, p50": Figure(
            value=round(median * 1e6),
            unit="us",
            ratio=ratio,
            against=against,
            published=published,
        ),
        f"{label}, p99": Figure(value=round(percentile(seconds, 0.99) * 1e6), unit="us"),
    }
