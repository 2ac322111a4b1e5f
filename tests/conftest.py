"""Settings of all tests: Hypothesis profiles (HYPOTHESIS_PROFILE: default, wheel or thorough) and shared data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pages import interpreter, page, tab, tabs  # noqa: F401

from fgrn.engines.cpu import Cpu

slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", deadline=None, max_examples=40, suppress_health_check=slow_is_fine)
settings.register_profile("wheel", deadline=None, max_examples=10, suppress_health_check=slow_is_fine)
settings.register_profile("thorough", deadline=None, max_examples=1500, suppress_health_check=slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of clusters come within the first half, which one of two processes begins with.

    By then kernels are compiled, which each worker of a cluster would do otherwise; and the other process, which takes
    over tests from the end, does not start clusters of its own.
    """
    clusters = [item for item in items if item.path.stem == "test_cluster"]
    others = [item for item in items if item.path.stem != "test_cluster"]
    before = len(others) // 4
    items[:] = [*others[:before], *clusters, *others[before:]]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of larger data sets, beside the checkout or in FGRN_SHARED; tests are skipped without it."""
    root = Path(os.environ.get("FGRN_SHARED", Path(__file__).parents[1].parent / "shared"))
    if not (root / "data").is_dir():
        pytest.skip("the larger data sets are not beside this checkout (set FGRN_SHARED to their folder)")
    return root / "data"


@pytest.fixture(scope="module")
def only_what_is_asked_for() -> Iterator[None]:
    """Let the CPU engine leave out the messages nobody asks for, also of few rows, for which it would make all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cpu, "all_messages_up_to", 0)
        yield


@pytest.fixture
def quick_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the choice of a classifier end after a fraction of a second: for tests of other things."""
    monkeypatch.setattr("fgrn.learning.choice_budget.MOST_WORK", 3e8)
    monkeypatch.setattr("fgrn.LatentClassifier._warn_of_the_penalty", lambda *_: None)
