"""`slicewire reconfigurer agent`: read settings, serve until stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from services.reconfigurer.agent import app
from services.reconfigurer.agent.settings import AgentSettings
from shared.runtime import settings
from shared.telemetry import process


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    loaded = settings.load(AgentSettings, arguments, os.environ, "slicewire reconfigurer agent")
    return process.run(
        lambda measured: app.serve(loaded, measured), app.SERVICE, loaded, loaded.node_name
    )


if __name__ == "__main__":
    sys.exit(main())
