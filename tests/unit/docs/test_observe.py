"""What docs/observe.md tells people to type, open and look at exists."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

from deploy.dashboards import __main__ as dashboards
from services.reconfigurer.controller import values

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "observe.md").read_text(encoding="utf-8")
MOST_BYTES = 200_000  # of a picture, which everybody clones


def test_every_value_on_the_page_is_one_of_the_chart() -> None:
    """In --set, and in words."""
    typed = re.findall(r"--set ([\w.]+)=", PAGE)
    told = re.findall(r"`((?:dashboards|alerts)\.[a-z]\w+)`", PAGE)
    assert len(typed) >= 5
    for path in (*typed, *told):
        assert any(path == name or path.startswith(f"{name}.") for name in values.KNOWN), path


def test_every_block_of_configuration_can_be_read() -> None:
    """As YAML, with the lists that Prometheus and a collector call so."""
    blocks = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
    assert [sorted(each) for each in blocks] == [
        ["exporters", "receivers", "service"],
        ["rule_files", "scrape_configs"],
        ["scrape_configs"],
    ]
    assert all(job["honor_labels"] for each in blocks[1:] for job in each["scrape_configs"])


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_leads_somewhere(target: str) -> None:
    """To a file, and to a heading of it where one is named."""
    name, _, anchor = target.partition("#")
    path = (DOCS / name).resolve()
    assert path.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_every_dashboard_is_told_and_shown() -> None:
    """With a picture that is not too large to be cloned."""
    for page in dashboards.PAGES:
        assert f"| {page.title} |" in PAGE
        assert f"![{page.title}](pictures/dashboard-{page.name}.png)" in PAGE
    for picture in (DOCS / "pictures").glob("*.png"):
        assert f"(pictures/{picture.name})" in PAGE
        assert picture.stat().st_size < MOST_BYTES, picture
