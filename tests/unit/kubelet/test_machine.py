"""What the fake kubelet's machine does: it runs processes for containers, and it can go down."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field

import pytest

from shared.simulation.kube.apiserver import kinds
from shared.simulation.kube.kubelet import device_manager
from shared.simulation.kube.kubelet.containers import RunningPod
from shared.simulation.kube.kubelet.device_manager import Device, DeviceManager, Place
from shared.simulation.kube.kubelet.runtime import DiedError
from tests.suites.device_manager import devices
from tests.support.eventually import eventually
from tests.support.one_node import GPU, OneNode, one_node, pod_object
from tests.support.plugin import Plugin

PLACE = Place("uid", "c0")


@dataclass
class Processes:
    """A runtime that remembers who runs; pods called so die at once."""

    deadly: str = ""
    running: list[str] = field(default_factory=list)

    async def begin(self, pod: RunningPod) -> None:
        """Run a pod."""
        if pod.key == self.deadly:
            raise DiedError("out of memory")
        self.running.append(pod.key)

    async def end(self, pod: RunningPod) -> None:
        """Have it end, if it runs."""
        self.running = [key for key in self.running if key != pod.key]


async def restarts(node: OneNode, name: str) -> int:
    """How often a pod's container has started again."""
    (status,) = (await node.read(name))["status"]["containerStatuses"]
    return int(status["restartCount"])


async def test_a_process_is_gone_before_its_pod_is(tmp_path: pathlib.Path) -> None:
    """It is there before the pod counts as running, and as long as the pod's grace lasts."""
    processes = Processes()
    async with one_node(tmp_path, runtime=processes) as node:
        await node.create(pod_object("a", {}, grace=1))
        await node.until_phase("a", "Running")
        assert processes.running == ["default/a"]
        node.server.objects.delete(kinds.POD, "default", "a")
        assert processes.running == ["default/a"]
        await eventually(lambda: node.server.store.get("pods", "default", "a") is None)
        assert processes.running == []


async def test_a_process_ends_with_its_containers_and_with_a_forced_deletion(
    tmp_path: pathlib.Path,
) -> None:
    """A job's pod stays and has none; a pod that is taken away by force loses its own."""
    processes = Processes()
    async with one_node(tmp_path, runtime=processes) as node:
        for name in ("job", "forced"):
            await node.create(pod_object(name, {}))
            await node.until_phase(name, "Running")
        await node.kubelet.finish("default/job")
        assert processes.running == ["default/forced"]
        node.server.objects.delete(kinds.POD, "default", "forced")
        await eventually(lambda: processes.running == [])


async def test_a_pod_whose_process_dies_at_once_has_failed(tmp_path: pathlib.Path) -> None:
    """As when there is no memory for it; its devices are free again."""
    processes = Processes(deadly="default/a")
    async with (
        one_node(tmp_path, runtime=processes) as node,
        Plugin(node.plugins, devices(1)),
    ):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}))
        await node.until_phase("a", "Failed")
        await node.create(pod_object("b", {GPU: 1}))
        await node.until_phase("b", "Running")
        assert processes.running == ["default/b"]


async def test_after_a_boot_pods_start_again_and_those_with_devices_are_refused(
    tmp_path: pathlib.Path,
) -> None:
    """The kubelet admits what ran before as soon as it starts; no plugin has registered then."""
    async with one_node(tmp_path) as node:
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("plain", {}))
            await node.create(pod_object("gpu", {GPU: 1}))
            for name in ("plain", "gpu"):
                await node.until_phase(name, "Running")
        await node.kubelet.power_off()
        assert node.kubelet.running() == ()
        await node.kubelet.start()
        await node.until_phase("gpu", "Failed")
        (refused,) = node.kubelet.record.rejections
        assert "no healthy devices present" in refused.message
        await eventually(lambda: [pod.key for pod in node.kubelet.running()] == ["default/plain"])
        await eventually(lambda: restarts(node, "plain"))  # its status follows
        assert await restarts(node, "plain") == 1


def after_a_boot(*listed: Device) -> DeviceManager:
    """A manager whose checkpoint says that a container has g0 and g1."""
    manager = DeviceManager()
    manager.restore({(PLACE, GPU): ("g0", "g1")}, [GPU], now=0)
    if listed:
        manager.listed(GPU, listed)
    return manager


def test_what_a_container_had_is_given_again_if_it_is_healthy() -> None:
    """A plugin that was quicker than the pods makes the difference."""
    manager = after_a_boot(*(Device(name, healthy=True) for name in ("g0", "g1", "g2")))
    manager.require_still_healthy(PLACE)


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        ((), "no healthy devices present"),
        ((Device("g0", healthy=True),), "previously allocated devices are no longer healthy"),
        (
            (Device("g0", healthy=True), Device("g1", healthy=False)),
            "previously allocated devices are no longer healthy",
        ),
    ],
    ids=["nothing listed", "one gone", "one sick"],
)
def test_what_a_container_had_and_is_not_healthy_refuses_it(
    listed: tuple[Device, ...], sentence: str
) -> None:
    """In the kubelet's words."""
    with pytest.raises(device_manager.RefusedPodError, match=sentence):
        after_a_boot(*listed).require_still_healthy(PLACE)
