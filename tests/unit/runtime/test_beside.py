"""Work that goes on while a block runs."""

from __future__ import annotations

import asyncio

import pytest

from shared.runtime import beside


async def test_the_work_ends_with_the_block_and_the_blocks_own_error_comes_out_as_it_is() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def block() -> None:
        async with beside.running(work(), "work"):
            await begun.wait()
            raise LookupError("the block's own")

    with pytest.raises(LookupError, match="the block's own"):
        await block()
    assert ended.is_set()
