"""Use by pod on a whole cluster, from NVML's C boundary to the bus and what Prometheus reads."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator

import pytest

from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded import gpu_processes
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.story import Story
from shared.bus import fleet, logs
from shared.bus.state import Received
from shared.contract import table
from shared.contract.facts import FactKind
from shared.contract.usage import DeviceUse, Usage
from shared.domain.slots import Holder
from tests.support import scraping
from tests.support.eventually import eventually
from tests.support.running import running

NODE = "gpu-a.lan"
MIB = 1 << 20
STORY = f"""\
nodes:
  - name: {NODE}
    gpus:
      - t4
      - {{model: a100-80gb, migMode: true, instances: [{{profile: 3g.40gb, start: 4}}]}}
configMaps:
  sharing:
    any: |-
      version: v1
      flags: {{migStrategy: mixed}}
      sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: 4}}]}}}}
steps:
  - expect: {{node: {NODE}, allocatable: {{nvidia.com/gpu: 4}}, within: 30s}}
  - pod:
      name: train
      namespace: ml
      requests: {{nvidia.com/gpu: 1}}
      uses: {{memoryMiB: 5000, sm: 40}}
  - pod:
      name: pair
      containers:
        - {{name: left, requests: {{nvidia.com/gpu: 1}}}}
        - {{name: right, requests: {{nvidia.com/gpu: 1}}}}
      uses: {{memoryMiB: 700, sm: 10}}
  - pod: {{name: cut, requests: {{nvidia.com/mig-3g.40gb: 1}}, uses: {{memoryMiB: 9000, sm: 80}}}}
  - pod: {{name: thief, requests: {{}}}}
  - expect: {{pod: ml/train, phase: Running}}
  - expect: {{pod: ml/train, event: {{reason: GpuMemoryOverUse, message: ~3840 MiB}}, within: 60s}}
  - expect: {{pod: pair, phase: Running}}
  - expect: {{pod: cut, phase: Running}}
  - expect: {{pod: thief, phase: Running}}
  - expect: {{node: {NODE}, slots: {{nvidia.com/gpu: {{held: 3}}}}}}
