"""The whole advertiser on simulated GPUs: XIDs and verdicts are counted, GPUs are shown."""

from __future__ import annotations

import asyncio
import pathlib

from services.advertiser import app
from services.advertiser.settings import AdvertiserSettings
from shared.telemetry import catalogue
from tests.support.eventually import eventually
from tests.support.measured import Remembering
from tests.support.running import running
from tests.support.simulated_nvml import simulated_nvml

WITHIN = 20.0


def healthy(told: Remembering) -> dict[str, float]:
    """What a scrape would show of health, by GPU index."""
    return {
        sample.labels["index"]: sample.value
        for source in told.sources
        for sample in source()
        if sample.instrument is catalogue.GPU_HEALTHY
    }


async def test_a_fatal_xid_is_counted_once_and_its_gpu_is_0(tmp_path: pathlib.Path) -> None:
    """An XID of the application counts too, and changes no verdict."""
    told = Remembering()
    settings = AdvertiserSettings.model_validate(
        {
            "node_name": "n1",
            "run_dir": tmp_path,
            "state_dir": tmp_path / "state",
            "look_period_s": 0.05,
            "bus_url": "nats://127.0.0.1:1",
        }
    )
    with simulated_nvml("a100-80gb", "a100-80gb") as node:
        async with running(app.serve(settings, told)):
            await eventually(lambda: healthy(told) == {"0": 1, "1": 1}, within=WITHIN)
            await asyncio.to_thread(node.fault, {"gpu": 0, "xid": 43})
            await asyncio.to_thread(node.fault, {"gpu": 1, "xid": 48})
            await eventually(lambda: healthy(told) == {"0": 1, "1": 0}, within=WITHIN)
            counted = {
                (name, dict(labels).get("xid") or dict(labels).get("state")): count
                for (name, labels), count in told.counts.items()
                if count
            }
            assert counted == {
                (catalogue.GPU_XIDS.exposed, "43"): 1,
                (catalogue.GPU_XIDS.exposed, "48"): 1,
                (catalogue.GPU_HEALTH_CHANGES.exposed, "sick"): 1,
            }
