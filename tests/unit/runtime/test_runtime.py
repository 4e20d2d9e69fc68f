"""What every service runs on: mailbox, back-off, state files, the serving lock, settings."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest
from pydantic import Field

from shared.runtime import backoff, boot, files, latest, locks, settings
from tests.support import logged
from tests.support.eventually import eventually


async def test_a_mailbox_hands_over_only_the_newest_value() -> None:
    box: latest.Latest[int] = latest.Latest()
    box.put(1)
    box.put(2)
    assert await box.get() == 2
    waiting = asyncio.ensure_future(box.get())  # noqa: TID251 - awaited three lines below
    await asyncio.sleep(0)
    assert not waiting.done()
    box.put(3)
    assert await waiting == 3


def test_waits_double_up_to_the_bound_and_start_again_after_a_success() -> None:
    waits = backoff.Backoff(first=0.1, most=5, jitter=lambda: 1.0)
    assert [waits.next() for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]
    waits.reset()
    assert waits.next() == 0.1


def test_jitter_never_waits_longer_than_the_bound_nor_less_than_half() -> None:
    assert backoff.Backoff(first=1, most=5, jitter=lambda: 0.0).next() == 0.5


async def test_a_state_file_gives_back_what_was_written_with_its_boot(
    tmp_path: pathlib.Path,
) -> None:
    store = files.Store(tmp_path / "new folder" / "x.json", kind="ledger")
    assert await store.read() is None
    await store.write(b'{"a":1}\n{"b":2}', "boot-1")
    assert await store.read() == files.Saved(b'{"a":1}\n{"b":2}', "boot-1", 1)
    assert [path.name for path in store.path.parent.iterdir()] == ["x.json"]


async def test_two_writers_of_one_file_never_mix_what_they_write(tmp_path: pathlib.Path) -> None:
    """As while a service is handed over, in two containers that may have one process id."""
    path = tmp_path / "x.json"
    payloads = [letter * 500_000 for letter in (b"a", b"b")]
    stores = [files.Store(path, kind="ledger") for _ in payloads]
    for _ in range(20):
        async with asyncio.TaskGroup() as tasks:
            for store, payload in zip(stores, payloads, strict=True):
                tasks.create_task(store.write(payload, "boot-1"))
        saved = await stores[0].read()
        assert saved is not None
        assert saved.payload in payloads
    assert os.listdir(tmp_path) == ["x.json"]


async def test_a_write_that_fails_leaves_the_folder_as_it_was(tmp_path: pathlib.Path) -> None:
    """A disk without room must not be filled by the attempts."""
    path = tmp_path / "x.json"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        await files.Store(path, kind="ledger").write(b"payload", "boot-1")
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda raw: raw[:-1] + b"x", id="a byte of the payload changed"),
        pytest.param(lambda raw: raw[: len(raw) // 2], id="cut in half"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"\x00\xff", id="rubbish"),
        pytest.param(lambda raw: raw.replace(b'"ledger"', b'"other"'), id="another kind"),
        pytest.param(lambda raw: raw.replace(b'"version": 1', b'"version": 2'), id="newer"),
    ],
)
async def test_a_file_that_cannot_be_believed_is_left_out_with_a_warning(
    spoil: object, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = files.Store(tmp_path / "x.json", kind="ledger")
    await store.write(b"payload", "boot-1")
    raw = store.path.read_bytes()
    store.path.write_bytes(spoil(raw))  # type: ignore[operator]  # a lambda of the parameters
    assert await store.read() is None
    assert "starting without it" in caplog.text


async def test_the_second_process_serves_when_the_first_one_lets_go(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And says that it waits, and that it serves."""
    logged.everything(caplog)
    first, second = locks.ServingLock(tmp_path / "a.lock"), locks.ServingLock(tmp_path / "a.lock")
    await first.acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await second.acquire()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(second.acquire(), name="successor")
        first.release()
    assert (first.held, second.held) == (False, True)
    assert len(logged.lines(caplog, "this process serves from now on")) == 2
    assert logged.lines(caplog, "another process serves")
    second.release()


