"""What XIDs make of devices: by which rules, and the verdicts, which outlive a process.

A sharing text gives the rules, the advertiser makes the verdicts and keeps both in its inventory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RECOVER_AFTER_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """Which XIDs make a device sick, and after how long without one it is served again.

    `ignore` and `fatal` are exceptions from the advertiser's list of errors of the application.
    `recover_after_s` None: never by itself.
    """

    ignore: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()
    recover_after_s: int | None = RECOVER_AFTER_S


DEFAULT_RULES = HealthRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What XIDs have made of one device, a GPU or a MIG device.

    `falls` are when it fell sick (ns), the last one last; while it is not `standing` the device is
    served, and only its falls are remembered. `was_reset`: it was lost since, and so came back
    anew. `quiet_ns` is since when nothing has been wrong with it (0: since the next look); it moves
    with each look and never makes two verdicts differ.
    """

    uuid: str
    gpu_uuid: str
    xid: int
    falls: tuple[int, ...]
    standing: bool = True
    was_reset: bool = False
    quiet_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """The rules in force, the verdicts by them, and the last clearing that was followed."""

    rules: HealthRules = DEFAULT_RULES
    cleared: str = ""
    verdicts: tuple[Verdict, ...] = ()


NO_VERDICTS = HealthRecord()
