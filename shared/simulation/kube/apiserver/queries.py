"""The query of a request to what a list, a watch or a deletion needs to know of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.simulation.kube.apiserver import refusals, selectors
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.paths import Target
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.apiserver.selectors import Selector

Query = Mapping[str, str]


@dataclass(frozen=True)
class ListQuery:
    """A list: what is selected, how much a page (0: all), where it goes on, how new it must be."""

    selector: Selector
    limit: int
    token: str
    not_before: int


@dataclass(frozen=True)
class WatchQuery:
    """A watch: what is selected and from where; `since` None means the present state first."""

    selector: Selector
    since: int | None
    bookmarks: bool
    marks_initial_end: bool
    timeout: float | None


def is_watch(query: Query) -> bool:
    """Say whether a GET of a collection is a watch."""
    return _flag(query, "watch")


def is_dry_run(query: Query) -> bool:
    """Say whether nothing may be stored."""
    return query.get("dryRun") == "All"


def selector(target: Target, query: Query) -> Selector:
    """Read the selection of a collection."""
    return Selector(
        namespace=target.namespace,
        labels=selectors.parse_labels(query.get("labelSelector", "")),
        fields=selectors.parse_fields(target.kind, query.get("fieldSelector", "")),
    )


def list_query(target: Target, query: Query) -> ListQuery:
    """Read the query of a list."""
    return ListQuery(
        selector=selector(target, query),
        limit=_number(query, "limit"),
        token=query.get("continue", ""),
        not_before=_number(query, "resourceVersion"),
    )


def watch_query(target: Target, query: Query) -> WatchQuery:
    """Read the query of a watch; 422 for sendInitialEvents without its resourceVersionMatch."""
    initial = _flag(query, "sendInitialEvents")
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        cause = refusals.Cause("FieldValueForbidden", why, "resourceVersionMatch")
        message = f"ListOptions.meta.k8s.io is invalid: resourceVersionMatch: {why}"
        details: Json = {"kind": "ListOptions", "group": "meta.k8s.io", "causes": [cause.body()]}
        raise refusals.Refused(422, message, details=details)
    version = _number(query, "resourceVersion")
    return WatchQuery(
        selector=selector(target, query),
        since=None if initial or not version else version,
        bookmarks=_flag(query, "allowWatchBookmarks"),
        marks_initial_end=initial,
        timeout=float(_number(query, "timeoutSeconds")) or None,
    )


def deletion(query: Query, options: Json) -> tuple[Deletion, bool]:
    """Read DeleteOptions, the body before the query, and whether they ask for a dry run."""
    preconditions = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = _number(query, "gracePeriodSeconds")
    if grace is not None and not isinstance(grace, int):
        raise refusals.bad_request(f"gracePeriodSeconds: {grace!r} is not a number")
    asked = Deletion(grace, preconditions.get("uid"), preconditions.get("resourceVersion"))
    return asked, is_dry_run(query) or options.get("dryRun") == ["All"]


def _flag(query: Query, name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true"}


def _number(query: Query, name: str) -> int:
    text = query.get(name, "")
    try:
        return int(text or 0)
    except ValueError:
        raise refusals.bad_request(f"{name}: Invalid value: {text!r}: must be a number") from None
