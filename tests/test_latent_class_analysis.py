"""Latent class analysis after the estimate: standard errors, fit, report; against independent computations."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import fgrn
from fgrn.cli import main
from fgrn.learning.criteria import aic, bic, caic, sabic
from fgrn.statistics.bootstrap import drawn_from_model
from fgrn.statistics.fisher_information import information
from fgrn.statistics.latent_classes import LatentClasses, Patterns, distinct_rows
from fgrn.statistics.report import report_of
from fgrn.statistics.vuong import tail_of_squares
from fgrn.tables import table_file


def simulated(rows: int, prior: Any, tables: Any, seed: int, missing: float = 0.0) -> dict[str, list[Any]]:
    """A table drawn from a latent class model, with values missing completely at random."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(prior), rows, p=prior)
    columns = {}
    for item, table in enumerate(tables):
        drawn = (rng.random(rows)[:, None] > np.cumsum(table, axis=1)[classes]).sum(axis=1)
        gone = rng.random(rows) < missing
        columns[f"q{item}"] = [None if no else f"l{level}" for no, level in zip(gone, drawn, strict=True)]
    return columns


PRIOR = np.array([0.6, 0.4])
TABLES = [
    np.array([[0.8, 0.2], [0.3, 0.7]]),
    np.array([[0.2, 0.8], [0.7, 0.3]]),
    np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    np.array([[0.75, 0.25], [0.2, 0.8]]),
    np.array([[0.6, 0.4], [0.15, 0.85]]),
]


@pytest.fixture(scope="module")
def table() -> dict[str, list[Any]]:
    return simulated(800, PRIOR, TABLES, seed=3, missing=0.1)


@pytest.fixture(scope="module")
def model(table: dict[str, list[Any]]) -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(2, tol=1e-12, random_state=0).fit(table)


def log_likelihood(prior: np.ndarray, tables: list[np.ndarray], rows: dict[str, list[Any]]) -> float:
    """The log-likelihood of rows, cell by cell, without any code of the package."""
    total = 0.0
    for row in zip(*rows.values(), strict=True):
        share = 0.0
        for k, size in enumerate(prior):
            term = size
            for value, table in zip(row, tables, strict=True):
                if value is not None:
                    term *= table[k, int(value[1:])]
            share += term
        total += np.log(share)
    return total


def test_standard_errors_are_those_of_numerical_second_derivatives(
    model: fgrn.LatentClassModel, table: dict[str, list[Any]]
) -> None:
    """The free probabilities themselves are the parameters here, not their logits; the last of each row depends."""
    prior, tables = model.weights_, [model.network_.table(name) for name in table]
    start = np.concatenate([prior[:-1], *[one[:, :-1].ravel() for one in tables]])
    distinct = dict.fromkeys(zip(*table.values(), strict=True), 0)
    for row in zip(*table.values(), strict=True):
        distinct[row] += 1
    codes = np.array([[-1 if v is None else int(v[1:]) for v in row] for row in distinct])
    counts = np.array(list(distinct.values()), dtype=float)

    def objective(theta: np.ndarray) -> float:
        sizes = np.append(theta[0], 1 - theta[0])
        place, total = 1, 0.0
        joint = np.tile(sizes, (len(codes), 1))
        for item, one in enumerate(tables):
            width = one.shape[1] - 1
            free = theta[place : place + 2 * width].reshape(2, width)
            place += 2 * width
            full = np.column_stack([free, 1 - free.sum(axis=1)])
            known = codes[:, item] >= 0
            joint[known] *= full.T[codes[known, item]]
            total += model.smoothing * np.log(full).sum()
        return total + counts @ np.log(joint.sum(axis=1))

    plain = objective(start) - model.smoothing * sum(np.log(one).sum() for one in tables)
    assert plain == pytest.approx(log_likelihood(prior, tables, table), abs=1e-8)
    size, step = len(start), 2e-4
    unit = np.eye(size) * step
    hessian = np.empty((size, size))
    for a, b in itertools.product(range(size), repeat=2):  # fourth order: two step sizes, Richardson
        values = [
            sum(
                s * t * objective(start + h * (s * unit[a] + t * unit[b])) for s in (1, -1) for t in (1, -1)
            ) / (4 * (h * step) ** 2)
            for h in (1, 2)
        ]  # fmt: skip
        hessian[a, b] = (4 * values[0] - values[1]) / 3
    expected = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    found = model.standard_errors()
    ours = np.concatenate([found.of_sizes[:1], *[found.of_item(name)[:, :-1].ravel() for name in table]])
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    assert found.rank == found.n_free == size == model.network_.free_parameters
    assert found.concave
    np.testing.assert_allclose(found.covariance[:2, :2].sum(axis=1), 0, atol=1e-15)  # sizes sum to one


