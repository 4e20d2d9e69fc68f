"""`status --watch`: what changes is drawn anew, what does not is not; a Ctrl-C is a good end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from services.commands import watching
from services.views import console as view

pytestmark = pytest.mark.looptime
LEAVES_THE_SCREEN = "\x1b[?1049l"


@dataclass
class Stage:
    """Something that is watched: a number, and how often somebody looked."""

    console: Console
    news: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0
    looks: int = 0
    heights: list[int | None] = field(default_factory=list)

    def look(self) -> Mapping[str, Any]:
        self.looks += 1
        return {"number": self.number}

    def draw(self, form: Mapping[str, Any], height: int | None) -> list[Text]:
        self.heights.append(height)
        return [Text(f"number {form['number']}")]

    async def watch(self, *numbers: int) -> str:
        """Watch while the number becomes these, a tenth of a second apart, and longer."""
        async with asyncio.TaskGroup() as tasks:
            work = watching.watch(self.console, self.news, self.look, self.draw)
            task = tasks.create_task(work, name="watch")
            await asyncio.sleep(0.05)
            for self.number in numbers:
                self.news.set()
                await asyncio.sleep(0.1)
            await asyncio.sleep(3.0)
            task.cancel()
        assert isinstance(self.console.file, io.StringIO)
        return self.console.file.getvalue()


def terminal() -> Console:
    """A screen of ten lines."""
    return Console(file=io.StringIO(), force_terminal=True, width=40, height=10)


async def test_in_a_pipe_each_picture_that_says_something_new_comes_once() -> None:
    """With its time; five changes within half a second are one picture, and a tick is none."""
    stage = Stage(view.open_console(io.StringIO()))
    lines = (await stage.watch(1, 2, 3, 4)).splitlines()
    assert [line for line in lines if "number" in line] == ["number 0", "number 4"]
    assert len(lines) == 4
    assert set(stage.heights) == {None}


async def test_what_comes_back_is_not_printed_again() -> None:
    """News that change nothing are none."""
    stage = Stage(view.open_console(io.StringIO()))
    assert (await stage.watch(0, 0)).count("number") == 1


async def test_on_a_screen_time_passes_at_most_twice_a_second() -> None:
    """No more than its lines are drawn, and the last picture is left behind."""
    stage = Stage(terminal())
    written = await stage.watch(*range(1, 11))
    assert 4 <= stage.looks <= 8
    assert set(stage.heights) == {10}
    _, _, after = written.rpartition(LEAVES_THE_SCREEN)
    assert "number 10" in after


async def test_a_mistake_in_drawing_does_not_leave_the_screen_behind() -> None:
    """The terminal is as it was, whatever ends the watch."""
    console = terminal()

    def fail(_form: Mapping[str, Any], _height: int | None) -> list[Text]:
        raise ValueError("cannot be drawn")

    with pytest.raises(ValueError, match="cannot be drawn"):
        await watching.watch(console, asyncio.Event(), dict, fail)
    assert isinstance(console.file, io.StringIO)
    assert LEAVES_THE_SCREEN in console.file.getvalue()
