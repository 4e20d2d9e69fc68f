"""Dashboards → Grafana's JSON, for Grafana 10 and newer; written by `__main__`."""

from __future__ import annotations

from deploy.dashboards import panels
from deploy.dashboards.form import Dashboard, Row, Variable
from deploy.dashboards.panels import SOURCE, Json

SCHEMA = 39


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
            found.append(panels.whole(panel, len(found) + 1, place))
            left += panel.width
        top += row.height
    return found
