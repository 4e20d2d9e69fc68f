"""Each alert fires when it should and is quiet when it should be, by promtool's own clock."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.chart.test_alerts import ALERTS, RULES
from tests.observe import build

GPU = '{node="n1", uuid="GPU-1", index="0", model="a100"}'
USED = '{node="n1", uuid="GPU-1", index="0", model="a100", shared="%s", holders="2"}'
STALE = '{node="n1", resource="gpu"}'
REFUSED = 'slicewire_allocate_duration_seconds_count{node="n1",resource="gpu",outcome="%s"}'


@dataclass(frozen=True)
class Case:
    """Series of one value a minute → labels of the alerts that fire at a minute."""

    alert: str
    series: Mapping[str, str]
    at: int
    fires: tuple[Mapping[str, str], ...] = field(default=())


CASES = {
    "sick for two minutes": Case(
        "SlicewireGpuSick",
        {f"slicewire_gpu_healthy{GPU}": "1 1 0x5"},
        4,
        ({"node": "n1", "uuid": "GPU-1", "index": "0", "model": "a100"},),
    ),
    "well again": Case("SlicewireGpuSick", {f"slicewire_gpu_healthy{GPU}": "1 0 1x5"}, 4),
    "no daemon for long": Case(
        "SlicewireMpsDaemonDown",
        {f"slicewire_mps_daemon_ready{GPU}": "1 1 0x5"},
        5,
        ({"node": "n1", "uuid": "GPU-1", "index": "0", "model": "a100"},),
    ),
    "a daemon that is back": Case(
        "SlicewireMpsDaemonDown", {f"slicewire_mps_daemon_ready{GPU}": "1 0 1x5"}, 5
    ),
    "silent for long": Case(
        "SlicewireNodeSilent", {'slicewire_nodes{state="silent"}': "0 2x20"}, 15, ({},)
    ),
    "silent as it starts": Case(
        "SlicewireNodeSilent", {'slicewire_nodes{state="silent"}': "2x5 0x20"}, 15
    ),
    "away for long": Case(
        "SlicewireBusAway",
        {'slicewire_bus_connected{node="n1"}': "1 0x20"},
        10,
        ({"node": "n1"},),
    ),
    "away for a moment": Case(
        "SlicewireBusAway", {'slicewire_bus_connected{node="n1"}': "1 0x3 1x20"}, 10
    ),
    "two that wait, none leads": Case(
        "SlicewireNoLeader",
        {'slicewire_leader{instance="a"}': "1 0x20", 'slicewire_leader{instance="b"}': "0x20"},
        5,
        ({},),
    ),
    "no controller at all": Case("SlicewireNoLeader", {"up": "1x20"}, 5, ({},)),
    "one leads, one waits": Case(
        "SlicewireNoLeader",
        {'slicewire_leader{instance="a"}': "1x20", 'slicewire_leader{instance="b"}': "0x20"},
        5,
    ),
    "holds for an hour": Case(
        "SlicewireChangeStuck",
        {'slicewire_change_phase{node="n1", phase="holding"}': "1x60"},
        40,
        ({"node": "n1", "phase": "holding"},),
    ),
    "ended an hour ago": Case(
        "SlicewireChangeStuck",
        {'slicewire_change_phase{node="n1", phase="success"}': "1x60"},
        40,
    ),
    "one failed": Case(
        "SlicewireChangeFailed", {'slicewire_nodes{state="failed"}': "0 1x20"}, 10, ({},)
    ),
    "none failed": Case("SlicewireChangeFailed", {'slicewire_nodes{state="failed"}': "0x20"}, 10),
    "a budget says no again and again": Case(
        "SlicewireDrainBlocked",
        {'slicewire_evictions_total{outcome="blocked"}': "_ _ 1+5x20"},
        12,
        ({"outcome": "blocked"},),
    ),
    "two budgets for one pod": Case(
        "SlicewireDrainBlocked",
        {'slicewire_evictions_total{outcome="failed"}': "_ _ 1+5x20"},
        12,
        ({"outcome": "failed"},),
    ),
    "a budget said no once": Case(
        "SlicewireDrainBlocked", {'slicewire_evictions_total{outcome="blocked"}': "_ _ 1x30"}, 12
    ),
    "a text is refused": Case(
        "SlicewireConfigRefused",
        {'slicewire_config_refused{node="n1"}': "_ 1x20"},
        5,
        ({"node": "n1"},),
    ),
    "a text was mended": Case(
        "SlicewireConfigRefused", {'slicewire_config_refused{node="n1"}': "1 1 _x20"}, 9
    ),
    "all held for long": Case(
        "SlicewireSlotsAllHeld",
        {'slicewire_waiting_pods{reason="AllHeld"}': "3x30"},
        20,
        ({"reason": "AllHeld"},),
    ),
    "others wait": Case(
        "SlicewireSlotsAllHeld", {'slicewire_waiting_pods{reason="Reconfiguring"}': "3x30"}, 20
    ),
    "a name that nobody serves": Case(
        "SlicewirePodsCannotStart",
        {'slicewire_waiting_pods{reason="NoSuchResource"}': "1x30"},
        20,
        ({"reason": "NoSuchResource"},),
    ),
    "a wait that ends by itself": Case(
        "SlicewirePodsCannotStart", {'slicewire_waiting_pods{reason="AllHeld"}': "1x30"}, 20
    ),
    "a kubelet counts the dead": Case(
        "SlicewireKubeletStale",
        {f"slicewire_kubelet_stale_devices{STALE}": "_ 2x20"},
        8,
        ({"node": "n1", "resource": "gpu"},),
    ),
    "a kubelet is restarted": Case(
        "SlicewireKubeletStale", {f"slicewire_kubelet_stale_devices{STALE}": "_ 2x3 stale _x20"}, 8
    ),
    "the first refusal ever": Case(
        "SlicewireAllocationsRefused",
        {REFUSED % "refused": "_ _ 1x20"},
        4,
        ({"node": "n1", "resource": "gpu"},),
    ),
    "one more refusal": Case(
        "SlicewireAllocationsRefused",
        {REFUSED % "refused": "7x14 8x20"},
        16,
        ({"node": "n1", "resource": "gpu"},),
    ),
    "a refusal of long ago": Case(
        "SlicewireAllocationsRefused",
        {REFUSED % "refused": "1x60", REFUSED % "granted": "1+1x60"},
        50,
    ),
    "one slot, two pods": Case(
        "SlicewireSlotConflict",
        {'slicewire_conflicts_total{node="n1"}': "_ 1x20"},
        3,
        ({"node": "n1"},),
    ),
    "no conflict": Case(
        "SlicewireSlotConflict", {'slicewire_conflicts_total{node="n1"}': "0x20"}, 18
    ),
    "guests on a shared GPU": Case(
        "SlicewireUnaccountedUse",
        {
            'slicewire_unaccounted_gpu_memory_used_bytes{node="n1", uuid="GPU-1"}': "1e9x30",
            f"slicewire_gpu_memory_used_bytes{USED % 'true'}": "2e9x30",
        },
        15,
        ({"node": "n1", "uuid": "GPU-1"},),
    ),
    "guests on a GPU of nobody": Case(
        "SlicewireUnaccountedUse",
        {
            'slicewire_unaccounted_gpu_memory_used_bytes{node="n1", uuid="GPU-1"}': "1e9x30",
            f"slicewire_gpu_memory_used_bytes{USED % 'false'}": "2e9x30",
        },
        15,
    ),
    "spans were lost": Case(
        "SlicewireTelemetryDropped",
        {'slicewire_dropped_total{node="n1", what="spans"}': "0 0 4x20"},
        5,
        ({"what": "spans"},),
    ),
    "nothing was lost": Case(
        "SlicewireTelemetryDropped",
        {'slicewire_dropped_total{node="n1", what="spans"}': "4x40"},
        30,
    ),
}


def promtool(*words: str) -> str:
    """Run promtool; what it says, where it is content."""
    command = [str(build.program("promtool")), *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_prometheus_takes_the_rules() -> None:
    """All of them, with their templates."""
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_alert_fires_when_it_should_and_not_before(case: Case, tmp_path: pathlib.Path) -> None:
    """With the labels that say where."""
    labels = ALERTS[case.alert]["labels"]
    firing = {"alertname": case.alert, "alertstate": "firing"} | labels
    wanted = [{"labels": _series(firing | each), "value": 1} for each in case.fires]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in case.series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f'ALERTS{{alertname="{case.alert}", alertstate="firing"}}',
                        "eval_time": f"{case.at}m",
                        "exp_samples": wanted,
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps(test), encoding="utf-8")  # JSON is YAML
    promtool("test", "rules", str(file))


def _series(labels: Mapping[str, str]) -> str:
    return "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_seen_firing_and_quiet(alert: str) -> None:
    """There is a case of each."""
    cases = [case for case in CASES.values() if case.alert == alert]
    assert {bool(case.fires) for case in cases} == {True, False}
