"""Covariates of class membership in one and two steps, against direct maximisation and other programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.statistics.membership import LatentClassRegression, three_step_regression
from fgrn.statistics.standard_errors import ErrorKind
from fgrn.statistics.three_step import AssignedRows

ROWS, ITEMS = 400, 4
BETA = np.array([[0.0, 0.0, 0.0], [-0.4, 1.0, 0.6]])
YES = np.array([[0.2, 0.15, 0.25, 0.2], [0.8, 0.85, 0.7, 0.75]])


def study(rows: int, seed: int) -> tuple[dict[str, list[Any]], dict[str, Any], np.ndarray]:
    """Answers of two classes, some of them missing, their covariates (a number and a word), and the design of these."""
    rng = np.random.default_rng(seed)
    z, word = rng.normal(50, 10, rows), rng.choice(["a", "b"], rows)
    design = np.column_stack([np.ones(rows), (z - 50) / 10, word == "b"])
    second = rng.random(rows) < 1 / (1 + np.exp(-design @ BETA[1]))
    answers = {
        f"q{item}": [
            None if gone else "yes" if yes else "no"
            for gone, yes in zip(rng.random(rows) < 0.1, rng.random(rows) < YES[second * 1, item], strict=True)
        ]
        for item in range(ITEMS)
    }
    return answers, {"z": z, "word": word}, np.column_stack([np.ones(rows), z, word == "b"])


TABLE, COVARIATES, DESIGN = study(ROWS, 0)
CODES = np.array([[{None: -1, "no": 0, "yes": 1}[value] for value in column] for column in TABLE.values()]).T


def log_likelihood(parameters: np.ndarray) -> float:
    return float(of_rows(parameters).sum())


def of_rows(parameters: np.ndarray) -> np.ndarray:
    """By the coefficients of class 1, and the logits of "yes" by class and item; without any code of the package."""
    beta, logits = parameters[:3], parameters[3:].reshape(2, ITEMS)
    second = 1 / (1 + np.exp(-(DESIGN @ beta)))
    shares = np.column_stack([1 - second, second])
    yes = 1 / (1 + np.exp(-logits))
    for item in range(ITEMS):
        for level, chance in ((0, 1 - yes), (1, yes)):
            shares[CODES[:, item] == level] *= chance[:, item]
    found: np.ndarray = np.log(shares.sum(axis=1))
    return found


def derivatives(at: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and second derivatives by differences, with a step for each parameter."""
    step = np.diag(scale)
    gradient = np.array([(log_likelihood(at + one) - log_likelihood(at - one)) / (2 * one.sum()) for one in step])
    second = [
        [
            sum(s * t * log_likelihood(at + s * a + t * b) for s in (1, -1) for t in (1, -1)) / (4 * a.sum() * b.sum())
            for a in step
        ]
        for b in step
    ]
    return gradient, np.array(second)


@pytest.fixture(scope="module")
def model() -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(2, smoothing=0, tol=1e-12, random_state=0).fit(TABLE).relabel(("q0", "no"))


@pytest.fixture(scope="module")
def one(model: fgrn.LatentClassModel) -> LatentClassRegression:
    found = model.membership_regression(COVARIATES, steps=1, n_init=3)
    assert isinstance(found, LatentClassRegression)
    return found


def parameters(found: LatentClassRegression) -> np.ndarray:
    yes = np.stack([table[:, 1] for table in found.profiles.model.tables], axis=1)
    return np.concatenate([found.coefficients[1], np.log(yes / (1 - yes)).ravel()])


SCALE = np.array([1e-3, 2e-5, 1e-3] + [1e-3] * 2 * ITEMS)


