"""Every command of docs/install.md is run, in the order of the page, on a cluster.

Where there is no registry and no Docker, as here, buildah stands for `docker build`, and an import
into the node for `docker push`; the names are those of the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.kube import images, ours, page
from tests.kube.chart import release as releases
from tests.kube.cluster import Cluster
from tests.kube.image import build
from tests.kube.page import Command
from tests.kube.processes import ClusterError, until

PAGE = build.ROOT / "docs" / "install.md"
REPOSITORY = "registry.example/slicewire"
LIBRARY = "docker.io/library/"  # where an image without a registry in its name is from
PRESENT = "nvidia.com/gpu.present"
VERSION = "0.1.0"


class Typist:
    """Types commands of the page; remembers the last release for flags that stand alone."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.installs: list[Command] = []
        self.built: set[str] = set()
        self.ran = 0

    def type(self, command: Command) -> None:
        """Run it, or what stands for it."""
        match command.program:
            case "docker":
                self._docker(command.words)
            case "":
                self._with_flags(command.words)
            case "slicewire":
                self._ours(command.words)
            case "helm" if command.words[0] == "install":
                self._install(command)
            case program:
                said = self.cluster.command(program, *command.words)
                subprocess.run(said, check=True, cwd=build.ROOT, capture_output=True)
        self.ran += 1

    def end(self) -> None:
        """Leave no release and no label behind."""
        with contextlib.suppress(ClusterError):
            self.cluster.helm("uninstall", "slicewire", "--namespace", "slicewire", "--wait")
        self.cluster.kubectl("label", "node", self.node.name, f"{PRESENT}-")

    def _docker(self, words: tuple[str, ...]) -> None:
        match words:
            case ("build", "-f", "deploy/docker/Dockerfile", "--target", target, "-t", name, "."):
                self.node.load(build.archives()[target])  # made by buildah with the same words
                self.built.add(name)
                assert name == f"{REPOSITORY}-{target}:{VERSION}"
            case ("push", name):
                assert name in self.built
                target = name.removeprefix(f"{REPOSITORY}-").partition(":")[0]
                self.node.ctr("images", "tag", "--force", build.name(target), name)
            case _:
                pytest.fail(f"nothing stands for docker {words}")

    def _install(self, command: Command) -> None:
        self.end()
        self.installs.append(command)
        said = self.cluster.command("helm", *command.words)
        subprocess.run(said, check=True, cwd=build.ROOT, capture_output=True)
        rollout = ("rollout", "status", "deploy/slicewire-controller", "--timeout=180s")
        self.cluster.kubectl("--namespace", "slicewire", *rollout)
        if "simulation.enabled=true" in command.words:
            until("the slots that the page promises", self._has_slots)

    def _has_slots(self) -> bool:
        path = r"jsonpath={.status.allocatable.nvidia\.com/gpu}"
        return self.cluster.kubectl("get", "node", self.node.name, "--output", path) == "8"

    def _with_flags(self, flags: tuple[str, ...]) -> None:
        _, *words = self.installs[-1].words
        words.remove("--create-namespace")
        said = self.cluster.command(
            "helm",
            "template",
            *words,
            *flags,
            "--kube-version",
            "1.30",
            "--api-versions",
            "monitoring.coreos.com/v1",
        )
        subprocess.run(said, check=True, cwd=build.ROOT, capture_output=True)

    def _ours(self, words: tuple[str, ...]) -> None:
        command = (sys.executable, "-m", "services.cli", *words)
        subprocess.run(command, check=True, cwd=build.ROOT, capture_output=True)


@pytest.fixture
def typist(cluster: Cluster) -> Iterator[Typist]:
    """A cluster with nothing of ours but a NATS under its public name."""
    name = f"{LIBRARY}nats:{_nats_version()}"
    files = {"bin/nats-server": releases.SERVER}
    cluster.load(images.archive(cluster.folder, name, files, ("nats-server",)))
    nothing = ("delete", "namespace", "slicewire", "--ignore-not-found")
    cluster.kubectl(*nothing)  # what services without the chart have left, a release takes not over
    typist = Typist(cluster)
    yield typist
    typist.end()
    cluster.kubectl(*nothing)


async def test_every_command_of_the_page_is_one_that_works(
    typist: Typist, tmp_path: pathlib.Path
) -> None:
    """From the images to the uninstall; a release on simulated GPUs serves slots meanwhile."""
    text = tmp_path / "sharing.yaml"
    text.write_text(ours.text(4), encoding="utf-8")
    names = {
        "REPOSITORY": REPOSITORY,
        "NODE": typist.node.name,
        "sharing.yaml": str(text),
    }
    typed = list(page.commands(PAGE.read_text(encoding="utf-8"), names))
    await asyncio.to_thread(_type_all, typist, typed)
    assert typist.ran == len(typed)
    assert {each.program for each in typed} == {"docker", "helm", "kubectl", "slicewire", ""}


def _type_all(typist: Typist, typed: list[Command]) -> None:
    for command in typed:
        try:
            typist.type(command)
        except subprocess.CalledProcessError as error:
            pytest.fail(f"{command}: {error.stderr.decode()}")


def _nats_version() -> str:
    values = yaml.safe_load((releases.CHART / "values.yaml").read_text(encoding="utf-8"))
    return str(values["bus"]["image"]["tag"])
