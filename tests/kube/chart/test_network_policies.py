"""The chart's NetworkPolicies where something makes them hold.

Nothing on this cluster does but for this module, which brings kube-network-policies. It serves one
node: that of the bus.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.kube import images, network, ours, places
from tests.kube.chart.release import BUS, NAMESPACE, Release
from tests.kube.cluster import Cluster
from tests.kube.processes import ClusterError, output
from tests.support.one_node import pod_object

MANIFESTS = places.HERE / "policies.yaml"
# It has packets shown to it by rules of nftables, which not every kernel can queue; these can be.
RULES = (
    "--match conntrack --ctstate RELATED,ESTABLISHED --jump ACCEPT",
    "--match owner --uid-owner 0 --jump ACCEPT",  # kubelet and control plane
    "--jump NFQUEUE --queue-num 100",
)
BUS_PORT, METRICS_PORT = 4222, 8081
CONNECTS = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


async def test_policies_let_through_what_is_needed_and_nobody_else(
    release: Release, cluster: Cluster
) -> None:
    """Everybody finds a new bus, metrics are read; a stranger has no bus, a node service only that.

    Where nothing makes the policies hold, both get through.
    """
    node = await release.place_of("nats")
    await node.create(pod_object("stranger", {}, node=node.name))
    await node.until_phase("stranger", "Running")
    bus = f"{BUS}.{NAMESPACE}"
    advertiser, address = await _place(release, "advertiser", node.name)
    _, elsewhere = await _place(release, "controller", None)
    assert await _greets(release, bus)
    await _connect(release, advertiser, elsewhere)
    with _enforced(cluster, node.name):
        await node.kubelet.crash(f"{NAMESPACE}/{BUS}-0")
        await release.share(ours.text(3))
        await release.until_counts((6, 6), (6, 6))
        assert "slicewire_gpu_info" in await _read(release, address)
        assert not await _greets(release, bus)
        with pytest.raises(ClusterError, match="timed out"):
            await _connect(release, advertiser, elsewhere)


@contextlib.contextmanager
def _enforced(cluster: Cluster, node: str) -> Iterator[None]:
    """Have policies hold on a node while the block runs."""
    cluster.load(images.policies(cluster.folder))
    manifests = MANIFESTS.read_text(encoding="utf-8").replace("NODE", node)
    cluster.kubectl("apply", "--filename", "-", given=manifests)
    ready = ("wait", "--for=condition=Ready", "--timeout=120s", "--namespace", "kube-system")
    try:
        cluster.kubectl(*ready, "pod/network-policies")
        for rule in RULES:
            _iptables("--append", *rule.split())
        yield
    finally:
        _iptables("--flush")
        cluster.kubectl("delete", "--filename", "-", given=manifests)


def _iptables(verb: str, *words: str) -> None:
    table = ("iptables", "--wait", "--table", "mangle")
    output(*network.inside(*table, verb, "POSTROUTING", *words))


async def _place(release: Release, part: str, node: str | None) -> tuple[str, str]:
    """Name and address of a part's pod, on a node or on any."""
    for name, pod in (await release.pods(part)).items():
        if node in (None, pod["spec"]["nodeName"]):
            return name, pod["status"]["podIP"]
    raise AssertionError(f"there is no {part} on {node}")


async def _read(release: Release, address: str) -> str:
    """What the stranger is told by a service's metrics page; nothing where it is stopped."""
    ask = r"printf 'GET /metrics HTTP/1.0\r\n\r\n'"
    return await _call(release, f"{ask} | nc -w 3 {address} {METRICS_PORT}")


async def _greets(release: Release, bus: str) -> bool:
    """Whether the bus says its first line to the stranger."""
    return (await _call(release, f"nc -w 3 {bus} {BUS_PORT} < /dev/null")).startswith("INFO")


async def _call(release: Release, line: str) -> str:
    try:
        return await release.kubectl(
            "exec", "stranger", "--", "sh", "-c", line, namespace="default"
        )
    except ClusterError:
        return ""


async def _connect(release: Release, pod: str, address: str) -> None:
    """Reach another pod's metrics from a pod of ours."""
    python = ("/opt/slicewire/bin/python", "-c", CONNECTS, address, str(METRICS_PORT))
    await release.kubectl("exec", pod, "--", *python)
