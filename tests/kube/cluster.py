"""A whole Kubernetes on this machine: made of `programs/`, in a network of its own.

`python -m tests.kube.cluster up [--nodes 2]` leaves it running, `... kubectl ARGUMENTS` and
`... helm ARGUMENTS` ask it, `... down` ends it. Tests hold the same object. `down` asks the kernel
what belongs to the cluster, so it also ends what a killed run has left.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.kube import build, cgroups, images, network, node, places, processes
from tests.kube.control import ControlPlane, answers
from tests.kube.node import Node
from tests.kube.pki import Pki
from tests.kube.processes import Processes, output, until

API = "https://127.0.0.1:6443"
HEALTH = "127.0.0.1:10256"
PROXY = "kube-proxy"


class Cluster:
    """Control plane, nodes and DNS; `up` starts them, `down` leaves nothing."""

    def __init__(self, nodes: int = 1) -> None:
        self.folder = places.cluster_folder()
        self.processes = Processes(self.folder)
        self.pki = Pki(self.folder / "pki", API)
        self.control = ControlPlane(self.processes, self.pki, str(self.folder / "etcd"))
        self.nodes = [self._node(number) for number in range(nodes)]
        self._archives: list[pathlib.Path] = []

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The administrator's; of use inside the cluster's network only."""
        return self.folder / "pki" / "admin.kubeconfig"

    def up(self) -> None:
        """Start everything; what an earlier run left is ended first."""
        down()
        self.folder.mkdir(parents=True)
        network.create(len(node.NAMES))
        self.control.start()
        self._archives = [images.pause(self.folder), images.coredns(self.folder)]
        for each in self.nodes:
            self._start(each)
        self.start_proxy()
        self.processes.ready(PROXY, lambda: answers(f"http://{HEALTH}/healthz"))
        self.until_ready()
        self.kubectl("apply", "--filename", places.HERE / "dns.yaml")

    def until_ready(self) -> None:
        """Wait until every node takes pods."""
        for each in self.nodes:
            until(f"node {each.name} is ready", functools.partial(self._takes_pods, each.name))

    def kubectl(self, *words: object, given: str | None = None) -> str:
        """Ask the cluster as its administrator; `given` is the command's input."""
        return output(*self.command("kubectl", *words), given=given)

    def helm(self, *words: object) -> str:
        """Install, upgrade and remove as the administrator does."""
        return output(*self.command("helm", *words))

    def command(self, program: str, *words: object) -> list[str]:
        """The command line of a program that is told where the cluster is."""
        argv = [build.program(program), "--kubeconfig", self.kubeconfig, *words]
        return network.inside(*argv)

    def load(self, archive: pathlib.Path) -> None:
        """Import an image on every node."""
        for each in self.nodes:
            each.load(archive)

    @contextlib.contextmanager
    def another_node(self) -> Iterator[Node]:
        """A node that joins for a while."""
        joining = self._node(len(self.nodes))
        try:
            self._start(joining)
            self.nodes.append(joining)
            self.until_ready()
            yield joining
        finally:
            joining.stop()
            self.nodes.remove(joining)
            self.kubectl("delete", "node", joining.name)

    def _node(self, number: int) -> Node:
        return Node(number, self.folder, self.processes, self.pki, images.PAUSE)

    def _start(self, joining: Node) -> None:
        joining.start()
        for archive in self._archives:
            joining.load(archive)
        joining.start_kubelet()

    def _takes_pods(self, name: str) -> bool:
        ready = '{.status.conditions[?(@.type=="Ready")].status} {.spec.taints}'
        with contextlib.suppress(processes.ClusterError):
            return self.kubectl("get", "node", name, "--output", f"jsonpath={ready}") == "True "
        return False

    def start_proxy(self) -> None:
        """Start one for all nodes: they share the network in which the rules are.

        It ends when its node object is deleted, and counts on being started again.
        """
        self.processes.stop(PROXY)
        flags = {
            "kubeconfig": self.pki.kubeconfig(PROXY),
            "proxy-mode": "nftables",
            "hostname-override": self.nodes[0].name,
            "cluster-cidr": "10.244.0.0/16",
            "healthz-bind-address": HEALTH,
            # these switches of the kernel are not a namespace's to set
            "conntrack-max-per-core": 0,
            "conntrack-min": 0,
            "conntrack-tcp-timeout-established": "0s",
            "conntrack-tcp-timeout-close-wait": "0s",
        }
        argv = [f"--{name}={word}" for name, word in flags.items()]
        environment = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        self.processes.start(PROXY, network.inside(build.program(PROXY), *argv), environment)


def down() -> None:
    """End everything that the cluster of this name has, whoever started it."""
    until("the end of the cluster's processes", _ended)
    cgroups.remove(node.cgroup_names())
    network.remove()
    shutil.rmtree(places.cluster_folder(), ignore_errors=True)


@contextlib.contextmanager
def running(nodes: int = 1) -> Iterator[Cluster]:
    """A cluster while the block runs."""
    cluster = Cluster(nodes)
    try:
        cluster.up()
        yield cluster
    finally:
        _keep_logs()
        down()
        cluster.processes.reap()


def _keep_logs() -> None:
    """Copy what programs, services and pods have said, for whoever asks why a test failed."""
    folder, kept = places.cluster_folder(), places.kept_logs() / places.cluster_name()
    shutil.rmtree(kept, ignore_errors=True)
    for logs in (folder / "logs", *folder.glob("node*/pod-logs")):
        shutil.copytree(logs, kept / logs.relative_to(folder), ignore_dangling_symlinks=True)


def _ended() -> bool:
    """Kill what still lives; whether that was nothing."""
    # containers first would be started again by their kubelet, so everything goes at once
    living = {*network.members(), *cgroups.members(node.cgroup_names())}
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not living


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.cluster", description=__doc__)
    parser.add_argument("verb", choices=("up", "down", "kubectl", "helm"))
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 2))
    options, words = parser.parse_known_args()
    start = time.monotonic()
    match options.verb:
        case "up":
            Cluster(options.nodes).up()
        case "down":
            down()
        case program:
            return subprocess.run(Cluster().command(program, *words), check=False).returncode
    print(f"{options.verb} in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
