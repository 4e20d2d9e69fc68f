"""One JSON object a line on standard error: a decision or a trouble, with what it is about.

`extra=about(node=…, gpu=…, trace=…)` adds fields. Levels say who has to read a line: `debug` nobody
who does not look for a mistake of ours; `info` what was decided and done; `warning` what somebody
may have to mend, or what is tried again; `error` what slicewire cannot go on without.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from shared.runtime import clock

FIELDS = "about"  # the attribute of a record
REPEAT_S = 60.0  # a warning that is said again within this time is counted instead
MOST_KEPT = 1000  # warnings that are remembered


def about(**fields: object) -> dict[str, dict[str, object]]:
    """What a line is about, for `extra`; empty values are left out.

    Names are those of spans and of `-o json`: node, gpu, resource, pod, generation, trace, ….
    """
    return {FIELDS: {name: value for name, value in fields.items() if value not in (None, "", ())}}


class JsonFormatter(logging.Formatter):
    """Time, level, service, node, message, and what the line is about."""

    def __init__(self, service: str, node: str = "") -> None:
        super().__init__()
        self._always = {"service": service} | ({"node": node} if node else {})

    def format(self, record: logging.LogRecord) -> str:
        """Write the record as one line."""
        line: dict[str, Any] = {
            "time": clock.utc(int(record.created * 1e9)),
            "level": record.levelname.lower(),
            **self._always,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if repeated := getattr(record, "repeated", 0):
            line["repeated"] = repeated
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Repeats(logging.Filter):
    """Keeps a trouble that stands from filling the log: one line a minute, with a count.

    Only warnings and worse: each line of what was decided is about something else, even where two
    read the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[object, ...], tuple[float, int]] = {}  # since when, how often since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a record; one that is written says how many were not before it."""
        if record.levelno < logging.WARNING:
            return True
        key = _key(record)
        since, unsaid = self._said.pop(key, (float("-inf"), 0))
        again = record.created - since < REPEAT_S
        self._said[key] = (since, unsaid + 1) if again else (record.created, 0)
        if len(self._said) > MOST_KEPT:
            del self._said[next(iter(self._said))]  # the one that was quiet longest
        record.repeated = unsaid
        return not again


def set_up(service: str, node: str = "", level: str = "info") -> None:
    """Send every logger of this process to standard error in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service, node))
    handler.addFilter(Repeats())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _key(record: logging.LogRecord) -> tuple[object, ...]:
    """What makes two lines one: all but the trace, which is new each time."""
    fields = getattr(record, FIELDS, {})
    rest = tuple(sorted((name, str(value)) for name, value in fields.items() if name != "trace"))
    return record.name, record.levelno, record.getMessage(), rest
