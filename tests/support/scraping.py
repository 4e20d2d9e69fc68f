"""What Prometheus would find at a service: asked over HTTP, read by its own parser."""

from __future__ import annotations

import asyncio
import socket

from prometheus_client import parser

Labels = tuple[tuple[str, str], ...]
Read = dict[str, dict[Labels, float]]  # values by name, then by labels


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def parse(text: str) -> Read:
    """Every series; one that stands twice would fail a scrape."""
    found: Read = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            series = found.setdefault(sample.name, {})
            assert labels not in series, f"{sample.name}{dict(labels)} stands twice"
            series[labels] = sample.value
    return found


async def scrape(port: int) -> Read:
    """Ask as Prometheus does; nothing where nobody listens yet."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return {}
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert b"Content-Type: text/plain; version=0.0.4" in head
    return parse(body.decode())


def values(found: Read, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by some of its labels."""
    return {
        tuple(dict(series).get(label, "") for label in labels): value
        for series, value in found.get(name, {}).items()
    }
