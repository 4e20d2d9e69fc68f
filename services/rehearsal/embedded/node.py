"""One node of the embedded cluster: the owner of its GPUs, its kubelet, its services."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import shutil
import uuid
from collections.abc import Mapping
from typing import NoReturn

import yaml

from services.rehearsal.embedded.gpu_processes import GpuProcesses
from services.rehearsal.embedded.processes import Process, environment
from services.rehearsal.embedded.scraping import Targets
from services.rehearsal.story import Node, Service
from shared.contract.table import Role
from shared.runtime import clock
from shared.simulation.broker import Broker
from shared.simulation.gpu.control import Control
from shared.simulation.kube.kubelet.kubelet import FakeKubelet

PROCESSES: tuple[Service, ...] = (Service.ADVERTISER, Service.ALLOCATOR, Service.AGENT)
BESIDE_THE_BUS = (Service.MPS,)  # these have no access to it
WORDS = {
    Service.ADVERTISER: ("advertiser",),
    Service.ALLOCATOR: ("allocator",),
    Service.AGENT: ("reconfigurer", "agent"),
    Service.MPS: ("mps",),
}
# These meet NVML or programs of the driver, so they run on stand-ins for both.
ON_GPUS = (Service.ADVERTISER, Service.AGENT, Service.MPS)
# In a rehearsal nobody waits as long as on a real node: the agent's own values are 30 s and 10 s.
RETRY_S, REBOOT_GRACE_S = "4", "0.5"
USAGE_S = "1"  # the advertiser's own is 5 s
LOOK_S = 0.2  # between two looks whether the agent has asked for a boot


class EmbeddedNode:
    """What belongs to one node; files and sockets stand below `folder`, whose path is short."""

    def __init__(
        self,
        node: Node,
        folder: pathlib.Path,
        *,
        logs: pathlib.Path,
        api_url: str,
        broker: Broker,
        targets: Targets,
        mps: bool = False,
    ) -> None:
        self.node = node
        self._folder = folder
        self._logs = logs
        self._broker = broker
        self._targets = targets
        self.hardware = Control(folder / "gpu.sock")
        self.kubelet = FakeKubelet(
            api_url,
            node.name,
            folder,
            labels=node.labels,
            switches=node.kubelet,
            runtime=GpuProcesses(self.hardware, self._links),
        )
        self._booting = asyncio.Lock()
        self.owner = self._process("simulated GPUs", self._owner_arguments(), {})
        self.processes: dict[Service, Process] = {
            service: self._process(service.value, self._arguments(service), self._access(service))
            for service in (*PROCESSES, *(BESIDE_THE_BUS if mps else ()))
        }

    def write_files(self) -> None:
        """Make the disk, say which GPUs there are, and begin the first boot; runs in a thread."""
        self._state_dir.mkdir(parents=True)
        self._gpus.write_text(yaml.safe_dump(list(self.node.gpus)), encoding="utf-8")
        self._begin_boot()

    def _begin_boot(self) -> None:
        shutil.rmtree(self._run_dir, ignore_errors=True)
        self._run_dir.mkdir()
        self._boot_id.write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    async def start_hardware(self) -> None:
        """Start the owner of the GPUs and wait until it answers; services wait for it as well."""
        await self.owner.start()
        with contextlib.suppress(TimeoutError):
            await self.hardware.ready()

    async def run(self) -> NoReturn:
        """Boot whenever the agent's command asks for it, until cancelled."""
        while True:
            if await asyncio.to_thread(self._wish.exists):
                await asyncio.to_thread(self._wish.unlink)
                await self.reboot()
            await clock.sleep(LOOK_S)

    async def reboot(self) -> None:
        """Boot anew: what ran is gone at once, disks stay, /run is empty, everything starts.

        The process that owns the GPUs stands for the hardware itself, so it stays.
        """
        async with self._booting:
            await self._go_down()
            await self.hardware.reboot()
            await asyncio.to_thread(self._begin_boot)
            await self._come_up()

    async def _go_down(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.kubelet.power_off(), name=f"power off {self.node.name}")
            for process in self.processes.values():
                tasks.create_task(process.kill(), name=f"power off {process.name}")

    async def _come_up(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.kubelet.start(), name=f"boot kubelet of {self.node.name}")
            for process in self.processes.values():
                tasks.create_task(process.start(), name=f"boot {process.name}")

    @property
    def everything(self) -> tuple[Process, ...]:
        """All processes of the node, in the order in which they are ended."""
        return (*self.processes.values(), self.owner)

    @property
    def _run_dir(self) -> pathlib.Path:
        return self._folder / "run"

    @property
    def _state_dir(self) -> pathlib.Path:
        return self._folder / "state"

    @property
    def _gpus(self) -> pathlib.Path:
        return self._folder / "gpus.yaml"

    @property
    def _boot_id(self) -> pathlib.Path:
        return self._folder / "boot_id"

    @property
    def _wish(self) -> pathlib.Path:
        """The file by which the agent's command asks for a boot."""
        return self._folder / "boot-wanted"

    @property
    def _links(self) -> pathlib.Path:
        return self._folder / "containers"

    @property
    def _proc(self) -> pathlib.Path:
        return self._folder / "proc"

    def _process(
        self, name: str, arguments: tuple[str, ...], variables: Mapping[str, str]
    ) -> Process:
        log = self._logs / f"{self.node.name}.{name.replace(' ', '-')}.log"
        words = f"{name} of {self.node.name}"
        return Process(words, arguments, log, environment(variables))

    def _owner_arguments(self) -> tuple[str, ...]:
        return (
            *("simulate", "--socket", str(self._folder / "gpu.sock")),
            *("--node", self.node.name, "--gpus", f"@{self._gpus}"),
            *("--proc", str(self._proc)),
        )

    def _arguments(self, service: Service) -> tuple[str, ...]:
        """Words and flags of a service, run on the simulated GPUs where it meets GPUs."""
        shown = (
            () if service in BESIDE_THE_BUS else self._targets.flags(service.value, self.node.name)
        )
        own = (*WORDS[service], *self._flags(service), *shown)
        if service in ON_GPUS:
            return ("simulate", "--socket", str(self._folder / "gpu.sock"), "--", *own)
        return own

    def _flags(self, service: Service) -> tuple[str, ...]:
        flags = {
            "--node-name": self.node.name,
            "--run-dir": str(self._run_dir),
            "--boot-id-path": str(self._boot_id),
        }
        if service is Service.MPS:
            return _words(flags | {"--mps-dir": str(self._run_dir / "mps")})
        flags |= {"--state-dir": str(self._state_dir)}
        if service is Service.ALLOCATOR:
            flags |= {
                "--device-plugins-dir": str(self.kubelet.plugins_folder),
                "--pod-resources-socket": str(self.kubelet.pod_resources_socket),
            }
        else:
            flags |= {"--proc-root": str(self._proc)}
        if service is Service.ADVERTISER:
            flags |= {"--log-links": str(self._links), "--usage-period-s": USAGE_S}
        if service is Service.AGENT:
            flags |= {
                "--retry-first-s": RETRY_S,
                "--reboot-command": f"touch {self._wish}",
                "--reboot-grace-s": REBOOT_GRACE_S,
            }
        return _words(flags)

    def _access(self, service: Service) -> dict[str, str]:
        if service in BESIDE_THE_BUS:
            return {}
        user, password_file = self._broker.credentials(Role(service.value), self.node.name)
        return {
            "SLICEWIRE_BUS_URL": self._broker.url,
            "SLICEWIRE_BUS_USER": user,
            "SLICEWIRE_BUS_PASSWORD_FILE": str(password_file),
        }


def _words(flags: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for pair in flags.items() for word in pair)
