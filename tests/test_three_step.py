"""Covariates of class membership and distal outcomes, corrected for wrong assignments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.statistics.distal_outcomes import corrected_means
from fgrn.statistics.membership import three_step_regression
from fgrn.statistics.outcome_values import OutcomeValues
from fgrn.statistics.share_intervals import CorrectedShares, MixedShares, share_limits
from fgrn.statistics.standard_errors import ErrorKind
from fgrn.statistics.three_step import AssignedRows
from fgrn.tables import table_file

BETA = np.array([[0.0, 0.0], [-0.5, 1.0]])


def study(rows: int, seed: int, sharp: float = 0.8) -> tuple[dict[str, list[Any]], np.ndarray, np.ndarray]:
    """Answers to five items of two classes, which depend on a covariate, and an outcome that depends on the class."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=rows)
    chance = 1 / (1 + np.exp(-(BETA[1, 0] + BETA[1, 1] * z)))
    second = rng.random(rows) < chance
    table = {
        f"q{item}": np.where(rng.random(rows) < np.where(second, sharp, 1 - sharp), "yes", "no").tolist()
        for item in range(5)
    }
    return table, z, np.where(second, 2.0, 1.0) + rng.normal(0, 0.5, rows)


def test_corrections_give_back_what_assignments_hide() -> None:
    table, z, outcome = study(6000, 0, sharp=0.75)
    model = fgrn.LatentClassModel(2, random_state=0).fit(table).relabel(("q0", "no"))
    found = model.membership_regression({"z": z})
    assert found.names == ("(intercept)", "z")
    assert np.abs(found.coefficients[1] - BETA[1]).max() < 0.15
    naive = three_step_regression(AssignedRows(model.predict(table), np.ones(6000), np.eye(2)), {"z": z})
    assert naive.coefficients[1, 1] < 0.85 * found.coefficients[1, 1]
    means = model.distal_outcome(outcome)
    assert np.abs(means.means - [1, 2]).max() < 0.06
    naive_means = [outcome[model.predict(table) == k].mean() for k in range(2)]
    assert np.diff(naive_means) < 0.9 * np.diff(means.means)
    assert means.p < 1e-9
    assert "odds ratio" in str(found)
    assert "BCH" in str(means)
    assert len(found.to_frame()) == len(means.to_frame()) == 2


def test_the_maximum_and_its_errors_are_those_of_numerical_derivatives() -> None:
    table, z, _ = study(400, 1)
    model = fgrn.LatentClassModel(2, random_state=0).fit(table)
    rows = replace(AssignedRows.of(*model._analysed(None, None, merge=False)), first=None)
    kind = np.where(np.arange(400) % 3 == 0, "a", "b")
    found = three_step_regression(rows, {"z": z, "kind": kind})
    design = np.column_stack([np.ones(400), z, kind == "b"])

    def objective(beta: np.ndarray) -> float:
        odds = np.exp(design @ beta)
        shares = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
        return float(np.log((shares * rows.errors[:, rows.assigned].T).sum(axis=1)).sum())

    best, step = found.coefficients[1], np.eye(3) * 1e-3
    assert objective(best) == pytest.approx(found.log_likelihood)
    gradient = [(objective(best + one) - objective(best - one)) / 2e-3 for one in step]
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    hessian = np.array(
        [
            [sum(s * t * objective(best + s * a + t * b) for s in (1, -1) for t in (1, -1)) / 4e-6 for a in step]
            for b in step
        ]
    )
    np.testing.assert_allclose(found.errors[1], np.sqrt(np.diag(np.linalg.inv(-hessian))), rtol=1e-4)


def test_certain_classes_are_those_of_statsmodels() -> None:
    discrete = pytest.importorskip("statsmodels.discrete.discrete_model")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    classes = (rng.random(300) * 3 + z[:, 0]).astype(int).clip(0, 2)
    found = three_step_regression(AssignedRows(classes, np.ones(300), np.eye(3)), {"a": z[:, 0], "b": z[:, 1]})
    other = discrete.MNLogit(classes, np.column_stack([np.ones(300), z])).fit(disp=0)
    np.testing.assert_allclose(found.coefficients[1:], np.asarray(other.params).T, atol=1e-5)
    np.testing.assert_allclose(found.errors[1:], np.asarray(other.bse).T.reshape(2, 3), atol=1e-5)


