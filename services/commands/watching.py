"""A picture that follows the bus: drawn anew when somebody says something, and as time passes.

On a terminal it has the screen to itself and leaves the last picture behind; anywhere else each
picture that says something new is printed below the one before, with the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import live
from rich.console import Console, Group
from rich.text import Text

from services.views import console as view
from shared.runtime import clock

REDRAW_S = 0.5  # from one picture to the next at least
TICK_S = 1.0  # and at most, on a screen: people see that time passes

Form = Mapping[str, Any]
Look = Callable[[], Form]
Draw = Callable[[Form, int | None], Sequence[Text]]


async def watch(console: Console, news: asyncio.Event, look: Look, draw: Draw) -> None:
    """Draw until cancelled, as by Ctrl-C: that is how it is to end.

    Args:
        console: to draw on.
        news: is set when a look may show something else.
        look: gives what is to be drawn.
        draw: makes lines of it, no more than the height if it is given one.
    """
    with contextlib.suppress(asyncio.CancelledError):
        await (_on_screen if console.is_terminal else _below)(console, news, look, draw)


async def _on_screen(console: Console, news: asyncio.Event, look: Look, draw: Draw) -> None:
    lines: Sequence[Text] = ()
    try:
        with live.Live(console=console, screen=True, auto_refresh=False) as screen:
            while True:
                news.clear()
                lines = draw(look(), console.height)
                screen.update(Group(*lines), refresh=True)
                await _pause(news, TICK_S)
    finally:
        for line in lines:
            console.print(line)


async def _below(console: Console, news: asyncio.Event, look: Look, draw: Draw) -> None:
    shown: Form | None = None
    while True:
        news.clear()
        found = look()
        if found != shown:
            shown = found
            console.print(Text(f"{view.moment(clock.utc(clock.now_ns()))}", style="bold"))
            for line in draw(found, None):
                console.print(line)
            console.file.flush()
        await _pause(news, None)


async def _pause(news: asyncio.Event, tick_s: float | None) -> None:
    """Rest, then wait for news, or for the next tick where there is one."""
    await clock.sleep(REDRAW_S)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(tick_s and tick_s - REDRAW_S):
            await news.wait()
