"""A proposed MIG layout → the words that try it offline, and those that ask for it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from shared.contract.messages import Inventory, Ledger
from shared.domain import slots
from shared.domain.gpu import Gpu
from shared.waiting.reasons import Proposal

NAME = "proposed"
SHARING = "{version: v1, flags: {migStrategy: mixed}}"


def text(proposal: Proposal) -> str:
    """The MIG text that has the layout, on one line; GPUs that it does not name are left alone."""
    counts = ", ".join(f"{profile}: {count}" for profile, count in proposal.layout)
    row = f"{{devices: [{proposal.gpu}], mig-enabled: true, mig-devices: {{{counts}}}}}"
    return f"{{version: v1, mig-configs: {{{NAME}: [{row}]}}}}"


def trial(
    proposal: Proposal,
    inventory: Inventory,
    ledger: Ledger | None,
    model: Callable[[str], str],
) -> str:
    """The command that plays it on paper; `model` says which catalogue name a product has."""
    groups = itertools.groupby(model(gpu.model) for gpu in inventory.gpus)
    gpus = ",".join(f"{name}={len(list(each))}" for name, each in groups)
    parts = (
        f"--sharing <(echo '{SHARING}')",
        f"--gpus {gpus}",
        f"--state <(echo '{_state(inventory.gpus, ledger)}')",
        f"--mig <(echo '{text(proposal)}')",
        f"--mig-config {NAME}",
    )
    return " ".join(("slicewire plan", *parts))


def request(proposal: Proposal) -> str:
    """The command that asks for it, once the text has it."""
    return f"kubectl label node {proposal.node} nvidia.com/mig.config={NAME} --overwrite"


def _state(gpus: Iterable[Gpu], ledger: Ledger | None) -> str:
    """The GPUs as they are, in the form of `plan --state`."""
    pods = {
        slots.device_of(row.slot): row.holder.pod_key
        for row in (ledger.rows if ledger else ())
        if row.holder is not None
    }
    cut = [gpu for gpu in gpus if gpu.mig_enabled]
    modes = ", ".join(f"{gpu.index}: on" for gpu in cut)
    layouts = ", ".join(f"{gpu.index}: [{_instances(gpu, pods)}]" for gpu in cut)
    return f"{{mode: {{{modes}}}, instances: {{{layouts}}}}}"


def _instances(gpu: Gpu, pods: dict[str, str]) -> str:
    return ", ".join(
        f"{{profile: {each.profile}, start: {each.start}"
        + (f", holder: {pods[each.uuid]}}}" if each.uuid in pods else "}")
        for each in gpu.mig_devices
    )
