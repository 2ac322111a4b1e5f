"""Rows with missing values, and the tables that were refined for the class: factors of levels, and the opinion pool."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import LatentClassifier
from fgrn.bayes.class_trees import HiddenTreeFamily, class_hidden_tree, class_tree_mixture, tree_of_columns
from fgrn.core.refined_weight import RefinedWeight
from fgrn.files import model_file
from fgrn.files.container import container_bytes
from fgrn.graph.class_family import ClassFamily
from fgrn.learning import classifier_choice, incomplete_rows
from fgrn.learning.choice_budget import Budget
from fgrn.learning.incomplete_rows import IncompletePredictions, best_refined_weight, with_level_factors
from fgrn.learning.optimiser import minimised
from fgrn.queries.opinion_pool import OpinionPool
from fgrn.queries.questions import explained_by
from fgrn.tables.encoded import Evidence

OBSERVED = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1, 2], "y": [0, 1, 2]}


def some_rows(count: int = 300, seed: int = 1) -> Evidence:
    """Three columns that tell a class of three, two of them together."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    a = np.where(rng.random(count) < 0.6, y, rng.integers(0, 3, count))
    b = (rng.random(count) < 0.2 + 0.3 * y).astype(int)
    c = np.where(rng.random(count) < 0.5, (a + y) % 3, rng.integers(0, 3, count))
    return Evidence.of_codes(tuple(OBSERVED), np.stack([a, b, c, y], axis=1).astype(np.int16))


def some_model(structure: str, rows: Evidence) -> tuple[ClassFamily, fgrn.Network]:
    """A model with tables that are not those of the rows, as refined tables are."""
    if structure == "per_class":
        net, kind = fgrn.class_mixture(OBSERVED, "y", 2), ClassFamily
    elif structure == "tan":
        net, kind = class_tree_mixture(OBSERVED, "y", 2, tree_of_columns(OBSERVED, "y", rows)), ClassFamily
    else:
        net, kind = class_hidden_tree(OBSERVED, "y", 2, rows), HiddenTreeFamily
    family = kind(structure, lambda size, table: net, "y", "S", 0.5, "reference")
    net.learn(rows, epochs=3, smoothing=0.5, engine="reference")
    rng = np.random.default_rng(3)
    logs = np.where(net._spec.learnt, rng.normal(0, 1, net._spec.layout.size), 0.0)
    return family, family.with_tables(net, family.scaled(net, logs))


@pytest.mark.parametrize("structure", ["per_class", "tan", "tree"])
def test_factors_of_levels_change_rows_with_missing_values_alone(structure: str) -> None:
    rows = some_rows()
    family, model = some_model(structure, rows)
    levels = family.level_of_cells(model)
    assert levels.max() + 1 == 3 + 2 + 3
    factors = np.random.default_rng(0).normal(0, 1, levels.max() + 1)
    changed = family.with_tables(model, family.scaled(model, np.where(levels >= 0, factors[levels], 0.0)))
    asked = rows.without("y")
    np.testing.assert_allclose(family.chances(changed, asked), family.chances(model, asked), atol=1e-12)
    asked.codes[:, 0] = -1
    assert np.abs(family.chances(changed, asked) - family.chances(model, asked)).max() > 0.01
    for name in model.observed:  # the tables are distributions again
        np.testing.assert_allclose(changed.table(name).sum(axis=1), 1.0)


@pytest.mark.parametrize("structure", ["per_class", "tan", "tree"])
def test_the_gradient_by_factors_is_that_of_finite_differences(structure: str) -> None:
    rows = incomplete_rows.with_hidden_values(some_rows(60), "y", 0)
    family, model = some_model(structure, rows)
    task, levels = family.conditional(model, rows), family.level_of_cells(model)

    def likelihood(factors: np.ndarray) -> tuple[float, np.ndarray]:
        found, more = task.gain(family.scaled(model, np.where(levels >= 0, factors[levels], 0.0)))
        return found, np.bincount(levels[levels >= 0], more[levels >= 0], len(factors))

    here = np.random.default_rng(1).normal(0, 0.5, levels.max() + 1)
    _, slope = likelihood(here)
    step = 1e-5
    for place in range(len(here)):
        ends = [likelihood(here + sign * step * (np.arange(len(here)) == place))[0] for sign in (1, -1)]
        assert slope[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-4)


