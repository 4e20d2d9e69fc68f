"""Whatever happens to a GPU: a quiet time brings it back, and nothing does earlier."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.advertiser import health
from shared.contract import codec
from shared.domain.gpu import HEALTHY, Hardware, Health, HealthState
from shared.domain.health import HealthRecord, HealthRules
from tests.support.hardware import gpu, hardware

S = 1_000_000_000
RECOVER_S = 60
RULES = HealthRules(ignore=(63,), recover_after_s=RECOVER_S)


@dataclass(frozen=True)
class Happens:
    """One look, `after_s` the one before: with what NVML says, and perhaps an XID just before."""

    after_s: int
    state: HealthState = HealthState.HEALTHY
    xid: int | None = None
    restart: bool = False


LOOKS = st.lists(
    st.builds(
        Happens,
        st.integers(1, 90),
        st.sampled_from([*[HealthState.HEALTHY] * 5, HealthState.SILENT, HealthState.LOST]),
        st.sampled_from([None] * 6 + [31, 63, 94, 94, 48]),
        st.booleans(),
    ),
    max_size=60,
)


def node(state: HealthState) -> Hardware:
    verdict = HEALTHY if state is HealthState.HEALTHY else Health(state=state, reason="so")
    return hardware(dataclasses.replace(gpu(0), health=verdict))


def restarted(record: HealthRecord) -> HealthRecord:
    """As the next process of the same boot reads it from the file."""
    read = codec.decode(HealthRecord, codec.encode(record))
    return health.remembered(read, same_boot=True)


@given(LOOKS)
def test_a_device_comes_back_only_after_it_was_well_for_as_long_as_the_text_says(
    looks: list[Happens],
) -> None:
    """Restarts included; what asks for a reset was lost since; a flapper never comes back."""
    record, now, well_since = health.under(HealthRecord(), RULES, ""), S, S
    falls: list[int] = []
    to_be_reset = False
    for happens in looks:
        now += happens.after_s * S
        was_out = bool(health.standing(record))
        if happens.restart:
            record, well_since = restarted(record), now
            assert bool(health.standing(record)) is was_out
        if happens.xid is not None:
            record = health.after_xid(
                record,
                node(happens.state),
                gpu_uuid="GPU-0",
                xid=happens.xid,
                instance=None,
                now=now,
            )
        if happens.xid in (94, 48):
            falls += [] if was_out else [now]
            to_be_reset = (was_out and to_be_reset) or happens.xid == 48
            well_since = now
        if happens.state is HealthState.LOST:
            to_be_reset = False
        well_since = well_since if happens.state is HealthState.HEALTHY else now
        record = health.after_look(record, node(happens.state), now)
        is_out = bool(health.standing(record))
        assert is_out or not was_out or now - well_since >= RECOVER_S * S
        assert is_out or not was_out or not to_be_reset
        if happens.xid in (94, 48):
            assert is_out
        elif not was_out:
            assert not is_out
        if len(falls) >= 3 and falls[-1] - falls[-3] < health.WINDOW_S * S and was_out:
            assert is_out


@given(LOOKS)
def test_a_clearing_ends_whatever_there_is_and_only_once(looks: list[Happens]) -> None:
    record, now = HealthRecord(), S
    for happens in looks:
        now += happens.after_s * S
        xid = happens.xid or 94
        record = health.after_xid(
            record, node(happens.state), gpu_uuid="GPU-0", xid=xid, instance=None, now=now
        )
        cleared = health.under(record, RULES, f"at {now}")
        assert not cleared.verdicts
        struck = health.after_xid(
            cleared, node(happens.state), gpu_uuid="GPU-0", xid=94, instance=None, now=now
        )
        assert health.under(struck, RULES, f"at {now}") == struck
