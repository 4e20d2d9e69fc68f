"""Series of NVIDIA's dcgm-exporter joined with ours, in a real Prometheus.

The queries are those of docs/metrics.md; the GPUs, instances and pods are those of the story.
"""

from __future__ import annotations

from typing import Any

from shared.telemetry import joins
from tests.observe import dcgm
from tests.observe.recording import SHARED_GPU, Recording

Json = dict[str, Any]
TOLD = ("namespace", "pod", "container", "slot")


def joined(recording: Recording, join: joins.Join, part: str) -> dict[tuple[str, ...], float]:
    """What a query of the docs gives at the end of a part of the story, by holder."""
    found = recording.prometheus.query(join.query, recording.moments[part])
    return {tuple(each["labels"][name] for name in TOLD): each["value"] for each in found}


def test_u087_each_pod_of_a_shared_gpu_has_its_utilization(recording: Recording) -> None:
    """DCGM itself names one pod, which here is nobody who holds a slot."""
    found = joined(recording, joins.UTILIZATION, "held")
    whole = {key: value for key, value in found.items() if SHARED_GPU in key[3]}
    assert whole
    assert set(whole.values()) == {40.0}
    assert {namespace for namespace, *_ in found} == {"default"}
    assert {pod for _, pod, *_ in found} == {"train-1", "train-2", "sleepy"}
    assert all("::" in slot for *_, slot in found)


def test_a_free_slot_has_no_series(recording: Recording) -> None:
    """Nobody is blamed for it."""
    assert joined(recording, joins.UTILIZATION, "idle") == {}
    assert joined(recording, joins.INSTANCE_ACTIVITY, "idle") == {}


def test_u089_an_instance_is_found_by_its_gpu_and_id_and_by_its_uuid(recording: Recording) -> None:
    """Both name the same pod; the empty instances have none."""
    at = recording.moments["held"]
    found = joined(recording, joins.INSTANCE_ACTIVITY, "held")
    assert {pod for _, pod, *_ in found if pod == "infer-2"} == {"infer-2"}
    assert len(found) == 2
    instances = recording.prometheus.query("slicewire_mig_instance_info", at)
    ids = {each["labels"]["uuid"]: int(each["labels"]["gpu_instance"]) for each in instances}
    assert len(ids) == 4
    for (_, pod, _, slot), value in found.items():
        assert value == 0.5 + ids[slot] / 100, pod  # as the exporter says of that instance
    by_uuid = recording.prometheus.query(
        "slicewire_holder and on (uuid) slicewire_mig_instance_info", at
    )
    assert {each["labels"]["pod"] for each in by_uuid} == {pod for _, pod, *_ in found}


def test_labels_of_a_holder_survive_the_scrape(recording: Recording) -> None:
    """honor_labels: `pod` is the holder, not the pod of the allocator that was scraped."""
    found = recording.prometheus.query("slicewire_holder", recording.moments["held"])
    assert found
    assert not [each for each in found if "exported_pod" in each["labels"]]
    assert {each["labels"]["node"] for each in found} == {"gpu-a", "gpu-b"}


def test_dcgm_s_series_are_in_the_form_of_its_exporter(recording: Recording) -> None:
    """What is recorded here is what the queries of the page ask for."""
    for metric in (dcgm.UTILIZATION, dcgm.ENGINE_ACTIVE, dcgm.MEMORY_USED):
        assert recording.prometheus.query(metric, recording.moments["held"]), metric
