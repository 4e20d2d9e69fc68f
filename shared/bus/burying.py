"""A node that the cluster has not had for long → tombstones over all that is said of it.

The leading controller calls `bury`. A tombstone is an empty value that says which store it belongs
to, so that it is ordered like any other, and that goes by itself after a day: the store holds no
more names than there are nodes. A node that lives all the same writes over it.
"""

from __future__ import annotations

from shared.bus.connection import Bus
from shared.contract import table

TTL = "Nats-TTL"


async def bury(bus: Bus, node: str) -> None:
    """Write an empty value over each that stands for a node, once `ensure_streams` has been there.

    Raises:
        BusError: not all was written; what was is not written again.
    """
    session = await bus.session()
    token = table.node_token(node)
    for bucket in table.BUCKETS:
        standing = await session.get(bucket.stream, bucket.key(token))
        if standing is not None and standing.data:
            headers = {
                table.STORE_HEADER: str(bus.known[bucket.name].store),
                TTL: f"{table.TOMBSTONE_S}s",
            }
            await session.store(bucket.key(token), b"", headers)