def test_scores_are_the_gradient(model: fgrn.LatentClassModel, table: dict[str, list[Any]]) -> None:
    classes, rows = model._analysed(None, None)
    found = information(classes, rows)
    gradient = rows.weights @ found.scores
    assert (
        np.abs(gradient).max() < 3 * model.smoothing
    )  # at the maximum; smoothing pulls by (1 - levels * share) counts
    np.testing.assert_allclose(found.outer, (found.scores * rows.weights[:, None]).T @ found.scores)


def test_robust_and_outer_errors_agree_with_observed_ones_where_the_model_holds() -> None:
    rows = simulated(40_000, PRIOR, TABLES, seed=1)
    model = fgrn.LatentClassModel(2, smoothing=0, random_state=0).fit(rows)
    observed = model.standard_errors()
    for kind in ("robust", "outer"):
        np.testing.assert_allclose(model.standard_errors(kind=kind).errors, observed.errors, rtol=0.05)
    order = np.argsort(-model.weights_)
    truth = np.concatenate([PRIOR[order], *[np.concatenate([t[k] for t in TABLES]) for k in order]])
    distance = (observed.estimates - truth) / observed.errors
    assert np.abs(distance).max() < 4
    assert (observed.low < observed.estimates).all()
    assert (observed.estimates < observed.high).all()


def test_weights_of_three_kinds(table: dict[str, list[Any]]) -> None:
    twice = {name: column * 2 for name, column in table.items()}
    once = fgrn.LatentClassModel(2, smoothing=0, random_state=0).fit(table)
    rows = len(table["q0"])
    doubled = once.standard_errors(table, np.full(rows, 2.0))
    np.testing.assert_allclose(doubled.errors, once.standard_errors(twice).errors, rtol=1e-9)
    np.testing.assert_allclose(doubled.errors * np.sqrt(2), once.standard_errors().errors, rtol=1e-9)
    sampling = once.standard_errors(table, np.full(rows, 2.0), weights="sampling")
    np.testing.assert_allclose(sampling.errors, once.standard_errors(kind="robust").errors, rtol=1e-9)
    clustered = once.standard_errors(twice, clusters=[*range(rows), *range(rows)])
    scale = np.sqrt(rows / (rows - 1))  # of a finite number of clusters
    np.testing.assert_allclose(clustered.errors, scale * sampling.errors, rtol=1e-6)
    kept = once.standard_errors(clusters=range(rows))  # the rows of the fit
    np.testing.assert_allclose(kept.errors, once.standard_errors(table, clusters=range(rows)).errors, rtol=1e-9)
    with pytest.raises(fgrn.LearningError, match="one value for each"):
        once.standard_errors(table, clusters=[1, 2])
    with pytest.raises(fgrn.LearningError, match="one cluster only"):
        once.standard_errors(table, clusters=range(rows), strata=[0] + [1] * (rows - 1))


def test_fit_is_computed_over_all_cells() -> None:
    rows = simulated(500, PRIOR, TABLES, seed=5)
    model = fgrn.LatentClassModel(2, smoothing=0, random_state=0).fit(rows)
    observed: dict[tuple[Any, ...], int] = {}
    for row in zip(*rows.values(), strict=True):
        observed[row] = observed.get(row, 0) + 1
    levels = [[f"l{k}" for k in range(one.shape[1])] for one in TABLES]
    tables = [model.network_.table(name) for name in rows]
    g2 = x2 = cr = 0.0
    for cell in itertools.product(*levels):
        mean = 500 * np.exp(log_likelihood(model.weights_, tables, {n: [v] for n, v in zip(rows, cell, strict=True)}))
        count = observed.get(cell, 0)
        g2 += 2 * count * np.log(count / mean) if count else 0.0
        x2 += (count - mean) ** 2 / mean
        cr += 2 / (2 / 3 * 5 / 3) * count * ((count / mean) ** (2 / 3) - 1) if count else 0.0
    found = model.goodness_of_fit()
    assert [one.value for one in found.statistics] == pytest.approx([g2, x2, cr], rel=1e-9)
    assert found.df == 2**4 * 3 - 1 - model.network_.free_parameters
    assert 0.001 < (found["G2"].p or 0) < 1
    assert found.tables == 1


def test_fit_with_missing_values_is_that_of_each_set_of_observed_items(model: fgrn.LatentClassModel) -> None:
    found = model.goodness_of_fit()
    assert found.tables > 5
    assert "completely at random" in str(found)
    assert found.df == found.cells - found.tables - found.parameters


