"""Components of the GPU Operator are paused and get their former values back."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import components
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names
from tests.support.nodes import patched

DCGM = "nvidia.com/gpu.deploy.dcgm"
EXPORTER = "nvidia.com/gpu.deploy.dcgm-exporter"
NVSM = "nvidia.com/gpu.deploy.nvsm"
RUNNING = Snapshot(name="gpu-a", labels={DCGM: "true", EXPORTER: "true", "team": "vision"})


def test_only_the_named_ones_are_paused_in_one_patch_with_their_former_values() -> None:
    """What stands in the annotation survives this process."""
    patch = components.pause(RUNNING, (DCGM,))
    after = patched(RUNNING, patch)
    assert after.labels == {DCGM: names.PAUSED, EXPORTER: "true", "team": "vision"}
    assert components.paused(after.annotations) == {DCGM: "true"}


def test_u067_every_label_gets_its_original_value_back() -> None:
    """Also values other than "true", also those paused one after the other."""
    before = dataclasses.replace(RUNNING, labels={DCGM: "yes", EXPORTER: "true"})
    paused = patched(before, components.pause(before, (DCGM,)))
    paused = patched(paused, components.pause(paused, (DCGM, EXPORTER)))
    after = patched(paused, components.restore(paused))
    assert after.labels == before.labels
    assert not after.annotations
    assert not components.restore(after)


@pytest.mark.parametrize("value", ["false", "", "paused-for-driver-upgrade", names.PAUSED, None])
def test_what_does_not_run_is_not_paused(value: str | None) -> None:
    """Disabled, absent, or paused by somebody else: their value is not ours to restore."""
    labels = {} if value is None else {DCGM: value}
    assert not components.pause(dataclasses.replace(RUNNING, labels=labels), (DCGM,))


@pytest.mark.parametrize("value", ["false", None])
def test_a_value_that_somebody_changed_meanwhile_is_left(value: str | None) -> None:
    """They have decided after us."""
    paused = patched(RUNNING, components.pause(RUNNING, (DCGM, EXPORTER)))
    labels = {**paused.labels, DCGM: value}
    theirs = {name: text for name, text in labels.items() if text is not None}
    changed = dataclasses.replace(paused, labels=theirs)
    after = patched(changed, components.restore(changed))
    assert after.labels.get(DCGM) == value
    assert after.labels[EXPORTER] == "true"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"team": "x"}'])
def test_an_annotation_that_somebody_broke_restores_nothing_and_goes(text: str) -> None:
    """People can write anything there; other labels are never touched."""
    broken = dataclasses.replace(RUNNING, annotations={names.PAUSED_ANNOTATION: text})
    after = patched(broken, components.restore(broken))
    assert after.labels == RUNNING.labels
    assert not after.annotations


def test_labels_of_other_kinds_are_never_paused() -> None:
    """Whatever an agent asks for."""
    assert not components.pause(RUNNING, ("team",))
