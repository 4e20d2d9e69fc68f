"""Habits that a reader relies on in every module."""

from __future__ import annotations

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODULES = [
    path
    for folder in ("services", "shared")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.name.endswith(("_pb2.py", "_grpc.py"))
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_what_it_does(path: pathlib.Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, "say in the module's docstring what turns into what, and who calls it"
