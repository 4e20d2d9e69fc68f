"""Resource names: the prefix put in, the form checked, `.me` and `.shared` explained."""

from __future__ import annotations

import re
from collections.abc import Callable

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
    name = _full(field, _device_hint)
    if name is None or _is_device(name):
        return name
    field.report(f"no device has the resource {name}, accepted: {_DEVICES}", _device_hint(name))
    return None


def read_rename(field: Field) -> str | None:
    """Read the name that a shared resource is to be advertised under, with its prefix."""
    return _full(field, _did_you_mean)


def _full(field: Field, hint: Callable[[str], str]) -> str | None:
    """Read a well-formed name; `hint` makes a suggestion of what a wrong one probably meant."""
    written = field.text("a resource name like nvidia.com/gpu")
    if written is None:
        return None
    name = _prefixed(written)
    short = name.removeprefix(PREFIX)
    better = _repaired(written)
    suggestion = hint(better) if better else ""
    if len(name) > _LONGEST:
        field.report(f"{field.found()} makes {len(name)} characters, at most {_LONGEST} fit")
    elif "/" in short:
        field.report(f"found {field.found()}, accepted are names under {PREFIX}", suggestion)
    elif not _SUBDOMAIN.fullmatch(short):
        field.report(
            f"{field.found()} is no resource name: lower-case letters, digits, '-' and '.'",
            suggestion,
        )
    else:
        return name
    return None


def _prefixed(written: str) -> str:
    return written if written.startswith(PREFIX) else PREFIX + written


def _repaired(written: str) -> str:
    """Return the well-formed name that is nearest to what was written, "" if none is near."""
    spelled = re.sub(r"[\s_]+", "-", written.strip().lower())
    name = _prefixed(spelled.replace("+", "."))
    return name if _SUBDOMAIN.fullmatch(name.removeprefix(PREFIX)) else ""


def _is_device(name: str) -> bool:
    return name == GPU_RESOURCE or _MIG.fullmatch(name) is not None


def _device_hint(name: str) -> str:
    """Say how to name the devices that the writer of a well-formed name probably meant."""
    short = name.removeprefix(PREFIX)
    whole = re.sub("^mig-[0-9]+c[.]", "mig-", short)  # of a part of a GPU instance
    near = (PREFIX + each for each in (short, f"mig-{short}", whole))
    found = next(filter(_is_device, near), "")
    if found:
        return _did_you_mean(found)
    if name.endswith(SHARED_SUFFIX):
        return f'did you mean "{name.removesuffix(SHARED_SUFFIX)}" with renameByDefault: true?'
    return f'to call it so, write name: {GPU_RESOURCE} and rename: "{name}"'


def _did_you_mean(name: str) -> str:
    return f'did you mean "{name}"?'
