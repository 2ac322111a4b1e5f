"""Continuous columns beside StepMix: the same likelihood, and the CPU time of a fit.

python -m benchmarks.continuous            # all
python -m benchmarks.continuous coverage   # one of: mixtures, coverage

StepMix is needed for the first. `benchmarks.sequences` compares hidden Markov models with hmmlearn.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import fgrn


def spent(work: Callable[[], object], times: int = 3) -> float:
    """Milliseconds of CPU time, the least of several times."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return 1000 * min(found)


def people(rows: int, rng: np.random.Generator, missing: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of three numbers and two codes in three classes, and the class of each row."""
    number = rng.integers(0, 3, rows)
    means = np.array([[0, 0, 0], [3, 1, 0], [-2, 2, 3]])
    values = means[number] + rng.normal(size=(rows, 3)) * [1, 2, 0.5]
    answers = [rng.random(rows) < np.array([0.1, 0.5, 0.9])[number], rng.integers(0, 2, rows) + number]
    table = np.column_stack([values, *answers]).astype(float)
    table[rng.random(table.shape) < missing] = np.nan
    return pd.DataFrame(table, columns=list("abcqr")), number


def mixtures() -> None:
    """Mixed tables of 1,500 rows: the maximum that StepMix finds, and the time of the whole fit with three starts."""
    from stepmix.stepmix import StepMix

    for missing in (0.0, 0.15):
        table, _ = people(1500, np.random.default_rng(0), missing)
        for covariance, name in (("diagonal", "gaussian_diag"), ("spherical", "gaussian_spherical")):
            end = "_nan" if missing else ""
            parts = {"g": {"model": name + end, "n_columns": 3}, "c": {"model": "categorical" + end, "n_columns": 2}}
            peer = StepMix(3, measurement=parts, random_state=0, n_init=3, max_iter=5000, abs_tol=1e-13, verbose=0)
            settings: dict[str, Any] = {"smoothing": 0, "tol": 1e-14, "n_init": 3, "random_state": 0}
            model = fgrn.LatentClassModel(3, continuous=list("abc"), covariance=covariance, **settings)
            theirs, ours = spent(lambda p=peer, t=table: p.fit(t), 1), spent(lambda m=model, t=table: m.fit(t), 2)
            apart = 1500 * (model.score(table) - peer.score(table))
            print(f"{name + end:24} log-likelihood differs by {apart:.1e}; {ours:6.0f} ms, StepMix {theirs:6.0f} ms")


def coverage(replications: int = 300) -> None:
    """How often 95 % intervals of means and variances hold the truth, in tables of 600 rows with 15 % missing."""
    rng, held, count = np.random.default_rng(3), {"mean": 0, "variance": 0}, 0
    means = np.array([[0, 0, 0], [3, 1, 0], [-2, 2, 3]])
    variances = np.tile([1.0, 4.0, 0.25], (3, 1))
    for number in range(replications):
        table, _ = people(600, rng, 0.15)
        model = fgrn.LatentClassModel(3, continuous=list("abc"), n_init=2, random_state=number).fit(table)
        order = [int(np.argmin(((model.means_ - one) ** 2).sum(axis=1))) for one in means]
        if len(set(order)) < 3:
            continue
        count += 9
        errors = model.relabel(order).standard_errors()
        for what, truth in (("mean", means), ("variance", variances)):
            found = errors.of(what)
            held[what] += sum(one.low <= right <= one.high for one, right in zip(found, truth.T.ravel(), strict=True))
    print(f"coverage of 95 % intervals: means {held['mean'] / count:.3f}, variances {held['variance'] / count:.3f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parts = {"mixtures": mixtures, "coverage": coverage}
    for name in sys.argv[1:] or parts:
        parts[name]()
