"""The forms of `status` and `who`, as other programs rely on them."""

from __future__ import annotations

import dataclasses

import pytest

from services.views import bars, fleet, holders
from services.views.fleet import Heard, NodeState
from shared.contract.generation import Generation
from shared.contract.messages import (
    ConfigState,
    DeviceCounts,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    SlotCounts,
    Source,
    Stamp,
)
from shared.domain.errors import Problem
from shared.domain.sharing import UNSHARED, SourceKind
from shared.domain.slots import Holder, SlotState
from tests.support.hardware import gpu, mig_gpu

STAMP = Stamp(node="gpu-a", writer="x/0.1.0/1", generation=Generation(1, 2))
SINCE_NS = 1_800_000_000_000_000_000


def inventory() -> Inventory:
    """A whole GPU and one cut into two."""
    return Inventory(
        stamp=STAMP,
        driver_version="1",
        cuda_version=(13, 0),
        gpus=(gpu(0), mig_gpu(1, 2)),
        shares=(),
    )


def row(slot: str, gpu_uuid: str, state: SlotState, pod: str = "") -> LedgerRow:
    """A slot that is not free."""
    return LedgerRow(
        slot=slot,
        resource="nvidia.com/gpu",
        gpu_uuid=gpu_uuid,
        state=state,
        holder=Holder("ml", pod, "main") if pod else None,
        since_ns=SINCE_NS if pod else 0,
        trace="abc",
    )


def ledger() -> Ledger:
    """A pod on each GPU, a grant, and a slot that nobody holds."""
    return Ledger(
        stamp=STAMP,
        rows=(
            row("MIG-1-1::10", "GPU-1", SlotState.HELD, "c"),
            row("MIG-1-1::2", "GPU-1", SlotState.RETIRING, "b"),
            row("GPU-0::0", "GPU-0", SlotState.HELD, "a"),
            row("GPU-0::1", "GPU-0", SlotState.GRANTED),
            row("GPU-0::2", "GPU-0", SlotState.UNHEALTHY),
        ),
        counts=(
            DeviceCounts(
                gpu_uuid="GPU-0",
                resource="nvidia.com/gpu",
                counts=SlotCounts(free=1, granted=1, held=1, unhealthy=1),
            ),
            DeviceCounts(
                gpu_uuid="GPU-1", resource="nvidia.com/gpu", counts=SlotCounts(held=1, retiring=1)
            ),
        ),
    )


def test_holders_come_by_gpu_and_slot_number() -> None:
    """Slot 10 comes after slot 2; a grant without a pod is listed, a slot without holder is not."""
    rows = holders.rows({"gpu-a": ledger()}, {"gpu-a": inventory()})
    assert [(each.gpu, each.slot, each.pod) for each in rows] == [
        (0, "GPU-0::0", "ml/a"),
        (0, "GPU-0::1", None),
        (1, "MIG-1-1::2", "ml/b"),
        (1, "MIG-1-1::10", "ml/c"),
    ]


def test_the_form_of_a_holder() -> None:
    """The keys are those of commands' JSON."""
    (first, *_) = holders.rows({"gpu-a": ledger()}, {"gpu-a": inventory()})
    assert first.form() == {
        "node": "gpu-a",
        "gpu": 0,
        "uuid": "GPU-0",
        "slot": "GPU-0::0",
        "resource": "nvidia.com/gpu",
        "pod": "ml/a",
        "container": "main",
        "since": "2027-01-15T08:00:00.000000Z",
        "trace": "abc",
    }


def test_a_gpu_answers_for_its_mig_devices_and_a_device_for_itself() -> None:
    """`who --gpu` takes either UUID."""
    devices = holders.gpus_of_devices({"gpu-a": inventory()})
    rows = holders.rows({"gpu-a": ledger()}, {"gpu-a": inventory()})
    assert [each.pod for each in holders.of_gpu(rows, "GPU-1", devices)] == ["ml/b", "ml/c"]
    assert [each.pod for each in holders.of_gpu(rows, "MIG-1-1", devices)] == ["ml/b", "ml/c"]
    assert holders.of_gpu(rows, "MIG-1-0", devices) == []


def test_holders_are_named_before_the_inventory_is_known() -> None:
    """Then only the index is missing."""
    (first, *_) = holders.rows({"gpu-a": ledger()}, {})
    assert (first.gpu, first.pod) == (None, "ml/a")