"""

Series = dict[tuple[str, ...], float]


class Site:
    """The cluster after its story: what its advertiser shows, and what it tells the bus."""

    def __init__(self, cluster: Cluster, targets: pathlib.Path) -> None:
        self.cluster = cluster
        self.heard: list[Usage] = []
        self._targets = targets

    async def uuid(self, index: int) -> str:
        found = await self.cluster.nodes[NODE].hardware.describe()
        return str(found["gpus"][index]["uuid"])

    async def instance(self) -> str:
        found = await self.cluster.nodes[NODE].hardware.describe()
        return str(found["gpus"][1]["instances"][0]["uuid"])

    async def series(self, name: str, *labels: str, of: str = "advertiser") -> Series:
        """The values of a metric by these labels, as a scrape gives them."""
        port = await asyncio.to_thread(self._port, of)
        return scraping.values(await scraping.scrape(port), name, *labels)

    async def shows(self, wanted: Series, name: str, *labels: str) -> None:
        """Wait until a metric has these series and no others."""

        async def shown() -> bool:
            return await self.series(name, *labels) == wanted

        await eventually(shown, within=30)

    def told(self, uuid: str) -> DeviceUse | None:
        """What the bus was told of a device last."""
        devices = self.heard[-1].devices if self.heard else ()
        return next((each for each in devices if each.uuid == uuid), None)

    def hear(self, _node: str, received: Received[Usage]) -> None:
        self.heard.append(received.value)

    def _port(self, service: str) -> int:
        groups = json.loads(self._targets.read_text("utf-8"))
        (address,) = (
            each["targets"][0] for each in groups if each["labels"]["container"] == service
        )
        return int(address.rpartition(":")[2])


def read() -> Story:
    """Read the story, off the loop: its words are read from files."""
    return language.read(STORY, "use.yaml")


@pytest.fixture
async def site(tmp_path: pathlib.Path) -> AsyncIterator[Site]:
    story = await asyncio.to_thread(read)
    targets = tmp_path / "targets.json"
    async with clusters.opened(story, targets) as cluster:
        cluster.keep = False
        outcome = await engine.play(story, Embedded(cluster), lambda _: None)
        assert outcome.ok, (outcome.results[-1].why, outcome.results[-1].seen)
        site = Site(cluster, targets)
        reader: fleet.FleetReader[Usage] = fleet.FleetReader(
            cluster.bus, table.bucket("usage"), site.hear
        )
        async with running(reader.run()):
            yield site


@pytest.mark.timeout(180)
async def test_use_is_told_by_pod_and_what_belongs_to_no_slot_apart(site: Site) -> None:
    """U091: a process of the host, and one of a pod that asked for nothing, burden nobody else."""
    t4, mig = await site.uuid(0), await site.instance()
    by_container = ("namespace", "pod", "container", "uuid")
    memory: Series = {
        ("ml", "train", "main", t4): 5000.0 * MIB,
        ("default", "pair", "left", t4): 700.0 * MIB,
        ("default", "pair", "right", t4): 700.0 * MIB,
        ("default", "cut", "main", mig): 9000.0 * MIB,
    }
    time: Series = {
        ("ml", "train", "main", t4): 0.4,
        ("default", "pair", "left", t4): 0.1,
        ("default", "pair", "right", t4): 0.1,
    }
    await site.shows(memory, "slicewire_pod_gpu_memory_used_bytes", *by_container)
    await site.shows(time, "slicewire_pod_gpu_sm_utilization_ratio", *by_container)
    await site.shows({(t4,): 0.6}, "slicewire_gpu_utilization_ratio", "uuid")
    await site.shows(
        {(t4, "true", "2"): 6400.0 * MIB, (await site.uuid(1), "false", "1"): 9000.0 * MIB},
        "slicewire_gpu_memory_used_bytes",
        *("uuid", "shared", "holders"),
    )

    hardware = site.cluster.nodes[NODE].hardware
    await hardware.start_process(t4, 51_000, "miner", 300, sm_percent=20)
    thief = await asyncio.to_thread(group_of, site.cluster, "thief")
    await hardware.start_process(t4, 51_001, "python", 200, cgroup=thief)
    gpus = {t4: 2.0, await site.uuid(1): 0.0, mig: 0.0}
    await site.shows(
        {(uuid,): count for uuid, count in gpus.items()},
        "slicewire_unaccounted_gpu_processes",
        "uuid",
    )
    await site.shows(
        {(uuid,): 500.0 * MIB * (count > 0) for uuid, count in gpus.items()},
        "slicewire_unaccounted_gpu_memory_used_bytes",
        "uuid",
    )
    assert await site.series("slicewire_pod_gpu_memory_used_bytes", *by_container) == memory
    await eventually(lambda: (site.told(t4) or NOBODY).unaccounted_mib == 500, within=30)
    told = site.told(t4)
    assert told is not None
    assert told.unaccounted == ("default/thief", "miner (51000)")
    assert {use.holder: use.memory_mib for use in told.pods} == {
        Holder("default", "pair", "left"): 700,
        Holder("default", "pair", "right"): 700,
        Holder("ml", "train", "main"): 5000,
    }

    await hardware.end_process(51_000)
    await hardware.end_process(51_001)
    await site.shows(
        dict.fromkeys(((uuid,) for uuid in gpus), 0.0),
        "slicewire_unaccounted_gpu_processes",
        "uuid",
    )


@pytest.mark.timeout(180)
async def test_use_joins_with_holders_and_over_use_is_a_fact(site: Site) -> None:
    """U099: a slot of a T4 in four stands for 3840 MiB, and one pod takes 5000."""
    labels = ("namespace", "pod", "container", "uuid")

    async def same() -> bool:
        holders = await site.series("slicewire_holder", *labels, of="allocator")
        used = await site.series("slicewire_pod_gpu_memory_used_bytes", *labels)
        return len(used) == 4 and used.keys() == holders.keys()

    await eventually(same, within=30)

    async def told() -> list[str]:
        facts = await logs.read_facts(site.cluster.bus, kind=FactKind.OVER_USE)
        return [fact.sentence for fact in facts]

    await eventually(told, within=30)
    (sentence,) = await told()
    assert sentence.startswith("pod ml/train takes 5000 MiB of GPU-")
    assert "its 1 of the slots there stand for 3840 MiB" in sentence


NOBODY = DeviceUse(uuid="", gpu_uuid="", memory_mib=0, used_mib=0)


def group_of(cluster: Cluster, pod: str) -> str:
    """The control group of a pod's container, by the link of its log."""
    (link,) = (cluster.folder / "n0" / "containers").glob(f"{pod}_default_main-*.log")
    uid = link.readlink().parts[-3].rpartition("_")[2]
    return gpu_processes.cgroup(uid, link.stem.rpartition("-")[2])
