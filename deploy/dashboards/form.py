"""What a dashboard is made of, before it is Grafana's JSON. Pure values; `grafana` writes them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

WIDTH = 24  # columns of Grafana's grid


class Kind(enum.StrEnum):
    """Types of panels, as Grafana calls them."""

    STAT = "stat"
    BARS = "bargauge"
    LINES = "timeseries"
    TABLE = "table"
    TEXT = "text"


class Unit(enum.StrEnum):
    """Units of values, as Grafana calls them."""

    COUNT = "short"
    BYTES = "bytes"
    RATIO = "percentunit"
    SECONDS = "s"
    PER_SECOND = "ops"


class Good(enum.Enum):
    """What colours a number: nothing, that it is above zero, or that it is zero."""

    ANYTHING = enum.auto()
    ZERO = enum.auto()
    ABOVE_ZERO = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What Prometheus is asked.

    Attributes:
        expr: PromQL.
        legend: name of each series, with `{{label}}`.
        column: of a table, heading of the values of this query.
        unit: of that column.
    """

    expr: str
    legend: str = ""
    column: str = ""
    unit: Unit = Unit.COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture.

    Attributes:
        title: what it shows.
        says: what a reader should know beside it.
        width: in columns of the grid.
        columns: of a table, label → heading, in this order; other labels are not shown.
        stacked: whether lines lie on each other, because they are parts of a whole.
        text: Markdown of a text.
        link: name of the label whose value opens the dashboard of that node.
        named: whether a number's name is what matters, and is shown in its place.
    """

    title: str
    kind: Kind
    width: int
    says: str = ""
    queries: tuple[Query, ...] = ()
    unit: Unit = Unit.COUNT
    good: Good = Good.ANYTHING
    stacked: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    link: str = ""
    named: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels beside each other, of one height."""

    height: int
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the head of a dashboard.

    Attributes:
        name: as queries write it, without the `$`.
        values: query of its values; empty for a text that the reader fills in.
        default: the text that stands there at first.
    """

    name: str
    label: str
    values: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of rows."""

    name: str
    title: str
    says: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    traces: bool = False