def test_the_form_of_a_node() -> None:
    """Config, GPUs with the sum of their slots, instances, and who was heard."""
    intent = Intent(
        stamp=STAMP,
        sharing=UNSHARED,
        source=Source(kind=SourceKind.LABEL, key="a100"),
        state=ConfigState.REFUSED,
        problems=(Problem("a.b", 3, 4, "is wrong", "write c"),),
        refused="sharing/new",
    )
    state = NodeState(
        name="gpu-a",
        intent=intent,
        inventory=inventory(),
        ledger=ledger(),
        services={"allocator": Heard(seen="2027-01-15T08:00:00Z", version="0.1.0")},
    )
    (node,) = fleet.form([state])["nodes"]
    assert node["config"] == {
        "key": "a100",
        "source": "label",
        "generation": "1.2",
        "state": "refused",
        "reason": "sharing/new: a.b, line 3, column 4: is wrong (write c)",
    }
    first, second = node["gpus"]
    assert first["slots"] == {
        "total": 4,
        "free": 1,
        "granted": 1,
        "held": 1,
        "retiring": 0,
        "unhealthy": 1,
    }
    assert (first["index"], first["uuid"], first["health"], first["reason"]) == (
        0,
        "GPU-0",
        "healthy",
        "",
    )
    assert [each["uuid"] for each in second["instances"]] == ["MIG-1-0", "MIG-1-1"]
    assert node["resources"] == {
        "nvidia.com/gpu": {
            "total": 6,
            "free": 1,
            "granted": 1,
            "held": 2,
            "retiring": 1,
            "unhealthy": 1,
            "lost": 0,
            "allocatable": 4,
            "used": None,
        }
    }
    assert node["services"] == {"allocator": {"seen": "2027-01-15T08:00:00Z", "version": "0.1.0"}}


@pytest.mark.parametrize(
    ("generation", "state", "reason"),
    [
        pytest.param(Generation(1, 2), "refused", "a.devices[0]: GPU 5 is not there", id="same"),
        pytest.param(Generation(1, 1), "applied", "", id="of an older wish"),
    ],
)
def test_what_the_hardware_refuses_is_told_like_what_the_text_is_refused_for(
    generation: Generation, state: str, reason: str
) -> None:
    """The advertiser's problems count for the intent that they answer, and for no other."""
    problem = Problem("a.devices[0]", 0, 0, "GPU 5 is not there")
    seen = dataclasses.replace(
        inventory(),
        stamp=dataclasses.replace(STAMP, generation=generation),
        problems=(problem,),
    )
    source = Source(kind=SourceKind.ONLY, key="any")
    intent = Intent(stamp=STAMP, sharing=UNSHARED, source=source, state=ConfigState.APPLIED)
    (node,) = fleet.form([NodeState(name="a", intent=intent, inventory=seen, services={})])["nodes"]
    assert (node["config"]["state"], node["config"]["reason"]) == (state, reason)


def test_u015_a_node_without_any_text_is_told_so() -> None:
    """The source is none, and the reason says what that means for the GPUs."""
    source = Source(kind=SourceKind.NONE)
    intent = Intent(stamp=STAMP, sharing=UNSHARED, source=source, state=ConfigState.UNSHARED)
    (node,) = fleet.form([NodeState(name="a", intent=intent, services={})])["nodes"]
    assert (node["config"]["source"], node["config"]["state"]) == ("none", "unshared")
    assert node["config"]["reason"] == fleet.NO_TEXT


def test_a_node_of_which_only_the_ledger_is_known() -> None:
    """Nothing is invented for what nobody has said."""
    (node,) = fleet.form([NodeState(name="gpu-a", ledger=ledger(), services={})])["nodes"]
    assert node["config"]["state"] is None
    assert node["gpus"] == []


def test_a_bar_keeps_a_sign_for_every_state_that_has_a_slot() -> None:
    """800 slots fit on a line, and the one that is sick is not lost in it."""
    counts = {"held": 700, "unhealthy": 1, "free": 99}
    runs = dict(bars.runs(counts))
    assert runs["unhealthy"] == 1
    assert sum(runs.values()) <= bars.WIDTH + len(runs)
    assert bars.words(counts) == "700 held, 1 unhealthy, 99 free"
