"""Make what is missing on the bus: streams from the table, and each bucket's `_store`.

The controller calls `ensure_streams` at start, on reconnect and on a timer. A bucket that was made
anew, or whose sequences went back (restored from a copy), gets a greater `_store`; its writers
notice and write again, and its readers take what is written there.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from typing import Any

from shared.bus import errors
from shared.bus.connection import Bus, Known
from shared.bus.session import Session
from shared.bus.writing import read_store
from shared.contract import streams, table
from shared.contract.streams import StreamConfig
from shared.contract.table import Bucket

log = logging.getLogger(__name__)


async def ensure_streams(bus: Bus) -> dict[str, int]:
    """Make missing streams, mend differing ones; return the store of each bucket by name.

    Waits for a connection, however long that takes.

    Raises:
        BusError: the connection ended, JetStream is away, or it said no; try again later.
    """
    session = await bus.session()
    for log_stream in table.LOGS:
        await _ensure(session, streams.log_config(log_stream))
    return {bucket.name: await _ensure_bucket(bus, session, bucket) for bucket in table.BUCKETS}


async def _ensure_bucket(bus: Bus, session: Session, bucket: Bucket) -> int:
    info = await _ensure(session, streams.bucket_config(bucket))
    known = bus.known.get(bucket.name, Known())
    sequence = int(info["state"]["last_seq"])
    standing = await session.get(bucket.stream, bucket.key(table.STORE_KEY))
    store = read_store(standing.data) if standing else 0
    if not store or store < known.store or sequence < known.sequence:
        store = max(_created_ns(info), store + 1, known.store + 1)
        sequence = await session.store(bucket.key(table.STORE_KEY), str(store).encode(), {})
        log.info("bucket %s is store %d from now on", bucket.name, store)
    bus.known[bucket.name] = Known(store, sequence)
    return store


async def _ensure(session: Session, wanted: StreamConfig) -> Mapping[str, Any]:
    name = str(wanted["name"])
    try:
        info = await session.manage("INFO", name, {})
    except errors.MissingError:
        log.info("making the stream %s", name)
        return await session.manage("CREATE", name, wanted)
    if _differs(info["config"], wanted):
        log.warning("the stream %s differs from the contract: mending it", name)
        return await session.manage("UPDATE", name, wanted)
    return info


def _differs(standing: Mapping[str, Any], wanted: StreamConfig) -> bool:
    return any(standing.get(key) != value for key, value in wanted.items())


def _created_ns(info: Mapping[str, Any]) -> int:
    """RFC 3339 with nanoseconds → ns since the epoch."""
    text = str(info["created"]).removesuffix("Z")
    seconds, _, fraction = text.partition(".")
    moment = datetime.datetime.fromisoformat(f"{seconds}+00:00")
    return int(moment.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