def test_one_step_is_the_maximum_and_has_the_errors_of_numerical_derivatives(one: LatentClassRegression) -> None:
    best = parameters(one)
    assert one.names == ("(intercept)", "z", "word = b")
    assert log_likelihood(best) == pytest.approx(one.log_likelihood, abs=1e-8)
    gradient, second = derivatives(best, SCALE)
    spread = np.linalg.inv(-second)
    assert np.abs(spread @ gradient / np.sqrt(np.diag(spread))).max() < 1e-5  # distance to the maximum, in errors
    np.testing.assert_allclose(one.errors[1], np.sqrt(np.diag(spread)[:3]), rtol=1e-4)
    yes = np.stack([table[:, 1] for table in one.profiles.model.tables], axis=1)
    wanted = np.sqrt(np.diag(spread)[3:]).reshape(2, ITEMS) * yes * (1 - yes)
    np.testing.assert_allclose([one.profiles.of_item(f"q{j}")[:, 1] for j in range(ITEMS)], wanted.T, rtol=1e-4)
    second_share = 1 / (1 + np.exp(-(DESIGN @ one.coefficients[1])))
    assert one.profiles.estimates[1] == pytest.approx(second_share.mean())
    slope = (second_share * (1 - second_share)) @ DESIGN / ROWS
    assert one.profiles.of_sizes[1] == pytest.approx(np.sqrt(slope @ spread[:3, :3] @ slope), rel=1e-3)


def test_the_robust_errors_are_those_of_the_scores_of_rows(
    model: fgrn.LatentClassModel, one: LatentClassRegression
) -> None:
    """A cluster for each row gives the sandwich with n / (n - 1); every row twice halves the variance."""
    robust = model.membership_regression(COVARIATES, steps=1, n_init=1, kind="robust")
    clustered = model.membership_regression(COVARIATES, TABLE, steps=1, n_init=1, clusters=range(ROWS))
    np.testing.assert_allclose(clustered.errors, robust.errors * np.sqrt(ROWS / (ROWS - 1)), rtol=1e-4)
    assert not np.allclose(robust.errors[1], one.errors[1], rtol=1e-3)
    twice = model.membership_regression(COVARIATES, TABLE, np.full(ROWS, 2.0), steps=1, n_init=1)
    np.testing.assert_allclose(twice.coefficients, one.coefficients, atol=1e-5)
    np.testing.assert_allclose(twice.errors * np.sqrt(2), one.errors, rtol=1e-5)


def test_errors_of_squared_scores_are_those_of_numerical_ones(
    model: fgrn.LatentClassModel, one: LatentClassRegression
) -> None:
    outer, best = model.membership_regression(COVARIATES, steps=1, n_init=1, kind="outer"), parameters(one)
    scores = np.array([(of_rows(best + step) - of_rows(best - step)) / (2 * step.sum()) for step in np.diag(SCALE)])
    wanted = np.sqrt(np.diag(np.linalg.inv(scores @ scores.T)))
    np.testing.assert_allclose(outer.errors[1], wanted[:3], rtol=1e-4)
    assigned = replace(AssignedRows.of(*model._analysed(None, None, merge=False)), first=None)
    found = three_step_regression(assigned, COVARIATES, ErrorKind("outer"))
    likely = assigned.errors[:, assigned.assigned].T

    def of_assigned(beta: np.ndarray) -> np.ndarray:
        share = 1 / (1 + np.exp(-(DESIGN @ beta)))
        return np.log((1 - share) * likely[:, 0] + share * likely[:, 1])

    beta, steps = found.coefficients[1], np.diag(SCALE[:3])
    scores = np.array([(of_assigned(beta + step) - of_assigned(beta - step)) / (2 * step.sum()) for step in steps])
    np.testing.assert_allclose(found.errors[1], np.sqrt(np.diag(np.linalg.inv(scores @ scores.T))), rtol=1e-4)


def test_two_steps_maximise_with_the_tables_as_they_are(model: fgrn.LatentClassModel) -> None:
    found = model.membership_regression(COVARIATES, steps=2)
    yes = np.stack([model.network_.table(name)[:, 1] for name in TABLE], axis=1)
    best = np.concatenate([found.coefficients[1], np.log(yes / (1 - yes)).ravel()])
    gradient, second = derivatives(best, SCALE)
    alone = np.linalg.inv(-second[:3, :3])
    assert np.abs(alone @ gradient[:3] / np.sqrt(np.diag(alone))).max() < 1e-5
    tables = model.standard_errors()
    places = [place for place, (_, _, level) in enumerate(tables.labels) if level == "yes"]
    chance = tables.estimates[places]
    first = tables.covariance[np.ix_(places, places)] / np.outer(chance * (1 - chance), chance * (1 - chance))
    across = -second[:3, 3:]
    wanted = alone + alone @ across @ first @ across.T @ alone
    np.testing.assert_allclose(found.errors[1], np.sqrt(np.diag(wanted)), rtol=1e-4)
    assert (found.errors[1] > np.sqrt(np.diag(alone))).all()
    robust = model.membership_regression(COVARIATES, steps=2, kind="robust")
    np.testing.assert_allclose(robust.errors[1], found.errors[1], rtol=0.2)


