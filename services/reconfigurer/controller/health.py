"""Inventory and ledger of a node → Events for the node and for the pods that hold slots. Pure.

A device that cannot be handed out is told once per verdict, on its node and on each pod that holds
one of its slots; a device that comes back is told on its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from services.reconfigurer.controller import saying
from shared.contract import names
from shared.contract.messages import Inventory, Ledger, LedgerRow
from shared.domain import slots
from shared.domain.gpu import Health


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG device with its verdict and the words for it."""

    uuid: str
    words: str  # "GPU 0 (GPU-…)"
    health: Health

    @property
    def topic(self) -> str:
        """Names this verdict among all that ever were."""
        return f"{self.uuid} {self.health.state} {self.health.since_ns}"


def devices(inventory: Inventory) -> Iterator[Device]:
    """Every GPU and MIG device; one inside a sick GPU is told with its GPU."""
    for gpu in inventory.gpus:
        yield Device(gpu.uuid, f"GPU {gpu.index} ({gpu.uuid})", gpu.health)
        if gpu.health.usable:
            for mig in gpu.mig_devices:
                words = f"MIG device {gpu.index}:{mig.index} {mig.profile} ({mig.uuid})"
                yield Device(mig.uuid, words, mig.health)


def unhealthy(
    about: saying.About, inventory: Inventory, ledger: Ledger | None
) -> Iterator[saying.Say]:
    """What is to be said about devices that are withheld now."""
    for device in devices(inventory):
        if device.health.usable:
            continue
        held = _held(device, ledger)
        pods = sorted({row.holder.pod_key for row in held if row.holder})
        yield saying.Say(
            about=about,
            reason=names.GPU_UNHEALTHY,
            message=f"{_verdict(device)}; its slots are withdrawn, no other is. "
            + (f"Held by {', '.join(pods)}." if pods else "No pod holds one."),
            warning=True,
            topic=device.topic,
        )
        yield from _to_holders(device, held, about.name)


def recovered(about: saying.About, before: Inventory, after: Inventory) -> Iterator[saying.Say]:
    """What is to be said about devices that were withheld before and are served again."""
    sick = {device.uuid: device.health for device in devices(before) if not device.health.usable}
    for device in devices(after):
        if device.health.usable and device.uuid in sick:
            xid = sick[device.uuid].xid
            since = f" after XID {xid}" if xid is not None else ""
            message = f"{device.words} is healthy again{since}; its slots are served."
            yield saying.Say(about=about, reason=names.GPU_RECOVERED, message=message)


def _to_holders(device: Device, held: tuple[LedgerRow, ...], node: str) -> Iterator[saying.Say]:
    for pod in sorted({(row.holder.namespace, row.holder.pod) for row in held if row.holder}):
        yield saying.Say(
            about=saying.About(kind="Pod", namespace=pod[0], name=pod[1]),
            reason=names.GPU_UNHEALTHY,
            message=f"Node {node}: {_verdict(device)}. This pod holds a slot of it and keeps it;"
            " its work there may have failed: delete the pod to move it to another GPU.",
            warning=True,
            topic=device.topic,
        )


def _held(device: Device, ledger: Ledger | None) -> tuple[LedgerRow, ...]:
    rows = ledger.rows if ledger else ()
    return tuple(row for row in rows if device.uuid in {row.gpu_uuid, slots.device_of(row.slot)})


def _verdict(device: Device) -> str:
    health = device.health
    xid = f"XID {health.xid}" if health.xid is not None else ""
    named = xid and xid.lower() in health.reason.lower()
    why = ", ".join(part for part in ("" if named else xid, health.reason) if part)
    return f"{device.words} is {health.state}" + (f": {why}" if why else "")
