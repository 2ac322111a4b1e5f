"""Structure search and pruned questions beside pyAgrum, pgmpy, bnlearn: `python -m benchmarks.structure [part ...]`.

Parts: reached (the score of each program on samples of networks), bnlearn (scores, structures and times beside those of
R's bnlearn; left out where R has it not), columns (30 columns x 10,000 rows), wide (200 columns x 100,000 rows),
questions (one variable of andes), shapes (random networks in the shape of barley and others, a tenth of their variables
known). Times are CPU seconds of all threads, the least of a few runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

import numpy as np

import fgrn

from . import bnlearn
from .measure import cpu_seconds
from .networks import FOLDER
from .shapes import shaped


def words(table: dict[str, np.ndarray]) -> Any:
    """A table as a frame of words, which all programs read."""
    import pandas as pd

    return pd.DataFrame({name: np.asarray(column).astype(str) for name, column in table.items()})


def searched_by_pyagrum(frame: Any, tabu: bool, threads: int | None = None) -> Any:
    """The structure that pyAgrum finds by BIC, and its learner."""
    import pyagrum as gum

    learner = gum.BNLearner(frame)
    learner.useScoreBIC()
    learner.useNoPrior()
    if threads is not None:
        learner.setNumberOfThreads(threads)
    if tabu:
        learner.useLocalSearchWithTabuList(15, 2)
    else:
        learner.useGreedyHillClimbing()
    return learner.learnDAG(), learner


def by_pyagrum(frame: Any, tabu: bool) -> Any:
    """The arcs that pyAgrum finds by BIC, and the score it gives them, in nats."""
    dag, learner = searched_by_pyagrum(frame, tabu)
    names = learner.names()
    arcs = [(names[a], names[b]) for a, b in dag.arcs()]
    return arcs, sum(learner.score(c, [a for a, b in arcs if b == c]) for c in names) * log(2)


def reached() -> None:
    """BIC on samples of 5,000 rows: ours and pyAgrum's, each with the arcs that it finds."""
    print(
        "| network | hill climbing | tabu | order | pyAgrum, greedy | pyAgrum, tabu | difference |"
        "\n|---|---|---|---|---|---|---|"
    )
    for name in ("asia", "child", "insurance", "alarm", "win95pts", "hepar2", "water"):
        frame = words(fgrn.read(FOLDER / f"{name}.bif").sample(5_000, seed=1))
        ours = [fgrn.search(frame, method=method) for method in ("hill_climbing", "tabu", "order")]
        cells, differences = [f"{one.search_record.score:.2f}" for one in ours if one.search_record], []
        for tabu in (False, True):
            arcs, score = by_pyagrum(frame, tabu)
            same = fgrn.BayesianNetwork(ours[0].variables, arcs).score(frame)
            differences.append(abs(same - score))
            cells.append(f"{same:.2f}")
        print(f"| {name} | {' | '.join(cells)} | {max(differences):.1e} |", flush=True)


def beside_bnlearn() -> None:
    """BIC on 5,000 rows and CPU seconds of the searches: ours and bnlearn's; and the largest difference of a score."""
    if bnlearn.missing_part():
        print(f"left out: {bnlearn.missing_part()}")
        return
    print(
        f"| network | hill climbing | tabu | order | bnlearn {bnlearn.version()}, hc | bnlearn, tabu "
        "| difference of scores |\n|---|---|---|---|---|---|---|"
    )
    tests = []
    for name in ("child", "insurance", "alarm", "hailfinder"):
        frame = sampled_words(name, 5_000)
        cells = []
        for method in ("hill_climbing", "tabu", "order"):
            found = fgrn.search(frame, method=method)
            took = cpu_seconds(partial(fgrn.search, frame, method=method))
            cells.append(f"{found.search_record.score if found.search_record else 0:.2f} ({took:.3f} s)")
        theirs = bnlearn.answer(frame, "score", found.arcs)
        ours = {score: found.score(frame, score, equivalent_size=7.0) for score in ("bic", "aic", "bdeu", "k2")}
        ours["loglik"] = ours["aic"] + found.free_parameters
        difference = max(abs(theirs[score] - value) for score, value in ours.items())
        for question in ("hc", "tabu"):
            other = bnlearn.answer(frame, question, repeats=3)
            same = fgrn.BayesianNetwork(found.variables, other["arcs"]).score(frame)
            cells.append(f"{same:.2f} ({other['seconds']:.3f} s)")
        print(f"| {name} | {' | '.join(cells)} | {difference:.1e} |", flush=True)
        tests.append(f"| {name} | {tested(frame)} |")
    print("\n| network | neighbours | only here | only in bnlearn | pc | bnlearn, pc.stable |")
    print("|---|---|---|---|---|---|")
    print("\n".join(tests))


