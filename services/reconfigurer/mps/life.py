"""The life of one daemon: what was known of it, what happened → what is known of it. Pure.

`keeping` tells the result, and decides by nothing else how the daemon is.
"""

from __future__ import annotations

import dataclasses

from services.reconfigurer.mps.wanted import Aim
from shared.contract.mps import DaemonState, MpsDaemon

FIRST_START = "it is started for the first time"
BEGUN_ANEW = "the MPS service has begun anew, and starts it again"
MOST_SILENCES = 3  # a daemon that leaves so many questions in a row unanswered is ended


def unborn(aim: Aim, now: int) -> MpsDaemon:
    """Nothing has been tried yet."""
    return MpsDaemon(
        gpu_uuid=aim.gpu.uuid,
        state=DaemonState.STARTING,
        reason=FIRST_START,
        replicas=aim.replicas,
        since_ns=now,
    )


def left_behind(former: MpsDaemon) -> MpsDaemon:
    """A process before this one kept it, and that has ended: nobody is to believe its word.

    Since when it is down the advertiser knows better, who has seen that nobody serves.
    """
    return dataclasses.replace(_down(former, BEGUN_ANEW, now=0), pid=0)


def begun(daemon: MpsDaemon, pid: int) -> MpsDaemon:
    """Its program runs; whether it answers is not known, so it is as it was before."""
    return dataclasses.replace(daemon, pid=pid)


def answering(daemon: MpsDaemon, aim: Aim, now: int, *, exclusive: bool) -> MpsDaemon:
    """It answers, and has its limits."""
    same = daemon.ready
    return dataclasses.replace(
        daemon,
        state=DaemonState.READY,
        reason="",
        replicas=aim.replicas,
        exclusive=exclusive,
        since_ns=daemon.since_ns if same else now,
    )


def silent(daemon: MpsDaemon, why: str, now: int) -> MpsDaemon:
    """It runs and does not answer."""
    return _down(daemon, why, now)


def ended(daemon: MpsDaemon, why: str, now: int) -> MpsDaemon:
    """It does not run."""
    return _down(dataclasses.replace(daemon, pid=0), why, now)


def _down(daemon: MpsDaemon, why: str, now: int) -> MpsDaemon:
    same = daemon.state is DaemonState.DOWN
    return dataclasses.replace(
        daemon, state=DaemonState.DOWN, reason=why, since_ns=daemon.since_ns if same else now
    )
