"""Any Bayesian network: posteriors, single questions and EM, against pyAgrum and pgmpy on networks of bnlearn."""

from __future__ import annotations

import csv
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fgrn

from .measure import THREADS, Result, cpu_seconds, per_epoch, seconds
from .shapes import shaped

FOLDER = Path(os.environ.get("FGRN_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "bif"
HIDDEN = ("CATECHOL", "VENTLUNG", "SHUNT", "LVEDVOLUME")


def networks(quick: bool) -> Iterator[Result]:
    """Peers answer some of the rows, one after the other, and their time is that per row."""
    if not FOLDER.is_dir():
        print(f"  left out: there is no folder {FOLDER}")
        return
    rows = 1_000 if quick else 10_000
    for name in ("alarm", "hepar2"):
        yield from _posteriors(name, rows, quick)
    yield from _learning(rows, quick)


def questions(quick: bool) -> Iterator[Result]:
    """One question asked for the first time, and many rows that know the same variables, beside one of them."""
    if FOLDER.is_dir():
        yield from _single("andes", 5 if quick else 40, quick)
    else:
        print(f"  left out: there is no folder {FOLDER}")
    for name in ("barley",) if quick else ("barley", "pigs", "pathfinder"):
        yield from _many_rows(name, quick)


def _many_rows(name: str, quick: bool) -> Iterator[Result]:
    """A hundred rows of a random network in the shape of a known one, asked again; 5 is 20 times one row."""
    model, count = shaped(name), 100
    drawn = model.sample(count, seed=1)
    some = [str(key) for key in np.random.default_rng(0).choice(model.names, len(model.names) // 10, replace=False)]
    rows, row = {key: drawn[key] for key in some}, {key: drawn[key][0] for key in some}
    target = [key for key in model.names if key not in rows][len(model.names) // 2]
    np.testing.assert_allclose(model.posterior(rows, target)[:1], model.posterior(row, target), atol=1e-9)
    np.testing.assert_allclose(
        model.propagate(rows).marginal(target)[:1], model.propagate(row).marginal(target), atol=1e-9
    )
    asked: dict[str, Callable[[Any], Any]] = {
        "posterior of one variable": lambda known: model.posterior(known, target),
        "posteriors of all variables": model.propagate,
    }
    for what, ask in asked.items():
        many = cpu_seconds(lambda ask=ask: ask(rows), 9) / count
        one = cpu_seconds(lambda ask=ask: [ask(row) for _ in range(10)], 9) / 10
        label = f"in the shape of {name}: {what}, 10 % known, per row of {count}, CPU time"
        yield Result("rows of one question", label, many, one, "one row", None if quick else 5)


def _posteriors(name: str, rows: int, quick: bool) -> Iterator[Result]:
    model = _read(name)
    data = _rows(model, rows, 0.5, 1)
    found = model.propagate(data, engine="cpu", threads=THREADS)
    ours = seconds(lambda: model.propagate(data, engine="cpu", threads=THREADS)) / rows
    what = f"{name}: posteriors of all variables, half of them known, per row of {rows:,}"
    gum, net = _pyagrum(model)
    engine = gum.LazyPropagation(net)

    def ask(row: int) -> dict[str, np.ndarray]:
        engine.setEvidence({key: str(column[row]) for key, column in data.items() if column[row] is not None})
        engine.makeInference()
        return {key: engine.posterior(key).toarray() for key in model.names}

    few = 20 if quick else 200
    for row in range(few):
        for key, belief in ask(row).items():
            np.testing.assert_allclose(found.marginal(key)[row], belief, atol=1e-9)
    theirs = seconds(lambda: [ask(row) for row in range(few)], 2) / few
    yield Result(f"posteriors, {name}", what, ours, theirs, "pyAgrum, LazyPropagation", None if quick else 50)
    query = _pgmpy(model)
    some = 2 if quick else 5

    def ask_pgmpy(row: int) -> dict[str, np.ndarray]:
        known = {key: str(column[row]) for key, column in data.items() if column[row] is not None}
        unknown = [key for key in model.names if key not in known]
        return {key: factor.values for key, factor in query(unknown, known).items()}

    for row in range(some):
        for key, belief in ask_pgmpy(row).items():
            np.testing.assert_allclose(found.marginal(key)[row], belief, atol=1e-9)
    theirs = seconds(lambda: [ask_pgmpy(row) for row in range(some)], 1) / some
    yield Result(f"posteriors, {name}", what, ours, theirs, "pgmpy, VariableElimination", None if quick else 200)


def _single(name: str, questions: int, quick: bool) -> Iterator[Result]:
    """One variable is asked for the first time: nothing is kept from questions before, here or in pyAgrum.

    There it is a new inference object with the evidence and, if one variable is asked for, that as its only target; the
    network is not read again. Here the pruned models of earlier questions are forgotten. All variables are asked of the
    compiled engine, whose junction tree is that of the whole network, whatever is known.
    """
    model = _read(name)
    drawn, rng = model.sample(questions, None, 2), np.random.default_rng(2)
    sets = [{key: drawn[key][row] for key in rng.choice(model.names, 5, replace=False)} for row in range(questions)]
    targets = [str(key) for key in rng.choice(model.names, questions)]
    gum, net = _pyagrum(model)

    def theirs(known: dict[str, Any], wanted: list[str]) -> list[np.ndarray]:
        engine = gum.LazyPropagation(net)
        engine.setEvidence({key: str(value) for key, value in known.items()})
        if len(wanted) == 1:
            engine.addTarget(wanted[0])
        engine.makeInference()
        return [engine.posterior(key).toarray() for key in wanted]

    for known, target in zip(sets[:5], targets, strict=False):
        np.testing.assert_allclose(model.posterior(known, target)[0], theirs(known, [target])[0], atol=1e-9)

    def anew(ask: Callable[[], Any]) -> None:
        model._questions.clear()
        ask()

    mine = cpu_seconds(lambda: [model.propagate(known, engine="cpu") for known in sets]) / questions
    other = cpu_seconds(lambda: [theirs(known, list(model.names)) for known in sets], 1) / questions
    goal = None if quick else 1
    yield Result(
        "one question", f"{name}: posteriors of all variables, 5 known, CPU time", mine, other, "pyAgrum", goal
    )
    pairs = list(zip(sets, targets, strict=True))
    mine = cpu_seconds(lambda: anew(lambda: [model.posterior(known, target) for known, target in pairs])) / questions
    other = cpu_seconds(lambda: [theirs(known, [target]) for known, target in pairs], 2) / questions
    yield Result("one question", f"{name}: posterior of one variable, 5 known, CPU time", mine, other, "pyAgrum", goal)


def _learning(rows: int, quick: bool) -> Iterator[Result]:
    model = _read("alarm")
    data = {key: column for key, column in _rows(model, rows, 0.1, 3).items() if key not in HIDDEN}

    def learn(epochs: int) -> fgrn.BayesianNetwork:
        mine = model.copy()
        mine.learn(data, epochs=epochs, smoothing=1.0, engine="cpu", threads=THREADS)
        return mine

    few = 50 if quick else 300
    _check_epoch(model, {key: column[:few] for key, column in data.items()}, few)
    ours = per_epoch(learn, 1, 6) / rows
    theirs = _pyagrum_epoch(model, data, few) / few
    what = f"alarm, 4 variables hidden, 10 % holes, {rows:,} rows: one epoch, per row"
    yield Result("EM with hidden variables", what, ours, theirs, "pyAgrum, EM", None if quick else 100)


def _check_epoch(model: fgrn.BayesianNetwork, data: dict[str, np.ndarray], rows: int) -> None:
    """One epoch from the same tables, by pyAgrum's joint posteriors of every table's variables."""
    gum, net = _pyagrum(model)
    counts = {name: np.ones_like(model.table(name)) for name in model.names}
    for row in range(min(rows, 20)):
        engine = gum.LazyPropagation(net)
        engine.setEvidence({key: str(column[row]) for key, column in data.items() if column[row] is not None})
        for name in model.names:
            engine.addJointTarget(set(model.scope(name)))
        engine.makeInference()
        for name in model.names:
            scope = model.scope(name)
            joint = engine.jointPosterior(set(scope))
            axes = list(reversed(list(joint.names)))
            counts[name] += joint.toarray().transpose([axes.index(one) for one in scope]).reshape(counts[name].shape)
    mine = model.copy()
    mine.learn({key: column[:20] for key, column in data.items()}, epochs=1, smoothing=1.0)
    for name, count in counts.items():
        np.testing.assert_allclose(mine.table(name), count / count.sum(axis=1, keepdims=True), atol=1e-9)


def _pyagrum_epoch(model: fgrn.BayesianNetwork, data: dict[str, np.ndarray], rows: int) -> float:
    """The seconds of one iteration more of its own EM."""
    gum, net = _pyagrum(model)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(model.names)
        for row in range(rows):
            known = {key: column[row] for key, column in data.items() if column[row] is not None}
            writer.writerow([known.get(key, "?") for key in model.names])

    def learn(iterations: int) -> None:
        learner = gum.BNLearner(file.name, net, ["?"])
        learner.useSmoothingPrior(1)
        learner.useEM(1e-12)
        learner.EMdisableEpsilon()
        learner.EMdisableMinEpsilonRate()
        learner.EMsetMaxIter(iterations)
        learner.EMenableMaxIter()
        learner.learnParameters(net)
        if learner.EMnbrIterations() != iterations:
            raise RuntimeError(f"pyAgrum stopped after {learner.EMnbrIterations()} iterations")

    try:
        return per_epoch(learn, 1, 3, 1)
    finally:
        Path(file.name).unlink()


def _read(name: str) -> fgrn.BayesianNetwork:
    model = fgrn.read(FOLDER / f"{name}.bif")
    assert isinstance(model, fgrn.BayesianNetwork)
    return model


def _rows(model: fgrn.BayesianNetwork, rows: int, holes: float, seed: int) -> dict[str, np.ndarray]:
    """Rows drawn from the network, with holes."""
    rng = np.random.default_rng(seed)
    data = {key: column.astype(object) for key, column in model.sample(rows, None, seed).items()}
    for column in data.values():
        column[rng.random(rows) < holes] = None
    return data


def _pyagrum(model: fgrn.BayesianNetwork) -> tuple[Any, Any]:
    """The same network there, table by table."""
    import pyagrum as gum

    net = gum.BayesNet()
    for variable in model.variables:
        net.add(gum.LabelizedVariable(variable.name, "", list(map(str, variable.labels))))
    for parent, child in model.arcs:
        net.addArc(parent, child)
    for name in model.names:
        table, scope = net.cpt(name), model.scope(name)
        values = model.table(name).reshape([model.variable(one).cardinality for one in scope])
        table.fillWith(values.transpose([scope.index(one) for one in reversed(list(table.names))]).ravel().tolist())
    return gum, net


def _pgmpy(model: fgrn.BayesianNetwork) -> Any:
    """A function from unknown variables and what is known to posteriors."""
    import logging

    logging.disable(logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.factors.discrete import TabularCPD
        from pgmpy.inference import VariableElimination
        from pgmpy.models import DiscreteBayesianNetwork

        net = DiscreteBayesianNetwork(list(model.arcs))
        net.add_nodes_from(model.names)
        labels = {variable.name: list(map(str, variable.labels)) for variable in model.variables}
        for name in model.names:
            parents = list(model.parents(name))
            sizes = [len(labels[parent]) for parent in parents]
            names = {one: labels[one] for one in (name, *parents)}
            net.add_cpds(TabularCPD(name, len(labels[name]), model.table(name).T, parents, sizes, state_names=names))
        engine = VariableElimination(net)

    def query(unknown: list[str], known: dict[str, str]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # all at once it would make their joint distribution
            return {key: engine.query([key], known, show_progress=False) for key in unknown}

    return query
