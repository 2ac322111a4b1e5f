"""Classifiers that are chosen for the class: states per class, tables refined for it, and how they are compared."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_info, threadpool_limits

import fgrn
from fgrn import LatentClassifier, NaiveBayesClassifier
from fgrn.bayes.class_trees import HiddenTreeFamily, class_hidden_tree, class_tree_mixture, tree_of_columns
from fgrn.cli import main
from fgrn.cli.choosing import Refining
from fgrn.cli.fit_report import _selection_lines
from fgrn.cli.fitting import fit
from fgrn.cli.wording import spoken
from fgrn.core.distributions import geometric_mean
from fgrn.core.exceptions import ConvergenceWarning, FgrnWarning
from fgrn.core.progress import ReadingProgress
from fgrn.engines import star_counts
from fgrn.estimators import _bin_choice, classifiers
from fgrn.files import model_file
from fgrn.files.container import container_bytes
from fgrn.graph.class_family import ClassFamily
from fgrn.learning.calibration import HOTTEST, Calibration, CalibrationSearch, Predictions, can_fit_matrix
from fgrn.learning.choice_budget import MOST_WORK, Budget
from fgrn.learning.classifier_choice import ClassSearch, _HeldOutLosses
from fgrn.learning.conditional import Conditional, Penalty
from fgrn.learning.criteria import EQUAL, ClassCandidate, ClassSelection
from fgrn.learning.cross_validation import PartedRows, _different_rows, mean_and_error
from fgrn.learning.optimiser import minimised
from fgrn.learning.repeated_rows import are_copies
from fgrn.queries.opinion_pool import OpinionPool
from fgrn.tables.encoded import Evidence
from fgrn.tables.frames import Coded

pytestmark = pytest.mark.filterwarnings("ignore:The best number of hidden states")

QUICK: dict[str, Any] = {"random_state": 0, "engine": "cpu", "max_hidden": 2}


def exclusive(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Classes that no column tells alone: whether two of them are equal, nine times of ten; and a missing value."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(0, 2, rows) for _ in range(3))
    y = np.where(rng.random(rows) < 0.9, a == b, a != b)
    frame = pd.DataFrame({"a": np.array(["n", "y"])[a], "b": np.array(["n", "y"])[b], "c": np.array(["n", "y"])[c]})
    frame.loc[::17, "c"] = None
    return frame, pd.Series(np.where(y, "same", "other"), name="kind")


def three_classes(rows: int = 300) -> tuple[dict[str, int], dict[str, Coded]]:
    """Columns of three and two levels that tell a class of three."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, rows)
    a = np.where(rng.random(rows) < 0.6, y, rng.integers(0, 3, rows))
    b = (rng.random(rows) < 0.2 + 0.3 * y).astype(int)
    codes = {"a": a, "b": b, "y": y}
    return {"a": 3, "b": 2, "y": 3}, {name: Coded(column.astype(np.int32)) for name, column in codes.items()}


def encoded(data: dict[str, Coded], weights: Any = None) -> Evidence:
    codes = np.stack([column.codes for column in data.values()], axis=1)
    return Evidence.of_codes(tuple(data), codes, None if weights is None else np.asarray(weights, dtype=float))


FAMILY = ClassFamily("per_class", lambda size, rows: fgrn.class_mixture({}, "y", size), "y", "S", 0.5, "reference")


def conditional(net: fgrn.Network, data: dict[str, Coded], weights: Any = None) -> Conditional:
    return FAMILY.conditional(net, encoded(data, weights))


def learnt(states: dict[str, int], data: dict[str, Coded], hidden: int) -> fgrn.Network:
    net = fgrn.class_mixture(states, "y", hidden)
    net.learn(data, epochs=20, smoothing=0.5, engine="reference")
    return net


# Trees


@pytest.mark.parametrize("hidden", [1, 2])
def test_the_network_of_a_tree_per_state_is_the_bayesian_network(hidden: int) -> None:
    """The oracle sums over everything unknown in the Bayesian network S -> class, (S, other column) -> column."""
    states, data = three_classes(200)
    rng = np.random.default_rng(2)
    data["c"] = Coded(np.where(rng.random(200) < 0.7, data["a"].codes, rng.integers(0, 3, 200)).astype(np.int32))
    observed = {name: list(range(size)) for name, size in {**states, "c": 3}.items()}
    rows = encoded(data)
    net = class_tree_mixture(observed, "y", hidden, tree_of_columns(observed, "y", rows))
    net.learn(rows, epochs=5, smoothing=0.5, engine="reference")
    arcs = fgrn.tan(data, "y", states=observed).arcs
    assert {(one, other) for one, other in arcs if one != "y"} == {("a", "c")} | {("a", "b")} & set(arcs)
    data["a"].codes[::5] = -1
    parents = {"y": ("S",), **{child: ("S", *(p for p, c in arcs if c == child and p != "y")) for child in "abc"}}
    labels = net.variable("S").labels
    tables = {name: net.table(name) for name in ("S", *"abcy")}
    oracle = fgrn.BayesianNetwork({"S": labels, **observed}, parents, tables)
    asked = {name: data[name] for name in "abc"}
    assert net.posterior(asked, "y") == pytest.approx(oracle.posterior(asked, "y"), abs=1e-12)
    assert hidden > 1 or net.posterior(asked, "S") == pytest.approx(net.posterior(asked, "y"), abs=1e-12)


def test_a_classifier_of_one_tree_is_tan() -> None:
    """The oracle is `fgrn.tan` with the same smoothing; the class is counted as it is."""
    X, y = exclusive(150)
    X = X.fillna("n")
    settings: dict[str, Any] = {"refine": False, "smoothing": 1.0, "tol": 0, "n_epochs": 3}
    model = LatentClassifier(1, structure="tan", **{**QUICK, **settings}).fit(X, y)
    assert (model.structure_, model.n_hidden_) == ("tan", 2)
    oracle = fgrn.tan(pd.concat([X, y], axis=1), "kind", smoothing=dict.fromkeys(X, 1.0), penalty="aic")
    assert model.predict_proba(X) == pytest.approx(oracle.posterior(X, "kind"), abs=1e-9)


def test_a_classifier_of_trees_takes_missing_values_and_is_saved_whole(tmp_path: Path) -> None:
    X, y = exclusive()
    X.loc[::3, "a"] = None
    model = LatentClassifier(2, structure="tan", **QUICK).fit(X, y)
    assert model.n_hidden_ == 4
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.structure_ == "tan"
    told, chance = model.explain(X.iloc[[3]]), model.predict_proba(X.iloc[[3]]).max()
    assert told.probability == pytest.approx(chance)
    assert set(model.prototypes_) == {"other", "same"}
    assert model.complete(X).notna().all(axis=None)
    assert model.embed(X).shape == (len(X), 4)


def test_the_network_of_hidden_trees_is_the_bayesian_network() -> None:
    """The oracle sums over everything unknown in the Bayesian network S -> class, S:a -> a, S -> S:a ..."""
    states, data = three_classes(200)
    rng = np.random.default_rng(2)
    data["c"] = Coded(np.where(rng.random(200) < 0.7, data["a"].codes, rng.integers(0, 3, 200)).astype(np.int32))
    observed = {name: list(range(size)) for name, size in {**states, "c": 3}.items()}
    rows = encoded(data)
    net = class_hidden_tree(observed, "y", [2, 1, 3], rows)
    family = HiddenTreeFamily("tree", lambda size, rows: net, "y", "S", dict.fromkeys(observed, 0.5), "reference")
    family.learn(net, rows, 5, 0.0)
    links = [block for block in net.blocks if isinstance(block, fgrn.SISO)]
    parents = {block.output.name: (block.input.name.split("->")[0],) for block in links}
    hidden = {name: net.variable(name).labels for name in ("S", *parents) if name not in observed}
    tables = {"S": net.prior("S"), **{name: net.table(name) for name in parents}}
    assert len(hidden) == 3
    for name in set(hidden) - {"S"}:  # states of a class lead to states of that class
        assert tables[name][:2, :2].sum(axis=1) == pytest.approx(1)
        assert tables[name][2, 2] == 1
    oracle = fgrn.BayesianNetwork({**hidden, **observed}, parents, tables)
    data["a"].codes[::5] = -1
    asked = {name: data[name] for name in "abc"}
    assert net.posterior(asked, "y") == pytest.approx(oracle.posterior(asked, "y"), abs=1e-12)


def test_a_classifier_of_hidden_trees_goes_beyond_naive_bayes(tmp_path: Path) -> None:
    X, y = exclusive()
    Z, truth = exclusive(seed=1)
    X.loc[::7, "a"] = None
    model = LatentClassifier(2, structure="tree", **QUICK).fit(X, y)
    assert (model.structure_, model.n_hidden_) == ("tree", 4)
    assert model.score(Z, truth) > 0.85
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.structure_ == "tree"
    assert model.explain(X.iloc[[3]]).probability == pytest.approx(model.predict_proba(X.iloc[[3]]).max())
    assert set(model.prototypes_) == {"other", "same"}
    assert model.complete(X).notna().all(axis=None)
    assert model.embed(X).shape == (len(X), 4)


