"""What integration tests share: a library of sessions in a running daemon, a daemon that watches, a place for a socket, and chance."""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.library import Library
from tests.support.watched import one

collect_ignore = [] if "SESAME_WORKSTATIONS" in os.environ else ["test_hub_long.py"]  # .ci/run has no time for it


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    with Daemon({"workstationId": "0123abcd"}) as daemon:
        yield Library(daemon)


@pytest.fixture
def watching() -> Iterator[Daemon]:
    """A daemon with a session `one`, watching; what it notices by itself it has from events, for it never sweeps again."""
    with Daemon({"sweepSeconds": 86_400}) as started:
        eventually(lambda: started.call("status")["sources"][0]["mode"] == "events")
        started.swept().write("project/one.jsonl", one().bytes())
        started.sync()
        yield started


@pytest.fixture
def place() -> Iterator[str]:
    """A path for a socket; short, since an address takes 103 bytes."""
    directory = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    yield f"{directory}/sock"
    shutil.rmtree(directory)


@pytest.fixture
def chance() -> random.Random:
    """Printed with a failure, so that it can be had again."""
    seed = int(os.environ.get("SESAME_SEED") or time.time_ns() % 1_000_000_000)
    print(f"SESAME_SEED={seed}")  # noqa: T201  # pytest shows it with the failure
    return random.Random(seed)
