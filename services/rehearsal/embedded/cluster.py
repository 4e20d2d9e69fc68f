"""A whole cluster in one process and its children: what a story is played on.

API server, kubelets and scheduler live in this loop; nats-server, the owners of the GPUs and all
services are processes. `opened` starts everything and ends everything, whatever happens between.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

from services.reconfigurer.controller import values
from services.rehearsal.embedded.evictions import Evictions
from services.rehearsal.embedded.node import EmbeddedNode
from services.rehearsal.embedded.processes import Process, environment
from services.rehearsal.embedded.scraping import Targets
from services.rehearsal.story import Service, Story
from services.views.book import Book
from shared.bus import connection
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.contract.table import Role
from shared.runtime import clock
from shared.simulation.broker import Broker, BrokerError
from shared.simulation.kube import api_client
from shared.simulation.kube.apiserver import ApiServer, kinds
from shared.simulation.kube.replicasets import ReplicaSets
from shared.simulation.kube.scheduler import Scheduler

NAMESPACE = "slicewire"
READY_S = 20.0
LOOK_S = 0.02
MOST_ROOT = 40  # bytes of a path that leave room for the longest socket name below
LEASE_S = "3"  # a leader that was killed is waited for so long; the chart says 15
LAG_S = 1.5  # of a stale scheduler: more than a rehearsal's status period


@dataclass(kw_only=True)
class Cluster:
    """Everything that steps act on and conditions look at."""

    folder: pathlib.Path
    api: ApiServer
    api_url: str
    broker: Broker
    nodes: dict[str, EmbeddedNode]
    controller: Process
    bus: Bus  # as the command `slicewire status` has it
    admin: Bus  # as the controller has it: for what only it may ask
    book: Book
    evictions: Evictions
    troubles: list[str] = field(default_factory=list)
    keep: bool = True  # the folder, after the end

    @property
    def processes(self) -> Iterator[Process]:
        """All of our processes."""
        yield self.controller
        for node in self.nodes.values():
            yield from node.everything

    @property
    def requests(self) -> int:
        """Requests to the API server so far: of everybody but kubelets, scheduler, ReplicaSets."""
        return self.api.requests - self.api.requests_of(api_client.USER_AGENT)

    @property
    def watches(self) -> int:
        """Watches that are open now, counted in the same way."""
        return self.api.watches - self.api.watches_of(api_client.USER_AGENT)

    def process(self, service: Service, node: str | None) -> Process:
        """The process of a service."""
        return self.nodes[node].processes[service] if node else self.controller

    def missing(self) -> list[str]:
        """What has not been heard of yet, as sentences."""
        heard: dict[str, Mapping[str, object]] = {
            "controller": self.book.intents,
            "advertiser": self.book.inventories,
            "allocator": self.book.ledgers,
            "agent": self.book.progresses,
        }
        return [
            f"the {service} has said nothing about {node}"
            for service, values in heard.items()
            for node in self.nodes
            if node not in values
        ]

    def ended_badly(self) -> list[str]:
        """Processes that ended by themselves."""
        return [each.ended_badly for each in self.processes if each.ended_badly]


@contextlib.asynccontextmanager
async def opened(story: Story, targets: pathlib.Path | None = None) -> AsyncIterator[Cluster]:
    """Start the cluster that a story needs; the block begins when every service has spoken.

    A service that does not come up is told in `troubles` and left to the story to show. The
    folder with logs is removed after `keep` was set to False, or a start that was broken off.
    Where the services show their metrics is written to the file `targets`; without one they show
    none.
    """
    folder = await asyncio.to_thread(_make_folder)
    keep = True
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                cluster = await _started(story, folder, stack, Targets(NAMESPACE, targets))
                await _ready(cluster)
            except asyncio.CancelledError:
                keep = False  # nobody knows of it yet
                raise
            yield cluster
            keep = cluster.keep
    finally:
        if not keep:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _started(
    story: Story, folder: pathlib.Path, stack: contextlib.AsyncExitStack, targets: Targets
) -> Cluster:
    api = ApiServer()
    api_url = await api.start()
    stack.push_async_callback(api.stop)
    _put_config_maps(api, story)
    broker = Broker(folder / "bus", [node.name for node in story.nodes])
    await broker.start()
    stack.push_async_callback(_stop_broker, broker)
    bus = await stack.enter_async_context(_bus(broker, Role.COMMAND))
    admin = await stack.enter_async_context(_bus(broker, Role.CONTROLLER))
    logs = folder / "logs"
    cluster = Cluster(
        folder=folder,
        api=api,
        api_url=api_url,
        broker=broker,
        nodes={
            node.name: EmbeddedNode(
                node,
                folder / f"n{number}",
                logs=logs,
                api_url=api_url,
                broker=broker,
                targets=targets,
                mps=story.mps,
            )
            for number, node in enumerate(story.nodes)
        },
        controller=_controller(story, logs, api_url, broker, targets),
        bus=bus,
        admin=admin,
        book=Book(bus),
        evictions=Evictions(api.store),
    )
    await asyncio.to_thread(targets.write)
    await stack.enter_async_context(_beside(cluster, story))
    stack.push_async_callback(_end, cluster)
    await stack.enter_async_context(_booting(cluster))  # ends first: nothing starts any more then
    async with asyncio.TaskGroup() as starting:
        starting.create_task(cluster.controller.start(), name="start controller")
        for node in cluster.nodes.values():
            starting.create_task(_start_node(node), name=f"start {node.node.name}")
    return cluster


@contextlib.asynccontextmanager
async def _beside(cluster: Cluster, story: Story) -> AsyncIterator[None]:
    """Let the stand-ins and our own reading of the bus live while the block runs."""
    lags = {node.name: LAG_S for node in story.nodes if node.stale_scheduler}
    async with asyncio.TaskGroup() as tasks:
        lives = [
            tasks.create_task(Scheduler(cluster.api_url, lags=lags).run(), name="scheduler"),
            tasks.create_task(ReplicaSets(cluster.api_url).run(), name="ReplicaSets"),
            tasks.create_task(cluster.book.run(), name="read the bus"),
        ]
        for name, node in cluster.nodes.items():
            lives.append(tasks.create_task(node.kubelet.run(), name=f"kubelet of {name}"))
        try:
            yield
        finally:
            for life in lives:
                life.cancel()


@contextlib.asynccontextmanager
async def _booting(cluster: Cluster) -> AsyncIterator[None]:
    """Let agents boot their nodes while the block runs."""
    async with asyncio.TaskGroup() as tasks:
        boots = [
            tasks.create_task(node.run(), name=f"boots of {name}")
            for name, node in cluster.nodes.items()
        ]
        try:
            yield
        finally:
            for boot in boots:
                boot.cancel()


async def _start_node(node: EmbeddedNode) -> None:
    await asyncio.to_thread(node.write_files)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(node.kubelet.start(), name=f"start kubelet of {node.node.name}")
        tasks.create_task(node.start_hardware(), name=f"start GPUs of {node.node.name}")
        for process in node.processes.values():
            tasks.create_task(process.start(), name=f"start {process.name}")


async def _ready(cluster: Cluster) -> None:
    """Wait until everything has been heard of, something has ended, or it takes too long."""
    end = clock.loop_time() + READY_S
    while cluster.missing() and clock.loop_time() < end and not cluster.ended_badly():
        await clock.sleep(LOOK_S)
    cluster.troubles = cluster.ended_badly() or cluster.missing()


def _controller(
    story: Story, logs: pathlib.Path, api_url: str, broker: Broker, targets: Targets
) -> Process:
    user, password_file = broker.credentials(Role.CONTROLLER)
    flags = {
        "--api-url": api_url,
        "--namespace": NAMESPACE,
        "--bus-url": broker.url,
        "--bus-user": user,
        "--bus-password-file": str(password_file),
    }
    given = (word for pair in flags.items() for word in pair)
    words = ("reconfigurer", "controller", *given, *targets.flags("controller"))
    variables = {"SLICEWIRE_LEASE_SECONDS": LEASE_S} | values.variables(story.values)
    return Process("controller", words, logs / "controller.log", environment(variables))


def _put_config_maps(api: ApiServer, story: Story) -> None:
    api.objects.create(kinds.NAMESPACE, "", {"metadata": {"name": NAMESPACE}})
    for name, data in story.config_maps.items():
        body = {"metadata": {"name": name}, "data": dict(data)}
        api.objects.create(kinds.CONFIG_MAP, NAMESPACE, body)


def _bus(broker: Broker, role: Role) -> contextlib.AbstractAsyncContextManager[Bus]:
    user, password_file = broker.credentials(role)
    return connection.open_bus(broker.url, Login(user, password_file), role)


async def _end(cluster: Cluster) -> None:
    """End all processes, the services before what they stand on."""
    async with asyncio.TaskGroup() as tasks:
        for process in cluster.processes:
            tasks.create_task(process.stop(), name=f"end {process.name}")


async def _stop_broker(broker: Broker) -> None:
    with contextlib.suppress(BrokerError):
        await broker.stop()


def _make_folder() -> pathlib.Path:
    """A folder with a short path: unix sockets below it must fit in 107 bytes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slicewire-", dir=_short_root()))
    (folder / "logs").mkdir()
    return folder


def _short_root() -> str | None:
    usual = tempfile.gettempdir()
    return usual if len(usual) <= MOST_ROOT else "/tmp"  # noqa: S108  # mkdtemp makes it safe
