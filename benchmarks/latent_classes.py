"""Latent class analysis: time of bootstraps, coverage of confidence intervals.

python -m benchmarks.latent_classes            # all
python -m benchmarks.latent_classes coverage   # one of: bootstrap, coverage, ...; see PARTS
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import fgrn
from fgrn.statistics.alignment import in_order_of, nearest_order
from fgrn.statistics.latent_classes import LatentClasses


def truth(classes: int, items: int, seed: int = 0) -> LatentClasses:
    """A model with classes that can be told apart: any two differ in half of the items or more."""
    rng = np.random.default_rng(seed)
    apart = 0
    while apart < items / 2:
        high = rng.random((items, classes)) < 0.5
        pairs = [(high[:, a] != high[:, b]).sum() for a in range(classes) for b in range(a)]
        apart = min(pairs)
    prior = np.arange(classes + 2, 2, -1) / np.arange(classes + 2, 2, -1).sum()
    yes = np.where(high, 0.8, 0.2) + rng.uniform(-0.1, 0.1, size=(items, classes))
    tables = tuple(np.stack([1 - one, one], axis=1) for one in yes)
    return LatentClasses(tuple(f"q{i}" for i in range(items)), ((0, 1),) * items, prior, tables)


def drawn(model: LatentClasses, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A table drawn from a model with yes-or-no items."""
    classes = rng.choice(model.n_classes, rows, p=model.prior)
    return {
        name: (rng.random(rows) < table[classes, 1]).astype(int)
        for name, table in zip(model.names, model.tables, strict=True)
    }


def bootstrap(replicates: int = 500) -> None:
    """500 fits of 2,000 rows x 10 items x 4 classes with 5 starts each."""
    table = drawn(truth(4, 10), 2000, np.random.default_rng(1))
    model = fgrn.LatentClassModel(4, n_init=5, random_state=0).fit(table)
    for kind in ("non-parametric", "parametric"):
        begun, clock = time.process_time(), time.perf_counter()
        model.bootstrap(n_bootstrap=replicates, kind=kind)
        spent = time.process_time() - begun
        print(f"{replicates} {kind} replicates: {spent:.1f} s of CPU time, {time.perf_counter() - clock:.1f} s")


def coverage(replications: int = 1000) -> None:
    """How often 95 % intervals hold the truth."""
    real, rng = truth(3, 8), np.random.default_rng(2)
    whole = np.concatenate([real.prior, real.cells.ravel()])
    held = {kind: np.zeros(len(whole)) for kind in ("observed", "robust")}
    for number in range(replications):
        table = drawn(real, 1000, rng)
        model = fgrn.LatentClassModel(3, smoothing=0.0, random_state=number).fit(table)
        mine = in_order_of(model._estimates(), real)
        place = [int(np.flatnonzero(model.weights_ == size)[0]) for size in mine.prior]
        model.relabel(place)
        for kind, found in held.items():
            errors = model.standard_errors(kind=kind)
            found += (errors.low <= whole) & (whole <= errors.high)
    for kind, found in held.items():
        share = found / replications
        print(
            f"coverage of 95 % intervals, {kind}: mean {share.mean():.3f}, from {share.min():.3f} to {share.max():.3f}"
        )


def imputation(replications: int = 500) -> None:
    """How often 95 % intervals of a share and a slope, pooled over 20 completed tables, hold the truth."""
    real = truth(3, 6)
    yes = real.cells[:, 1::2]  # P(item = 1 | class)
    first, second = real.prior @ yes[:, 0], real.prior @ yes[:, 1]
    slope = (real.prior @ (yes[:, 0] * yes[:, 1]) - first * second) / (second * (1 - second))
    for kind in ("completely at random", "at random"):
        rng, held, whole = np.random.default_rng(3), np.zeros(2), np.zeros(2)
        for number in range(replications):
            table = {name: column.astype(float) for name, column in drawn(real, 500, rng).items()}
            chance = 0.3 if kind == "completely at random" else np.where(table["q5"] == 1, 0.45, 0.15)
            for name in ("q0", "q1", "q2"):
                table[name][rng.random(500) < chance] = np.nan
            imputer = fgrn.LatentImputer(3, smoothing=0.01, n_init=4, random_state=number).fit(table)
            results = [_analysed(one["q0"], one["q1"]) for one in imputer.draws(table, m=20)]
            pooled = fgrn.pool([one for one, _ in results], [one for _, one in results], df=498)
            held += (pooled.low <= [first, slope]) & ([first, slope] <= pooled.high)
            whole += pooled.missing_information
        shares = ", ".join(
            f"{name} {share:.3f}" for name, share in zip(("share", "slope"), held / replications, strict=True)
        )
        print(
            f"coverage of pooled 95 % intervals, missing {kind}: {shares}; missing information {whole / replications}"
        )


def _analysed(y: np.ndarray, x: np.ndarray) -> tuple[list[float], list[float]]:
    """The share of y and its slope on x, with their variances."""
    y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    around = x - x.mean()
    slope = float(around @ y / (around @ around))
    rest = y - y.mean() - slope * around
    variance = float(rest @ rest / (len(y) - 2) / (around @ around))
    return [float(y.mean()), slope], [float(y.var(ddof=1) / len(y)), variance]


