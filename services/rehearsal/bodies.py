"""Steps → the objects that they create, whichever API server takes them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.rehearsal.story import Budget, Container, Pod

PROMPT_S = 1  # a stand-in container takes its whole grace; most real ones end on SIGTERM


def pod(step: Pod, image: str) -> dict[str, Any]:
    """A pod whose containers run the image."""
    grace = PROMPT_S if step.grace_seconds is None else step.grace_seconds
    spec: dict[str, Any] = {
        "containers": _containers(step.containers, image),
        "terminationGracePeriodSeconds": grace,
    }
    if step.init:
        spec["initContainers"] = _containers(step.init, image)
    if step.node is not None:
        spec["nodeName"] = step.node
    metadata = {"name": step.name, "namespace": step.namespace, "labels": dict(step.labels)}
    return {"metadata": metadata, "spec": spec}


def budget(step: Budget) -> dict[str, Any]:
    """A PodDisruptionBudget."""
    selector = {"matchLabels": dict(step.selector)}
    return {
        "metadata": {"name": step.name},
        "spec": {"selector": selector, "minAvailable": step.min_available},
    }


def _containers(steps: Sequence[Container], image: str) -> list[dict[str, Any]]:
    return [_container(each, image) for each in steps]


def _container(step: Container, image: str) -> dict[str, Any]:
    amounts = {name: str(count) for name, count in step.requests.items()}
    return {
        "name": step.name,
        "image": image,
        "resources": {"requests": amounts, "limits": dict(amounts)},
    }
