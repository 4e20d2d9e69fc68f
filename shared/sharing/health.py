"""`slicewire.health` of a sharing text: which XIDs count, and when a device is served again.

`load` calls it; the advertiser judges by what comes out.
"""

from __future__ import annotations

import re

from shared.domain.health import DEFAULT_RULES, RECOVER_AFTER_S, HealthRules
from shared.sharing import scalars
from shared.sharing.fields import Field
from shared.sharing.tree import Scalar

NEVER = "never"
LONGEST_S = 24 * 3600
_ACCEPTED = 'a duration like "60s", "5m" or "1h30m", or never'
_DURATION = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?")


def read(field: Field) -> HealthRules:
    """Read the section; what is left out of it, or is empty, is as without it."""
    if field.is_null:
        return DEFAULT_RULES
    found = {
        name: value
        for name, value in field.mapping("slicewire.health").items()
        if not value.is_null
    }
    ignore = _xids(found.get("ignore"))
    fatal = _xids(found.get("fatal"))
    _refuse_both(ignore, fatal)
    recover_after_s: int | None = RECOVER_AFTER_S
    if "recoverAfter" in found:
        recover_after_s = _seconds(found["recoverAfter"])
    return HealthRules(
        ignore=tuple(sorted(ignore)), fatal=tuple(sorted(fatal)), recover_after_s=recover_after_s
    )


def _xids(field: Field | None) -> dict[int, Field]:
    """Read a list of XIDs, each once, with the place where it stands."""
    found: dict[int, Field] = {}
    for item in (field.items("XIDs, such as [94]") or ()) if field is not None else ():
        xid = item.integer(1)
        if xid in found:
            item.report(f"XID {xid} stands twice in one list", "keep one of the two")
        elif xid is not None:
            found[xid] = item
    return found


def _refuse_both(ignore: dict[int, Field], fatal: dict[int, Field]) -> None:
    for xid in sorted(ignore.keys() & fatal.keys()):
        first, second = sorted(
            (ignore[xid], fatal[xid]), key=lambda item: (item.place.line, item.place.column)
        )
        message = f"XID {xid} is to be ignored and to be fatal, see {first.path}"
        second.report(f"{message} on line {first.place.line}", "keep it in one of the two lists")


def _seconds(field: Field) -> int | None:
    """Read a duration of whole seconds, or `never`, which is None."""
    number = scalars.number_spelling(field.node.text) if isinstance(field.node, Scalar) else ""
    if number:
        hint = f"{number}s" if _in_bounds(int(number)) else NEVER
        field.report(f"found {field.found()}, accepted is {_ACCEPTED}", f"write {hint}")
        return None
    text = field.text(_ACCEPTED)
    if text is None or text == NEVER:
        return None
    read = _DURATION.fullmatch(text)
    if read is None:
        hint = f"write {NEVER}" if text.lower() == NEVER else ""
        field.report(f"found {field.found()}, accepted is {_ACCEPTED}", hint)
        return None
    hours, minutes, seconds = (int(part or 0) for part in read.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if not _in_bounds(total):
        field.report(f"found {field.found()}, accepted is from 1s to 24h", f"or write {NEVER}")
        return None
    return total


def _in_bounds(seconds: int) -> bool:
    return 1 <= seconds <= LONGEST_S
