"""The nodes of a story: names, GPUs, labels, switches of the fake kubelet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services.rehearsal import spot as spots
from services.rehearsal.spot import Spot
from services.rehearsal.story import Node
from shared.simulation.gpu import boards, catalogue
from shared.simulation.kube.apiserver import kinds, names, validation
from shared.simulation.kube.kubelet.switches import Switches

GPU_KEYS = ("model", "uuid", "memoryMiB", "pciDevice", "migMode", "instances", "profileIds")
NODE_KEYS = ("name", "gpus", "labels", "kubelet")


def _period(spot: Spot) -> float:
    """Read a duration that is more than none."""
    seconds = spot.seconds()
    if spot.clean and seconds == 0:
        spot.refuse("found 0s, accepted is a duration that passes", "write 1s or 100ms")
    return seconds


SWITCHES: Mapping[str, tuple[str, Callable[[Spot], Any]]] = {
    "statusPeriod": ("status_period", _period),
    "unorderedIds": ("unordered_ids", Spot.truth),
    "initReuse": ("init_reuse", Spot.truth),
    "finishedInList": ("finished_in_list", Spot.truth),
    "oldEndpointDropsNew": ("old_endpoint_drops_new", Spot.truth),
    "lostGrants": ("lost_grants", Spot.truth),
    "keepsForced": ("keeps_forced", Spot.truth),
}
STALE = "staleScheduler"  # the scheduler's, though it stands with the kubelet's switches


def node(spot: Spot) -> Node:
    """Read one node."""
    parts = spot.mapping(NODE_KEYS)
    spots.required(spot, parts, "name")
    name = _name(parts["name"]) if "name" in parts else ""
    gpus = tuple(_gpu(each) for each in parts["gpus"].items()) if "gpus" in parts else ()
    kubelet = parts["kubelet"].mapping((*SWITCHES, STALE)) if "kubelet" in parts else {}
    if spot.clean:
        _check_gpus(parts.get("gpus", spot), name, gpus)
    worn = labels(parts.get("labels"))
    if name:
        body = {"metadata": {"name": name, "labels": worn}}
        refuse_invalid(parts.get("labels", spot), kinds.NODE, body)
    return Node(
        name=name,
        gpus=gpus,
        labels=worn,
        kubelet=_kubelet(kubelet),
        stale_scheduler=STALE in kubelet and kubelet[STALE].truth(),
        place=spot.place,
    )


def labels(spot: Spot | None) -> dict[str, str]:
    """Read labels that are to be set."""
    return {key: each.word() for key, each in spot.mapping().items()} if spot else {}


def refuse_invalid(spot: Spot, kind: kinds.Kind, body: Mapping[str, Any]) -> None:
    """Refuse what the API server would, which is asked before anything is started."""
    if spot.clean:
        for cause in validation.causes(kind, dict(body)):
            spot.refuse(f"{cause.field}: {cause.message}")


def _name(spot: Spot) -> str:
    name = spot.text("a node's name")
    if name and names.fault_of_name(name):
        spot.refuse(
            "a node's name has lower-case letters, digits, - and . only", "write one like gpu-a.lan"
        )
    return name


def _kubelet(parts: Mapping[str, Spot]) -> Switches:
    values = {name: read(parts[key]) for key, (name, read) in SWITCHES.items() if key in parts}
    return Switches(**values)


def _gpu(spot: Spot) -> str | Mapping[str, Any]:
    """Read one GPU: a name of the catalogue, or a map of what is special about it."""
    if not spot.is_map:
        return _model(spot)
    parts = spot.mapping(GPU_KEYS)
    if spots.required(spot, parts, "model"):
        _model(parts["model"])
    return {key: _GPU_SHAPES.get(key, Spot.plain)(each) for key, each in parts.items()}


def _model(spot: Spot) -> str:
    return spot.choice(catalogue.models(), "GPU model", catalogue.did_you_mean)


def _uuid(spot: Spot) -> str:
    text = spot.text()
    if text and not text.startswith("GPU-"):
        spot.refuse(f'found "{text}", accepted is the UUID of a GPU', f"write GPU-{text}")
    return text


def uuids(node: Node) -> frozenset[str]:
    """The UUIDs that a story itself gives to GPUs of a node."""
    given = (gpu.get("uuid") for gpu in node.gpus if isinstance(gpu, Mapping))
    return frozenset(uuid for uuid in given if uuid)


def _instances(spot: Spot) -> list[dict[str, str | int]]:
    return [_instance(each) for each in spot.items()]


def _instance(spot: Spot) -> dict[str, str | int]:
    parts = spot.mapping(("profile", "start"))
    if not spots.required(spot, parts, "profile", "start"):
        return {}
    return {"profile": parts["profile"].text(), "start": parts["start"].whole(least=0)}


# Of the other keys any spelling will do that the simulation takes.
_GPU_SHAPES: Mapping[str, Callable[[Spot], Any]] = {
    "uuid": _uuid,
    "memoryMiB": lambda spot: spot.whole(least=1),
    "instances": _instances,
    "profileIds": lambda spot: {name: each.whole(least=0) for name, each in spot.mapping().items()},
}


def _check_gpus(spot: Spot, name: str, gpus: Sequence[str | Mapping[str, Any]]) -> None:
    """Refuse what no hardware could be: the simulation knows, and says it in its own words."""
    try:
        boards.build(name, gpus)
    except boards.SpecError as error:
        spot.refuse(str(error))
