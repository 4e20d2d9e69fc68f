"""A text of mig-parted to a `GeometryConfig`, strictly: every key, scalar and profile name.

Called by the controller for each new text and by `slicewire plan`. Whether profiles exist and fit
depends on the board, so `resolve` says that.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection

from shared.geometry import profiles
from shared.geometry.config import GeometryConfig, Row, Share
from shared.sharing import foreign, suggest, tree
from shared.sharing.fields import Field
from shared.sharing.findings import Findings

_TOP = ("version", "mig-configs")
_ROW = ("device-filter", "devices", "mig-enabled", "mig-devices")
_OPTIONAL = ("device-filter", "mig-devices")
_PCI_ID = re.compile(r"0[xX][0-9a-fA-F]{8}")
_FILTER = 'a PCI id in quotes, like "0x20B210DE", or a list of them'
_NO_FILTER = "leave device-filter out"
_EXAMPLE = "write - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}"


def load(text: str) -> GeometryConfig:
    """Read a text.

    Raises:
        RefusedError: with every problem of the text, in reading order.
    """
    findings = Findings()
    documents = tree.documents(text, findings)
    for document in documents:
        foreign.refuse(document, findings)
    if len(documents) > 1:
        second = documents[1].place
        findings.add(second, "", "a second YAML document starts here", "keep one document")
    config = GeometryConfig()
    if documents:
        config = _config(Field("", documents[0], findings, documents[0].place))
    findings.settle()
    return dataclasses.replace(config, warnings=tuple(findings.warnings))


def _config(root: Field) -> GeometryConfig:
    fields = _keys(root, _TOP)
    if "version" in fields:
        fields["version"].choice(("v1",))
    else:
        root.report("version is missing", "write version: v1")
    if "mig-configs" not in fields:
        return GeometryConfig()
    configs = fields["mig-configs"]
    named = configs.entries("a mapping with a name for each layout")
    if not named and isinstance(configs.node, tree.Mapping):
        configs.report("the mapping is empty", "write a name with its rows, or leave it out")
    return GeometryConfig(names={name: _rows(field) for name, field in named.items()})


def _keys(field: Field, known: Collection[str]) -> dict[str, Field]:
    return field.keys(known, lambda name: suggest.did_you_mean(name, known))


def _rows(field: Field) -> tuple[Row, ...]:
    items = field.items("rows")
    if items == ():
        field.report("the list is empty", _EXAMPLE)
    rows = (_row(item) for item in items or ())
    return tuple(row for row in rows if row is not None)


def _row(item: Field) -> Row | None:
    fields = {
        key: value
        for key, value in _keys(item, _ROW).items()
        if not (key in _OPTIONAL and value.is_null)  # as if it were left out, also to mig-parted
    }
    if not isinstance(item.node, tree.Mapping):
        return None
    missing = [key for key in ("devices", "mig-enabled") if key not in fields]
    for key in missing:
        item.report(f"{key} is missing", _EXAMPLE)
    devices = _devices(fields["devices"]) if "devices" in fields else None
    filters = _filters(fields["device-filter"]) if "device-filter" in fields else ()
    enabled = fields["mig-enabled"].boolean() if "mig-enabled" in fields else None
    shares = _shares(fields["mig-devices"]) if "mig-devices" in fields else None
    if enabled is None:
        return None
    _check_mode(item, fields.get("mig-devices"), enabled=enabled)
    return Row(
        path=item.path,
        enabled=enabled,
        shares=shares or (),
        devices=devices,
        filters=filters,
        place=item.place,
    )


def _check_mode(item: Field, devices: Field | None, *, enabled: bool) -> None:
    if enabled and devices is None:
        hint = "write mig-devices: {} for a GPU without instances"
        item.report("mig-enabled is true and mig-devices is missing", hint)
    if not enabled and devices is not None and _has_entries(devices):
        devices.report_key("mig-enabled is false, so there can be no mig-devices", "leave them out")


def _has_entries(field: Field) -> bool:
    return isinstance(field.node, tree.Mapping) and bool(field.node.entries)


def _devices(field: Field) -> tuple[int, ...] | None:
    """Read `all` or a list of indexes; None for all."""
    if isinstance(field.node, tree.Sequence):
        indexes = (item.integer(-math.inf) for item in field.items("indexes") or ())
        return tuple(index for index in indexes if index is not None)
    if not (isinstance(field.node, tree.Scalar) and field.node.text == "all"):
        text = field.node.text if isinstance(field.node, tree.Scalar) else ""
        hint = "write all" if text.lower() == "all" else ""
        hint = f"write [{text}]" if text.isdecimal() else hint
        field.report(f"found {field.found()}, accepted: all, or a list of GPU indexes", hint)
    return None


def _filters(field: Field) -> tuple[int, ...]:
    if isinstance(field.node, tree.Sequence):
        items = field.items(_FILTER) or ()
        if not items:
            field.report(f"the list is empty, accepted is {_FILTER}", _NO_FILTER)
        read = [_filter(item) for item in items]
    else:
        read = [_filter(field)]
    return tuple(each for each in read if each is not None)


def _filter(field: Field) -> int | None:
    node = field.node
    text = node.text if isinstance(node, tree.Scalar) else ""
    quoted = isinstance(node, tree.Scalar) and not node.plain
    if quoted and _PCI_ID.fullmatch(text):
        return int(text, 16)
    field.report(f"found {_written(field)}, accepted is {_FILTER}", _filter_hint(text))
    return None


def _written(field: Field) -> str:
    """Say what stands there as other loaders see it: a bare 0x20B710DE is a number to them."""
    node = field.node
    if isinstance(node, tree.Scalar) and node.plain and re.match(r"0[xX]", node.text):
        return f"the number {suggest.shorten(node.text)}"
    return field.found()


def _filter_hint(text: str) -> str:
    if not text:
        return _NO_FILTER
    if _PCI_ID.fullmatch(text):
        return f'quote it: write "{text}"'
    digits = re.fullmatch(r"(?:0[xX])?([0-9a-fA-F]{4})", text)
    return f'write "0x{digits[1].upper()}10DE"' if digits else ""


def _shares(field: Field) -> tuple[Share, ...]:
    entries = field.entries("a mapping of profiles and counts, like {1g.10gb: 7}")
    found = []
    for name, value in entries.items():
        count = value.integer(0)
        if profiles.parse(name) is None:
            hint = profiles.spelling(name)
            message = f'"{suggest.shorten(name)}" is no MIG profile: they are like 1g.10gb+me'
            value.report_key(message, f"write {hint}" if hint else "")
        elif count is not None:
            found.append(Share(profile=name, count=count, place=value.key_place))
    counts = [share.count for share in found]
    if counts and len(counts) == len(entries) and not any(counts):
        field.report("every count is 0", "write {} for a GPU without instances")
    return tuple(found)
