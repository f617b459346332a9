"""What tests of sources share."""

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def in_utc() -> Iterator[None]:
    """Where a time without a zone is one in UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
