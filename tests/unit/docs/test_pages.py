"""What holds for every page: links lead somewhere, what it names exists."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

from services.commands import catalogue
from services.reconfigurer.controller import values
from shared.sharing import labels

ROOT = pathlib.Path(__file__).parents[3]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md"))
}
CHART = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text(encoding="utf-8"))
FOLDERS = "services|shared|deploy|tests|docs"
TEXTS = ("sharing.timeSlicing", "sharing.mps")  # fields of a sharing text, not of the chart


def headings(page: str) -> set[str]:
    """The anchors that its headings have."""
    lines = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_headings(name: str) -> None:
    """Within the repository; what is elsewhere is not ours to ask."""
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), link
        if heading:
            assert heading in headings(found.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_are_there(name: str) -> None:
    """Those of the repository, whole or with a pattern."""
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", PAGES[name]):
        assert any(ROOT.glob(path)), path


@pytest.mark.parametrize("name", PAGES)
def test_commands_that_are_named_are_ours(name: str) -> None:
    """In words; what stands in blocks is run, or looked at, by the tests of its page."""
    for words in re.findall(r"`slicewire ([a-z][a-z -]*)", PAGES[name]):
        assert catalogue.find(words.split()) is not None, words


@pytest.mark.parametrize("name", PAGES)
def test_values_that_are_named_are_of_the_chart(name: str) -> None:
    """In words, as `drain.cordon`."""
    parts = "|".join(part for part, value in CHART.items() if isinstance(value, dict))
    for path in re.findall(rf"`((?:{parts})\.[A-Za-z.]+)[`:=]", PAGES[name]):
        other = path.startswith(TEXTS) or path.endswith((".md", ".yaml", ".json", ".py"))
        if other or f"nvidia.com/{path}" in labels.ours(()):
            continue
        known = (path == each or path.startswith(f"{each}.") for each in values.KNOWN)
        above = (each.startswith(f"{path}.") for each in values.KNOWN)
        assert any((*known, *above)), path
