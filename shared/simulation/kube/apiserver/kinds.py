"""The kinds this server knows, as one table.

Store, rules, selectors, paths, tables and discovery all read it: adding a kind is adding a row,
and what has no row here is answered 404.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

STATUS = frozenset({"status"})
METADATA_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of object: how it is called, where it lives and what may be asked of it.

    Attributes:
        selectable: fields besides name and namespace that a field selector may name.
        has_generation: whether a change of spec raises metadata.generation.
        stored_as: the kind whose objects these are, where this one is only another view of them.
        renames: the view's names of top fields, each with the name under which it is stored.
    """

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    has_generation: bool = False
    stored_as: Kind | None = None
    renames: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def group_version(self) -> str:
        """The `apiVersion` of the kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @functools.cached_property
    def qualified(self) -> str:
        """The plural with its group, as error messages say it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @functools.cached_property
    def head(self) -> bytes:
        """The opening of an object of this kind in JSON, up to its metadata."""
        return f'{{"kind":"{self.name}","apiVersion":"{self.group_version}",'.encode()

    @functools.cached_property
    def field_paths(self) -> dict[str, tuple[str, ...]]:
        """Each selectable field with the way to it through the object."""
        fields = (*METADATA_FIELDS, *self.selectable)
        return {field: tuple(field.split(".")) for field in fields}

    @property
    def stored(self) -> Kind:
        """The kind under which the store keeps these objects."""
        return self.stored_as or self

    def stored_field(self, name: str) -> str:
        """Return the stored name of a field (`regarding.name` -> `involvedObject.name`)."""
        top, dot, rest = name.partition(".")
        return self.renames.get(top, top) + dot + rest


NAMESPACE = Kind(
    "", "v1", "namespaces", "Namespace",
    namespaced=False, subresources=STATUS, short_names=("ns",), selectable=("status.phase",),
)  # fmt: skip
NODE = Kind(
    "", "v1", "nodes", "Node",
    namespaced=False, subresources=STATUS, short_names=("no",), selectable=("spec.unschedulable",),
)  # fmt: skip
POD = Kind(
    "", "v1", "pods", "Pod",
    subresources=frozenset({"status", "binding", "eviction"}), short_names=("po",),
    selectable=(
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "status.phase", "status.podIP",
    ),
    has_generation=True,
)  # fmt: skip
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
SECRET = Kind("", "v1", "secrets", "Secret", selectable=("type",))
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",))
SERVICE = Kind("", "v1", "services", "Service", subresources=STATUS, short_names=("svc",))
EVENT = Kind(
    "", "v1", "events", "Event", short_names=("ev",),
    selectable=(
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "reason", "type", "reportingComponent",
    ),
)  # fmt: skip
EVENT_V1 = Kind(
    "events.k8s.io", "v1", "events", "Event", short_names=("ev",),
    selectable=(
        "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
        "regarding.apiVersion", "reason", "type", "reportingController",
    ),
    stored_as=EVENT,
    renames={
        "regarding": "involvedObject", "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source", "deprecatedCount": "count",
        "deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp",
    },
)  # fmt: skip
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
BUDGET = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget",
    subresources=STATUS, short_names=("pdb",), has_generation=True,
)  # fmt: skip
DAEMON_SET = Kind(
    "apps", "v1", "daemonsets", "DaemonSet",
    subresources=STATUS, short_names=("ds",), has_generation=True,
)  # fmt: skip
DEPLOYMENT = Kind(
    "apps", "v1", "deployments", "Deployment",
    subresources=STATUS, short_names=("deploy",), has_generation=True,
)  # fmt: skip
REPLICA_SET = Kind(
    "apps", "v1", "replicasets", "ReplicaSet",
    subresources=STATUS, short_names=("rs",), has_generation=True,
)  # fmt: skip

SERVED = (
    NAMESPACE, NODE, POD, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, SERVICE, EVENT, EVENT_V1, LEASE,
    BUDGET, DAEMON_SET, DEPLOYMENT, REPLICA_SET,
)  # fmt: skip
STORED = tuple(kind for kind in SERVED if kind.stored_as is None)
_BY_PATH = {(kind.group_version, kind.plural): kind for kind in SERVED}
_BY_PLURAL = {kind.plural: kind for kind in STORED}


def served(group_version: str, plural: str) -> Kind | None:
    """Return the kind behind a path, or None where the table has no such row."""
    return _BY_PATH.get((group_version, plural))


def named(plural: str) -> Kind:
    """Return the stored kind of that plural; KeyError with the known ones where there is none."""
    try:
        return _BY_PLURAL[plural]
    except KeyError:
        known = ", ".join(sorted(_BY_PLURAL))
        raise KeyError(f"no kind has the plural {plural!r}; known are {known}") from None
