"""`slicewire allocator`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.allocator import app
from services.allocator.settings import AllocatorSettings
from shared.runtime import settings
from shared.telemetry import process


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(AllocatorSettings, arguments, os.environ, "slicewire allocator")
    return process.run(
        lambda measured: app.serve(loaded, measured), app.SERVICE, loaded, loaded.node_name
    )


if __name__ == "__main__":
    sys.exit(main())
