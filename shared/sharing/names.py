"""Resource names: the prefix put in, the form checked, `.me` and `.shared` explained."""

from __future__ import annotations

import re

from shared.domain.sharing import GPU_RESOURCE
from shared.sharing.fields import Field

PREFIX = "nvidia.com/"
SHARED_SUFFIX = ".shared"
_LONGEST = 63  # of the whole name, as NVIDIA's plugin has it
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MIG = re.compile(r"nvidia\.com/mig-[0-9]+g\.[0-9]+gb(\.me(\.all)?|\.gfx|-me)?")
_DEVICES = f"{GPU_RESOURCE} or {PREFIX}mig-<profile>, like {PREFIX}mig-1g.10gb"


def mig_resource(profile: str) -> str:
    """Return the resource of a MIG profile under strategy mixed: `1g.10gb+me` gives `….me`."""
    return f"{PREFIX}mig-{profile.replace('+', '.')}"


def read_name(field: Field) -> str | None:
    """Read the name of a resource that devices have of their own, with its prefix."""
    name = _full(field)
    if name is None or name == GPU_RESOURCE or _MIG.fullmatch(name):
        return name
    if name.endswith(SHARED_SUFFIX):
        hint = f'did you mean "{name.removesuffix(SHARED_SUFFIX)}" with renameByDefault: true?'
    else:
        hint = f'to call it so, write name: {GPU_RESOURCE} and rename: "{name}"'
    field.report(f"no device has the resource {name}, accepted: {_DEVICES}", hint)
    return None


def read_rename(field: Field) -> str | None:
    """Read the name that a shared resource is to be advertised under, with its prefix."""
    return _full(field)


def _full(field: Field) -> str | None:
    written = field.text("a resource name like nvidia.com/gpu")
    if written is None:
        return None
    name = written if written.startswith(PREFIX) else PREFIX + written
    short = name.removeprefix(PREFIX)
    if len(name) > _LONGEST:
        field.report(f"{field.found()} makes {len(name)} characters, at most {_LONGEST} fit")
    elif "/" in short:
        field.report(f"found {field.found()}, accepted are names under {PREFIX}")
    elif not _SUBDOMAIN.fullmatch(short):
        field.report(
            f"{field.found()} is no resource name: lower-case letters, digits, '-' and '.'",
            _repaired(name),
        )
    else:
        return name
    return None


def _repaired(name: str) -> str:
    better = name.lower().replace("+", ".").replace("_", "-")
    if not _SUBDOMAIN.fullmatch(better.removeprefix(PREFIX)):
        return ""
    return f'did you mean "{better}"?'
