"""Texts of another kind, pasted where a sharing text is due: manifests, Helm values, data maps.

They hold no key that a sharing text has, so the usual refusal would name every key of them and
explain nothing.
"""

from __future__ import annotations

from shared.sharing import homes, suggest, tree
from shared.sharing.findings import Findings

_TEXT_KEYS = frozenset(homes.KEYS[""])
_VALUES = ("devicePlugin.config.data", "devicePlugin.config", "config.map", "config")
_IN_A_RELEASE = tuple(f"spec.values.{path}" for path in _VALUES)


def refuse(document: tree.Node, findings: Findings) -> None:
    """Refuse a document that is recognisably something else, with what to paste instead.

    Raises:
        RefusedError: it is.
    """
    if not isinstance(document, tree.Mapping):
        return
    kind = _text(document, "kind")
    if kind and "apiVersion" in document.entries:
        message = f"this looks like a Kubernetes manifest (kind {suggest.shorten(kind)})"
        data = _descend(document, "data")
        hint = "" if data else release_hint(document)
        findings.stop(document.place, "", message, hint or _paste("data", data))
    if _TEXT_KEYS & document.entries.keys():
        return
    for path in (*_VALUES, "data"):
        found = _descend(document, path)
        if found is not None:
            what = "the data of a ConfigMap" if path == "data" else "Helm values"
            findings.stop(document.place, "", f"this looks like {what}", _paste(path, found))
    texts = [name for name in document.entries if "version:" in _text(document, name)]
    if texts:
        message = "this looks like the data of a ConfigMap, not like the text under one of its keys"
        findings.stop(document.place, "", message, f"paste only the text under {texts[0]}")


def release_hint(manifest: tree.Mapping) -> str:
    """Say which texts stand in the values of a HelmRelease, "" if none do."""
    found = ((path, _descend(manifest, path)) for path in _IN_A_RELEASE)
    return next((_paste(path, texts) for path, texts in found if texts), "")


def _paste(path: str, texts: tree.Mapping | None) -> str:
    if texts is None or not texts.entries:
        return f"paste only the text that stands under {path}.<key>"
    names = [f"{path}.{suggest.shorten(name)}" for name in list(texts.entries)[:5]]
    return f"paste only the text that stands under {path}.<key>, here {' or '.join(names)}"


def _descend(node: tree.Mapping, path: str) -> tree.Mapping | None:
    """Follow a dotted path, also where it was written as one key (`config.map:`)."""
    if path in node.entries:
        return _child(node, path)
    first, dot, rest = path.partition(".")
    inner = _child(node, first)
    return _descend(inner, rest) if inner is not None and dot else inner


def _child(node: tree.Mapping, name: str) -> tree.Mapping | None:
    entry = node.entries.get(name)
    return entry.value if entry is not None and isinstance(entry.value, tree.Mapping) else None


def _text(node: tree.Mapping, name: str) -> str:
    entry = node.entries.get(name)
    return entry.value.text if entry is not None and isinstance(entry.value, tree.Scalar) else ""
