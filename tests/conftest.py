"""What all tests share: hypothesis profiles, asyncio, a loop on which sesamed must not block, and coverage on demand."""

import gc
import inspect
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

from tests.support.state_machines import CI, is_night

HERE = Path(__file__).parent
QUICK_LAST = {"histories": 1, "unit": 2}
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# Where CI is set hypothesis would try the same examples every time. That is right for what must pass before a change lands, but not for
# what looks for faults all night.
settings.register_profile(
    "day", max_examples=10, deadline=None, suppress_health_check=SLOW, print_blob=True, derandomize=False
)
settings.register_profile("ci", settings.get_profile("day"), max_examples=CI, derandomize=True)
settings.register_profile("night", settings.get_profile("day"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "day"))

pytest_plugins = [
    "tests.support.postgres",
    *(["tests.support.coverage_floor"] if os.environ.get("COVERAGE_PROCESS_START") else []),
]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All tests go to half as many processes again as there are cores, since tests of a daemon wait for half of their time; some of them
    to this one, which begins at once."""
    return (os.cpu_count() or 1) * 3 // 2 if config.args_source == pytest.Config.ArgsSource.TESTPATHS else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The many quick files come last, so that no process is left alone with slow ones: by the number of their tests, which is xdist's
    order, the last eighth of all took five minutes of fourteen."""
    items.sort(key=lambda item: QUICK_LAST.get(item.path.relative_to(HERE).parts[0], 0))


# Shells have what they run in the background ignore it, and so would programs under test, which must end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At night: how much was tried. Histories, which are no properties to pytest, come on top."""
    if is_night():
        told = [
            getattr(report, "_hypothesis_stats", "")
            for reports in terminalreporter.stats.values()
            for report in reports
        ]
        examples = sum(int(number) for stats in told for number in re.findall(r"(\d+) passing", stats))
        terminalreporter.write_line(f"{examples} examples of {sum(map(bool, told))} properties")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: to have the garbage collector walk it again and again is a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def _never_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where there is a loop: to wrap a hundred functions for each of the other tests costs as much as a tenth of them."""
    if not inspect.iscoroutinefunction(request.function):
        yield
        return
    with blockbuster_ctx("sesamed"):
        yield
