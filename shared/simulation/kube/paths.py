"""Paths of the API server that the stand-ins call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"


def node(name: str) -> str:
    """Path of a node."""
    return f"{NODES}/{name}"


def pods_in(namespace: str) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(manifest: Mapping[str, Any]) -> str:
    """Path of a pod object."""
    metadata = manifest["metadata"]
    return f"{pods_in(metadata['namespace'])}/{metadata['name']}"


def events(namespace: str) -> str:
    """Path of a namespace's events."""
    return f"/api/v1/namespaces/{namespace}/events"
