"""What all tests share: hypothesis profiles, asyncio, a loop on which sesamed must not block, and coverage on demand."""

import os
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=SLOW, print_blob=True)
settings.register_profile("night", max_examples=5000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

pytest_plugins = ["tests.support.coverage_floor"] if os.environ.get("COVERAGE_PROCESS_START") else []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _never_blocks() -> Iterator[None]:
    with blockbuster_ctx("sesamed"):
        yield
