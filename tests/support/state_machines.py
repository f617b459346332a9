"""How state machines are run."""

from hypothesis import HealthCheck, settings

DAY = 15
CI = 12  # examples of a property where nobody waits for them
NIGHT = 1000  # examples of a history at night; a profile with as many has time for everything


def is_night() -> bool:
    """Whether there is time for everything."""
    return settings().max_examples >= NIGHT


def is_day() -> bool:
    """Whether somebody waits for the tests."""
    return settings().max_examples < CI


def histories(by_day: int) -> int:
    """How many histories to try: each writes and reads an index, or several, some hundred times the work of a property's example."""
    return NIGHT if is_night() else by_day


def machine_settings() -> settings:
    """A history of 25 steps, compared with rebuilds, costs as much as a hundred examples of a property: a few must do."""
    return settings(
        max_examples=histories(DAY),
        stateful_step_count=25,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
