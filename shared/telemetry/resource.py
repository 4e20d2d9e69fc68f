"""Who sends spans and metrics, in OpenTelemetry's words. Imported only where something is sent."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource

from shared import version


def resource(service: str, node: str) -> Resource:
    """A service of a node; `node` is empty for the controller."""
    place = {"k8s.node.name": node} if node else {}
    return Resource.create(
        {"service.name": f"slicewire-{service}", "service.version": version.__version__} | place
    )
