"""What node services found out, as Events."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import facts, saying
from shared.contract import names
from shared.contract.facts import Fact, FactKind
from shared.domain.slots import Holder
from tests.support import hardware

NODE = saying.About(kind="Node", name="gpu-a", uid="u")
FACT = Fact(
    stamp=hardware.stamp(),
    id="over_use/GPU-0/ml/train/7",
    kind=FactKind.OVER_USE,
    at_ns=7,
    sentence="pod ml/train takes too much",
    holders=(Holder("ml", "train", ""),),
)


def test_u099_over_use_is_told_on_the_pod() -> None:
    """Once for ever, with the node, which a pod's reader may not know."""
    (say,) = facts.said(NODE, FACT)
    assert say == saying.Say(
        about=saying.About(kind="Pod", namespace="ml", name="train"),
        reason=names.GPU_MEMORY_OVER_USE,
        message="Node gpu-a: pod ml/train takes too much",
        warning=True,
        topic=FACT.id,
    )


def test_a_takeover_is_told_on_the_node() -> None:
    """It is nobody's fault there."""
    (say,) = facts.said(NODE, dataclasses.replace(FACT, kind=FactKind.TAKEN_OVER, holders=()))
    assert (say.about, say.reason, say.message) == (
        NODE,
        names.RESOURCE_TAKEN_OVER,
        "pod ml/train takes too much",
    )


@pytest.mark.parametrize("kind", [kind for kind in FactKind if kind not in facts.KINDS])
def test_other_facts_are_told_elsewhere(kind: FactKind) -> None:
    """By whoever knows more of them, or by nobody."""
    assert list(facts.said(NODE, dataclasses.replace(FACT, kind=kind))) == []
