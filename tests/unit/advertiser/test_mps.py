"""What is published of MPS daemons: how they are, why not, and that nobody stands for them."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

import pytest

from services.advertiser import inventory, mps, mps_report
from shared.contract import codec
from shared.contract import mps as mps_files
from shared.contract.facts import FactKind
from shared.contract.messages import Inventory
from shared.contract.mps import DaemonState, MpsDaemon, MpsState
from shared.domain.gpu import MigMode
from shared.domain.sharing import SharedResource, SharingConfig, Strategy
from shared.runtime import files, locks
from tests.support.hardware import gpu, hardware, intent, stamp, time_sliced

NODE = hardware(gpu(0), gpu(1))
MPS = SharingConfig(
    strategy=Strategy.MPS,
    resources=(SharedResource(name="nvidia.com/gpu", replicas=4, devices=("0",)),),
)
READY = MpsDaemon(gpu_uuid="GPU-0", state=DaemonState.READY, pid=7, exclusive=True, since_ns=5)
DOWN = MpsDaemon(gpu_uuid="GPU-0", state=DaemonState.DOWN, reason="it ended", since_ns=9)


def told(*daemons: MpsDaemon, serving: bool = True) -> mps.Report:
    return mps.Report(MpsState(daemons=daemons), serving)


def after(
    report: mps.Report, before: Inventory | None = None, wanted: SharingConfig = MPS, now: int = 7
) -> Inventory:
    state = inventory.State(published=before)
    content = inventory.after_look(
        state, NODE, intent(wanted), stamp(), now, report=report, recut=()
    )
    assert content is not None
    return content


def test_a_gpu_shared_by_mps_has_a_daemon_and_no_other_has() -> None:
    """The service's word goes on as it is."""
    assert after(told(READY)).mps == (READY,)
    assert after(mps.NOTHING, wanted=time_sliced(4)).mps == ()


def test_a_daemon_that_changes_is_published_though_nothing_else_has() -> None:
    """So are GPUs that are to be cut, before anybody lets go of anything."""
    state = inventory.State(published=after(told(READY)))
    for report, recut, says in (
        (told(READY), (), False),
        (told(DOWN), (), True),
        (told(READY), ("GPU-0",), True),
    ):
        content = inventory.after_look(
            state, NODE, intent(MPS), stamp(), 8, report=report, recut=recut
        )
        assert (content is not None) is says


def test_nobody_serves_mps() -> None:
    """What a service that was killed has left says nothing of its daemon, but all of the GPU."""
    content = after(told(READY, serving=False))
    (daemon,) = content.mps
    assert (daemon.state, daemon.pid, daemon.exclusive) == (DaemonState.DOWN, 0, True)
    assert "mps.enabled" in daemon.reason
    assert daemon.since_ns == 7
    state = inventory.State(published=content)
    again = inventory.after_look(
        state, NODE, intent(MPS), stamp(), 8, report=told(READY, serving=False)
    )
    assert again is None


def test_a_service_that_has_not_begun_with_the_gpu_is_waited_for() -> None:
    """Between the new text and the service's first word nothing is down."""
    (daemon,) = after(told()).mps
    assert (daemon.state, daemon.reason) == (DaemonState.STARTING, mps.NOT_YET)


def test_a_daemon_that_only_finishes_stays_known() -> None:
    """Its GPU may still be for its clients alone."""
    before = after(told(READY))
    assert after(told(READY), before, time_sliced(4)).mps == (READY,)
    assert after(told(), before, time_sliced(4)).mps == ()


def test_facts_of_a_daemon_that_dies_and_comes_back() -> None:
    """One when it is down, one when it is up again; its first start is none."""
    starting, ready, down = after(told()), after(told(READY)), after(told(DOWN))
    assert not list(mps.facts(None, ready, 1))
    assert not list(mps.facts(starting, ready, 1))
    (fact,) = mps.facts(ready, down, 1)
    assert (fact.kind, fact.gpu_uuid) == (FactKind.HEALTH, "GPU-0")
    assert fact.sentence == "the MPS daemon of GPU-0 is down: it ended"
    assert not list(mps.facts(down, down, 1))
    (fact,) = mps.facts(down, ready, 1)
    assert fact.sentence == "the MPS daemon of GPU-0 is ready"


@pytest.mark.parametrize(
    ("report", "gone"),
    [
        pytest.param(told(READY), False, id="a-daemon-holds-it"),
        pytest.param(told(dataclasses.replace(READY, gpu_uuid="GPU-1")), True, id="another-gpu's"),
        pytest.param(told(READY, serving=False), True, id="the-service-has-ended"),
    ],
)
def test_a_driver_is_let_go_when_no_daemon_holds_the_gpu(report: mps.Report, gone: bool) -> None:
    """A GPU is reset for a new MIG mode only without its MPS server."""
    assert mps.gone(report, ["GPU-0"]) is gone


def test_a_gpu_that_was_cut_since_is_shared_by_mps_no_more() -> None:
    """The text does not fit it now, so the former shares go on, but not these."""
    before = after(told(READY))
    cut = dataclasses.replace(gpu(0), mig_mode=MigMode(current=True, pending=True))
    content = inventory.after_look(
        inventory.State(published=before), hardware(cut, gpu(1)), intent(MPS), stamp(), 8
    )
    assert content is not None
    assert [share.uuid for share in content.shares] == ["GPU-1"]
    assert "MIG mode" in content.problems[0].message


async def test_the_report_of_a_living_and_of_a_killed_service(tmp_path: pathlib.Path) -> None:
    """The lock says who lives; the file says what was last known."""
    reader = mps_report.Reader(tmp_path)
    assert await reader.read() == mps.NOTHING
    store = files.Store(tmp_path / mps_files.STATE_FILE, kind=mps_files.STATE_KIND)
    state = MpsState(daemons=(READY,))
    await store.write(await asyncio.to_thread(codec.encode, state), "boot-1")
    async with locks.ServingLock(tmp_path / mps_files.LOCK_FILE):
        assert await reader.read() == mps.Report(state, serving=True)
    assert await reader.read() == mps.Report(state, serving=False)
    await store.write(b"{", "boot-1")
    assert await reader.read() == mps.NOTHING


async def test_looking_at_a_lock_takes_it_from_nobody(tmp_path: pathlib.Path) -> None:
    """Whoever waits for it has it, however often somebody looks."""
    path = tmp_path / "x.lock"
    assert not await asyncio.to_thread(locks.held, path)
    async with locks.ServingLock(path) as lock:
        assert await asyncio.to_thread(locks.held, path)
        assert lock.held
