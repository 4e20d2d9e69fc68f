"""The cluster's network namespace: its own ports, addresses and firewall, and no way out.

Everything of the cluster starts in it, and a test enters it. What is left in it after the end is
found by asking the kernel who is in it, whoever started that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
from collections.abc import Iterator

from tests.kube import places
from tests.kube.processes import output

CLONE_NEWNET = 0x40000000
PREFIX = "198.18.0"  # of the range that is kept for tests of networks
ADDRESS = f"{PREFIX}.1"
SWITCHES = (
    "net.ipv4.ip_forward=1",
    "net.bridge.bridge-nf-call-iptables=1",
    "net.ipv4.conf.all.route_localnet=1",
)


def path() -> pathlib.Path:
    """The file that stands for the namespace."""
    return pathlib.Path("/run/netns") / places.cluster_name()


def create(addresses: int) -> None:
    """Make the namespace with an address for each node that there may be."""
    name = places.cluster_name()
    output("ip", "netns", "add", name)
    links = ["link set lo up", "link add uplink type veth peer name nowhere"]
    links += [f"address add {PREFIX}.{nth + 1}/24 dev uplink" for nth in range(addresses)]
    links += ["link set nowhere up", "link set uplink up", "route add default dev uplink"]
    for words in links:
        output("ip", "-netns", name, *words.split())
    output("ip", "netns", "exec", name, "sysctl", "--quiet", "--write", *SWITCHES)


def inside(*argv: object) -> list[str]:
    """A command line that runs another in the namespace.

    Not `ip netns exec`: that mounts another /sys, in which there are no cgroups.
    """
    return ["nsenter", f"--net={path()}", "--", *(str(word) for word in argv)]


@contextlib.contextmanager
def entered() -> Iterator[None]:
    """Put this thread, and what it starts, into the namespace while the block runs."""
    with open("/proc/thread-self/ns/net", "rb") as own, path().open("rb") as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def members() -> list[int]:
    """Pids of everything in the namespace, except ourselves."""
    if not path().exists():
        return []
    said = output("ip", "netns", "pids", places.cluster_name())
    return [int(pid) for pid in said.split() if int(pid) != os.getpid()]


def remove() -> None:
    """Remove the namespace with its addresses and rules; none is as good."""
    if path().exists():
        output("ip", "netns", "delete", places.cluster_name())


def _enter(descriptor: int) -> None:
    # os.setns is there from Python 3.12 on
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"the network namespace was not entered: {os.strerror(number)}")
