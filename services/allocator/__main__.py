"""`slicewire allocator`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.allocator import app
from services.allocator.settings import AllocatorSettings
from shared.runtime import service, settings
from shared.telemetry import setup


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(AllocatorSettings, arguments, os.environ, "slicewire allocator")
    measured = setup.service_meters(
        app.SERVICE, loaded.node_name, os.environ, exposed=loaded.exposed
    )
    return service.run(
        lambda: app.serve(loaded, measured),
        "allocator",
        loaded.health_port,
        measured.pages,
        node=loaded.node_name,
        log_level=loaded.log_level,
    )


if __name__ == "__main__":
    sys.exit(main())
