"""Settings of all tests: Hypothesis profiles (HYPOTHESIS_PROFILE: default, wheel or thorough) and shared data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fgrn.engines.cpu import Cpu

slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=slow_is_fine)
settings.register_profile("wheel", deadline=None, max_examples=10, suppress_health_check=slow_is_fine)
settings.register_profile("thorough", deadline=None, max_examples=1500, suppress_health_check=slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of larger data sets, beside the checkout or in FGRN_SHARED; tests are skipped without it."""
    root = Path(os.environ.get("FGRN_SHARED", Path(__file__).parents[1].parent / "shared"))
    if not (root / "data").is_dir():
        pytest.skip("the larger data sets are not beside this checkout (set FGRN_SHARED to their folder)")
    return root / "data"


@pytest.fixture(autouse=True, scope="session")
def no_rows_are_few() -> None:
    """Let the CPU engine skip messages for small tables, too, as it does for large ones: tests have few rows."""
    Cpu.few_rows = 0
