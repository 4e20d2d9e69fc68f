"""`sharing.timeSlicing` or `sharing.mps` to shared resources, every entry checked on its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.domain.errors import Place
from shared.domain.sharing import SharedResource
from shared.sharing import devices, names, tree
from shared.sharing.fields import Field

MOST_IDS = 20_000  # of one resource: the kubelet takes messages of 4 MiB


@dataclass(frozen=True, slots=True)
class Section:
    """One strategy's section; `fail_requests` is None where the text leaves it out."""

    resources: tuple[SharedResource, ...] = ()
    fail_requests: bool | None = None
    fail_requests_place: Place = field(default=Place())


def read(section: Field) -> Section:
    """Read a section; `section.path` is `sharing.timeSlicing` or `sharing.mps`."""
    if section.is_null:
        section.report(f"nothing stands here: {section.path}.resources is missing", _EXAMPLE)
        return Section()
    fields = section.mapping(section.path)
    rename_all = _flag(fields.get("renameByDefault")) or False
    fail = fields.get("failRequestsGreaterThanOne")
    fail_requests = _flag(fail)
    if not isinstance(section.node, tree.Mapping):
        return Section()
    if "resources" not in fields:
        section.report(f"{section.path}.resources is missing", _EXAMPLE)
        return Section()
    listed = fields["resources"].items("resources, each with name and replicas")
    if listed == ():
        fields["resources"].report("the list is empty", _EXAMPLE)
    found = [(item, _entry(item, rename_all)) for item in listed or ()]
    _refuse_doubles(found)
    return Section(
        resources=tuple(entry for _, entry in found if entry is not None),
        fail_requests=fail_requests,
        fail_requests_place=Place() if fail is None else fail.place,
    )


_EXAMPLE = "write resources: [{name: nvidia.com/gpu, replicas: 4}]"


def _flag(value: Field | None) -> bool | None:
    return None if value is None or value.is_null else value.boolean()


def _entry(item: Field, rename_all: bool) -> SharedResource | None:
    fields = item.mapping(f"{item.path.rpartition('[')[0]}[]")
    if not isinstance(item.node, tree.Mapping):
        return None
    for key in ("name", "replicas"):
        if key not in fields:
            item.report(f"{key} is missing")
    name = names.read_name(fields["name"]) if "name" in fields else None
    replicas = _replicas(fields["replicas"]) if "replicas" in fields else None
    rename = names.read_rename(fields["rename"]) if "rename" in fields else None
    refs = devices.read(fields["devices"]) if "devices" in fields else None
    if name is None or replicas is None:
        return None
    if rename is None and rename_all and replicas > 1:  # an unshared row is nothing to rename
        rename = name + names.SHARED_SUFFIX
    return SharedResource(
        name=name,
        replicas=replicas,
        rename=None if rename == name else rename,
        devices=None if refs is None else tuple(ref for ref, _ in refs),
        place=item.place,
        replicas_place=fields["replicas"].place,
        device_places=() if refs is None else tuple(place for _, place in refs),
    )


def _replicas(value: Field) -> int | None:
    replicas = value.integer(1)
    if replicas is not None and replicas > MOST_IDS:
        value.report(
            f"{replicas} replicas are more than the {MOST_IDS} ids that one resource may have",
            f"write at most {MOST_IDS} for one GPU, less for more GPUs",
        )
        return None
    return replicas


def _refuse_doubles(found: list[tuple[Field, SharedResource | None]]) -> None:
    """Refuse a resource that two entries take, unless each names devices of its own.

    That two different texts ("0" and a UUID) are one device shows only on the hardware.
    """
    seen: dict[tuple[str, str], Field] = {}
    sharers: dict[str, Field] = {}
    for item, entry in found:
        if entry is None:
            continue
        refs = ("",) if entry.devices is None else entry.devices
        first = next((seen[entry.name, ref] for ref in refs if (entry.name, ref) in seen), None)
        if first is None and (entry.devices is None or (entry.name, "") in seen):
            first = sharers.get(entry.name)
        if first is not None:
            item.report(
                f"{entry.name} stands in two entries, first on line {first.place.line}, column"
                f" {first.place.column}, and they cover the same devices",
                "keep one, or give each its own devices",
            )
        sharers.setdefault(entry.name, item)
        for ref in refs:
            seen.setdefault((entry.name, ref), item)