@pytest.mark.parametrize("structure", ["per_class", "tan", "tree"])
def test_the_best_factors_predict_incomplete_rows_better(structure: str) -> None:
    rows, others = some_rows(400), some_rows(400, seed=2)
    family, model = some_model(structure, rows)
    better = with_level_factors(family, model, incomplete_rows.with_hidden_values(rows, "y", 0))
    hidden = incomplete_rows.with_hidden_values(others, "y", 1)
    truth = hidden.codes[:, -1]

    def loss(net: fgrn.Network) -> float:
        return -float(np.log(family.chances(net, hidden.without("y"))[np.arange(len(truth)), truth]).mean())

    assert loss(better) < loss(model) - 0.01
    complete = others.without("y")
    np.testing.assert_allclose(family.chances(better, complete), family.chances(model, complete), atol=1e-10)


def test_values_are_hidden_and_nothing_else_changes() -> None:
    rows = replace(some_rows(40), row_weights=np.arange(1.0, 41.0))
    rows.codes[::4, 3] = -1  # rows without a class are left out
    found = incomplete_rows.with_hidden_values(rows, "y", 5)
    assert found.rows >= incomplete_rows.LEAST_ROWS
    assert (found.codes[:, 3] >= 0).all()
    assert found.weight == pytest.approx(rows.row_weights[rows.codes[:, 3] >= 0].sum())
    shares = (found.codes[:, :3] < 0).mean(axis=0)
    assert shares == pytest.approx(np.full(3, 0.5), abs=0.1)
    assert {0, 1, 2, 3} <= set((found.codes[:, :3] >= 0).sum(axis=1).tolist())
    again = incomplete_rows.with_hidden_values(rows, "y", 5)
    assert np.array_equal(found.codes, again.codes)


def test_the_weight_that_predicts_incomplete_rows_best_is_chosen() -> None:
    """Where refined tables are right they count as long as can be; where they are wrong, as little."""
    classes, known = np.array([0, 1] * 50), np.repeat([1, 3], 50)
    right, wrong = np.eye(2)[classes] * 0.8 + 0.1, np.eye(2)[1 - classes] * 0.8 + 0.1
    weights = np.ones(100)
    for refined, general, power in ((right, wrong, min(incomplete_rows.POWERS)), (wrong, right, 8.0)):
        part = IncompletePredictions(refined, general, known, classes, weights)
        assert best_refined_weight(4.0, [part]) == RefinedWeight(4.0, power)
    almost = np.where(np.arange(100)[:, None] == 7, np.eye(2)[1 - classes] * (1 - 1e-300) + 1e-300, right)
    part = IncompletePredictions(wrong, almost, known, classes, weights)  # one row does not decide alone
    assert best_refined_weight(4.0, [part]) == RefinedWeight(4.0, 8.0)
    assert RefinedWeight(4.0, 2.0).weights(np.array([0, 2, 4, 5])).tolist() == [0.0, 0.25, 1.0, 1.0]


# The classifier