def test_certain_classes_have_plain_means() -> None:
    rng = np.random.default_rng(0)
    classes, y = rng.integers(0, 2, 200), rng.normal(size=200)
    found = corrected_means(AssignedRows(classes, np.ones(200), np.eye(2)), y)
    np.testing.assert_allclose(found.means, [y[classes == k].mean() for k in range(2)])
    plain = [y[classes == k].std() / np.sqrt((classes == k).sum()) for k in range(2)]
    np.testing.assert_allclose(found.errors, plain)


def test_a_row_of_weight_two_is_the_row_given_twice() -> None:
    rng = np.random.default_rng(0)
    classes, y, copies = rng.integers(0, 2, 60), rng.normal(size=60), rng.integers(1, 4, 60)
    errors = np.array([[0.9, 0.1], [0.2, 0.8]])
    weighted = corrected_means(AssignedRows(classes, copies * 1.0, errors), y)
    repeated = corrected_means(
        AssignedRows(np.repeat(classes, copies), np.ones(copies.sum()), errors), y.repeat(copies)
    )
    np.testing.assert_allclose(weighted.means, repeated.means)
    np.testing.assert_allclose(weighted.covariance, repeated.covariance)
    assert weighted.p == pytest.approx(repeated.p)


def test_rows_of_weight_zero_count_for_nothing_and_keep_their_place() -> None:
    table, z, outcome = study(300, 2)
    word = np.where(z > 0, "up", "down")
    table["q0"][3], word[3], weights = "perhaps", "never", np.ones(300)
    weights[[3, 40, 299]] = 0
    some = np.flatnonzero(weights)
    part = {name: [column[place] for place in some] for name, column in table.items()}
    model, plain = fgrn.LatentClassModel(2, random_state=0), fgrn.LatentClassModel(2, random_state=0)
    model.fit(table, sample_weight=iter(weights.tolist()))
    plain.fit(part)
    means, wanted = model.distal_outcome(outcome), plain.distal_outcome(outcome[some])
    np.testing.assert_allclose(means.covariance, wanted.covariance)
    assert means.rows == wanted.rows == 297
    found = model.membership_regression({"word": word})
    np.testing.assert_allclose(found.errors, plain.membership_regression({"word": word[some]}).errors, rtol=1e-6)
    assert found.rows == 297
    assert str(model.report()) == str(plain.report())
    table["q0"][3] = None  # as a table given later, with a set of observed items that no row of weight has
    assert model.goodness_of_fit(table, weights) == plain.goodness_of_fit(part)
    assert model.report(table, weights).n_rows == 297


def test_what_cannot_be_estimated_is_told() -> None:
    classes = np.array([0, 1] * 50)
    rows = AssignedRows(classes, np.ones(100), np.eye(2))
    z = np.random.default_rng(0).normal(size=100)
    with pytest.raises(fgrn.LearningError, match="separates"):
        three_step_regression(rows, {"z": classes * 1.0})
    with pytest.raises(fgrn.LearningError, match="not identified"):
        three_step_regression(rows, {"z": z, "twice": 2 * z})
    for wrong in ({}, [1, 2], {"z": [1.0]}, {"z": [None] * 100}):
        with pytest.raises(fgrn.LearningError):
            three_step_regression(rows, wrong)
    for outcome in ([1.0], [None] * 100):
        with pytest.raises(fgrn.LearningError):
            corrected_means(rows, outcome)
    for outcome in (["x"] * 100, [5.0] * 99 + [None], [1] * 100, [1, "1"] * 50):
        with pytest.raises(fgrn.LearningError, match="All known values of the outcome are equal: there is nothing"):
            corrected_means(rows, outcome)
    assert three_step_regression(rows, {"z": [None, *z[1:]]}).rows == 99


def test_names_of_columns_change_nothing_in_one_step() -> None:
    table, z, _ = study(80, 5)
    word = ["high" if value > 0 else "low" for value in z]
    means = []
    for named in ("q4", "outcome", "classes"):
        renamed = {named if name == "q4" else name: column for name, column in table.items()}
        model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(renamed)
        means.append([model.distal_outcome(some, steps=1, n_init=1).means for some in (word, z)])
    for plain, *others in zip(*means, strict=True):
        for other in others:
            np.testing.assert_allclose(other, plain)


