"""What a hold withholds, and when the ledger says that it is in force."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

import pytest

from services.allocator import checkpoint, grant, keeper, ledger, standing
from services.allocator.ledger import State
from services.allocator.standing import Standing
from shared.contract.facts import Fact
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Inventory, Ledger
from shared.contract.mps import HeldForms
from shared.domain.gpu import Gpu
from shared.domain.sharing import MigStrategy, SharingConfig
from shared.telemetry import spans
from tests.support import hardware, slots
from tests.support.eventually import eventually, steadily
from tests.support.running import running
from tests.support.slots import SECOND, listing

MIXED = SharingConfig(mig_strategy=MigStrategy.MIXED)
ONE = "nvidia.com/mig-1g.10gb"
FOUR, OTHER = hardware.mig_gpu(0, 4), hardware.mig_gpu(1, 2)
FIRST = Generation(1, 1)


def hold(order: int, *kept: str, generation: Generation = FIRST) -> Hold:
    """GPU 0 is cut anew; devices that are kept stay."""
    return Hold(
        stamp=hardware.stamp(generation),
        slots=("MIG-0-2", "MIG-0-3"),
        recut=("GPU-0",),
        kept=kept,
        reason="its GPU is being cut anew",
        order=order,
    )


def state(*gpus: Gpu, holders: tuple[str, ...] = (), held: Hold | None = None) -> State:
    seen = slots.state_of(slots.inventory(MIXED, *gpus))
    known = ledger.listed(seen, listing(("p", holders), resource=ONE), SECOND).state
    return known if held is None else ledger.withheld(known, held, SECOND).state


def listed(now: State) -> dict[str, bool]:
    """Ids that the kubelet sees, and whether they are healthy."""
    return {slot.id: not slot.trouble for slot in standing.derive(now).listed(ONE)}


def test_withheld_and_idle_is_off_the_list_and_what_stays_is_served() -> None:
    """Devices of other GPUs are served as well."""
    now = state(FOUR, OTHER, held=hold(1, "MIG-0-0", "MIG-0-1"))
    assert listed(now) == dict.fromkeys(("MIG-0-0", "MIG-0-1", "MIG-1-0", "MIG-1-1"), True)


def test_while_somebody_holds_one_all_withheld_are_listed_unhealthy() -> None:
    """The kubelet would end a pod whose device leaves the list."""
    now = state(FOUR, holders=("MIG-0-3",), held=hold(1, "MIG-0-0", "MIG-0-1"))
    assert listed(now) == {
        "MIG-0-0": True,
        "MIG-0-1": True,
        "MIG-0-2": False,
        "MIG-0-3": False,
    }
    assert standing.derive(now).emptying


def test_a_holder_of_what_stays_keeps_nobody_waiting() -> None:
    """Only withheld slots count."""
    now = state(FOUR, holders=("MIG-0-0",), held=hold(1, "MIG-0-0", "MIG-0-1"))
    assert listed(now) == {"MIG-0-0": True, "MIG-0-1": True}
    assert not standing.derive(now).emptying


def test_holders_that_have_ended_are_let_go_though_the_kubelet_lists_them_on() -> None:
    """Only what is withheld: a pod of the name may have a slot elsewhere by now."""
    rows = listing(("p", ("MIG-0-3",)), ("q", ("MIG-0-2", "MIG-0-0")), resource=ONE)
    known = ledger.listed(slots.state_of(slots.inventory(MIXED, FOUR)), rows, SECOND).state
    told = dataclasses.replace(hold(1, "MIG-0-0", "MIG-0-1"), ended=("default/p", "default/q"))
    after = ledger.withheld(known, told, 2 * SECOND)
    assert {slot for _, slot in after.state.grants} == {"MIG-0-0"}
    assert [fact.sentence.rpartition(": ")[2] for fact in after.facts] == ["it has ended"] * 2
    assert not standing.derive(after.state).emptying
    again = ledger.listed(after.state, rows, 20 * SECOND).state
    assert {slot for _, slot in again.grants} == {"MIG-0-0"}


def test_a_gpu_whose_holder_has_ended_is_offered_in_parts() -> None:
    """The kubelet lists the pod on by the UUID of the whole GPU."""
    whole = slots.inventory(MIXED, hardware.gpu(0))
    rows = listing(("p", ("GPU-0",)))
    held = ledger.listed(slots.state_of(whole), rows, SECOND).state
    told = Hold(stamp=hardware.stamp(FIRST), recut=("GPU-0",), ended=("default/p",), order=1)
    held = ledger.withheld(held, told, SECOND).state
    cut = ledger.devices(held, slots.inventory(MIXED, FOUR), confirmed=True).state
    free = ledger.withheld(cut, Hold(stamp=hardware.stamp(FIRST)), SECOND).state
    free = ledger.listed(free, rows, 20 * SECOND).state
    assert len(listed(free)) == 4


def test_what_appears_on_the_gpu_meanwhile_is_withheld_until_the_hold_ends() -> None:
    """Nobody may get an instance that may have to go again."""
    more = hardware.mig_gpu(0, 6)
    now = state(more, held=hold(1, "MIG-0-0"))
    assert listed(now) == {"MIG-0-0": True}
    after = ledger.withheld(now, Hold(stamp=hardware.stamp(FIRST)), SECOND).state
    assert len(listed(after)) == 6


def test_a_whole_gpu_and_its_instances_are_never_offered_together() -> None:
    """U065: who holds the GPU keeps its MIG devices from being offered, until he goes."""
    whole = slots.inventory(MIXED, hardware.gpu(0))
    held = ledger.listed(slots.state_of(whole), listing(("p", ("GPU-0",))), SECOND).state
    cut = ledger.devices(held, slots.inventory(MIXED, FOUR), confirmed=True).state
    assert listed(cut) == {}
    assert not standing.derive(cut).listed("nvidia.com/gpu")
    free = ledger.listed(cut, (), 2 * SECOND).state
    free = ledger.listed(free, (), 20 * SECOND).state
    assert len(listed(free)) == 4


class Desk:
    """A keeper, what it publishes, and a kubelet that has the newest list or not."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.ledgers: list[Ledger] = []
        self.shown: list[Standing] = []
        self.has_the_list = True
        self.checkpoint = checkpoint.Checkpoint(folder / "ledger.json", "boot-1")
        clock = iter(range(1, 10_000))
        self.keeper = keeper.Keeper(
            State(),
            self.checkpoint,
            keeper.Outlets(
                publish=lambda ledger, _: self.ledgers.append(ledger),
                tell=self._tell,
                show=lambda standing, _: self.shown.append(standing),
                delivered=self._delivered,
                held=self._held,
            ),
            stamp=hardware.stamp(),
            telemetry=spans.Telemetry("allocator", "node-a"),
            now_ns=lambda: next(clock) * SECOND,
        )

    def _tell(self, fact: Fact, traceparent: str) -> None:
        del fact, traceparent

    async def _held(self, forms: HeldForms) -> None:
        del forms

    async def _delivered(self) -> bool:
        await asyncio.sleep(0.01)
        return self.has_the_list

    def lists(self, healthy: int) -> bool:
        """Whether so many healthy slots are what the kubelet was shown last."""
        resources = self.shown[-1].slots.values() if self.shown else ()
        return sum(not slot.trouble for slots in resources for slot in slots.values()) == healthy

    def answers(self, order: int) -> bool:
        """Whether the newest ledger acknowledges a hold."""
        last = self.ledgers[-1] if self.ledgers else None
        return last is not None and (last.held_for, last.held_order) == (FIRST, order)


