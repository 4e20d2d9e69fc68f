"""The repository → images of `node` and `cluster` as OCI archives, by buildah, without a registry.

`python -m tests.kube.image.build` prints the archives. What is kept: wheels by the hash of what
is asked for, bases for good, layers by buildah, and an archive while nothing of it has changed.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.kube import places
from tests.kube.image import bases

ROOT = pathlib.Path(__file__).parents[3]
DOCKER = ROOT / "deploy" / "docker"
TARGETS = ("node", "cluster")
REPOSITORY = "slicewire.test/slicewire"
TAG = "test"


class CannotBuildError(Exception):
    """Something that the build needs is missing; the text says what and how to get it."""


def name(target: str) -> str:
    """The image's name in the cluster; the chart takes it as repository and tag."""
    return f"{REPOSITORY}-{target}:{TAG}"


def archives() -> dict[str, pathlib.Path]:
    """Build what has changed; return the archive of each target.

    Raises:
        CannotBuildError: a tool is missing, or a build failed.
    """
    for tool, package in (("buildah", "buildah"), ("mmdebstrap", "mmdebstrap")):
        if shutil.which(tool) is None:
            raise CannotBuildError(f"there is no {tool}: apt-get install {package}")
    folder = places.cache() / "images"
    digest = _digest(_sources())
    wanted = {target: folder / f"{target}-{digest}.tar" for target in TARGETS}
    missing = [target for target, path in wanted.items() if not path.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        _lay_bases(folder)
        context = _context(folder)
        for target in missing:
            _build(folder, context, target, wanted[target])
    return wanted


def _sources() -> Iterator[pathlib.Path]:
    """Everything that an image is made of."""
    yield from (ROOT / "pyproject.toml", ROOT / "constraints.txt", ROOT / ".dockerignore")
    for top in (DOCKER, ROOT / "services", ROOT / "shared"):
        found = (path for path in sorted(top.rglob("*")) if path.is_file())
        yield from (path for path in found if path.suffix not in {".pyc", ".whl"})


def _digest(paths: Iterator[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _lay_bases(folder: pathlib.Path) -> None:
    for kind in ("run", "build"):
        tar = folder / f"{kind}.tar"
        if not tar.exists():
            unfinished = tar.with_suffix(".new.tar")
            bases.write(kind, unfinished)
            unfinished.rename(tar)
            laid = folder / "bases" / kind
            laid.mkdir(parents=True, exist_ok=True)
            (laid / "Dockerfile").write_text(f"FROM scratch\nADD {tar.name} /\n")
            shutil.copy(tar, laid)
            _buildah(folder, "bud", "-q", "--timestamp", bases.EPOCH, "-t", f"base-{kind}", laid)
            shutil.rmtree(laid)


def _context(folder: pathlib.Path) -> pathlib.Path:
    """A copy of the sources with wheels in it: the build itself reaches no network."""
    context = folder / "context"
    shutil.rmtree(context, ignore_errors=True)
    for path in _sources():
        copy = context / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    requirements = _requirements()
    asked = "\n".join(requirements).encode() + (ROOT / "constraints.txt").read_bytes()
    wheels = folder / f"wheels-{hashlib.sha256(asked).hexdigest()[:12]}"
    if not wheels.exists():
        unfinished = wheels.with_suffix(".new")
        _run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"),
            *("--python-version", "3.11", "--dest", unfinished, "-c", ROOT / "constraints.txt"),
            *requirements,
        )
        unfinished.rename(wheels)
    shutil.copytree(wheels, context / "deploy/docker/wheels", dirs_exist_ok=True)
    return context


def _requirements() -> list[str]:
    """What both targets need, as the Dockerfile finds it."""
    command = (sys.executable, str(DOCKER / "requirements.py"))
    told = [
        subprocess.run((*command, each), cwd=ROOT, check=True, capture_output=True, text=True)
        for each in TARGETS
    ]
    return sorted({line for each in told for line in each.stdout.splitlines()})


def _build(folder: pathlib.Path, context: pathlib.Path, target: str, out: pathlib.Path) -> None:
    arguments = {
        "BUILD": "localhost/base-build",
        "RUNTIME": "localhost/base-run",
        "PIP_ARGS": "--no-index --find-links=/wheels",
    }
    image = f"localhost/slicewire-{target}"
    _buildah(
        folder,
        *("bud", "-q", "--layers", "--timestamp", bases.EPOCH, "--target", target, "-t", image),
        *(word for key, text in arguments.items() for word in ("--build-arg", f"{key}={text}")),
        *("-f", context / "deploy/docker/Dockerfile", context),
    )
    for former in folder.glob(f"{target}-*.tar"):
        former.unlink()
    unfinished = out.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    _buildah(folder, "push", "-q", image, f"oci-archive:{unfinished}:{name(target)}")
    unfinished.rename(out)


def _buildah(folder: pathlib.Path, *words: str | pathlib.Path) -> None:
    store = ("--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "overlay")
    _run("buildah", *store, *words)


def _run(*command: str | pathlib.Path) -> None:
    ended = subprocess.run(
        ["nice", *command],
        env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        last = "\n".join((ended.stdout + ended.stderr).splitlines()[-20:])
        raise CannotBuildError(f"`{' '.join(map(str, command))}` failed:\n{last}")


def main() -> int:
    """Build, and say where the archives are."""
    start = time.monotonic()
    try:
        for target, path in archives().items():
            print(f"{name(target)}: {path} ({path.stat().st_size / 1e6:.0f} MB)")
    except CannotBuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
