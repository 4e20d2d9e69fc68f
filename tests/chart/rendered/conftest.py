"""These tests need helm, and are collected only by `-m chart`, as in `make chart`."""

from __future__ import annotations

import pathlib

import pytest

TIMEOUT_S = 120


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these tests out where nobody asked for the chart."""
    return None if "chart" in str(config.getoption("markexpr")) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.chart)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
