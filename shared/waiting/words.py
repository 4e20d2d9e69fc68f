"""The sentences: what a tired person reads at night, so each says what happened and what to do."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator

from shared.contract.messages import Phase
from shared.contract.waiting import NodeFact, Request
from shared.domain import slots
from shared.domain.sharing import Strategy
from shared.domain.slots import SlotState
from shared.geometry.board import words as multiset
from shared.sharing import suggest
from shared.waiting.node import NodeView
from shared.waiting.reasons import Proposal

MOST_NAMED = 3
WAITS = frozenset({Phase.PREPARE, Phase.HOLDING})  # for what the controller does
MOST = "has at most"
SILENT = "its allocator has not registered it with the kubelet"


def some(names: Collection[str]) -> str:
    """Name a few, and say how many there are besides."""
    shown = ", ".join(heapq.nsmallest(MOST_NAMED, names))
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def quoted(said: str) -> str:
    """What somebody else said, as one part of a hint: parts are set apart by semicolons."""
    return said.replace("; ", ", ")


def counted(slots: int) -> str:
    """So many slots."""
    return f"{slots} slot" if slots == 1 else f"{slots} slots"


def asked(requests: Iterable[Request]) -> str:
    """What a pod asks for, as people write it."""
    return " and ".join(f"{each.count} {each.resource}" for each in requests) or "nothing"


def holders(views: Iterable[NodeView], resource: str) -> str:
    """Say which pods hold slots of a resource."""
    nobody: frozenset[str] = frozenset()
    pods = nobody.union(*(view.holders.get(resource, nobody) for view in views))
    if "" in pods:
        pods = pods - {""} | {"a pod not known yet"}
    return f"held by {some(pods)}" if pods else ""


def sick(view: NodeView, resource: str) -> str:
    """Say what is wrong with the devices that offer a resource."""
    devices = {share.uuid for share in view.offers(resource)}
    devices |= {slots.device_of(row.slot) for row in view.rows if row.resource == resource}
    said = _broken(view, {gpu.uuid for gpu in view.gpus}, devices, devices)
    return "; ".join(said) or "its devices are not confirmed yet"


def beneath(view: NodeView, held: Collection[str]) -> str:
    """Say what is wrong with the devices of slots that a pod has; empty where they are well."""
    rows = [row for row in (view.ledger.rows if view.ledger else ()) if row.slot in held]
    gone = {slots.device_of(row.slot) for row in rows if row.state is SlotState.LOST}
    said = [f"{device} is gone: delete the pod, what made it makes another" for device in gone]
    devices = {slots.device_of(row.slot) for row in rows}
    clients = {row.gpu_uuid for row in rows if row.strategy is Strategy.MPS}
    said = [*sorted(said), *_broken(view, {row.gpu_uuid for row in rows}, devices, clients)]
    return "; ".join(said)


def _broken(
    view: NodeView, gpus: Collection[str], devices: Collection[str], mps: Collection[str]
) -> Iterator[str]:
    """What is wrong with GPUs, with MIG devices on GPUs that are well, with the daemons of GPUs."""
    for gpu in view.gpus:
        if gpu.uuid in gpus and not gpu.health.usable:
            yield f"GPU {gpu.index} is {gpu.health.state}: {quoted(gpu.health.reason)}"
    for gpu in view.gpus:
        for each in gpu.mig_devices:
            if gpu.health.usable and not each.health.usable and each.uuid in devices:
                where = f"{gpu.index}:{each.index} {each.profile}"
                yield f"{where} is {each.health.state}: {quoted(each.health.reason)}"
    for gpu in view.gpus:
        for daemon in view.daemons:
            if daemon.gpu_uuid == gpu.uuid and gpu.uuid in mps and not daemon.ready:
                reason = quoted(daemon.reason)
                yield f"the MPS daemon of GPU {gpu.index} is {daemon.state}: {reason}"


def change(view: NodeView) -> str:
    """Say where the change of a node stands."""
    progress, intent = view.progress, view.intent
    generation = intent.stamp.generation if intent else ""
    if progress is None or not view.changing:
        return f"its services have yet to answer generation {generation}"
    layout = f"layout {intent.mig_config}" if intent and intent.mig_config else "its GPUs"
    if progress.stamp.generation != generation:
        return f"{layout}: its agent has yet to take it up"
    if progress.phase is Phase.SUCCESS:
        return f"{layout}: done, its kubelet has yet to report it"
    waits = intent.drain.sentence if intent and intent.drain and progress.phase in WAITS else ""
    return f"{layout}: {progress.phase}, {quoted(waits or progress.sentence)}"


def instead(served: Collection[str]) -> str:
    """Say what a node offers in place of what was asked for."""
    return f"offers {some(served)}" if served else "offers nothing"


def meant(resource: str, served: Iterable[str]) -> str:
    """Suggest the name that was meant, empty where none comes near."""
    names = set(served)
    twins = (f"{resource}.shared", resource.removesuffix(".shared"))
    twin = next((each for each in twins if each != resource and each in names), "")
    return f'did you mean "{twin}"?' if twin else suggest.did_you_mean(resource, names)


def closed(fact: NodeFact) -> str:
    """Say what keeps the scheduler off a node that has free slots."""
    return "cordoned, not by slicewire" if fact.schedulable is False else ""


def proposed(proposal: Proposal) -> str:
    """Say what a MIG layout would do, in the words of a plan."""
    parts = [
        f"{verb} {', '.join(places)}"
        for verb, places in (
            ("keeps", proposal.kept),
            ("destroys idle", proposal.destroyed),
            ("creates", proposal.created),
        )
        if places
    ]
    mode = ["turns MIG mode on"] if proposal.enables else []
    did = ", ".join([*mode, *parts, "evicts nobody"])
    layout = multiset(dict(proposal.layout))
    return f"MIG layout {layout} on {proposal.node} GPU {proposal.gpu} would give it: {did}"
