"""From the MIG label and the MIG text to the rows that a node wants."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import layouts, nodes
from shared.contract import names
from tests.support import hardware

TEXT = """\
version: v1
mig-configs:
  a100-4x1g-1x3g:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 4, 3g.40gb: 1}}
  all-balanced:
  - {devices: [0], mig-enabled: false}
"""
ABOUT = nodes.Node(name="gpu-a").about


def test_a_name_of_the_text_gives_its_rows() -> None:
    """Also one that would be built in: the text goes first."""
    found = layouts.wanted("a100-4x1g-1x3g", "", TEXT, None)
    (row,) = found.rows
    assert {share.profile: share.count for share in row.shares} == {"1g.10gb": 4, "3g.40gb": 1}
    assert not found.problems
    (row,) = layouts.wanted("all-balanced", "", TEXT, None).rows
    assert row.devices == (0,)


@pytest.mark.parametrize(
    "name", ["all-disabled", "all-enabled", "all-balanced", "all-1g.10gb", "all-1g.10gb.me"]
)
@pytest.mark.parametrize("text", [None, ""])
def test_built_in_names_need_no_text(name: str, text: str | None) -> None:
    """The agent knows from its boards what they mean."""
    assert layouts.wanted(name, "", text, None) == layouts.Layout(name=name)


def test_u075_a_name_that_is_not_there_is_told_with_the_nearest_ones() -> None:
    """ConfigNotFound, the hardware untouched; found as soon as the text gains it."""
    found = layouts.wanted("a100-4x1g-1x3", "", TEXT, None)
    assert (found.name, found.rows) == ("", ())
    (say,) = found.say(ABOUT)
    assert say.reason == names.CONFIG_NOT_FOUND
    for words in ('did you mean "a100-4x1g-1x3g"', "all-<profile>", "stay as they are"):
        assert words in say.message
    renamed = TEXT.replace("a100-4x1g-1x3g", "a100-4x1g-1x3")
    assert layouts.wanted("a100-4x1g-1x3", "", renamed, None).rows


def test_what_cannot_be_used_leaves_the_last_good_layout_wanted() -> None:
    """A broken text takes no layout away, neither does a name that is gone."""
    good = layouts.wanted("a100-4x1g-1x3g", "", TEXT, None)
    serving = dataclasses.replace(hardware.intent(), mig_config=good.name, mig_rows=good.rows)
    broken = layouts.wanted("a100-4x1g-1x3g", "", TEXT.replace("mig-enabled", "mig"), serving)
    assert (broken.name, broken.rows) == (good.name, good.rows)
    (say,) = broken.say(ABOUT)
    assert say.reason == names.CONFIG_REFUSED
    assert "mig-enabled" in say.message
    gone = layouts.wanted("other", "", TEXT, serving)
    assert (gone.name, gone.rows) == (good.name, good.rows)
    assert layouts.refusal(gone.problems) == names.CONFIG_NOT_FOUND


def test_a_node_without_a_label_gets_the_default_or_nothing() -> None:
    """An empty label is a wish for nothing, also where there is a default."""
    assert layouts.wanted(None, "", TEXT, None) == layouts.NONE
    assert layouts.wanted(None, "all-1g.10gb", TEXT, None).name == "all-1g.10gb"
    assert layouts.wanted("", "all-1g.10gb", TEXT, None) == layouts.NONE
