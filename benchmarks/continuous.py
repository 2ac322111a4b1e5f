"""Continuous columns beside StepMix: the same likelihood, and the CPU time of a fit.

    python -m benchmarks.continuous [--record]

StepMix is needed. `benchmarks.inference` measures coverage, `benchmarks.sequences` compares hidden Markov models with
hmmlearn.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgrn

RECORD = Path(__file__).with_name("continuous.json")
"""What was measured."""


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


def mixtures() -> list[dict[str, Any]]:
    """Mixed tables of 1,500 rows: the maximum that StepMix finds, and the time of the whole fit with three starts."""
    from stepmix.stepmix import StepMix

    found = []
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
            found.append({"model": name + end, "difference": apart, "ms": round(ours), "stepmix_ms": round(theirs)})
    return found + _numbers_alone()


def _numbers_alone() -> list[dict[str, Any]]:
    """Three columns of numbers: the maximum and the time of the whole fit beside GaussianMixture of scikit-learn."""
    from sklearn.mixture import GaussianMixture

    found = []
    for rows in (1500, 50_000):
        values = people(rows, np.random.default_rng(0))[0][list("abc")]
        settings: dict[str, Any] = {"n_init": 3, "random_state": 0}
        peer = GaussianMixture(3, covariance_type="diag", tol=1e-9, max_iter=5000, reg_covar=0.0, **settings)
        model = fgrn.LatentClassModel(3, continuous=list("abc"), tol=1e-9, n_epochs=5000, **settings)
        theirs, ours = spent(lambda p=peer, t=values: p.fit(t), 2), spent(lambda m=model, t=values: m.fit(t), 2)
        apart = rows * (model.score(values) - peer.score(values))
        print(f"{rows:6,} rows of numbers: differs by {apart:.1e}; {ours:6.0f} ms, GaussianMixture {theirs:6.0f} ms")
        found.append({"rows": rows, "difference": apart, "ms": round(ours), "gaussian_mixture_ms": round(theirs)})
    return found


def main() -> None:
    """Measure, and record it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"write what was measured to {RECORD.name}")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    measured = mixtures()
    if given.record:
        RECORD.write_text(json.dumps({"mixtures": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
