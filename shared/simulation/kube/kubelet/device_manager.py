"""Which devices the node has and which container holds which: the kubelet's device manager.

Registrations, lists and admissions turn into counts, choices and holdings here. Pure: `endpoints`
and `admission` call it, `status` and `pod_resources` read it, time is an argument. It is wrong
where the kubelet is wrong: it counts by device id, so renamed ids are handed out a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

# How long the kubelet keeps the capacity of a resource whose plugin is gone.
ENDPOINT_GRACE: Final = 300.0

Order = Callable[[Iterable[str]], list[str]]


class RefusedPodError(Exception):
    """A pod can't be admitted; the text is the kubelet's own sentence."""


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a plugin's list."""

    id: str
    healthy: bool
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """What the node object says of one resource."""

    capacity: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class Place:
    """A container of a pod: what holds devices."""

    pod_uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Request:
    """Devices that a container needs: those it takes over, and the free ones to choose from."""

    place: Place
    resource: str
    required: int
    reused: tuple[str, ...]
    available: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Whether free devices are needed besides those taken over."""
        return len(self.reused) < self.required


@dataclass(slots=True)
class _Resource:
    """A resource that some plugin has registered since the checkpoint was begun."""

    devices: dict[str, Device] = field(default_factory=dict)
    stopped_at: float | None = None

    @property
    def healthy(self) -> dict[str, Device]:
        """The listed devices that can be handed out."""
        return {name: device for name, device in self.devices.items() if device.healthy}


class DeviceManager:
    """The state; `order` is how ids of a set are put in a row (the real one's is random)."""

    def __init__(self, *, order: Order = sorted, grace: float = ENDPOINT_GRACE) -> None:
        self._order = order
        self._grace = grace
        self._resources: dict[str, _Resource] = {}
        self._removed: set[str] = set()
        self._held: dict[tuple[Place, str], tuple[str, ...]] = {}
        self._chosen: dict[str, set[str]] = {}

    # ---- what plugins say

    def connected(self, resource: str) -> None:
        """Note that a plugin took the resource; what was listed before stays until it lists."""
        self._removed.discard(resource)
        self._resources.setdefault(resource, _Resource()).stopped_at = None

    def listed(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a plugin's whole list in place of the one before."""
        known = self._resources.setdefault(resource, _Resource())
        known.devices = {device.id: device for device in devices}

    def disconnected(self, resource: str, now: float) -> None:
        """Note that the resource's plugin went: nothing of it is healthy until another lists."""
        known = self._resources[resource]
        known.stopped_at = now
        known.devices = {name: Device(name, healthy=False) for name in known.devices}

    # ---- what the node object says

    def counts(self, now: float) -> dict[str, Count]:
        """Count every resource; one whose plugin has been gone for the grace reads 0 from now."""
        for name, known in list(self._resources.items()):
            if known.stopped_at is not None and now - known.stopped_at > self._grace:
                del self._resources[name]
                self._removed.add(name)
        counts = {name: Count(0, 0) for name in self._removed}
        for name, known in self._resources.items():
            counts[name] = Count(len(known.devices), len(known.healthy))
        return counts

    def allocatable_devices(self) -> dict[str, tuple[Device, ...]]:
        """Return the healthy devices of each resource, held or not."""
        healthy = {name: known.healthy for name, known in self._resources.items()}
        return {
            name: tuple(devices[one] for one in self._order(devices))
            for name, devices in healthy.items()
        }

    # ---- admission, in the order of its calls

    def knows(self, resource: str) -> bool:
        """Whether the resource is a plugin's; others are not the device manager's business."""
        return resource in self._resources or any(name == resource for _, name in self._held)

    def keep_only(self, pod_uids: Collection[str]) -> None:
        """Free what pods hold that are no longer active."""
        self._held = {key: ids for key, ids in self._held.items() if key[0].pod_uid in pod_uids}

    def request(
        self, place: Place, resource: str, required: int, reusable: Iterable[str] = ()
    ) -> Request:
        """Say what a container can be given.

        Raises:
            RefusedPodError: there is not enough, in the kubelet's words.
        """
        if resource not in self._resources:
            raise RefusedPodError(f"cannot allocate unregistered device {resource}")
        healthy = self._resources[resource].healthy
        if not healthy:
            raise RefusedPodError(
                f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            )
        reused = self._order(reusable)[:required]
        free = self._order(healthy.keys() - self._in_use(resource))
        needed = required - len(reused)
        if len(free) < needed:
            raise RefusedPodError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(free)}"
            )
        return Request(place, resource, required, tuple(reused), tuple(free))

    def require_still_healthy(self, place: Place) -> None:
        """Check what a container had before the node booted: all of it, or the pod is refused.

        Raises:
            RefusedPodError: a plugin has not listed yet, or lists some of it no longer as healthy.
        """
        for resource, ids in self.held_by(place).items():
            healthy = self._resources[resource].healthy if resource in self._resources else None
            if healthy is None:
                raise RefusedPodError(f"cannot allocate unregistered device {resource}")
            if not healthy:
                raise RefusedPodError(
                    f"no healthy devices present; cannot allocate unhealthy devices {resource}"
                )
            if not healthy.keys() >= set(ids):
                raise RefusedPodError(
                    "previously allocated devices are no longer healthy; cannot allocate unhealthy"
                    f" devices {resource}"
                )

    def choose(self, request: Request, preferred: Iterable[str] = ()) -> tuple[str, ...]:
        """Choose the devices and keep them from others: reused, then preferred, then any free."""
        available = set(request.available)
        proposed = [name for name in preferred if name in available]
        ranked = dict.fromkeys((*request.reused, *proposed, *request.available))
        ids = tuple(ranked)[: request.required]
        self._chosen.setdefault(request.resource, set()).update(ids)
        return tuple(self._order(ids))

    def allocated(self, request: Request, ids: tuple[str, ...]) -> None:
        """Note that the plugin answered: the container holds these devices."""
        self._held[request.place, request.resource] = ids
        self._chosen[request.resource].difference_update(ids)

    def abandoned(self, request: Request, ids: tuple[str, ...]) -> None:
        """Note that the plugin refused: what was chosen is free again."""
        self._chosen[request.resource].difference_update(ids)

    # ---- who holds what

    def held(self) -> dict[tuple[Place, str], tuple[str, ...]]:
        """Return every holding, by container and resource."""
        return dict(self._held)

    def held_by(self, place: Place) -> dict[str, tuple[str, ...]]:
        """Return what one container holds, by resource."""
        return {
            resource: tuple(self._order(ids))
            for (holder, resource), ids in self._held.items()
            if holder == place
        }

    def resources(self) -> frozenset[str]:
        """Name the resources that are registered, served or within their grace."""
        return frozenset(self._resources)

    def restore(
        self,
        held: dict[tuple[Place, str], tuple[str, ...]],
        resources: Collection[str],
        now: float,
    ) -> None:
        """Begin as a restarted kubelet does: holders known, every plugin still away."""
        self._held = dict(held)
        self._resources = {name: _Resource(stopped_at=now) for name in resources}

    def _in_use(self, resource: str) -> set[str]:
        in_use = set(self._chosen.get(resource, ()))
        for (_, name), ids in self._held.items():
            if name == resource:
                in_use.update(ids)
        return in_use
