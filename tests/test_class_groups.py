"""Latent classes in groups: tests of equal measurement, against fits of each group alone and one-step covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import fgrn
from fgrn.statistics.groups import GroupComparison

ROWS, ITEMS = 500, 5
SETTINGS: dict[str, Any] = {"smoothing": 0, "tol": 1e-12, "random_state": 0}


def drawn(seed: int, rows: int = ROWS, apart: float = 0.5) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Answers of two classes in two groups, which answer q2 differently, and the groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["north", "south"], rows)
    second = (rng.random(rows) < np.where(groups == "north", 0.3, 0.6)) * 1
    chance = np.array([0.85, 0.15])[second]
    table: dict[str, list[Any]] = {}
    for item in range(ITEMS):
        own = np.where((groups == "south") & (item == 2), apart, chance)
        table[f"q{item}"] = np.where(rng.random(rows) < own, "yes", "no").tolist()
    for row in range(0, rows, 9):
        table["q1"][row] = None
    return table, groups


TABLE, GROUPS = drawn(0)


@pytest.fixture(scope="module")
def model() -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(2, **SETTINGS).fit(TABLE).relabel(("q0", "yes"))


@pytest.fixture(scope="module")
def found(model: fgrn.LatentClassModel) -> GroupComparison:
    return model.compare_groups(GROUPS)


def test_all_free_is_each_group_alone_and_equal_measurement_a_covariate(
    model: fgrn.LatentClassModel, found: GroupComparison
) -> None:
    nothing, sizes, every = found.models
    assert nothing.log_likelihood == pytest.approx(model.score_samples(TABLE).sum(), abs=1e-6)
    regression: Any = model.membership_regression({"g": GROUPS}, steps=1, n_init=1)
    assert sizes.log_likelihood == pytest.approx(regression.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(found.sizes, regression.predict_proba({"g": found.groups}), atol=1e-5)
    assert (nothing.n_parameters, sizes.n_parameters, every.n_parameters) == (11, regression.n_parameters, 22)
    total = 0.0
    for number, group in enumerate(found.groups):
        rows = np.flatnonzero(group == GROUPS)
        part = {name: [column[row] for row in rows] for name, column in TABLE.items()}
        alone = fgrn.LatentClassModel(2, **SETTINGS).fit(part).relabel(("q0", "yes"))
        total += alone.score_samples(part).sum()
        np.testing.assert_allclose(found.free_sizes[number], alone.weights_, atol=1e-4)
        np.testing.assert_allclose(found.free[number].tables[3], alone.network_.table("q3"), atol=1e-4)
    assert every.log_likelihood == pytest.approx(total, abs=1e-6)


def test_classes_are_numbered_as_in_the_model_and_groups_keep_their_values(
    model: fgrn.LatentClassModel, found: GroupComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another start than that from the model may win, and it numbers classes in its own way."""
    fit = model._fit_from
    monkeypatch.setattr(model, "_fit_from", lambda *given: fit(*given).ordered(np.array([1, 0])))
    turned = model.compare_groups(np.where(GROUPS == "north", 10, 9), items=[], n_init=1)
    assert turned.groups == (9, 10)
    assert turned.frames["sizes"]["group"].tolist() == [9, 9, 10, 10]
    np.testing.assert_allclose(turned.sizes[::-1], found.sizes, atol=1e-4)
    np.testing.assert_allclose(turned.free_sizes[::-1], found.free_sizes, atol=1e-4)
    np.testing.assert_allclose(turned.equal.cells, found.equal.cells, atol=1e-4)


def test_the_item_that_differs_is_found(found: GroupComparison) -> None:
    whole = found.test("measurement")
    assert whole.df == 2 * ITEMS
    assert whole.ratio == pytest.approx(2 * (found.models[2].log_likelihood - found.models[1].log_likelihood))
    assert whole.p == pytest.approx(chi2.sf(whole.ratio, whole.df))
    assert found.test("q2").p < 1e-6 < 0.01 < min(found.test(f"q{item}").p for item in (0, 1, 3, 4))
    assert found.test("class sizes").p < 1e-6
    for item in range(ITEMS):
        assert found.test(f"q{item}").ratio <= whole.ratio


def test_equal_groups_are_rejected_about_as_often_as_they_should() -> None:
    p = []
    for seed in range(12):
        table, groups = drawn(seed, 300)
        del table["q2"]  # the others are measured alike in both
        p.append(fgrn.LatentClassModel(2, n_init=1, random_state=0).fit(table).compare_groups(groups, items=[]))
    assert np.mean([one.test("measurement").p < 0.05 for one in p]) < 0.3
    assert len(p[0].tests) == 2


def test_results_can_be_read(found: GroupComparison) -> None:
    text = str(found)
    assert "free in each group" in text
    assert "measurement" in text
    assert "<table" in found._repr_html_()
    frames = found.frames
    assert len(frames["items"]) == ITEMS * 2 * 2 * 2
    assert frames["sizes"]["size"].sum() == pytest.approx(2)
    assert len(found.to_frame()) == ITEMS + 2


def test_rows_without_a_group_are_left_out_and_bad_groups_told(model: fgrn.LatentClassModel) -> None:
    groups = [None if row < 50 else value for row, value in enumerate(GROUPS)]
    found = model.compare_groups(groups, items="q0", n_init=1)
    assert found.left_out == 50
    assert "50 rows without a group" in str(found)
    assert found.rows.sum() == ROWS - 50
    with pytest.raises(fgrn.LearningError, match="two different"):
        model.compare_groups(["one"] * ROWS)
    with pytest.raises(fgrn.LearningError, match="one value for each"):
        model.compare_groups(["a", "b"])
    with pytest.raises(fgrn.FgrnError, match="q9"):
        model.compare_groups(GROUPS, items=["q9"])
    with pytest.raises(fgrn.FgrnError, match="test"):
        found.test("q9")
    given = fgrn.LatentClassModel(2, learn_prior=False, n_epochs=2, random_state=0).fit(TABLE)
    with pytest.raises(fgrn.LearningError, match="learn_prior"):
        given.compare_groups(GROUPS)


def test_groups_that_are_too_many_or_too_small_are_told() -> None:
    rng = np.random.default_rng(0)
    table = {f"q{item}": rng.integers(0, 2, 300).tolist() for item in range(8)}
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1, n_epochs=50).fit(table)
    with pytest.raises(fgrn.LearningError, match="2,400 tables"):
        model.compare_groups(np.arange(300))
    small = model.compare_groups(np.arange(300) % 25, items=["q0"], n_init=1)
    assert "25 groups with fewer rows than parameters" in str(small)
