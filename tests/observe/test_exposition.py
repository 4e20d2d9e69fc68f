"""What services show is in Prometheus' form, under names that it recommends."""

from __future__ import annotations

import subprocess

from shared.telemetry import catalogue
from tests.observe import build
from tests.observe.recording import Recording


def complaints(text: str) -> str:
    """What `promtool check metrics` has to say of a page."""
    command = [str(build.program("promtool")), "check", "metrics"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def test_promtool_has_nothing_to_say_about_the_pages_of_the_services(recording: Recording) -> None:
    """All seven of them, in the middle of the story."""
    assert len(recording.shown) == 7
    said = {pod: complaints(text) for pod, text in recording.shown.items()}
    assert said == dict.fromkeys(recording.shown, "")


def test_every_series_of_a_page_is_one_of_the_catalogue(recording: Recording) -> None:
    """With its help and its type."""
    known = {each.exposed: each.kind.value for each in catalogue.INSTRUMENTS}
    for text in recording.shown.values():
        lines = [line.split() for line in text.splitlines() if line.startswith("# TYPE")]
        assert lines
        assert {name: kind for _, _, name, kind in lines}.items() <= known.items()


def test_metrics_of_the_catalogue_have_names_that_prometheus_recommends() -> None:
    """`promtool check metrics` finds nothing to say about name, unit and suffix."""
    lines = []
    for each in catalogue.INSTRUMENTS:
        lines += [f"# HELP {each.exposed} {each.says}", f"# TYPE {each.exposed} {each.kind}"]
        if each.kind is catalogue.Kind.HISTOGRAM:
            lines += [f'{each.exposed}_bucket{{le="+Inf"}} 1', f"{each.exposed}_sum 1"]
            lines.append(f"{each.exposed}_count 1")
        else:
            lines.append(f"{each.exposed} 1")
    assert complaints("\n".join(lines) + "\n") == ""
