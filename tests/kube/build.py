"""go.mod and go.sum of `programs/` → the real programs, each module built once and kept.

`python -m tests.kube.build` builds what is missing and installs the Debian packages that nodes
need. A folder of the cache holds what exactly these sources give: its name is their hash.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.kube import golang, places

PACKAGES = (
    "buildah",
    "busybox-static",
    "containernetworking-plugins",
    "iproute2",
    "iptables",
    "mmdebstrap",
    "nftables",
    "openssl",
    "runc",
    "util-linux",
)
VERSION = "k8s.io/component-base/version"
NOTHING: Mapping[str, str] = {}


class CannotBuildError(Exception):
    """Something that a build needs is missing; the text says what and how to get it."""


@dataclass(frozen=True)
class Module:
    """A folder of `programs/`.

    Attributes:
        name: of the folder.
        programs: what its build leaves.
        target: what `go build` is asked for.
        tags: build tags that leave out what a test node has no use for.
        within: the folder that holds it, where that is another one.
    """

    name: str
    programs: tuple[str, ...]
    target: str = "tool"
    tags: str = ""
    within: pathlib.Path = places.PROGRAMS

    @property
    def source(self) -> pathlib.Path:
        """Its folder in the repository."""
        return self.within / self.name

    @property
    def folder(self) -> pathlib.Path:
        """Its folder in the cache."""
        digest = hashlib.sha256()
        for path in sorted(self.source.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return places.cache() / "programs" / f"{self.name}-{digest.hexdigest()[:12]}"

    @property
    def is_built(self) -> bool:
        """Whether every program is there."""
        return all((self.folder / program).exists() for program in self.programs)


KUBERNETES = Module(
    "kubernetes",
    (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ),
)
ETCD = Module("etcd", ("etcd",), "go.etcd.io/etcd/server/v3")
CONTAINERD = Module(
    "containerd",
    ("containerd", "containerd-shim-runc-v2", "ctr"),
    tags="no_aufs,no_btrfs,no_devmapper,no_zfs",
)
COREDNS = Module("coredns", ("coredns",), ".")
HELM = Module("helm", ("helm",))
POLICIES = Module("policies", ("kube-network-policies",), "sigs.k8s.io/kube-network-policies/cmd")
MODULES = (ETCD, CONTAINERD, COREDNS, HELM, POLICIES, KUBERNETES)


def program(name: str) -> pathlib.Path:
    """Where a built program lies.

    Raises:
        CannotBuildError: it was not built.
    """
    for module in MODULES:
        if name in module.programs:
            if not module.is_built:
                raise CannotBuildError(f"{name} is not built: run `make kube` first")
            return module.folder / name
    raise CannotBuildError(f"no module of {places.PROGRAMS} builds {name}")


def build_all() -> Iterator[str]:
    """Install and build what is missing; yield a line for each thing done.

    Raises:
        CannotBuildError: the machine lacks something that we cannot install.
    """
    yield from install(PACKAGES)
    for module in MODULES:
        yield from build(module)


def install(packages: Sequence[str]) -> Iterator[str]:
    """Install Debian packages where they are missing; yield a line if that was done.

    Raises:
        CannotBuildError: this is no Debian, or it may not be changed by us.
    """
    if missing := _missing(packages):
        _install(missing)
        yield f"installed {', '.join(missing)}"


def build(module: Module) -> Iterator[str]:
    """Build one module where it is missing; yield a line if that was done.

    Raises:
        CannotBuildError: there is no Go and none to be fetched, or it failed.
    """
    if not module.is_built:
        start = time.monotonic()
        _build(module)
        yield f"built {', '.join(module.programs)} in {time.monotonic() - start:.0f} s"


def _missing(packages: Sequence[str]) -> list[str]:
    if shutil.which("dpkg-query") is None:
        raise CannotBuildError("tests here use Debian's packages: this needs a Debian or Ubuntu")
    asked = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return [package for package in packages if f"{package} installed" not in said.splitlines()]


def _install(packages: list[str]) -> None:
    if os.geteuid() != 0:
        raise CannotBuildError(f"run as root, or first: apt-get install {' '.join(packages)}")
    _run("apt-get", "update", "-q")
    _run("apt-get", "install", "-qy", "--no-install-recommends", *packages)


def _build(module: Module) -> None:
    """Build beside the folder and move it into place, so that a half build is never taken."""
    try:
        go = golang.program()
    except golang.NoGoError as error:
        raise CannotBuildError(str(error)) from error
    unfinished = module.folder.with_suffix(f".{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        _run(go, *_arguments(module, unfinished), folder=module.source, more=_proxies(go))
        shutil.rmtree(module.folder, ignore_errors=True)
        unfinished.rename(module.folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _proxies(go: str) -> dict[str, str]:
    """Where modules come from, without falling back on each one's own server, which may hang."""
    asked = [go, "env", "GOPROXY"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {"GOPROXY": said.replace(",direct", "")}


def _arguments(module: Module, folder: pathlib.Path) -> list[str]:
    out = f"{folder}/" if module.target == "tool" else str(folder / module.programs[0])
    flags = " ".join(["-s", "-w", *_version_flags(module)])
    build = ["build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
    return [*build, "-tags", module.tags, "-ldflags", flags, "-o", out, module.target]


def _version_flags(module: Module) -> list[str]:
    """Kubernetes' programs refuse each other when they do not know their own version."""
    if module is not KUBERNETES:
        return []
    found = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", _text(module.source / "go.mod"))
    if found is None:
        raise CannotBuildError(
            f"{module.source / 'go.mod'} requires no version of k8s.io/kubernetes"
        )
    full, major, minor = found.groups()
    told = {"gitVersion": f"v{full}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return [f"-X {VERSION}.{name}={word}" for name, word in told.items()]


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")


def _run(
    *command: str, folder: pathlib.Path | None = None, more: Mapping[str, str] = NOTHING
) -> None:
    ours = {"CGO_ENABLED": "0", "DEBIAN_FRONTEND": "noninteractive"}
    environment = os.environ | ours | dict(more)
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        last = "\n".join((ended.stdout + ended.stderr).splitlines()[-20:])
        raise CannotBuildError(f"`{' '.join(command)}` ended with {ended.returncode}:\n{last}")


def main() -> int:
    """Build everything; the exit status says whether it is there."""
    try:
        for line in build_all():
            print(line, flush=True)
    except CannotBuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
