"""What a daemon is asked and told: whether it is well, and what each client may use of the GPU.

A default reaches servers that start after it, so those that run are told as well: a new number of
replicas costs no client its daemon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from services.reconfigurer.mps.daemon import ControlError
from services.reconfigurer.mps.wanted import Aim

Ask = Callable[[str], Awaitable[str]]
DEVICE = "0"  # a daemon sees one GPU
FAULT = "FAULT"
PROBE = "get_default_active_thread_percentage"


class ServerFaultError(ControlError):
    """The daemon is well and its server takes nobody, until clients that met a fault have ended."""


async def probe(ask: Ask) -> float:
    """Ask something that every daemon answers.

    Raises:
        ControlError: it does not, or not with a number.
    """
    said = await ask(PROBE)
    try:
        return float(said)
    except ValueError:
        raise ControlError(f"{PROBE} was answered with {said!r}, which is no number") from None


async def apply(ask: Ask, aim: Aim) -> None:
    """Set them, and see that the daemon has them.

    Raises:
        ControlError: it does not answer, or has others.
    """
    memory = f"{aim.memory_mib}M"
    told = [
        f"set_default_active_thread_percentage {aim.percentage}",
        f"set_default_device_pinned_mem_limit {DEVICE} {memory}",
    ]
    for server in await _servers(ask):
        told.append(f"set_active_thread_percentage {server} {aim.percentage}")
        told.append(f"set_device_pinned_mem_limit {server} {DEVICE} {memory}")
    await ask("\n".join(told))
    if (found := await probe(ask)) != aim.percentage:
        raise ControlError(
            f"it was told {aim.percentage} % of the threads a client and has {found:g}"
        )


async def look_at_servers(ask: Ask) -> None:
    """See that clients are taken; drivers that cannot say so are believed to be well.

    Raises:
        ServerFaultError: a fatal fault of one client has been reported to all.
        ControlError: the daemon does not answer.
    """
    for server in await _servers(ask):
        if await ask(f"get_server_status {server}") == FAULT:
            raise ServerFaultError(
                f"its server {server} is in state {FAULT} after a fatal error of a client, and"
                " takes nobody until the clients that it had have ended: delete their pods"
            )


async def _servers(ask: Ask) -> list[str]:
    return [word for word in (await ask("get_server_list")).split() if word.isdecimal()]
