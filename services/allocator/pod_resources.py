"""pod-resources: the kubelet's word on who holds what → Lists for the ledger.

Asked on a timer and soon after each Allocate; `allocatable` is asked by endpoints that want to
know whether the kubelet still counts with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from grpclib import GRPCError

from services.allocator.grants import Listed
from shared.domain.slots import Holder
from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
CALL_S = 5.0
SOON_S = 0.3  # Allocate calls of one pod come together, and the pod is known a little later
AGAIN_S = 1.0  # after a List that leaves something open
MOST_WAIT_S = 10.0  # between tries while the kubelet is away
DEVICE_PREFIXES = ("GPU-", "MIG-")  # ids that are ours, or NVIDIA's for the same devices

# What a call to the kubelet raises: nobody there, or the kubelet's own refusal (rate limit).
FAILURES = (*sockets.UNREACHABLE, GRPCError)


class PodResources:
    """Client of one socket. `take` gets each List and when it was asked for.

    `doubtful` says after a List whether another should follow soon: a holder may have gone, or
    holders of withheld slots are to go.
    """

    def __init__(
        self,
        socket: pathlib.Path,
        take: Callable[[Sequence[Listed], int], None],
        doubtful: Callable[[], bool],
        *,
        now_ns: Callable[[], int],
        period_s: float,
    ) -> None:
        self._socket = socket
        self._take = take
        self._doubtful = doubtful
        self._now_ns = now_ns
        self._period_s = period_s
        self._soon = asyncio.Event()
        self._trouble = ""  # why the kubelet does not answer, empty while it does

    def soon(self) -> None:
        """Have the next List asked for shortly; calls that come together share one."""
        self._soon.set()

    async def run(self) -> None:
        """Ask for ever, more and more rarely while the kubelet does not answer."""
        waits = backoff.Backoff(first=0.5, most=MOST_WAIT_S)
        while True:
            try:
                asked_ns = self._now_ns()
                rows = await self._list()
            except FAILURES as error:
                self._complain(reason(error, CALL_S))
                await clock.sleep(waits.next())
                continue
            waits.reset()
            self._relent()
            self._take(rows, asked_ns)
            await self._rest(AGAIN_S if self._doubtful() else self._period_s)

    async def allocatable(self) -> Mapping[str, frozenset[str]]:
        """Return the healthy device ids of each resource, as the kubelet counts them.

        Raises:
            OSError, StreamTerminatedError, GRPCError: the kubelet does not answer.
        """
        async with sockets.channel(self._socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            request = api_pb2.AllocatableResourcesRequest()
            answer = await stub.GetAllocatableResources(request, timeout=CALL_S)
        return merged(answer.devices)

    async def _list(self) -> tuple[Listed, ...]:
        async with sockets.channel(self._socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            answer = await stub.List(api_pb2.ListPodResourcesRequest(), timeout=CALL_S)
        return rows_of(answer)

    def _complain(self, reason: str) -> None:
        level = logging.DEBUG if reason == self._trouble else logging.WARNING
        log.log(
            level,
            "the kubelet does not say who holds what (%s):"
            " new holders stay unknown and MIG changes wait until it answers at %s",
            *(reason, self._socket),
        )
        self._trouble = reason

    def _relent(self) -> None:
        if self._trouble:
            log.info("the kubelet says again who holds what")
        self._trouble = ""

    async def _rest(self, pause: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._soon.wait()
                await clock.sleep(SOON_S)
        self._soon.clear()


def reason(error: Exception, limit_s: float) -> str:
    """Why the kubelet did not do what a call asked of it, in its own words if it said any."""
    if isinstance(error, GRPCError):
        return error.message or error.status.name
    if isinstance(error, TimeoutError):
        return f"no answer within {limit_s:g} s"
    return str(error)


def rows_of(answer: api_pb2.ListPodResourcesResponse) -> tuple[Listed, ...]:
    """Read a List: one row for each container and resource, only with ids of GPUs."""
    return tuple(
        Listed(Holder(pod.namespace, pod.name, container.name), resource, tuple(sorted(ours)))
        for pod in answer.pod_resources
        for container in pod.containers
        for resource, ids in merged(container.devices).items()
        if (ours := [slot for slot in ids if slot.startswith(DEVICE_PREFIXES)])
    )


def merged(entries: Iterable[api_pb2.ContainerDevices]) -> dict[str, frozenset[str]]:
    """Gather ids by resource; the kubelet gives each id an entry of its own."""
    ids: dict[str, set[str]] = {}
    for entry in entries:
        ids.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: frozenset(found) for resource, found in ids.items()}
