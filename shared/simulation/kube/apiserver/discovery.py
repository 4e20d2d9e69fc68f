"""The table of kinds to the documents by which clients find their way: /api, /apis, /openapi/v3.

The OpenAPI document is the stub that `kubectl apply` needs to leave validation to the server.
"""

from __future__ import annotations

import itertools

from shared.simulation.kube.apiserver import kinds, reviews
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

GIT_VERSION = "v1.34.0+embedded"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_KINDS = {"binding": "Binding", "eviction": "Eviction"}
_PATCH_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def document(path: str) -> Json | None:
    """Return the discovery document at a path, or None where there is none."""
    return _documents().get(path.rstrip("/"))


def _documents() -> dict[str, Json]:
    versions = _group_versions()
    groups = {version.partition("/")[0]: version for version in versions if "/" in version}
    return {
        "/version": _version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(version) for version in groups.values()],
        },
        "/openapi/v3": {
            "paths": {
                _root(version).strip("/"): {"serverRelativeURL": f"/openapi/v3{_root(version)}"}
                for version in versions
            }
        },
        **{
            f"/apis/{group}": {"kind": "APIGroup", "apiVersion": "v1", **_group(version)}
            for group, version in groups.items()
        },
        **{_root(version): _resources(version) for version in versions},
        **{f"/openapi/v3{_root(version)}": _openapi(version) for version in versions},
    }


def _group_versions() -> list[str]:
    served = [kind.group_version for kind in kinds.SERVED]
    return list(dict.fromkeys([*served, *(review.group_version for review in reviews.REVIEWS)]))


def _root(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


def _group(group_version: str) -> Json:
    name, _, version = group_version.partition("/")
    entry = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _of_version(group_version: str) -> list[Kind]:
    return [kind for kind in kinds.SERVED if kind.group_version == group_version]


def _resources(group_version: str) -> Json:
    of_kinds = [_kind_resources(kind) for kind in _of_version(group_version)]
    of_reviews = [
        {
            "name": review.plural,
            "singularName": review.kind.lower(),
            "namespaced": False,
            "kind": review.kind,
            "verbs": ["create"],
        }
        for review in reviews.REVIEWS
        if review.group_version == group_version
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [*itertools.chain.from_iterable(of_kinds), *of_reviews],
    }


def _kind_resources(kind: Kind) -> list[Json]:
    whole = {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": _VERBS,
        "shortNames": list(kind.short_names),
    }
    parts = [
        {
            "name": f"{kind.plural}/{part}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": _SUBRESOURCE_KINDS.get(part, kind.name),
            **({"group": "policy", "version": "v1"} if part == "eviction" else {}),
            "verbs": ["create"] if part in _SUBRESOURCE_KINDS else ["get", "patch", "update"],
        }
        for part in sorted(kind.subresources)
    ]
    return [whole, *parts]


def _openapi(group_version: str) -> Json:
    paths = {_object_path(kind): _patch_operation(kind) for kind in _of_version(group_version)}
    return {
        "openapi": "3.0.0",
        "info": {"title": "slicewire embedded API server", "version": GIT_VERSION},
        "components": {"schemas": {}},
        "paths": paths,
    }


def _object_path(kind: Kind) -> str:
    namespace = "namespaces/{namespace}/" if kind.namespaced else ""
    return f"{_root(kind.group_version)}/{namespace}{kind.plural}/{{name}}"


def _patch_operation(kind: Kind) -> Json:
    named = {"group": kind.group, "version": kind.version, "kind": kind.name}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PATCH_PARAMETERS
    ]
    operation = {
        "parameters": parameters,
        "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": named,
    }
    return {"patch": operation}


def _version() -> Json:
    return {
        "major": "1",
        "minor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