def tested(frame: Any) -> str:
    """The neighbours that tests of independence find in a table, ours and bnlearn's, and CPU seconds."""
    record = fgrn.search(frame, method="pc").search_record
    assert record and record.independence
    mine = {frozenset(pair) for pair in (*record.independence.graph.arcs, *record.independence.graph.edges)}
    other = bnlearn.answer(frame, "pc", repeats=3)
    theirs = {frozenset(pair) for pair in other["skeleton"]}
    took = cpu_seconds(lambda: fgrn.search(frame, method="pc"))
    return f"{len(mine)} | {len(mine - theirs)} | {len(theirs - mine)} | {took:.3f} s | {other['seconds']:.3f} s"


def sampled_words(name: str, rows: int) -> Any:
    """Rows drawn from a network, or those of bnlearn where there is no file of it."""
    path = FOLDER / f"{name}.bif"
    return words(fgrn.read(path).sample(rows, seed=1)) if path.exists() else bnlearn.own_data(name, rows)


def columns() -> None:
    """Hill climbing by BIC in 30 columns of alarm x 10,000 rows; and the default method."""
    table = fgrn.read(FOLDER / "alarm.bif").sample(10_000, seed=1)
    frame = words({name: table[name] for name in list(table)[:30]})
    found = fgrn.search(frame, method="hill_climbing")
    arcs, score = by_pyagrum(frame, False)
    same = fgrn.BayesianNetwork(found.variables, arcs).score(frame)
    assert abs(same - score) < 1e-8 * abs(score), "the same structure has different scores"
    assert found.search_record and found.search_record.score >= score - 1e-6, "pyAgrum reaches a higher score"
    ours = cpu_seconds(lambda: fgrn.search(frame, method="hill_climbing"), 9)
    print(f"30 columns x 10,000 rows, from a frame of words to the network: fgrn {ours:.3f} s")
    print(f"  by the default method: {cpu_seconds(lambda: fgrn.search(frame), 9):.3f} s")
    for threads in (1, None):
        other = cpu_seconds(lambda threads=threads: searched_by_pyagrum(frame, False, threads), 9)
        called = "one thread" if threads else "its default threads"
        print(f"  pyAgrum, {called}, to the arcs: {other:.3f} s, {other / ours:.1f} times as long")
    if bnlearn.missing_part():
        print(f"  left out: {bnlearn.missing_part()}")
    else:
        found_by_r = bnlearn.answer(frame, "hc", repeats=5)
        theirs = found_by_r["seconds"]
        same = fgrn.BayesianNetwork(found.variables, found_by_r["arcs"]).score(frame)
        assert found.search_record.score >= same - 1e-6, "bnlearn reaches a higher score"
        print(f"  bnlearn {bnlearn.version()}, to the arcs: {theirs:.3f} s, {theirs / ours:.1f} times as long")
    try:
        from pgmpy.estimators import BIC, HillClimbSearch
    except ImportError:
        print("  left out: pgmpy is not installed")
        return
    theirs = cpu_seconds(lambda: HillClimbSearch(frame).estimate(scoring_method=BIC(frame), show_progress=False), 1)
    print(f"  pgmpy {theirs:.1f} s, {theirs / ours:.0f} times as long")


def wide() -> None:
    """The default search in 200 columns x 100,000 rows of a random network."""
    draw = np.random.default_rng(0)
    names = [f"v{number}" for number in range(200)]
    sizes = {name: int(draw.integers(2, 5)) for name in names}
    parents = {
        name: [str(one) for one in draw.choice(names[:at], min(at, int(draw.integers(0, 4))), replace=False)]
        if at
        else []
        for at, name in enumerate(names)
    }
    tables = {
        name: draw.dirichlet(np.full(sizes[name], 0.5), int(np.prod([sizes[one] for one in some], dtype=int)))
        for name, some in parents.items()
    }
    net = fgrn.BayesianNetwork(sizes, parents, tables)
    table = net.sample(100_000, seed=0)
    begin, clock = time.process_time(), time.perf_counter()
    found = fgrn.search(table)
    record = found.search_record
    print(
        f"200 columns x 100,000 rows: {time.process_time() - begin:.1f} s of CPU, {time.perf_counter() - clock:.1f} s; "
        f"{len(record.moves) if record else 0} moves, {record.families if record else 0:,} families, BIC "
        f"{record.score if record else 0:,.0f} (that of the network it was drawn from: {net.score(table):,.0f})"
    )


