"""`FakeKubelet`: one node's kubelet, composed of the parts of this package.

Rehearsals and tests start it, stop it, look into it. Containers and the record of what happened
belong to the machine, so they outlive the kubelet's own stops and restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from shared.kubelet import sockets
from shared.runtime import clock, latest
from shared.simulation.kube import api_client
from shared.simulation.kube.kubelet import (
    admission,
    checkpoint,
    containers,
    device_manager,
    pod_resources,
    pods,
    record,
    registration,
    status,
)
from shared.simulation.kube.kubelet.runtime import Runtime, Values
from shared.simulation.kube.kubelet.switches import Switches

if TYPE_CHECKING:
    from grpclib._typing import IServable

PLUGINS: Final = "device-plugins"
POD_RESOURCES: Final = "pod-resources"
SOCKET: Final = "kubelet.sock"


class FakeKubelet:
    """The kubelet of one node, with its sockets below `root`.

    Run `run()` as a task; `start` and `stop` may then be called as often as wanted.

    Attributes:
        record: registrations, lists, admissions and refusals since the beginning.
    """

    def __init__(
        self,
        api_url: str,
        node: str,
        root: pathlib.Path,
        *,
        labels: Mapping[str, str] | None = None,
        switches: Switches | None = None,
        runtime: Runtime | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.node = node
        self.record = record.Record()
        self.plugins_folder = root / PLUGINS
        self.pod_resources_socket = root / POD_RESOURCES / SOCKET
        self._api_url = api_url
        self._labels = dict(labels or {})
        self._switches = switches or Switches()
        self._rng = rng or random.Random()  # noqa: S311 - the order of ids keeps no secret
        self._runtime = runtime or Values()
        self._running: dict[str, containers.RunningPod] = {}
        self._booting: dict[str, containers.RunningPod] = {}
        self._pods: pods.Pods | None = None
        self._wanted: latest.Latest[bool] = latest.Latest()
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._down.set()
        self._leave_sockets = False

    # ---- what rehearsals do

    async def run(self) -> None:
        """Live whenever it is wanted, until cancelled; a fault of the kubelet itself ends it."""
        async with api_client.ApiClient(self._api_url) as api, asyncio.TaskGroup() as group:
            life: asyncio.Task[None] | None = None
            while True:
                wanted = await self._wanted.get()
                if wanted and life is None:
                    life = group.create_task(self._live(api), name=f"kubelet of {self.node}")
                elif not wanted and life is not None:
                    life.cancel()
                    await asyncio.wait([life])
                    life = None

    async def start(self) -> None:
        """Start, and wait until both sockets are served."""
        self._wanted.put(True)
        await self._up.wait()

    async def stop(self) -> None:
        """Stop as at a SIGTERM; containers go on."""
        self._leave_sockets = False
        self._wanted.put(False)
        await self._down.wait()

    async def kill(self) -> None:
        """Stop as at a SIGKILL: the socket files stay, with nobody behind them."""
        self._leave_sockets = True
        self._wanted.put(False)
        await self._down.wait()

    async def restart(self) -> None:
        """Stop and start: plugins' sockets are removed, holders known, capacity 0 at first."""
        await self.stop()
        await self.start()

    async def power_off(self) -> None:
        """Go down with the whole machine: no container is left, the disk keeps the checkpoint.

        At the next start the pods are admitted again, with the devices they had if these are
        healthy then; a plugin that has not registered by that time has none.
        """
        await self.kill()
        self._booting |= {pod.uid: pod for pod in self.running()}
        self._running.clear()

    async def finish(self, pod: str, exit_code: int = 0) -> None:
        """End the containers of `namespace/name` by themselves, as a job's do."""
        found = self.pod(pod)
        if found is None or self._pods is None:
            raise LookupError(f"{self.node} runs no pod {pod}")
        await self._pods.finish(found, exit_code)

    # ---- what rehearsals see

    def pod(self, key: str) -> containers.RunningPod | None:
        """Return the pod `namespace/name` that runs here, None where there is none."""
        return next((pod for pod in self._running.values() if pod.key == key), None)

    def running(self) -> tuple[containers.RunningPod, ...]:
        """Return the pods whose containers run here."""
        return tuple(pod for pod in self._running.values() if not pod.finished)

    # ---- one life

    async def _live(self, api: api_client.ApiClient) -> None:
        """Serve until cancelled, from the folder's checkpoint on."""
        await asyncio.to_thread(_prepare, self.plugins_folder, self.pod_resources_socket.parent)
        manager = device_manager.DeviceManager(
            order=self._order, grace=self._switches.endpoint_grace
        )
        now = clock.loop_time()
        await asyncio.to_thread(checkpoint.load, self.plugins_folder, manager, now)
        self._down.clear()
        try:
            await self._serve(api, manager)
        finally:
            self._up.clear()
            self._down.set()

    async def _serve(
        self, api: api_client.ApiClient, manager: device_manager.DeviceManager
    ) -> None:
        saving = asyncio.Lock()

        async def save() -> None:
            async with saving:
                text = checkpoint.encode(manager)
                await asyncio.to_thread(checkpoint.save, self.plugins_folder, text)

        async with asyncio.TaskGroup() as group:
            plugins = registration.Registrations(
                self.plugins_folder,
                manager,
                self.record,
                group,
                save,
                old_endpoint_drops_new=self._switches.old_endpoint_drops_new,
            )
            self._pods = self._pods_loop(api, manager, plugins, save)
            shown = pod_resources.PodResources(manager, self._shown)
            async with (
                self._served(self.plugins_folder / SOCKET, plugins),
                self._served(self.pod_resources_socket, shown),
            ):
                self._up.set()
                await self._work(api, manager, self._pods)

    @contextlib.asynccontextmanager
    async def _served(self, path: pathlib.Path, service: IServable) -> AsyncIterator[None]:
        """Serve a socket; after a kill its file stays."""
        server = sockets.UnixServer(path, [service])
        await server.start()
        try:
            yield
        finally:
            await (server.hang_up() if self._leave_sockets else server.close())

    async def _work(
        self,
        api: api_client.ApiClient,
        manager: device_manager.DeviceManager,
        loop: pods.Pods,
    ) -> None:
        await status.register_node(api, self.node, self._labels)
        period = self._switches.status_period
        tick = status.StatusTick(api, self.node, manager, self.record, period)
        async with asyncio.TaskGroup() as group:
            group.create_task(tick.run(), name=f"status of {self.node}")
            group.create_task(loop.run(), name=f"pods of {self.node}")
            group.create_task(loop.end_deleted(), name=f"ends of {self.node}")

    def _pods_loop(
        self,
        api: api_client.ApiClient,
        manager: device_manager.DeviceManager,
        plugins: registration.Registrations,
        save: registration.Save,
    ) -> pods.Pods:
        admit = admission.Admission(
            manager,
            plugins,
            self.record,
            self._active,
            init_reuse=self._switches.init_reuse,
            lost_grants=self._switches.lost_grants,
        )
        return pods.Pods(
            api,
            self.node,
            admit,
            running=self._running,
            booting=self._booting,
            runtime=self._runtime,
            seen=self.record,
            save=save,
        )

    def _active(self) -> set[str]:
        """Uids of the pods whose devices are not free, rightly or not."""
        active = {pod.uid for pod in self.running()} | self._booting.keys()
        if self._switches.keeps_forced and self._pods is not None:
            active |= self._pods.forced
        return active

    def _shown(self) -> Iterator[containers.RunningPod]:
        """Go through the pods that pod-resources shows."""
        for pod in self._running.values():
            heard = self._pods is not None and self._pods.has_heard_of(pod.uid)
            if heard and (self._switches.finished_in_list or not pod.finished):
                yield pod

    def _order(self, ids: Iterable[str]) -> list[str]:
        """Put ids in a row: in random order, as Go goes through a set, unless switched off."""
        row = sorted(ids)
        if self._switches.unordered_ids:
            self._rng.shuffle(row)
        return row


def _prepare(plugins: pathlib.Path, pod_resources_folder: pathlib.Path) -> None:
    """Make the folders, and remove every socket that plugins left: they must register anew."""
    plugins.mkdir(parents=True, exist_ok=True)
    pod_resources_folder.mkdir(parents=True, exist_ok=True)
    for entry in plugins.iterdir():
        if stat.S_ISSOCK(entry.lstat().st_mode):
            entry.unlink()
