"""`slicewire rehearse` and `demo`, as a person calls them."""

from __future__ import annotations

import asyncio
import pathlib
import signal

import pytest

from services.commands import demo
from tests.e2e import calling

SMALL = """\
nodes:
  - name: gpu-a.lan
    gpus: [t4]
steps:
  - expect: {node: gpu-a.lan, allocatable: {nvidia.com/gpu: 1}, within: 30s}
"""


@pytest.mark.timeout(120)
async def test_a_wrong_expectation_ends_with_1_and_what_was_seen(short: pathlib.Path) -> None:
    """The step says what it saw instead, the logs are kept, and no process is."""
    wrong = SMALL + "  - expect: {node: gpu-a.lan, allocatable: {nvidia.com/gpu: 7}, within: 1s}\n"
    ended = await calling.rehearsed(short, wrong + "  - wait: 1s\n")
    assert ended.status == 1
    assert not ended.form["ok"]
    first, last = ended.form["steps"]
    assert (first["line"], first["ok"]) == (5, True)
    assert (last["line"], last["ok"]) == (6, False)
    assert last["seen"] == {"allocatable": {"nvidia.com/gpu": 1}}
    assert last["why"] == (
        "not within 1 s: allocatable is {nvidia.com/gpu: 1}, not {nvidia.com/gpu: 7}"
    )
    assert "logs of all services" in ended.err
    assert "gpu-a.lan.allocator.log" in calling.left_lying(short)
    assert calling.left_running(short) == []


async def test_a_wrong_file_ends_with_2_and_is_not_played(short: pathlib.Path) -> None:
    """Path, line and suggestion come on standard error and in the JSON object."""
    ended = await calling.rehearsed(short, SMALL.replace("allocatable", "alocatable"))
    assert ended.status == 2
    (error,) = ended.form["errors"]
    assert (error["path"], error["line"]) == ("steps[0].expect.alocatable", 5)
    assert error["suggestion"] == 'did you mean "allocatable"?'
    assert ended.form["steps"] == []
    assert 'did you mean "allocatable"?' in ended.err


async def test_of_several_files_the_wrong_ones_are_told_as_several(short: pathlib.Path) -> None:
    """The form depends on how many files were given, not on how many are wrong."""
    texts = {"wrong.yaml": SMALL.replace("allocatable", "alocatable"), "right.yaml": SMALL}
    for name, text in texts.items():
        await asyncio.to_thread((short / name).write_text, text, encoding="utf-8")
    files = [str(short / name) for name in texts]
    ended = await calling.called(short, "rehearse", "-o", "json", *files)
    assert ended.status == 2
    assert not ended.form["ok"]
    (only,) = ended.form["files"]
    assert only["file"] == files[0]


async def test_a_file_that_is_not_there_ends_with_2(short: pathlib.Path) -> None:
    """The call itself is wrong."""
    ended = await calling.called(short, "rehearse", str(short / "nothing.yaml"))
    assert ended.status == 2
    assert "cannot read" in ended.err


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT, signal.SIGTERM)],
    ids=["Ctrl-C", "SIGTERM", "impatient"],
)
async def test_a_rehearsal_that_is_stopped_ends_everything(
    short: pathlib.Path, numbers: tuple[signal.Signals, ...]
) -> None:
    """Whatever was started is ended, in the middle of a story too."""
    story = short / "story.yaml"
    await asyncio.to_thread(story.write_text, SMALL + "  - wait: 100s\n", encoding="utf-8")
    process = await calling.started(short, "rehearse", str(story))
    assert process.stdout is not None
    async for line in process.stdout:
        if b"allocatable" in line:
            break
    for number in numbers:
        process.send_signal(number)
    told, _ = await process.communicate()
    assert process.returncode == 1
    assert b"stopped; logs of all services" in told
    assert calling.left_running(short) == []


async def test_a_start_that_is_broken_off_leaves_nothing(short: pathlib.Path) -> None:
    """No process, and no folder that nobody has been told of."""
    story = short / "story.yaml"
    await asyncio.to_thread(story.write_text, SMALL, encoding="utf-8")
    process = await calling.started(short, "rehearse", str(story))
    assert process.stdout is not None
    while not any("nats-server" in each for each in calling.left_running(short)):
        assert process.returncode is None
        await asyncio.sleep(0)
    process.send_signal(signal.SIGINT)
    told, _ = await process.communicate()
    assert process.returncode == 1, told
    assert calling.left_running(short) == []
    assert calling.left_lying(short) == []


