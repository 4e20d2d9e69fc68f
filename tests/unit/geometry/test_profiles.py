"""Names of profiles: read, written, computed, and repaired where people slip."""

from __future__ import annotations

import pytest

from shared.geometry import profiles
from shared.geometry.profiles import ProfileName
from tests.support import cuts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1g.5gb", ProfileName(1, 5)),
        ("1g.10gb+me", ProfileName(1, 10, plus="me")),
        ("1g.24gb+me.all", ProfileName(1, 24, plus="me.all")),
        ("2g.48gb+gfx", ProfileName(2, 48, plus="gfx")),
        ("1g.24gb-me", ProfileName(1, 24, minus="me")),
        ("1c.3g.20gb", ProfileName(3, 20, compute=1)),
    ],
)
def test_a_name_says_its_parts_and_is_written_back(text: str, name: ProfileName) -> None:
    """Reading and writing a name are inverse."""
    assert profiles.parse(text) == name
    assert str(name) == text


def test_a_full_width_compute_instance_is_no_part() -> None:
    """`3c.3g.20gb` is `3g.20gb`."""
    assert str(profiles.parse("3c.3g.20gb")) == "3g.20gb"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1g.10gb.me", "1g.10gb+me"),
        ("mig-1g.5gb", "1g.5gb"),
        ("nvidia.com/mig-1g.10gb.me.all", "1g.10gb+me.all"),
        ("1G.5GB", "1g.5gb"),
        ("1g5gb", ""),
        ("4c.3g.20gb", ""),
        ("", ""),
    ],
)
def test_what_is_no_name_is_refused_with_the_one_that_was_meant(text: str, meant: str) -> None:
    """Forms of resources and capitals have a spelling, other texts none."""
    assert profiles.parse(text) is None
    assert profiles.spelling(text) == meant


@pytest.mark.parametrize("model", cuts.MODELS)
def test_the_computed_name_is_the_drivers_on_every_catalogue_model(model: str) -> None:
    """NVIDIA's formula gives the memory that stands in each profile's name."""
    board = cuts.board(model)
    for profile in board.profiles:
        name = profiles.parse(profile.name)
        assert name is not None
        assert str(name) == profile.name
        if profile.memory_mib is not None:
            assert profiles.memory_gb(profile.memory_mib, board.memory_mib) == name.memory_gb


def test_resources_have_dots_for_plus_signs() -> None:
    """The minus of -me stays."""
    assert profiles.dotted("1g.24gb+me.all") == "1g.24gb.me.all"
    assert profiles.dotted("1g.24gb-me") == "1g.24gb-me"
