"""The table of instruments, and the page that is made of it."""

from __future__ import annotations

import re

import pytest

from shared.contract.table import NODE_ROLES, Role
from shared.telemetry import catalogue, docs
from shared.telemetry.catalogue import Instrument, Kind

ALL = pytest.mark.parametrize("instrument", catalogue.INSTRUMENTS, ids=lambda each: each.name)


def test_names_are_given_once() -> None:
    names = [each.exposed for each in catalogue.INSTRUMENTS]
    assert len(set(names)) == len(names)


@ALL
def test_names_and_labels_are_what_prometheus_and_opentelemetry_take(
    instrument: Instrument,
) -> None:
    """Old Prometheus knows no dots; `le`, `job`, `instance` and `node` are set by others."""
    assert re.fullmatch(r"slicewire(\.[a-z]+)+", instrument.name)
    assert re.fullmatch(r"slicewire(_[a-z]+)+", instrument.exposed)
    assert len(set(instrument.labels)) == len(instrument.labels)
    set_by_others = {"le", "job", "instance"}
    if set(instrument.services) & set(NODE_ROLES):
        set_by_others.add("node")
    assert not set_by_others.intersection(instrument.labels)


@ALL
def test_only_histograms_have_buckets_and_theirs_are_of_seconds(instrument: Instrument) -> None:
    """The SDK's own are of milliseconds: 0.1 s would be told as 2.5 s."""
    assert bool(instrument.buckets) == (instrument.kind is Kind.HISTOGRAM)
    assert sorted(set(instrument.buckets)) == list(instrument.buckets)
    assert instrument.kind is not Kind.HISTOGRAM or instrument.unit == "s"


@ALL
def test_the_page_lists_it_with_its_bound(instrument: Instrument) -> None:
    (row,) = (line for line in docs.text().splitlines() if f"| `{instrument.exposed}`" in line)
    assert row.endswith(f"| {instrument.bound} |")
    assert instrument.bound


def test_agreed_names_of_series() -> None:
    """Dashboards of others hold on to them."""
    assert catalogue.HOLDER.exposed == "slicewire_holder"
    assert catalogue.GPU_MEMORY_USED.exposed == "slicewire_gpu_memory_used_bytes"
    assert catalogue.GPU_UTILIZATION.exposed == "slicewire_gpu_utilization_ratio"
    assert catalogue.ALLOCATE_DURATION.exposed == "slicewire_allocate_duration_seconds"
    assert catalogue.DROPPED.exposed == "slicewire_dropped_total"
    assert catalogue.SLOTS.services == (Role.ALLOCATOR,)
