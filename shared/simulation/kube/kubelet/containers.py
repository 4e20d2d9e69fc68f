"""Containers as the fake kubelet runs them: a spec and plugins' answers become what is inside.

A container here is a value: the environment, devices and mounts that its processes would see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.kubelet.v1beta1 import api_pb2


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the host that the container sees."""

    container_path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host that the container sees."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Container:
    """What a container has: `slots` are the device ids by resource."""

    name: str
    env: Mapping[str, str]
    slots: Mapping[str, tuple[str, ...]]
    devices: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    annotations: Mapping[str, str] | None = None
    cdi: tuple[str, ...] = ()


@dataclass(slots=True)
class RunningPod:
    """A pod that was admitted: its object as last seen, and its containers.

    `restarts` counts the boots of the node that it has come through.
    """

    manifest: dict[str, Any]
    containers: dict[str, Container]
    finished: bool = False
    restarts: int = 0

    @property
    def uid(self) -> str:
        """The pod object's uid."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return key_of(self.manifest)


def key_of(pod: Mapping[str, Any]) -> str:
    """Name a pod object as people type it: `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def limits(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return a container's extended resources; the limit alone counts, the request equals it."""
    wanted = spec.get("resources", {}).get("limits", {})
    return {name: int(amount) for name, amount in wanted.items() if "/" in name}


def requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return what a pod needs of each extended resource, as the scheduler counts.

    App containers add up; an init container ends before they start, so only the largest counts.
    """
    spec = pod["spec"]
    needs: dict[str, int] = {}
    for container in spec["containers"]:
        for name, amount in limits(container).items():
            needs[name] = needs.get(name, 0) + amount
    for container in spec.get("initContainers", ()):
        for name, amount in limits(container).items():
            needs[name] = max(needs.get(name, 0), amount)
    return needs


def build(
    spec: Mapping[str, Any],
    slots: Mapping[str, tuple[str, ...]],
    answers: Mapping[str, api_pb2.ContainerAllocateResponse],
) -> Container:
    """Make a container of its spec and its plugins' answers; the spec's variables win."""
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for answer in answers.values():
        env.update(answer.envs)
        annotations.update(answer.annotations)
    env.update({one["name"]: one.get("value", "") for one in spec.get("env", ())})
    return Container(
        name=spec["name"],
        env=env,
        slots=dict(slots),
        devices=tuple(
            DeviceNode(device.container_path, device.host_path, device.permissions)
            for answer in answers.values()
            for device in answer.devices
        ),
        mounts=tuple(
            Mount(mount.container_path, mount.host_path, mount.read_only)
            for answer in answers.values()
            for mount in answer.mounts
        ),
        annotations=annotations,
        cdi=tuple(device.name for answer in answers.values() for device in answer.cdi_devices),
    )