def test_results_can_be_read_and_used(one: LatentClassRegression) -> None:
    assert np.abs(one.coefficients[1, 1] * 10 - BETA[1, 1]) < 3 * one.errors[1, 1] * 10
    text = str(one)
    for word in ("one-step", "Wald test", "BIC", "class size", "odds ratio"):
        assert word in text
    assert one.n_parameters == 3 + 2 * ITEMS
    assert one.criteria["AIC"] == pytest.approx(-2 * one.log_likelihood + 2 * one.n_parameters)
    assert "<table" in one._repr_html_()
    test = one.tests()[0]
    assert (test["covariate"], test["df"]) == ("z", 1)
    assert test["chi_square"] == pytest.approx((one.coefficients[1, 1] / one.errors[1, 1]) ** 2)
    sizes = one.predict_proba({"z": [50.0, 60.0], "word": ["a", "b"]})
    wanted = 1 / (1 + np.exp(-(np.array([[1, 50, 0], [1, 60, 1]]) @ one.coefficients[1])))
    np.testing.assert_allclose(sizes[:, 1], wanted)
    assert one.memberships.shape == (ROWS, 2)
    assert one.memberships.mean(axis=0) == pytest.approx(one.profiles.estimates[:2], abs=1e-6)
    with pytest.raises(fgrn.LearningError, match="level"):
        one.predict_proba({"z": [50.0], "word": ["c"]})
    with pytest.raises(fgrn.LearningError, match="known"):
        one.predict_proba({"z": [None], "word": ["a"]})


@pytest.mark.parametrize("steps", [1, 2])
def test_a_covariate_that_separates_or_is_doubled_is_told(model: fgrn.LatentClassModel, steps: int) -> None:
    first = np.array(TABLE["q0"], dtype=object) == "yes"
    with pytest.raises(fgrn.LearningError, match="separates"):
        rng = np.random.default_rng(0)
        known = rng.random(300) < 0.5
        sharp = {f"q{j}": np.where(known, "yes", "no").tolist() for j in range(3)}
        sharp["other"] = rng.choice(["a", "b"], 300).tolist()
        certain = fgrn.LatentClassModel(2, random_state=0).fit(sharp)
        certain.membership_regression({"z": known * 1.0}, steps=steps, n_init=1)
    with pytest.raises(fgrn.LearningError, match="not identified"):
        model.membership_regression({"z": first * 1.0, "twice": first * 2.0}, steps=steps, n_init=1)
    with pytest.raises(fgrn.LearningError, match="steps"):
        model.membership_regression(COVARIATES, steps=4)


def test_covariates_that_cannot_be_used_are_told(model: fgrn.LatentClassModel) -> None:
    z = {"z": COVARIATES["z"]}
    two = model.membership_regression(z, steps=2)
    with pytest.raises(fgrn.LearningError, match="'abc' is none") as caught:
        two.predict_proba({"z": [50.0, "abc"]})
    assert (caught.value.column, caught.value.row) == ("z", 1)
    for constant in (["a"] * ROWS, [1.0] * ROWS):
        with pytest.raises(fgrn.LearningError, match="constant"):
            model.membership_regression({**z, "constant": constant}, steps=2)
    with pytest.raises(fgrn.LearningError, match="'observed', 'robust'"):
        model.membership_regression(z, steps=2, kind="outer")
    with pytest.raises(fgrn.LearningError, match="only one class"):
        fgrn.LatentClassModel(1, n_epochs=2).fit(TABLE).membership_regression(z)


def test_coefficients_that_rows_do_not_determine_are_refused() -> None:
    table = {"a": ["x"] * 20, "b": ["y"] * 20}
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    for steps in (1, 2):
        with pytest.raises(fgrn.LearningError, match="do not distinguish the classes"):
            model.membership_regression({"z": np.arange(20.0)}, steps=steps)


