"""Telemetry of a service process, as its settings and its environment ask for it.

`__main__` makes the meters, because their pages are served from the first moment; `app.py` opens
the rest. What nobody reads or receives is not imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

from shared.contract.table import Role
from shared.telemetry import catalogue, meters, spans

if TYPE_CHECKING:
    from shared.telemetry import otlp

log = logging.getLogger(__name__)
CLOSING_S = 2.0  # a stop never waits longer for a receiver that is away


def wants_otlp(environ: Mapping[str, str], signal: str = "TRACES") -> bool:
    """Whether the standard variables name a receiver of this signal and do not switch it off."""
    endpoints = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    none = environ.get(f"OTEL_{signal}_EXPORTER", "otlp").lower() == "none"
    return any(environ.get(name) for name in endpoints) and not none and not _is_off(environ)


def service_meters(
    service: Role, node: str, environ: Mapping[str, str], *, exposed: bool
) -> meters.Meters:
    """Make the meters of a service; `exposed` says whether a page of them is served.

    A standard variable that the SDK refuses costs the sending, not the service.
    """
    sent = wants_otlp(environ, "METRICS")
    if _is_off(environ) or not (exposed or sent):
        return meters.Meters()
    if sent:
        try:
            return _meters(service, node, exposed=exposed, sent=True)
        except ValueError as error:
            log.warning("metrics are not sent by OTLP: %s", error)
    return _meters(service, node, exposed=True, sent=False) if exposed else meters.Meters()


def _meters(service: Role, node: str, *, exposed: bool, sent: bool) -> meters.Meters:
    """Make real meters.

    Raises:
        ValueError: the SDK refuses what a standard variable says.
    """
    from shared.telemetry import otel_meters  # noqa: PLC0415 - 4 MB that not everybody needs

    if not sent:
        return otel_meters.OtelMeters(service, node, exposed=exposed)
    from opentelemetry.exporter.otlp.proto.http import (  # noqa: PLC0415 - 5 MB more
        metric_exporter,
    )

    exporter = metric_exporter.OTLPMetricExporter()
    return otel_meters.OtelMeters(service, node, exposed=exposed, exporter=exporter)


@contextlib.asynccontextmanager
async def telemetry(
    service: str, node: str, environ: Mapping[str, str], measured: meters.Meters
) -> AsyncIterator[spans.Telemetry]:
    """Give the service its telemetry, and send what is queued when it ends.

    A service serves also where a standard variable says what the SDK refuses.
    """
    async with _closed(measured.close):
        sender = await _sender(service, node, environ, measured)
        if sender is None:
            yield spans.Telemetry(service, node, meters=measured)
            return
        measured.show(lambda: [catalogue.QUEUE_DEPTH.at(sender.waiting, queue="otlp")])
        async with _closed(sender.close):
            yield spans.Telemetry(service, node, export=sender.export, meters=measured)


async def _sender(
    service: str, node: str, environ: Mapping[str, str], measured: meters.Meters
) -> otlp.OtlpExport | None:
    if not wants_otlp(environ):
        return None
    try:
        return await asyncio.to_thread(_export, service, node, measured)
    except ValueError as error:
        log.warning("spans are not sent by OTLP: %s", error)
        return None


def _export(service: str, node: str, measured: meters.Meters) -> otlp.OtlpExport:
    from shared.telemetry import otlp  # noqa: PLC0415 - 20 MB that most nodes never need

    return otlp.OtlpExport(service, node, measured.lost)


def _is_off(environ: Mapping[str, str]) -> bool:
    return environ.get("OTEL_SDK_DISABLED", "").lower() == "true"


@contextlib.asynccontextmanager
async def _closed(close: Callable[[], None]) -> AsyncIterator[None]:
    """Close something at the end, which may hang: in a thread that the process does not wait for.

    The loop's own threads would be waited for when it ends.
    """
    try:
        yield
    finally:
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def work() -> None:
            close()
            with contextlib.suppress(RuntimeError):  # the loop has ended before us
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=work, name="close telemetry", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await done.wait()
