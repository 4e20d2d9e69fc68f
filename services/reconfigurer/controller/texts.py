"""The sharing ConfigMap as the watch shows it, and its texts read and held against hardware. Pure.

`intent` chooses among them; a fleet's nodes share the work of reading.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.contract.messages import Source
from shared.domain.errors import Problem, RefusedError
from shared.domain.gpu import Gpu
from shared.domain.sharing import UNSHARED, SharingConfig, SourceKind
from shared.sharing import load, shares

TEXTS_KEPT = 128  # read texts


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """The sharing ConfigMap as the watch shows it; `data` is None where it does not exist.

    `good` remembers for each key the newest text that can be read, with its version: a bad text may
    follow a good one faster than the good one can begin to serve. `unshared` is what a node serves
    without any text, and what texts mean where they are silent.
    """

    name: str
    resource_version: str = ""
    data: Mapping[str, str] | None = None
    good: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unshared: SharingConfig = UNSHARED

    def after(self, before: ConfigMap) -> ConfigMap:
        """The same with what is remembered: its own good texts, and for bad ones those before."""
        unshared = before.unshared
        if not self.data:
            return dataclasses.replace(self, good=before.good, unshared=unshared)
        good = {key: found for key, found in before.good.items() if key in self.data}
        for key, text in self.data.items():
            if isinstance(_loaded(text, unshared), SharingConfig):
                good[key] = (self.resource_version, text)
        return dataclasses.replace(self, good=good, unshared=unshared)

    def read(self, text: str, gpus: tuple[Gpu, ...]) -> SharingConfig | tuple[Problem, ...]:
        """Read one of its texts and hold it against the hardware, once there is an inventory."""
        read = _loaded(text, self.unshared)
        if not isinstance(read, SharingConfig):
            return read
        return misfits(read, gpus) or read

    def source(self, kind: SourceKind, key: str) -> Source:
        """Say that a node's sharing comes from one of the keys."""
        version = self.resource_version
        return Source(kind=kind, config_map=self.name, key=key, resource_version=version)


@functools.lru_cache(maxsize=TEXTS_KEPT)
def _loaded(text: str, unshared: SharingConfig) -> SharingConfig | tuple[Problem, ...]:
    try:
        return load.load(text, unshared)
    except RefusedError as refusal:
        return refusal.problems


def misfits(sharing: SharingConfig, gpus: tuple[Gpu, ...]) -> tuple[Problem, ...]:
    """What of a sharing these GPUs cannot do; nothing is known before there are any."""
    try:
        shares.shares(gpus, sharing)
    except RefusedError as refusal:
        return refusal.problems if gpus else ()
    return ()
