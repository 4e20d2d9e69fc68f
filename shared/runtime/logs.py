"""One JSON object a line on standard error, with the trace id where one is known."""

from __future__ import annotations

import json
import logging
import sys

from shared.runtime import clock


class JsonFormatter(logging.Formatter):
    """Level, time, service, message; `extra={"trace": id}` adds the trace."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Write the record as one line."""
        line = {
            "time": clock.utc(int(record.created * 1e9)),
            "level": record.levelname.lower(),
            "service": self._service,
            "message": record.getMessage(),
        }
        if trace := getattr(record, "trace", ""):
            line["trace"] = trace
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(service: str) -> None:
    """Send every logger of this process to standard error in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
