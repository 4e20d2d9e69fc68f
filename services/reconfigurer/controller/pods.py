"""A Pod object that does not run → the little that `shared.waiting` needs of it. Pure."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.reconfigurer.controller import selection
from shared.contract import waiting
from shared.contract.waiting import Request, WaitingPod

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod with what it says of the nodes that it may go to; `pod.place` is not known yet."""

    pod: WaitingPod
    selection: str

    @property
    def of_devices(self) -> bool:
        """Whether it asks for something that a device plugin serves."""
        return bool(self.pod.requests)


def of(found: Object, seen_ns: int) -> Seen:
    """Read a Pod object; one that has failed did so at `seen_ns` unless it says when."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    status = found.get("status") or {}
    failed = status.get("phase") == waiting.FAILED
    pod = WaitingPod(
        pod=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        created_ns=_ns(metadata.get("creationTimestamp")),
        phase=status.get("phase", ""),
        requests=tuple(requests(spec)),
        place=0,
        node=spec.get("nodeName") or "",
        scheduler=_cut(_scheduler(status)),
        reason=status.get("reason") or ("" if failed else _waits_for(status)),
        message=_cut(status.get("message") or ""),
        failed_ns=(_last_said(metadata) or seen_ns) if failed else 0,
    )
    return Seen(pod, selection.of(spec))


def requests(spec: Object) -> Iterator[Request]:
    """Say what a pod needs of each extended resource, as the scheduler counts.

    Containers add up, and with them the init containers that go on running (sidecars); another
    init container ends before the next one starts, so it needs room only beside the sidecars that
    were started before it.
    """
    total: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        asked = _limits(container)
        largest |= asked
        if container.get("restartPolicy") == "Always":
            total += asked
            peak |= total
        else:
            peak |= total + asked
    for container in spec.get("containers") or ():
        total += _limits(container)
        largest |= _limits(container)
    for name, count in sorted((peak | total).items()):
        yield Request(resource=name, count=count, largest=largest[name])


def _limits(container: Object) -> Counter[str]:
    """Extended resources of a container: the limit is the request. Their quantities are whole."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return Counter(
        {
            name: int(amount)
            for name, amount in limits.items()
            if "/" in name and str(amount).isdecimal() and int(amount)
        }
    )


def _scheduler(status: Object) -> str:
    """What the scheduler says, while it has found no node."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _waits_for(status: Object) -> str:
    """What the first container that does not run waits for: an image, a volume."""
    for container in status.get("containerStatuses") or ():
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("reason"):
            return str(waits["reason"])
    return ""


def _last_said(metadata: Object) -> int:
    """When the pod's status was last written: for a pod that has failed, when it did."""
    entries = metadata.get("managedFields") or ()
    times = [_ns(each.get("time")) for each in entries if each.get("subresource") == "status"]
    return max(times, default=0)


def _ns(stamp: str | None) -> int:
    if not stamp:
        return 0
    try:
        moment = datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return 0
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000


def _cut(text: str) -> str:
    limit = waiting.MOST_TEXT
    return text if len(text) <= limit else text[: limit - 2] + " …"
