"""Every story that ships or stands here is played once; cases are looked up in what was seen.

A story that shows cases says so in its headings: `- say: "U003: …"` begins the part of that case.
"""

from __future__ import annotations

import asyncio
import itertools
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from services.rehearsal import language
from services.rehearsal.story import Say
from tests.e2e import calling
from tests.support import folders

HERE = pathlib.Path(__file__).parent
EXAMPLES = HERE.parents[1] / "deploy" / "examples"
STORIES = [
    *sorted((HERE / "stories").glob("*.yaml")),
    *sorted(path for path in EXAMPLES.glob("*.yaml") if path.stem != "demo"),  # played elsewhere
]
CASE = re.compile(r"\b[UF][0-9]{2,3}\b")
AT_ONCE = 3
ALL_S = 1200  # within which all of them are played, by whichever test comes first


@dataclass(frozen=True)
class Played:
    """How a story ended, and what it left behind."""

    ended: calling.Ended
    left: list[str]


PLAYED: dict[pathlib.Path, Played] = {}  # once a session


def parts(story: pathlib.Path) -> Iterator[tuple[list[str], int, int]]:
    """Case numbers of each heading of a story, with the first step and the one after the last."""
    steps = language.read(story.read_text(encoding="utf-8"), story.name).steps
    starts = [
        (number, step.action.text)
        for number, step in enumerate(steps)
        if isinstance(step.action, Say)
    ]
    for (start, text), (end, _) in itertools.pairwise([*starts, (len(steps), "")]):
        yield CASE.findall(text), start, end


def cases() -> Iterator[object]:
    """Each case number with all the places where it is shown."""
    places: dict[str, list[tuple[pathlib.Path, int, int]]] = {}
    for story in STORIES:
        for numbers, start, end in parts(story):
            for number in numbers:
                places.setdefault(number, []).append((story, start, end))
    for number, found in sorted(places.items()):
        yield pytest.param(found, id=number)


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> list[pathlib.Path]:
    """The stories that this session's tests look at."""
    specs = [each.callspec for each in request.session.items if hasattr(each, "callspec")]
    stories = {spec.params["story"] for spec in specs if "story" in spec.params}
    stories |= {place[0] for spec in specs for place in spec.params.get("places", ())}
    return [story for story in STORIES if story in stories]


@pytest.fixture
async def played(chosen: list[pathlib.Path]) -> dict[pathlib.Path, Played]:
    """All of them, played a few at a time: they wait more than they work."""
    room = asyncio.Semaphore(AT_ONCE)

    async def play(story: pathlib.Path) -> None:
        async with room:
            with folders.short() as folder:
                ended = await calling.called(folder, "rehearse", str(story), "-o", "json")
                left = [*calling.left_running(folder), *calling.left_lying(folder)]
        PLAYED[story] = Played(ended, left)

    async with asyncio.TaskGroup() as tasks:
        for story in chosen:
            if story not in PLAYED:
                tasks.create_task(play(story), name=f"play {story.stem}")
    return PLAYED


@pytest.mark.timeout(ALL_S)
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
async def test_every_story_is_seen(story: pathlib.Path, played: dict[pathlib.Path, Played]) -> None:
    """Every expectation of every file holds, and nothing is left running or lying about."""
    ended, left = played[story].ended, played[story].left
    assert ended.status == 0, (ended.err, ended.form["steps"][-1:])
    assert ended.form["ok"]
    assert all(step["ok"] and not step["why"] for step in ended.form["steps"])
    assert left == []


@pytest.mark.timeout(ALL_S)
@pytest.mark.parametrize("places", list(cases()))
async def test_cases_have_their_right_values(
    places: list[tuple[pathlib.Path, int, int]], played: dict[pathlib.Path, Played]
) -> None:
    """What people reported is seen on a running cluster, as it should have been for them."""
    for story, start, end in places:
        steps = played[story].ended.form["steps"][start:end]
        assert len(steps) == end - start > 1, "the story ended before this case"
        assert all(step["ok"] for step in steps), [step["why"] for step in steps if step["why"]]


async def test_the_shipped_examples_are_where_people_look_for_them() -> None:
    """A handful of small stories, each of which says in its first line what it is about."""
    examples = await asyncio.to_thread(lambda: sorted(EXAMPLES.glob("*.yaml")))
    assert len(examples) >= 5
    for example in examples:
        assert (await asyncio.to_thread(example.read_text)).startswith("# "), example.name
