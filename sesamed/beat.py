"""When what is looked at from time to time comes next: all of it at the same moments, as it costs more to wake up than to look."""

import time

import anyio


def until_next(period_s: float) -> float:
    """How long it is to the next multiple of a period, by a clock that all share; never more than the period."""
    return period_s - time.monotonic() % period_s


async def sleep_to_next(period_s: float) -> None:
    """Sleep so long."""
    await anyio.sleep(until_next(period_s))
