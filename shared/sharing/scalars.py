"""Spellings of scalars: what a plain or quoted YAML scalar means, by the core schema of YAML 1.2.

The usual Python loaders follow YAML 1.1, where `1:0` is 60, `010` is 8 and `yes` is true. Here
such spellings are texts, and `number_spelling` and `switch_spelling` say what to write instead.
"""

from __future__ import annotations

import re

Value = str | int | float | bool | None

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_SWITCHES = {"true": True, "True": True, "TRUE": True}
_SWITCHES |= {"false": False, "False": False, "FALSE": False}
# Longer numbers than these mean nothing here, and Python refuses to convert them.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
# A fraction needs a digit before its exponent: `e1` is a name.
_FLOAT = re.compile(r"[-+]?(?=\.?[0-9])(0|[1-9][0-9]{0,17})?(\.[0-9]{0,40})?([eE][-+]?[0-9]{1,3})?")
_LOOSE_SWITCHES = {"yes": "true", "y": "true", "on": "true", "true": "true", "1": "true"}
_LOOSE_SWITCHES |= {"no": "false", "n": "false", "off": "false", "false": "false", "0": "false"}


def resolve(text: str, *, plain: bool) -> Value:
    """Return the value of a scalar; a quoted or block scalar is always a text."""
    if not plain:
        return text
    if text in _NULLS:
        return None
    if text in _SWITCHES:
        return _SWITCHES[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def is_endless(text: str) -> bool:
    """Whether a plain scalar is a whole number of more digits than anything here has."""
    return re.fullmatch("[-+]?[1-9][0-9]{18,}", text) is not None


def number_spelling(text: str) -> str:
    """Return the whole number that the writer of `text` probably meant, "" if there is none."""
    digits = text.strip().replace("_", "")
    if re.fullmatch(r"[-+]?[0-9]{1,18}(\.0*)?", digits):
        return str(int(digits.partition(".")[0]))
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,12}", digits):
        return str(int(digits, 16))
    if re.fullmatch(r"0o[0-7]{1,12}", digits):
        return str(int(digits, 8))
    return ""


def switch_spelling(text: str) -> str:
    """Return `true` or `false` where `text` is a loose spelling of it, else ""."""
    return _LOOSE_SWITCHES.get(text.strip().lower(), "")
