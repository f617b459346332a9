"""What integration tests share: a library of sessions in a running daemon, and chance."""

import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.library import Library


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    with Daemon({"workstationId": "0123abcd"}) as daemon:
        yield Library(daemon)


@pytest.fixture
def chance() -> random.Random:
    """Printed with a failure, so that it can be had again."""
    seed = int(os.environ.get("SESAME_SEED") or time.time_ns() % 1_000_000_000)
    print(f"SESAME_SEED={seed}")  # noqa: T201
    return random.Random(seed)
