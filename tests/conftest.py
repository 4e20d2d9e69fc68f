"""Guards for every test: nothing blocks the loop, hypothesis runs by a fixed profile."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Iterator

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from shared.simulation.gpu import catalogue
from tests.support import folders

hypothesis.settings.register_profile(
    "ci", derandomize=True, max_examples=60, deadline=None, print_blob=True
)
hypothesis.settings.register_profile("dev", max_examples=30, deadline=None)
hypothesis.settings.register_profile("long", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("SLICEWIRE_PROPS", "ci"))

# Python 3.11's policy makes a loop for whoever asks first; pytest-asyncio asks and never closes it.
asyncio.set_event_loop(None)

# A terminal's, or what a worker of pytest-xdist is told: pages are as wide as a test says.
os.environ.pop("COLUMNS", None)

# Its file is read once a process; a test whose loop is the first to ask is not to be blamed.
catalogue.models()


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Fail a test whose event loop is blocked by a call of ours."""
    with blockbuster_ctx(["services", "shared"]) as guard:
        yield guard


@pytest.fixture
def short() -> Iterator[pathlib.Path]:
    """A folder whose path leaves room for sockets below it."""
    with folders.short() as folder:
        yield folder
