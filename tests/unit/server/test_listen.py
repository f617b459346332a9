"""The listener's loop."""

import asyncio
import logging

import anyio
import pytest

from sesamed.server.listen import pass_over_cancelled


async def test_what_comes_for_somebody_who_has_just_left(caplog: pytest.LogCaptureFixture) -> None:
    """A future is set that was cancelled in the same turn: no error; any other fault in a callback is logged."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(pass_over_cancelled)
    with caplog.at_level(logging.ERROR):
        left = loop.create_future()
        loop.call_soon(left.set_result, None)
        left.cancel()
        await anyio.sleep(0.01)
        assert caplog.messages == []
        loop.call_soon(int, "x")
        await anyio.sleep(0.01)
        assert len(caplog.messages) == 1
