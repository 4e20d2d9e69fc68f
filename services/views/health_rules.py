"""What the health rules of a sharing text mean → the `health` of `slicewire plan`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from services.advertiser import health
from shared.domain.health import DEFAULT_RULES, HealthRules


def form(rules: HealthRules) -> dict[str, Any]:
    """What stands only where a text has rules of its own."""
    return {} if rules == DEFAULT_RULES else {"health": _form(rules)}


def _form(rules: HealthRules) -> dict[str, Any]:
    """Which XIDs withdraw nothing, and what gives a device back; null: an operator alone."""
    unheard = health.ignored(rules)
    return {
        "ignored": sorted(unheard),
        "recoverAfterSeconds": rules.recover_after_s,
        "afterReset": sorted(health.RESET_XIDS - unheard),
    }


def sentences(rules: HealthRules) -> Iterator[str]:
    """The same for people."""
    if rules == DEFAULT_RULES:
        return
    found = _form(rules)
    if found["ignored"]:
        xids = _listed(found["ignored"])
        yield f"XID {xids} withdraws nothing, every other one its device"
    else:
        yield "every XID withdraws its device"
    if rules.recover_after_s is None:
        yield "a device is served again when an operator clears it, or the node boots"
        return
    yield f"a device is served again when it has been well for {rules.recover_after_s} s"
    if found["afterReset"]:
        yield f"after XID {_listed(found['afterReset'])} only once its GPU has been reset"


def _listed(xids: Iterable[int]) -> str:
    *others, last = map(str, xids)
    return f"{', '.join(others)} or {last}" if others else last
