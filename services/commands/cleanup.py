"""`slicewire cleanup`: take labels, annotations, conditions and cordons of ours off all nodes.

The chart's uninstall Job runs it once the controller is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from services.reconfigurer.controller import kube, leaving

PROGRAM = "slicewire cleanup"


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Take what slicewire has written off all nodes."
    )
    parser.add_argument(
        "--api-url", default="", help="plain address of an API server without authentication"
    )
    parser.add_argument(
        "--kube-config", default="", help="kubeconfig file; without it the pod's own account"
    )
    arguments = parser.parse_args(argv)
    if reason := kube.missing(arguments.api_url, arguments.kube_config, os.environ):
        sys.stderr.write(f"{PROGRAM}: {reason}\n")
        return 2
    try:
        cleaned = asyncio.run(_clean(arguments.api_url, arguments.kube_config))
    except kube.KubeError as error:
        sys.stderr.write(f"{PROGRAM}: not all nodes are clean: {error}; run it again\n")
        return 1
    print(f"cleaned: {', '.join(cleaned) or 'nothing of slicewire was on any node'}")
    return 0


async def _clean(api_url: str, kube_config: str) -> list[str]:
    async with kube.connect(api_url, kube_config) as api:
        return await leaving.clean(api)
