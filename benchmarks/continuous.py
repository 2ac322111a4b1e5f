"""Continuous columns beside StepMix: the same likelihood, and the CPU time of a fit.

    python -m benchmarks.continuous [mixtures | coverage ...] [--record]

StepMix is needed for the first. `benchmarks.sequences` compares hidden Markov models with hmmlearn.
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
"""What was measured, by part."""


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


def coverage(replications: int = 1000) -> dict[str, float]:
    """How often 95 % intervals hold the truth, in tables of 600 rows with 15 % missing."""
    rng, held, count = np.random.default_rng(3), dict.fromkeys(("mean", "variance", "size", "probability"), 0), 0
    means = np.array([[0, 0, 0], [3, 1, 0], [-2, 2, 3]])
    truth = {
        "mean": means.T.ravel(),
        "variance": np.repeat([1.0, 4.0, 0.25], 3),
        "size": np.full(3, 1 / 3),
        "probability": np.array([0.9, 0.1, 0.5, 0.5, 0.1, 0.9]),
    }
    for number in range(replications):
        table, _ = people(600, rng, 0.15)
        model = fgrn.LatentClassModel(3, continuous=list("abc"), n_init=2, random_state=number).fit(table)
        order = [int(np.argmin(((model.means_ - one) ** 2).sum(axis=1))) for one in means]
        if len(set(order)) < 3:
            continue
        count += 1
        errors = model.relabel(order).standard_errors()
        for what, right in truth.items():
            found = errors.of(what, "q" if what == "probability" else "")
            held[what] += sum(one.low <= value <= one.high for one, value in zip(found, right, strict=True))
    found = {what: held[what] / (count * len(right)) for what, right in truth.items()}
    told = ", ".join(f"{what} {share:.3f}" for what, share in found.items())
    print(f"coverage of 95 % intervals in {count:,} of {replications:,} replications: {told}")
    return found | {"replications": count}


def main() -> None:
    """Measure some parts, and record it."""
    parts: dict[str, Callable[[], Any]] = {"mixtures": mixtures, "coverage": coverage}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="all of them unless named")
    parser.add_argument("--record", action="store_true", help=f"write what was measured to {RECORD.name}")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.parts or parts:
        measured = parts[name]()
        if given.record:
            known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
            RECORD.write_text(json.dumps({**known, name: measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
