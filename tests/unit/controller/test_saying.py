"""Events as values: names that find repetitions, messages that fit."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.controller import events, saying

NODE = saying.About(kind="Node", name="gpu-a.example", uid="u1")
SAY = saying.Say(about=NODE, reason="ConfigRefused", message="line 3: replicas: a number is due")


def test_the_same_thing_said_again_has_the_same_name() -> None:
    """The API server then counts it instead of keeping two."""
    assert dataclasses.replace(SAY).event_name == SAY.event_name
    other = dataclasses.replace(SAY, message="line 4: replicas: a number is due")
    assert other.event_name != SAY.event_name


def test_an_occurrence_is_named_by_its_topic_and_not_by_its_words() -> None:
    """A new leader that knows other holders does not say it a second time."""
    first = dataclasses.replace(SAY, topic="GPU-1 sick 7")
    assert dataclasses.replace(first, message="other words").event_name == first.event_name


def test_a_node_recreated_under_the_same_name_is_another_object() -> None:
    """Its Events are not counted on the old one's."""
    other = dataclasses.replace(SAY, about=dataclasses.replace(NODE, uid="u2"))
    assert other.event_name != SAY.event_name


def test_events_about_nodes_stand_in_default_and_about_pods_with_the_pod() -> None:
    """The API server refuses anything else."""
    pod = saying.Say(
        about=saying.About(kind="Pod", name="p", namespace="team"), reason="r", message="m"
    )
    assert SAY.event_namespace == "default"
    assert pod.event_namespace == "team"


def test_a_long_message_is_cut_visibly_at_whole_characters() -> None:
    """1024 bytes are the limit, whatever the letters."""
    cut = saying.shortened("é" * 2000)
    assert len(cut.encode()) <= saying.MESSAGE_LIMIT
    assert cut.endswith(" …")
    assert saying.shortened("short") == "short"


def test_one_object_cannot_flood_the_api_server() -> None:
    """A burst, then one in each refill time; other objects are not held up."""
    rate = events.Rate()
    allowed = [rate.allows(NODE, now=0.0) for _ in range(events.BURST + 1)]
    assert allowed == [True] * events.BURST + [False]
    assert rate.allows(dataclasses.replace(NODE, name="gpu-b"), now=0.0)
    assert rate.allows(NODE, now=events.REFILL_S)
    assert not rate.allows(NODE, now=events.REFILL_S)
