"""How often 95 % intervals hold the truth, in simulated tables.

Each part returns a record for every kind of estimate: the share of replications whose interval held the truth, of each
estimate. They should lie between 93 and 97 %; a share of a simulation of 1,000 has itself a standard error of 0.7 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fgrn
from fgrn.statistics.alignment import in_order_of, nearest_order
from fgrn.statistics.latent_classes import LatentClasses

from .continuous import people
from .latent_classes import drawn, truth

LOW, HIGH = 0.93, 0.97
SMALL = "share of 2 %"
"""A share of which a class has some six rows: its intervals may be wider than asked for, not narrower."""

Record = dict[str, Any]


def record(part: str, how: str, what: str, held: np.ndarray, replications: int) -> Record:
    """The coverage of some estimates, from how many of the replications each was held in."""
    shares = np.atleast_1d(held) / replications
    print(
        f"{part:28} {how:18} {what:28} {shares.mean():.3f} (from {shares.min():.3f} to {shares.max():.3f})", flush=True
    )
    return {
        "part": part, "how": how, "what": what, "replications": replications, "estimates": len(shares),
        "mean": round(float(shares.mean()), 4), "least": round(float(shares.min()), 4),
        "most": round(float(shares.max()), 4),
    }  # fmt: skip


def check(found: list[Record]) -> None:
    """Raise an error if a coverage is not between 93 and 97 %, with three standard errors more below 1,000 tables."""
    for one in found:
        count = one["replications"]
        more = 0.0 if count >= 1000 else 3 * float(np.sqrt(0.05 * 0.95 / count))
        assert one["least"] >= LOW - more, f"intervals are too narrow: {one}"
        assert one["most"] <= HIGH + more or one["what"] == SMALL, f"intervals are too wide: {one}"


def classes(replications: int) -> list[Record]:
    """Class sizes and item-response probabilities of three classes, eight items and 1,000 rows."""
    real, rng = truth(3, 8), np.random.default_rng(2)
    whole = np.concatenate([real.prior, real.cells.ravel()])
    held = {kind: np.zeros(len(whole)) for kind in ("observed", "robust")}
    for number in range(replications):
        table = drawn(real, 1000, rng)
        model = fgrn.LatentClassModel(3, smoothing=0.0, random_state=number).fit(table)
        mine = in_order_of(model._estimates(), real)
        model.relabel([int(np.flatnonzero(model.weights_ == size)[0]) for size in mine.prior])
        for kind, found in held.items():
            errors = model.standard_errors(kind=kind)
            found += (errors.low <= whole) & (whole <= errors.high)
    return [record("classes", kind, "sizes and probabilities", found, replications) for kind, found in held.items()]


def _two_classes(real: LatentClasses, second: np.ndarray, rng: np.random.Generator, seed: int) -> fgrn.LatentClassModel:
    """A model of two classes, in the order of the truth, of a table drawn for rows of these classes."""
    table = {
        name: (rng.random(len(second)) < one[second, 1]).astype(int)
        for name, one in zip(real.names, real.tables, strict=True)
    }
    model = fgrn.LatentClassModel(2, smoothing=0.0, n_init=2, random_state=seed).fit(table)
    return model.relabel(nearest_order(model._estimates(), real))


STEPS = {"one step": 1, "two steps": 2, "three steps": 3}


def regression(replications: int) -> list[Record]:
    """Intercept and slope of a covariate of membership: two classes, six items, 500 rows."""
    real, rng = truth(2, 6), np.random.default_rng(5)
    beta = np.array([0.3, 0.8])
    held = {how: np.zeros(2) for how in STEPS}
    for number in range(replications):
        z = rng.normal(size=500)
        second = (rng.random(500) < 1 / (1 + np.exp(-beta[0] - beta[1] * z))).astype(int)
        model = _two_classes(real, second, rng, number)
        for how, steps in STEPS.items():
            found = model.membership_regression({"z": z}, steps=steps, n_init=1)
            held[how] += np.abs(found.coefficients[1] - beta) <= 1.959964 * found.errors[1]
    return [record("covariate", how, "intercept and slope", found, replications) for how, found in held.items()]


HOWS: dict[str, dict[str, Any]] = {
    "three steps, BCH": {"steps": 3},
    "three steps, ML": {"steps": 3, "correction": "ml"},
    "two steps": {"steps": 2},
    "one step": {"steps": 1, "n_init": 1},
}


def outcomes(replications: int) -> list[Record]:
    """Means and shares of outcomes in two classes of 500 rows; standard errors are robust, as they are by default."""
    real, rng = truth(2, 6), np.random.default_rng(7)
    wanted = {
        "means": np.array([1.0, 2.0]),
        "shares of 30 and 70 %": np.array([0.3, 0.7]),
        SMALL: np.array([0.02, 0.5]),
    }
    held = {how: {what: np.zeros(2) for what in wanted} for how in HOWS}
    for number in range(replications):
        second = (rng.random(500) < real.prior[1]).astype(int)
        model = _two_classes(real, second, rng, number)
        values = {what: rng.random(500) < right[second] for what, right in wanted.items() if what != "means"}
        values["means"] = rng.normal(wanted["means"][second], 1.0)
        for how, options in HOWS.items():
            for what, outcome in values.items():
                found = model.distal_outcome(outcome, **options)
                held[how][what] += (found.low <= wanted[what]) & (wanted[what] <= found.high)
    return [
        record("outcome", how, what, count[:1] if what == SMALL else count, replications)
        for how, counts in held.items()
        for what, count in counts.items()
    ]


def continuous(replications: int) -> list[Record]:
    """Three continuous and two categorical columns in three classes of 600 rows, 15 % missing.

    A replication whose classes cannot be told apart by their means is left out, and counted as such.
    """
    means = np.array([[0, 0, 0], [3, 1, 0], [-2, 2, 3]])
    wanted = {
        "mean": means.T.ravel(),
        "variance": np.repeat([1.0, 4.0, 0.25], 3),
        "size": np.full(3, 1 / 3),
        "probability": np.array([0.9, 0.1, 0.5, 0.5, 0.1, 0.9]),
    }
    rng, held, used = np.random.default_rng(3), {what: np.zeros(len(right)) for what, right in wanted.items()}, 0
    for number in range(replications):
        table, _ = people(600, rng, 0.15)
        model = fgrn.LatentClassModel(3, continuous=list("abc"), n_init=2, random_state=number).fit(table)
        order = [int(np.argmin(((model.means_ - one) ** 2).sum(axis=1))) for one in means]
        if len(set(order)) < 3:
            continue
        used += 1
        errors = model.relabel(order).standard_errors()
        for what, right in wanted.items():
            some = errors.of(what, "q" if what == "probability" else "")
            held[what] += [one.low <= value <= one.high for one, value in zip(some, right, strict=True)]
    named = {"mean": "means", "variance": "variances", "size": "class sizes", "probability": "probabilities"}
    return [record("continuous columns", "observed", named[what], found, used) for what, found in held.items()]


def imputation(replications: int) -> list[Record]:
    """A share and a slope pooled over 20 completed tables of 500 rows, 30 % of three items missing."""
    real = truth(3, 6)
    yes = real.cells[:, 1::2]  # P(item = 1 | class)
    first, second = real.prior @ yes[:, 0], real.prior @ yes[:, 1]
    slope = (real.prior @ (yes[:, 0] * yes[:, 1]) - first * second) / (second * (1 - second))
    wanted, found = np.array([first, slope]), []
    for how in ("completely at random", "at random"):
        rng, held = np.random.default_rng(3), np.zeros(2)
        for number in range(replications):
            table = {name: column.astype(float) for name, column in drawn(real, 500, rng).items()}
            chance = 0.3 if how == "completely at random" else np.where(table["q5"] == 1, 0.45, 0.15)
            for name in ("q0", "q1", "q2"):
                table[name][rng.random(500) < chance] = np.nan
            imputer = fgrn.LatentImputer(3, smoothing=0.01, n_init=4, random_state=number).fit(table)
            results = [_analysed(one["q0"], one["q1"]) for one in imputer.draws(table, m=20)]
            pooled = fgrn.pool([one for one, _ in results], [one for _, one in results], df=498)
            held += (pooled.low <= wanted) & (wanted <= pooled.high)
        found.append(record("multiple imputation", how, "share and slope", held, replications))
    return found


def _analysed(y: np.ndarray, x: np.ndarray) -> tuple[list[float], list[float]]:
    """The share of y and its slope on x, with their variances."""
    y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    around = x - x.mean()
    slope = float(around @ y / (around @ around))
    rest = y - y.mean() - slope * around
    variance = float(rest @ rest / (len(y) - 2) / (around @ around))
    return [float(y.mean()), slope], [float(y.var(ddof=1) / len(y)), variance]


def answers(replications: int) -> list[Record]:
    """Posterior probabilities of a Bayesian network learnt from 500 rows, 30 % of all values missing."""
    rng = np.random.default_rng(3)
    sizes, parents = {"a": 2, "b": 2, "c": 3, "d": 2, "e": 2}, {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
    tables = {
        name: rng.dirichlet(np.full(size, 4.0), int(np.prod([sizes[one] for one in parents.get(name, ())])))
        for name, size in sizes.items()
    }
    real = fgrn.BayesianNetwork(sizes, parents, tables)
    asked: list[tuple[dict[str, int], str]] = [
        ({}, "e"), ({}, "d"), ({"e": 1}, "a"), ({"a": 1}, "d"), ({"c": 0}, "b"), ({"d": 1, "a": 0}, "c"),
    ]  # fmt: skip
    wanted = [real.posterior(known, name)[0, 0] for known, name in asked]
    held = {method: np.zeros(len(asked)) for method in ("delta", "draws")}
    for number in range(replications):
        rows = {name: column.astype(object) for name, column in real.sample(500, seed=number).items()}
        for column in rows.values():
            column[rng.random(500) < 0.3] = None
        net = fgrn.BayesianNetwork(sizes, parents)
        net.learn(rows, epochs=300, tolerance=1e-6, smoothing=0.5)
        for method, mine in held.items():
            for place, (known, name) in enumerate(asked):
                found = net.credible_interval(known, name, method=method, draws=300)
                mine[place] += found.lower[0, 0] <= wanted[place] <= found.upper[0, 0]
    return [record("Bayesian network", how, "posteriors", found, replications) for how, found in held.items()]


PARTS = {
    "classes": classes, "regression": regression, "outcomes": outcomes, "continuous": continuous,
    "imputation": imputation, "answers": answers,
}  # fmt: skip