def test_three_steps_name_the_others_where_assignments_are_too_many() -> None:
    often = np.repeat([0.95, 0.5], 100)  # assigned to the first class; of its own rows 0.7 are
    assigned = np.tile(np.arange(100), 2) / 100 >= often
    rows = AssignedRows(assigned.astype(int), np.ones(200), np.array([[0.7, 0.3], [0.3, 0.7]]))
    with pytest.raises(fgrn.LearningError, match=r"assigned to a class than if all belonged to it.*steps=2.*steps=1"):
        three_step_regression(rows, {"word": ["a"] * 100 + ["b"] * 100})
    with pytest.raises(fgrn.LearningError, match=r"no finite estimate.*: day \(2 levels, dates\)\..*number of days"):
        three_step_regression(rows, {"day": ["2024-01-31"] * 100 + ["2024-02-29"] * 100})


def test_rows_without_a_covariate_are_left_out(model: fgrn.LatentClassModel) -> None:
    z = [None if row % 5 == 0 else value for row, value in enumerate(COVARIATES["z"].tolist())]
    found = model.membership_regression({"z": z}, steps=1, n_init=1)
    kept = [row for row in range(ROWS) if row % 5]
    part = {name: [column[row] for row in kept] for name, column in TABLE.items()}
    other = model.membership_regression({"z": [z[row] for row in kept]}, part, steps=1, n_init=1)
    np.testing.assert_allclose(found.coefficients, other.coefficients, atol=1e-6)
    assert (found.rows, found.left_out) == (320, 80)
    assert (other.rows, other.left_out) == (320, 0)
    assert "80 rows without a covariate are left out" in found.notes and "left out" not in str(other)
    assert len(found.memberships) == ROWS


def test_numbers_of_any_scale_are_shown(model: fgrn.LatentClassModel) -> None:
    found = model.membership_regression({"z": COVARIATES["z"] * 1e9 + 1e14})
    assert "0.0000 " not in str(found).split("Wald")[0].split("z ")[1].rsplit(" ", 1)[0]
    assert "inf" not in str(found) + found._repr_html_() and "1e-300" in str(found)
    assert "e+" not in str(model.membership_regression(COVARIATES, steps=2))
    outcome = model.distal_outcome(COVARIATES["z"] * 1e15)
    assert "e+" in str(outcome) and ".5000" not in str(outcome)
    assert "0.0000  0.0000" not in str(model.distal_outcome(COVARIATES["z"] * 1e-12))


def test_covariates_with_many_levels_or_dates_are_named(model: fgrn.LatentClassModel) -> None:
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    for dates in (days, [str(one) for one in days]):
        with pytest.raises(fgrn.LearningError, match=r"'day': it has 400 levels, dates.*at most 100.*number of days"):
            model.membership_regression({"day": dates})
    with pytest.raises(fgrn.LearningError, match=r"'name': it has 400 levels, and.*Join levels"):
        model.membership_regression({"name": [f"n{row}" for row in range(ROWS)]})


def test_swapped_arguments_are_told(model: fgrn.LatentClassModel) -> None:
    for act in (model.membership_regression, model.distal_outcome):
        for other in (COVARIATES, COVARIATES["z"]):
            with pytest.raises(fgrn.LearningError, match=r"first.*then the table"):
                act(TABLE, other)


@pytest.mark.filterwarnings("ignore")
def test_stepmix_has_the_same_one_step_estimates(one: LatentClassRegression) -> None:
    stepmix = pytest.importorskip("stepmix")
    pd = pytest.importorskip("pandas")
    codes = pd.DataFrame(np.where(CODES < 0, np.nan, CODES))
    covariates = np.column_stack([(DESIGN[:, 1] - 50) / 10, DESIGN[:, 2]])
    other = stepmix.StepMix(
        2, measurement="binary_nan", structural="covariate", n_steps=1, n_init=3, max_iter=20000, abs_tol=1e-14,
        rel_tol=1e-16, progress_bar=0, random_state=0, structural_params={"method": "newton-raphson", "max_iter": 5},
    ).fit(codes, covariates)  # fmt: skip
    assert other.score(codes, covariates) * ROWS == pytest.approx(one.log_likelihood, abs=1e-6)
    beta = other.get_parameters()["structural"]["beta"]
    difference = beta[1] - beta[0]
    scaled = np.array([one.coefficients[1, 0] + 50 * one.coefficients[1, 1], 10 * one.coefficients[1, 1]])
    sign = np.sign(difference[1] * scaled[1])
    np.testing.assert_allclose(sign * difference, [*scaled, one.coefficients[1, 2]], atol=1e-5)
