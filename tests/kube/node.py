"""A node: containerd and a kubelet in a mount namespace of their own.

The kubelet's folder of plugin sockets is a constant in its code, so every node has to see a
/var/lib/kubelet of its own. From outside, the same sockets are found below the node's folder. All
mounts of its pods end with the namespace, and everything that runs in its cgroups is its own.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
from dataclasses import dataclass

from tests.kube import build, cgroups, configs, network, places
from tests.kube.control import answers
from tests.kube.pki import Pki
from tests.kube.processes import ClusterError, Processes, output, until

NAMES = ("gpu-a", "gpu-b")
IMAGES = "k8s.io"  # containerd's namespace of what the kubelet runs
PRIVATE = {  # seen by the node → in its folder
    "/var/lib/kubelet": "kubelet",
    "/var/lib/slicewire": "state",
    "/run/slicewire": "run",
    "/var/run/cdi": "cdi",
    "/etc/cdi": "cdi-etc",
    "/var/lib/cni": "cni",
    "/var/log/pods": "pod-logs",
    "/var/log/containers": "container-logs",
    "/run/netns": "netns",
}


@dataclass(frozen=True)
class Node:
    """One node of the cluster, known by its number."""

    number: int
    root: pathlib.Path
    processes: Processes
    pki: Pki
    pause: str

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return NAMES[self.number]

    @property
    def address(self) -> str:
        """Where its kubelet listens."""
        return f"{network.PREFIX}.{self.number + 1}"

    @property
    def folder(self) -> pathlib.Path:
        """Everything that the node writes."""
        return self.root / f"node{self.number}"

    @property
    def kubelet_folder(self) -> pathlib.Path:
        """What the node itself sees as /var/lib/kubelet."""
        return self.folder / "kubelet"

    @property
    def plugins(self) -> pathlib.Path:
        """The folder of plugin sockets."""
        return self.kubelet_folder / "device-plugins"

    @property
    def pod_resources_socket(self) -> pathlib.Path:
        """Where the kubelet tells who holds what."""
        return self.kubelet_folder / "pod-resources" / "kubelet.sock"

    @property
    def cgroup(self) -> str:
        """The cgroup of its pods; two kubelets in one would end each other's pods."""
        return cgroup_names()[self.number]

    def start(self) -> None:
        """Start everything of the node but the kubelet."""
        user = f"system:node:{self.name}"
        serves = (f"DNS:{self.name}", f"IP:{self.address}")
        self.pki.issue(self.name, user, "system:nodes", serves)
        self._start_namespace()
        self._start_containerd()
        cgroups.make(self.cgroup)

    def stop(self) -> None:
        """End everything of the node, pods as well, and leave nothing of it."""
        self._end()
        cgroups.remove([self.cgroup])
        shutil.rmtree(self.folder)

    def power_off(self) -> None:
        """End everything of the node at once, as without current; its disk stays."""
        self._end()
        (self.folder / "mounted").unlink()
        for gone in ("containerd-state", "netns", "run"):  # what stands in memory
            shutil.rmtree(self.folder / gone, ignore_errors=True)

    def _end(self) -> None:
        until(f"the end of {self.name}", self._ended)
        for part in ("kubelet", "containerd", "mounts"):
            self.processes.stop(self._part(part))  # so that what was killed is no zombie

    def power_on(self) -> None:
        """Boot: its runtime and its kubelet, which starts what is bound to the node."""
        self._start_namespace()
        self._start_containerd()
        self.start_kubelet()

    def load(self, archive: pathlib.Path) -> None:
        """Import an image from an OCI archive."""
        self.ctr("images", "import", archive)

    def ctr(self, *words: object) -> str:
        """Ask containerd."""
        return output(build.program("ctr"), "-a", self._runtime, "-n", IMAGES, *words)

    def start_kubelet(self) -> None:
        """Start the kubelet and wait until it is healthy and both its sockets are served."""
        config = self.folder / "kubelet.json"
        text = configs.kubelet(
            address=self.address,
            runtime=self._runtime,
            cgroup=self.cgroup,
            authority=self.pki.ca,
            certificate=self.pki.certificate(self.name),
            key=self.pki.key(self.name),
        )
        config.write_text(text, encoding="utf-8")
        flags = {
            "config": config,
            "kubeconfig": self.pki.kubeconfig(self.name),
            "hostname-override": self.name,
            "node-ip": self.address,
        }
        argv = [f"--{name}={word}" for name, word in flags.items()]
        self.processes.start(self._part("kubelet"), self.inside(build.program("kubelet"), *argv))
        self.processes.ready(self._part("kubelet"), self._kubelet_answers)

    def stop_kubelet(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the kubelet; its pods go on."""
        self.processes.stop(self._part("kubelet"), number)

    def forget_plugins(self) -> None:
        """Remove what a stopped kubelet has written down of plugins and their devices."""
        shutil.rmtree(self.plugins, ignore_errors=True)

    def inside(self, *argv: object) -> list[str]:
        """A command line that runs another where the node's programs run."""
        holder = self.processes.pid(self._part("mounts"))
        namespaces = (f"--net={network.path()}", f"--mount=/proc/{holder}/ns/mnt")
        return ["nsenter", *namespaces, "--", *(str(word) for word in argv)]

    def _part(self, name: str) -> str:
        return f"{name}.{self.name}"

    @property
    def _runtime(self) -> pathlib.Path:
        return self.folder / "containerd.sock"

    def _start_namespace(self) -> None:
        """Make the mount namespace; a process that sleeps keeps it."""
        ready = self.folder / "mounted"
        script = ["mount --make-rprivate /", "mount --make-rshared /"]
        for seen, kept in PRIVATE.items():
            (self.folder / kept).mkdir(parents=True, exist_ok=True)
            pathlib.Path(seen).mkdir(parents=True, exist_ok=True)
            script += [f"mount --bind {self.folder / kept} {seen}", f"mount --make-rshared {seen}"]
        script += [f"touch {ready}", "exec sleep infinity"]
        shell = ("unshare", "--mount", "sh", "-ec", "\n".join(script))
        self.processes.start(self._part("mounts"), network.inside(*shell))
        self.processes.ready(self._part("mounts"), ready.exists)

    def _start_containerd(self) -> None:
        networks = self.folder / "networks"
        networks.mkdir(exist_ok=True)
        bridge = configs.network(self.number, self.folder / "addresses")
        (networks / "10-bridge.conflist").write_text(bridge, encoding="utf-8")
        config = self.folder / "containerd.toml"
        text = configs.containerd(self.folder, self._runtime, networks, self.pause)
        config.write_text(text, encoding="utf-8")
        containerd = build.program("containerd")
        environment = {"PATH": f"{containerd.parent}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        argv = self.inside(containerd, "--config", config)
        self.processes.start(self._part("containerd"), argv, environment)
        self.processes.ready(self._part("containerd"), self._runtime_answers)

    def _ended(self) -> bool:
        """Kill what still lives; whether that was nothing."""
        living = cgroups.members([self.cgroup]) | self._in_our_namespace()
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    def _in_our_namespace(self) -> set[int]:
        """Pids of what sees the node's mounts: kubelet, containerd and its helpers, the holder."""
        holder = self.processes.pid(self._part("mounts"))
        if holder is None:
            return set()
        ours = pathlib.Path(f"/proc/{holder}/ns/mnt").readlink()
        found = set()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "ns" / "mnt").readlink() == ours:
                    found.add(int(process.name))
        return found - {holder} or {holder}  # the holder last: it is how the others are found

    def _kubelet_answers(self) -> bool:
        for path in (self.plugins / "kubelet.sock", self.pod_resources_socket):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))  # a file that a killed kubelet left refuses
        return answers(f"http://{self.address}:10248/healthz")

    def _runtime_answers(self) -> bool:
        if not self._runtime.exists():
            return False
        with contextlib.suppress(ClusterError):
            return bool(self.ctr("version"))
        return False


def cgroup_names() -> list[str]:
    """The cgroups of all nodes that the cluster could have."""
    return [f"{places.cluster_name()}-{name}" for name in NAMES]
