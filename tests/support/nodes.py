"""What a patch makes of a node, for tests that have no API server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from services.reconfigurer.controller.snapshot import Patch, Snapshot


def patched(node: Snapshot, patch: Patch) -> Snapshot:
    """The node with a merge patch applied."""
    unschedulable = node.unschedulable if patch.unschedulable is None else patch.unschedulable
    return dataclasses.replace(
        node,
        labels=_merged(node.labels, patch.labels),
        annotations=_merged(node.annotations, patch.annotations),
        unschedulable=unschedulable,
    )


def _merged(has: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in {**has, **changed}.items() if text is not None}
