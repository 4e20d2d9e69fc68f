"""Whose cordon it is, and when ours is taken back."""

from __future__ import annotations

import dataclasses
from typing import Any

from services.reconfigurer.controller import cordon, snapshot
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names
from shared.contract.generation import Generation
from tests.support.nodes import patched

US = "slicewire-controller"
GENERATION = Generation(3, 1)
FREE = Snapshot(name="gpu-a", version="7")


def test_cordon_and_owner_are_one_patch_with_a_precondition() -> None:
    """Nobody sees a cordon without an owner, and a node that changed meanwhile is read again."""
    assert cordon.take(FREE, GENERATION).body(FREE.version) == {
        "metadata": {"resourceVersion": "7", "annotations": {names.CORDON_ANNOTATION: "3.1"}},
        "spec": {"unschedulable": True},
    }


def test_a_cordon_of_ours_is_taken_back_with_its_annotation() -> None:
    """As the node was."""
    ours = patched(FREE, cordon.take(FREE, GENERATION))
    assert ours.unschedulable
    assert cordon.ours(ours)
    after = patched(ours, cordon.lift(ours, US))
    assert (after.unschedulable, dict(after.annotations)) == (False, {})
    assert cordon.lift(ours, US).body("8")["spec"] == {"unschedulable": None}


def test_u071_an_administrators_cordon_is_neither_taken_nor_lifted() -> None:
    """The node was cordoned before: it stays so."""
    theirs = dataclasses.replace(FREE, unschedulable=True)
    assert not cordon.take(theirs, GENERATION)
    assert not cordon.lift(theirs, US)


def test_u071_a_node_that_an_administrator_uncordoned_and_cordoned_again_stays_cordoned() -> None:
    """The look in between lets go of it, although our mark was there."""
    ours = patched(FREE, cordon.take(FREE, GENERATION))
    uncordoned = dataclasses.replace(ours, unschedulable=False)
    disowned = patched(uncordoned, cordon.disown(uncordoned, US))
    recordoned = dataclasses.replace(disowned, unschedulable=True)
    assert not cordon.lift(recordoned, US)


def test_u071_the_server_says_who_cordoned_again_between_two_looks() -> None:
    """Managed fields name the last writer: the mark goes, the cordon stays."""
    ours = patched(FREE, cordon.take(FREE, GENERATION))
    again = dataclasses.replace(ours, cordon_manager="kubectl-cordon")
    for patch in (cordon.lift(again, US), cordon.disown(again, US)):
        after = patched(again, patch)
        assert after.unschedulable
        assert not cordon.ours(after)


def test_a_cordon_that_stands_as_we_left_it_is_not_let_go_of() -> None:
    """Nothing to write on a look that finds it so."""
    ours = patched(FREE, cordon.take(FREE, GENERATION))
    for manager in ("", US):
        assert not cordon.disown(dataclasses.replace(ours, cordon_manager=manager), US)


def test_a_node_object_is_read_with_the_writer_of_its_cordon() -> None:
    """Only the manager of `spec.unschedulable` counts, only extended resources are kept."""
    entries: list[dict[str, Any]] = [
        {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
    ]
    found = snapshot.of(
        {
            "metadata": {"name": "gpu-a", "resourceVersion": "9", "managedFields": entries},
            "spec": {"unschedulable": True},
            "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}},
        }
    )
    assert (found.cordon_manager, found.unschedulable) == ("kubectl", True)
    assert found.allocatable == {"nvidia.com/gpu": 4}
