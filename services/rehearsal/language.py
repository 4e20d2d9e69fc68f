"""A story's YAML → a `Story`, strictly: what is not understood is refused with path and line.

`slicewire rehearse` and `demo` read files by it. Steps are read by `steps`, conditions by
`conditions`; this module reads the frame around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.reconfigurer.controller import values
from services.rehearsal import cast, steps
from services.rehearsal.spot import Spot
from services.rehearsal.story import DEFAULT_WITHIN_S, Node, Step, Story, serves_mps
from shared.domain.errors import Place, RefusedError
from shared.sharing import findings, tree
from shared.simulation.kube.apiserver import kinds

PARTS = ("nodes", "configMaps", "values", "steps")


def read(text: str, file: str, within_s: float = DEFAULT_WITHIN_S) -> Story:
    """Read a story; `within_s` is for expectations that do not say it.

    Raises:
        RefusedError: it is wrong; the problems say where and what to write.
    """
    found = findings.Findings()
    documents = tree.documents(text, found)
    if len(documents) != 1:
        found.stop(
            documents[1].place if documents else Place(1, 1),
            "",
            "a story is one YAML document with nodes and steps",
        )
    root = Spot.root(documents[0], found)
    parts = root.mapping(PARTS)
    nodes = _nodes(root, parts)
    given = _values(parts["values"]) if "values" in parts else {}
    mps = not found.problems and serves_mps(given)
    story = Story(
        file=file,
        nodes=nodes,
        config_maps=_config_maps(parts.get("configMaps")),
        values=given,
        steps=_steps(
            root,
            parts,
            steps.Reader({node.name: node for node in nodes}, mps=mps, within_s=within_s),
        ),
    )
    found.settle()
    return story


def _nodes(root: Spot, parts: Mapping[str, Spot]) -> tuple[Node, ...]:
    if "nodes" not in parts:
        root.refuse('the key "nodes" is missing: a story needs at least one node')
        return ()
    nodes: dict[str, Node] = {}
    if parts["nodes"].is_empty_list:
        parts["nodes"].refuse("a story needs at least one node")
    for spot in parts["nodes"].items():
        node = cast.node(spot)
        if node.name in nodes:
            spot.refuse(f"the node {node.name} stands twice", "give each node its own name")
        for other in nodes.values():
            for uuid in sorted(cast.uuids(node) & cast.uuids(other)):
                spot.refuse(f"{other.name} has a GPU {uuid} as well", "give each GPU its own")
        nodes[node.name] = node
    return tuple(nodes.values())


def _config_maps(spot: Spot | None) -> dict[str, dict[str, str]]:
    if spot is None:
        return {}
    found: dict[str, dict[str, str]] = {}
    for name, one in spot.mapping().items():
        found[name] = {key: each.written() for key, each in one.mapping().items()}
        body = {"metadata": {"name": name}, "data": found[name]}
        cast.refuse_invalid(one, kinds.CONFIG_MAP, body)
    return found


def _values(spot: Spot) -> dict[str, Any]:
    """Read chart values; what the chart or the controller would not take is refused."""
    spot.mapping()
    if not spot.is_map:
        return {}
    given: dict[str, Any] = spot.plain()
    try:
        values.read(given)
    except RefusedError as refused:
        for problem in refused.problems:
            spot.below(problem.path).refuse(problem.message, problem.suggestion)
    if isinstance(mps := given.get("mps"), Mapping) and "enabled" in mps:
        spot.below("mps.enabled").truth()
    return given


def _steps(root: Spot, parts: Mapping[str, Spot], reader: steps.Reader) -> tuple[Step, ...]:
    if "steps" not in parts:
        root.refuse('the key "steps" is missing: a story without steps shows nothing')
        return ()
    if parts["steps"].is_empty_list:
        parts["steps"].refuse("a story without steps shows nothing")
    found = tuple(step for spot in parts["steps"].items() if (step := reader.step(spot)))
    reader.end()
    return found


def explain(refused: RefusedError) -> list[dict[str, object]]:
    """The problems of a refused story in the form that `-o json` prints."""
    return [
        {
            "path": problem.path,
            "line": problem.line,
            "column": problem.column,
            "message": problem.message,
            "suggestion": problem.suggestion,
        }
        for problem in refused.problems
    ]
