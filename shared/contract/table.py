"""The one table of what stands on the bus: who writes it, who reads it, how much it may hold.

From it come stream configuration (`streams`), accounts and permissions (`permissions`), and the
pages under docs/contract. Nothing about the bus is said a second time elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from shared.contract import facts, messages, spans, usage, waiting


class Role(enum.StrEnum):
    """Who speaks on the bus."""

    CONTROLLER = "controller"
    ADVERTISER = "advertiser"
    ALLOCATOR = "allocator"
    AGENT = "agent"
    COMMAND = "command"  # slicewire status, who, trace: reads only


NODE_ROLES = (Role.ADVERTISER, Role.ALLOCATOR, Role.AGENT)
STORE_KEY = "_store"  # holds the bucket's creation time; all may read it
STORE_HEADER = "Slicewire-Store"  # of a tombstone, which has no stamp
CONTROLLER_PLACE = "_controller"  # stands where a node's token would; no node has this name
MAX_PAYLOAD_BYTES = 1 << 20  # the server closes a connection that sends more, headers included
RENEW_EVERY_S = 60.0
SILENT_S = 3 * RENEW_EVERY_S  # a renewed value that is older has lost its writer
HEADER_ROOM_BYTES = 4096  # for traceparent and message id
ABSENT_S = 3600.0  # a node that the cluster has not had for so long is buried
TOMBSTONE_S = 24 * 3600  # a tombstone goes by itself: every reader that lives has seen it by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """State: one value a node, the newest counts. Sizes in bytes.

    What is `renewed` is stored again as it is each `RENEW_EVERY_S`, so that its age says whether
    its writer lives.
    """

    name: str
    message: type[Any]
    writer: Role
    readers: tuple[Role, ...]
    says: str
    max_value_bytes: int = MAX_PAYLOAD_BYTES - HEADER_ROOM_BYTES
    renewed: bool = False

    @property
    def stream(self) -> str:
        """Name of the JetStream stream behind the bucket."""
        return f"KV_{self.name}"

    def key(self, token: str) -> str:
        """Subject that a value is written to."""
        return f"$KV.{self.name}.{token}"

    def heard(self, token: str) -> str:
        """Subject on which a stored value is republished; nobody may publish there."""
        return f"sw.{self.name}.{token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Facts: appended, bounded by age and size. Age in seconds, size in bytes."""

    name: str
    message: type[Any]
    writers: tuple[Role, ...]
    readers: tuple[Role, ...]
    says: str
    max_age_s: int
    max_bytes: int

    @property
    def stream(self) -> str:
        """Name of the JetStream stream behind the log."""
        return self.name

    def subject(self, token: str, leaf: str) -> str:
        """Subject of one entry; `leaf` is the fact's kind, or the trace of a batch of spans."""
        return f"{self.name}.{token}.{leaf}"


BUCKETS = (
    Bucket(
        name="intent",
        message=messages.Intent,
        writer=Role.CONTROLLER,
        readers=(Role.ADVERTISER, Role.AGENT, Role.COMMAND),
        says="wanted sharing and geometry of the node, with their source",
    ),
    Bucket(
        name="inventory",
        message=messages.Inventory,
        writer=Role.ADVERTISER,
        readers=(Role.ALLOCATOR, Role.AGENT, Role.CONTROLLER, Role.COMMAND),
        says="GPUs, MIG devices, health and why; what each device is to offer",
        renewed=True,
    ),
    Bucket(
        name="ledger",
        message=messages.Ledger,
        writer=Role.ALLOCATOR,
        readers=(Role.ADVERTISER, Role.AGENT, Role.CONTROLLER, Role.COMMAND),
        says="holders of slots, counts, the hold that is in force",
        renewed=True,
    ),
    Bucket(
        name="hold",
        message=messages.Hold,
        writer=Role.AGENT,
        readers=(Role.ALLOCATOR, Role.ADVERTISER, Role.CONTROLLER, Role.COMMAND),
        says="slots to withhold for a generation, and whether NVML must be let go",
    ),
    Bucket(
        name="progress",
        message=messages.Progress,
        writer=Role.AGENT,
        readers=(Role.CONTROLLER, Role.COMMAND),
        says="where a change stands and what it needs",
        renewed=True,
    ),
    Bucket(
        name="usage",
        message=usage.Usage,
        writer=Role.ADVERTISER,
        readers=(Role.COMMAND,),
        says="memory and SM use of each device, and of the pods on it",
    ),
    Bucket(
        name="waiting",
        message=waiting.Waiting,
        writer=Role.CONTROLLER,
        readers=(Role.COMMAND,),
        says=f"pods of all nodes that do not run, one value under {CONTROLLER_PLACE}",
        renewed=True,
    ),
)

LOGS = (
    Log(
        name="facts",
        message=facts.Fact,
        writers=(Role.CONTROLLER, *NODE_ROLES),
        readers=(Role.CONTROLLER, Role.COMMAND),  # the controller makes Events of some
        says="granted, released, conflict, health, step, refused",
        max_age_s=24 * 3600,
        max_bytes=64 << 20,
    ),
    Log(
        name="spans",
        message=spans.Spans,
        writers=(Role.CONTROLLER, *NODE_ROLES),
        readers=(Role.COMMAND,),
        says="finished spans, for `slicewire trace`",
        max_age_s=3600,
        max_bytes=64 << 20,
    ),
)


def bucket(name: str) -> Bucket:
    """Return the bucket of this name; a KeyError is a mistake in our own code."""
    return {each.name: each for each in BUCKETS}[name]


def log(name: str) -> Log:
    """Return the log of this name; a KeyError is a mistake in our own code."""
    return {each.name: each for each in LOGS}[name]


def node_token(node: str) -> str:
    """A node's name as one subject token: dots become `_`, which no node name holds."""
    return node.replace(".", "_")


def node_of_token(token: str) -> str:
    """The node's name behind a subject token; the controller's place stands for itself."""
    return token if token == CONTROLLER_PLACE else token.replace("_", ".")


def reads(role: Role) -> tuple[Bucket, ...]:
    """Buckets that a role reads, in table order."""
    return tuple(each for each in BUCKETS if role in each.readers)


def spoken(role: Role) -> tuple[type[Any], ...]:
    """Kinds of messages that a role may read or write."""
    own = [each.message for each in (*reads(role), *writes(role))]
    return (*own, *(each.message for each in LOGS))


def writes(role: Role) -> tuple[Bucket, ...]:
    """Buckets that a role writes, in table order."""
    return tuple(each for each in BUCKETS if each.writer is role)
