"""MPS in the ledger: who holds a slot keeps the form it began with, and a daemon that is down is no
place for new clients.
"""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from services.allocator import account, checkpoint, forms, grant, held, ledger, standing
from services.allocator.ledger import State
from services.allocator.settings import AllocatorSettings
from shared.contract import codec, mps
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.contract.mps import DaemonState, HeldForm, HeldForms, MpsDaemon
from shared.domain.sharing import SharingConfig, Strategy
from shared.domain.slots import SlotState
from shared.runtime import files
from tests.support import hardware, slots
from tests.support.slots import GPU, SECOND, listing

A, B = slots.named(0, "a"), slots.named(1, "b")
MPS = dataclasses.replace(slots.time_sliced(4), strategy=Strategy.MPS)
READY = MpsDaemon(gpu_uuid="GPU-a", state=DaemonState.READY, exclusive=True)


def seen(config: SharingConfig = MPS, *daemons: MpsDaemon, generation: int = 1) -> Inventory:
    stamp = hardware.stamp(Generation(1, generation))
    inventory = slots.inventory(config, A, B, stamp=stamp)
    return dataclasses.replace(inventory, mps=daemons)


def after(state: State, inventory: Inventory) -> State:
    return ledger.devices(state, inventory, confirmed=True).state


def troubles(state: State, gpu: str = "GPU-a") -> set[str]:
    """Why free slots of a GPU are not handed out."""
    slots_of = standing.derive(state).slots[GPU].values()
    return {slot.trouble for slot in slots_of if slot.device.uuid == gpu and not slot.taken}


@pytest.mark.parametrize(
    ("daemon", "trouble"),
    [
        pytest.param(READY, "", id="ready"),
        pytest.param(
            MpsDaemon(gpu_uuid="GPU-a", state=DaemonState.DOWN, reason="it ended with status 1"),
            "MPS daemon down: it ended with status 1",
            id="down",
        ),
        pytest.param(
            MpsDaemon(gpu_uuid="GPU-a", state=DaemonState.STARTING, reason="it starts"),
            "MPS daemon starting: it starts",
            id="starting",
        ),
        pytest.param(None, "MPS daemon down: nothing is known of it yet", id="unknown"),
    ],
)
def test_slots_wait_for_the_daemon_of_their_gpu(daemon: MpsDaemon | None, trouble: str) -> None:
    """The daemon of another GPU counts for nothing."""
    other = MpsDaemon(gpu_uuid="GPU-b", state=DaemonState.READY)
    state = slots.state_of(seen(MPS, *([daemon] if daemon else []), other))
    assert troubles(state) == {trouble}
    assert troubles(state, "GPU-b") == {""}


def test_holders_of_a_daemon_that_is_down_stay_holders() -> None:
    """Only free slots are unhealthy; a held one is held."""
    state = ledger.allocated(slots.state_of(seen(MPS, READY)), GPU, ["GPU-a::0"], SECOND).state
    down = MpsDaemon(gpu_uuid="GPU-a", state=DaemonState.DOWN, reason="gone")
    derived = standing.derive(after(state, seen(MPS, down))).slots[GPU]
    assert derived["GPU-a::0"].state is SlotState.GRANTED
    assert derived["GPU-a::1"].state is SlotState.UNHEALTHY


def test_time_slicing_waits_while_a_gpu_is_for_mps_clients_alone() -> None:
    """In EXCLUSIVE_PROCESS a time-slicing pod would fail at its first CUDA call."""
    state = slots.state_of(seen(slots.time_sliced(4), READY))
    (trouble,) = troubles(state)
    assert "EXCLUSIVE_PROCESS" in trouble
    free = dataclasses.replace(READY, exclusive=False)
    assert troubles(after(state, seen(slots.time_sliced(4), free))) == {""}


def test_a_client_gets_the_pipe_and_the_shared_memory_of_its_daemon() -> None:
    """As with NVIDIA's plugin; the folders of the host are the allocator's to know."""
    settings = AllocatorSettings(node_name="n", bus_url="nats://x", mps_dir="/host/mps")
    now = standing.derive(slots.state_of(seen(MPS, READY)))
    got = grant.answer(GPU, ["GPU-a::1"], now.slots[GPU], now.rules[GPU], settings.on_host)
    assert got.envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-a",
        "CUDA_MPS_PIPE_DIRECTORY": "/mps/GPU-a/pipe",
    }
    assert got.folders == (
        ("/mps/GPU-a/pipe", "/host/mps/GPU-a/pipe"),
        ("/dev/shm", "/host/mps/shm"),
    )
    assert ("/dev/nvidia0", "/dev/nvidia0") in got.nodes


