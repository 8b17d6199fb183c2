"""Hypothesis profiles for all suites; the rest is configured in pyproject.toml. No domain fixtures here."""

import os

from hypothesis import HealthCheck, settings

# A shared machine makes any deadline a coin toss, and generating big inputs slowly is not a defect.
settings.register_profile("base", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", settings.get_profile("base"), max_examples=50)
# CI judges a change, so it must not fail by luck: same examples every time. The nightly run looks for new ones.
settings.register_profile("ci", settings.get_profile("base"), max_examples=200, derandomize=True)
settings.register_profile("nightly", settings.get_profile("base"), max_examples=5_000)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "DEXD_TEST_REQUIRE_ALL" in os.environ else "dev"))
