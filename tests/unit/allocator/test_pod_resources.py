"""Asking the kubelet who holds what: Lists come in, and a kubelet that does not answer is named."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from grpclib import GRPCError, Status, const, server

from services.allocator import pod_resources
from services.allocator.grants import Listed
from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from tests.support import logged
from tests.support.eventually import eventually
from tests.support.running import running

TROUBLE = "does not say who holds what"


class Kubelet(api_grpc.PodResourcesListerBase):
    """Lists no pods, or refuses with `refusal`."""

    def __init__(self) -> None:
        self.refusal = ""

    async def List(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[api_pb2.ListPodResourcesRequest, api_pb2.ListPodResourcesResponse],
    ) -> None:
        """Answer."""
        await stream.recv_message()
        if self.refusal:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, self.refusal)
        await stream.send_message(api_pb2.ListPodResourcesResponse())

    async def GetAllocatableResources(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[
            api_pb2.AllocatableResourcesRequest, api_pb2.AllocatableResourcesResponse
        ],
    ) -> None:
        """Never asked here."""
        raise GRPCError(Status.UNIMPLEMENTED)

    async def Get(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[api_pb2.GetPodResourcesRequest, api_pb2.GetPodResourcesResponse],
    ) -> None:
        """Never asked here."""
        raise GRPCError(Status.UNIMPLEMENTED)


class Garbled(Kubelet):
    """Answers with what is no List."""

    async def List(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[api_pb2.ListPodResourcesRequest, api_pb2.ListPodResourcesResponse],
    ) -> None:
        """Answer."""
        garbled: Any = api_pb2.PodResources(name="\x7f")
        await stream.recv_message()
        await stream.send_message(garbled)

    def __mapping__(self) -> dict[str, const.Handler]:
        """The calls, one of them with another answer."""
        calls = super().__mapping__()
        name = "/v1.PodResourcesLister/List"
        return calls | {name: calls[name]._replace(reply_type=api_pb2.PodResources)}


@contextlib.asynccontextmanager
async def asking(socket: pathlib.Path) -> AsyncIterator[list[Sequence[Listed]]]:
    """A client of a socket that asks often; yields the Lists it has taken."""
    taken: list[Sequence[Listed]] = []
    client = pod_resources.PodResources(
        socket,
        lambda rows, _: taken.append(rows),
        lambda: False,
        now_ns=lambda: 1,
        period_s=0.05,
    )
    async with running(client.run()):
        yield taken


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What people are told about a kubelet that does not answer."""
    return [line.message for line in logged.lines(caplog, TROUBLE) if line.level == "warning"]


async def test_each_trouble_with_the_kubelet_is_said_once_and_its_end_too(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without List nobody is known to hold anything, and a MIG change never begins."""
    caplog.set_level(logging.DEBUG, logger=pod_resources.__name__)
    socket, kubelet = tmp_path / "kubelet.sock", Kubelet()
    kubelet.refusal = "rejected by rate limit"
    async with asking(socket) as taken:
        await eventually(lambda: len(logged.lines(caplog, TROUBLE)) == 3)
        (absent,) = warnings(caplog)
        assert absent.startswith("the kubelet does not say who holds what ([Errno 2]")
        assert absent.endswith(f"until it answers at {socket}")
        async with sockets.UnixServer(socket, [kubelet]):
            await eventually(lambda: "(rejected by rate limit)" in warnings(caplog)[-1])
            kubelet.refusal = ""
            await eventually(lambda: len(taken) == 2)
            assert len(logged.lines(caplog, "says again who holds what")) == 1
        await eventually(lambda: len(warnings(caplog)) == 3)


async def test_a_kubelet_that_never_answers_is_named(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection, and that is all."""
    monkeypatch.setattr(pod_resources, "CALL_S", 0.1)
    socket = tmp_path / "kubelet.sock"

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.read()

    async with await asyncio.start_unix_server(silent, socket), asking(socket):
        await eventually(lambda: warnings(caplog))
        assert "(no answer within 0.1 s)" in warnings(caplog)[0]


async def test_an_answer_that_cannot_be_read_is_trouble_with_the_kubelet_like_any_other(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again, and slots go on being served."""
    socket = tmp_path / "kubelet.sock"
    async with sockets.UnixServer(socket, [Garbled()]), asking(socket):
        await eventually(lambda: warnings(caplog))
        assert "(Error parsing message" in warnings(caplog)[0]
