"""Which of the processes that tests start are measured: two daemons of each test, in the first of its cases, and what those start.

Coverage makes a daemon cost twice what it takes, and a client three times. So the switch is taken out of the environment that all of them
would inherit, and given to few. Of `sesamed`, all daemons together run 0.1 % more than two of each test (decision 114).
"""

import os
from pathlib import Path

SWITCH = "COVERAGE_PROCESS_START"
STARTS = 2  # two daemons, or one that is started again; with only one start 1.3 % less of `sesamed` was run

CONFIGURATION = os.environ.get(SWITCH)
FILE = os.environ.get("COVERAGE_FILE", str(Path(".coverage").absolute()))
_cases: dict[str, str] = {}  # of each test function, the case in which a daemon was started first
_starts: dict[str, int] = {}  # in it


def keep_to_ourselves() -> None:
    """What is started from now on is measured only where it gets what is said below."""
    os.environ.pop(SWITCH, None)


def switch() -> dict[str, str]:
    """What has a process measured, and all that it starts; nothing where nothing is."""
    return {SWITCH: CONFIGURATION, "COVERAGE_FILE": FILE} if CONFIGURATION else {}


def switch_of_daemon() -> dict[str, str]:
    """The same for a daemon of the test that runs."""
    case = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]  # behind it: setup, call or teardown
    function = case.partition("[")[0]
    if _cases.setdefault(function, case) != case:
        return {}
    _starts[function] = _starts.get(function, 0) + 1
    return switch() if _starts[function] <= STARTS else {}
