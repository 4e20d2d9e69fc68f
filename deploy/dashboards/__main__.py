"""Write the chart's dashboards, or with `--check` say whether they differ.

`make schema` writes them, `make generated` checks them.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

from deploy.dashboards import change, fleet, grafana, health, node, sharing
from deploy.dashboards.panels import Json

PAGES = (fleet.PAGE, node.PAGE, change.PAGE, sharing.PAGE, health.PAGE)
FOLDER = pathlib.Path(__file__).parents[1] / "chart" / "dashboards"


def main(argv: Sequence[str] | None = None) -> int:
    """Do it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.dashboards")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args(argv)
    wanted = {f"{page.name}.json": text(grafana.whole(page)) for page in PAGES}
    if not options.check:
        FOLDER.mkdir(exist_ok=True)
        for name, content in wanted.items():
            (FOLDER / name).write_text(content, encoding="utf-8")
        return 0
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    if there != wanted:
        sys.stderr.write(f"{FOLDER} is not what deploy/dashboards says: make schema\n")
    return int(there != wanted)


def text(page: Json) -> str:
    """JSON that people can compare line by line."""
    return json.dumps(page, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
