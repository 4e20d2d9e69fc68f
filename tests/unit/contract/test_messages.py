"""Messages survive the way to bytes and back, and old and new versions live side by side."""

from __future__ import annotations

import dataclasses
import gzip
import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from shared.contract import codec, table
from shared.contract.codec import UnreadableError
from shared.contract.facts import Fact
from shared.contract.generation import Generation
from shared.contract.messages import (
    SCHEMA,
    Cuttable,
    Hold,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    Phase,
    Progress,
    Stamp,
)
from shared.contract.spans import SpanRecord, Spans
from shared.contract.usage import Usage
from shared.contract.waiting import Waiting
from shared.domain.gpu import MigDevice
from shared.domain.sharing import UNSHARED, Share
from shared.domain.slots import Holder, SlotState
from shared.geometry.board import Board, Profile
from shared.sharing import entries
from tests.support import hardware, slots

KINDS = [pytest.param(each.message, id=each.name) for each in (*table.BUCKETS, *table.LOGS)]
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
VALUES = TEXTS | st.integers(-5, 5) | st.booleans() | FINITE
FEW = hypothesis.settings(max_examples=15, deadline=None)

st.register_type_strategy(int, NUMBERS)
st.register_type_strategy(Generation, st.builds(Generation, NUMBERS, NUMBERS))
st.register_type_strategy(
    Stamp,
    st.builds(Stamp, node=TEXTS, writer=TEXTS, store=NUMBERS, generation=st.from_type(Generation)),
)

FEW_SLICES = st.integers(0, 8)
st.register_type_strategy(
    MigDevice,
    st.builds(MigDevice, start=FEW_SLICES, size=st.integers(1, 8)),
)
st.register_type_strategy(
    Profile,
    st.builds(Profile, starts=st.lists(FEW_SLICES, min_size=1).map(tuple), size=st.integers(1, 8)),
)
st.register_type_strategy(
    Board, st.builds(Board, profiles=st.lists(st.from_type(Profile), min_size=1).map(tuple))
)
st.register_type_strategy(Share, st.builds(Share, replicas=st.integers(0, 100)))

st.register_type_strategy(
    SpanRecord,
    st.builds(
        SpanRecord,
        start_ns=NUMBERS,
        end_ns=NUMBERS,
        attributes=st.dictionaries(TEXTS, VALUES, max_size=3),
        links=st.lists(TEXTS, max_size=2).map(tuple),
    ),
)