async def test_who_serves_can_tell_whether_anybody_waits(tmp_path: pathlib.Path) -> None:
    """However slow the successor is; of two that wait, the second one waits for the first."""
    first, second, third = (locks.ServingLock(tmp_path / "a.lock") for _ in range(3))
    async with first:
        assert not await first.is_awaited()
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(each.acquire()) for each in (second, third)]
            await eventually(first.is_awaited)
            first.release()
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            serving, other = (second, third) if second.held else (third, second)
            await eventually(serving.is_awaited)
            serving.release()
    assert other.held
    assert not await other.is_awaited()
    other.release()


async def test_a_cancelled_wait_for_the_lock_leaves_no_file_open(tmp_path: pathlib.Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    async with locks.ServingLock(tmp_path / "a.lock"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await locks.ServingLock(tmp_path / "a.lock").acquire()
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_an_unreadable_boot_id_equals_no_boot(tmp_path: pathlib.Path) -> None:
    assert boot.boot_id(str(tmp_path / "none")) == "unknown"


class Sample(settings.Settings):
    """Settings of a test."""

    node_name: str = Field(description="the node's name")
    period_s: float = Field(default=10.0, gt=0, description="seconds between looks")


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_default() -> None:
    environ = {"SLICEWIRE_NODE_NAME": "env", "SLICEWIRE_PERIOD_S": "3", "SLICEWIRE_OTHER": "x"}
    loaded = settings.load(Sample, ["--node-name", "flag"], environ, "sample")
    assert loaded == Sample(node_name="flag", period_s=3.0)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "--node-name (or SLICEWIRE_NODE_NAME)"),
        (["--node-name", "a", "--period-s", "-1"], "--period-s"),
        (["--node-name", "a", "--period-s", "soon"], "not 'soon'"),
        (["--node", "a", "--colour", "red"], "--colour"),
    ],
    ids=["missing", "out of range", "not a number", "unknown flag"],
)
def test_a_wrong_setting_ends_with_status_2_and_names_itself(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        settings.load(Sample, argv, {}, "sample")
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


SERVICE = """
import asyncio, sys
from shared.runtime import service
async def main():
    print("ready", flush=True)
    {body}
sys.exit(service.run(main, "sample", {port}))
"""


def start(body: str, port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVICE.format(body=body, port=port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_runs_the_clean_up_and_ends_with_0(number: signal.Signals) -> None:
    body = "try: await asyncio.Event().wait()\n    finally: print('cleaned', flush=True)"
    with start(body) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=10)
    assert (out, process.returncode) == ("cleaned\n", 0)


def test_an_error_that_nothing_handled_ends_with_1_and_one_json_line() -> None:
    with start("raise ValueError('boom')") as process:
        _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert '"level": "error"' in err
    assert "boom" in err


def test_a_lock_that_cannot_be_made_ends_with_1_and_names_it_and_its_setting(
    tmp_path: pathlib.Path,
) -> None:
    """A folder that is read-only or another user's is no bug of ours."""
    path = tmp_path / "file" / "service.lock"
    path.parent.write_text("no folder")
    body = f"""import pathlib
    from shared.runtime import locks
    async with locks.ServingLock(pathlib.Path({str(path)!r})): pass"""
    with start(body) as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    (line,) = map(json.loads, err.splitlines())
    assert line["level"] == "error"
    assert line["message"].startswith(f"sample cannot make its lock {path} (")
    assert line["message"].endswith("a folder to write in by SLICEWIRE_RUN_DIR")
    assert "error" not in line


def test_a_health_port_that_another_has_ends_with_1_and_names_port_and_setting() -> None:
    """It is the administrator's to mend, and no bug of ours."""
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with start("await asyncio.Event().wait()", port) as process:
            _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    (line,) = map(json.loads, err.splitlines())
    assert line["level"] == "error"
    assert line["message"].startswith(f"sample cannot answer probes on port {port} (")
    assert line["message"].endswith("set another by SLICEWIRE_HEALTH_PORT")
    assert "error" not in line