def exclusive(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Columns that copy each other, which naive Bayes takes for as many pieces of evidence."""
    rng = np.random.default_rng(seed)
    y = rng.random(rows) < 0.3
    told = np.where(rng.random(rows) < 0.75, y, ~y)
    X = {f"c{number}": np.where(rng.random(rows) < 0.95, told, ~told) for number in range(8)}
    X["other"] = np.where(rng.random(rows) < 0.7, y, ~y)
    return pd.DataFrame({name: np.where(column, "yes", "no") for name, column in X.items()}), pd.Series(
        np.where(y, "ill", "well"), name="state"
    )


@pytest.fixture(scope="module")
def fitted() -> LatentClassifier:
    return LatentClassifier(1, structure="per_class", random_state=0).fit(*exclusive(600))


def loss_of(chances: np.ndarray, truth: pd.Series) -> float:
    return -float(np.log(np.where(truth == "ill", chances[:, 0], chances[:, 1])).mean())


def test_rows_with_many_missing_values_are_predicted_as_well_as_by_the_fitted_network(fitted: LatentClassifier) -> None:
    X, y = exclusive(2000, 1)
    refined, alone = OpinionPool((fitted.decision_network_,)), OpinionPool((fitted.network_,))
    for share in (0.0, 0.3, 0.6, 0.9):
        hidden = X.mask(np.random.default_rng(2).random(X.shape) < share)
        codes = fitted._coded(hidden)
        each = [loss_of(pool.messages(codes, ["state"])["state"], y) for pool in (refined, alone)]
        assert loss_of(fitted.predict_proba(hidden), y) < min(each) + 0.01
    complete = fitted._coded(X)
    np.testing.assert_array_equal(fitted.predict_proba(X), refined.messages(complete, ["state"])["state"])


def test_an_empty_row_has_the_shares_of_the_classes(fitted: LatentClassifier) -> None:
    X, _ = exclusive(2)
    shares = fitted.network_.propagate(None, keep=["state"]).marginal("state")[0]
    np.testing.assert_allclose(fitted.predict_proba(X.mask(X.notna()))[0], shares, atol=1e-12)
    told = fitted.explain(X.iloc[[0]])
    place = fitted.classes_.tolist().index(told.state)
    assert told.prior == pytest.approx(np.log(shares[place] / (1 - shares[place])))


def test_a_row_is_predicted_alike_alone_and_among_others(fitted: LatentClassifier) -> None:
    X, _ = exclusive(40, 3)
    hidden = X.mask(np.random.default_rng(0).random(X.shape) < np.linspace(0, 1, 40)[:, None])
    together = fitted.predict_proba(hidden)
    for row in range(40):
        np.testing.assert_array_equal(fitted.predict_proba(hidden.iloc[[row]])[0], together[row])


def test_all_answers_about_the_class_agree(fitted: LatentClassifier) -> None:
    """Of `predict`, `explain` and `complete`, for a row with missing values."""
    X, _ = exclusive(30, 4)
    hidden = X.mask(np.random.default_rng(1).random(X.shape) < 0.6)
    chances, named = fitted.predict_proba(hidden), hidden.assign(state=None)
    imputed = fitted.complete(named)["state"]
    assert imputed.tolist() == fitted.predict(hidden).tolist()
    for row in range(5):
        told = fitted.explain(hidden.iloc[[row]])
        assert told.probability == pytest.approx(chances[row].max())


def test_the_weight_is_saved_and_a_file_without_it_predicts_as_before(
    fitted: LatentClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = exclusive(30, 4)
    hidden = X.mask(np.random.default_rng(1).random(X.shape) < 0.6)
    fitted.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.decision_weight_ == fitted.decision_weight_
    np.testing.assert_array_equal(again.predict_proba(hidden), fitted.predict_proba(hidden))

    def written(change: Any) -> Path:
        def forged(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
            return container_bytes({**document, "decision": change(document["decision"])}, tensors)

        monkeypatch.setattr(model_file, "container_bytes", forged)
        (tmp_path / "f.fgrn").write_bytes(model_file._model_bytes(fitted, model_file._record_of(fitted)))
        return tmp_path / "f.fgrn"

    before = fgrn.load(written(lambda record: {"tensor": record["tensor"]}))
    assert not hasattr(before, "decision_weight_")
    refined = OpinionPool((fitted.decision_network_,)).messages(fitted._coded(hidden), ["state"])["state"]
    np.testing.assert_array_equal(before.predict_proba(hidden), refined)
    for wrong in ({"usual": 0.0, "power": 1.0}, {"usual": 1.0, "power": -1.0}, {"usual": 1.0}, [], {"usual": "x"}):
        path = written(lambda record, wrong=wrong: {**record, "weight": wrong})
        with pytest.raises(fgrn.ModelFileError, match=r"weight that is not positive|has"):
            fgrn.load(path)


def test_learning_another_batch_drops_the_weight(fitted: LatentClassifier) -> None:
    X, y = exclusive(100)
    model = LatentClassifier(1, structure="per_class", random_state=0).fit(X, y)
    assert hasattr(model, "decision_weight_")
    with pytest.warns(fgrn.FgrnWarning, match="dropped the tables"):
        model.partial_fit(X, y)
    assert not hasattr(model, "decision_weight_")


@pytest.mark.filterwarnings("ignore::fgrn.EmptyColumnWarning")
def test_a_table_of_which_hardly_anything_is_known_is_learnt() -> None:
    X = pd.DataFrame({"a": pd.Series([None] * 40, dtype=object), "b": ["x", "y"] * 20})
    X.loc[5:, "b"] = None
    model = LatentClassifier(random_state=0).fit(X, pd.Series(["u", "v"] * 20))
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_row_that_only_the_fitted_network_rules_out_is_predicted_by_refined_tables() -> None:
    sizes = {"L": 2, "a": 2, "b": 2}
    tables = {"a": [[0.7, 0.3], [0.4, 0.6]], "b": [[0.5, 0.5], [0.2, 0.8]]}
    refined = fgrn.naive_bayes(sizes, class_variable="L", tables=tables)
    general = fgrn.naive_bayes(sizes, class_variable="L", tables={**tables, "a": [[1.0, 0.0], [1.0, 0.0]]})
    pool = OpinionPool((refined,), general, RefinedWeight(2.0, 1.0))
    rows = {"a": [1, 1, 0], "b": [0, None, None]}
    found = pool.messages(rows, ["L"])["L"]
    np.testing.assert_array_equal(found[:2], refined.posterior(rows, "L")[:2])
    both = np.sqrt(refined.posterior(rows, "L")[2] * general.posterior({"a": [0]}, "L")[0])
    np.testing.assert_allclose(found[2], both / both.sum())
    told = explained_by(pool, {"a": 1, "b": 0}, "L")
    assert told.probability == pytest.approx(found[0].max())


def test_complete_rows_with_weights_are_predicted_by_refined_tables_alone() -> None:
    """The mean number of known values is not rounded above their number."""
    X, y = exclusive(200)
    for seed in range(5):
        weights = np.random.default_rng(seed).random(200) + 0.1
        model = LatentClassifier(1, structure="per_class", random_state=0).fit(X, y, sample_weight=weights)
        assert model.decision_weight_.usual == X.shape[1]


def test_a_small_table_is_weighed_on_all_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        classifier_choice, "best_refined_weight", lambda usual, parts: seen.append(parts) or RefinedWeight(usual, 1.0)
    )
    LatentClassifier(1, structure="per_class", random_state=0).fit(*exclusive(60))
    assert [len(parts) for parts in seen] == [5]
    LatentClassifier(1, structure="per_class", random_state=0).fit(*exclusive(6000))
    assert len(seen[1]) < 3  # of three: these are rows enough
    assert best_refined_weight(9.0, []) == RefinedWeight(9.0, incomplete_rows.USUAL_POWER)


@pytest.mark.parametrize("structure", ["per_class", "tan"])
def test_factors_of_levels_are_not_searched_for_when_the_seconds_are_over(
    structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def counted(*arguments: Any) -> np.ndarray:
        searched.append(1)
        return minimised(*arguments)

    monkeypatch.setattr(incomplete_rows, "minimised", counted)
    X, y = exclusive(600)
    options = {"structure": structure, "refine": 1.0, "random_state": 0}
    for seconds, at_least in ((None, 2), (1e9, 2), (1e-9, 0)):
        searched.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LatentClassifier(1, max_seconds=seconds, **options).fit(X, y)
        assert len(searched) >= at_least
        assert bool(searched) == bool(at_least)
        assert model.decision_weight_.usual == X.shape[1]


def test_seconds_that_end_while_factors_are_searched_for_keep_the_factors_so_far() -> None:
    rows = incomplete_rows.with_hidden_values(some_rows(), "y", 0)
    family, model = some_model("tan", rows)
    asked: list[int] = []

    def after_some_steps() -> bool:
        asked.append(1)
        return len(asked) > 4

    short = with_level_factors(family, model, rows, after_some_steps)
    assert len(asked) == 5  # asked before each evaluation
    likelihoods = [family.conditional(one, rows).gain(one._parameters.values)[0] for one in (model, short)]
    assert likelihoods[1] > likelihoods[0]
    assert with_level_factors(family, model, rows, lambda: True) is model


def test_fewer_rows_are_used_for_factors_of_levels_in_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = incomplete_rows.with_hidden_values(some_rows(2000), "y", 0)
    family, model = some_model("tan", rows)
    used: list[int] = []
    conditional = ClassFamily.conditional
    monkeypatch.setattr(
        ClassFamily, "conditional", lambda self, one, some: used.append(some.rows) or conditional(self, one, some)
    )
    needed = 2 * incomplete_rows.ITERATIONS * family.size_of(model, rows)[2] / incomplete_rows.WORK_PER_SECOND
    for seconds in (np.inf, 1e9, needed / 2):
        with_level_factors(family, model, rows, seconds=seconds)
    assert used == [2000, 2000, 1000]
    assert with_level_factors(family, model, rows, seconds=needed / 20) is model


def test_seconds_are_kept_for_rows_with_missing_values() -> None:
    assert incomplete_rows.seconds_to_keep(None, 1e9, 100) == 0.0
    assert incomplete_rows.seconds_to_keep(1.0, 1e9, 100) == pytest.approx(0.2)
    assert incomplete_rows.seconds_to_keep(1e6, 1e9, 100) == pytest.approx(2.0)  # more work is never done
    few, many = (incomplete_rows.seconds_to_keep(1e6, 1e3 * rows, rows) for rows in (1_000, 1_000_000))
    assert few < many == pytest.approx(4 * few)
    budget = Budget(100.0, lambda: False, begun=time.monotonic() - 50)
    assert not budget.must_end()
    budget.keep_half()
    assert budget.kept == pytest.approx(25.0, abs=0.1)
    budget.kept = 51.0
    assert budget.must_end()
    budget.release()
    assert not budget.must_end()


@pytest.mark.parametrize(
    "options",
    [{}, {"structure": "tan"}, {"n_hidden": 2, "structure": "per_class"}, {"n_hidden": 3}],
    ids=["default", "tan", "per class", "shared"],
)
@pytest.mark.parametrize("place", [0, 9], ids=["first", "last"])
def test_a_column_of_one_value_has_no_effect(options: dict[str, Any], place: int) -> None:
    """Complete rows, rows with missing values, and rows in which this one is missing are predicted as without it."""
    X, y = exclusive(150)
    rng = np.random.default_rng(2)
    hidden = X.mask(rng.random(X.shape) < 0.5)
    values = pd.Series(np.where(rng.random(150) < 0.8, "same", None))
    wider, wider_hidden = X.copy(), hidden.copy()
    wider.insert(place, "constant", values)
    wider_hidden.insert(place, "constant", values)
    model, other = (LatentClassifier(random_state=0, **options).fit(table, y) for table in (X, wider))
    np.testing.assert_allclose(other.predict_proba(wider), model.predict_proba(X), atol=1e-7)
    expected = model.predict_proba(hidden)
    for asked in (wider_hidden, wider_hidden.assign(constant="same"), wider_hidden.assign(constant=None)):
        np.testing.assert_allclose(other.predict_proba(asked), expected, atol=1e-7)
    told = other.explain(wider_hidden.assign(constant="same").iloc[[0]])
    assert told.contributions["constant"] == pytest.approx(0, abs=1e-12)
    assert other.complete(wider_hidden)["constant"].tolist() == ["same"] * 150


def test_columns_of_one_value_alone_tell_the_shares_of_the_classes() -> None:
    y = pd.Series(["u"] * 30 + ["v"] * 10)
    model = LatentClassifier(random_state=0).fit(pd.DataFrame({"a": ["x"] * 40, "b": [1] * 40}), y)
    np.testing.assert_allclose(model.predict_proba(pd.DataFrame({"a": ["x", None], "b": [1, 1]})), [[0.75, 0.25]] * 2)


def test_candidates_of_few_rows_are_compared_by_compiled_kernels() -> None:
    """Each of their many E-steps is little work, and all of them are much."""
    net = fgrn.class_mixture(OBSERVED, "y", 1)
    family = ClassFamily("per_class", lambda size, table: net, "y", "S", 0.5)
    assert family._engine(net, some_rows(100)).name == "cpu"
    assert family._engine(net, some_rows(2)).name == "reference"
