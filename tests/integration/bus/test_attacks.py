"""The server answers on any reply subject a client names: what a stolen credential gets from that.

Everything here is tried with the rights a node service or a viewer really has.
"""

from __future__ import annotations

import json

import pytest

from shared.bus import freshness, state
from shared.bus.freshness import Verdict
from shared.contract import codec, permissions, table
from shared.contract.messages import Intent
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import NODE, OTHER, Plain, administrator, hold, intent, opened, plain
from tests.support.eventually import eventually
from tests.support.running import running

INTENT, HOLD = table.bucket("intent"), table.bucket("hold")
STREAMS = [each.stream for each in (*table.BUCKETS, *table.LOGS)]
REPLIES = (
    INTENT.key(OTHER),
    INTENT.key(table.STORE_KEY),
    HOLD.key(OTHER),
    INTENT.heard(OTHER),
    "facts.gpu-b.granted",
    *(f"$JS.API.STREAM.{verb}.{name}" for verb in ("DELETE", "PURGE") for name in STREAMS),
)
FORGED_HEADERS = {
    freshness.STREAM: INTENT.stream,
    freshness.SUBJECT: INTENT.key(OTHER),
    freshness.SEQUENCE: "999999",
}


async def stand(admin: Plain) -> dict[str, bytes]:
    """Store a true value under every key that is attacked; return all that stands."""
    for bucket, value in ((INTENT, intent(OTHER, "true", 1)), (HOLD, hold(OTHER, "true", 1))):
        await admin.ask(bucket.key(OTHER), codec.encode(value))
    return await standing(admin)


async def standing(admin: Plain) -> dict[str, bytes]:
    """What stands under the attacked keys, and the last sequence of each stream."""
    keys = [(INTENT, OTHER), (INTENT, table.STORE_KEY), (HOLD, OTHER)]
    values = {
        bucket.key(token): (
            await admin.ask(f"{permissions.DIRECT_GET}.{bucket.stream}.{bucket.key(token)}")
        ).data
        for bucket, token in keys
    }
    infos = {name: await admin.ask_json(f"$JS.API.STREAM.INFO.{name}") for name in STREAMS}
    created = {name: str(info.get("created", info)).encode() for name, info in infos.items()}
    return values | created


@pytest.mark.parametrize("data", [codec.encode(intent(OTHER, "forged", 2)), b""])
async def test_a_nodes_answers_reach_no_stream(stocked: Broker, data: bytes) -> None:
    """Neither another node's key nor the stream API takes what the storage answers to a node."""
    async with administrator(stocked) as admin, plain(stocked, Role.AGENT, NODE) as evil:
        before = await stand(admin)
        key = table.bucket("progress").key("gpu-a_example")
        await evil.client.publish(key, data, headers=FORGED_HEADERS)
        await evil.settle()
        get = f"{permissions.DIRECT_GET}.KV_progress.{key}"
        for reply in REPLIES:
            await evil.client.publish(get, b"", reply=reply)
            await evil.client.publish(key, data, reply=reply, headers=FORGED_HEADERS)
        await evil.ask(get)
        assert await standing(admin) == before


async def test_a_viewers_answers_reach_no_stream(stocked: Broker) -> None:
    """A viewer reads everything and can send what it read to nobody."""
    async with administrator(stocked) as admin, plain(stocked, Role.COMMAND) as evil:
        before = await stand(admin)
        await admin.ask(INTENT.key("gpu-a_example"), codec.encode(intent(NODE, "forged", 2)))
        before = await standing(admin)
        batch = json.dumps({"seq": 1, "batch": 9, "next_by_subj": INTENT.key("*")}).encode()
        for reply in REPLIES:
            await evil.client.publish(
                f"{permissions.DIRECT_GET}.{INTENT.stream}", batch, reply=reply
            )
            one = f"{permissions.DIRECT_GET}.{INTENT.stream}.{INTENT.key('gpu-a_example')}"
            await evil.client.publish(one, b"", reply=reply)
        await evil.ask(one)
        assert await evil.refusals() == []
        assert await standing(admin) == before


async def test_what_lands_on_a_victims_subject_is_not_applied(stocked: Broker) -> None:
    """An answer sent to another node's `sw.` subject arrives there and counts for nothing."""
    received: list[state.Received[Intent]] = []
    async with (
        administrator(stocked) as admin,
        plain(stocked, Role.ALLOCATOR, NODE) as evil,
        plain(stocked, Role.AGENT, OTHER) as witness,
        opened(stocked, Role.AGENT, OTHER) as bus,
        running(state.StateReader(bus, INTENT, OTHER, received.append).run()),
    ):
        await stand(admin)
        await eventually(lambda: received)
        heard = await witness.heard(INTENT.heard(OTHER))
        key = table.bucket("ledger").key("gpu-a_example")
        forged = codec.encode(intent(OTHER, "forged", 1 << 62))
        await evil.ask(key, forged, **{k.replace("-", "_"): v for k, v in FORGED_HEADERS.items()})
        get = f"{permissions.DIRECT_GET}.KV_ledger.{key}"
        await evil.client.publish(get, b"", reply=INTENT.heard(OTHER))
        landed = await eventually(lambda: [m for m in heard if m.data == forged])
        reading: freshness.Reading[Intent] = freshness.Reading(INTENT, OTHER)
        assert reading.offer(landed[0].headers or {}, landed[0].data) is Verdict.FOREIGN
        await admin.ask(INTENT.key(OTHER), codec.encode(intent(OTHER, "next", 1)))
        await eventually(lambda: len(received) > 1)
    assert [each.value.mig_config for each in received] == ["true", "next"]


async def test_a_writers_own_forged_headers_do_not_count(stocked: Broker) -> None:
    """The server appends its own sequence and names last, and the last one counts."""
    async with administrator(stocked) as admin, plain(stocked, Role.AGENT, OTHER) as witness:
        heard = await witness.heard(INTENT.heard(OTHER))
        headers = {name.replace("-", "_"): value for name, value in FORGED_HEADERS.items()}
        await admin.ask(INTENT.key(OTHER), codec.encode(intent(OTHER, "true", 1)), **headers)
        message = (await eventually(lambda: heard))[0]
    assert freshness.stored_sequence(message.headers or {}, INTENT, OTHER) == 2