def test_hidden_trees_of_one_state_are_naive_bayes() -> None:
    X, y = exclusive(100)
    X = X.fillna("n").rename(columns={"a": "S:b"})
    settings: dict[str, Any] = {"refine": False, "smoothing": 1.0, "tol": 0, "n_epochs": 3}
    model = LatentClassifier(1, structure="tree", **{**QUICK, **settings}).fit(X, y)
    assert "S_" in {variable.name for variable in model.network_.variables}
    oracle = NaiveBayesClassifier().fit(X, y)
    assert model.predict_proba(X) == pytest.approx(oracle.predict_proba(X), abs=1e-12)


def test_a_penalty_is_lowered_while_that_helps_and_what_is_behind_could_catch_up() -> None:
    weights = np.ones(4)
    before, worse, better = (_HeldOutLosses(np.full(4, loss), weights) for loss in (0.5, 0.51, 0.4))
    assert worse.ends(before)
    assert not better.ends(before)
    dropped = np.array([0.4, 0.4])  # after the first rows, by 0.3 and by 0.5 behind the best
    assert not _HeldOutLosses(dropped, weights[:2], 0.3).ends(before)
    assert _HeldOutLosses(dropped, weights[:2], 0.5).ends(before)


# The optimiser


def test_the_minimum_of_a_curved_valley_is_found() -> None:
    def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = 1 - x[0], x[1] - x[0] ** 2
        return float(a * a + 100 * b * b), np.array([-2 * a - 400 * x[0] * b, 200 * b])

    assert minimised(rosenbrock, np.array([-1.2, 1.0]), 200, 1e-14) == pytest.approx([1, 1], abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_minimum_is_that_of_scipy_with_about_as_many_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(300, 20)) * 10.0 ** rng.uniform(-1, 1, 20), rng.normal(size=20)
    signs = np.where(rng.random(300) < 1 / (1 + np.exp(-rows @ weights)), 1.0, -1.0)
    asked = [0, 0]

    def logistic(x: np.ndarray, who: int) -> tuple[float, np.ndarray]:
        asked[who] += 1
        margin = signs * (rows @ x)
        slope = -signs / (1 + np.exp(margin))
        return float(np.logaddexp(0, -margin).mean() + 0.005 * x @ x), rows.T @ slope / 300 + 0.01 * x

    limits = {"maxiter": 500, "ftol": 1e-13, "gtol": 0.0}
    theirs = minimize(logistic, np.zeros(20), (1,), jac=True, method="L-BFGS-B", options=limits)
    ours = minimised(lambda x: logistic(x, 0), np.zeros(20), 500, 1e-13)
    assert logistic(ours, 0)[0] == pytest.approx(theirs.fun, rel=1e-10)
    assert ours == pytest.approx(theirs.x, abs=1e-4)
    assert asked[0] <= 1.5 * asked[1] + 10


