"""Values → what helm makes of the chart, as objects; or its refusal, as text."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.chart.test_values import CHART
from tests.kube import build

Json = dict[str, Any]
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet", "Job")
NAMESPACE = "gpu"
OLDEST, NEWEST = "1.30", "1.37"  # of Kubernetes


class RefusedError(Exception):
    """Helm did not render; the text is its own."""


def rendered(
    values: Mapping[str, Any] | None = None, *arguments: str, release: str = "slicewire"
) -> list[Json]:
    """Render a release with these values; the other arguments are helm's.

    Raises:
        RefusedError: with what helm said.
    """
    return [json.loads(each) for each in _rendered(arguments, release, json.dumps(values or {}))]


@functools.cache
def _rendered(arguments: tuple[str, ...], release: str, values: str) -> tuple[str, ...]:
    documents = [each for each in yaml.safe_load_all(_text(arguments, release, values)) if each]
    return tuple(json.dumps(each) for each in documents)


def text(values: Mapping[str, Any], release: str = "slicewire") -> str:
    """What helm prints of a release with these values, not yet read.

    Raises:
        RefusedError: with what helm said.
    """
    return _text((), release, json.dumps(values))


def _text(arguments: tuple[str, ...], release: str, values: str) -> str:
    command = ("template", release, str(CHART), "--namespace", NAMESPACE, "--values", "-")
    return run(*command, "--kube-version", NEWEST, *arguments, stdin=values)


def run(*arguments: str, stdin: str = "") -> str:
    """Run helm and return what it prints.

    Raises:
        RefusedError: it failed.
    """
    ended = subprocess.run(
        [str(build.program("helm")), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RefusedError(ended.stderr)
    return ended.stdout


def of_kind(objects: list[Json], *kinds: str) -> dict[str, Json]:
    """Objects of these kinds by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] in kinds}


def pods(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """Name and pod template of each workload."""
    for name, each in of_kind(objects, *WORKLOADS).items():
        yield name, each["spec"]["template"]


def environment(container: Json) -> dict[str, str]:
    """Variables that have a value of their own."""
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}