def regression(replications: int = 1000) -> None:
    """How often 95 % intervals of the coefficients of a covariate of membership hold the truth, in 1, 2 and 3 steps."""
    real, rng = truth(2, 6), np.random.default_rng(5)
    beta = np.array([0.3, 0.8])
    held, bias = np.zeros((3, 2)), np.zeros((3, 2))
    for number in range(replications):
        z = rng.normal(size=500)
        second = (rng.random(500) < 1 / (1 + np.exp(-beta[0] - beta[1] * z))).astype(int)
        table = {
            name: (rng.random(500) < one[second, 1]).astype(int)
            for name, one in zip(real.names, real.tables, strict=True)
        }
        model = fgrn.LatentClassModel(2, smoothing=0.0, n_init=2, random_state=number).fit(table)
        model.relabel(nearest_order(model._estimates(), real))
        for steps in (1, 2, 3):
            found = model.membership_regression({"z": z}, steps=steps, n_init=1)
            apart = found.coefficients[1] - beta
            held[steps - 1] += np.abs(apart) <= 1.959964 * found.errors[1]
            bias[steps - 1] += apart
    for steps, (share, off) in enumerate(zip(held / replications, bias / replications, strict=True), start=1):
        told = f"intercept {share[0]:.3f}, slope {share[1]:.3f}; mean error {off[0]:+.3f}, {off[1]:+.3f}"
        print(f"coverage of 95 % intervals of coefficients, {steps} steps, {replications:,} replications: {told}")


HOWS = {
    "three steps, BCH": {"steps": 3},
    "three steps, ML": {"steps": 3, "correction": "ml"},
    "two steps": {"steps": 2},
    "one step": {"steps": 1, "n_init": 1},
}


def outcomes(replications: int = 1000) -> None:
    """How often 95 % intervals of the mean of a number, of a share, and of a small share in two classes hold the truth.

    The standard errors are robust, as they are by default.
    """
    real, rng = truth(2, 6), np.random.default_rng(7)
    wanted = {"means": np.array([1.0, 2.0]), "shares": np.array([0.3, 0.7]), "small shares": np.array([0.02, 0.5])}
    held = {how: {what: np.zeros(2) for what in wanted} for how in HOWS}
    for number in range(replications):
        second = (rng.random(500) < real.prior[1]).astype(int)
        table = {
            name: (rng.random(500) < one[second, 1]).astype(int)
            for name, one in zip(real.names, real.tables, strict=True)
        }
        values = {"means": rng.normal(wanted["means"][second], 1.0)}
        values |= {what: rng.random(500) < wanted[what][second] for what in ("shares", "small shares")}
        model = fgrn.LatentClassModel(2, smoothing=0.0, n_init=2, random_state=number).fit(table)
        model.relabel(nearest_order(model._estimates(), real))
        for how, options in HOWS.items():
            for what, outcome in values.items():
                found = model.distal_outcome(outcome, **options)
                held[how][what] += (found.low <= wanted[what]) & (wanted[what] <= found.high)
    for how, counts in held.items():
        shares = {what: count / replications for what, count in counts.items()}
        parts = [f"{what} {first:.3f}, {second:.3f}" for what, (first, second) in shares.items()]
        print(f"coverage of 95 % intervals of outcomes, {how}, {replications:,} replications: {'; '.join(parts)}")


def more_classes(replicates: int = 20) -> None:
    """The bootstrap likelihood-ratio test of two against three classes beside that of StepMix, on one table."""
    table = drawn(truth(2, 6), 500, np.random.default_rng(6))
    begun = time.process_time()
    model = fgrn.LatentClassModel(2, smoothing=0.0, n_init=2, random_state=0).fit(table)
    found = model.bootstrap_lrt(n_bootstrap=replicates)
    print(f"fgrn: ratio {found.ratio:.4f}, p {found.p:.3f}, {time.process_time() - begun:.1f} s of CPU time")
    try:
        from stepmix import StepMix
        from stepmix.bootstrap import blrt
    except ImportError:
        print("StepMix is not installed")
        return
    codes = np.column_stack(list(table.values()))
    options = {"measurement": "binary", "n_init": 2, "abs_tol": 1e-6, "rel_tol": 1e-7, "max_iter": 5000}
    models = [StepMix(size, progress_bar=0, random_state=0, **options) for size in (2, 3)]
    begun = time.process_time()
    p = blrt(*models, codes, n_repetitions=replicates)
    ratio = 2 * len(codes) * (models[1].score(codes) - models[0].score(codes))
    print(f"StepMix: ratio {ratio:.4f}, p {p:.3f}, {time.process_time() - begun:.1f} s of CPU time")


PARTS: dict[str, Callable[[], None]] = {
    "bootstrap": bootstrap,
    "coverage": coverage,
    "imputation": imputation,
    "regression": regression,
    "outcomes": outcomes,
    "more_classes": more_classes,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
