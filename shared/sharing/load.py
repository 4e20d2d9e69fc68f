"""A sharing text to a `SharingConfig`, strictly: the only reader of what users write.

Called by the controller for each new text and by `slicewire plan`. What is refused here never
reaches a node; the last good config goes on serving.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from shared.domain.errors import Place, Problem
from shared.domain.sharing import UNSHARED, AllocationPolicy, SharingConfig, Strategy
from shared.sharing import entries, flags, foreign, health, tree
from shared.sharing.fields import Field
from shared.sharing.findings import Findings

_STRATEGIES = {"timeSlicing": Strategy.TIME_SLICING, "mps": Strategy.MPS}
_LATER = ("vram", "injectCudaVisibleDevices")
ONE_DAEMON = (
    "each GPU has an MPS daemon of its own, so a container that gets slots of two GPUs is refused"
)
NOTHING_SHARED = "the text shares nothing: every GPU is advertised whole"


def load(text: str, unshared: SharingConfig = UNSHARED) -> SharingConfig:
    """Read a sharing text.

    Args:
        text: what stands under a key of the ConfigMap.
        unshared: what a text that says nothing means; others get its MIG strategy and allocation
            policy where they are silent.

    Raises:
        RefusedError: with every problem of the text, in reading order.
    """
    findings = Findings()
    root = _single_document(text, findings)
    if root is None:
        findings.settle()
        nothing = Problem("", 0, 0, NOTHING_SHARED)
        return dataclasses.replace(unshared, warnings=(nothing,))
    config = _config(root, findings, unshared)
    findings.settle()
    if config.strategy is Strategy.NONE:
        findings.warn(root.place, "", NOTHING_SHARED)
    return dataclasses.replace(config, warnings=tuple(findings.warnings))


def _single_document(text: str, findings: Findings) -> Field | None:
    documents = tree.documents(text, findings)
    for document in documents:
        foreign.refuse(document, findings)
    if len(documents) > 1:
        second = documents[1].place
        findings.add(second, "", "a second YAML document starts here", "keep one document")
    if not documents:
        return None
    return Field("", documents[0], findings, documents[0].place)


def _config(root: Field, findings: Findings, unshared: SharingConfig) -> SharingConfig:
    if not isinstance(root.node, tree.Mapping):
        message = f"found {root.found()}, accepted is a mapping with version, flags and sharing"
        findings.stop(root.place, "", message, "write version: v1 and sharing: …")
    fields = root.mapping("")
    if "version" in fields and not fields["version"].is_null:
        fields["version"].choice(("v1",))
    stated = flags.read(fields)
    ours = _ours(fields)
    policy = _policy(ours, stated) or unshared.allocation_policy
    rules = health.read(ours["health"]) if "health" in ours else unshared.health
    mig_strategy = stated.mig_strategy or unshared.mig_strategy
    strategy, section = _sharing(fields, findings)
    if strategy is Strategy.NONE:
        return SharingConfig(mig_strategy=mig_strategy, allocation_policy=policy, health=rules)
    fail_requests = section.fail_requests
    if fail_requests is None:  # as NVIDIA's plugin has it
        fail_requests = strategy is Strategy.MPS
    elif strategy is Strategy.MPS and not fail_requests:
        path = "sharing.mps.failRequestsGreaterThanOne"
        findings.warn(section.fail_requests_place, path, ONE_DAEMON)
    return SharingConfig(
        strategy=strategy,
        resources=section.resources,
        fail_requests_greater_than_one=fail_requests,
        mig_strategy=mig_strategy,
        allocation_policy=policy,
        health=rules,
    )


def _sharing(fields: Mapping[str, Field], findings: Findings) -> tuple[Strategy, entries.Section]:
    sharing = fields.get("sharing")
    if sharing is None or sharing.is_null:
        return Strategy.NONE, entries.Section()
    named = sharing.mapping("sharing")
    sections = {name: section for name, section in named.items() if not section.is_null} or named
    read = {name: entries.read(section) for name, section in sections.items()}
    if len(sections) > 1:
        first, second = sorted(sections.values(), key=_key_order)
        second.report_key(
            f"two strategies for one node, the first is {first.path} on line"
            f" {first.key_place.line}, column {first.key_place.column}",
            "keep one of them",
        )
    for name, section in read.items():
        return _STRATEGIES[name], section
    return Strategy.NONE, entries.Section()


def _key_order(field: Field) -> tuple[int, int]:
    place: Place = field.key_place
    return place.line, place.column


def _ours(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return what stands in our own section."""
    ours = fields.get("slicewire")
    if ours is None or ours.is_null:
        return {}
    found = ours.mapping("slicewire")
    for name in _LATER:
        if name in found:
            found[name].report_key(f"{name} is not supported by this version", "leave it out")
    return found


def _policy(ours: Mapping[str, Field], stated: flags.Flags) -> AllocationPolicy | None:
    """Read our allocation policy; it and NVIDIA's flag must not contradict."""
    if "allocationPolicy" not in ours:
        return stated.policy
    field = ours["allocationPolicy"]
    policy = field.member(AllocationPolicy)
    if policy is not None and stated.policy_field is not None and policy is not stated.policy:
        other = stated.policy_field
        message = f"contradicts {other.path} on line {other.place.line}: {other.found()}"
        field.report(message, "keep one of the two")
    return policy or stated.policy
