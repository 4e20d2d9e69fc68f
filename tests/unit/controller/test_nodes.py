"""Which nodes have GPUs, and patches that say only what differs."""

from __future__ import annotations

import pytest

from services.reconfigurer.controller import nodes

NODE = nodes.Node(name="gpu-a", labels={"kept": "1", "old": "2"}, annotations={"note": "x"})


def test_a_patch_holds_only_what_differs() -> None:
    """What the node has already is not sent."""
    wanted = nodes.Wanted(labels={"kept": "1", "new": "3"}, annotations={"note": "y"})
    expected = {"metadata": {"labels": {"new": "3"}, "annotations": {"note": "y"}}}
    assert nodes.differences(NODE, wanted) == expected


def test_what_shall_not_be_there_is_removed_only_if_it_is_there() -> None:
    """None removes; removing what is absent is no difference."""
    wanted = nodes.Wanted(labels={"old": None, "never": None})
    assert nodes.differences(NODE, wanted) == {"metadata": {"labels": {"old": None}}}


def test_no_difference_is_no_patch() -> None:
    """A node that is as wanted is left alone."""
    assert nodes.differences(NODE, nodes.Wanted(labels={"kept": "1"})) == {}


def test_a_newer_wish_joins_an_older_one_that_was_not_sent() -> None:
    """Where both name a label, the newer counts; nothing else is lost."""
    older = nodes.Wanted(labels={"a": "1", "b": "1"}, annotations={"n": "1"})
    both = nodes.Wanted(labels={"b": "2"}).over(older)
    assert both == nodes.Wanted(labels={"a": "1", "b": "2"}, annotations={"n": "1"})


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        pytest.param({}, False, id="no label"),
        pytest.param({"feature.node.kubernetes.io/pci-10de.present": "true"}, True, id="NFD"),
        pytest.param({"nvidia.com/gpu.present": "true"}, True, id="GPU operator"),
        pytest.param({"nvidia.com/gpu.present": "false"}, False, id="said to have none"),
        pytest.param({"nvidia.com/device-plugin.config": "a100"}, True, id="config label"),
    ],
)
def test_labels_say_whether_a_node_has_gpus(labels: dict[str, str], says: bool) -> None:
    """Nodes without GPUs get no intent and no annotation."""
    node = nodes.Node(name="n", labels=labels)
    assert node.says_gpu("nvidia.com/device-plugin.config") is says
