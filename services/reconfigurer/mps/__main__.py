"""`slicewire mps`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.reconfigurer.mps import app
from services.reconfigurer.mps.settings import MpsSettings
from shared.runtime import service, settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(MpsSettings, arguments, os.environ, "slicewire mps")
    return service.run(
        lambda: app.serve(loaded),
        "mps",
        loaded.health_port,
        node=loaded.node_name,
        log_level=loaded.log_level,
    )


if __name__ == "__main__":
    sys.exit(main())
