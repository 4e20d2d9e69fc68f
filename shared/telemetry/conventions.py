"""Attributes of our spans → the names of OpenTelemetry's semantic conventions; called by `otlp`.

On the bus they are short, as `slicewire trace` shows them. What no convention names gets our own
prefix, so that a backend holds `slicewire.policy` and not one more `policy`. Pure.
"""

from __future__ import annotations

from typing import TypeAlias

from shared.contract.spans import SpanRecord

Attributes: TypeAlias = dict[str, str | int | float | bool]
PREFIX = "slicewire."
PUBLISHING = "publish "  # begins the names of steps that write to the bus


def is_sending(span: SpanRecord) -> bool:
    """Whether others go on from this span, by what it wrote to the bus."""
    return span.name.startswith(PUBLISHING)


def attributes(span: SpanRecord) -> Attributes:
    """Name everything as the conventions for Kubernetes, hardware and messaging do."""
    found: Attributes = {}
    for name, value in span.attributes.items():
        found |= _named(name, value)
    return found | _sent(span) if is_sending(span) else found


def _named(name: str, value: str | float | bool) -> Attributes:
    match name:
        case "node":
            return {"k8s.node.name": value}
        case "pod":
            namespace, _, pod = str(value).rpartition("/")
            return {"k8s.namespace.name": namespace, "k8s.pod.name": pod}
        case "gpu":
            return {"hw.id": value, "hw.type": "gpu"}
        case _:
            return {PREFIX + name: value}


def _sent(span: SpanRecord) -> Attributes:
    return {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": span.name.removeprefix(PUBLISHING),
    }
