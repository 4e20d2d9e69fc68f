"""All of slicewire beside a real kubelet and a real API server, as processes, without a chart.

GPUs are simulated. Their device nodes are made below the node's folder and are really /dev/null,
so that containers get them as they would get a GPU's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.allocator.grant import CONTROL_NODES
from services.rehearsal.embedded.processes import Process, environment
from shared.bus import connection, logs
from shared.bus.login import Login
from shared.contract.facts import FactKind
from shared.contract.table import Role
from shared.runtime import locks
from shared.simulation.broker import Broker
from shared.simulation.gpu.control import Control
from shared.simulation.kube.api_client import ApiRefusedError
from tests.kube import agreement
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually
from tests.support.node_view import GPU, NAME
from tests.support.one_node import pod_object

NAMESPACE = "slicewire"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
GPUS = ("a100-80gb", "a100-80gb")
NULL = os.makedev(1, 3)
ON_NODE = ("allocator", "agent", "advertiser")
BOOT_ID = "boot_id"
ANY = None  # where a pod goes is the scheduler's choice


@dataclass(frozen=True)
class Ours:
    """Our parts on one real node.

    Attributes:
        node: where they are.
        broker: the bus.
        services: their processes by name; `allocator-next` is the one of an upgrade.
    """

    node: RealNode
    broker: Broker
    services: Mapping[str, Process]

    async def share(self, text: str) -> None:
        """Write the only text of the sharing ConfigMap."""
        body = {"metadata": {"name": "sharing"}, "data": {"all": text}}
        try:
            await self.node.api.patch(f"{CONFIG_MAPS}/sharing", body)
        except ApiRefusedError as refused:
            if refused.code != 404:
                raise
            await self.node.api.create(CONFIG_MAPS, body)

    async def status(self) -> dict[str, Any]:
        """What `slicewire status` says."""
        user, password_file = self.broker.credentials(Role.COMMAND)
        access = {
            "SLICEWIRE_BUS_URL": self.broker.url,
            "SLICEWIRE_BUS_USER": user,
            "SLICEWIRE_BUS_PASSWORD_FILE": str(password_file),
        }
        called = (sys.executable, "-m", "services.cli", "status", "-o", "json")
        process = await asyncio.create_subprocess_exec(
            *called, env=environment(access), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        answer: dict[str, Any] = json.loads(said)
        return answer

    async def agrees(self) -> None:
        """Wait until `kubectl get nodes` and `slicewire status` say the same."""
        await agreement.agreed(self.node.cluster, self.status, self.node.patience)

    async def until_awaited(self) -> None:
        """Wait until a successor stands at the allocator's lock."""
        lock = locks.ServingLock(self.node.folder / "run" / "allocator.lock")
        await eventually(lock.is_awaited, within=self.node.patience)

    async def power_off(self) -> None:
        """The whole node at once: our services, kubelet, runtime and pods."""
        for name in ON_NODE:
            await self.services[name].kill()
        await self.node.kubelet.power_off()

    async def power_on(self) -> None:
        """Boot the node with its GPUs, but none of our services yet."""
        await Control(self.node.folder / "gpu.sock").reboot()
        await asyncio.to_thread(_begin_boot, self.node.folder)
        await self.node.kubelet.power_on()

    async def facts(self, kind: FactKind) -> list[str]:
        """Sentences of a kind that the node's services have told."""
        login = Login(*self.broker.credentials(Role.COMMAND))
        async with connection.open_bus(self.broker.url, login, Role.COMMAND) as bus:
            await bus.session()
            return [fact.sentence for fact in await logs.read_facts(bus, NAME, kind)]


def text(replicas: int, flag: str = "") -> str:
    """A sharing text for `nvidia.com/gpu`."""
    return f"""\
version: v1
sharing:
  timeSlicing:
    {flag}
    resources:
      - name: nvidia.com/gpu
        replicas: {replicas}
"""


