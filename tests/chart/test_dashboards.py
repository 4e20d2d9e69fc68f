"""Dashboards of the chart: what Grafana would take without a word and then not show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.dashboards import __main__ as dashboards
from deploy.dashboards.form import WIDTH, Kind, Unit
from tests.support import promql

Json = dict[str, Any]
PAGES: dict[str, Json] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(dashboards.FOLDER.glob("*.json"))
}
EVERY_PAGE = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
TOP = {
    *("uid", "title", "description", "tags", "schemaVersion", "version", "editable", "refresh"),
    *("graphTooltip", "time", "timezone", "annotations", "links", "templating", "panels"),
}
ALWAYS = {"id", "type", "title", "description", "gridPos"}
DRAWN = ALWAYS | {"datasource", "targets", "fieldConfig", "options"}
VARIABLE = re.compile(r"\$\{?([a-z_]\w*)")  # `$1` is label_replace's
GRAFANA_S = {"__range", "__rate_interval", "__value"}


def panels(wanted: Callable[[Json], bool] = bool) -> Iterator[object]:
    """Every panel of every page, with its page."""
    for name, page in PAGES.items():
        for panel in filter(wanted, page["panels"]):
            yield pytest.param(page, panel, id=f"{name}: {panel['title']}")


def drawn() -> Iterator[object]:
    """Those that ask Prometheus."""
    yield from panels(lambda panel: panel["type"] != Kind.TEXT)


def test_the_files_are_what_the_tables_say() -> None:
    """Nobody edited one by hand."""
    assert dashboards.main(["--check"]) == 0


@EVERY_PAGE
def test_a_page_has_the_fields_of_a_dashboard_and_no_others(page: Json) -> None:
    """Its uid is its own, its variables are those that it uses."""
    assert set(page) == TOP
    uids = [other["uid"] for other in PAGES.values()]
    assert uids.count(page["uid"]) == 1
    defined = {variable["name"] for variable in page["templating"]["list"]}
    assert set(VARIABLE.findall(json.dumps(page))) - GRAFANA_S == defined


@EVERY_PAGE
def test_panels_have_numbers_and_places_of_their_own(page: Json) -> None:
    """No two of them on one spot, none beyond the edge, and no gap at the end of a row."""
    numbers = [panel["id"] for panel in page["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = [panel["gridPos"] for panel in page["panels"]]
    taken = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert {x for x, _ in taken} == set(range(WIDTH))
    assert len(taken) == WIDTH * (1 + max(y for _, y in taken))


@pytest.mark.parametrize(("page", "panel"), list(panels()))
def test_a_panel_has_the_fields_of_its_type_and_no_others(page: Json, panel: Json) -> None:
    """A misspelt one is ignored by Grafana."""
    kind = Kind(panel["type"])
    more = {"transformations"} if kind is Kind.TABLE else set()
    assert set(panel) == (ALWAYS | {"options"} if kind is Kind.TEXT else DRAWN | more)
    titles = [other["title"] for other in page["panels"]]
    assert titles.count(panel["title"]) == 1


@pytest.mark.parametrize(("page", "panel"), list(drawn()))
def test_a_panel_asks_the_chosen_data_source(page: Json, panel: Json) -> None:
    """Each query under a letter of its own, at one moment or over time as its type needs it."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == sorted(set(letters))
    assert letters
    for target in panel["targets"]:
        assert target["datasource"] == source
        assert target["instant"] is not target["range"]
        assert target["range"] == (panel["type"] == Kind.LINES)
        assert (target["format"] == "table") == (panel["type"] == Kind.TABLE)
    assert panel["fieldConfig"]["defaults"]["unit"] in set(Unit)


@pytest.mark.parametrize(("page", "panel"), list(drawn()))
def test_a_panel_asks_for_what_is_measured(page: Json, panel: Json) -> None:
    """Metrics and labels are those of the catalogue; names of series use labels that are left."""
    for target in panel["targets"]:
        asked = promql.asked(target["expr"])
        assert asked, target["expr"]
        for name, labels in asked.items():
            assert labels <= promql.labels(name), name
        known = {label for name in asked for label in promql.labels(name)}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known


@pytest.mark.parametrize(("page", "panel"), list(drawn()))
def test_columns_of_a_table_are_labels_or_values(page: Json, panel: Json) -> None:
    """What is renamed or coloured is there."""
    if panel["type"] != Kind.TABLE:
        return
    names = {name for target in panel["targets"] for name in promql.asked(target["expr"])}
    known = {label for name in names for label in promql.labels(name)}
    values = {"Value", *(f"Value #{target['refId']}" for target in panel["targets"])}
    organized = panel["transformations"][-1]["options"]
    shown = organized["renameByName"]
    assert set(shown) == set(organized["includeByName"]) == set(organized["indexByName"])
    assert set(shown) <= known | values
    for override in panel["fieldConfig"]["overrides"]:
        assert override["matcher"]["options"] in shown.values()