def test_a_small_gradient_at_the_beginning_does_not_end_the_search() -> None:
    def shallow(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(1e-4 * ((x - 3) ** 2).sum()), 2e-4 * (x - 3)

    assert minimised(shallow, np.zeros(2), 30, 1e-6) == pytest.approx([3, 3], abs=0.1)


def test_a_step_into_values_that_are_not_finite_is_shortened() -> None:
    def barrier(x: np.ndarray) -> tuple[float, np.ndarray]:  # its minimum is at 1; nothing is defined below 0
        with np.errstate(invalid="ignore", divide="ignore"):
            return float((50 * x - 50 * np.log(x)).sum()), 50 - 50 / x

    assert minimised(barrier, np.array([0.02, 30.0]), 100, 1e-14) == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("slope", [0.0, np.nan, np.inf])
def test_nothing_is_tried_where_the_gradient_is_zero_or_not_finite(slope: float) -> None:
    found = minimised(lambda x: (3.0, np.full(2, slope)), np.array([1.0, 2.0]), 10)
    assert found.tolist() == [1.0, 2.0]


def test_values_that_do_not_fit_their_slopes_end_the_search() -> None:
    """The value rises where the slope says that it falls: the interval shrinks to nothing."""

    def turning(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(1 - x[0] / 2 if x[0] <= 0.1 else 0.95 + 50 * (x[0] - 0.1)), np.array([-1.0])

    assert minimised(turning, np.zeros(1), 1, 0.0) == pytest.approx([0.1])


def test_the_threads_of_blas_are_those_of_before_when_the_last_minimum_is_found() -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def inner(x: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(threads())
        return float((x**2).sum()), 2 * x

    def outer(x: np.ndarray) -> tuple[float, np.ndarray]:
        minimised(inner, x, 1)
        return inner(x)

    seen: list[set[int]] = []
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        minimised(outer, np.ones(2), 2)
        assert threads() == before
    assert set.union(*seen) == {1}


@pytest.mark.parametrize("seed", range(5))
def test_compiled_directions_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, signs = rng.normal(size=(40, 23)), rng.choice([-1.0, 1.0], 40)
    points: dict[bool, list[np.ndarray]] = {False: [], True: []}

    def logistic(x: np.ndarray, compiled: bool) -> tuple[float, np.ndarray]:
        points[compiled].append(x.copy())
        margins = signs * (data @ x)
        slope = -(signs / (1 + np.exp(margins))) @ data + 0.01 * x
        return float(np.log1p(np.exp(-margins)).sum() + 0.005 * x @ x), slope

    for compiled in (False, True):
        minimised(lambda x, how=compiled: logistic(x, how), np.zeros(23), 40, 1e-12, compiled=compiled)
    assert len(points[False]) == len(points[True]) > 15
    np.testing.assert_allclose(points[True], points[False], atol=1e-8)


def test_the_optimiser_ends_when_it_is_asked_to() -> None:
    seen: list[int] = []

    def square(x: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(1)
        return float((x**4).sum()), 4 * x**3

    minimised(square, np.full(3, 5.0), 100, 0.0, lambda: True)
    assert len(seen) < 10


# Conditional likelihood


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("scale", [1.0, 60.0])  # with 60 some cells are less than the least probability
@pytest.mark.parametrize("hidden", [1, 2])
def test_the_gradient_is_that_of_the_conditional_likelihood(hidden: int, scale: float, engine: str) -> None:
    states, data = three_classes()
    data["a"].codes[::7] = -1  # missing values
    task = replace(FAMILY, engine=engine).conditional(learnt(states, data, hidden), encoded(data))
    rng = np.random.default_rng(0)
    z = scale * rng.normal(size=task._spec.layout.size)
    _, slope = task.log_likelihood(z)
    for _ in range(5):
        step = 1e-5 * rng.normal(size=len(z))
        difference = (task.log_likelihood(z + step)[0] - task.log_likelihood(z - step)[0]) / 2
        assert difference == pytest.approx(slope @ step, rel=1e-5)


def test_the_conditional_likelihood_is_what_the_posterior_says() -> None:
    states, data = three_classes()
    net = learnt(states, data, 2)
    task = conditional(net, data)
    found = net.posterior({name: data[name] for name in "ab"}, "y")
    expected = np.log(found[np.arange(300), data["y"].codes]).sum()
    assert task.log_likelihood(np.log(np.maximum(net._parameters.values, 1e-12)))[0] == pytest.approx(expected)


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_naive_bayes_refined_is_logistic_regression(strength: float) -> None:
    """The oracle is scikit-learn's, on indicators of the levels, with the inverse of the strength as its C."""
    states, data = three_classes()
    model = learnt(states, data, 1)
    task = conditional(model, data)
    net = FAMILY.with_tables(model, task.values(task.maximised(Penalty(strength), 500, 1e-13)))
    found = net.posterior({name: data[name] for name in "ab"}, "y")
    table = OneHotEncoder().fit_transform(np.stack([data["a"].codes, data["b"].codes], axis=1))
    oracle = LogisticRegression(C=1 / strength, max_iter=5000, tol=1e-10).fit(table, data["y"].codes)
    assert found == pytest.approx(oracle.predict_proba(table), abs=1e-3)


def test_weights_are_copies_of_rows_for_the_conditional_likelihood() -> None:
    states, data = three_classes(60)
    times = np.arange(60) % 3
    net = learnt(states, data, 2)
    many = {name: Coded(np.repeat(column.codes, times)) for name, column in data.items()}
    z = np.random.default_rng(0).normal(size=net._spec.layout.size)
    one, other = conditional(net, data, times).log_likelihood(z), conditional(net, many).log_likelihood(z)
    assert one[0] == pytest.approx(other[0])
    assert one[1] == pytest.approx(other[1], abs=1e-9)


def test_neighbouring_levels_are_drawn_together_where_they_have_an_order() -> None:
    """A level that was never seen with a class is told by its neighbours."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 8, 400)
    y = (rng.random(400) < age / 8).astype(np.int32)
    kept = age != 4
    data = {"age": Coded(age[kept].astype(np.int32)), "y": Coded(y[kept])}
    model = learnt({"age": 8, "y": 2}, data, 1)
    task = conditional(model, data)
    chance = {}
    for ordered in ((), ("age",)):
        found = task.maximised(Penalty(1.0, "independence", ordered), 300, 1e-12)
        net = FAMILY.with_tables(model, task.values(found))
        chance[ordered] = net.posterior({"age": Coded(np.arange(8, dtype=np.int32))}, "y")[:, 1]
    assert chance["age",][3] < chance["age",][4] < chance["age",][5]
    assert abs(chance["age",][4] - 0.5) < abs(chance[()][4] - 0.5) + 0.05


def test_a_penalty_that_is_none_is_refused() -> None:
    with pytest.raises(fgrn.LearningError, match="strength"):
        Penalty(-1.0)
    with pytest.raises(fgrn.LearningError, match="towards"):
        Penalty(1.0, "nowhere")


# Profiles


@pytest.mark.parametrize(
    "model",
    [
        NaiveBayesClassifier(smoothing=1.0),
        LatentClassifier(2, structure="per_class", refine=False, smoothing=1.0, random_state=0, n_init=1),
        LatentClassifier(1, structure="tan", refine=False, smoothing=1.0, random_state=0, n_init=1),
    ],
    ids=["naive Bayes", "per class", "tan"],
)
def test_a_value_that_no_row_of_a_class_has_is_never_typical_of_it(model: Any) -> None:
    """In a class of few rows, smoothing makes rare values of the others many times as frequent as in general."""
    rng = np.random.default_rng(0)
    y = np.repeat(["many", "few"], [300, 8])
    a = np.where(
        y == "few", rng.choice(["p", "q"], 308), rng.choice(["p", "q", "r", "s"], 308, p=[0.5, 0.48, 0.01, 0.01])
    )
    table = pd.DataFrame({"a": a, "b": np.where(y == "few", "u", rng.choice(["u", "v"], 308))})
    found = model.fit(table, y).prototypes_
    assert found["few"]["a"]["r"] > 2 * found.baseline["a"]["r"]
    for label in ("few", "many"):
        told = found.typical(label)
        rows = table[y == label]
        assert told
        assert all((rows[one.column] == one.level).any() for one in told)
        assert all(one.lift == pytest.approx(one.probability / found.baseline[one.column][one.level]) for one in told)
    assert found.typical("few")[0][:2] == ("b", "u")
    assert len(found.typical("many", 1)) == 1


def test_profiles_are_shown_as_text_page_and_frame_for_many_classes_and_columns() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 19, 1000)
    table = {
        f"column {number}": (rng.random(1000) < (y == number % 19) * 0.8 + 0.1).astype(int) for number in range(40)
    }
    found = NaiveBayesClassifier().fit(table, [f"class {label}" for label in y]).prototypes_
    text, page, frame = str(found), found._repr_html_(), found.to_frame()
    assert text.count("class ") == 19
    assert len(text.splitlines()) < 19 * 9
    assert f"class 3  ({found.shares['class 3']:.1%})" in text
    assert page.count("<tr>") == 20
    assert "column 3 = 1" in page
    assert list(frame) == ["state", "share", "column", "level", "probability", "baseline", "lift", "seen"]
    assert len(frame) == 19 * 40 * 2
    assert (frame["share"] * frame["probability"]).sum() == pytest.approx(40)


# Temperature


@pytest.mark.parametrize("structure", ["per_class", "tan", "tree"])
@pytest.mark.parametrize("temperature", [0.8, 1.5])
def test_a_temperature_is_a_power_of_what_is_told_of_the_class(structure: str, temperature: float) -> None:
    """With one state a class, and no value missing; the oracle raises the probabilities themselves."""
    X, y = exclusive(150)
    X = X.fillna("n")
    net = LatentClassifier(1, structure=structure, refine=False, **{**QUICK, "engine": "reference"}).fit(X, y).network_
    kind = HiddenTreeFamily if structure == "tree" else ClassFamily
    family = kind(structure, FAMILY.build, "kind", "S", 0.5, "reference")
    tempered = family.calibrated(net, Calibration(temperature))
    powers = net.posterior(X, "kind") ** (1 / temperature)
    assert tempered.posterior(X, "kind") == pytest.approx(powers / powers.sum(axis=1, keepdims=True), abs=1e-12)
    lines = tempered._spec.layout.lines
    assert np.add.reduceat(tempered._parameters.values, lines) == pytest.approx(np.ones(len(lines)))


@pytest.mark.parametrize("structure", ["per_class", "tan", "tree"])
def test_a_matrix_changes_what_is_told_of_the_class(structure: str) -> None:
    """With one state a class, and no value missing; the oracle changes the logarithms of the probabilities."""
    states, data = three_classes(150)
    observed = {name: list(range(count)) for name, count in states.items()}
    build = {
        "per_class": lambda: fgrn.class_mixture(states, "y", 1),
        "tan": lambda: class_tree_mixture(observed, "y", 1, tree_of_columns(observed, "y", encoded(data))),
        "tree": lambda: class_hidden_tree(observed, "y", 1, encoded(data)),
    }
    net = build[structure]()
    net.learn(data, epochs=5, smoothing=0.5, engine="reference")
    kind = HiddenTreeFamily if structure == "tree" else ClassFamily
    mixing, offsets = np.array([[0.2, -0.1, 0.0], [0.3, -0.4, 0.1], [0.0, 0.2, 0.5]]), np.array([0.5, 0.0, -0.2])
    found = kind(structure, FAMILY.build, "y", "S", 0.5, "reference").calibrated(
        net, Calibration(1.25, mixing, offsets)
    )
    rows = {name: column for name, column in data.items() if name != "y"}
    logs = np.log(net.posterior(rows, "y"))
    logs = (logs - logs.mean(axis=1, keepdims=True)) / 1.25
    told = np.exp(logs + logs @ mixing + offsets)
    assert found.posterior(rows, "y") == pytest.approx(told / told.sum(axis=1, keepdims=True), abs=1e-12)
    lines = found._spec.layout.lines
    assert np.add.reduceat(found._parameters.values, lines) == pytest.approx(np.ones(len(lines)))


def test_the_matrix_is_that_of_the_least_penalised_log_loss() -> None:
    """One class is told too unsurely, two are told apart too surely; few rows leave the temperature as it is."""
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(4_000, 3)) * [2.0, 1.0, 1.0]
    logs -= logs.mean(axis=1, keepdims=True)
    true = logs @ np.array([[1.6, -0.3, -0.3], [-0.3, 0.7, 0.1], [-0.3, 0.1, 0.7]])
    chances = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
    classes = (rng.random((4_000, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=2)
    told = Predictions.of(np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), classes, np.ones(4_000))
    found = told.fitted_matrix()
    moved = logs + found.matrix_terms(logs.T).T + found.offsets
    after = Predictions.of(np.exp(moved) / np.exp(moved).sum(axis=1, keepdims=True), classes, np.ones(4_000))
    right = -np.log(chances[np.arange(4_000), classes]).mean()
    assert after.losses().mean() == pytest.approx(right, abs=0.002)
    assert told.losses(told.temperature).mean() > right + 0.03
    few = replace(told, weights=np.full(4_000, 1e-4)).fitted_matrix()
    assert few.mixing is not None
    assert np.abs(few.mixing).max() < 0.05


def told_by(told: Predictions, counted: list[Calibration]) -> Callable[[Calibration], Predictions]:
    """A classifier that tells this of some rows unless it is calibrated; how it was is noted."""

    def predicted(calibration: Calibration) -> Predictions:
        counted.append(calibration)
        offsets = 0.0 if calibration.offsets is None else calibration.offsets
        logs = told.logs / calibration.temperature + calibration.matrix_terms(told.logs.T).T + offsets
        return Predictions.of(np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), told.classes, told.weights)

    return predicted


def dealt_out(logs: np.ndarray, true: np.ndarray, parts: int) -> list[Callable[[Calibration], Predictions]]:
    """Classifiers that tell some logarithms of classes drawn by others, each for its part of the rows."""
    rng = np.random.default_rng(0)
    chances = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
    classes = (rng.random((len(true), 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=true.shape[1] - 1)
    told = Predictions.of(np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), classes, np.ones(len(true)))
    return [told_by(told.some(slice(part, None, parts)), []) for part in range(parts)]


@pytest.mark.parametrize("parts", [1, 5])
def test_a_matrix_is_used_only_where_rows_gain_that_it_was_not_fitted_to(parts: int) -> None:
    """What is told rightly of few rows with many classes stays; rows that a matrix was fitted to gain by it always."""
    rng = np.random.default_rng(1)
    few = 1.5 * rng.normal(size=(200, 8))
    right = dealt_out(few, few, parts)
    before = Predictions.of_all(part(Calibration()) for part in right)
    assert Predictions.of_all(part(before.fitted_matrix()) for part in right).mean_loss < before.mean_loss - 0.05
    assert CalibrationSearch(right).with_matrix_if_better(Calibration()).changes_nothing
    logs = rng.normal(size=(1_000, 3)) * [2.0, 1.0, 1.0]
    wrong = dealt_out(logs, logs @ np.array([[1.6, -0.3, -0.3], [-0.3, 0.7, 0.1], [-0.3, 0.1, 0.7]]), parts)
    found = CalibrationSearch(wrong).with_matrix_if_better(Calibration(1.1))
    assert found.temperature == 1.1
    assert found.mixing is not None


def test_calibrating_ends_with_the_budget() -> None:
    logs = np.random.default_rng(0).normal(size=(300, 3))
    whole: list[Calibration] = []
    over: list[Calibration] = []
    told = dealt_out(5 * logs, logs, 1)[0](Calibration())
    found = CalibrationSearch([told_by(told, whole)]).best_temperature(3.0)
    assert found.temperature == pytest.approx(5, rel=0.2)
    assert len(whole) > 5
    search = CalibrationSearch([told_by(told, over)], lambda: False)
    assert search.best_temperature(3.0).temperature == 3.0
    assert search.with_matrix_if_better(Calibration(3.0)).mixing is None
    assert len(over) == 2
    assert not can_fit_matrix(100, 2)
    assert not can_fit_matrix(100_000, 20)


@pytest.mark.parametrize("missing", [False, True])
def test_a_temperature_is_searched_on_the_network_where_values_are_missing(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In complete rows, with one state a class, it is exactly what was evaluated: nothing more is asked."""
    columns, y = repeated_columns()
    monkeypatch.setattr(CalibrationSearch, "best_temperature", lambda search, temperature: Calibration(7.0))
    monkeypatch.setattr(
        CalibrationSearch, "with_matrix_if_better", lambda search, calibration: pytest.fail("there are two classes")
    )
    rows: dict[str, Any] = {name: column.tolist() for name, column in columns.items()}
    rows["c7"][3] = None if missing else 1
    model = LatentClassifier(1, structure="per_class", refine=3.0, **QUICK).fit(rows, y)
    assert (model.selection_.temperature == 7.0) == missing


@pytest.mark.parametrize("sureness", [0.3, 1.0, 2.5])
def test_the_temperature_is_that_of_the_least_log_loss(sureness: float) -> None:
    """Probabilities that were raised to a power get the one that undoes it; what is told nearly right stays."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet([1, 1, 1], 4_000)
    classes = (rng.random((4_000, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=2)
    weights = rng.integers(1, 3, 4_000) * 1.0
    powers = chances**sureness
    told = Predictions.of(powers / powers.sum(axis=1, keepdims=True), classes, weights)
    found = told.temperature
    assert found == pytest.approx(sureness, rel=0.1)
    assert found == 1.0 or sureness != 1.0
    least = np.average(told.losses(found), weights=weights)
    for factor in (0.97, 1.03):
        assert np.average(told.losses(found * factor), weights=weights) >= least - 1e-5
    assert told.losses() == pytest.approx(-np.log(powers[np.arange(4_000), classes] / powers.sum(axis=1)))


def test_the_temperature_has_limits() -> None:
    """Many rows told rightly allow any low temperature; rows told wrongly, or impossible ones, any high one."""
    right = Predictions.of(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.full(2, 1e9))
    assert right.temperature == pytest.approx(1 / HOTTEST, rel=0.01)
    assert replace(right, weights=np.full(2, 10.0)).temperature > 2 / HOTTEST  # so few rows may be right by chance
    wrong = Predictions.of(np.array([[0.9, 0.1], [0.0, 1.0], [np.nan, np.nan]]), np.array([1, 0, 1]), np.ones(3))
    assert wrong.temperature == pytest.approx(HOTTEST, rel=0.01)
    assert np.isfinite(wrong.losses()).all()


def test_every_candidate_is_judged_at_its_own_temperature() -> None:
    """Columns that repeat each other make naive Bayes far too sure, but not wrong."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    column = np.where(rng.random(300) < 0.8, y, 1 - y)
    model = LatentClassifier(structure="per_class", **QUICK).fit({f"c{n}": column for n in range(8)}, y)
    bayes = model.selection_.candidates[0]
    assert (bayes.towards, bayes.size) == ("", 1)
    assert bayes.temperature > 4
    assert bayes.log_loss == pytest.approx(0.5, abs=0.06)  # the entropy of the class, given the column


def test_a_candidate_has_to_be_better_by_a_share_of_the_log_loss() -> None:
    tried = tuple(ClassCandidate("tan", 1, 2, "", 0.0, loss, 0.1, 9) for loss in (0.5, 0.499, 0.496, 0.49, 0.4895))
    assert ClassSelection(tried).best is tried[3]
    assert f"{tried[3].log_loss:.4f}  0.1000  <- best" in str(ClassSelection(tried))  # of those of its size


def few_rows_and_many_cells() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A table on which naive Bayes is too sure of the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    table = {f"c{n}": np.where(rng.random(200) < 0.35, y, rng.integers(0, 5, 200)) for n in range(8)}
    return table, y


def test_a_temperature_of_wide_trees_leaves_numbers_behind() -> None:
    """Each column of one class is uniform, and known in the other: sums of powers differ by a factor of 500^120."""
    data = {f"c{number}": Coded(np.arange(8, dtype=np.int32)) for number in range(120)}
    observed = {**{name: list(range(500)) for name in data}, "y": [0, 1]}
    rows = encoded({**data, "y": Coded(np.arange(8, dtype=np.int32) % 2)})
    net = class_hidden_tree(observed, "y", 1, rows)
    values = net._parameters.values.copy()
    for name in data:
        table = net._spec.layout.table(values, net._spec.layout.table_number(name))
        table[...] = [np.full(500, 1 / 500), np.eye(500)[0]]
    family = HiddenTreeFamily("tree", FAMILY.build, "y", "S", 0.5, "reference")
    tempered = family.calibrated(family.with_tables(net, values), Calibration(1e9))._parameters.values
    lines = net._spec.layout.lines
    assert np.add.reduceat(tempered, lines) == pytest.approx(np.ones(len(lines)))


def test_a_temperature_of_wide_stars_leaves_numbers_behind() -> None:
    """The prior takes a factor of up to four for each column: its product would overflow."""
    net = fgrn.class_mixture({f"Y{i}": 16 for i in range(600)} | {"y": 2}, "y", 2)
    tempered = FAMILY.calibrated(net, Calibration(1e9))
    lines = tempered._spec.layout.lines
    assert np.add.reduceat(tempered._parameters.values, lines) == pytest.approx(np.ones(len(lines)))


@pytest.mark.parametrize("columns", [20, 400])
def test_held_out_rows_of_many_columns_are_predicted_by_products(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their likelihood, 8^-400, underflows; in logarithms the class has the same probabilities as by messages."""
    rng = np.random.default_rng(0)
    data = {f"Y{i}": Coded(rng.integers(-1, 8, 50, dtype=np.int32)) for i in range(columns)}
    net = fgrn.class_mixture(dict.fromkeys(data, 8) | {"y": 2}, "y", 1)
    family, rows = replace(FAMILY, engine="auto"), encoded(data)
    model = family.with_tables(net, family.scaled(net, 0.1 * rng.random(net._spec.layout.size)))
    exact = replace(family, engine="reference").chances(model, rows)
    monkeypatch.setattr(fgrn.Network, "propagate", never)
    np.testing.assert_allclose(family.chances(model, rows, family.products_of(model, rows)), exact, rtol=1e-9)


def never(*_: object, **__: object) -> None:
    raise AssertionError("no messages are needed")


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("structure", ["shared", "per_class", "tan", "tree"])
def test_products_predict_what_messages_do(structure: str, size: int) -> None:
    """Also where values are missing, and where a row is impossible; trees of hidden variables have no such products."""
    rng = np.random.default_rng(size)
    data = {name: rng.integers(0, 3, 120) for name in "abcdef"} | {"y": rng.integers(0, 2, 120)}
    codes = np.stack(list(data.values()), axis=1).astype(np.int32)
    codes[:, :6][rng.random((120, 6)) < 0.3] = -1
    rows = Evidence.of_codes(tuple(data), np.asfortranarray(codes), np.ones(120))
    observed = {name: [0, 1, 2] for name in "abcdef"} | {"y": [0, 1]}
    tree = tree_of_columns(observed, "y", rows)
    net = {
        "shared": lambda: fgrn.lvm({name: len(levels) for name, levels in observed.items()}, hidden=2 * size),
        "per_class": lambda: fgrn.class_mixture(observed, "y", size),
        "tan": lambda: class_tree_mixture(observed, "y", size, tree),
        "tree": lambda: class_hidden_tree(observed, "y", size, rows),
    }[structure]()
    family = replace(FAMILY, structure=structure, engine="cpu")
    layout = net._spec.layout
    values = net._parameters.values * (0.5 + rng.random(layout.size)) * (rng.random(layout.size) > 0.02)
    total = np.add.reduceat(values, layout.lines)[layout.line_of]
    values = np.where(total > 0, values / np.where(total > 0, total, 1), net._parameters.values)
    model, asked = family.with_tables(net, values), rows.without("y")
    found = model.propagate(asked, keep=["y"], engine="reference", impossible="mark").marginal("y")
    products = family.products_of(model, asked)
    assert (products is None) == (structure == "tree")
    np.testing.assert_allclose(family.chances(model, asked, products), found, atol=1e-10)


def test_a_classifier_that_is_too_sure_gets_a_higher_temperature() -> None:
    """The only penalty allowed is too weak to change that."""
    table, y = few_rows_and_many_cells()
    model = LatentClassifier(1, structure="per_class", refine=1e-9, random_state=0, engine="cpu").fit(table, y)
    assert {one.strength for one in model.selection_.candidates} == {0.0, 1e-9}
    assert model.selection_.temperature > 1
    assert model.decision_network_ != model.network_


def repeated_columns() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A table that naive Bayes misreads at any temperature: six columns say the same, and two say more than they."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    columns = [np.where(rng.random(300) < right, y, 1 - y) for right in (0.7, 0.8, 0.8)]
    return {f"c{n}": columns[max(0, n - 5)] for n in range(8)}, y


@pytest.mark.parametrize(
    ("strengths", "told", "beyond"), [((0.01, 0.003), "strongest", 0.1), ((100.0, 30.0), "weakest", 3.0)]
)
def test_the_strongest_and_the_weakest_penalty_are_warned_of(
    strengths: tuple[float, ...], told: str, beyond: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The penalties between them, which are the best for this table, are not tried."""
    monkeypatch.setattr("fgrn.estimators.classifiers.STRENGTHS", strengths)
    table, y = repeated_columns()
    model = LatentClassifier(1, structure="per_class", random_state=0, engine="cpu")
    with pytest.warns(FgrnWarning, match=f"the {told} that was tried, .*Set it with refine={beyond:g}") as warned:
        model.fit(table, y)
    assert f"Set it with --refine {beyond}." in spoken(warned[-1].message, fit)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"n_hidden": 2}, "n_hidden=2"),
        ({"structure": "shared"}, "structure='shared'"),
        ({"criterion": "bic"}, "criterion='bic'"),
    ],
)
def test_shared_states_cannot_be_refined(settings: dict[str, Any], why: str) -> None:
    X, y = exclusive(60)
    told = f'\'refine\' is for .* {why} has them shared. .* structure="per_class", "tan" or "tree"'
    for refine in (True, 0.5):
        with pytest.raises(fgrn.LearningError, match=told):
            LatentClassifier(refine=refine, random_state=0, **settings).fit(X, y)
    with pytest.raises(fgrn.LearningError, match=told):
        LatentClassifier(refine=True, **settings).compare(X, y)
    assert LatentClassifier(2, refine=False, n_epochs=2, tol=0, random_state=0).fit(X, y).structure_ == "shared"


def test_a_penalty_at_which_the_budget_ended_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one that the budget allows is the best of them."""
    allowed: list[float] = []

    def allows(budget: Budget, work: float, finishing: float = 0.0) -> bool:
        allowed.extend([work] * (work > 0))
        return len(allowed) <= 1

    monkeypatch.setattr(Budget, "allows", allows)
    table, y = repeated_columns()
    with pytest.warns(FgrnWarning, match="the weakest that was tried before the budget ended, 3, .*max_seconds=10"):
        LatentClassifier(1, structure="per_class", random_state=0, engine="cpu").fit(table, y)


# The mean of several penalties


def test_the_mean_of_models_with_one_state_a_class_has_the_mean_logarithm() -> None:
    states, data = three_classes()
    nets = [learnt(states, data, 1), fgrn.class_mixture(states, "y", 1)]
    nets[1].learn(encoded(data), epochs=1, smoothing=20.0)
    family = replace(FAMILY, target="y")
    rows = encoded(data).without("y")
    logs = [np.log(family.chances(net, rows)) / temperature for net, temperature in zip(nets, (1.5, 0.5), strict=True)]
    expected = np.exp(np.mean(logs, axis=0))
    found = family.chances(family.mean_of([(nets[0], 1.5), (nets[1], 0.5)]), rows)
    assert found == pytest.approx(expected / expected.sum(axis=1, keepdims=True))


def test_the_mean_of_penalties_is_taken_where_it_is_better(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 80)
    table = {f"c{n}": np.where(rng.random(80) < 0.4, y, rng.integers(0, 3, 80)) for n in range(10)}
    model = LatentClassifier(1, structure="per_class", random_state=0, engine="cpu").fit(table, y)
    assert model.selection_.averaged > 1
    assert f"the mean of {model.selection_.averaged} of the best structure" in str(model.selection_)
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.selection_ == model.selection_
    assert again.predict_proba(table) == pytest.approx(model.predict_proba(table))
    alone = LatentClassifier(1, structure="per_class", refine=3.0, random_state=0, engine="cpu").fit(table, y)
    assert alone.selection_.averaged == 0


# Bins of numbers


def stripes(bins: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A number whose equal parts are of one class and of the other in turn, and one that tells nothing."""
    x = (np.arange(400) * 7 % 400) / 400
    y = (x * bins).astype(int) % 2
    y[::11] = 1 - y[::11]
    return pd.DataFrame({"x": x, "z": np.random.default_rng(0).random(400)}), y


@pytest.fixture
def one_state() -> LatentClassifier:
    return LatentClassifier(1, structure="per_class", refine=3.0, random_state=0, engine="cpu")


def test_bins_are_chosen_for_the_class(one_state: LatentClassifier) -> None:
    X, y = stripes(20)
    model = one_state.fit(X, y)
    assert [len(column.levels) for column in model.schema_.values()] == [20, 20]
    assert model.score(X, y) > 0.85
    order = np.random.default_rng(1).permutation(len(X))
    other = pickle.loads(pickle.dumps(clone(model).fit(X.iloc[order], y[order])))
    assert other.schema_ == model.schema_
    usual = clone(model).set_params(n_bins=10).fit(X, y)
    assert usual.score(X, y) < 0.6


def test_there_are_as_many_bins_as_usual_where_no_other_number_is_clearly_better(one_state: LatentClassifier) -> None:
    X, y = stripes(2)
    model = one_state.fit(X, y)
    assert model.schema_ == clone(model).set_params(n_bins=10).fit(X, y).schema_
    words = X.astype({"x": int}).astype(str)[["x"]].assign(w=y.astype(str))
    assert one_state.fit(words, y).schema_.states == {"x": ["0"], "w": ["0", "1"]}
    assert one_state.set_params(max_seconds=1e-9).fit(X, y).schema_ == model.schema_
    other = stripes(20)
    assert one_state.set_params(schema=model.schema_, max_seconds=None).fit(*other).schema_ == model.schema_


def test_the_command_chooses_bins(tmp_path: Path, capsys: Any) -> None:
    X, y = stripes(20)
    rows, model = str(tmp_path / "a.csv"), str(tmp_path / "m.fgrn")
    X.assign(y=y).to_csv(rows, index=False)
    options = ["fit", rows, "--bins", "auto", "-o", model]
    assert main([*options, "--target", "y", "--model", "tan", "--hidden", "1", "--refine", "3"]) == 0
    assert fgrn.load(model).n_bins == "auto"
    assert len(fgrn.load(model).schema_["x"].levels) == 20
    assert main(options) == 2
    assert "--bins auto is for --target" in capsys.readouterr().err
    assert main([*options[:3], "many", "-o", model]) == 2
    assert "'many'" in capsys.readouterr().err


# Held-out rows


def test_the_error_of_a_mean_counts_copies_and_not_units_of_survey_weight() -> None:
    values, copies = np.array([0.1, 2.0, 0.5]), np.array([100, 50, 200])
    repeated = mean_and_error(values.repeat(copies), np.ones(350))
    assert mean_and_error(values, copies * 1.0) == pytest.approx(repeated)
    assert repeated[1] == pytest.approx(values.repeat(copies).std(ddof=1) / np.sqrt(350))
    data = three_classes(60)[1]
    whole, halves = encoded(data, np.full(60, 2.0)), encoded(data, np.full(60, 0.5))
    assert PartedRows.of(whole, "y", 0).copies == 1
    rows = PartedRows.of(halves, "y", 0)
    assert rows.copies == 2
    assert mean_and_error(values, rows.copies * copies / 2) == pytest.approx(repeated)


def test_every_row_is_held_out_once() -> None:
    _, data = three_classes(200)
    rows = PartedRows.of(encoded(data), "y", 0)
    assert rows.held_out_shares.sum(axis=0) == pytest.approx(np.ones(rows.table.rows))
    assert rows.table.weight == 200
    for learnt_from, asked in rows.parts:
        assert learnt_from.weight + asked.weight == pytest.approx(200)
        assert asked.weight == pytest.approx(40, abs=3)


def test_copies_of_a_row_are_a_row_of_that_weight_wherever_they_are() -> None:
    _, data = three_classes(50)
    times = 1 + np.arange(50) % 3
    order = np.random.default_rng(0).permutation(times.sum())
    many = {name: Coded(np.repeat(column.codes, times)[order]) for name, column in data.items()}
    one, other = PartedRows.of(encoded(data, times), "y", 3), PartedRows.of(encoded(many), "y", 3)
    assert np.array_equal(one.held_out_shares, other.held_out_shares)
    assert np.array_equal(one.table.row_weights, other.table.row_weights)
    assert np.array_equal(one.table.codes, other.table.codes)


@pytest.mark.parametrize("share", [0.2, 0.05, 0.01])
def test_cells_with_a_rare_class_are_observations_of_their_own(share: float) -> None:
    """A table of frequencies: nearly all cells have both classes, and one of them seldom."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 2, (20_000, 4)), rng.integers(0, 5, 20_000)])
    y = (rng.random(20_000) < share * (0.5 + table[:, 0])).astype(int)
    cells, times = np.unique(np.column_stack([table, y]), axis=0, return_counts=True)
    assert not are_copies_in(cells[:, :-1], cells[:, -1], times.astype(float))
    assert not are_copies_in(table, y)


def noisy_rows(columns: int, levels: int, count: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of which some tell a class of two, with noise."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, levels, (count, columns))
    return table, (table[:, 0] + table[:, 1] + rng.normal(0, 0.6 * levels, count) > levels - 1).astype(int)


def are_copies_in(table: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> bool:
    codes = np.column_stack([table, y]).astype(np.int32)
    rows = Evidence.of_codes((*(f"c{n}" for n in range(table.shape[1])), "y"), codes, weights)
    different, copies, lines = _different_rows(rows, ())
    return are_copies(different, "y", copies, lines)


@pytest.mark.parametrize(("columns", "levels"), [(3, 3), (5, 2), (8, 3), (3, 10)])
def test_equal_rows_of_a_table_are_observations_of_their_own(columns: int, levels: int) -> None:
    table, y = noisy_rows(columns, levels)
    assert not are_copies_in(table, y)
    different, times = np.unique(np.column_stack([table, y]), axis=0, return_counts=True)
    if len(different) < 100:  # a table of frequencies
        assert not are_copies_in(different[:, :-1], different[:, -1], times.astype(float))


def test_rows_that_were_repeated_or_have_whole_weights_are_copies() -> None:
    table, y = noisy_rows(8, 4)
    some = np.random.default_rng(1).integers(0, 400, 400)
    whole = np.random.default_rng(1).integers(100, 3000, 400).astype(float)
    for weights in (np.full(400, 2.0), np.where(y == 1, 2.0, 1.0), whole):
        assert are_copies_in(table, y, weights)
    for times in (3, 5, 20):
        assert are_copies_in(np.repeat(table, times, axis=0), np.repeat(y, times))
    assert are_copies_in(table[some], y[some])  # drawn with replacement
    assert not are_copies_in(table, y, np.where(np.arange(400) < 5, 2.0, 1.0))  # too few to matter
    assert not are_copies_in(table, np.zeros(400), np.full(400, 2.0))


@pytest.mark.parametrize("weight", [1.0, 2.0, 1000.0])
def test_copies_do_not_make_a_classifier_remember_rows(weight: float) -> None:
    """Copies of held-out rows among those to learn from made the largest candidate the best one."""
    table, y = noisy_rows(8, 4)
    asked, truth = noisy_rows(8, 4, 2000, seed=1)
    model = LatentClassifier(random_state=0, engine="cpu").fit(table, y, sample_weight=np.full(400, weight))
    assert log_loss(truth, model.predict_proba(asked)) < 0.66
    assert model.selection_.best.log_loss > 0.55


def test_held_out_rows_are_the_same_whatever_the_rows_weigh_if_they_are_copies() -> None:
    table, y = noisy_rows(10, 6)
    data = {f"c{n}": Coded(column.astype(np.int32)) for n, column in enumerate(table.T)} | {"y": Coded(y)}
    one, two = (PartedRows.of(encoded(data, np.full(400, weight)), "y", 0) for weight in (1.0, 2.0))
    assert np.array_equal(one.held_out_shares, two.held_out_shares)
    assert (two.count, two.copies) == (one.count, 0.5)


# The classifier


def test_no_probability_exceeds_one_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics of scikit-learn refuse it."""
    table, y = noisy_rows(3, 3, 60)
    model = LatentClassifier(2, random_state=0).fit(table, y)
    above = np.tile([np.nextafter(1, 2), 0.0], (60, 1))
    monkeypatch.setattr(OpinionPool, "messages", lambda *_, **__: {model._class_name(): above})
    assert model.predict_proba(table).max() == 1.0


@pytest.mark.parametrize("structure", ["auto", "per_class", "tan"])
def test_classes_that_no_column_tells_alone_are_told(structure: str) -> None:
    X, y = exclusive()
    Z, truth = exclusive(seed=1)
    model = LatentClassifier(structure=structure, random_state=0, engine="cpu", max_hidden=4).fit(X, y)
    tried = {one.structure for one in model.selection_.candidates}
    assert model.structure_ in tried == ({"per_class", "tan"} if structure == "auto" else {structure})
    assert model.score(Z, truth) > 0.85
    assert NaiveBayesClassifier().fit(X, y).score(Z, truth) < 0.65
    assert model.n_hidden_ == model.network_.variable("S").cardinality
    best = model.selection_.best
    assert best.log_loss * (1 - EQUAL) <= min(one.log_loss for one in model.selection_.candidates)
    assert best.log_loss < 0.45


@pytest.mark.usefixtures("quick_choice")
@pytest.mark.parametrize("settings", [{}, {"structure": "per_class", "n_hidden": 2}, {"structure": "shared"}])
def test_the_same_seed_gives_the_same_classifier(settings: dict[str, Any]) -> None:
    X, y = exclusive(120)
    one, other = (LatentClassifier(**{**QUICK, **settings}).fit(X, y) for _ in range(2))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_number_of_states_is_the_model_of_the_paper() -> None:
    X, y = exclusive(120)
    model = LatentClassifier(3, **QUICK).fit(X, y)
    assert (model.structure_, model.n_hidden_) == ("shared", 3)
    assert not hasattr(model, "decision_network_")
    assert not hasattr(model, "selection_")
    found = model.network_.posterior(model.schema_.codes(X), "kind")
    assert model.predict_proba(X) == pytest.approx(found, abs=1e-9)


def test_shared_states_are_chosen_by_the_class_too_and_not_refined() -> None:
    X, y = exclusive()
    model = LatentClassifier(structure="shared", random_state=0, engine="cpu", max_hidden=8).fit(X, y)
    assert model.structure_ == "shared"
    assert {one.towards for one in model.selection_.candidates} == {""}
    assert not hasattr(model, "decision_network_")


def test_tables_are_not_refined_where_that_is_not_wanted() -> None:
    X, y = exclusive(120)
    model = LatentClassifier(refine=False, **QUICK).fit(X, y)
    assert {one.towards for one in model.selection_.candidates} == {""}
    assert not hasattr(model, "decision_network_")


@pytest.fixture(scope="module")
def refined() -> LatentClassifier:
    X, y = exclusive()
    model = LatentClassifier(structure="per_class", random_state=0, engine="cpu", max_hidden=4).fit(X, y)
    assert model.selection_.best.towards
    return model


def test_profiles_and_completed_rows_are_those_of_the_rows(refined: LatentClassifier) -> None:
    """Tables that were refined tell the class, and are no shares of rows."""
    X, y = exclusive()
    for label in refined.classes_:
        share = (X["a"][y == label] == "y").mean()
        assert refined.prototypes_[label]["a"]["y"] == pytest.approx(share, abs=0.01)
    assert refined.prototypes_.shares["same"] == pytest.approx((y == "same").mean(), abs=1e-3)
    assert not np.array_equal(refined.decision_network_.table("a"), refined.network_.table("a"))


def test_an_explanation_adds_up_to_what_is_predicted(refined: LatentClassifier) -> None:
    X, _ = exclusive()
    row = X.iloc[[3]]
    told = refined.explain(row)
    chance = refined.predict_proba(row).max()
    assert told.probability == pytest.approx(chance)
    assert told.prior + sum(told.contributions.values()) == pytest.approx(np.log(chance / (1 - chance)))


def test_a_chosen_classifier_is_saved_and_loaded_whole(refined: LatentClassifier, tmp_path: Path) -> None:
    X, _ = exclusive()
    refined.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert np.array_equal(again.predict_proba(X), refined.predict_proba(X))
    assert again.selection_ == refined.selection_
    assert again.structure_ == "per_class"
    assert again.network_ == refined.network_
    assert again.decision_network_ == refined.decision_network_


def test_tables_for_the_class_that_are_none_are_refused(refined: LatentClassifier, tmp_path: Path) -> None:
    other = clone(refined)
    other.__dict__.update(refined.__dict__)
    other.decision_network_ = refined.decision_network_.copy()
    values = 2 * refined.decision_network_._parameters.values
    other.decision_network_._parameters = type(refined.network_._parameters)(values)
    with pytest.raises(fgrn.ModelFileError, match=r"not distributions|differ where"):
        other.save(tmp_path / "m.fgrn")


def test_a_batch_more_is_learnt_by_the_tables_of_the_rows(refined: LatentClassifier) -> None:
    X, y = exclusive(200)
    model = clone(refined).set_params(max_hidden=2)
    model.partial_fit(X[:100], y[:100], classes=["other", "same"])
    assert not hasattr(model, "decision_network_")
    assert model.structure_ == "per_class"
    fitted = clone(model).fit(X, y)
    with pytest.warns(fgrn.FgrnWarning, match="dropped the tables"):
        fitted.partial_fit(X, y)
    assert not hasattr(fitted, "decision_network_")
    assert np.isfinite(fitted.predict_proba(X)).all()


# The mean over both ways of refining


@pytest.fixture(scope="module")
def two_networks() -> LatentClassifier:
    """A classifier whose class is told best by the mean over both ways of refining tables of two states a class."""
    return LatentClassifier(2, structure="per_class", random_state=0, engine="cpu").fit(*exclusive(120, 1))


def test_the_class_is_told_by_the_geometric_mean_of_two_networks(two_networks: LatentClassifier) -> None:
    X = exclusive(50, 2)[0].dropna()
    asked = two_networks.schema_.codes({name: X[name] for name in X})
    nets = [two_networks.decision_network_, two_networks.second_decision_network_]
    a, b = (net.posterior(asked, "kind") for net in nets)
    assert np.abs(a - b).max() > 1e-3
    found = two_networks.predict_proba(X)
    expected = np.sqrt(a * b)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    for number in range(5):
        np.testing.assert_allclose(two_networks.predict_proba(X.iloc[[number]])[0], found[number], rtol=1e-12)


def test_both_ways_are_told_of(two_networks: LatentClassifier) -> None:
    assert two_networks.selection_.networks == 2
    told = " ".join(str(two_networks.selection_).split())
    assert "two networks predict the class, one for each way of refining, which takes twice the time" in told
    assert {one.towards for one in two_networks.selection_.candidates} == {"", "independence", "fit"}


def test_the_mean_of_two_networks_is_no_worse_than_one_on_held_out_rows() -> None:
    """As what was chosen is evaluated: by the log-loss at its temperature, of the networks of all parts."""
    X, y = exclusive(120, 1)
    model = LatentClassifier(2, structure="per_class", random_state=0, engine="cpu")
    searches: list[ClassSearch] = []
    made = model._search
    model._search = lambda *given: searches.append(made(*given)) or searches[-1]  # type: ignore[method-assign,func-returns-value]
    model.fit(X, y)
    (search,) = searches
    weights = search.rows.weights_of_parts

    def loss(count: int) -> float:
        told = Predictions.of_all(trial.predicted_by(models[:count]) for trial, models in search._of_best)
        return float(np.average(told.losses(told.temperature), weights=weights))

    assert loss(2) < min(loss(1), search.best.log_loss)


def test_an_explanation_by_two_networks_adds_up(two_networks: LatentClassifier) -> None:
    X, _ = exclusive(10, 3)
    for number in range(4):
        row = X.iloc[[number]]
        told, chance = two_networks.explain(row), two_networks.predict_proba(row).max()
        assert told.probability == pytest.approx(chance)
        assert told.prior + sum(told.contributions.values()) == pytest.approx(np.log(chance / (1 - chance)))


def test_two_networks_are_saved_and_loaded_and_dropped_together(two_networks: LatentClassifier, tmp_path: Path) -> None:
    X, y = exclusive(50, 2)
    two_networks.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.second_decision_network_ == two_networks.second_decision_network_
    assert again.selection_ == two_networks.selection_
    assert np.array_equal(again.predict_proba(X), two_networks.predict_proba(X))
    with pytest.warns(fgrn.FgrnWarning, match="dropped the tables"):
        again.partial_fit(X, y)
    assert not hasattr(again, "decision_network_")
    assert not hasattr(again, "second_decision_network_")


@pytest.mark.parametrize(
    ("second", "why"),
    [("decision", "are one tensor"), ("none", "is missing"), (2, "damaged"), ("table/0", "are one tensor")],
)
def test_a_second_network_that_is_none_is_refused(
    two_networks: LatentClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: Any, why: str
) -> None:
    def forged(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
        return container_bytes({**document, "decision": {**document["decision"], "second": second}}, tensors)

    monkeypatch.setattr(model_file, "container_bytes", forged)
    (tmp_path / "m.fgrn").write_bytes(model_file._model_bytes(two_networks, model_file._record_of(two_networks)))
    with pytest.raises(fgrn.ModelFileError, match=why):
        fgrn.load(tmp_path / "m.fgrn")


def test_a_geometric_mean_of_distributions_has_no_gaps() -> None:
    a, b = np.array([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.1, 0.9, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(geometric_mean([a, b]), [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    assert geometric_mean([a]) is a


@pytest.mark.usefixtures("quick_choice")
def test_rows_without_a_class_help_and_are_not_asked_for_one() -> None:
    X, y = exclusive()
    known = y.where(np.arange(len(y)) % 4 == 0, None)
    model = LatentClassifier(random_state=0, engine="cpu", max_hidden=2).fit(X, known)
    assert np.isfinite([one.log_loss for one in model.selection_.candidates]).all()


@pytest.mark.parametrize("rows", [2, 5, 11])
def test_few_rows_are_enough(rows: int) -> None:
    X, y = exclusive(rows)
    model = LatentClassifier(**QUICK).fit(X, y)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(rows))


@pytest.mark.usefixtures("quick_choice")
def test_a_class_of_one_row_does_not_stop_the_choice() -> None:
    X, y = exclusive(60)
    y.iloc[0] = "only one"
    model = LatentClassifier(**QUICK).fit(X, y)
    assert model.predict_proba(X).shape == (60, 3)


@pytest.mark.usefixtures("quick_choice")
def test_weights_are_copies_of_rows_for_the_chosen_classifier() -> None:
    X, y = exclusive(80)
    times = 1 + np.arange(80) % 3
    one = LatentClassifier(**QUICK).fit(X, y, sample_weight=times)
    many = X.loc[X.index.repeat(times)]
    other = LatentClassifier(**QUICK).fit(many, y.loc[many.index])
    assert one.predict_proba(X) == pytest.approx(other.predict_proba(X), abs=1e-6)


@pytest.mark.usefixtures("quick_choice")
def test_the_order_of_the_rows_does_not_matter() -> None:
    X, y = exclusive(100)
    order = np.random.default_rng(0).permutation(100)
    one, other = LatentClassifier(**QUICK).fit(X, y), LatentClassifier(**QUICK).fit(X.iloc[order], y.iloc[order])
    assert one.selection_.best.size == other.selection_.best.size
    assert one.predict_proba(X) == pytest.approx(other.predict_proba(X), abs=1e-6)


def test_the_largest_number_of_states_that_was_tried_is_doubted() -> None:
    X, y = exclusive()
    with pytest.warns(FgrnWarning, match="max_hidden=4"):
        LatentClassifier(structure="per_class", random_state=0, engine="cpu", max_hidden=2).fit(X, y)


def test_no_size_is_tried_twice_where_classes_have_no_rows_for_more_states() -> None:
    X, y = exclusive(60)  # less than 30 rows of a class to learn from, which are enough for five states
    model = LatentClassifier(structure="per_class", random_state=0, engine="cpu").fit(X, y)
    assert {one.size for one in model.selection_.candidates} <= {1, 2, 4, 8}


def test_a_tree_without_edges_is_not_tried() -> None:
    """Columns that are independent given the class."""
    _, data = three_classes(200)
    table = {name: [f"{name}{code}" for code in data[name].codes] for name in "ab"}
    model = LatentClassifier(**QUICK).fit(table, data["y"].codes)
    assert {one.structure for one in model.selection_.candidates} == {"per_class"}
    assert LatentClassifier(structure="tan", **QUICK).fit(table, data["y"].codes).structure_ == "tan"


def test_a_budget_of_seconds_ends_the_choice() -> None:
    X, y = exclusive(200)
    model = LatentClassifier(random_state=0, engine="cpu", max_seconds=1e-9).fit(X, y)
    assert len(model.selection_.candidates) == 1
    assert model.selection_.unfinished == ("per_class", "tan")
    assert "the budget ended before all of per_class and tan was tried" in str(model.selection_)
    with pytest.raises(ValueError, match="max_seconds"):
        LatentClassifier(max_seconds=0).fit(X, y)


def test_seconds_that_are_over_end_learning_from_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(star_counts, "SILENT_EPOCHS", 1)  # else the engine learns such a table in one call
    X, y = exclusive(200)
    model = LatentClassifier(4, structure="per_class", random_state=0, engine="cpu", max_seconds=1e-9)
    with pytest.warns(ConvergenceWarning, match="'max_seconds' ended learning from all rows after 9 epochs, .*=2e-09"):
        model.fit(X, y)
    assert model.history_.epochs == classifiers.LEAST_EPOCHS


def test_the_network_is_learnt_even_if_the_choice_has_taken_all_the_time() -> None:
    """One epoch does not tell much where values are missing: the network would predict worse than with less time."""
    X, y = exclusive(400)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    options = {"structure": "per_class", "refine": 1.0, "random_state": 0, "engine": "cpu"}
    short, usual = (LatentClassifier(1, max_seconds=seconds, **options).fit(X, y) for seconds in (1e-9, None))
    assert short.history_.converged and short.history_.epochs > 1
    np.testing.assert_allclose(short.network_._parameters.values, usual.network_._parameters.values, atol=1e-3)


def test_what_follows_the_choice_is_kept_in_the_budget() -> None:
    """As seconds, by the pace of the work until then; or as work."""
    budget = Budget(100.0, lambda: False, begun=time.monotonic() - 50)
    budget.spend(10.0)
    assert budget.allows(9.0)
    assert not budget.allows(9.0, finishing=2.0)
    budget.reserved = 9.0
    assert budget.has_time
    assert not budget.allows(2.0)
    budget.reserved = 11.0
    assert not budget.has_time
    work = Budget(None, lambda: False, rows=10_000, reserved=0.5 * MOST_WORK)
    work.spend(0.4 * MOST_WORK)
    assert work.allows(0.05 * MOST_WORK)
    assert not work.allows(0.05 * MOST_WORK, finishing=0.6 * MOST_WORK)
    assert work.has_time


def test_a_table_with_more_rows_than_are_chosen_by_keeps_more_seconds_to_learn_from_them() -> None:
    states, data = three_classes(100)
    family = replace(FAMILY, build=lambda size, rows: fgrn.class_mixture(states, "y", size))
    rows = PartedRows.of(encoded(data), "y", 0)
    reserved = {}
    for seconds, count in ((1e9, 100), (1e9, 1_000_000), (None, 100), (None, 1_000_000)):
        budget = Budget(seconds, lambda: False)
        search = ClassSearch(replace(rows, count=float(count)), [family], budget, ReadingProgress(0))
        search.search([1])
        reserved[seconds, count] = budget.reserved
    assert reserved[1e9, 1_000_000] == pytest.approx(10_000 * reserved[1e9, 100])
    assert reserved[None, 1_000_000] == pytest.approx(200 * reserved[None, 100])  # work is counted for the choice alone


def test_the_command_tells_that_time_was_short_where_it_was_limited(tmp_path: Path, capsys: Any) -> None:
    X, y = exclusive(200)
    rows, model = str(tmp_path / "a.csv"), str(tmp_path / "m.fgrn")
    X.rename(columns={"c": "income"}).assign(y=y).to_csv(rows, index=False)
    options = ["--target", "y", "--max-seconds", "1e-9", "-o", model]
    assert main(["fit", rows, *options]) == 0
    assert "\n--max-seconds ended this before all of per_class and tan was tried\n" in capsys.readouterr().out
    fitted = fgrn.load(model)
    assert "--max-seconds" not in "".join(_selection_lines(fitted, interrupted=True))
    fitted.max_seconds = None
    shown = "".join(_selection_lines(fitted, interrupted=False))
    assert "per_class" in shown
    assert "before all" not in shown
    assert main(["fit", rows, *options, "--hidden", "3"]) == 2
    assert main(["fit", rows, *options, "--hidden", "1", "--model", "tan"]) == 0
    assert "\n--max-seconds ended this before all of tan was tried\n" in capsys.readouterr().out
    for more in (["--online"], ["--refine", "no"]):
        assert main(["fit", rows, *options, "--hidden", "1", "--model", "tan", *more]) == 2
    assert main(["fit", rows, "--target", "nope", "-o", model]) == 1
    assert "There is no column 'nope' here. Known: " in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("yes", True), ("no", False), ("0.5", 0.5)])
def test_the_command_refines_as_it_is_told(text: str, value: Any) -> None:
    assert Refining().convert(text, None, None) == value


def test_the_command_tells_where_nothing_is_refined(tmp_path: Path, capsys: Any) -> None:
    X, y = exclusive(60)
    rows, model = str(tmp_path / "a.csv"), str(tmp_path / "m.fgrn")
    X.assign(y=y).to_csv(rows, index=False)
    fit = ["fit", rows, "-o", model]
    wrong = {
        ("--refine", "yes"): "--refine is for states that each class has of its own",
        ("--target", "y", "--hidden", "2", "--refine", "0.5"): "say --hidden auto, or --model tan or tree",
        ("--target", "y", "--model", "naive-bayes", "--refine", "no"): "--refine is for states",
        ("--target", "y", "--online", "--refine", "yes"): "leave it out with --online",
        ("--target", "y", "--refine", "often"): "'often' is not 'auto', 'yes', 'no' or a number above 0.",
        ("--target", "y", "--refine", "nan"): "'nan' is not 'auto'",
    }
    for options, told in wrong.items():
        assert main([*fit, *options]) == 2
        assert told in capsys.readouterr().err
    assert main([*fit, "--target", "y", "--model", "tan", "--hidden", "1", "--refine", "0.5"]) == 0
    assert fgrn.load(model).refine == 0.5


def test_what_the_choice_left_out_is_told_and_kept_in_files(tmp_path: Path) -> None:
    X, y = exclusive(200)
    model = LatentClassifier(structure="per_class", random_state=0, engine="cpu", max_hidden=2).fit(X, y)
    assert not model.selection_.unfinished
    model.selection_ = replace(model.selection_, dropped=3, unfinished=("per_class",), temperature=1.1, mixed=True)
    model.save(tmp_path / "m.fgrn")
    assert fgrn.load(tmp_path / "m.fgrn").selection_ == model.selection_
    told = " ".join(str(model.selection_).split())  # lines fit the terminal
    assert "3 more candidates were dropped" in told
    assert "calibrated by a temperature of 1.10 and a matrix" in told


def test_what_was_tried_is_shown_as_text_page_and_frame(refined: LatentClassifier) -> None:
    found = refined.selection_
    assert "log-loss" in str(found)
    assert str(found).count("<- best") == 1
    assert found._repr_html_().startswith("<table>")
    assert found._repr_html_().index("</table>") < found._repr_html_().index("log-loss: of the class")
    assert repr(found) == str(found)
    frame = found.to_frame()
    assert len(frame) == len(found.candidates) > str(found).count("per_class")
    assert frame["log_loss"].min() == found.best.log_loss


def test_classifiers_are_compared_without_changing_the_model() -> None:
    X, y = exclusive(150)
    model = LatentClassifier(structure="per_class", **QUICK)
    found = model.compare(X, y, [1, 2])
    assert {one.size for one in found.candidates} == {1, 2}
    assert not hasattr(model, "network_")
    with pytest.raises(fgrn.LearningError, match="at least 10 rows"):
        model.compare(X[:5], y[:5])


def test_smoothing_is_one_count_for_each_row_of_a_table() -> None:
    """A state that no row has would be uniform: of a column with four levels each cell counts a quarter."""
    table = {"a": ["p", "q", "r", "s"] * 5, "b": ["u"] * 10 + ["v"] * 10}
    y = ["one"] * 10 + ["two"] * 10
    model = LatentClassifier(1, structure="per_class", refine=False, n_epochs=5, tol=0, random_state=0).fit(table, y)
    counts = np.array([3, 3, 2, 2]) + 1 / 4
    assert model.network_.table("a")[0] == pytest.approx(counts / counts.sum())
    assert model.network_.table("b")[0] == pytest.approx(np.array([10.5, 0.5]) / 11)


def test_the_work_of_making_networks_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees over very many columns take long to make and to ask: where that is beyond the budget they are left out."""
    frame, kinds = exclusive(60)
    monkeypatch.setattr("fgrn.graph.class_family.FEW_COLUMNS", 0)
    monkeypatch.setattr("fgrn.graph.class_family.TREE_COLUMN", (1e9, 1e9))
    found = LatentClassifier(random_state=0, max_hidden=1).fit(frame, kinds).selection_
    assert {one.structure for one in found.candidates} == {"per_class"} and found.unfinished == ("tan",)


def test_complete_imputes_the_class_that_predict_says() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.integers(0, 3, (400, 5)), columns=list("abcde")).astype(str)
    table["kind"] = np.where((table["a"] == table["b"]) ^ (rng.random(400) < 0.2), "same", "other")
    model = fgrn.LatentClassifier(2, structure="per_class", random_state=0).fit(
        table.drop(columns="kind"), table["kind"]
    )
    assert hasattr(model, "decision_network_")  # another network than the one that describes the table
    empty = table.assign(kind=None)
    full, sure = model.complete(empty, return_proba=True)
    chances = model.predict_proba(table.drop(columns="kind"))
    assert full["kind"].tolist() == model.predict(table.drop(columns="kind")).tolist()
    np.testing.assert_allclose(sure[:, -1], chances.max(axis=1))
    known = model.complete(table.assign(a=None))
    assert known["kind"].tolist() == table["kind"].tolist()


# Interruptions


@pytest.mark.parametrize("where", ["average", "_evaluate"])
def test_an_interrupted_choice_keeps_the_best_candidate_so_far(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does it, once something was tried; before that there is nothing to keep."""
    X, y = exclusive(120)
    usual = getattr(ClassSearch, where)

    def interrupted(search: ClassSearch, *given: Any, **options: Any) -> Any:
        if len(search.tried) > 1:
            raise KeyboardInterrupt
        return usual(search, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ClassSearch, where, interrupted)
        with pytest.warns(fgrn.InterruptedWarning, match="interrupted while candidates were compared; the best model"):
            model = LatentClassifier(random_state=0, engine="cpu").fit(X, y)
    assert len(model.selection_.candidates) > 1
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X, y) > 0.4

    def at_once(*given: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ClassSearch, "_evaluate", at_once)
    with pytest.raises(KeyboardInterrupt):
        LatentClassifier(random_state=0, engine="cpu").fit(X, y)


def test_an_interrupted_refinement_keeps_the_tables_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(*given: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(classifiers, "refined", at_once)
    X, y = exclusive(120)
    with pytest.warns(fgrn.InterruptedWarning, match="interrupted while tables were refined; the best model"):
        model = LatentClassifier(1, structure="per_class", random_state=0, engine="cpu").fit(X, y)
    assert not hasattr(model, "decision_network_")
    assert np.isfinite(model.predict_proba(X)).all()


def test_numbers_of_bins_are_compared_within_a_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing is left for refined tables where a table is wide."""
    rng = np.random.default_rng(0)
    X, y = {f"x{i}": rng.normal(size=200) for i in range(4)}, rng.integers(0, 2, 200)
    found, asked = [], _bin_choice.ClassSearch.search
    monkeypatch.setattr(_bin_choice.ClassSearch, "search", lambda self, *given: found.append(1) or asked(self, *given))
    counts = []
    for share in (_bin_choice.SHARE_FOR_BINS, 0.0):
        monkeypatch.setattr(_bin_choice, "SHARE_FOR_BINS", share)
        found.clear()
        model = fgrn.LatentClassifier(random_state=0).fit(X, y)
        counts.append(len(found))
    assert counts == [4, 2]  # for each number of bins, and then among all classifiers
    assert all(len(levels) == 10 for levels in model.schema_.states.values())


def test_a_second_fit_chooses_as_the_first_one() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: rng.normal(size=700) for name in "abcd"} | {"e": rng.choice(list("xyz"), 700)})
    sure = np.sin(3 * table["a"]) + (table["e"] == "x") + 0.5 * rng.normal(size=700)
    classes = np.where(sure > 0, "yes", "no")
    model = LatentClassifier(random_state=0).fit(table, classes)
    bins, chances = model.schema_, model.predict_proba(table)
    assert len(bins["a"].levels) == max(_bin_choice.BIN_COUNTS), "numbers of bins make a difference here"
    model.fit(table, classes)
    assert model.schema_ == bins
    assert np.array_equal(model.predict_proba(table), chances)
