"""`python -m tests.bench`: measure everything on one embedded cluster, print one JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys

from tests.bench import calls, cluster, edits, footprint, mig, receivers
from tests.bench.figures import Figure


async def _measure() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    async with cluster.running() as running:
        for part in (calls, edits, footprint):
            sys.stderr.write(f"bench: {(part.__doc__ or '').splitlines()[0]}\n")
            figures |= await part.measure(running)
    sys.stderr.write(f"bench: {(mig.__doc__ or '').splitlines()[0]}\n")
    figures |= await mig.measure()
    sys.stderr.write(f"bench: {(receivers.__doc__ or '').splitlines()[0]}\n")
    return figures | dict(await receivers.measure())


def main() -> int:
    """Print the figures."""
    figures = asyncio.run(_measure())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    runs = {"calls": calls.CALLS, "edits": edits.EDITS, "idle_seconds": footprint.IDLE_S}
    forms = {name: figure.form() for name, figure in figures.items()}
    sys.stdout.write(json.dumps({"machine": machine, "runs": runs, "figures": forms}, indent=2))
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
