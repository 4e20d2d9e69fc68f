"""Whose a process is, by a real kubelet's links and the cgroups of a real containerd."""

from __future__ import annotations

import asyncio
import os
import pathlib

from services.advertiser import owners
from shared.domain.slots import Holder
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually
from tests.support.node_view import NAMESPACE
from tests.support.one_node import pod_object

PROC = pathlib.Path("/proc")
LONG = "long-" + "name." * 40 + "pod"  # the names of its links are cut within the id


def everybody(node: RealNode) -> dict[int, owners.Owner]:
    """Look all processes of the machine up, as if all of them used a GPU."""
    pids = [int(each) for each in os.listdir(PROC) if each.isdecimal()]
    return owners.read(PROC, node.folder / "container-logs", pids)


async def test_processes_of_containers_are_found_and_no_others(node: RealNode) -> None:
    """Each container of a pod by itself; the sandbox is its pod's; our own process is nobody's."""
    await node.create(pod_object("pair", {}, {}))
    await node.create(pod_object(LONG, {}))
    for name in ("pair", LONG):
        await node.until_phase(name, "Running")
    wanted = {
        *(Holder(NAMESPACE, "pair", each) for each in ("c0", "c1", "")),
        *(Holder(NAMESPACE, LONG, each) for each in ("c0", "")),
    }

    async def are_found() -> bool:
        found = await asyncio.to_thread(everybody, node)
        known = {each.holder for each in found.values()}
        mine = {each for each in known if each and each.pod in {"pair", LONG}}
        return mine == wanted and found[os.getpid()].pod_uid == ""

    await eventually(are_found, within=node.patience)


async def test_a_container_that_began_again_is_the_same_container(node: RealNode) -> None:
    """Its id is another, and so is its link."""
    manifest = pod_object("again", {})
    manifest["spec"]["restartPolicy"] = "Always"
    await node.create(manifest)
    await node.until_phase("again", "Running")
    before = await asyncio.to_thread(_pids, node, Holder(NAMESPACE, "again", "c0"))
    await node.kubelet.crash(f"{NAMESPACE}/again")

    async def is_back() -> bool:
        now = await asyncio.to_thread(_pids, node, Holder(NAMESPACE, "again", "c0"))
        return bool(now - before)

    await eventually(is_back, within=node.patience)


def _pids(node: RealNode, holder: Holder) -> set[int]:
    return {pid for pid, owner in everybody(node).items() if owner.holder == holder}
