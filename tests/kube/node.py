"""A node: containerd and a kubelet in a mount namespace of their own.

The kubelet's folder of plugin sockets is a constant in its code, so every node has to see a
/var/lib/kubelet of its own. From outside, the same sockets are found below the node's folder. All
mounts of its pods end with the namespace, and everything that runs in its cgroups is its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kube import build, network, places
from tests.kube.control import answers
from tests.kube.pki import DOMAIN, Pki
from tests.kube.processes import Processes, output, until

NAMES = ("gpu-a", "gpu-b")
IMAGES = "k8s.io"  # containerd's namespace of what the kubelet runs
DNS = "10.96.0.10"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
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
        return f"{places.cluster_name()}-{self.name}"

    def start(self) -> None:
        """Start everything of the node but the kubelet."""
        user = f"system:node:{self.name}"
        serves = (f"DNS:{self.name}", f"IP:{self.address}")
        self.pki.issue(self.name, user, "system:nodes", serves)
        self._start_namespace()
        self._start_containerd()
        _make_cgroup(self.cgroup)

    def load(self, archive: pathlib.Path) -> None:
        """Import an image from an OCI archive."""
        self.ctr("images", "import", archive)

    def ctr(self, *words: object) -> str:
        """Ask containerd."""
        return output(build.program("ctr"), "-a", self._runtime, "-n", IMAGES, *words)

    def start_kubelet(self) -> None:
        """Start the kubelet and wait until it is healthy."""
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps(self._kubelet_config(), indent=1), encoding="utf-8")
        flags = {
            "config": config,
            "kubeconfig": self.pki.kubeconfig(self.name),
            "hostname-override": self.name,
            "node-ip": self.address,
        }
        argv = [f"--{name}={word}" for name, word in flags.items()]
        self.processes.start(self._part("kubelet"), self.inside(build.program("kubelet"), *argv))
        self.processes.ready(
            self._part("kubelet"), lambda: answers(f"http://{self.address}:10248/healthz")
        )

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
        networks.mkdir()
        (networks / "10-bridge.conflist").write_text(self._network_config(), encoding="utf-8")
        config = self.folder / "containerd.toml"
        config.write_text(self._containerd_config(networks), encoding="utf-8")
        containerd = build.program("containerd")
        environment = {"PATH": f"{containerd.parent}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        argv = self.inside(containerd, "--config", config)
        self.processes.start(self._part("containerd"), argv, environment)
        self.processes.ready(self._part("containerd"), self._runtime_answers)

    def _runtime_answers(self) -> bool:
        if not self._runtime.exists():
            return False
        with contextlib.suppress(RuntimeError):
            return bool(self.ctr("version"))
        return False

    def _network_config(self) -> str:
        subnet = f"10.244.{self.number}.0/24"
        ranges = {"ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {
            "type": "bridge",
            "bridge": f"pods{self.number}",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": str(self.folder / "addresses"), **ranges},
        }
        plugins = [bridge, {"type": "loopback"}]
        return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})

    def _containerd_config(self, networks: pathlib.Path) -> str:
        # restrict_oom_score_adj: where root lacks CAP_SYS_RESOURCE, runc cannot lower it
        return f"""version = 3
root = "{self.folder}/containerd"
state = "{self.folder}/containerd-state"
[grpc]
  address = "{self._runtime}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{self.pause}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{networks}"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "/usr/sbin/runc"
  SystemdCgroup = false
"""

    def _kubelet_config(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzBindAddress": self.address,
            "authentication": {"x509": {"clientCAFile": str(self.pki.ca)}},
            "tlsCertFile": str(self.pki.certificate(self.name)),
            "tlsPrivateKeyFile": str(self.pki.key(self.name)),
            "containerRuntimeEndpoint": f"unix://{self._runtime}",
            "cgroupRoot": f"/{self.cgroup}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDomain": DOMAIN,
            "clusterDNS": [DNS],
            "nodeStatusUpdateFrequency": "1s",  # the default of 10 s is what tests would wait for
            "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "makeIPTablesUtilChains": False,
            "serializeImagePulls": False,
        }


def _make_cgroup(name: str) -> None:
    """Make the cgroup in which a kubelet may work: in each hierarchy, or in the only one."""
    for parent in _hierarchies():
        child = parent / name
        child.mkdir(exist_ok=True)
        if (parent / "cgroup.subtree_control").exists():
            controllers = (parent / "cgroup.controllers").read_text(encoding="utf-8").split()
            wanted = " ".join(f"+{each}" for each in controllers)
            (parent / "cgroup.subtree_control").write_text(wanted, encoding="utf-8")
        for each in ("cpuset.cpus", "cpuset.mems"):
            if parent.name == "cpuset":  # an empty set, where it is not inherited, takes no process
                (child / each).write_text(
                    (parent / each).read_text(encoding="utf-8"), encoding="utf-8"
                )


def _hierarchies() -> list[pathlib.Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _cgroup_folders(name: str) -> Iterator[pathlib.Path]:
    """The cgroup and those below it, the lowest first."""
    for parent in _hierarchies():
        for folder, _, _ in os.walk(parent / name, topdown=False):
            yield pathlib.Path(folder)


def members() -> set[int]:
    """Pids of everything that runs in the pods of the cluster's nodes."""
    found: set[int] = set()
    for name in NAMES:
        for folder in _cgroup_folders(f"{places.cluster_name()}-{name}"):
            with contextlib.suppress(FileNotFoundError):
                found.update(map(int, (folder / "cgroup.procs").read_text("ascii").split()))
    return found


def remove_cgroups() -> None:
    """Remove the cgroups of all nodes; the kernel needs a moment after the last process."""
    for name in NAMES:
        for folder in _cgroup_folders(f"{places.cluster_name()}-{name}"):
            until(f"removal of {folder}", functools.partial(_removed, folder))


def _removed(folder: pathlib.Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    return True
