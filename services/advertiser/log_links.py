"""The names in /var/log/containers → which pod and container a uid and an id belong to. Pure.

The kubelet links each container's log there, and both ends of a link speak:

    <pod>_<namespace>_<container>-<id>.log -> …/<namespace>_<pod>_<uid>/<container>/<restart>.log

A name longer than a file's may be is cut at its end, so that the id may be a part, or missing.
Logs themselves are not needed, and cannot be reached where only this folder is mounted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.advertiser.cgroups import Membership
from shared.domain.slots import Holder

_SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class Link:
    """One link: a container of a pod. `container_id` may be cut at its end, or empty."""

    pod_uid: str
    container_id: str
    holder: Holder


Links = Mapping[str, tuple[Link, ...]]  # by the uid of the pod


def read(entries: Iterable[tuple[str, str]]) -> Links:
    """Read names and where they lead; what has another form is left out."""
    found: dict[str, tuple[Link, ...]] = {}
    for name, target in entries:
        if link := _link(name, target):
            found[link.pod_uid] = (*found.get(link.pod_uid, ()), link)
    return found


def holder(links: Links, member: Membership) -> Holder | None:
    """Name the container of a process, None for a pod that is not known (it has just gone).

    The container's name is empty where the pod is known and the container is not, or not for sure.
    """
    mine = links.get(member.pod_uid, ())
    if not mine:
        return None
    named = {each.holder for each in mine if _may_be(each, member)}
    if len(named) == 1 and (len(mine) == 1 or all(each.container_id for each in mine)):
        return named.pop()
    return Holder(mine[0].holder.namespace, mine[0].holder.pod, "")


def _may_be(link: Link, member: Membership) -> bool:
    """Whether what is left of a link's id, if anything, is the beginning of the container's."""
    return bool(member.container_id) and member.container_id.startswith(link.container_id)


def _link(name: str, target: str) -> Link | None:
    match target.split("/")[-3:]:
        case [folder, container, _]:
            parts = folder.split("_")
        case _:
            return None
    if len(parts) != 3 or not all((*parts, container)):
        return None
    namespace, pod, uid = parts
    stem = name.removesuffix(_SUFFIX)
    known = f"{pod}_{namespace}_{container}-"
    container_id = stem.removeprefix(known) if stem.startswith(known) else ""
    return Link(uid, container_id, Holder(namespace, pod, container))
