"""What one connection can do, from login to its end: listen, get, store, manage streams.

Every answer and every message goes through an `Ear`, and the end of the connection wakes them all
with a `LostError`, so nobody waits for an answer that cannot come. The only requests are to the
storage: direct gets, publishes with their acknowledgement, the controller's stream management.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.bus import errors
from shared.bus.client import Client, Msg, nats_errors
from shared.contract import table
from shared.contract.permissions import DIRECT_GET
from shared.runtime import clock

ANSWER_S = 5.0
LARGEST_BYTES = table.MAX_PAYLOAD_BYTES - table.HEADER_ROOM_BYTES
PAGE_MESSAGES = 1000
PAGE_BYTES = 16 << 20
STATUS, PENDING, SEQUENCE = "Status", "Nats-Num-Pending", "Nats-Sequence"
END_OF_PAGE, NOT_FOUND, NO_RESPONDERS = "204", "404", "503"


@dataclass(frozen=True, slots=True)
class Message:
    """What came in; headers that occur twice keep the last, which is the server's own."""

    subject: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""


class Ear:
    """What one listener has not taken yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue()

    def hear(self, message: Message) -> None:
        """Keep a message for the listener."""
        self._queue.put_nowait(message)

    def end(self) -> None:
        """Nothing comes after what is kept."""
        self._queue.put_nowait(None)

    async def next(self, until: float) -> Message | None:
        """Return the next message, None when loop time `until` has come.

        Raises:
            LostError: the connection has ended.
        """
        try:
            async with asyncio.timeout_at(until):
                message = await self._queue.get()
        except TimeoutError:
            return None
        if message is None:
            self.end()
            raise errors.LostError("the connection to the bus ended")
        return message


class Session:
    """One connection. Made by `shared.bus.connection`, used by readers and writers."""

    def __init__(
        self, client: Client, inbox_prefix: str, on_end: Callable[[Session], None]
    ) -> None:
        self._client = client
        self._inbox = f"{inbox_prefix}.{secrets.token_hex(8)}"
        self._on_end = on_end
        self._ears: set[Ear] = set()
        self._answers: dict[str, Ear] = {}
        self.ended = asyncio.Event()

    async def start(self) -> None:
        """Open the inbox for answers."""
        with _as_lost():
            await self._client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    def end(self) -> None:
        """The connection is gone: wake everybody who waits for something of it."""
        self._on_end(self)
        self.ended.set()
        for ear in (*self._ears, *self._answers.values()):
            ear.end()

    @contextlib.asynccontextmanager
    async def listen(self, *subjects: str, queue: str = "") -> AsyncIterator[Ear]:
        """Subscribe while the block runs; what a later request on this session answers is newer.

        Of all that listen in the same queue, one hears a message.
        """
        ear = Ear()

        async def hear(message: Msg) -> None:
            ear.hear(_message(message))

        with _as_lost():
            subscriptions = [
                await self._client.subscribe(each, queue=queue, cb=hear) for each in subjects
            ]
        self._ears.add(ear)
        if self.ended.is_set():
            ear.end()
        try:
            yield ear
        finally:
            self._ears.discard(ear)
            with contextlib.suppress(nats_errors.Error, OSError):
                for each in subscriptions:
                    await each.unsubscribe()

    async def get(self, stream: str, key: str) -> Message | None:
        """Return what stands under a key, None for nothing. It may lag behind what was stored.

        Raises:
            MissingError: there is no such stream.
            LostError: no answer came.
        """
        return await self._ask(f"{DIRECT_GET}.{stream}.{key}", b"", {})

    async def read(self, stream: str, subjects: str, since_ns: int = 0) -> AsyncIterator[Message]:
        """Yield what a stream holds on matching subjects, in order of sequence, page by page.

        With `since_ns` that is only what the server has stored from then on.

        Raises:
            MissingError: there is no such stream.
            LostError: an answer did not come.
        """
        place: dict[str, object] = {"start_time": clock.utc(since_ns)} if since_ns else {"seq": 1}
        limits = {"next_by_subj": subjects, "batch": PAGE_MESSAGES, "max_bytes": PAGE_BYTES}
        pending = 1
        while pending:
            pending = 0
            query = json.dumps(place | limits)
            async with self._asking(f"{DIRECT_GET}.{stream}", query) as ear:
                while (message := await self._answer(ear, stream)) is not None:
                    if message.headers.get(STATUS) == END_OF_PAGE:
                        pending = int(message.headers.get(PENDING, "0"))
                        break
                    place = {"seq": int(message.headers[SEQUENCE]) + 1}
                    yield message

    async def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Publish to a stream; return the sequence under which it was stored.

        What is larger than the server takes is not sent: it would close the connection on it.

        Raises:
            MissingError: no stream takes this subject.
            RejectedError: the stream said no.
            LostError: no acknowledgement came; the message may be stored all the same.
        """
        # On a NATS that is not ours the limit may be lower; headers count as well.
        largest = min(LARGEST_BYTES, self._client.max_payload - table.HEADER_ROOM_BYTES)
        if len(data) > largest:
            raise errors.RejectedError(f"{len(data)} bytes are more than {largest}")
        acknowledgement = _json(await self._ask(subject, data, headers))
        sequence = acknowledgement.get("seq")
        if not isinstance(sequence, int):
            raise errors.MissingError(f"{subject}: the answer is not a stream's")
        return sequence

    async def manage(self, verb: str, stream: str, config: Mapping[str, object]) -> dict[str, Any]:
        """Call the stream API (INFO, CREATE, UPDATE); return its answer.

        Raises:
            MissingError: JetStream does not answer, or there is no such stream.
            RejectedError: it said no.
            LostError: no answer came.
        """
        payload = json.dumps(config).encode() if config else b""
        try:
            return _json(await self._ask(f"$JS.API.STREAM.{verb}.{stream}", payload, {}))
        except errors.RejectedError as error:
            raise errors.RejectedError(f"stream {stream}: {error}") from error

    async def respond(self, message: Message, data: bytes) -> None:
        """Answer whoever sent a message.

        Raises:
            LostError: the connection has ended.
        """
        with _as_lost():
            await self._client.publish(message.reply, data)

    async def _ask(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Message | None:
        async with self._asking(subject, data, headers) as ear:
            return await self._answer(ear, subject)

    @contextlib.asynccontextmanager
    async def _asking(
        self, subject: str, data: bytes | str, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Ear]:
        token, ear = secrets.token_hex(11), Ear()
        payload = data.encode() if isinstance(data, str) else data
        self._answers[token] = ear
        try:
            with _as_lost():
                await self._client.publish(
                    subject,
                    payload,
                    reply=f"{self._inbox}.{token}",
                    headers=dict(headers or {}) or None,
                )
            yield ear
        finally:
            del self._answers[token]

    async def _answer(self, ear: Ear, asked: str) -> Message | None:
        answer = await ear.next(clock.loop_time() + ANSWER_S)
        if answer is None:
            raise errors.LostError(f"no answer from {asked} in {ANSWER_S:g} s")
        status = answer.headers.get(STATUS, "")
        if status == NO_RESPONDERS:
            raise errors.MissingError(f"no stream answers on {asked}")
        if status and status not in (END_OF_PAGE, NOT_FOUND):
            raise errors.RejectedError(f"{asked}: {status} {answer.headers.get('Description', '')}")
        return None if status == NOT_FOUND else answer

    async def _on_answer(self, message: Msg) -> None:
        ear = self._answers.get(message.subject.rpartition(".")[2])
        if ear is not None:
            ear.hear(_message(message))


@contextlib.contextmanager
def _as_lost() -> Iterator[None]:
    try:
        yield
    except (nats_errors.Error, OSError) as error:
        raise errors.LostError(str(error)) from error


def _message(message: Msg) -> Message:
    return Message(message.subject, message.data, message.headers or {}, message.reply)


def _json(answer: Message | None) -> dict[str, Any]:
    if answer is None:
        raise errors.MissingError("nothing there")
    try:
        body = json.loads(answer.data)
    except ValueError:
        body = None
    if not isinstance(body, dict):  # on somebody's existing NATS others may answer as well
        raise errors.MissingError(f"{answer.data[:100]!r} is no answer of JetStream's")
    failure = body.get("error")
    if isinstance(failure, dict):
        kind = errors.MissingError if failure.get("code") == 404 else errors.RejectedError
        raise kind(str(failure.get("description", failure)))
    return body
