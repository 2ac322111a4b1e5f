"""Density estimation: the mean test log-likelihood of HiddenTreeModel with its defaults, beside published values.

    python -m benchmarks.density [SET ...] [--record]

The sets are binary tables with rows for learning, validation and test (Lowd and Davis, 2010; Van Haaren and Davis,
2012), in $FGRN_SHARED/data/debd. Rows for validation decide when learning ends. Beside them stand the figures of hidden
Chow-Liu trees of 12 states, 4 of them mixed (Liu and Van den Broeck, 2021).
"""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import numpy as np

import fgrn

from .sets import measure

PUBLISHED = {
    "nltcs": -6.00, "msnbc": -6.06, "plants": -14.26, "jester": -52.4, "accidents": -26.7, "dna": -79.1,
    "tretail": -10.9, "book": -33.5,
}  # fmt: skip
"""Mean test log-likelihood per row of hidden Chow-Liu trees."""

RECORD = Path(__file__).with_name("density.json")
"""What was measured, by set."""


def rows(name: str, part: str) -> np.ndarray:
    """The rows of a part of a set: "ts" (learning), "valid" or "test"."""
    folder = Path(os.environ.get("FGRN_SHARED", "../shared")) / "data" / "debd"
    with gzip.open(folder / f"{name}.{part}.data.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.int8)


def measured(name: str) -> dict[str, float | int]:
    """Learn from a set with the defaults, and score its test rows."""
    learnt, valid, test = (rows(name, part) for part in ("ts", "valid", "test"))
    begun = time.process_time()
    model = fgrn.HiddenTreeModel(validation=valid, random_state=0).fit(learnt)
    used = time.process_time() - begun
    return {
        "rows": len(learnt),
        "columns": learnt.shape[1],
        "states": model.n_hidden_,
        "trees": model.n_trees_,
        "shared": hasattr(model, "mixture_"),
        "epochs": model.history_.epochs,
        "validation": round(model.score(valid), 4),
        "test": round(model.score(test), 4),
        "seconds": round(used, 1),
    }


def tables(found: dict[str, dict[str, float | int]]) -> dict[str, str]:
    """What was measured as a table in Markdown."""
    lines = [
        "| set | rows x columns | trees x states | tables of columns | CPU seconds | test | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        lines.append(
            f"| {name} | {one['rows']:,} x {one['columns']:,} | {one['trees']} x {one['states']} | "
            f"{'shared' if one['shared'] else 'by tree'} | "
            f"{one['seconds']:,.0f} | {one['test']:.3f} | {PUBLISHED[name]:.2f} |"
        )
    return {"density": "\n".join(lines)}


if __name__ == "__main__":
    measure(__doc__, PUBLISHED, measured, RECORD, tables)
