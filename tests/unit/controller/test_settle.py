"""When a change is applied: flapping labels wait, everything else does not."""

from __future__ import annotations

from services.reconfigurer.controller import settle


def test_the_first_change_by_label_is_applied_at_once() -> None:
    """Nobody waits for a debounce who changes a label once."""
    found = settle.decide(same=False, by_label=True, last_by_label=None, now=100.0)
    assert found == settle.Apply()


def test_the_next_change_by_label_waits_for_the_end_of_the_quiet_time() -> None:
    """Of a label that flaps, one change in each quiet time is applied."""
    found = settle.decide(same=False, by_label=True, last_by_label=100.0, now=100.5)
    assert found == settle.Wait(100.0 + settle.QUIET_S)


def test_after_the_quiet_time_it_is_applied() -> None:
    """A flap never starves: what is wanted at the end of the quiet time is applied then."""
    now = 100.0 + settle.QUIET_S
    assert settle.decide(same=False, by_label=True, last_by_label=100.0, now=now) == settle.Apply()


def test_a_revert_to_what_serves_is_never_delayed() -> None:
    """The way back drops what waits at once, within the quiet time too."""
    found = settle.decide(same=True, by_label=True, last_by_label=100.0, now=100.1)
    assert found == settle.Keep()


def test_an_edit_of_the_config_map_never_waits() -> None:
    """Only labels flap."""
    found = settle.decide(same=False, by_label=False, last_by_label=100.0, now=100.1)
    assert found == settle.Apply()