@pytest.mark.parametrize("items", [70, 1100])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_wide_tables_have_a_report(items: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {f"q{item}": np.roll([0, 1, 1, 1], rng.integers(4)).astype(str).tolist() for item in range(items)}
    model = fgrn.LatentClassModel(1, random_state=0, n_init=1, smoothing=0).fit(rows)
    found = model.goodness_of_fit()
    assert found.cells == 2**items
    shares = sum(np.log(3 / 4 if value == "1" else 1 / 4) for column in rows.values() for value in column)
    distinct, copies = np.unique(list(zip(*rows.values(), strict=True)), axis=0, return_counts=True)
    assert found["G2"].value == pytest.approx(2 * (copies @ np.log(copies / 4) - shares), rel=1e-9)
    assert len(distinct) == 4
    assert [one.p for one in found.statistics] == ([1.0, 1.0, 1.0] if items == 70 else [None] * 3)
    assert found.sparse
    json.dumps(found.as_dicts(), allow_nan=False)
    assert max(map(len, str(found).splitlines())) < 200
    if items > 70:
        return  # the errors of so many items take long
    model.save(tmp_path / "wide.fgrn")
    assert str(fgrn.load(tmp_path / "wide.fgrn").report()) == str(model.report())


def test_residuals_see_an_association_that_classes_do_not_explain() -> None:
    rows = simulated(2000, PRIOR, TABLES, seed=5)
    assert (
        max(one.residual for one in fgrn.LatentClassModel(2, random_state=0).fit(rows).bivariate_residuals().pairs) < 4
    )
    rng = np.random.default_rng(0)
    rows["copy"] = [v if rng.random() < 0.8 else "l0" for v in rows["q0"]]
    found = fgrn.LatentClassModel(2, random_state=0).fit({k: rows[k] for k in rows if k != "q4"}).bivariate_residuals()
    assert found.to_frame()["residual"].is_monotonic_decreasing
    assert (
        found.matrix[0, -1]
        == found.matrix[-1, 0]
        == {(one.first, one.second): one.residual for one in found.pairs}["q0", "copy"]
    )
    from fgrn import plots

    assert plots.residuals(found).axes


def test_a_report_has_everything(model: fgrn.LatentClassModel, table: dict[str, list[Any]]) -> None:
    report = model.report()
    scores = model.score_samples(table)
    total, count = scores.sum(), model.network_.free_parameters
    assert report.log_likelihood == pytest.approx(total, abs=1e-8)
    assert report.criteria == pytest.approx(
        {
            "AIC": aic(total, count),
            "BIC": bic(total, count, 800),
            "CAIC": caic(total, count, 800),
            "SABIC": sabic(total, count, 800),
        }
    )
    posterior = model.predict_proba(table)
    assert report.relative_entropy == pytest.approx(model.relative_entropy(table))
    modal = np.bincount(posterior.argmax(axis=1), minlength=2) / 800
    np.testing.assert_allclose(report.assignment.modal, modal)
    for k in range(2):
        mine = posterior.argmax(axis=1) == k
        np.testing.assert_allclose(report.assignment.average[k], posterior[mine].mean(axis=0))
    frames = report.frames
    assert list(frames) == ["summary", "classes", "items", "assignment", "fit", "warnings", "notes"]
    assert frames["notes"]["note"].tolist() == report.notes
    assert ("random starts found the largest" in "".join(report.notes[:1])) == (report.convergence.found_best > 1)
    assert "unlikely" not in str(report)  # all starts may share a local maximum
    assert not any(frame.isna().to_numpy().any() for frame in frames.values())
    assert len(frames["items"]) == 2 * 11
    text, page = str(report), report._repr_html_()
    for word in ("CAIC", "SABIC", "relative entropy", "starts that found the best", "q2", "Pearson"):
        assert word in text
        assert word in page
    assert "nan" not in text.lower()


def test_a_report_tells_what_its_marks_mean_and_which_errors_are_large(model: fgrn.LatentClassModel) -> None:
    found: Any = model.report()
    bound = replace(found, errors=replace(found.errors, boundary=np.ones_like(found.errors.boundary)))
    for text in (str(bound), bound._repr_html_()):
        assert "b: no standard error, because the estimate is on the boundary: 0 or 1" in text
    errors = found.errors.errors.copy()
    errors[:3] = 0.6
    large = replace(found.errors, errors=errors)
    told = report_of(found.n_rows, found.n_parameters, found.assignment, large, found.fit, model.history_).warnings
    assert any(
        "3 probabilities with a standard error above 0.5, which the rows hardly determine" in one for one in told
    )
    assert not any("hardly determine" in one for one in found.warnings)


def test_an_empty_table_is_told() -> None:
    for empty in (pd.DataFrame(), {}):
        with pytest.raises(fgrn.EvidenceError, match="table is empty: it has no column"):
            fgrn.LatentClassModel(2).fit(empty)


def test_a_report_of_a_table_is_that_of_the_fit(model: fgrn.LatentClassModel, table: dict[str, list[Any]]) -> None:
    assert str(model.report(table)) == str(model.report())


def test_a_report_goes_with_the_model_file(
    model: fgrn.LatentClassModel, table: dict[str, list[Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "types.fgrn")
    loaded = fgrn.load(tmp_path / "types.fgrn")
    assert str(loaded.report()) == str(model.report())
    assert str(loaded.report(table)) == str(model.report())
    loaded.save(tmp_path / "again.fgrn")
    assert str(fgrn.load(tmp_path / "again.fgrn").report()) == str(model.report())
    with pytest.raises(fgrn.LearningError, match="Give the table"):
        loaded.standard_errors()
    table_file.write(table, tmp_path / "rows.csv")
    assert main(["report", str(tmp_path / "types.fgrn")]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == str(model.report())
    page = tmp_path / "r.html"
    arguments = ["report", str(tmp_path / "types.fgrn"), str(tmp_path / "rows.csv"), "--residuals", "--html", str(page)]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"]["log-likelihood"] == pytest.approx(model.report().log_likelihood)
    assert len(told["residuals"]) == 10
    assert "Item-response" in page.read_text()
    assert main(["report", str(tmp_path / "types.fgrn"), "--residuals"]) == 2


def test_the_report_of_a_file_follows_a_new_order_of_classes(model: fgrn.LatentClassModel, tmp_path: Path) -> None:
    model.save(tmp_path / "types.fgrn")
    loaded, again = fgrn.load(tmp_path / "types.fgrn"), fgrn.load(tmp_path / "types.fgrn")
    turned = loaded.relabel([1, 0]).report()
    np.testing.assert_allclose(turned.errors.of_item("q2"), again.report().errors.of_item("q2")[::-1])
    np.testing.assert_allclose(turned.assignment.average, again.report().assignment.average[::-1, ::-1])
    assert str(loaded.relabel([1, 0]).report()) == str(model.report())


def test_fit_can_be_judged_by_tables_drawn_from_the_model(table: dict[str, list[Any]]) -> None:
    right = fgrn.LatentClassModel(2, random_state=0).fit(table)
    found = right.goodness_of_fit(n_bootstrap=19, n_init=1)
    assert found["G2"].value == right.goodness_of_fit()["G2"].value
    assert found["G2"].p is not None
    assert found["G2"].p > 0.05
    assert "19 tables drawn" in str(found)
    wrong = fgrn.LatentClassModel(1, random_state=0).fit(table).goodness_of_fit(n_bootstrap=19, n_init=1)
    assert [one.p for one in wrong.statistics] == [0.05] * 3


def test_weights_that_are_shares_of_a_whole_are_warned_of(table: dict[str, list[Any]]) -> None:
    report = fgrn.LatentClassModel(2, random_state=0).fit(table, sample_weight=np.full(800, 1 / 800)).report()
    assert "The weights of 800 rows sum to 1," in report.warnings[0]


def test_a_batch_is_not_all_rows(model: fgrn.LatentClassModel, table: dict[str, list[Any]]) -> None:
    online = fgrn.LatentClassModel(2, random_state=0).partial_fit(table).partial_fit(table)
    with pytest.raises(fgrn.LearningError, match="Give the table"):
        online.report()
    assert online.report(table).n_rows == 800


@pytest.mark.filterwarnings("ignore")
def test_stepmix_has_the_same_estimates_and_criteria() -> None:
    stepmix = pytest.importorskip("stepmix")
    rows = simulated(600, PRIOR, TABLES, seed=2)
    codes = pd.DataFrame({name: [int(v[1:]) for v in column] for name, column in rows.items()})
    other = stepmix.StepMix(
        2, measurement="categorical", n_init=5, max_iter=5000, abs_tol=1e-13, rel_tol=1e-13, progress_bar=0
    ).fit(codes)  # fmt: skip
    model = fgrn.LatentClassModel(2, smoothing=0, tol=1e-13, random_state=0).fit(rows)
    report = model.report()
    assert report.log_likelihood == pytest.approx(600 * other.score(codes), abs=1e-6)
    assert report.criteria["AIC"] == pytest.approx(other.aic(codes), abs=1e-5)
    assert report.criteria["BIC"] == pytest.approx(other.bic(codes), abs=1e-5)
    assert report.criteria["CAIC"] == pytest.approx(other.caic(codes), abs=1e-5)
    theirs = other.sabic(codes) - report.n_parameters * np.log(600)  # it has n (n + 2) / 24 for Sclove's (n + 2) / 24
    assert report.criteria["SABIC"] == pytest.approx(theirs, abs=1e-5)
    assert report.relative_entropy == pytest.approx(other.relative_entropy(codes), abs=1e-6)
    np.testing.assert_allclose(np.sort(model.weights_), np.sort(other.weights_), atol=1e-6)


# Other orders, other solutions


def test_classes_are_put_in_order(table: dict[str, list[Any]], tmp_path: Path) -> None:
    model = fgrn.LatentClassModel(3, random_state=1).fit(table)
    before, shares = model.predict_proba(table), model.weights_
    errors = model.standard_errors().of_item("q2")
    model.relabel("size")
    order = np.argsort(-shares)
    np.testing.assert_allclose(model.weights_, shares[order])
    np.testing.assert_allclose(model.predict_proba(table), before[:, order])
    np.testing.assert_allclose(model.standard_errors().of_item("q2"), errors[order])
    np.testing.assert_allclose(list(model.prototypes_.shares.values()), shares[order])
    model.relabel([2, 0, 1])
    np.testing.assert_allclose(model.weights_, shares[order][[2, 0, 1]])
    model.relabel(("q0", "l1"))
    assert (np.diff(model.network_.table("q0")[:, 1]) <= 0).all()
    model.save(tmp_path / "m.fgrn")
    np.testing.assert_array_equal(fgrn.load(tmp_path / "m.fgrn").predict(table), model.predict(table))
    for wrong in ("weight", [0, 0, 1], ("q9", "l1"), ("q0", "l9"), 3):
        with pytest.raises(fgrn.FgrnError):
            model.relabel(wrong)


def test_two_solutions_are_compared(table: dict[str, list[Any]], model: fgrn.LatentClassModel) -> None:
    from sklearn.metrics import adjusted_rand_score

    other = fgrn.LatentClassModel(3, random_state=1).fit(table)
    found = model.agreement(other)
    assert found.adjusted_rand == pytest.approx(adjusted_rand_score(model.predict(table), other.predict(table)))
    assert found.table.sum() == 800
    turned = fgrn.LatentClassModel(2, tol=1e-12, random_state=0).fit(table).relabel([1, 0])
    same = model.agreement(turned)
    assert (same.matching, same.agreement, same.adjusted_rand) == ((1, 0), 1.0, 1.0)
    assert "adjusted Rand" in str(same)
    with pytest.raises(fgrn.LearningError, match="same columns"):
        model.agreement(fgrn.LatentClassModel(2, n_epochs=3).fit({"a": ["x", "y"]}))


@pytest.mark.parametrize("kind", ["parametric", "non-parametric"])
def test_a_bootstrap_has_the_standard_errors_of_the_information(table: dict[str, list[Any]], kind: str) -> None:
    model = fgrn.LatentClassModel(2, random_state=0).fit(table)
    found = model.bootstrap(n_bootstrap=150, kind=kind, n_init=1)
    ratio = found.errors / model.standard_errors().errors
    assert 0.9 < np.median(ratio) < 1.15
    assert 0.6 < ratio.min() < ratio.max() < 1.6
    assert ((found.low < found.estimates) & (found.estimates < found.high)).all()
    assert "150 replicates" in str(found)
    assert len(found.to_frame()) == 24


def test_drawn_rows_have_the_missing_values_of_the_table(model: fgrn.LatentClassModel) -> None:
    classes, rows = model._analysed(None, None)
    drawn = drawn_from_model(classes, rows, np.random.default_rng(0))
    assert drawn.weight == rows.weight
    np.testing.assert_allclose(drawn.weights @ (drawn.codes < 0), rows.weights @ (rows.codes < 0))
    many = Patterns.of_codes(np.full((1, 5), 0), np.array([1e6]), np.array([1e6]), 10**6)
    counts = drawn_from_model(classes, many, np.random.default_rng(0))
    shares = counts.weights / 1e6
    np.testing.assert_allclose(np.exp(classes.posterior(counts)[1]), shares, atol=2e-3)


def test_the_bootstrap_test_finds_the_number_of_classes() -> None:
    rows = simulated(500, PRIOR, TABLES, seed=8)
    model = fgrn.LatentClassModel(2, random_state=0, tol=1e-6, n_init=2).fit(rows)
    found = model.bootstrap_lrt(n_bootstrap=24, sizes=[1, 2, 3])
    assert [one.classes for one in found.tests] == [1, 2]
    assert found.tests[0].p == 1 / 25
    assert found.chosen == 2
    assert found.tests[0].ratio > 5 * found.tests[0].mean_ratio
    assert found.tests[1].p > 0.05
    assert 0 < found.tests[1].ratio < 4 * found.tests[1].mean_ratio
    assert "2 against 3" in str(found)
    test = model.vuong_lrt()
    assert test.p > 0.05
    assert test.ratio == found.tests[1].ratio
    assert test.adjusted < test.ratio
    assert fgrn.LatentClassModel(1).fit(rows).vuong_lrt().p < 1e-6
    few = {name: column[:8] for name, column in rows.items()}
    with pytest.raises(fgrn.LearningError, match="many more rows than parameters"):
        fgrn.LatentClassModel(2, random_state=0).fit(few).vuong_lrt()


@pytest.mark.parametrize("continuous", [False, True])
def test_likelihood_ratio_tests_start_from_the_maximum_at_hand(continuous: bool) -> None:
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 4, 300)
    shares = rng.random((4, 6))
    table: dict[str, Any] = {f"q{k}": (rng.random(300) < shares[hidden, k]).astype(int) for k in range(6)}
    numbers = {"x": rng.normal(size=300) + hidden} if continuous else {}
    alone = {"n_init": 1, "random_state": 0, "continuous": list(numbers) or None}
    model = fgrn.LatentClassModel(3, **(alone | {"n_init": 20})).fit(table | numbers)
    own = model.history_.log_likelihood[-1]
    if not continuous:
        assert fgrn.LatentClassModel(3, **alone).fit(table).history_.log_likelihood[-1] < own - 0.5
    for sizes in ([3], [2]):
        one = model.bootstrap_lrt(n_bootstrap=1, n_init=1, sizes=sizes).tests[0]
        found = one.log_likelihood if one.classes == 3 else one.log_likelihood_more
        assert found > own - 1e-3


def test_one_class_more_that_is_below_the_model_is_told() -> None:
    rng = np.random.default_rng(2)
    tables = []
    for _ in range(2):
        hidden = rng.integers(0, 4, 400)
        shares = rng.random((4, 8))
        tables.append({f"q{item}": (rng.random(400) < shares[hidden, item]).astype(int) for item in range(8)})
    model = fgrn.LatentClassModel(4, n_init=40, random_state=1).fit(tables[1])  # one start for 5 classes ends below
    tested = [model.bootstrap_lrt(n_bootstrap=19, n_init=1), model.vuong_lrt(n_init=1)]
    for one in tested:
        assert one.ratio == 0
        assert re.match(
            r"the log-likelihood with 5 classes \(.*\) is below that with 4 \(.*random starts", one.warnings[0]
        )
        assert one.warnings[0] in one.notes
        assert f"warning: {one.warnings[0]}" in str(one)
    assert not model.vuong_lrt().warnings


def test_distinct_rows_are_those_of_numpy() -> None:
    codes = np.random.default_rng(0).integers(-1, 2, size=(300, 70))
    codes[150:] = codes[:150]
    distinct, number = distinct_rows(codes)
    np.testing.assert_array_equal(distinct, np.unique(codes, axis=0))
    np.testing.assert_array_equal(distinct[number], codes)


def test_sums_of_squares_with_weights() -> None:
    from scipy.stats import chi2

    assert tail_of_squares(np.ones(3), 5.0) == pytest.approx(chi2.sf(5, 3), abs=1e-6)
    weights = np.array([2.0, 1.0, 0.5, -0.3])
    drawn = np.random.default_rng(0).standard_normal((400_000, 4)) ** 2 @ weights
    assert tail_of_squares(weights, 6.0) == pytest.approx((drawn > 6).mean(), abs=3e-3)


def test_all_criteria_are_in_the_sweep(table: dict[str, list[Any]]) -> None:
    found = fgrn.LatentClassModel(random_state=0, n_init=1, criterion="sabic").compare(table, sizes=[1, 2])
    frame = found.to_frame()
    two = found.candidates[1]
    assert frame["caic"][1] == pytest.approx(caic(two.log_likelihood, two.n_parameters, 800))
    assert frame["sabic"][1] == pytest.approx(sabic(two.log_likelihood, two.n_parameters, 800))
    assert found.best.n_hidden == 2


# What can go wrong


BAD = {
    "not identified": ({"a": ["x", "y", "y"] * 30, "b": ["x", "y", "x"] * 30}, 2, "not identified"),
    "one row": ({"a": ["x"], "b": ["y"]}, 2, ""),
    "more classes than rows": ({"a": ["x", "y"], "b": ["x", "y"]}, 4, "more parameters (11) than rows (2)"),
    "one class": ({"a": ["x", "y", "y"] * 9, "b": ["x", "y", "x"] * 9}, 1, ""),
    "a constant item": ({"a": ["x", "y", "y"] * 9, "b": ["x"] * 27, "c": ["u", "u", "v"] * 9}, 2, ""),
    "almost all missing": ({"a": ["x", None, None] * 9, "b": [None, "y", None] * 9}, 2, ""),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_input_is_told_in_a_sentence_and_never_nan(case: str) -> None:
    rows, classes, told = BAD[case]
    model = fgrn.LatentClassModel(classes, random_state=0, n_epochs=200).fit(rows)
    report = model.report()
    text = str(report)
    assert "nan" not in text.lower().replace("dominant", "")
    assert told in text
    for name, frame in report.frames.items():
        assert not frame.drop(columns="p" if name == "fit" else []).isna().to_numpy().any()
    tested = report.frames["fit"]["p"].notna().tolist()
    assert tested == [one.p is not None for one in report.fit.statistics]
    assert report.frames["fit"]["p"].dtype == float
    json.dumps(report.as_dict(), allow_nan=False)
    assert "nan" not in str(model.standard_errors(kind="robust")).lower()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_to_be_careful_about_is_said(table: dict[str, list[Any]]) -> None:
    assert any("did not converge" in one for one in fgrn.LatentClassModel(2, n_epochs=3).fit(table).report().warnings)
    single = fgrn.LatentClassModel(2, n_init=1, random_state=0).fit(table)
    assert any("one random start" in one for one in single.report().warnings)
    certain = dict(table, q9=["l0" if v == "l0" else "l1" for v in table["q0"]])
    boundary = fgrn.LatentClassModel(3, random_state=0).fit(certain)
    errors = boundary.standard_errors()
    assert errors.boundary.any()
    assert (errors.errors[errors.boundary] == 0).all()
    assert (errors.high[errors.boundary] > 0).all()
    assert any("boundary" in one for one in boundary.report().warnings)
    assert "Wald" in str(errors)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_estimate_of_one_is_on_the_boundary_too() -> None:
    rng = np.random.default_rng(0)
    second = rng.random(300) < 0.5
    noisy = {f"q{j}": np.where(rng.random(300) < np.where(second, 0.9, 0.1), "x", "y") for j in range(4)}
    table = {"a": np.where(second, "x", "y"), **noisy, "same": ["u"] * 300}
    errors = fgrn.LatentClassModel(2, random_state=0, smoothing=0).fit(table).standard_errors().to_frame()
    item = errors[errors["item"] == "a"].sort_values(["class", "estimate"])
    assert item["boundary"].all()
    zero, one = item.iloc[0], item.iloc[1]
    assert zero["estimate"] < 1e-6
    assert one["estimate"] > 1 - 1e-6
    assert one["standard_error"] == 0
    assert one["low"] == pytest.approx(1 - zero["high"])
    assert one["high"] == 1
    assert 0.9 < one["low"] < 0.999
    assert not errors[errors["item"] == "same"]["boundary"].any()
    assert not errors[errors["item"] == "q1"]["boundary"].any()


def test_a_table_without_a_value_is_refused() -> None:
    with pytest.raises(fgrn.SchemaError, match="no known value"):
        fgrn.LatentClassModel(2).fit({"a": [None] * 9, "b": [None] * 9})


def test_settings_are_checked(model: fgrn.LatentClassModel) -> None:
    for options in ({"kind": "x"}, {"level": 2}, {"weights": "heavy"}):
        with pytest.raises(fgrn.LearningError):
            model.standard_errors(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("bootstrap_lrt", {"sizes": []}),
        ("bootstrap_lrt", {"sizes": 0}),
        ("bootstrap_lrt", {"sizes": [1, "two"]}),
        ("bootstrap", {"level": 2}),
        ("bootstrap", {"level": "high"}),
        ("bootstrap", {"kind": "x"}),
    ],
)
def test_settings_of_a_bootstrap_are_checked_before_fitting(
    asked: str, options: dict[str, Any], model: fgrn.LatentClassModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fgrn.Network, "learn", lambda *_, **__: pytest.fail("a model was fitted"))
    with pytest.raises(fgrn.LearningError) as caught:
        getattr(model, asked)(n_bootstrap=2, **options)
    assert caught.value.setting in options


def test_a_missing_cluster_is_named(model: fgrn.LatentClassModel, table: dict[str, list[Any]]) -> None:
    for name in ("clusters", "strata"):
        given: list[Any] = [row % 20 for row in range(800)]
        given[5] = None
        with pytest.raises(fgrn.LearningError, match="missing") as caught:
            model.standard_errors(table, **{name: given})
        assert (caught.value.setting, caught.value.row) == (name, 5)


def test_one_size_needs_no_list(model: fgrn.LatentClassModel) -> None:
    found = model.bootstrap_lrt(n_bootstrap=1, n_init=1, sizes=1)
    assert [one.classes for one in found.tests] == [1]


def test_too_few_replicates_choose_no_number_of_classes(model: fgrn.LatentClassModel) -> None:
    found = model.bootstrap_lrt(n_bootstrap=1, n_init=1, sizes=1)
    for few, chosen in ((1, None), (19, None), (20, 1)):
        one = replace(found, replicates=few)
        assert (one.chosen, bool(one.warnings)) == (chosen, chosen is None)
        assert ("warning: with" in str(one)) == (chosen is None)


@pytest.mark.parametrize(
    "act",
    [
        "standard_errors", "goodness_of_fit", "bivariate_residuals", "bootstrap", "bootstrap_lrt", "vuong_lrt",
        "membership_regression", "distal_outcome", "compare_groups", "agreement", "draws", "report", "relabel",
    ],
)  # fmt: skip
def test_analyses_of_a_model_that_is_not_fitted_are_refused(act: str) -> None:
    given = {"membership_regression": [{"z": [1.0]}], "agreement": [None]}
    arguments = given.get(act, [[1]] if act in ("distal_outcome", "compare_groups", "draws") else [])
    with pytest.raises(NotFittedError):
        getattr(fgrn.LatentClassModel(2), act)(*arguments)


def test_solutions_with_continuous_columns_are_not_compared(model: fgrn.LatentClassModel) -> None:
    table = {"a": ["x", "y"] * 20, "b": ["x", "x", "y", "y"] * 10}
    number = [float(n) for n in range(40)]
    plain = fgrn.LatentClassModel(2, n_epochs=2, random_state=0).fit(table)
    other = fgrn.LatentClassModel(2, n_epochs=2, continuous=["z"], random_state=0).fit({**table, "z": number})
    with pytest.raises(fgrn.LearningError, match="same columns"):
        plain.agreement(other)


def test_weights_are_of_the_rows_of_a_table(model: fgrn.LatentClassModel) -> None:
    for asked in (model.report, model.goodness_of_fit, model.standard_errors, model.bivariate_residuals):
        with pytest.raises(fgrn.LearningError, match="X too") as caught:
            asked(sample_weight=np.ones(800))
        assert caught.value.setting == "sample_weight"


def test_an_impossible_row_is_named() -> None:
    classes = LatentClasses(("a",), (("x", "y"),), np.array([1.0]), (np.array([[1.0, 0.0]]),))
    rows = Patterns.of_codes(np.array([[0], [1]]), np.ones(2), np.ones(2), 2)
    with pytest.raises(fgrn.ImpossibleEvidence, match="probability zero") as caught:
        information(classes, rows)
    assert caught.value.rows == (1,)


def test_a_report_of_other_rows_says_so_first_and_nothing_of_a_maximum(
    model: fgrn.LatentClassModel, table: dict[str, list[Any]]
) -> None:
    few = model.report({name: column[:4] for name, column in table.items()})
    assert few.errors.rank < few.errors.n_free
    assert few.other_rows == few.warnings[0]
    assert "are not those that the model was fitted on" in str(few).split("\n\n")[1]
    assert str(few).count(few.other_rows) == 1
    assert few._repr_html_().index("are not those") < few._repr_html_().index("<table")
    assert not any("not identified" in one or "not a maximum" in one for one in few.warnings)
    assert not model.report(table).other_rows


def test_more_classes_than_rows_are_warned_of_and_have_no_standard_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"a": ["x", "y", "x", "y"], "b": ["u", "v", "v", "v"]}
    asked = fgrn.LatentClassModel(5, random_state=0, n_init=1)
    with pytest.warns(fgrn.FgrnWarning, match="'n_hidden' asks for 5 hidden states, more than the 4 rows") as told:
        asked.fit(few)
    assert len(told) == 1
    for module in ("fgrn.statistics.fisher_information", "fgrn.estimators._class_analysis"):
        monkeypatch.setattr(f"{module}.MOST_FREE", 2)
    with pytest.raises(fgrn.LearningError, match="free parameters, and more than 2 take too long"):
        asked.report()
    asked.save(tmp_path / "m.fgrn")
    assert main(["report", str(tmp_path / "m.fgrn")]) == 1
    assert "as the standard errors of 14 parameters from 4 rows take long" in capsys.readouterr().err


def test_a_report_of_other_rows_or_of_one_row_says_so(tmp_path: Any) -> None:
    table = {"a": ["x", "y", "x", "y"] * 20, "b": ["u", "v", "v", "v"] * 20, "c": ["p", "q", "q", "p"] * 20}
    model = fgrn.LatentClassModel(1, random_state=0).fit(table)
    half = {name: column[:40] for name, column in table.items()}
    other = {**table, "b": ["u"] * 80}
    path = tmp_path / "model.fgrn"
    model.save(path)
    for one in (model, fgrn.load(path)):
        assert not one.report(table).warnings
        for rows in (half, other):
            assert "not those that the model was fitted on" in one.report(rows).warnings[0]
    alone = fgrn.LatentClassModel(1, random_state=0).fit({"a": ["x"], "b": ["y"]})
    assert "one row" in alone.report().warnings[0]
    assert "1.000 (certain)" in str(alone.report())
    assert "certain" in str(alone.standard_errors())


def test_results_have_their_sentences_as_data_frames() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.random(120) < 0.5
    table = {f"q{item}": np.where(rng.random(120) < np.where(hidden, 0.9, 0.2), "a", "b") for item in range(4)}
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit(table)
    results = {
        "estimates": [model.standard_errors(), model.bootstrap(n_bootstrap=2, n_init=1)],
        "fit": [model.goodness_of_fit()],
        "pairs": [model.bivariate_residuals()],
        "tests": [model.bootstrap_lrt(n_bootstrap=2, n_init=1), model.vuong_lrt(n_init=1)],
        "coefficients": [model.membership_regression({"z": rng.normal(size=120)})],
        "intervals": [model.profile_intervals()],
        "agreement": [model.agreement(model)],
    }
    for name, some in results.items():
        for one in some:
            frames = one.frames
            assert (next(iter(frames)), list(frames)[-1]) == (name, "notes")
            assert frames["notes"]["note"].tolist() == list(one.notes)
            assert frames[name].equals(one.to_frame())
            assert all(note in str(one) for note in one.notes if one is not results["tests"][1])
    joint = model.membership_regression({"z": rng.normal(size=120)}, steps=1, n_init=1)
    assert list(joint.frames) == ["coefficients", "tests", "summary", "estimates", "memberships", "notes"]
