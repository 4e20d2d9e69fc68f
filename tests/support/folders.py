"""A folder whose path leaves room for sockets below it: those of pytest are long."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def short() -> Iterator[pathlib.Path]:
    """Make one, and remove it with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)