@pytest.mark.parametrize("how", [{"steps": 1, "n_init": 1}, {"steps": 2}, {"correction": "ml"}])
def test_an_outcome_that_the_classes_tell_for_sure_is_not_tested(how: dict[str, Any]) -> None:
    table, _, _ = study(80, 5)
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    found = model.distal_outcome(model.predict(table), **how)
    np.testing.assert_allclose(found.means, [0, 1], atol=1e-6)
    assert (found.chi_square, found.p) == (None, None)
    assert "on the boundary, where Wald's test does not apply" in str(found)


@pytest.mark.parametrize("how", [{"steps": 1, "n_init": 1}, {"steps": 2}, {"correction": "ml"}, {}])
def test_intervals_of_probabilities_stay_between_zero_and_one(how: dict[str, Any]) -> None:
    table, _, _ = study(80, 5)
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    first = model.predict(table) == 0
    word = np.where(first, np.where(np.arange(80) % 9 == 0, "b", "a"), np.where(np.arange(80) % 2 == 0, "c", "a"))
    found = model.distal_outcome(word, **how)
    never, rare = found.boundary[0, 2], ~found.boundary[0, 1]
    assert never
    assert rare
    assert ((found.low >= 0) & (found.low <= found.means.clip(0, 1) + 1e-12)).all()
    assert ((found.high <= 1) & (found.high >= found.means.clip(0, 1) - 1e-12)).all()
    assert found.high[0, 2] > 0.03  # of none in 40 rows
    narrow = model.distal_outcome(word, level=0.5, **how)
    assert (narrow.high - narrow.low < found.high - found.low).all()
    frames = found.frames
    assert list(frames) == ["outcome", "test", "notes"]
    assert list(frames["outcome"]) == ["class", "level", "probability", "standard_error", "low", "high", "boundary"]
    assert frames["outcome"]["boundary"].tolist() == found.boundary.ravel().tolist()
    assert frames["notes"]["note"].tolist() == found.notes
    assert "boundary" in str(found)
    mean = model.distal_outcome(word == "c", **how)
    assert (mean.low >= 0).all()
    assert (mean.high <= 1).all()
    np.testing.assert_allclose([mean.low, mean.high], [found.low[:, 2], found.high[:, 2]], atol=0.02)
    assert list(mean.to_frame())[1] == "mean"


def test_errors_of_probabilities_are_those_of_items() -> None:
    table, _, _ = study(300, 6)
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1, smoothing=0, tol=1e-12).fit(table)
    items = {name: column for name, column in table.items() if name != "q4"}
    other = fgrn.LatentClassModel(2, random_state=0, n_init=1, smoothing=0, tol=1e-12).fit(items)
    found = other.distal_outcome(table["q4"], steps=1, n_init=1, kind="observed")
    wanted = model.standard_errors().to_frame().query("item == 'q4'")
    ours = found.to_frame().sort_values(["level", "probability"])[["probability", "standard_error"]]
    theirs = wanted.sort_values(["level", "estimate"])[["estimate", "standard_error"]]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_limits_of_a_share_in_classes_that_are_certain_are_those_of_wilson() -> None:
    first, z = np.arange(90) < 40, 1.959964
    word = np.where(first, np.where(np.arange(90) < 10, "b", "a"), "b")
    values = OutcomeValues.of(word, np.ones(90))
    members, table = np.column_stack([first, ~first]).astype(float), np.array([[0.75, 0.25], [0.0, 1.0]])
    mixed = MixedShares.of(members, np.ones(90), values, table)
    corrected = CorrectedShares(np.eye(2), np.array([[30.0, 10.0], [0.0, 50.0]]))
    for shares in (mixed, corrected):
        assert shares.unbounded_share(0, 1) == pytest.approx(0.25)
        assert shares.variance(0, 1, 0.1) == pytest.approx(0.1 * 0.9 / 40)
        low, high = share_limits(shares, 0, 1, 0.25, 1.0, z)
        middle, half = (10 + z**2 / 2) / (40 + z**2), z / (40 + z**2) * np.sqrt(10 * 30 / 40 + z**2 / 4)
        assert high == pytest.approx(middle + half)
        assert 0 < low < middle - half  # the variance halfway to the estimate is larger
        assert share_limits(shares, 1, 1, 1.0, 1.0, z) == (pytest.approx(50 / (50 + z**2)), 1.0)
        assert share_limits(shares, 1, 1, 1.0, 2.0, z)[0] == pytest.approx(25 / (25 + z**2))  # half as many rows
        assert share_limits(shares, 0, 1, 0.25, np.inf, z) == (0.0, 1.0)


