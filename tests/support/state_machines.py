"""How state machines are run."""

from hypothesis import HealthCheck, settings

NIGHT = 1000  # examples; a profile with as many wants all of them


def is_night() -> bool:
    """Whether there is time for everything."""
    return settings().max_examples >= NIGHT


def machine_settings() -> settings:
    """A history of 25 steps, compared with rebuilds, costs as much as a hundred examples of a property: but at night a few must do."""
    examples = settings().max_examples
    return settings(
        max_examples=examples if is_night() else max(15, examples // 8),
        stateful_step_count=25,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
