"""How commands reach the bus and print: flags, variables, one connection, one JSON object.

Every command that reads the bus adds these arguments and runs its coroutine through `run`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import pathlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from services.views import book, planned
from shared.bus import connection, errors
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.contract.table import Role
from shared.domain.errors import Problem
from shared.runtime import beside

ANSWER_S = 5.0
URL, USER = "SLICEWIRE_BUS_URL", "SLICEWIRE_BUS_USER"
PASSWORD_FILE = "SLICEWIRE_BUS_PASSWORD_FILE"  # noqa: S105  # a variable's name
SEED_FILE = "SLICEWIRE_BUS_SEED_FILE"
DEFAULT_URL = "nats://127.0.0.1:4222"
SCHEMES = ("nats", "tls", "ws", "wss")


class AwayError(Exception):
    """The bus did not answer; the text says what to check."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes end with status 2 and a sentence, as argparse's do.

    Programs that asked for JSON get the sentence as JSON too, even if nothing else of the call
    can be understood.
    """

    def __init__(self, name: str, says: str) -> None:
        super().__init__(prog=f"slicewire {name}", description=says)
        self._json = False
        self.add_argument(
            "-o", dest="output", choices=("json",), help="print one JSON object instead of a table"
        )

    def add_bus(self, environ: Mapping[str, str]) -> None:
        """Add the flags that say where the bus is; variables are their defaults."""
        group = self.add_argument_group("the bus")
        group.add_argument(
            "--bus-url",
            default=environ.get(URL, DEFAULT_URL),
            help=f"address of NATS, also {URL} [%(default)s]",
        )
        group.add_argument(
            "--bus-user", default=environ.get(USER, ""), help=f"user name, also {USER}"
        )
        group.add_argument(
            "--bus-password-file",
            default=environ.get(PASSWORD_FILE, ""),
            help=f"file that holds the password, also {PASSWORD_FILE}",
        )
        group.add_argument(
            "--bus-seed-file",
            default=environ.get(SEED_FILE, ""),
            help=f"file that holds a key's seed instead, also {SEED_FILE}",
        )

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the command."""
        self._json = "-ojson" in argv or ("-o", "json") in itertools.pairwise(argv)
        arguments = self.parse_args(argv)
        self._check_url(getattr(arguments, "bus_url", DEFAULT_URL))
        return arguments

    def _check_url(self, url: str) -> None:
        """End with status 2 where no bus can be: nobody would answer there, however long."""
        for each in url.split(","):
            scheme, separator, _ = each.strip().rpartition("://")
            if not each.strip() or (separator and scheme not in SCHEMES):
                self.refuse(f"the bus is {each!r}: write nats://HOST:4222, here or in {URL}")

    def check_pod(self, key: str, what: str) -> None:
        """End with status 2 where a pod is not written as `namespace/name`."""
        namespace, _, name = key.partition("/")
        if not namespace or not name or "/" in name:
            self.refuse(f"{what} is {key!r}: write namespace/name")

    def check_given(self, *names: str | None) -> None:
        """End with status 2 where a name is empty, as that of a shell's variable may be."""
        if "" in names:
            self.refuse("an empty name was given: is a variable of your shell not set?")

    def refuse(self, sentence: str) -> NoReturn:
        """End with status 2: the call itself is wrong."""
        self.error(sentence)

    def error(self, message: str) -> NoReturn:
        """End with status 2; argparse calls it for what it cannot parse."""
        if self._json:
            print_json(refusal((Problem("", 0, 0, message),)))
        super().error(message)


@contextlib.asynccontextmanager
async def opened(arguments: argparse.Namespace) -> AsyncIterator[Bus]:
    """A place on the bus that has been let in.

    Raises:
        AwayError: it was not let in in time.
    """
    login = Login(
        user=arguments.bus_user,
        password_file=_path(arguments.bus_password_file),
        seed_file=_path(arguments.bus_seed_file),
    )
    async with connection.open_bus(arguments.bus_url, login, Role.COMMAND) as bus:
        try:
            async with asyncio.timeout(ANSWER_S):
                await bus.session()
        except TimeoutError:
            raise AwayError(
                f"not on the bus at {arguments.bus_url} in {ANSWER_S:g} s"
                f" ({bus.trouble or 'no answer'}): check --bus-url and who asks:"
                " --bus-user with --bus-password-file, or --bus-seed-file"
            ) from None
        yield bus


def _path(text: str) -> pathlib.Path | None:
    return pathlib.Path(text) if text else None


async def read_book(bus: Bus) -> book.Book:
    """Read what all writers last said.

    Raises:
        AwayError: the bus does not answer (its streams are made by the controller).
    """
    async with following(bus) as found:
        return found


@contextlib.asynccontextmanager
async def following(bus: Bus) -> AsyncIterator[book.Book]:
    """What all writers last said, kept up to date while the block runs.

    Raises:
        AwayError: the bus does not answer (its streams are made by the controller).
    """
    found = book.Book(bus)
    async with beside.running(found.run(), "read the bus"):
        await _patiently(found)
        yield found


async def _patiently(found: book.Book) -> None:
    """Wait until all has been read, for as long as something comes: a fleet may be a large one.

    Raises:
        AwayError: nothing comes.
    """
    while True:
        found.news.clear()
        try:
            async with asyncio.timeout(ANSWER_S):
                return await found.read()
        except TimeoutError:
            if not found.news.is_set():
                raise AwayError(
                    f"the bus gives no state in {ANSWER_S:g} s: is a controller running? It makes"
                    " the streams"
                ) from None


def run(work: Callable[[], Awaitable[int]], name: str, *, json: bool) -> int:
    """Run a command to its exit status; what goes wrong outside of it is a sentence and 1."""
    logging.getLogger().addHandler(logging.NullHandler())  # one sentence at the end is enough
    try:
        return asyncio.run(until_told(work))
    except BrokenPipeError:  # as of `| head`: the command line ends it without a word
        raise
    except (AwayError, errors.BusError, OSError) as error:
        return fail(name, str(error), json=json)
    except asyncio.CancelledError:
        return 1


def fail(
    name: str, sentence: str, *, json: bool, form: Mapping[str, Any] = MappingProxyType({})
) -> int:
    """Say why there is no answer; return status 1. Programs get it with a form that is empty."""
    if json:
        print_json({**form, **refusal((Problem("", 0, 0, sentence),))})
    sys.stderr.write(f"slicewire {name}: {sentence}\n")
    return 1


def refusal(problems: Iterable[Problem]) -> dict[str, Any]:
    """The JSON object of a command that has no answer."""
    return {"ok": False, "errors": [planned.problem_form(problem) for problem in problems]}


async def until_told(work: Callable[[], Awaitable[int]]) -> int:
    """Cancel the work at the first signal; a second one must not cut the clean-up short."""
    task = asyncio.current_task()

    def told() -> None:
        if task is not None and not task.cancelling():
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told)
    return await work()


def print_json(form: Mapping[str, Any]) -> None:
    """Print the one JSON object that standard output gets, in whatever encoding that has."""
    readable = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(form, ensure_ascii=not readable))
