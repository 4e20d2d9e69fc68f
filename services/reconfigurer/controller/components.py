"""The GPU Operator's components step aside for a change and come back as they were. Pure.

A component runs where its label `nvidia.com/gpu.deploy.<name>` says so. The former values stand
in an annotation, written in the same patch as the pause, so they outlive the controller. A label
that somebody has changed meanwhile is theirs: it is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.reconfigurer.controller import notes, snapshot
from services.reconfigurer.controller.snapshot import Patch, Snapshot
from shared.contract import names

OFF = ("", "false")  # not deployed; nothing to pause
PAUSES = "paused-for-"  # somebody else's pause has the same form as ours


def paused(annotations: Mapping[str, str]) -> dict[str, str]:
    """Former values of the labels that we have paused; a broken annotation counts as none."""
    return notes.read(annotations, names.PAUSED_ANNOTATION)


def pause(node: Snapshot, labels: Iterable[str]) -> Patch:
    """Pause those of these components that run, and note what their labels were."""
    former = paused(node.annotations)
    now = {
        label: node.labels[label]
        for label in labels
        if label.startswith(names.COMPONENT_LABELS) and _runs(node.labels.get(label, ""))
    }
    if not now:
        return snapshot.NOTHING
    return Patch(
        labels=dict.fromkeys(now, names.PAUSED),
        annotations={names.PAUSED_ANNOTATION: notes.written({**former, **now})},
    )


def restore(node: Snapshot) -> Patch:
    """Give every label that is still paused by us its former value."""
    if names.PAUSED_ANNOTATION not in node.annotations:
        return snapshot.NOTHING
    former = paused(node.annotations)
    return Patch(
        labels={
            label: value
            for label, value in former.items()
            if node.labels.get(label) == names.PAUSED and label.startswith(names.COMPONENT_LABELS)
        },
        annotations={names.PAUSED_ANNOTATION: None},
    )


def _runs(value: str) -> bool:
    return value not in OFF and not value.startswith(PAUSES)
