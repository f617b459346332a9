"""Coverage of all tests together, printed, and not let fall below a floor: a plugin of pytest where COVERAGE_PROCESS_START is set.

That variable has coverage measure the processes that run tests; which of those that they start are measured is said in
tests/support/measured.py. Those that are killed leave no data.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from coverage import Coverage
from coverage.exceptions import CoverageWarning

from tests.support import measured

PACKAGE = "sesamed"
FLOOR = 95.0  # percent of lines and branches
MODULE_FLOOR = 85.0
REPORT = pytest.StashKey[list[str]]()


class Module(NamedTuple):
    """What of one file was run."""

    path: str
    percent: float
    missing: str

    def __str__(self) -> str:
        return f"{self.percent:6.1f} % {self.path}: {self.missing}"


@pytest.hookimpl(tryfirst=True)  # when other processes that run tests have begun, and no test has
def pytest_runtestloop() -> None:
    """Only what we measure has the switch."""
    measured.keep_to_ourselves()


@pytest.hookimpl(trylast=True)  # when other processes that run tests have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Put together what all processes have measured; the run fails when it is too little."""
    _save()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    total, modules = _measure(_combine())
    lines = [f"{total:6.1f} % of {PACKAGE}, lines and branches; modules below {FLOOR:.0f} %:"]
    lines += [f"  {module}" for module in modules if module.percent < FLOOR]
    faults = [f"{module.path} is below {MODULE_FLOOR:.0f} %" for module in modules if module.percent < MODULE_FLOOR]
    faults += [f"{PACKAGE} is below {FLOOR:.0f} %"] * (total < FLOOR)
    session.config.stash[REPORT] = [*lines, *(f"TOO LITTLE: {fault}" for fault in faults)]
    if faults and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it above the closing line."""
    terminalreporter.section("coverage")
    for line in terminalreporter.config.stash.get(REPORT, []):
        terminalreporter.write_line(line)


def _save() -> None:
    """This process's data."""
    here = Coverage.current()
    if here is not None:
        here.stop()
        here.save()


def _combine() -> Coverage:
    """The data of all processes."""
    coverage = Coverage(config_file=measured.CONFIGURATION or True)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", CoverageWarning
        )  # a process that was killed while it wrote has left an empty file
        coverage.combine()
    coverage.save()
    return coverage


def _measure(coverage: Coverage) -> tuple[float, list[Module]]:
    """The package's share, and those of its modules, the worst first."""
    file = Path(coverage.config.data_file).with_name(".coverage.json")
    coverage.json_report(outfile=str(file), include=[f"{PACKAGE}/*"])  # not a wheel that a test installed
    report = json.loads(file.read_bytes())
    modules = [Module(path, _percent(found), _missing(found)) for path, found in report["files"].items()]
    return float(report["totals"]["percent_covered"]), sorted(modules, key=lambda module: module.percent)


def _percent(found: dict[str, Any]) -> float:
    return float(found["summary"]["percent_covered"])


def _missing(found: dict[str, Any]) -> str:
    lines = [str(line) for line in found["missing_lines"]]
    branches = [f"{begin}->{end}" for begin, end in found["missing_branches"]]
    return " ".join([*lines, *branches])
