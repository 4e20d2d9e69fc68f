"""What the controller tells people through Kubernetes Events, as values. Pure.

`intent` and `health` decide what to say; `events` posts it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from shared.contract import names

MESSAGE_LIMIT = 1024  # the API server refuses longer ones
NODE_NAMESPACE = "default"  # Events about nodes must stand there
_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The object that an Event is about; a node has no namespace."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One Event. Said again, it is counted; with a `topic` it is said once for ever.

    The topic names an occurrence ("this GPU, sick since then"), so that a new leader, who cannot
    know what the one before has said, does not say it twice.
    """

    about: About
    reason: str
    message: str
    warning: bool = False
    topic: str = ""

    @property
    def event_name(self) -> str:
        """Equal things get equal names: the API server finds the repetition for us."""
        about = self.about
        text = "\0".join((about.kind, about.uid, self.reason, self.topic or self.message))
        mark = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{about.name[: _NAME_LIMIT - len(mark) - 1]}.{mark}"

    @property
    def event_namespace(self) -> str:
        """Where the Event stands: with its object."""
        return self.about.namespace or NODE_NAMESPACE


def event(say: Say, stamp: str, instance: str) -> dict[str, Any]:
    """Write the Event object; `stamp` is RFC 3339, `instance` names this process."""
    about = say.about
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": say.event_name, "namespace": say.event_namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        },
        "reason": say.reason,
        "message": shortened(say.message),
        "type": "Warning" if say.warning else "Normal",
        "source": {"component": names.COMPONENT},
        "reportingComponent": names.COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def shortened(message: str) -> str:
    """Cut a message to what an Event may hold, visibly."""
    data = message.encode()
    if len(data) <= MESSAGE_LIMIT:
        return message
    mark = " …"
    return data[: MESSAGE_LIMIT - len(mark.encode())].decode(errors="ignore") + mark
