"""Admission of a bound pod: its containers' requests become devices, and what these bring along.

For each container and resource: what the kubelet can give, which of it the plugin would take, then
Allocate. The pods loop calls this for one pod at a time, as the real kubelet does; plugins may list
anew meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from shared.kubelet.v1beta1 import api_pb2
from shared.simulation.kube.kubelet import containers, device_manager, record
from shared.simulation.kube.kubelet import endpoint as endpoints

REASON = "UnexpectedAdmissionError"


class Plugins(Protocol):
    """Where admission finds the plugin of a resource."""

    def serving(self, resource: str) -> endpoints.Endpoint | None:
        """Return the plugin that serves a resource now."""


class Admission:
    """Admits pods on one node's devices.

    `active` gives the uids of the pods that run, whose devices are kept; all others' are free.
    """

    def __init__(
        self,
        manager: device_manager.DeviceManager,
        plugins: Plugins,
        seen: record.Record,
        active: Callable[[], set[str]],
        *,
        init_reuse: bool,
        lost_grants: bool,
    ) -> None:
        self._manager = manager
        self._plugins = plugins
        self._seen = seen
        self._active = active
        self._init_reuse = init_reuse
        self._lost_grants = lost_grants

    async def admit(
        self, pod: dict[str, Any], former: Mapping[str, containers.Container]
    ) -> dict[str, containers.Container]:
        """Give each container its devices; return what each then has, init containers first.

        `former` is what the pod's containers had before the node booted, empty for a new pod.

        Raises:
            RefusedPodError: with the message that the pod's status carries.
        """
        self._manager.keep_only(self._active())
        uid = pod["metadata"]["uid"]
        reusable: dict[str, set[str]] = {}
        admitted: dict[str, containers.Container] = {}
        try:
            for spec, is_init in _containers(pod["spec"]):
                container = await self._devices_for(uid, spec, reusable, former)
                admitted[container.name] = container
                for resource, ids in container.slots.items():
                    _settle(reusable.setdefault(resource, set()), ids, kept=not is_init)
            self._lose(admitted)
        except device_manager.RefusedPodError as error:
            self._manager.keep_only(self._active())
            message = f"Allocate failed due to {error}, which is unexpected"
            raise device_manager.RefusedPodError(message) from error
        return admitted

    def _lose(self, admitted: dict[str, containers.Container]) -> None:
        """Fail a pod whose plugins have answered, if the switch says so."""
        if self._lost_grants and any(container.slots for container in admitted.values()):
            raise device_manager.RefusedPodError("a grant that was lost on its way")

    async def _devices_for(
        self,
        pod_uid: str,
        spec: dict[str, Any],
        reusable: dict[str, set[str]],
        former: Mapping[str, containers.Container],
    ) -> containers.Container:
        place = device_manager.Place(pod_uid, spec["name"])
        if spec["name"] in former:
            self._manager.require_still_healthy(place)
            return former[spec["name"]]
        answers: dict[str, api_pb2.ContainerAllocateResponse] = {}
        for resource, required in containers.limits(spec).items():
            if self._manager.knows(resource) and required:
                answers[resource] = await self._allocate(
                    place, resource, required, reusable.get(resource, set())
                )
        return containers.build(spec, self._manager.held_by(place), answers)

    async def _allocate(
        self, place: device_manager.Place, resource: str, required: int, reusable: set[str]
    ) -> api_pb2.ContainerAllocateResponse:
        reused = reusable if self._init_reuse else ()
        request = self._manager.request(place, resource, required, reused)
        plugin = self._plugins.serving(resource)
        if plugin is None:
            raise device_manager.RefusedPodError(f"unknown Device Plugin {resource}")
        ids = self._manager.choose(request, await self._preferred(plugin, request))
        self._seen.calls.append(record.Call("Allocate", resource, ids))
        try:
            answer = await plugin.allocate(ids)
        except endpoints.FAILURES as error:
            self._manager.abandoned(request, ids)
            raise device_manager.RefusedPodError(endpoints.sentence(error)) from error
        self._manager.allocated(request, ids)
        return answer

    async def _preferred(
        self, plugin: endpoints.Endpoint, request: device_manager.Request
    ) -> tuple[str, ...]:
        """Ask the plugin what it would take, where it offers that and there is a choice."""
        if not plugin.preferred_available or not request.open:
            return ()
        self._seen.calls.append(
            record.Call(
                "GetPreferredAllocation",
                request.resource,
                request.available,
                request.reused,
                request.required,
            )
        )
        try:
            return await plugin.preferred(request)
        except endpoints.FAILURES as error:
            reason = endpoints.sentence(error)
            raise device_manager.RefusedPodError(
                f"device plugin GetPreferredAllocation rpc failed with err: {reason}"
            ) from error


def _containers(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Go through a pod's containers in the order of admission; True for one that ends first.

    A restartable init container (a sidecar) keeps its devices, so it counts as an app container.
    """
    for container in spec.get("initContainers", ()):
        yield container, container.get("restartPolicy") != "Always"
    for container in spec["containers"]:
        yield container, False


def _settle(reusable: set[str], ids: tuple[str, ...], *, kept: bool) -> None:
    """Add the ids of a container that ends to those for reuse, take out those that stay held."""
    if kept:
        reusable.difference_update(ids)
    else:
        reusable.update(ids)
