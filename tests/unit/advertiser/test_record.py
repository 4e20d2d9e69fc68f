"""What was published last is found again: after a restart, after a boot, beside a bad disk."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from services.advertiser import inventory, record
from shared.contract import codec
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.runtime import files
from tests.support.eventually import eventually
from tests.support.hardware import gpu, hardware, intent, stamp, time_sliced
from tests.support.running import running


@pytest.fixture(autouse=True)
def messages() -> None:
    """As a service has them before its loop begins (shared.bus.connection)."""
    codec.prepare([Inventory])


def kept_in(folder: pathlib.Path, boot_id: str = "this boot") -> record.Record:
    return record.Record(
        files.Store(folder / "run" / "inventory.json", kind="inventory"),
        files.Store(folder / "disk" / "inventory.json", kind="inventory"),
        boot_id,
    )


def content(replicas: int) -> Inventory:
    wanted = intent(time_sliced(replicas), Generation(1, 1))
    found = inventory.after_look(inventory.State(), hardware(gpu(0)), wanted, stamp(), now=1)
    assert found is not None
    return found


async def kept(folder: pathlib.Path, *contents: Inventory) -> None:
    """Have a process publish these, until the copy has the last one."""
    process = kept_in(folder)
    async with running(process.run()):
        for each in contents:
            await process.write(each)
        await eventually(lambda: copied(folder, contents[-1]))


async def copied(folder: pathlib.Path, wanted: Inventory) -> bool:
    saved = await files.Store(folder / "disk" / "inventory.json", kind="inventory").read()
    return saved is not None and codec.decode(Inventory, saved.payload) == wanted


async def test_a_restart_starts_from_the_file(tmp_path: pathlib.Path) -> None:
    await kept(tmp_path, content(2), content(4))
    state = await kept_in(tmp_path).read()
    assert (state.published, state.is_of_former_boot) == (content(4), False)


async def test_a_boot_starts_from_the_copy_as_of_another_boot(tmp_path: pathlib.Path) -> None:
    await kept(tmp_path, content(4))
    (tmp_path / "run" / "inventory.json").unlink()
    state = await kept_in(tmp_path, "the next boot").read()
    assert (state.published, state.is_of_former_boot) == (content(4), True)


async def test_a_file_that_cannot_be_read_leaves_the_copy(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line says so."""
    await kept(tmp_path, content(4))
    store = files.Store(tmp_path / "run" / "inventory.json", kind="inventory")
    await store.write(b"{}", "this boot")
    state = await kept_in(tmp_path).read()
    assert (state.published, state.is_of_former_boot) == (content(4), False)
    assert "cannot be read" in caplog.text


async def test_a_disk_that_refuses_the_copy_is_told_once_and_written_when_it_takes_it(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file, which the services beside read, is written at once."""
    await asyncio.to_thread((tmp_path / "disk").write_text, "where the folder is due", "ascii")
    process = kept_in(tmp_path)
    async with running(process.run()):
        await process.write(content(4))
        assert (await kept_in(tmp_path).read()).published == content(4)
        await eventually(lambda: caplog.text.count("cannot write") == 1)
        await process.write(content(2))
        (tmp_path / "disk").unlink()
        await eventually(lambda: copied(tmp_path, content(2)))
    assert caplog.text.count("cannot write") == 1
