"""Edits as people and tools make them: none at all, and far too many."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from services.rehearsal import language
from services.rehearsal.embedded import acts
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.story import ConfigMap
from shared.contract.table import Role
from shared.runtime import clock
from tests.e2e import calling
from tests.support.eventually import eventually

NODE = "gpu-a.lan"
STORY = f"""\
nodes:
  - {{name: {NODE}, gpus: [t4, t4]}}
steps:
  - wait: 0s
"""
EDITS, SECONDS = 200, 10.0
BAD = (
    "version: v1\nsharing: {timeSlicing: {replicas: 4}}",
    "version: v2",
    "sharing:\n\ttimeSlicing:",
    "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 0}]}}",
    "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: [7]}]}}",
    "- a list",
)


def good(replicas: int) -> str:
    """A text that gives each GPU so many slots."""
    return (
        "version: v1\nsharing: {timeSlicing: {resources: "
        f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}\n"
    )


async def edit(cluster: Cluster, text: str) -> None:
    """Write the one key of the ConfigMap."""
    await acts.act(cluster, ConfigMap(name="sharing", data={"any": text}))


def offered(cluster: Cluster) -> int:
    """Slots of each GPU, as the allocator counts them."""
    ledger = cluster.book.ledgers.get(NODE)
    counts = {each.gpu_uuid: each.counts.total for each in ledger.counts} if ledger else {}
    return sum(counts.values()) // 2


@pytest.mark.timeout(120)
async def test_u015_f09_without_a_config_map_status_says_that_there_is_none_and_why() -> None:
    """Whatever an environment holds, the read-out names the source that counts: none."""
    story = await asyncio.to_thread(language.read, STORY, "s.yaml")
    async with clusters.opened(story) as cluster:
        cluster.keep = False
        user, password_file = cluster.broker.credentials(Role.COMMAND)
        bus = ["--bus-url", cluster.broker.url, "--bus-user", user]
        bus += ["--bus-password-file", str(password_file)]
        ended = await calling.called(cluster.folder, "status", *bus, "-o", "json")
    config = json.loads(ended.out)["nodes"][0]["config"]
    assert (config["source"], config["key"], config["state"]) == ("none", "", "unshared")
    assert config["reason"].startswith("there is no sharing text: the ConfigMap is missing")


@pytest.mark.timeout(120)
async def test_two_hundred_edits_in_ten_seconds_end_in_the_last_good_text() -> None:
    """Good and bad ones mixed: no slot is ever unhealthy, nothing registers again."""
    chosen = random.Random(4)  # the same edits each time
    texts = [
        chosen.choice(BAD) if chosen.random() < 0.4 else good(chosen.randint(2, 12))
        for _ in range(EDITS - 1)
    ]
    texts.append(BAD[0])
    accepted = [text for text in texts if text not in BAD]
    story = await asyncio.to_thread(language.read, STORY, "s.yaml")
    async with clusters.opened(story) as cluster:
        cluster.keep = False
        record = cluster.nodes[NODE].kubelet.record
        await edit(cluster, good(3))
        await eventually(lambda: offered(cluster) == 3, within=20)
        first = len(record.lists)
        began = clock.loop_time()
        for number, text in enumerate(texts, start=1):
            await edit(cluster, text)
            await clock.sleep(began + number * SECONDS / EDITS - clock.loop_time())
        last = int(accepted[-1].partition("replicas: ")[2].partition("}")[0])
        await eventually(lambda: offered(cluster) == last, within=20)
        await clock.sleep(2)  # nothing else is on its way
        assert offered(cluster) == last
        lists = record.lists[first:]
        assert len(lists) <= len(accepted)
        assert all(device.healthy for listed in lists for device in listed.devices)
        assert dict(record.registrations) == {"nvidia.com/gpu": 1}
        assert not record.rejections
        intent = cluster.book.intents[NODE]
        assert (intent.state.value, intent.source.key) == ("refused", "any")
        assert not cluster.ended_badly()
