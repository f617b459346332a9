"""What every integration test gets: asyncio, a loop on which sesamed must not block, and chance where it asks for it."""

import os
import random
import time
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _never_blocks() -> Iterator[None]:
    with blockbuster_ctx("sesamed"):
        yield


@pytest.fixture
def chance() -> random.Random:
    """Printed with a failure, so that it can be had again."""
    seed = int(os.environ.get("SESAME_SEED") or time.time_ns() % 1_000_000_000)
    print(f"SESAME_SEED={seed}")  # noqa: T201
    return random.Random(seed)
