"""Whether a story can begin on a real cluster: its nodes, GPUs and values are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from services.reconfigurer.controller import values
from services.rehearsal.real import parts as parts_
from services.rehearsal.real.parts import Parts
from services.rehearsal.real.seen import Seen
from services.rehearsal.stage import StageError
from services.rehearsal.story import Node, Story
from shared.simulation.gpu import catalogue
from shared.simulation.kube.api_client import ApiClient


async def check(story: Story, api: ApiClient, seen: Seen, parts: Parts) -> None:
    """Look for everything that a story counts on.

    Raises:
        StageError: something is missing; the text has a sentence for each.
    """
    missing = [node.name for node in story.nodes if node.name not in seen.nodes]
    if missing:
        there = ", ".join(sorted(seen.nodes))
        raise StageError(f"there is no node {', '.join(missing)}: the cluster has {there}")
    said = {each["name"]: each for each in (await parts.ask("status"))["nodes"]}
    sentences = [
        sentence for node in story.nodes for sentence in wrong_gpus(node, said.get(node.name, {}))
    ]
    path = f"/apis/apps/v1/namespaces/{parts.namespace}/deployments"
    deployments = (await api.get(path))["items"]
    for deployment in deployments:
        labels = deployment["metadata"].get("labels") or {}
        if labels.get(parts_.COMPONENT) == "controller" and labels.get(parts_.NAME) == parts_.CHART:
            sentences += wrong_values(story, parts_.environment(deployment))
    if sentences:
        raise StageError("; ".join(sentences))


def wrong_gpus(node: Node, said: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a node's GPUs, by what `status` says of it."""
    wanted = [gpu if isinstance(gpu, str) else str(gpu["model"]) for gpu in node.gpus]
    found = [_model(gpu["model"]) for gpu in said.get("gpus", ())]
    if wanted != found:
        spelt = "\\,".join(wanted)  # for helm, a comma ends a value
        hint = f"--set 'simulation.gpus={spelt}' at the chart's installation makes such ones"
        has = ", ".join(found) or "none"
        yield f"{node.name} needs the GPUs {', '.join(wanted)} and has {has} ({hint})"


def wrong_values(story: Story, has: Mapping[str, str]) -> Iterator[str]:
    """Which of a story's values the release was not installed with."""
    for name, text in values.variables(story.values).items():
        if has.get(name) != text:
            yield (
                f"the release runs with {name}={has.get(name, '')!r}, the story needs {text!r}:"
                " install the chart with the story's values"
            )


def _model(product: str) -> str:
    try:
        return catalogue.model_of_product(product).name
    except catalogue.UnknownModelError:
        return product