async def run(node: RealNode, *names: str) -> None:
    """Create pods of one slot each, which the scheduler places, and wait until they run."""
    for name in names:
        await node.create(pod_object(name, {GPU: 1}, node=ANY))
    for name in names:
        await node.until_phase(name, "Running")


async def has_ended(node: RealNode, name: str) -> bool:
    """Whether a pod has been admitted or refused."""
    return await node.phase(name) in ("Running", "Failed")


async def restarts(node: RealNode, *names: str) -> list[int]:
    """How often the containers of pods were started again."""
    pods = [await node.read(name) for name in names]
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods]


@contextlib.asynccontextmanager
async def started(node: RealNode) -> AsyncIterator[Ours]:
    """Start everything; it ends with the block."""
    await asyncio.to_thread(_make_device_nodes, node.folder)
    await asyncio.to_thread(_begin_boot, node.folder)
    with contextlib.suppress(ApiRefusedError):
        await node.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for name in ("sharing", "mig"):
        with contextlib.suppress(ApiRefusedError):
            await node.api.delete(f"{CONFIG_MAPS}/{name}", {})
    broker = Broker(node.folder / "bus", [NAME])
    await broker.start()
    services = _services(node, broker)
    try:
        for name in ("gpus", "controller", "advertiser", "agent", "allocator"):
            await services[name].start()
        yield Ours(node, broker, services)
    finally:
        for process in reversed(services.values()):
            await process.stop()
        await broker.stop()


def _services(node: RealNode, broker: Broker) -> dict[str, Process]:
    hardware = ("simulate", "--socket", str(node.folder / "gpu.sock"))
    kubelet = node.kubelet
    place = (
        *("--node-name", NAME, "--run-dir", str(node.folder / "run")),
        *("--state-dir", str(node.folder / "state")),
        *("--boot-id-path", str(node.folder / BOOT_ID)),
    )
    serves = ("--dev-root", str(node.folder / "host"))
    sockets = (
        *("--device-plugins-dir", str(kubelet.plugins_folder)),
        *("--pod-resources-socket", str(kubelet.pod_resources_socket)),
    )
    access = ("--kube-config", str(node.cluster.kubeconfig), "--namespace", NAMESPACE)
    allocator = ("allocator", *place, *serves, *sockets)
    words = {
        "gpus": (*hardware, "--node", NAME, "--gpus", ",".join(GPUS)),
        "controller": ("reconfigurer", "controller", *access),
        "advertiser": (*hardware, "--", "advertiser", *place),
        "agent": (*hardware, "--", "reconfigurer", "agent", *place),
        "allocator": allocator,
        "allocator-next": allocator,
    }
    return {name: _process(name, each, node, broker) for name, each in words.items()}


def _process(name: str, words: tuple[str, ...], node: RealNode, broker: Broker) -> Process:
    log = node.cluster.processes.log(name)
    role = {"allocator-next": Role.ALLOCATOR}.get(name)
    if role is None and name != "gpus":
        role = Role(name)
    return Process(name, words, log, environment(_access(role, broker) if role else {}))


def _access(role: Role, broker: Broker) -> dict[str, str]:
    user, password_file = broker.credentials(role, "" if role is Role.CONTROLLER else NAME)
    return {
        "SLICEWIRE_BUS_URL": broker.url,
        "SLICEWIRE_BUS_USER": user,
        "SLICEWIRE_BUS_PASSWORD_FILE": str(password_file),
    }


def _begin_boot(folder: pathlib.Path) -> None:
    (folder / BOOT_ID).write_text(f"{uuid.uuid4()}\n", encoding="ascii")


def _make_device_nodes(folder: pathlib.Path) -> None:
    """Make what a driver would have made below /dev."""
    minors = [f"/dev/nvidia{minor}" for minor in range(len(GPUS))]
    for path in (*minors, *CONTROL_NODES):
        node = folder / "host" / path.lstrip("/")
        node.parent.mkdir(parents=True, exist_ok=True)
        if not node.exists():
            os.mknod(node, stat.S_IFCHR | 0o666, NULL)
