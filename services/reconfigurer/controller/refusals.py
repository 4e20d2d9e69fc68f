"""What ledgers have had free, and pods that were refused all the same → whose tables are stale.

`watching` feeds it with ledgers and refused pods. That a slot is free after a refusal says nothing:
it may have been freed meanwhile, and the ledger may be later than the kubelet. So a refusal counts
only where enough was free from well before until well after it. No I/O in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.contract.facts import Fact
from shared.contract.messages import Ledger
from shared.contract.waiting import StaleTable, WaitingPod
from shared.waiting import stale

BEFORE_NS = 30 * 10**9  # a pod that ends may be a while in the kubelet's table, by right
AFTER_NS = 3 * 10**9  # a ledger may come later than the refusal that followed its grant
FRESH_NS = 1800 * 10**9  # an older refusal says nothing of how the kubelet is now


class Vacancies:
    """How many slots of each node and resource were free, and since when; times in ns."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, list[tuple[int, int]]]] = {}

    def seen(self, node: str, ledger: Ledger, now_ns: int) -> None:
        """Take a node's newest ledger; what is older than anybody asks about is forgotten."""
        resources = self._known.setdefault(node, {})
        free = dict.fromkeys(resources, 0)
        for each in ledger.counts:
            free[each.resource] = free.get(each.resource, 0) + each.counts.free
        for resource, count in free.items():
            steps = resources.setdefault(resource, [])
            if not steps or steps[-1][1] != count:
                steps.append((now_ns, count))
            while len(steps) > 1 and steps[1][0] < now_ns - 2 * BEFORE_NS:
                del steps[0]

    def forget(self, node: str) -> None:
        """Let go of a node."""
        self._known.pop(node, None)

    def now(self, node: str, resource: str) -> int:
        """How many are free now."""
        steps = self._steps(node, resource)
        return steps[-1][1] if steps else 0

    def least(self, node: str, resource: str, since_ns: int) -> int | None:
        """The fewest that were free at any time since; None where that is not known."""
        steps = self._steps(node, resource)
        if not steps or steps[0][0] > since_ns:
            return None
        before = [free for at_ns, free in steps if at_ns <= since_ns]
        return min([before[-1], *(free for at_ns, free in steps if at_ns > since_ns)])

    def _steps(self, node: str, resource: str) -> list[tuple[int, int]]:
        return self._known.get(node, {}).get(resource, [])


class Refusals:
    """One leader's: refused pods that it has seen fail and has yet to weigh."""

    def __init__(self) -> None:
        self.vacancies = Vacancies()
        self._unweighed: dict[str, tuple[WaitingPod, int]] = {}  # by UID, with when it was seen

    def seen(self, pod: WaitingPod, now_ns: int) -> None:
        """Take a pod that has failed just now; only what is short of devices is weighed."""
        if stale.shortage(pod.message) is not None:
            self._unweighed[pod.uid] = (pod, now_ns)

    def weighed(self, now_ns: int) -> dict[str, int]:
        """What was free for the pods whose time has come, by UID; each is said once."""
        due = {
            uid: (pod, seen_ns)
            for uid, (pod, seen_ns) in self._unweighed.items()
            if now_ns - seen_ns >= AFTER_NS
        }
        found: dict[str, int] = {}
        for uid, (pod, seen_ns) in due.items():
            del self._unweighed[uid]
            short = stale.shortage(pod.message)
            resource = short.resource if short else ""
            free = self.vacancies.least(pod.node, resource, seen_ns - BEFORE_NS)
            if free is not None:
                found[uid] = free
        return found


def suspects(pods: Iterable[WaitingPod], now_ns: int) -> list[WaitingPod]:
    """Those whose refusal shows a stale table, and shows it still."""
    return [
        pod
        for pod in pods
        if pod.failed and now_ns - pod.failed_ns < FRESH_NS and stale.of_pod(pod, ())
    ]


def tables(
    pods: Iterable[WaitingPod], facts: list[Fact], vacancies: Vacancies
) -> Iterator[StaleTable]:
    """Say whose tables are stale now, by the newest refusal of each node and resource.

    What has been handed out since was not held by anybody unknown.
    """
    newest: dict[tuple[str, str], StaleTable] = {}
    for pod in sorted(pods, key=lambda each: each.failed_ns):
        if found := stale.of_pod(pod, facts):
            newest[found.node, found.resource] = found
    for found in newest.values():
        if not found.over and vacancies.now(found.node, found.resource) >= found.devices:
            yield found
