"""kubelet.sock: plugins register here; each one's list is followed until its stream ends.

A second plugin on a resource takes over at once, and the first one's stream goes on being read, as
in the real kubelet: the last list counts, whoever sent it. When the one that serves ends, one that
is still connected serves again, and the list of the one that went stays until it sends its own.
Before 1.35 the end of any of them cut off the one that served; that is kept behind a switch. One
fault is always here: a registration under the name of a socket whose stream is being read is
refused, and the end of that stream goes unnoticed from then on.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import re
from collections.abc import Awaitable, Callable
from typing import Final

from grpclib import GRPCError, Status, server

from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.runtime import clock
from shared.simulation.kube.kubelet import device_manager, record
from shared.simulation.kube.kubelet import endpoint as endpoints

VERSION: Final = "v1beta1"
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")

Save = Callable[[], Awaitable[None]]  # writes the checkpoint

_log = logging.getLogger(__name__)


class Registrations(api_grpc.RegistrationBase):
    """The Registration service, and the plugins that came through it.

    `group` is the kubelet's own: it carries one task for each plugin's list.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        manager: device_manager.DeviceManager,
        seen: record.Record,
        group: asyncio.TaskGroup,
        save: Save,
        *,
        old_endpoint_drops_new: bool,
    ) -> None:
        self._folder = folder
        self._manager = manager
        self._seen = seen
        self._group = group
        self._save = save
        self._old_endpoint_drops_new = old_endpoint_drops_new
        self._serving: dict[str, endpoints.Endpoint] = {}
        self._connected: dict[tuple[str, str], endpoints.Endpoint] = {}  # by resource and socket
        self._forgotten: set[endpoints.Endpoint] = set()  # their end goes unnoticed

    def serving(self, resource: str) -> endpoints.Endpoint | None:
        """Return the plugin that serves a resource now."""
        return self._serving.get(resource)

    async def Register(  # noqa: N802 - the name is the protocol's
        self, stream: server.Stream[api_pb2.RegisterRequest, api_pb2.Empty]
    ) -> None:
        """Take a plugin on: check what it says, ask for its options, follow its list."""
        request = await stream.recv_message()
        if request is None:
            return
        self._seen.registrations[request.resource_name] += 1
        refuse_bad(request)
        endpoint = endpoints.Endpoint(self._folder / request.endpoint, request.resource_name)
        try:
            await endpoint.connect()
        except endpoints.FAILURES as error:
            endpoint.close()
            reason = f"failed to dial device plugin: {endpoints.sentence(error)}"
            raise GRPCError(Status.UNKNOWN, reason) from error
        except asyncio.CancelledError:
            endpoint.close()
            raise
        self._refuse_connected(endpoint)
        self._manager.connected(endpoint.resource)
        self._serving[endpoint.resource] = endpoint
        following = self._group.create_task(self._follow(endpoint), name=f"list of {endpoint.name}")
        # Also where the kubelet stops before the task has begun.
        following.add_done_callback(lambda _: endpoint.close())
        await self._save()
        await stream.send_message(api_pb2.Empty())

    def _refuse_connected(self, endpoint: endpoints.Endpoint) -> None:
        key = endpoint.resource, endpoint.name
        before = self._connected.setdefault(key, endpoint)
        if before is not endpoint:
            self._forgotten.add(before)
            endpoint.close()
            raise GRPCError(
                Status.UNKNOWN, f"device plugin already connected: {self._folder / endpoint.name}"
            )

    async def _follow(self, endpoint: endpoints.Endpoint) -> None:
        """Read a plugin's lists until its stream ends."""
        try:
            async for devices in endpoint.lists():
                self._seen.lists.append(
                    record.Listed(clock.loop_time(), endpoint.resource, endpoint.name, devices)
                )
                self._manager.listed(endpoint.resource, devices)
        except endpoints.FAILURES as error:
            _log.info("ListAndWatch of %s ended: %s", endpoint.name, endpoints.sentence(error))
        self._ended(endpoint)

    def _ended(self, endpoint: endpoints.Endpoint) -> None:
        """Let another plugin serve the resource of one that went, or disconnect it."""
        if endpoint in self._forgotten:
            return
        resource = endpoint.resource
        del self._connected[resource, endpoint.name]
        if self._old_endpoint_drops_new:
            remaining = None
        else:
            remaining = next(
                (it for it in self._connected.values() if it.resource == resource), None
            )
        if remaining is not None:
            self._serving[resource] = remaining
        elif current := self._serving.pop(resource, None):
            current.close()
            self._manager.disconnected(resource, clock.loop_time())


def refuse_bad(request: api_pb2.RegisterRequest) -> None:
    """Raise what the kubelet answers to a wrong version or resource name."""
    if request.version != VERSION:
        raise GRPCError(
            Status.UNKNOWN,
            f'requested API version "{request.version}" is not supported by kubelet. '
            f'Supported version is ["{VERSION}"]',
        )
    if not is_extended_resource(request.resource_name):
        raise GRPCError(Status.UNKNOWN, f'the ResourceName "{request.resource_name}" is invalid')


def is_extended_resource(name: str) -> bool:
    """Whether a name is `<domain>/<name>` outside Kubernetes' own domain."""
    domain, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    quota = f"requests.{domain}"  # the quota's name for it must be a name as well
    return (
        len(quota) <= 253
        and len(rest) <= 63
        and _DOMAIN.fullmatch(quota) is not None
        and _NAME.fullmatch(rest) is not None
    )
