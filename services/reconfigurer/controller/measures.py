"""What the leader knows of the nodes → samples. Pure; `term` shows it to the meters."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator

from services.reconfigurer.controller import fleet
from services.reconfigurer.controller.outcome import State
from shared.contract import table
from shared.contract.messages import Intent, Inventory
from shared.contract.waiting import StaleTable, WaitingPod
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample
from shared.waiting.reasons import Reason, Verdict

UNDER_WAY = (State.PENDING, State.REBOOTING)


class Standing(enum.StrEnum):
    """How a node is counted, by the first that is true."""

    FAILED = "failed"  # the wanted layout could not be made
    SILENT = "silent"  # its advertiser has told nothing yet, or nothing for minutes
    CHANGING = "changing"
    READY = "ready"


def samples(view: fleet.Fleet, now_ns: int) -> Iterator[Sample]:
    """Count nodes, and name those whose text is refused.

    A reader's thread calls it while the loop works: names are copied in one go, values are frozen.
    """
    intents = {name: wanted for name, wanted in dict(view.intents).items() if name in view.nodes}
    tally = Counter(standing(view, name, wanted, now_ns) for name, wanted in intents.items())
    for each in Standing:
        yield catalogue.NODES.at(tally[each], state=each)
    for name, wanted in intents.items():
        if refused(wanted, view.inventories.get(name)):
            yield catalogue.CONFIG_REFUSED.at(1, node=name)


def waiting(found: Iterable[tuple[WaitingPod, Verdict]]) -> Iterator[Sample]:
    """Count pods that ask for what is ours, by reason, and the slots that they wait for."""
    reasons: Counter[Reason] = Counter()
    slots: Counter[str] = Counter()
    for pod, verdict in found:
        reasons[verdict.reason] += 1
        slots.update({each.resource: each.count for each in pod.requests})
    for reason in Reason:
        if reason is not Reason.RUNNING:
            yield catalogue.WAITING_PODS.at(reasons[reason], reason=reason)
    for resource, count in slots.items():
        yield catalogue.WAITING_SLOTS.at(count, resource=resource)


def stale(found: Iterable[StaleTable]) -> Iterator[Sample]:
    """Count devices that kubelets believe to be held, and that nobody known holds."""
    for each in found:
        yield catalogue.KUBELET_STALE_DEVICES.at(
            each.devices, node=each.node, resource=each.resource
        )


def standing(view: fleet.Fleet, name: str, wanted: Intent, now_ns: int) -> Standing:
    """Say how one node is counted."""
    found, inventory = view.outcomes.get(name), view.inventories.get(name)
    if found and found.state is State.FAILED:
        return Standing.FAILED
    if inventory is None or now_ns - view.heard.get(name, now_ns) > table.SILENT_S * 1e9:
        return Standing.SILENT
    answered = inventory.stamp.generation == wanted.stamp.generation
    if not answered or (found and found.state in UNDER_WAY):
        return Standing.CHANGING
    return Standing.READY


def refused(wanted: Intent, inventory: Inventory | None) -> bool:
    """Whether the sharing text that is wanted does not serve: by itself, or by this hardware."""
    if wanted.problems or inventory is None:
        return bool(wanted.problems)
    answered = inventory.stamp.generation == wanted.stamp.generation
    return answered and bool(inventory.problems)
