"""The chart's copy of the server's configuration: deploy/chart/files/nats.conf.

`make schema` writes it, `make check` fails when it differs from what the table says.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from shared.contract import server_conf

FILE = pathlib.Path("deploy/chart/files/nats.conf")
PORT = 4222
STORE_DIR = "/data"  # where the StatefulSet mounts its volume
HEAD = """\
# Written by `make schema` from shared/contract; edits here are lost. The keys come from variables.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file, or with `--check` say whether it differs; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m shared.contract.chart_file")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args(argv)
    wanted = text()
    if not options.check:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(wanted, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != wanted:
        sys.stderr.write(f"{FILE} is not what the contract says: make schema\n")
        return 1
    return 0


def text() -> str:
    """What the file has to hold."""
    conf = server_conf.callout_configuration(host="0.0.0.0", port=PORT, store_dir=STORE_DIR)  # noqa: S104  # in a pod
    return HEAD + conf


if __name__ == "__main__":
    sys.exit(main())
