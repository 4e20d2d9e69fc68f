"""A request's path to what it asks for: a kind, and perhaps a namespace, a name, a subresource."""

from __future__ import annotations

from dataclasses import dataclass

from shared.simulation.kube.apiserver import kinds, refusals
from shared.simulation.kube.apiserver.kinds import Kind


@dataclass(frozen=True)
class Target:
    """What a path leads to; a name of "" means the whole collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split(path: str) -> tuple[str, list[str]] | None:
    """Return apiVersion and the steps after it, or None where the path names no resource."""
    root, *steps = path.strip("/").split("/")
    if root == "api" and len(steps) >= 2:
        return steps[0], steps[1:]
    if root == "apis" and len(steps) >= 3:
        return f"{steps[0]}/{steps[1]}", steps[2:]
    return None


def target(group_version: str, steps: list[str]) -> Target:
    """Return what the steps lead to; 404 where there is nothing."""
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2 and steps[2] not in kinds.NAMESPACE.subresources:
        namespace, steps = steps[1], steps[2:]
    kind = kinds.served(group_version, steps[0])
    if kind is None or len(steps) > 3 or (namespace and not kind.namespaced):
        raise refusals.no_such_resource()
    _, name, subresource = [*steps, "", ""][:3]
    if subresource and subresource not in kind.subresources:
        raise refusals.no_such_resource()
    if name and kind.namespaced and not namespace:
        raise refusals.no_such_resource()
    return Target(kind, namespace, name, subresource)