def some(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of a kind, with every field filled by its type."""
    return st.from_type(kind)


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_a_message_comes_back_as_it_was(kind: type[Any], data: st.DataObject) -> None:
    """Decoding what was encoded gives an equal message, and equal bytes again."""
    message = data.draw(some(kind))
    written = codec.encode(message)
    read = codec.decode(kind, written)
    assert read == message
    assert codec.encode(read) == written


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_unknown_keys_are_tolerated(kind: type[Any], data: st.DataObject) -> None:
    """A newer writer may say more, at the top and inside the stamp."""
    message = data.draw(some(kind))
    body = json.loads(codec.encode(message))
    body["of_a_later_version"] = {"x": 1}
    body["stamp"]["of_a_later_version"] = 1
    assert codec.decode(kind, json.dumps(body).encode()) == message


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_a_newer_schema_is_refused(kind: type[Any], data: st.DataObject) -> None:
    """Known keys may have changed their meaning, so the reader says what to do instead."""
    message = data.draw(some(kind))
    newer = dataclasses.replace(
        message, stamp=dataclasses.replace(message.stamp, schema=SCHEMA + 1)
    )
    with pytest.raises(UnreadableError, match="update slicewire on this side"):
        codec.decode(kind, codec.encode(newer))


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_schema_that_says_things_otherwise_is_refused_as_newer(kind: type[Any]) -> None:
    """Nobody is sent to look for a damaged message."""
    body = {"stamp": {"node": "n", "writer": "w", "schema": SCHEMA + 1}, "said": "otherwise"}
    with pytest.raises(UnreadableError, match="update slicewire on this side"):
        codec.decode(kind, json.dumps(body).encode())


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**4000])
@pytest.mark.parametrize("at", ["since_ns", "until_ns", "order"])
def test_a_number_that_no_clock_or_count_gives_is_refused(at: str, number: int) -> None:
    """Whoever makes a time of it, or a figure of a metric, would end by it."""
    progress = Progress(stamp=Stamp(node="n", writer="w"), phase=Phase.IDLE, sentence="")
    body = json.loads(codec.encode(progress)) | {at: number}
    with pytest.raises(UnreadableError, match=rf"^Progress: {at}: "):
        codec.decode(Progress, json.dumps(body).encode())


@pytest.mark.parametrize("replicas", [-1, entries.MOST_IDS + 1, 2**31, entries.MOST_IDS // 2 + 1])
def test_more_slots_than_a_kubelet_takes_are_refused(replicas: int) -> None:
    """Of a resource, on whichever devices: whoever lists them would not end."""
    told = slots.inventory(slots.time_sliced(2), hardware.gpu(0), hardware.gpu(1))
    body = json.loads(codec.encode(told))
    for share in body["shares"]:
        share["replicas"] = replicas
    with pytest.raises(UnreadableError, match=r"^Inventory: shares: "):
        codec.decode(Inventory, json.dumps(body).encode())


@pytest.mark.parametrize(("start", "size"), [(-1, 1), (0, 0), (0, 65), (2**40, 1), (0, 2**40)])
def test_slices_that_no_board_has_are_refused(start: int, size: int) -> None:
    """Whoever draws them would divide by nothing, or draw without end."""
    told = json.loads(codec.encode(slots.inventory(UNSHARED, hardware.mig_gpu(0, 2))))
    told["gpus"][0]["mig_devices"][1] |= {"start": start, "size": size}
    with pytest.raises(UnreadableError, match=r"^Inventory: gpus: "):
        codec.decode(Inventory, json.dumps(told).encode())
    profile = Profile(name="1g", slices=1, size=size, starts=(start,), most=1)
    assert "1g" in _fault_of_board(profile)


def test_a_board_without_profiles_or_places_is_refused() -> None:
    """It could not be cut, so nobody tells of it."""
    assert _fault_of_board()
    assert _fault_of_board(Profile(name="1g", slices=1, size=1, starts=(), most=1))


def _fault_of_board(*profiles: Profile) -> str:
    board = Board(memory_mib=1, profiles=profiles)
    progress = Progress(
        stamp=Stamp(node="n", writer="w"),
        phase=Phase.IDLE,
        sentence="",
        boards=(Cuttable(gpus=("GPU-a",), board=board),),
    )
    with pytest.raises(UnreadableError, match=r"^Progress: boards: ") as refused:
        codec.decode(Progress, codec.encode(progress))
    return str(refused.value)


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b"{}", b'{"stamp": {"node": "x"}}'])
def test_what_is_no_message_is_said_to_be_none(data: bytes) -> None:
    """The error names the kind and the place."""
    with pytest.raises(UnreadableError, match=r"^Hold: "):
        codec.decode(Hold, data)


def ledger(held: int) -> Ledger:
    """A node's ledger with so many held slots."""
    gpu = "GPU-33b44cde-b5b4-5a55-bcc9-b3e17054e0aa"
    holder = Holder(namespace="default", pod="train-1", container="main")
    rows = tuple(
        LedgerRow(
            slot=f"{gpu}::{number}",
            resource="nvidia.com/gpu",
            gpu_uuid=gpu,
            state=SlotState.HELD,
            holder=holder,
            since_ns=1_796_000_000_000_000_000 + number,
            trace="e43f7bac56277c55354610759d8187f9",
        )
        for number in range(held)
    )
    return Ledger(stamp=Stamp(node="n", writer="w"), rows=rows, counts=())


def test_a_ledger_of_all_ids_fits_the_bus_and_comes_back() -> None:
    """One resource may have 20,000 ids, and pods may hold them all."""
    full = ledger(20_000)
    written = codec.encode(full)
    assert len(written) < table.MAX_PAYLOAD_BYTES - table.HEADER_ROOM_BYTES
    assert written == codec.encode(full)
    assert codec.decode(Ledger, written) == full


def test_only_large_messages_are_packed() -> None:
    """People read the others with the tools of NATS."""
    assert codec.encode(ledger(100)).startswith(b"{")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        pytest.param(codec.encode(ledger(5_000))[:-9], "cut off", id="cut off"),
        pytest.param(b"\x1f\x8bno gzip", "cannot be unpacked", id="no gzip"),
        pytest.param(gzip.compress(b" " * (codec.MOST_BYTES + 1)), "larger than", id="too large"),
    ],
)
def test_a_pack_that_cannot_be_opened_is_no_message(data: bytes, part: str) -> None:
    """Nor may a small one fill the reader's memory."""
    with pytest.raises(UnreadableError, match=part):
        codec.decode(Ledger, data)


def test_the_table_has_every_message() -> None:
    """A message that no bucket or log carries would have no page and no permissions."""
    carried = {each.message for each in (*table.BUCKETS, *table.LOGS)}
    assert carried == {Intent, Inventory, Ledger, Hold, Progress, Usage, Waiting, Fact, Spans}
