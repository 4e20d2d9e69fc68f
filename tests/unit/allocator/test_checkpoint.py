"""What outlives the process: every grant that was answered, and what another boot is worth."""

from __future__ import annotations

import pathlib

from services.allocator import checkpoint, ledger
from services.allocator.ledger import State
from shared.contract.messages import Hold
from tests.support import hardware, slots
from tests.support.running import running
from tests.support.slots import GPU, SECOND, listing


def full_state() -> State:
    """Holders, a grant, an ended holder, a hold and an inventory."""
    state = slots.state_of(slots.inventory(slots.time_sliced(4), slots.named(0, "a")))
    state = ledger.listed(state, listing(("p", ["GPU-a::0"]), ("q", ["GPU-a::1"])), SECOND).state
    state = ledger.allocated(state, GPU, ["GPU-a::1"], 2 * SECOND, "trace").state
    return ledger.withheld(state, Hold(stamp=hardware.stamp(), slots=("GPU-a::3",))).state


def test_a_state_comes_back_as_it_was() -> None:
    """All but the last List's time, which is another process's."""
    state = full_state()
    back = checkpoint.recall(checkpoint.remember(state), same_boot=True, now_ns=9 * SECOND)
    assert back == ledger.restored(state, 9 * SECOND)
    assert back.confirmed
    assert back.hold == state.hold


def test_after_another_boot_hardware_is_not_confirmed_and_no_hold_stands() -> None:
    """Holders are kept until List says otherwise; the agent holds anew if it has to."""
    back = checkpoint.recall(checkpoint.remember(full_state()), same_boot=False, now_ns=SECOND)
    assert not back.confirmed
    assert back.hold is None
    assert len(back.grants) == 2


async def test_what_was_saved_is_read_by_the_next_process(tmp_path: pathlib.Path) -> None:
    """`saved` returns when the file has it; a second process on the same boot goes on with it."""
    path = tmp_path / "ledger.json"
    first = checkpoint.Checkpoint(path, "boot-1")
    async with running(first.run()):
        first.put(full_state())
        assert await first.saved()
    for boot, confirmed in (("boot-1", True), ("boot-2", False), ("unknown", False)):
        state = await checkpoint.Checkpoint(path, boot).load(9 * SECOND)
        assert state.confirmed is confirmed
        assert len(state.grants) == 2


async def test_a_damaged_file_is_no_reason_not_to_start(tmp_path: pathlib.Path) -> None:
    """The ledger then starts from List."""
    path = tmp_path / "ledger.json"
    first = checkpoint.Checkpoint(path, "boot-1")
    async with running(first.run()):
        first.put(full_state())
        await first.saved()
    path.write_bytes(path.read_bytes()[:-10])
    assert await checkpoint.Checkpoint(path, "boot-1").load(SECOND) == State()


async def test_a_disk_that_refuses_stops_nobody(tmp_path: pathlib.Path) -> None:
    """The kubelet is answered; the next process starts from List."""
    (tmp_path / "file").write_text("a file where a folder should be")
    refused = checkpoint.Checkpoint(tmp_path / "file" / "ledger.json", "boot-1")
    async with running(refused.run()):
        refused.put(full_state())
        assert not await refused.saved()
