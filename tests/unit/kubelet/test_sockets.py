"""gRPC over unix sockets, between real servers and clients."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from grpclib import server

from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.simulation.kube.kubelet import endpoint


class Registry(api_grpc.RegistrationBase):
    """Answers each Register, or keeps the caller waiting for ever."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.asked = asyncio.Event()

    async def Register(  # noqa: N802 - the name is the protocol's
        self, stream: server.Stream[api_pb2.RegisterRequest, api_pb2.Empty]
    ) -> None:
        await stream.recv_message()
        self.asked.set()
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        await stream.send_message(api_pb2.Empty())


async def register(path: pathlib.Path, timeout: float = 5.0) -> None:
    """Call Register on a path once."""
    async with sockets.channel(path) as channel:
        stub = api_grpc.RegistrationStub(channel)
        await stub.Register(api_pb2.RegisterRequest(), timeout=timeout)


async def test_a_served_path_answers_and_its_file_is_gone_afterwards(
    tmp_path: pathlib.Path,
) -> None:
    """A server answers on its socket file, and removes the file when it closes."""
    path = tmp_path / "s.sock"
    async with sockets.UnixServer(path, [Registry()]):
        await register(path)
    assert not path.exists()


async def test_a_stale_socket_file_is_replaced(tmp_path: pathlib.Path) -> None:
    """A socket file left by a killed process doesn't keep its successor from serving."""
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with sockets.UnixServer(path, [Registry()]):
        await register(path)


async def test_a_closing_server_leaves_its_successors_file_alone(tmp_path: pathlib.Path) -> None:
    """Two processes that overlap on one path: the older one's end doesn't take the newer's file."""
    path = tmp_path / "s.sock"
    older = sockets.UnixServer(path, [Registry()])
    await older.start()
    async with sockets.UnixServer(path, [Registry()]):
        await older.close()
        await register(path)


async def test_closing_ends_calls_in_progress_and_idle_connections(tmp_path: pathlib.Path) -> None:
    """A client that waits for an answer, or only stays connected, sees that the server went."""
    path = tmp_path / "s.sock"
    registry = Registry()
    served = sockets.UnixServer(path, [registry])
    await served.start()
    async with sockets.channel(path) as channel, asyncio.timeout(5), asyncio.TaskGroup() as group:
        stub = api_grpc.RegistrationStub(channel)
        await stub.Register(api_pb2.RegisterRequest())
        registry.answers = False
        registry.asked.clear()
        waiting = group.create_task(_failure(stub), name="waiting call")
        await registry.asked.wait()
        await served.close()
        assert isinstance(await waiting, sockets.UNREACHABLE)
        assert isinstance(await _failure(stub), sockets.UNREACHABLE)


async def _failure(stub: api_grpc.RegistrationStub) -> Exception | None:
    try:
        await stub.Register(api_pb2.RegisterRequest())
    except Exception as error:
        return error
    return None


async def test_a_call_past_its_deadline_and_a_path_nobody_serves_count_as_unreachable(
    tmp_path: pathlib.Path,
) -> None:
    """Both are what a caller answers with back-off."""
    path = tmp_path / "s.sock"
    with pytest.raises(sockets.UNREACHABLE):
        await register(path)
    async with sockets.UnixServer(path, [Registry(answers=False)]):
        with pytest.raises(sockets.UNREACHABLE):
            await register(path, timeout=0.05)


@pytest.mark.parametrize("turns", range(6))
async def test_a_server_may_close_while_somebody_connects(
    turns: int, tmp_path: pathlib.Path
) -> None:
    """However many turns of the loop the connection has had; the caller is hung up on."""
    server = sockets.UnixServer(tmp_path / "s.sock", [Registry()])
    await server.start()
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)
        caller.connect(str(server.path))
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.close()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(caller, 1024):
                    pass


@pytest.mark.parametrize("turns", range(8))
async def test_a_peer_that_goes_at_any_moment_counts_as_unreachable(
    turns: int, tmp_path: pathlib.Path
) -> None:
    """However many turns of the loop a call has had: just connected, about to write, waiting."""
    path = tmp_path / "s.sock"
    assert await _is_unreachable(register(path), path, turns)


@pytest.mark.parametrize("turns", range(8))
async def test_a_plugin_that_goes_at_any_moment_counts_as_unreachable(
    turns: int, tmp_path: pathlib.Path
) -> None:
    """So it is for the fake kubelet that dials it: a plugin may be killed as it registers."""
    path = tmp_path / "s.sock"
    plugin = endpoint.Endpoint(path, "nvidia.com/gpu")
    assert await _is_unreachable(plugin.connect(), path, turns)
    plugin.close()


async def _is_unreachable(call: Coroutine[Any, Any, None], path: pathlib.Path, turns: int) -> bool:
    """Whether a call finds nobody when its peer goes after so many turns of the loop."""

    async def fails() -> bool:
        with pytest.raises(sockets.UNREACHABLE):
            await call
        return True

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        async with asyncio.TaskGroup() as tasks:
            called = tasks.create_task(fails())
            for _ in range(turns):
                await asyncio.sleep(0)
            listening.close()
    return called.result()


async def test_a_call_that_failed_leaves_no_cancellation_behind(tmp_path: pathlib.Path) -> None:
    """Else a later time limit of the caller would be taken for a cancellation from outside."""
    path = tmp_path / "s.sock"
    task = asyncio.current_task()
    assert task is not None
    registry = Registry(answers=False)
    served = sockets.UnixServer(path, [registry])
    await served.start()
    with pytest.raises(sockets.UNREACHABLE):
        await register(path, timeout=0.05)
    assert task.cancelling() == 0
    async with asyncio.TaskGroup() as group:
        group.create_task(_close_when(registry.asked, served))
        registry.asked.clear()
        with pytest.raises(sockets.UNREACHABLE):
            await register(path)
        assert task.cancelling() == 0


async def test_a_caller_that_is_cancelled_stays_so(tmp_path: pathlib.Path) -> None:
    """Only grpclib's own cancellations are taken back."""
    path = tmp_path / "s.sock"
    registry = Registry(answers=False)
    async with sockets.UnixServer(path, [registry]), asyncio.TaskGroup() as group:
        calling = group.create_task(register(path))
        await registry.asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert calling.cancelling() == 1


async def _close_when(asked: asyncio.Event, served: sockets.UnixServer) -> None:
    await asked.wait()
    await served.close()


async def test_a_path_too_long_for_a_socket_is_refused_in_words(tmp_path: pathlib.Path) -> None:
    """The kernel's own message doesn't say what to do."""
    with pytest.raises(OSError, match="choose a shorter folder"):
        await sockets.UnixServer(tmp_path / ("x" * 120), [Registry()]).start()
