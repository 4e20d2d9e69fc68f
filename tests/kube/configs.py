"""What a node's programs are told: kubelet, containerd, and the network of its pods. Pure."""

from __future__ import annotations

import json
import pathlib

from tests.kube.pki import DOMAIN

DNS = "10.96.0.10"


def kubelet(
    *,
    address: str,
    runtime: pathlib.Path,
    cgroup: str,
    authority: pathlib.Path,
    certificate: pathlib.Path,
    key: pathlib.Path,
) -> str:
    """The kubelet's configuration file."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": address,
        "authentication": {"x509": {"clientCAFile": str(authority)}},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "cgroupRoot": f"/{cgroup}",
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
    return json.dumps(config, indent=1)


def network(number: int, addresses: pathlib.Path) -> str:
    """A bridge for the node's pods, and the file of addresses that are taken."""
    ranges = [[{"subnet": f"10.244.{number}.0/24"}]]
    bridge = {
        "type": "bridge",
        "bridge": f"pods{number}",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(addresses),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "loopback"}]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})


def containerd(
    folder: pathlib.Path, socket: pathlib.Path, networks: pathlib.Path, pause: str
) -> str:
    """containerd's configuration file.

    Without restrict_oom_score_adj, a root that lacks CAP_SYS_RESOURCE could start no pod.
    """
    return f"""version = 3
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
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
