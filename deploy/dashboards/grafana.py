"""Dashboards → Grafana's JSON, for Grafana 10 and newer; written by `__main__`."""

from __future__ import annotations

from typing import Any

from deploy.dashboards.form import Dashboard, Good, Kind, Panel, Query, Row, Unit, Variable

Json = dict[str, Any]
SCHEMA = 39
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
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


def whole(dashboard: Dashboard) -> Json:
    """The dashboard as Grafana imports it."""
    return {
        "uid": f"slicewire-{dashboard.name}",
        "title": f"slicewire / {dashboard.title}",
        "description": dashboard.says,
        "tags": ["slicewire"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": _links(dashboard),
        "templating": {"list": [_data_source(), *map(_variable, dashboard.variables)]},
        "panels": _panels(dashboard.rows),
    }


def _links(dashboard: Dashboard) -> list[Json]:
    pages: Json = {
        "type": "dashboards",
        "title": "slicewire",
        "tags": ["slicewire"],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": True,
    }
    traces: Json = {
        "type": "link",
        "title": "Traces",
        "url": "${traces}",
        "targetBlank": True,
        "icon": "external link",
    }
    return [pages, traces] if dashboard.traces else [pages]


def _data_source() -> Json:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variable(variable: Variable) -> Json:
    named: Json = {"name": variable.name, "label": variable.label, "hide": 0}
    if not variable.values:
        return named | {
            "type": "textbox",
            "query": variable.default,
            "current": {"text": variable.default, "value": variable.default},
        }
    return named | {
        "type": "query",
        "datasource": SOURCE,
        "definition": variable.values,
        "query": {"query": variable.values, "refId": "Variable"},
        "refresh": 2,
        "sort": 1,
        "includeAll": False,
        "multi": False,
        "current": {},
    }


def _panels(rows: tuple[Row, ...]) -> list[Json]:
    """Lay the rows below each other, and the panels of each from left to right."""
    found: list[Json] = []
    top = 0
    for row in rows:
        left = 0
        for panel in row.panels:
            place = {"x": left, "y": top, "w": panel.width, "h": row.height}
            found.append(_panel(panel, len(found) + 1, place))
            left += panel.width
        top += row.height
    return found


def _panel(panel: Panel, number: int, place: Json) -> Json:
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
        ]
    if panel.good is not Good.ANYTHING:
        return []
    return [
        _override(name, color={"mode": "fixed", "fixedColor": colour})
        for name, colour in COLOURS.items()
        if any(query.legend in {"{{state}}", name} for query in panel.queries)
    ]


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
                "textMode": "auto",
            }
        case Kind.BARS:
            return {
                "reduceOptions": last,
                "displayMode": "gradient",
                "orientation": "horizontal",
                "showUnfilled": True,
            }
        case Kind.TABLE:
            return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
        case _:
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }


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
