"""Nanoseconds since 1970 to the two time formats of the API, and back.

`metav1.Time` has whole seconds; `metav1.MicroTime` (Lease, eventTime) has exactly six digits, and
the real server refuses any other number of them, so the check is as strict here.
"""

from __future__ import annotations

import datetime
import re

SECOND_NS = 1_000_000_000
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def to_time(now_ns: int) -> str:
    """Return the moment as `metav1.Time`, cut to whole seconds."""
    moment = datetime.datetime.fromtimestamp(now_ns // SECOND_NS, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def to_seconds(text: str) -> int:
    """Return a time of the API as whole seconds since 1970; ValueError where it is none."""
    return int(datetime.datetime.fromisoformat(text).timestamp())


def shifted(text: str, seconds: int) -> str:
    """Return a `metav1.Time` moved by so many seconds."""
    return to_time((to_seconds(text) + seconds) * SECOND_NS)


def is_micro_time(text: object) -> bool:
    """Say whether a value is a `metav1.MicroTime`."""
    if not isinstance(text, str) or not _MICRO_TIME.fullmatch(text):
        return False
    try:
        to_seconds(text)
    except ValueError:
        return False
    return True
