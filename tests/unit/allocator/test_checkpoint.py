"""What outlives the process: every grant that was answered, and what another boot is worth."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib

import pytest

from services.allocator import checkpoint, ledger, standing
from services.allocator.checkpoint import Memory
from services.allocator.ledger import State
from shared.contract import codec
from shared.contract.messages import Hold
from tests.support import hardware, slots
from tests.support.running import running
from tests.support.slots import GPU, SECOND, listing


def full_state() -> State:
    """Holders, a grant, an ended holder, a hold and an inventory."""
    state = slots.state_of(slots.inventory(slots.time_sliced(4), slots.named(0, "a")))
    state = ledger.listed(state, listing(("p", ["GPU-a::0"]), ("q", ["GPU-a::1"])), SECOND).state
    state = ledger.allocated(state, GPU, ["GPU-a::1"], 2 * SECOND, "trace").state
    return ledger.withheld(state, Hold(stamp=hardware.stamp(), slots=("GPU-a::3",)), 0).state


def test_a_state_comes_back_as_it_was() -> None:
    """All but the last List's time, which is another process's."""
    state = full_state()
    payload = codec.encode(checkpoint.remember(state, noted=0))
    memory = codec.decode(Memory, payload)
    back = checkpoint.recall(memory, same_boot=True, now_ns=9 * SECOND)
    assert back == ledger.restored(state, 9 * SECOND)
    assert back.confirmed
    assert back.hold == state.hold


def test_after_another_boot_hardware_is_not_confirmed_and_no_hold_stands() -> None:
    """Holders are kept until List says otherwise; the agent holds anew if it has to."""
    memory = checkpoint.remember(full_state(), noted=0)
    back = checkpoint.recall(memory, same_boot=False, now_ns=SECOND)
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


async def test_a_disk_that_has_refused_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    """Not even where nothing is being tried: the kubelet's list must not wait for a back-off."""
    (tmp_path / "file").write_text("a file where a folder should be")
    refused = checkpoint.Checkpoint(tmp_path / "file" / "ledger.json", "boot-1")
    async with running(refused.run()):
        refused.put(full_state())
        assert not await refused.saved()
    refused.put(State())
    async with asyncio.timeout(10):
        assert not await refused.saved()


async def test_a_disk_that_takes_writes_again_is_told_and_has_the_newest_state(
    tmp_path: pathlib.Path,
) -> None:
    """What came while it refused is written, and waited for from then on."""
    (tmp_path / "file").write_text("a file where a folder should be")
    path = tmp_path / "file" / "ledger.json"
    mended = checkpoint.Checkpoint(path, "boot-1")
    async with running(mended.run()):
        mended.put(State())
        assert not await mended.saved()
        mended.put(full_state())
        (tmp_path / "file").unlink()
        await mended.mended()
        assert await mended.saved()
    assert len((await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)).grants) == 2


async def test_grants_noted_after_the_last_write_are_not_forgotten(tmp_path: pathlib.Path) -> None:
    """U041: a process killed right after its answer, before the file was written anew."""
    path = tmp_path / "ledger.json"
    first = checkpoint.Checkpoint(path, "boot-1")
    async with running(first.run()):
        first.put(full_state())
        await first.saved()
    await first.note(GPU, ["GPU-a::2"], 5 * SECOND, "second-trace")
    killed = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
    assert killed.grants[GPU, "GPU-a::2"].trace == "second-trace"
    assert len(killed.grants) == 3


async def test_what_a_write_holds_is_not_taken_in_twice(tmp_path: pathlib.Path) -> None:
    """A grant that was released and written so stays released, and numbers go on after a start."""
    path = tmp_path / "ledger.json"
    first = checkpoint.Checkpoint(path, "boot-1")
    async with running(first.run()):
        await first.note(GPU, ["GPU-a::2"], 5 * SECOND, "")
        first.put(full_state())  # in which GPU-a::2 is free again
        await first.saved()
        second = checkpoint.Checkpoint(path, "boot-1")
        assert (GPU, "GPU-a::2") not in (await second.load(9 * SECOND)).grants
        await second.note(GPU, ["GPU-a::3"], 10 * SECOND, "")
        third = await checkpoint.Checkpoint(path, "boot-1").load(11 * SECOND)
    assert (GPU, "GPU-a::3") in third.grants


async def test_a_journal_cut_off_in_a_line_gives_the_lines_before(tmp_path: pathlib.Path) -> None:
    """A crash in the middle of a write costs that line only."""
    path = tmp_path / "ledger.json"
    first = checkpoint.Checkpoint(path, "boot-1")
    await first.note(GPU, ["GPU-a::0"], SECOND, "")
    await first.note(GPU, ["GPU-a::1"], SECOND, "")
    journal = path.with_suffix(".journal")
    journal.write_bytes(journal.read_bytes()[:-9])
    state = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
    assert set(state.grants) == {(GPU, "GPU-a::0")}
    await checkpoint.Checkpoint(path, "boot-1").note(GPU, ["GPU-a::2"], SECOND, "")
    state = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
    assert set(state.grants) == {(GPU, "GPU-a::0"), (GPU, "GPU-a::2")}


async def test_one_wrong_byte_anywhere_in_a_journal_is_no_reason_not_to_start(
    tmp_path: pathlib.Path,
) -> None:
    """Whatever is made of a line, the state that comes of it can be worked with."""
    path = tmp_path / "ledger.json"
    await checkpoint.Checkpoint(path, "boot-1").note(GPU, ["GPU-a::0"], SECOND, "trace")
    journal = path.with_suffix(".journal")
    good = journal.read_bytes()
    seen = slots.inventory(slots.time_sliced(2), slots.named(0, "a"))
    for place in range(len(good)):
        for byte in b":x9\x00\xff":
            journal.write_bytes(good[:place] + bytes([byte]) + good[place + 1 :])
            state = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
            standing.derive(ledger.devices(state, seen, confirmed=True).state)


async def test_a_journal_line_that_the_disk_takes_in_pieces_is_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write may take less than it is given, and say so."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    path = tmp_path / "ledger.json"
    await checkpoint.Checkpoint(path, "boot-1").note(GPU, ["GPU-a::0"], SECOND, "")
    state = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
    assert set(state.grants) == {(GPU, "GPU-a::0")}


async def test_a_disk_that_was_full_in_the_middle_of_a_line_costs_that_line_only(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next grant, noted when there is room again, is not taken down with it."""
    write, room = os.write, [20]

    def nearly_full(file: int, data: memoryview) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: room.pop()])

    path = tmp_path / "ledger.json"
    noting = checkpoint.Checkpoint(path, "boot-1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", nearly_full)
        await noting.note(GPU, ["GPU-a::0"], SECOND, "")
    await noting.note(GPU, ["GPU-a::1"], SECOND, "")
    state = await checkpoint.Checkpoint(path, "boot-1").load(9 * SECOND)
    assert set(state.grants) == {(GPU, "GPU-a::1")}