@pytest.mark.parametrize("how", [{"steps": 1, "n_init": 1}, {"steps": 2}, {"correction": "ml"}, {}])
def test_a_share_of_which_nothing_is_seen_counts_rows_by_how_certain_their_class_is(how: dict[str, Any]) -> None:
    table, _, _ = study(200, 5, sharp=0.75)
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    first = model.predict(table) == 0
    found = model.distal_outcome(np.where(first, 0, np.arange(200) % 2), **how)
    assert found.boundary[0]
    rows = 200 * model.weights_[0]
    assert 3.84 / (rows + 3.84) < found.high[0] < 0.25


WAYS: list[dict[str, Any]] = [{}, {"correction": "ml"}, {"steps": 2}, {"steps": 1, "n_init": 1}]


@pytest.fixture(scope="module")
def surveyed() -> tuple[fgrn.LatentClassModel, dict[str, list[Any]], np.ndarray, np.ndarray, np.ndarray]:
    """Classes of rows with sampling weights, a number, and a word that is always "a" in one class."""
    table, z, outcome = study(150, 5)
    table["q5"] = np.where(np.asarray(table["q0"]) == "yes", "yes", table["q1"]).tolist()
    weights = 1.0 + np.arange(150) % 3
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1, smoothing=0, tol=1e-10).fit(table, sample_weight=weights)
    word = np.where(model.predict(table) == 0, "a", np.where(z > 0, "a", "b"))
    return model, table, weights, outcome, word


@pytest.mark.parametrize("how", WAYS)
def test_the_scale_of_sampling_weights_does_not_matter_to_outcomes(surveyed: Any, how: dict[str, Any]) -> None:
    model, table, weights, *outcomes = surveyed
    for outcome in outcomes:
        frames = [
            model.distal_outcome(outcome, table, scale * weights, weights="sampling", **how).frames
            for scale in (1.0, 1e-4, 1e3)
        ]
        assert outcome is not outcomes[1] or frames[0]["outcome"]["low"].max() < 0.99  # though all are "a" in a class
        for other in frames[1:]:
            for name in ("outcome", "test"):
                ours, theirs = (some[name].select_dtypes("number") for some in (frames[0], other))
                np.testing.assert_allclose(theirs, ours, rtol=1e-8, atol=1e-8)


def test_the_scale_of_sampling_weights_does_not_matter_to_errors_and_regressions(surveyed: Any) -> None:
    model, table, weights, outcome, _ = surveyed
    errors = [
        model.standard_errors(table, scale * weights, weights="sampling").to_frame().select_dtypes(["number", "bool"])
        for scale in (1.0, 1e-4, 1e3)
    ]
    assert not errors[0]["boundary"].all()
    for other in errors[1:]:
        np.testing.assert_allclose(other.astype(float), errors[0].astype(float), rtol=1e-8, atol=1e-8)
    for steps in (1, 2, 3):
        found = [
            model.membership_regression(
                {"z": outcome}, table, scale * weights, steps=steps, n_init=1, weights="sampling"
            )
            for scale in (1.0, 1e-4)
        ]
        np.testing.assert_allclose(found[1].errors, found[0].errors, rtol=1e-8)
        assert found[1].log_likelihood == pytest.approx(1e-4 * found[0].log_likelihood)  # of the weights as given


def test_bch_says_which_ways_have_errors_of_other_kinds(surveyed: Any) -> None:
    with pytest.raises(fgrn.LearningError, match='correction="ml" or steps=2') as caught:
        surveyed[0].distal_outcome(surveyed[4], kind="observed")
    assert (caught.value.setting, caught.value.value) == ("kind", "observed")


