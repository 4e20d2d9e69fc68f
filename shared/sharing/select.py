"""Which sharing text a node gets: its label, a rule, the values, or a key that speaks for itself.

Called by the controller for every node and by `slicewire plan`. Where something names a key that
is not there, nothing else is tried: serving another text than the one asked for would be worse
than keeping the last good one.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import SourceKind
from shared.sharing import labels, suggest

DEFAULT_KEY = "default"
_NO_KEYS = "the ConfigMap has no keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Chooses `key` for nodes that meet every condition it states.

    `product` is NVML's name or the label's form, with `*` and `?`; `pci_id` is `0x20B510DE`;
    one GPU of the node has to meet both. `labels` must all stand on the node with these values.
    """

    key: str
    product: str = ""
    pci_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the values say about selection: the label to look at, the rules, the named key."""

    label: str
    rules: tuple[Rule, ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class Selected:
    """What was chosen and why.

    Not `found`: the named key is missing and the last good text stays. Kind `NONE`: nothing names
    a key and no key speaks for itself. `suggestion` is the key that a missing one is near to.
    """

    kind: SourceKind
    key: str
    found: bool
    sentence: str
    suggestion: str = ""

    @property
    def problem(self) -> Problem:
        """The same for people whose node gets no text, or not the one they named."""
        return Problem("data", 0, 0, self.sentence, self.suggestion)


def select(
    node_labels: Mapping[str, str],
    gpus: tuple[Gpu, ...],
    keys: Collection[str] | None,
    choice: Choice,
) -> Selected:
    """Choose among the keys of the ConfigMap; `keys` is None where the ConfigMap is missing."""
    named = _named(node_labels, gpus, choice)
    present = keys or ()
    if named is not None:
        kind, key, who = named
        found = key in present
        if found:
            return Selected(kind, key, True, f"{who} names the key {key}")
        sentence = f"{who} names the key {key}, which is not there: {_listing(keys)}"
        return Selected(kind, key, False, sentence, suggest.did_you_mean(key, present))
    if DEFAULT_KEY in present:
        return Selected(SourceKind.DEFAULT, DEFAULT_KEY, True, "the key default is there")
    if len(present) == 1:
        only = next(iter(present))
        return Selected(SourceKind.ONLY, only, True, f"{only} is the only key")
    sentence = (
        f"nothing selects a sharing text: {_listing(keys)}; label the node {choice.label}=<key>,"
        f" name a key in the values, or call one {DEFAULT_KEY}"
    )
    return Selected(SourceKind.NONE, "", True, sentence)


def _named(
    node_labels: Mapping[str, str], gpus: tuple[Gpu, ...], choice: Choice
) -> tuple[SourceKind, str, str] | None:
    """Return the kind, key and author of the first thing that names a key."""
    label = node_labels.get(choice.label, "")
    if label:
        return SourceKind.LABEL, label, f"the node label {choice.label}"
    for number, rule in enumerate(choice.rules, start=1):
        if _meets(rule, node_labels, gpus):
            return SourceKind.RULE, rule.key, f"selection rule {number}"
    if choice.key:
        return SourceKind.KEY, choice.key, "the chart value"
    return None


def _meets(rule: Rule, node_labels: Mapping[str, str], gpus: tuple[Gpu, ...]) -> bool:
    if any(node_labels.get(name) != value for name, value in rule.labels.items()):
        return False
    if not (rule.product or rule.pci_id):
        return True
    return any(_is_product(rule, gpu) and _is_pci_id(rule, gpu) for gpu in gpus)


def _is_product(rule: Rule, gpu: Gpu) -> bool:
    names = (gpu.model, labels.product(gpu.model))
    return not rule.product or any(fnmatch.fnmatchcase(name, rule.product) for name in names)


def _is_pci_id(rule: Rule, gpu: Gpu) -> bool:
    return not rule.pci_id or rule.pci_id.lower() == f"0x{gpu.pci_device:08x}"


def _listing(keys: Collection[str] | None) -> str:
    if keys is None:
        return "the ConfigMap is missing"
    return f"the ConfigMap has the keys {suggest.listed(sorted(keys))}" if keys else _NO_KEYS
