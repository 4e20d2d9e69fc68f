"""What the MPS service reports + what is to be shared by MPS → the daemons of an inventory. Pure.

`loop` reads the report (`mps_report`) before each look that it may matter to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Intent, Inventory, Stamp
from shared.contract.mps import DaemonState, MpsDaemon, MpsState
from shared.domain.sharing import Share, Strategy

NO_SERVICE = "no MPS service runs on this node (mps.enabled in the chart's values starts it)"
NOT_YET = "the MPS service has not taken the GPU up yet"


@dataclass(frozen=True, slots=True)
class Report:
    """What the service wrote last, and whether it is there."""

    state: MpsState = field(default_factory=MpsState)
    serving: bool = False


NOTHING = Report()


def matters(published: Inventory | None, intent: Intent | None) -> bool:
    """Whether anything on the node is or was shared by MPS, or is to be."""
    wanted = intent is not None and intent.sharing.strategy is Strategy.MPS
    return wanted or (published is not None and bool(published.mps))


def daemons(
    shares: Iterable[Share], report: Report, before: Collection[MpsDaemon], now: int
) -> tuple[MpsDaemon, ...]:
    """One daemon for each GPU that is to be shared by MPS, then those that only finish."""
    wanted = [share.gpu_uuid for share in shares if share.strategy is Strategy.MPS]
    told = {daemon.gpu_uuid: daemon for daemon in report.state.daemons}
    due = (_due(uuid, told.get(uuid), serving=report.serving) for uuid in wanted)
    ending = (
        daemon
        for daemon in report.state.daemons
        if daemon.gpu_uuid not in wanted and (report.serving or daemon.exclusive)
    )
    return tuple(_dated(daemon, before, now) for daemon in (*due, *ending))


def gone(report: Report, gpus: Collection[str]) -> bool:
    """Whether no daemon holds one of these GPUs; a service that has ended has ended its daemons."""
    served = {daemon.gpu_uuid for daemon in report.state.daemons}
    return not report.serving or served.isdisjoint(gpus)


def changes(before: Inventory | None, after: Inventory) -> list[MpsDaemon]:
    """Each daemon that went down, and each that is up again."""
    former = {daemon.gpu_uuid: daemon.state for daemon in before.mps} if before else {}
    down = DaemonState.DOWN
    return [
        daemon
        for daemon in after.mps
        if (was := former.get(daemon.gpu_uuid)) is not daemon.state
        and (daemon.state is down or (daemon.ready and was is down))
    ]


def facts(before: Inventory | None, after: Inventory, now: int) -> tuple[Fact, ...]:
    """A fact for each of the changes."""
    return tuple(_fact(after.stamp, daemon, now) for daemon in changes(before, after))


def _due(uuid: str, told: MpsDaemon | None, *, serving: bool) -> MpsDaemon:
    if not serving:
        known = told or MpsDaemon(gpu_uuid=uuid, state=DaemonState.DOWN)
        return dataclasses.replace(
            known, state=DaemonState.DOWN, reason=NO_SERVICE, pid=0, since_ns=0
        )
    return told or MpsDaemon(gpu_uuid=uuid, state=DaemonState.STARTING, reason=NOT_YET)


def _dated(daemon: MpsDaemon, before: Collection[MpsDaemon], now: int) -> MpsDaemon:
    """Say since when it is so, where the service does not."""
    if daemon.since_ns:
        return daemon
    same = (
        each.since_ns
        for each in before
        if (each.gpu_uuid, each.state) == (daemon.gpu_uuid, daemon.state)
    )
    return dataclasses.replace(daemon, since_ns=next(same, now))


def _fact(stamp: Stamp, daemon: MpsDaemon, now: int) -> Fact:
    why = f": {daemon.reason}" if daemon.reason else ""
    return Fact(
        stamp=stamp,
        id=f"mps/{daemon.gpu_uuid}/{daemon.state}/{daemon.since_ns or now}",
        kind=FactKind.HEALTH,
        at_ns=now,
        sentence=f"the MPS daemon of {daemon.gpu_uuid} is {daemon.state}{why}",
        gpu_uuid=daemon.gpu_uuid,
    )
