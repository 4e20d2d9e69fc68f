"""pyproject.toml → what an extra of it requires, as pip reads it; run by the Dockerfile.

The product itself is copied, not installed: a change of code then moves no layer of dependencies.
"""

from __future__ import annotations

import pathlib
import sys
import tomllib


def required(extra: str) -> list[str]:
    """Requirements of the product with one of its extras."""
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"][extra]]


if __name__ == "__main__":
    sys.stdout.write("\n".join(required(sys.argv[1])) + "\n")
