"""Latent class analysis: the time of bootstraps, and simulated tables for `benchmarks.inference`.

python -m benchmarks.latent_classes
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import fgrn
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    bootstrap()
