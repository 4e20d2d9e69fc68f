"""Settings of the controller: flags and variables; `values` makes them from the chart's values."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from services.reconfigurer.controller import cordon
from services.reconfigurer.controller.attempt import Policy
from services.reconfigurer.controller.eviction import Answer
from shared.bus import settings as bus_settings
from shared.bus.login import Login
from shared.contract import names, table
from shared.contract.keys import Key
from shared.contract.messages import Drift, MigPolicy
from shared.contract.table import Role
from shared.domain.sharing import AllocationPolicy, MigStrategy, SharingConfig
from shared.sharing import select, suggest

RULE_FIELDS = {"key": "key", "product": "product", "pciId": "pci_id", "labels": "labels"}
_DUE = {
    "product": 'a text like "NVIDIA A100*"',
    "pciId": 'a quoted id like "0x20B510DE", device before vendor',
    "labels": "a mapping of labels to quoted texts",
}


def read_rules(given: object) -> object:
    """Read selection rules, which flags, variables and charts hold as JSON text.

    Raises:
        ValueError: with the number of the rule, what is wrong and what to write.
    """
    if not isinstance(given, str):
        return given
    rules = json.loads(given)
    if not isinstance(rules, list):
        raise ValueError("a JSON list of rules is due")  # noqa: TRY004 - pydantic reports these
    return tuple(_rule(number, rule) for number, rule in enumerate(rules, start=1))


def _rule(number: int, rule: Any) -> select.Rule:
    if not isinstance(rule, Mapping):
        raise ValueError(f"rule {number} is not a JSON object")  # noqa: TRY004 - as above
    for name in rule.keys() - RULE_FIELDS.keys():
        hint = suggest.did_you_mean(name, RULE_FIELDS) or f"known are {', '.join(RULE_FIELDS)}"
        raise ValueError(f"rule {number} has an unknown field {name}: {hint}")
    if not rule.get("key") or not isinstance(rule["key"], str):
        raise ValueError(f"rule {number} names no key of the ConfigMap")
    if not rule.keys() - {"key"}:
        raise ValueError(
            f"rule {number} states no product, pciId or labels: name its key as defaultKey instead"
        )
    for name in rule.keys() & _DUE.keys():
        if not _is_due(name, rule[name]):
            raise ValueError(f"rule {number}, {name}: found {rule[name]!r}, due is {_DUE[name]}")
    return select.Rule(**{RULE_FIELDS[name]: value for name, value in rule.items()})


def _is_due(name: str, value: object) -> bool:
    """Whether a condition of a rule could ever hold; one that is empty would hold everywhere."""
    if name == "labels":
        texts = value.items() if isinstance(value, Mapping) else ()
        return bool(texts) and all(isinstance(text, str) for pair in texts for text in pair)
    form = "0[xX][0-9a-fA-F]{8}" if name == "pciId" else ".+"
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def read_accounts(given: object) -> object:
    """Read which service account has which role, from JSON text.

    Raises:
        ValueError: what is due instead.
    """
    accounts = json.loads(given) if isinstance(given, str) else given
    if not isinstance(accounts, dict) or set(accounts.values()) - set(table.NODE_ROLES):
        raise ValueError(
            'a JSON object is due, such as {"slicewire:advertiser": "advertiser"}; roles are '
            + ", ".join(table.NODE_ROLES)
        )
    return accounts


class ControllerSettings(bus_settings.BusSettings):
    """Follow nodes and the sharing ConfigMap, and say what each node is to offer."""

    namespace: str = Field(
        default="slicewire", min_length=1, description="namespace of the ConfigMap and the Lease"
    )
    config_map: str = Field(
        default="sharing", min_length=1, description="name of the ConfigMap with sharing texts"
    )
    config_label: str = Field(
        default=names.CONFIG_LABEL, min_length=1, description="node label that names a key of it"
    )
    default_key: str = Field(
        default="", description="key of nodes that no label and no rule says anything about"
    )
    selection_rules: Annotated[tuple[select.Rule, ...], BeforeValidator(read_rules)] = Field(
        default=(), description="rules that choose a key by product, pciId or labels, as JSON"
    )
    mig_strategy: MigStrategy = Field(
        default=MigStrategy.NONE,
        description="how MIG devices are named where a text says nothing: none, single or mixed",
    )
    allocation_policy: AllocationPolicy = Field(
        default=AllocationPolicy.DISTRIBUTED,
        description="which free slot is proposed where a text says nothing: distributed, packed"
        " or distinct",
    )
    mig_config_map: str = Field(
        default="mig", min_length=1, description="name of the ConfigMap with the MIG text"
    )
    mig_default: str = Field(
        default="", description="MIG layout of nodes that no label says anything about"
    )
    mig_max_unavailable: str = Field(
        default="1",
        pattern=r"^([1-9][0-9]*|[1-9][0-9]?%|100%)$",
        description="how many nodes may change their MIG layout at a time, or what part of them",
    )
    mig_reboot: bool = Field(
        default=False, description="whether a node may be rebooted where nothing else helps"
    )
    mig_drift: Drift = Field(
        default=Drift.REPAIR, description="report or repair MIG instances changed by hand"
    )
    drain_cordon: cordon.Policy = Field(
        default=cordon.Policy.BRIEF,
        description="how long a node that changes takes no new pods: brief, whole or never",
    )
    drain_timeout_seconds: float = Field(
        default=300.0, gt=0, description="how long pods in the way of a change are waited for"
    )
    drain_bare_pods: Answer = Field(
        default=Answer.EVICT, description="evict, or fail where a pod has no controller"
    )
    drain_daemon_set_pods: Answer = Field(
        default=Answer.EVICT, description="evict, or fail where a pod belongs to a DaemonSet"
    )
    waiting_event_seconds: float = Field(
        default=30.0, ge=0, description="after how long a pending pod is told why, 0 for never"
    )
    lease_name: str = Field(
        default=names.LEASE, min_length=1, description="Lease that says which controller leads"
    )
    lease_seconds: float = Field(
        default=15.0, ge=1, description="how long a leader that died is waited for"
    )
    api_url: str = Field(
        default="", description="plain address of an API server without authentication"
    )
    kube_config: str = Field(
        default="", description="kubeconfig file; without it the pod's own account is used"
    )
    bus_keys_dir: pathlib.Path | None = Field(
        default=None,
        description="folder of the installation's keys: log in by one, and say who else may",
    )
    bus_audience: str = Field(
        default=names.BUS_AUDIENCE, min_length=1, description="audience of tokens for the bus"
    )
    bus_accounts: Annotated[Mapping[str, Role], BeforeValidator(read_accounts)] = Field(
        default={}, description="role of each service account, NAMESPACE:NAME: ROLE, as JSON"
    )

    @property
    def login(self) -> Login:
        """What is shown at the bus: the installation's key of the controller, or a password."""
        if self.bus_keys_dir is None:
            return super().login
        return Login(seed_file=self.bus_keys_dir / Key.CONTROLLER.seed_file)

    @property
    def choice(self) -> select.Choice:
        """How a key is chosen for a node."""
        return select.Choice(
            label=self.config_label, rules=self.selection_rules, key=self.default_key
        )

    @property
    def unshared(self) -> SharingConfig:
        """What nodes without a text serve, and what texts mean where they are silent."""
        return SharingConfig(
            mig_strategy=self.mig_strategy, allocation_policy=self.allocation_policy
        )

    @property
    def mig_policy(self) -> MigPolicy:
        """What agents may do by themselves."""
        return MigPolicy(
            reboot=self.mig_reboot,
            drift=self.mig_drift,
            drain_ns=int(self.drain_timeout_seconds * 1e9),
        )

    @property
    def drain(self) -> Policy:
        """What a node that changes goes through."""
        return Policy(
            cordon=self.drain_cordon,
            timeout_s=self.drain_timeout_seconds,
            bare_pods=self.drain_bare_pods,
            daemon_set_pods=self.drain_daemon_set_pods,
            max_unavailable=self.mig_max_unavailable,
        )
