"""`slicewire reconfigurer controller`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.reconfigurer.controller import app, kube
from services.reconfigurer.controller.settings import ControllerSettings
from shared.runtime import settings
from shared.telemetry import process

PROGRAM = "slicewire reconfigurer controller"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(ControllerSettings, arguments, os.environ, PROGRAM)
    if reason := kube.missing(loaded.api_url, loaded.kube_config, os.environ):
        sys.stderr.write(f"{PROGRAM}: {reason}\n")
        return 2
    return process.run(lambda measured: app.serve(loaded, measured), app.ROLE, loaded)


if __name__ == "__main__":
    sys.exit(main())
