"""`slicewire advertiser`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.advertiser import app
from services.advertiser.settings import AdvertiserSettings
from shared.runtime import service, settings
from shared.telemetry import setup


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(AdvertiserSettings, arguments, os.environ, "slicewire advertiser")
    measured = setup.service_meters(
        app.SERVICE, loaded.node_name, os.environ, exposed=loaded.exposed
    )
    return service.run(
        lambda: app.serve(loaded, measured),
        "advertiser",
        loaded.health_port,
        measured.pages,
        node=loaded.node_name,
        log_level=loaded.log_level,
    )


if __name__ == "__main__":
    sys.exit(main())
