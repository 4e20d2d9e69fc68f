"""Telemetry of a service process, as its environment asks for it. Called by each `app.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from shared.telemetry import spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CLOSING_S = 2.0  # a stop never waits longer for a receiver that is away


def wants_otlp(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables name a receiver and do not switch tracing off."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = environ.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none"
    return any(environ.get(name) for name in ENDPOINTS) and not off and not none


@contextlib.asynccontextmanager
async def telemetry(
    service: str, node: str, environ: Mapping[str, str]
) -> AsyncIterator[spans.Telemetry]:
    """Give the service its telemetry, and send what is queued when it ends."""
    if not wants_otlp(environ):
        yield spans.Telemetry(service, node)
        return
    from shared.telemetry import otlp  # noqa: PLC0415 - 20 MB that most nodes never need

    sender = await asyncio.to_thread(otlp.OtlpExport, service, node)
    try:
        yield spans.Telemetry(service, node, export=sender.export)
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await asyncio.shield(asyncio.to_thread(sender.close))
