"""These tests need real programs, and are collected only by `-m observe`, as in `make observe`."""

from __future__ import annotations

import pathlib

import pytest

TIMEOUT_S = 400  # the first test also waits for the whole story


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these tests out where nobody asked for them."""
    return None if "observe" in str(config.getoption("markexpr")) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.observe)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
