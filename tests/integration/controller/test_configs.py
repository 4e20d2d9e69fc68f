"""From an edit of the ConfigMap or a label to the intent on the bus."""

from __future__ import annotations

import pathlib

from shared.contract import names
from shared.contract.messages import ConfigState
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import CONFIG_LABEL, NODE, text
from tests.support.eventually import eventually


async def test_an_edit_arrives_as_a_new_generation_within_a_second(tmp_path: pathlib.Path) -> None:
    """U011: the same key edited, no label touched, nothing restarted; one trace goes with it."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        whole.start()
        first = await whole.wanted()
        assert whole.replicas() == 8
        await whole.config({"any": text(4)})
        await eventually(lambda: whole.replicas() == 4, within=1)
        second = whole.newest()
        assert second
        assert second.stamp.generation > first.stamp.generation
        assert whole.intents[NODE][-1].traceparent
        assert second.source.key == "any"
        await eventually(
            lambda: (
                whole.at.node(NODE)["annotations"].get(names.GENERATION_ANNOTATION)
                == str(second.stamp.generation)
            )
        )
        applied = whole.at.events(names.CONFIG_APPLIED, about=NODE)
        assert any("4 slots" in event["message"] for event in applied)


async def test_a_bad_edit_is_refused_while_the_last_good_text_serves(
    tmp_path: pathlib.Path,
) -> None:
    """The intent keeps the sharing and says refused; the Event names the path and what to write."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        whole.start()
        await eventually(lambda: whole.replicas() == 8)
        await whole.config({"any": parts.BAD})
        await whole.wanted(lambda it: it.state is ConfigState.REFUSED)
        assert whole.replicas() == 8
        (event,) = await eventually(lambda: whole.at.events(names.CONFIG_REFUSED, about=NODE))
        for words in ("sharing.timeSlicing.resources[0].replica", "replicas", "last good"):
            assert words in event["message"]
        assert event["type"] == "Warning"


async def test_a_label_that_names_nothing_is_applied_once_its_key_appears(
    tmp_path: pathlib.Path,
) -> None:
    """U013: the last good one serves, the Event lists the keys, the key needs no further label."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "t4"})
        await whole.config({"default": text(2), "t4": text(4)})
        whole.start()
        await eventually(lambda: whole.replicas() == 4)
        await whole.at.patch_node(NODE, labels={CONFIG_LABEL: "t40"})
        (event,) = await eventually(lambda: whole.at.events(names.CONFIG_NOT_FOUND, about=NODE))
        assert whole.replicas() == 4
        for words in ("t40", "default, t4", 'did you mean "t4"'):
            assert words in event["message"]
        await whole.config({"default": text(2), "t4": text(4), "t40": text(6)})
        await eventually(lambda: whole.replicas() == 6)


async def test_what_changes_nothing_for_a_node_is_not_written(tmp_path: pathlib.Path) -> None:
    """Another key, a comment, another label: no new generation for the node."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        whole.start()
        await whole.wanted()
        await whole.config({"any": "# a comment\n" + text(8), "other": text(3)})
        await whole.at.patch_node(NODE, labels={"team": "vision"})
        await whole.config({"any": text(4), "other": text(3)})
        await eventually(lambda: whole.replicas() == 4)
        assert len({str(heard.value.stamp.generation) for heard in whole.intents[NODE]}) == 2


async def test_nodes_without_gpus_are_left_alone(tmp_path: pathlib.Path) -> None:
    """No intent and no annotation for a node that nobody says has GPUs."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node("cpu-1")
        whole.at.add_node(NODE, {"nvidia.com/gpu.present": "true"})
        await whole.config({"default": text(8)})
        whole.start()
        await eventually(lambda: whole.replicas() == 8)
        assert "cpu-1" not in whole.intents
        assert not whole.at.node("cpu-1").get("annotations")
