"""`slicewire bus keys`: the keys of one installation, as a Secret; printed, or made in the cluster.

The chart's install Job runs it with `--create`. A Secret that stands already is left as it is:
other keys would end every login.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from services.reconfigurer.controller import kube
from shared.bus.auth import installation
from shared.contract import names

PROGRAM = "slicewire bus keys"


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = _parser().parse_args(argv)
    secret = manifest(arguments.namespace, arguments.name, installation.make())
    if not arguments.create:
        print(json.dumps(secret, indent=2))
        return 0
    if reason := kube.missing(arguments.api_url, arguments.kube_config, os.environ):
        sys.stderr.write(f"{PROGRAM}: {reason}\n")
        return 2
    try:
        print(asyncio.run(create(arguments, secret)))
    except kube.KubeError as error:
        sys.stderr.write(f"{PROGRAM}: the Secret was not made: {error}\n")
        return 1
    return 0


def manifest(namespace: str, name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """The Secret as Kubernetes takes it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": names.COMPONENT},
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(files),
    }


async def create(arguments: argparse.Namespace, secret: dict[str, Any]) -> str:
    """Make the Secret unless it stands; return what was done.

    Raises:
        KubeError: refused, or the API server was not reached.
    """
    where = f"Secret {arguments.namespace}/{arguments.name}"
    path = f"/api/v1/namespaces/{arguments.namespace}/secrets"
    async with kube.connect(arguments.api_url, arguments.kube_config) as api:
        try:
            await api.call("POST", path, body=secret)
        except kube.KubeError as error:
            if not error.conflict:
                raise
            return f"{where} stands already and stays as it is"
    return f"{where} was made"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Make the keys of one installation, as a Secret."
    )
    parser.add_argument("--namespace", default="slicewire", help="[%(default)s]")
    parser.add_argument("--name", default="slicewire-bus", help="name of the Secret [%(default)s]")
    parser.add_argument(
        "--create",
        action="store_true",
        help="make it in the cluster instead of printing it; one that stands is left alone",
    )
    parser.add_argument(
        "--api-url", default="", help="plain address of an API server without authentication"
    )
    parser.add_argument(
        "--kube-config", default="", help="kubeconfig file; without it the pod's own account"
    )
    return parser