def test_time_slicing_gives_no_folders() -> None:
    """Nothing of MPS reaches a container that is no client."""
    now = slots.standing_of(slots.time_sliced(4), A)
    got = grant.answer(GPU, ["GPU-a::1"], now.slots[GPU], now.rules[GPU])
    assert (got.folders, list(got.envs)) == ((), ["NVIDIA_VISIBLE_DEVICES"])


def test_slots_of_two_daemons_are_refused() -> None:
    """A container has one pipe directory; two slots of one GPU are one client."""
    ready = (READY, dataclasses.replace(READY, gpu_uuid="GPU-b"))
    now = standing.derive(slots.state_of(seen(MPS, *ready)))
    with pytest.raises(grant.InvalidRequestError, match="the client of one; request 1"):
        grant.answer(GPU, ["GPU-a::1", "GPU-b::1"], now.slots[GPU], now.rules[GPU])
    assert grant.answer(GPU, ["GPU-a::1", "GPU-a::2"], now.slots[GPU], now.rules[GPU]).folders


def test_time_slicing_to_mps_beside_holders() -> None:
    """Their slots only finish and are no client's; the rest is offered anew under other ids."""
    state = ledger.allocated(
        slots.state_of(seen(slots.time_sliced(4))), GPU, ["GPU-a::0"], SECOND
    ).state
    state = after(state, seen(MPS, READY, generation=2))
    derived = standing.derive(state).slots[GPU]
    assert derived["GPU-a::0"].state is SlotState.RETIRING
    assert [slot for slot in derived if slot.startswith("GPU-a")] == [
        *("GPU-a::1", "GPU-a::2", "GPU-a::3", "GPU-a::0")
    ]
    rows = account.write(hardware.stamp(), state, standing.derive(state)).rows
    assert [row.strategy for row in rows] == [Strategy.TIME_SLICING]


def test_a_container_that_only_list_knows_shares_as_the_device_was_offered() -> None:
    """The ledger was lost: what was offered when List first named it is the best guess."""
    state = ledger.listed(
        slots.state_of(seen(MPS, READY)), listing(("p", ["GPU-a::2"])), SECOND
    ).state
    state = after(state, seen(slots.time_sliced(4), generation=2))
    assert standing.derive(state).slots[GPU]["GPU-a::2"].strategy is Strategy.MPS


def test_the_form_outlives_the_process() -> None:
    """A grant on disk says how it began; one of an older version is taken as offered."""
    state = ledger.allocated(slots.state_of(seen(MPS, READY)), GPU, ["GPU-a::0"], SECOND).state
    memory = checkpoint.remember(state, 1)
    again = codec.decode(checkpoint.Memory, codec.encode(memory))
    assert again.grants[0].strategy is Strategy.MPS
    older = codec.encode(memory).replace(b',"strategy":"mps"}', b"}")
    assert codec.decode(checkpoint.Memory, older).grants[0].strategy is None


def test_the_forms_in_which_gpus_are_held() -> None:
    """What the MPS service ends daemons by: each form of each GPU once, with the generation."""
    state = slots.state_of(seen(slots.time_sliced(4)))
    state = ledger.allocated(state, GPU, ["GPU-a::0", "GPU-a::1"], SECOND).state
    state = after(state, seen(MPS, READY, generation=2))
    state = ledger.allocated(state, GPU, ["GPU-a::2", "GPU-gone::0"], SECOND).state
    assert state.inventory is not None
    assert forms.held(state.grants.values(), state.inventory) == HeldForms(
        generation=Generation(1, 2),
        forms=(
            HeldForm(gpu_uuid="GPU-a", strategy=Strategy.MPS),
            HeldForm(gpu_uuid="GPU-a", strategy=Strategy.TIME_SLICING),
        ),
    )


async def test_the_forms_are_written_when_they_change(tmp_path: pathlib.Path) -> None:
    """Most grants change nothing of them, and cost the disk nothing."""
    file = held.HeldFile(tmp_path, "boot-1")
    first = HeldForms(generation=Generation(1, 1))
    await file.tell(first)
    (tmp_path / mps.HELD_FILE).unlink()
    await file.tell(first)
    assert not (tmp_path / mps.HELD_FILE).exists()
    await file.tell(dataclasses.replace(first, generation=Generation(1, 2)))
    saved = await files.Store(tmp_path / mps.HELD_FILE, kind=mps.HELD_KIND).read()
    assert saved is not None
    assert codec.decode(HeldForms, saved.payload).generation == Generation(1, 2)
