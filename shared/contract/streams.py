"""The table as JetStream stream configurations, in the form of the server's API.

The controller makes streams of these (`shared.bus.ensure`) and compares those that stand.
"""

from __future__ import annotations

from shared.contract import table
from shared.contract.table import Bucket, Log

SECOND_NS = 1_000_000_000
DUPLICATE_WINDOW_S = 120  # a fact that is sent again within it is stored once

StreamConfig = dict[str, object]


def bucket_config(bucket: Bucket) -> StreamConfig:
    """One message a key; what is stored is republished; nothing can be rolled up or removed.

    Without `allow_direct` a read would be a consumer or need rights on the whole stream; with
    roll-up a writer of one key could wipe all others. A message may have an end of its own:
    tombstones do, so that names which never come back leave nothing behind.
    """
    return {
        "name": bucket.stream,
        "description": bucket.says,
        "subjects": [bucket.key(">")],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "discard": "old",
        "max_msgs_per_subject": 1,
        "max_msg_size": bucket.max_value_bytes + table.HEADER_ROOM_BYTES,
        "allow_direct": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": False,
        "deny_delete": True,
        "deny_purge": True,
        "republish": {"src": bucket.key(">"), "dest": bucket.heard(">")},
    }


def log_config(log: Log) -> StreamConfig:
    """Entries in order, bounded by age and size; the oldest go first."""
    return {
        "name": log.stream,
        "description": log.says,
        "subjects": [log.subject("*", "*")],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "discard": "old",
        "max_age": log.max_age_s * SECOND_NS,
        "max_bytes": log.max_bytes,
        "max_msg_size": table.MAX_PAYLOAD_BYTES,
        "duplicate_window": DUPLICATE_WINDOW_S * SECOND_NS,
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "deny_delete": True,
        "deny_purge": True,
    }
