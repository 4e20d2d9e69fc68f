"""The real programs of `make observe`: Prometheus from Debian, a collector from its Go modules.

Prometheus' package is unpacked into the cache, not installed: installed, it would run for ever.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from tests.kube import build, places

HERE = pathlib.Path(__file__).parent
COLLECTOR = build.Module("collector", ("collector",), ".", within=HERE)
PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")


def build_all() -> Iterator[str]:
    """Get what is missing; yield a line for each thing done.

    Raises:
        CannotBuildError: the machine lacks something that we cannot get.
    """
    if not all(_found(name) for name in PROGRAMS):
        _unpack(_folder())
        yield f"unpacked Debian's {PACKAGE} into {_folder()}"
    yield from build.build(COLLECTOR)


def program(name: str) -> pathlib.Path:
    """Where a program lies.

    Raises:
        CannotBuildError: it was not got.
    """
    found = COLLECTOR.folder / name if name in COLLECTOR.programs else _found(name)
    if found is None or not found.exists():
        raise build.CannotBuildError(f"{name} is not there: run `make observe` first")
    return found


def _folder() -> pathlib.Path:
    return places.cache() / "programs" / f"debian-{PACKAGE}"


def _found(name: str) -> pathlib.Path | None:
    """The machine's own program, or the unpacked one."""
    own, unpacked = shutil.which(name), _folder() / "usr" / "bin" / name
    return pathlib.Path(own) if own else unpacked if unpacked.exists() else None


def _unpack(folder: pathlib.Path) -> None:
    if shutil.which("apt-get") is None:
        raise build.CannotBuildError(f"{PACKAGE} comes from Debian: this needs a Debian or Ubuntu")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        run("apt-get", "update", "-q")
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        run("apt-get", "download", PACKAGE, folder=temporary)
        (package,) = pathlib.Path(temporary).glob("*.deb")
        run("dpkg-deb", "--extract", str(package), f"{temporary}/whole")
        shutil.rmtree(folder, ignore_errors=True)
        pathlib.Path(temporary, "whole").rename(folder)


def run(*command: str, folder: str | None = None) -> None:
    """Run a command to its end.

    Raises:
        CannotBuildError: it is not there, or it failed; the text has its words.
    """
    if shutil.which(command[0]) is None:
        raise build.CannotBuildError(f"{command[0]} is not installed on this machine")
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()
        raise build.CannotBuildError(f"`{' '.join(command)}` ended with {ended.returncode}: {said}")