def questions() -> None:
    """One variable of andes, five known: pruned here, with a target in pyAgrum."""
    import pyagrum as gum

    model: Any = fgrn.read(FOLDER / "andes.bif")
    theirs = gum.loadBN(str(FOLDER / "andes.bif"))
    drawn, draw = model.sample(40, seed=2), np.random.default_rng(2)
    sets = [{key: drawn[key][row] for key in draw.choice(model.names, 5, replace=False)} for row in range(40)]
    targets = [str(key) for key in draw.choice(model.names, 40)]

    def other(known: dict[str, Any], target: str) -> Any:
        engine = gum.LazyPropagation(theirs)
        engine.setEvidence({key: str(value) for key, value in known.items()})
        engine.addTarget(target)
        engine.makeInference()
        return engine.posterior(target).toarray()

    pairs = list(zip(sets, targets, strict=True))
    for known, target in pairs:
        np.testing.assert_allclose(model.posterior(known, target)[0], other(known, target), atol=1e-9)

    def anew() -> None:
        model._questions.clear()
        for pair in pairs:
            model.posterior(*pair)

    whole = cpu_seconds(lambda: [model.posterior(*pair, engine="cpu") for pair in pairs])
    print(
        f"one variable of andes, 5 known: pruned {cpu_seconds(anew) / 40 * 1e3:.1f} ms, "
        f"asked again {cpu_seconds(lambda: [model.posterior(*pair) for pair in pairs]) / 40 * 1e3:.1f} ms, "
        f"whole junction tree {whole / 40 * 1e3:.1f} ms, "
        f"pyAgrum {cpu_seconds(lambda: [other(*pair) for pair in pairs]) / 40 * 1e3:.1f} ms"
    )


def shapes() -> None:
    """Random networks in the shape of known ones, 10 % known: one variable, and all, each asked anew."""
    for name in ("barley", "pathfinder", "pigs", "link"):
        one_shape(name)


def one_shape(name: str) -> None:
    """Ask one network, and pyAgrum."""
    import tempfile

    import pyagrum as gum

    model = shaped(name)
    with tempfile.NamedTemporaryFile(suffix=".bif") as file:
        fgrn.write(model, file.name)
        theirs = gum.loadBN(file.name)
    draw, drawn = np.random.default_rng(0), model.sample(100, seed=1)
    some = [str(key) for key in draw.choice(model.names, len(model.names) // 10, replace=False)]
    known = {key: drawn[key][0] for key in some}
    target = [key for key in model.names if key not in known][len(model.names) // 2]

    def other(names: list[str]) -> dict[str, np.ndarray]:
        engine = gum.LazyPropagation(theirs)
        engine.setEvidence({key: str(value) for key, value in known.items()})
        for key in names:
            engine.addTarget(key)
        engine.makeInference()
        return {key: engine.posterior(key).toarray() for key in names}

    def anew(ask: Callable[[], Any]) -> Any:
        model._questions.clear()
        return ask()

    seen = model.propagate(known)
    for key, belief in other(list(model.names)).items():  # the file has rounded numbers
        np.testing.assert_allclose(seen.marginal(key)[0], belief, atol=1e-6)
    one = cpu_seconds(lambda: anew(lambda: model.posterior(known, target)))
    every = cpu_seconds(lambda: anew(lambda: model.propagate(known)))
    rows = {key: drawn[key] for key in some}
    model.propagate(rows)  # the kernels are loaded
    many = cpu_seconds(lambda: anew(lambda: model.posterior(rows, target)))
    all_of_many = cpu_seconds(lambda: anew(lambda: model.propagate(rows)))
    print(
        f"in the shape of {name}, 10 % known: one variable {one * 1e3:.1f} ms (pyAgrum "
        f"{cpu_seconds(lambda: other([target])) * 1e3:.1f}), all {every * 1e3:.1f} ms (pyAgrum "
        f"{cpu_seconds(lambda: other(list(model.names))) * 1e3:.1f}), one variable of 100 rows "
        f"{many / one:.1f} times one row, all {all_of_many / every:.1f} times",
        flush=True,
    )


PARTS = {
    "reached": reached,
    "bnlearn": beside_bnlearn,
    "columns": columns,
    "wide": wide,
    "questions": questions,
    "shapes": shapes,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
