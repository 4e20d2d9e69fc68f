"""These tests need real programs, and are collected only by `-m observe`, as in `make observe`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.observe import recording as recordings
from tests.observe.recording import Recording

TIMEOUT_S = 700  # the first test also waits for the whole story


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


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    """The story, played once before Prometheus and a collector."""
    with recordings.recorded(tmp_path_factory.mktemp("observe")) as found:
        yield found