@pytest.fixture
def desk(tmp_path: pathlib.Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def seen() -> Inventory:
    return slots.inventory(MIXED, FOUR)


async def test_a_hold_is_acknowledged_by_its_order_and_no_longer_than_it_lasts(
    desk: Desk, seen: Inventory
) -> None:
    """One generation may have several: each is told apart, and an ended one is none."""
    async with running(desk.keeper.run(), desk.checkpoint.run()):
        desk.keeper.inventory(seen, confirmed=True)
        desk.keeper.listed((), SECOND)
        desk.keeper.hold(hold(1))
        await eventually(lambda: desk.answers(1))
        desk.keeper.hold(hold(2))
        await eventually(lambda: desk.answers(2))
        desk.keeper.hold(Hold(stamp=hardware.stamp(FIRST), order=2))
        await eventually(lambda: desk.ledgers[-1].held_for is None)


async def test_no_acknowledgement_before_the_kubelet_has_the_list(
    desk: Desk, seen: Inventory
) -> None:
    """It could still give away what is about to be destroyed."""
    desk.has_the_list = False
    async with running(desk.keeper.run(), desk.checkpoint.run()):
        desk.keeper.inventory(seen, confirmed=True)
        desk.keeper.listed((), SECOND)
        desk.keeper.hold(hold(1))
        await eventually(lambda: desk.ledgers)
        await steadily(lambda: desk.ledgers[-1].held_for is None, for_=0.2)
        desk.has_the_list = True
        await eventually(lambda: desk.answers(1))


async def test_no_acknowledgement_before_list_has_told_who_has_what(
    desk: Desk, seen: Inventory
) -> None:
    """A ledger that was begun anew shows nobody, whoever is there."""
    async with running(desk.keeper.run(), desk.checkpoint.run()):
        desk.keeper.inventory(seen, confirmed=True)
        desk.keeper.hold(hold(1))
        await eventually(lambda: desk.ledgers)
        await steadily(lambda: desk.ledgers[-1].held_for is None, for_=0.2)
        desk.keeper.listed((), SECOND)
        await eventually(lambda: desk.answers(1))


async def test_the_kubelets_list_waits_for_no_disk(desk: Desk, seen: Inventory) -> None:
    """One that never ends a write would keep a sick GPU on the list."""
    async with running(desk.keeper.run()):  # and nobody writes
        desk.keeper.inventory(seen, confirmed=True)
        await eventually(lambda: desk.lists(4))
        desk.keeper.inventory(slots.inventory(MIXED, slots.sick(FOUR)), confirmed=True)
        await eventually(lambda: desk.lists(0))
    assert not desk.ledgers


async def test_no_acknowledgement_before_the_disk_has_the_hold_and_one_as_soon_as_it_has(
    tmp_path: pathlib.Path, seen: Inventory
) -> None:
    """A disk that refuses keeps nobody from the ledger; once it is mended no other news is due."""
    (tmp_path / "file").write_text("a file where a folder should be")
    desk = Desk(tmp_path / "file")
    async with running(desk.keeper.run(), desk.checkpoint.run()):
        desk.keeper.inventory(seen, confirmed=True)
        desk.keeper.listed((), SECOND)
        desk.keeper.hold(hold(1, "MIG-0-0"))
        await eventually(lambda: desk.ledgers and desk.lists(1))
        await steadily(lambda: desk.ledgers[-1].held_for is None, for_=0.2)
        (tmp_path / "file").unlink()
        await eventually(lambda: desk.answers(1))


def test_the_container_gets_the_nodes_that_guard_its_instance() -> None:
    """The parent's node alone opens no MIG device."""
    nodes = ("/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31")
    guarded = dataclasses.replace(FOUR.mig_devices[0], nodes=nodes)
    gpu = dataclasses.replace(FOUR, mig_devices=(guarded, *FOUR.mig_devices[1:]))
    now = standing.derive(state(gpu))
    got = grant.answer(ONE, ["MIG-0-0"], now.slots[ONE], now.rules[ONE])
    assert [inside for inside, _ in got.nodes][:3] == ["/dev/nvidia0", *nodes]
