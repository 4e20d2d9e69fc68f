"""Whom the kubelet counts with, from what it counts as allocatable."""

from __future__ import annotations

import pytest

from services.allocator import sight
from services.allocator.sight import Sight

OURS = frozenset({"GPU-a::0", "GPU-a::1"})
THEIRS = frozenset({"other"})
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("streams", "ours", "seen", "expected"),
    [
        pytest.param(1, OURS, OURS, Sight.OURS, id="it counts what we list"),
        pytest.param(1, OURS, frozenset({"GPU-a::1"}), Sight.OURS, id="a list is under way"),
        pytest.param(1, NONE, NONE, Sight.OURS, id="we list nothing"),
        pytest.param(1, OURS, THEIRS, Sight.FOREIGN, id="others, our stream left open"),
        pytest.param(1, NONE, THEIRS, Sight.FOREIGN, id="others, and we list nothing"),
        pytest.param(0, OURS, OURS, Sight.FOREIGN, id="the same ids from another stream"),
        pytest.param(1, OURS, NONE, Sight.NOBODY, id="others were and went"),
        pytest.param(0, OURS, NONE, Sight.NOBODY, id="our stream ended"),
        pytest.param(0, NONE, NONE, Sight.NOBODY, id="never listened to"),
    ],
)
def test_sight(streams: int, ours: frozenset[str], seen: frozenset[str], expected: Sight) -> None:
    """U031: an endpoint learns that another has its resource, or that nobody has."""
    assert sight.judge(streams=streams, ours=ours, seen=seen) is expected
