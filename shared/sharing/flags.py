"""`flags`, `resources` and `imex` of NVIDIA's configuration: all names accepted, values typed.

Two of them steer sharing here: `migStrategy` and `plugin.sharedDevicesAllocationPolicy`. The
others configure NVIDIA's own programs; a text that sets them is accepted with one warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.domain.sharing import AllocationPolicy, MigStrategy
from shared.sharing import scalars, suggest, tree
from shared.sharing.fields import Field

_LIST_STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
_DURATION = re.compile(r"infinite|0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+")
_POLICIES = (AllocationPolicy.DISTRIBUTED, AllocationPolicy.PACKED)  # those that NVIDIA has


@dataclass(slots=True)
class Flags:
    """What the flags say about sharing, and the fields nothing here acts on."""

    mig_strategy: MigStrategy | None = None
    policy: AllocationPolicy | None = None
    policy_field: Field | None = None
    unused: list[Field] = field(default_factory=list)


def read(root: Mapping[str, Field]) -> Flags:
    """Read the three sections from the top-level fields of a text."""
    flags = Flags()
    _group(root, "flags", "flags", flags, _FLAGS | {"plugin": _plugin, "gfd": _gfd})
    _group(root, "resources", "resources", flags, {"gpus": _gpu_names, "mig": _mig_names})
    _group(root, "imex", "imex", flags, {"channelIDs": _channels, "required": _boolean})
    _warn_of_unused(flags)
    return flags


Reader = Callable[[Field, Flags], object]


def _group(
    parent: Mapping[str, Field], key: str, home: str, flags: Flags, readers: Mapping[str, Reader]
) -> None:
    if key not in parent or parent[key].is_null:
        return
    for name, value in parent[key].mapping(home).items():
        if not value.is_null:  # NVIDIA's parser takes null as "not set"
            readers[name](value, flags)


def _plugin(value: Field, flags: Flags) -> None:
    _group({"plugin": value}, "plugin", "flags.plugin", flags, _PLUGIN)


def _gfd(value: Field, flags: Flags) -> None:
    _group({"gfd": value}, "gfd", "flags.gfd", flags, _GFD)


def _mig_strategy(value: Field, flags: Flags) -> None:
    flags.mig_strategy = value.member(MigStrategy) or flags.mig_strategy


def _policy(value: Field, flags: Flags) -> None:
    word = value.choice([policy.value for policy in _POLICIES])
    if word is not None:
        flags.policy = AllocationPolicy(word)
        flags.policy_field = value


def _unused(read_value: Callable[[Field], object]) -> Reader:
    """Make a reader that checks a value and notes that nothing acts on it."""

    def reader(value: Field, flags: Flags) -> None:
        read_value(value)
        flags.unused.append(value)

    return reader


def _strategies(value: Field) -> None:
    items = value.items("strategies") if isinstance(value.node, tree.Sequence) else (value,)
    for item in items or ():
        item.choice(_LIST_STRATEGIES)


def _duration(value: Field) -> None:
    node = value.node
    if isinstance(node, tree.Scalar):
        resolved = scalars.resolve(node.text, plain=node.plain)
        if isinstance(resolved, int | float) and not isinstance(resolved, bool):
            return  # NVIDIA's parser reads a bare number as nanoseconds
    text = value.text('a duration like "60s", or infinite')
    if text is not None and not _DURATION.fullmatch(text):
        value.report(f'found {value.found()}, accepted is a duration like "60s", or infinite')


def _patterns(home: str) -> Callable[[Field], None]:
    def read_patterns(value: Field) -> None:
        for item in value.items("mappings with pattern and name") or ():
            fields = item.mapping(home)
            for key in ("pattern", "name"):
                if key in fields:
                    fields[key].text()
                elif isinstance(item.node, tree.Mapping):
                    item.report(f"{key} is missing")

    return read_patterns


def _channel_ids(value: Field) -> None:
    items = value.items("channel ids: [] or [0]") or ()
    numbers = [item.integer(0) for item in items]
    if None not in numbers and numbers not in ([], [0]):
        value.report("accepted channel ids are [] or [0]")


def _choice(*options: str) -> Callable[[Field], object]:
    return lambda value: value.choice(options)


def _warn_of_unused(flags: Flags) -> None:
    if not flags.unused:
        return
    first = flags.unused[0]
    paths = suggest.listed(value.path for value in flags.unused)
    message = f"accepted for NVIDIA's programs, slicewire does not act on: {paths}"
    first.findings.warn(first.key_place, first.path, message)


_boolean = _unused(Field.boolean)
_text = _unused(Field.text)
_channels = _unused(_channel_ids)
_gpu_names = _unused(_patterns("resources.gpus[]"))
_mig_names = _unused(_patterns("resources.mig[]"))

_FLAGS: dict[str, Reader] = {
    "migStrategy": _mig_strategy,
    "failOnInitError": _boolean,
    "mpsRoot": _text,
    "nvidiaDriverRoot": _text,
    "nvidiaDevRoot": _text,
    "gdrcopyEnabled": _boolean,
    "gdsEnabled": _boolean,
    "mofedEnabled": _boolean,
    "useNodeFeatureAPI": _boolean,
    "deviceDiscoveryStrategy": _unused(_choice("auto", "nvml", "tegra", "vfio")),
}
_PLUGIN: dict[str, Reader] = {
    "passDeviceSpecs": _boolean,
    "deviceListStrategy": _unused(_strategies),
    "deviceIDStrategy": _unused(_choice("uuid", "index")),
    "cdiAnnotationPrefix": _text,
    "nvidiaCTKPath": _text,
    "containerDriverRoot": _text,
    "sharedDevicesAllocationPolicy": _policy,
}
_GFD: dict[str, Reader] = {
    "oneshot": _boolean,
    "noTimestamp": _boolean,
    "sleepInterval": _unused(_duration),
    "outputFile": _text,
    "machineTypeFile": _text,
}
