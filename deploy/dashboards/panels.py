"""Panels → Grafana's JSON: queries, units, colours, columns. `grafana` calls it."""

from __future__ import annotations

from typing import Any

from deploy.dashboards.form import Good, Kind, Panel, Query, Unit

Json = dict[str, Any]
BAD = ("failed", "silent", "unhealthy", "lost")
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
WIDTHS = {  # of columns in pixels, for what stands in them; the others share what is left
    "CI": 50,
    "Container": 120,
    "GI": 50,
    "GPU": 60,
    "Memory": 100,
    "Model": 180,
    "Namespace": 120,
    "PCI": 140,
    "Processes": 100,
    "Profile": 100,
    "Slot": 350,
    "Slots": 80,
    "Times": 70,
    "UUID": 330,
    "XID": 50,
}
COLOURS = {  # of slot states, the same on each page
    "free": "green",
    "held": "blue",
    "granted": "light-blue",
    "retiring": "orange",
    "unhealthy": "red",
    "lost": "dark-red",
    "ready": "green",
    "changing": "blue",
    "failed": "red",
    "silent": "orange",
}


def whole(panel: Panel, number: int, place: Json) -> Json:
    """A panel at its place on the page."""
    begun: Json = {
        "id": number,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.says,
        "gridPos": place,
    }
    if panel.kind is Kind.TEXT:
        return begun | {"options": {"mode": "markdown", "content": panel.text}}
    return begun | {
        "datasource": SOURCE,
        "targets": [_target(panel, query, at) for at, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        **({"transformations": _transformations(panel)} if panel.kind is Kind.TABLE else {}),
    }


def _target(panel: Panel, query: Query, at: int) -> Json:
    table = panel.kind is Kind.TABLE
    over_time = panel.kind is Kind.LINES
    return {
        "refId": _ref(at),
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": "table" if table else "time_series",
        "instant": not over_time,
        "range": over_time,
    }


def _ref(at: int) -> str:
    return chr(ord("A") + at)


def _defaults(panel: Panel) -> Json:
    custom: Json = {}
    if panel.kind is Kind.LINES:
        custom = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 40 if panel.stacked else 10,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    highest = {"max": 1} if panel.unit is Unit.RATIO else {}
    return {
        "unit": panel.unit.value,
        "min": 0,
        **highest,
        "color": {"mode": "palette-classic" if panel.good is Good.ANYTHING else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": _thresholds(panel)},
        "custom": custom,
    }


def _thresholds(panel: Panel) -> list[Json]:
    below, above = {
        Good.ANYTHING: ("green", ""),
        Good.ZERO: ("green", "red"),
        Good.ABOVE_ZERO: ("red", "green"),
    }[panel.good]
    steps: list[Json] = [{"color": below, "value": None}]
    return [*steps, {"color": above, "value": 0.0001}] if above else steps


def _overrides(panel: Panel) -> list[Json]:
    if panel.kind is Kind.TABLE:
        return [
            *(
                _override(each.column, unit=each.unit.value)
                for each in panel.queries
                if each.column
            ),
            *([_node_link(panel.columns[panel.link])] if panel.link else []),
            *(
                _override(heading, **{"custom.width": WIDTHS[heading]})
                for heading in _headings(panel)
                if heading in WIDTHS
            ),
        ]
    if panel.good is not Good.ANYTHING:
        return []
    return [
        _coloured(name, colour, panel.kind)
        for name, colour in COLOURS.items()
        if any(query.legend in {"{{state}}", name} for query in panel.queries)
    ]


def _headings(panel: Panel) -> list[str]:
    """Of a table's columns, from left to right."""
    return [*panel.columns.values(), *(each.column for each in panel.queries if each.column)]


def _coloured(name: str, colour: str, kind: Kind) -> Json:
    """A state in its colour; a number of what is bad is grey while there is none."""
    if kind is Kind.STAT and name in BAD:
        steps = [{"color": "text", "value": None}, {"color": colour, "value": 1}]
        thresholds = {"mode": "absolute", "steps": steps}
        return _override(name, color={"mode": "thresholds"}, thresholds=thresholds)
    return _override(name, color={"mode": "fixed", "fixedColor": colour})


def _override(name: str, **properties: object) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def _node_link(column: str) -> Json:
    link = {"title": "Open the node", "url": "/d/slicewire-node?var-node=${__value.raw}"}
    return _override(column, links=[link])


def _options(panel: Panel) -> Json:
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match panel.kind:
        case Kind.STAT:
            return {
                "reduceOptions": last,
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "text": {"titleSize": 14},
                "textMode": _shown(panel),
            }
        case Kind.BARS:
            return {
                "reduceOptions": last,
                "displayMode": "gradient",
                "orientation": "horizontal",
                "namePlacement": "left",
                "showUnfilled": True,
                "text": {"titleSize": 14, "valueSize": 18},
            }
        case Kind.TABLE:
            first = {"displayName": _headings(panel)[0], "desc": False}
            return {
                "showHeader": True,
                "cellHeight": "sm",
                "footer": {"show": False},
                "sortBy": [first],
            }
        case _:
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }


def _shown(panel: Panel) -> str:
    """Whether a number has its name beside it: one alone has its panel's title."""
    several = len(panel.queries) > 1 or any("{{" in each.legend for each in panel.queries)
    return "name" if panel.named else "value_and_name" if several else "value"


def _transformations(panel: Panel) -> list[Json]:
    """One row for each set of labels, the columns in their order, with headings for people."""
    values = [
        ("Value" if len(panel.queries) == 1 else f"Value #{_ref(at)}", query.column)
        for at, query in enumerate(panel.queries)
    ]
    shown = [*panel.columns.items(), *(pair for pair in values if pair[1])]
    organized = {
        "includeByName": {name: True for name, _ in shown},
        "indexByName": {name: at for at, (name, _) in enumerate(shown)},
        "renameByName": dict(shown),
    }
    merge: list[Json] = [{"id": "merge", "options": {}}] if len(panel.queries) > 1 else []
    return [*merge, {"id": "organize", "options": organized}]
