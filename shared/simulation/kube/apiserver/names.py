"""Names and keys of objects → what is wrong with them, in words; empty where nothing is."""

from __future__ import annotations

import functools
import re

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(_PART)
_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def fault_of_name(name: str) -> str:
    """Look at the name of most objects: letters, digits, - and dots."""
    if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
        return ""
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
        " '-' or '.', and must start and end with an alphanumeric character"
    )


def fault_of_label(name: str) -> str:
    """Look at the name of a namespace or a container: the same without dots, 63 at most."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _LABEL.fullmatch(name):
        return ""
    if _SUBDOMAIN.fullmatch(name):
        return "must not contain dots"
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character"
    )


def fault_of_value(value: str) -> str:
    """Look at a label's value."""
    if not value or (len(value) <= 63 and _WORD.fullmatch(value)):
        return ""
    return (
        "a valid label must be an empty string or at most 63 characters of [-A-Za-z0-9_.],"
        " the first and last alphanumeric"
    )


@functools.lru_cache(maxsize=4096)  # the same few keys come with every write of every object
def fault_of_key(key: str) -> str:
    """Look at the key of a label or an annotation, or at the name of a resource."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix.lower())):
        return "prefix part must be a lowercase RFC 1123 subdomain"
    if len(name) > 63 or not _WORD.fullmatch(name):
        return "name part must be at most 63 characters of [-A-Za-z0-9_.]"
    return ""