def test_an_outcome_that_no_row_of_a_class_has_is_told() -> None:
    table, z, _ = study(80, 5, sharp=0.97)
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    sure = model.predict_proba(table)[:, 0] > 0.999
    with pytest.raises(fgrn.LearningError, match="No row of class 1 has the outcome"):
        model.distal_outcome(np.where(sure, z, np.nan))
    sure = model.predict_proba(table)[:, 0] > 1 - 1e-5
    with pytest.raises(fgrn.LearningError, match="No row of class 1 has the outcome"):
        model.distal_outcome(np.where(sure, np.where(z > 0, "up", "down"), None), steps=2)


def test_a_number_that_is_not_finite_is_named_with_its_row() -> None:
    rows = AssignedRows(np.array([0, 1] * 50), np.ones(100), np.eye(2))
    z = np.random.default_rng(0).normal(size=100)
    z[7] = np.inf
    with pytest.raises(fgrn.LearningError, match="finite") as caught:
        three_step_regression(rows, {"z": z})
    assert (caught.value.column, caught.value.row) == ("z", 7)
    with pytest.raises(fgrn.LearningError, match="finite") as caught:
        corrected_means(rows, z)
    assert caught.value.row == 7
    left_out = AssignedRows(rows.assigned, np.where(np.isfinite(z), 1.0, 0.0), np.eye(2))
    assert three_step_regression(left_out, {"z": z}).rows == corrected_means(left_out, z).rows == 99


@pytest.mark.parametrize("kind", ["observed", "outer"])
def test_errors_of_later_steps_are_at_least_those_of_classes_that_are_certain(kind: str) -> None:
    table, z, _ = study(300, 4, sharp=0.75)
    model = fgrn.LatentClassModel(2, random_state=0).fit(table)
    rows = AssignedRows.of(*model._analysed(None, None, merge=False))
    how, certain = ErrorKind(kind), replace(rows, first=None)
    pairs = [three_step_regression(one, {"z": z}, how) for one in (rows, certain)]
    assert (pairs[0].errors[1] > pairs[1].errors[1]).all()


LATER: dict[str, Callable[[fgrn.LatentClassModel, np.ndarray], Any]] = {
    "regression in two steps": lambda model, z: model.membership_regression({"z": z}, steps=2, kind="robust"),
    "regression in three": lambda model, z: model.membership_regression({"z": z}, steps=3, kind="robust"),
    "bch": lambda model, z: model.distal_outcome(z),
    "ml": lambda model, z: model.distal_outcome(z, correction="ml", kind="robust"),
    "outcome in two steps": lambda model, z: model.distal_outcome(z, steps=2, kind="robust"),
}


