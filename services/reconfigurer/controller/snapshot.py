"""A whole node as one GET shows it, and patches that apply only to exactly that node. Pure.

The metadata watch shows neither whether a node is cordoned nor what it has to allocate; `drain`
reads both for the few nodes that are changing. A patch carries the resourceVersion that it was
decided on, so an act and the annotation that says whose act it is are written together or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNSCHEDULABLE = ("f:spec", "f:unschedulable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What counts of a node. `cordon_manager` last wrote `unschedulable`, empty if unknown."""

    name: str
    version: str = ""
    unschedulable: bool = False
    cordon_manager: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)  # extended resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What shall change on a node: None removes; `unschedulable` None leaves it alone."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    unschedulable: bool | None = None

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations) or self.unschedulable is not None

    def __or__(self, other: Patch) -> Patch:
        """Both at once; the other one wins where they differ."""
        return Patch(
            labels={**self.labels, **other.labels},
            annotations={**self.annotations, **other.annotations},
            unschedulable=self.unschedulable
            if other.unschedulable is None
            else other.unschedulable,
        )

    @property
    def words(self) -> str:
        """What it does, for a log: annotations of ours go without saying."""
        cordon = {True: "cordoned", False: "no longer cordoned", None: ""}[self.unschedulable]
        labels = ", ".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
        return "; ".join(part for part in (cordon, labels) if part)

    def body(self, version: str) -> dict[str, Any]:
        """The merge patch, refused by the server if the node is not of this version any more."""
        metadata: dict[str, Any] = {"resourceVersion": version}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.unschedulable is None:
            return {"metadata": metadata}
        return {"metadata": metadata, "spec": {"unschedulable": self.unschedulable or None}}


NOTHING = Patch()


def of(node: Mapping[str, Any]) -> Snapshot:
    """Read a Node object."""
    metadata = node["metadata"]
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return Snapshot(
        name=metadata["name"],
        version=metadata.get("resourceVersion", ""),
        unschedulable=bool((node.get("spec") or {}).get("unschedulable")),
        cordon_manager=_manager(metadata.get("managedFields") or ()),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        allocatable={name: int(count) for name, count in allocatable.items() if "/" in name},
    )


def _manager(entries: Any) -> str:
    """Who wrote `spec.unschedulable` last; the server moves a field to whoever changes it."""
    for entry in entries:
        above, field_name = UNSCHEDULABLE
        if field_name in ((entry.get("fieldsV1") or {}).get(above) or {}):
            return str(entry.get("manager", ""))
    return ""
