"""What every unit test gets: asyncio, and a loop on which sesamed must not block."""

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
