"""Queries that join our series with DCGM's make of recorded series what docs/metrics.md says."""

from __future__ import annotations

import json
import pathlib

import pytest

from shared.telemetry import joins
from shared.telemetry.joins import Join
from tests.observe.test_alerts import promtool


@pytest.mark.parametrize("join", joins.JOINS, ids=lambda join: join.title)
def test_a_recorded_example_comes_out_as_it_is_printed(join: Join, tmp_path: pathlib.Path) -> None:
    """By promtool, whose engine is Prometheus' own."""
    test = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": f"{value}x5"} for series, value in join.series
                ],
                "promql_expr_test": [
                    {
                        "expr": join.query,
                        "eval_time": "2m",
                        "exp_samples": [
                            {"labels": labels, "value": value} for labels, value in join.result
                        ],
                    }
                ],
            }
        ],
    }
    path = tmp_path / "test.json"
    path.write_text(json.dumps(test), encoding="utf-8")
    assert "SUCCESS" in promtool("test", "rules", str(path))
