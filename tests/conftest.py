"""What all tests share: hypothesis profiles, and coverage where the environment asks for it."""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=SLOW, print_blob=True)
settings.register_profile("night", max_examples=5000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

pytest_plugins = ["tests.support.coverage_floor"] if os.environ.get("COVERAGE_PROCESS_START") else []