@pytest.fixture(scope="module")
def influences() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The covariance of all later steps, and that from the effect of one more row on all steps, by fitting anew."""
    table, z, _ = study(400, 5, sharp=0.85)
    rows = np.column_stack([np.array(table[name]) == "yes" for name in ("q0", "q1", "q2")] + [z > 0])
    distinct, weights = np.unique(rows, axis=0, return_counts=True)
    columns = {f"q{item}": distinct[:, item].astype(int) for item in range(3)}

    def estimated(given: np.ndarray) -> dict[str, Any]:
        options = {"smoothing": 0, "tol": 1e-14, "random_state": 0, "n_init": 1, "n_epochs": 5000}
        model = fgrn.LatentClassModel(2, **options).fit(columns, sample_weight=given).relabel(("q0", 0))
        return {name: step(model, distinct[:, 3].astype(float)) for name, step in LATER.items()}

    def values(found: Any) -> np.ndarray:
        return (found.coefficients[1] if hasattr(found, "coefficients") else found.means).ravel()

    plain, more = estimated(weights * 1.0), 0.004
    near = [estimated(weights + more * one) for one in np.eye(len(weights))]
    out = {}
    for name, one in plain.items():
        moved = np.array([(values(other[name]) - values(one)) / more for other in near])
        out[name] = one.covariance, moved.T @ (moved * weights[:, None])
    return out


@pytest.mark.parametrize("step", LATER)
def test_robust_errors_are_those_of_what_each_row_does_to_the_whole_estimate(influences: Any, step: str) -> None:
    found, wanted = influences[step]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-6)


def test_outcomes_of_words_in_any_number_of_steps() -> None:
    table, _, outcome = study(1500, 3)
    word = np.where(outcome > 2, "high", np.where(outcome > 1, "middle", "low")).astype(object)
    word[:3] = None
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table).relabel(("q0", "no"))
    first = model.distal_outcome(word)
    assert first.levels == ("high", "low", "middle")
    assert first.means.shape == first.errors.shape == (2, 3)
    assert (first.df, first.rows) == (2, 1497)
    np.testing.assert_allclose(first.means.sum(axis=1), 1)
    for how in ({"correction": "ml"}, {"steps": 2}, {"steps": 1}, {"steps": 1, "kind": "robust"}):
        other = model.distal_outcome(word, **how)
        np.testing.assert_allclose(other.means, first.means, atol=0.05)
        np.testing.assert_allclose(other.means.sum(axis=1), 1)
        np.testing.assert_allclose(other.covariance.sum(axis=0), 0, atol=1e-9)
        assert (other.errors < 1.2 * first.errors + 1e-3).all()
        assert other.p < 1e-6
    whole = fgrn.LatentClassModel(2, random_state=0, n_init=1, tol=1e-12).fit(table | {"word": word})
    whole.relabel(("q0", "no"))
    joint = model.distal_outcome(word, steps=1)
    np.testing.assert_allclose(joint.means, whole.network_.table("word"), atol=1e-2)
    assert "probability" in str(joint)
    assert "one step" in str(joint)
    mean = model.distal_outcome(outcome > 2, steps=2)
    np.testing.assert_allclose(mean.means, model.distal_outcome(np.where(outcome > 2, "b", "a"), steps=2).means[:, 1])


@pytest.mark.parametrize("how", [{"correction": "ml"}, {"steps": 2}, {"steps": 1}])
def test_outcomes_of_numbers_are_normal_in_the_classes(how: dict[str, Any]) -> None:
    table, _, outcome = study(1500, 3)
    outcome = outcome.copy()
    outcome[:5] = np.nan
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table).relabel(("q0", "no"))
    found = model.distal_outcome(outcome, **how)
    assert found.rows == 1495
    assert found.variances is not None
    np.testing.assert_allclose(found.means, [1, 2], atol=0.06)
    np.testing.assert_allclose(found.variances, 0.25, atol=0.04)
    assert (found.errors < model.distal_outcome(outcome).errors).all()
    if found.steps == 1:
        whole = fgrn.LatentClassModel(2, random_state=0, n_init=1, tol=1e-12, continuous=["y"])
        whole.fit(table | {"y": outcome}).relabel(("q0", "no"))
        errors = [one.error for one in whole.standard_errors(kind="robust").of("mean")]
        np.testing.assert_allclose([found.means, found.errors], [whole.means_[:, 0], errors], atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_stepmix_has_the_same_corrected_estimates() -> None:
    stepmix = pytest.importorskip("stepmix")
    pd = pytest.importorskip("pandas")
    table, z, outcome = study(1500, 3)
    codes = pd.DataFrame({name: [int(value == "yes") for value in column] for name, column in table.items()})
    model = fgrn.LatentClassModel(2, smoothing=0, tol=1e-13, random_state=0).fit(table).relabel(("q0", "no"))
    options = {"n_steps": 3, "measurement": "categorical", "assignment": "modal", "n_init": 5, "max_iter": 5000}
    options |= {"abs_tol": 1e-13, "rel_tol": 1e-13, "progress_bar": 0, "random_state": 0}
    other = stepmix.StepMix(2, structural="gaussian_unit", correction="BCH", **options).fit(codes, outcome[:, None])
    means = other.get_parameters()["structural"]["means"].ravel()
    np.testing.assert_allclose(model.distal_outcome(outcome).means, np.sort(means), atol=2e-6)
    other = stepmix.StepMix(2, structural="covariate", correction="ML", **options).fit(codes, z[:, None])
    beta = other.get_parameters()["structural"]["beta"]
    difference = model.membership_regression({"z": z}).coefficients[1]
    np.testing.assert_allclose(np.abs(difference), np.abs(beta[1] - beta[0]), atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", [{"steps": 1}, {"steps": 2}, {"steps": 3, "correction": "ml"}])
def test_stepmix_has_the_same_outcomes(how: dict[str, Any]) -> None:
    stepmix = pytest.importorskip("stepmix")
    pd = pytest.importorskip("pandas")
    table, _, outcome = study(1500, 3)
    codes = pd.DataFrame({name: [int(value == "yes") for value in column] for name, column in table.items()})
    model = fgrn.LatentClassModel(2, smoothing=0, tol=1e-13, random_state=0).fit(table).relabel(("q0", "no"))
    options = {"n_steps": how["steps"], "measurement": "categorical", "assignment": "modal", "n_init": 5}
    options |= {"abs_tol": 1e-13, "rel_tol": 1e-13, "progress_bar": 0, "random_state": 0, "max_iter": 5000}
    options |= {"correction": "ML"} if how["steps"] == 3 else {}
    other = stepmix.StepMix(2, structural="gaussian_diag", **options).fit(codes, outcome[:, None])
    theirs, found = other.get_parameters()["structural"], model.distal_outcome(outcome, **how)
    order = np.argsort(theirs["means"].ravel())
    np.testing.assert_allclose(found.means, theirs["means"].ravel()[order], atol=2e-6)
    np.testing.assert_allclose(found.variances, theirs["covariances"].ravel()[order], atol=2e-6)
    levels = np.digitize(outcome, [1, 2])
    other = stepmix.StepMix(2, structural="categorical", **options).fit(codes, levels[:, None])
    theirs = np.sort(other.get_parameters()["structural"]["pis"].reshape(2, -1)[:, -3:], axis=0)
    words = model.distal_outcome([f"level {level}" for level in levels], **how)
    np.testing.assert_allclose(np.sort(words.means, axis=0), theirs, atol=5e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_class_with_one_value_of_the_outcome_has_no_standard_error() -> None:
    table = {name: list("aaabbb") for name in ("p", "q", "r")}
    model = fgrn.LatentClassModel(2, random_state=0).fit(table).relabel(("p", "a"))
    found = model.distal_outcome([1.0, 1.0, 1.0, 2.0, 3.0, 4.0], steps=2)
    assert "the rows of class 0 have one value of the outcome" in str(found)
    assert str(found).splitlines()[2].split()[2:4] == ["1.0000", "-"]


@pytest.mark.parametrize("rows", [200, 500, 1000])
def test_a_level_that_no_row_of_a_class_has_is_limited_as_its_number_of_rows_says(rows: int) -> None:
    rng = np.random.default_rng(rows)
    hidden = rng.integers(0, 2, rows)
    items = {f"q{k}": np.where(rng.random(rows) < np.where(hidden, 0.1, 0.9), "a", "b") for k in range(8)}
    outcome = np.where(hidden & (rng.random(rows) < 0.4), "yes", "no")
    model = fgrn.LatentClassModel(2, random_state=0, n_init=2).fit(items)
    for correction in ("bch", "ml"):
        frame = model.distal_outcome(outcome, correction=correction).to_frame()
        rare = frame[frame["level"] == "yes"].sort_values("probability").iloc[0]
        assert rare["low"] == 0
        assert 1 / rows < rare["high"] < 12 / rows  # of 0 among n rows Wilson's limit is z^2 / (n + z^2)


def test_values_for_rows_of_a_file_that_were_left_out_are_refused_in_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.choice(["no", "yes"], 60).tolist() for name in "abc"}
    weights = [0.0 if row % 7 == 3 else 1.0 for row in range(60)]
    table_file.write({**rows, "w": weights}, tmp_path / "t.csv")
    outcome = rng.normal(size=60).tolist()
    known = [value for value, weight in zip(outcome, weights, strict=True) if weight]
    settings: dict[str, Any] = {"n_epochs": 5, "tol": 0.0, "random_state": 0}
    model = fgrn.LatentClassModel(2, **settings).fit(tmp_path / "t.csv", sample_weight="w")
    told = r"has 60 values, and the model was fitted on 51 rows: rows of weight 0, .* are not among these\. Leave out"
    with pytest.raises(fgrn.LearningError, match=f"The outcome {told}"):
        model.distal_outcome(outcome)
    with pytest.raises(fgrn.LearningError, match=f"The covariate 'age' {told}"):
        model.membership_regression({"age": outcome})
    in_memory = fgrn.LatentClassModel(2, **settings).fit(rows, sample_weight=weights)
    expected = in_memory.distal_outcome(outcome)  # in memory they keep their place
    np.testing.assert_allclose(model.distal_outcome(known).means, expected.means)
    np.testing.assert_allclose(model.distal_outcome(outcome, rows, weights).means, expected.means)