OTHER_NUMBERS = (
    ("gpus: [a100-80gb, a100-80gb]", "gpus: [l40s, l40s, l40s]"),
    ("gpus: [t4]", "gpus: [a10]"),
    ("replicas: 4", "replicas: 5"),
    ("replicas: 2", "replicas: 3"),
    ("nvidia.com/gpu: 8}", "nvidia.com/gpu: 15}"),
    ("{free: 8, held: 0}", "{free: 15, held: 0}"),
    ("{free: 4, held: 0}", "{free: 5, held: 0}"),
    ("{held: 3, free: 1, unhealthy: 0}", "{held: 3, free: 4, unhealthy: 2}"),
    ("held: 3, free: 1", "held: 3, free: 6"),
    ("allocatable: {nvidia.com/gpu: 2}", "allocatable: {nvidia.com/gpu: 6}"),
    ("xid: 79", "xid: 48"),
    ("~XID 79", "~XID 48"),
    ("pods: [~^default/train-, ~^default/train-]", "pods: [~^default/train-]"),
    ("{1g.10gb: 4, 3g.40gb: 1}", "{1g.10gb: 3, 3g.40gb: 1}"),
    ("nvidia.com/mig-1g.10gb: 4", "nvidia.com/mig-1g.10gb: 3"),
    ("kept: {0: 5, 1: 1}", "kept: {0: 4, 1: 1}"),
)


def with_other_numbers(text: str) -> str:
    """The demo's story with other GPUs, replicas and XID, and what must then be seen."""
    for before, after in OTHER_NUMBERS:
        assert before in text, before
        text = text.replace(before, after)
    # What is still 4 is gpu-b's where the line speaks of it (5 now), and gpu-a's elsewhere (9).
    first, *others = text.split("- expect:")
    return first + "".join(
        "- expect:"
        + other.replace("nvidia.com/gpu: 4}", f"nvidia.com/gpu: {5 if 'gpu-b' in other else 9}}}")
        for other in others
    )


@pytest.mark.timeout(120)
async def test_the_demo_prints_what_it_observes(short: pathlib.Path) -> None:
    """A copy with other GPUs, replicas, XID and layout is seen as well, with its own numbers."""
    text = with_other_numbers(await asyncio.to_thread(demo.text))
    story = short / "copy.yaml"
    await asyncio.to_thread(story.write_text, text, encoding="utf-8")
    ended = await calling.called(short, "rehearse", str(story))
    assert ended.status == 0, ended.out
    for part in (
        "15 free",
        "3 held, 6 free",
        "2 unhealthy",
        "XID 48",
        "L40S-SHARED",
        "0 {1g.10gb: 3, ",
    ):
        assert part in ended.out, part
    for part in ("8 free", "XID 79", "lost", "A100"):
        assert part not in ended.out, part


@pytest.mark.timeout(120)
async def test_the_demo_fails_where_a_service_ends(short: pathlib.Path) -> None:
    """Without a controller nothing is shared: 1, with what was seen and who is missing."""
    text = await asyncio.to_thread(demo.text)
    ended = await calling.rehearsed(short, text, without="reconfigurer controller")
    assert ended.status == 1
    last = ended.form["steps"][-1]
    assert last["seen"]["allocatable"] != {"nvidia.com/gpu": 8}
    assert "not within 10 s: " in last["why"]
    assert "the controller ended by signal 9" in ended.err


@pytest.mark.timeout(120)
async def test_the_demo_is_seen_within_a_minute(short: pathlib.Path) -> None:
    """Every step of the shipped story is seen, and the story tells what was observed."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    ended = await calling.called(short, "demo")
    assert ended.status == 0, ended.out
    assert loop.time() - began < 60
    for part in ("nvidia.com/gpu 8", "NVIDIA_VISIBLE_DEVICES=GPU-", "UnexpectedAdmissionError"):
        assert part in ended.out
    for part in ("did you mean", "default/train-1", "resolve config", "XID 79"):
        assert part in ended.out
    for part in ("kept 0 3, 1 1", "evicted true", "destroy instance", "memory slices 12 of 8"):
        assert part in ended.out
    assert calling.left_running(short) == []
