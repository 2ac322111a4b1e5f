"""How good classifiers with default settings are: accuracy, log-loss, calibration and seconds, beside scikit-learn's.

    python -m benchmarks.quality [table ...] [--rows 10000] [--record]

Every model is fitted on four fifths of a table and asked for the classes of the rest, in turn. A table with more rows
than --rows is drawn from. With --record the figures go to `quality.json` and the page `docs/quality.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks" / "quality.json"
PARTS = 5
FEW_NUMBERS = 12
"""Different numbers of a column that is taken as levels, as fgrn does."""

ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)


def shared() -> Path:
    """The folder of tables that are not in the repository."""
    return Path(os.environ.get("FGRN_SHARED", ROOT.parent / "shared")) / "data"


def _read(path: str, target: int, drop: tuple[int, ...] = (), **options: Any) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(shared() / path, header=None, skipinitialspace=True, na_values="?", **options)
    table = table.drop(columns=list(drop)).rename(columns=lambda number: f"c{number}")
    return table.drop(columns=f"c{target}"), table[f"c{target}"]


def _adult() -> tuple[pd.DataFrame, pd.Series]:
    parts = [_read(f"tables/adult.{name}.gz", 14, comment="|") for name in ("data", "test")]
    rows = pd.concat([part[0] for part in parts], ignore_index=True)
    rows.columns = pd.Index(ADULT.split()[:-1])
    return rows, pd.concat([part[1] for part in parts], ignore_index=True).str.rstrip(".")


def _of_sklearn(name: str) -> tuple[pd.DataFrame, pd.Series]:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")(as_frame=True)
    return found.data, found.target


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, pd.Series]]] = {
    "iris": lambda: _of_sklearn("iris"),
    "wine": lambda: _of_sklearn("wine"),
    "votes": lambda: _read("tables/house-votes-84.data", 0),
    "breast_cancer": lambda: _of_sklearn("breast_cancer"),
    "wisconsin": lambda: _read("uci/breast-cancer-wisconsin.data", 10, drop=(0,)),
    "mammographic": lambda: _read("uci/mammographic_masses.data", 5),
    "cmc": lambda: _read("uci/cmc.data", 9),
    "car": lambda: _read("tables/car.data", 6, dtype=str),
    "digits": lambda: _of_sklearn("digits"),
    "mushroom": lambda: _read("tables/agaricus-lepiota.data", 0),
    "nursery": lambda: _read("tables/nursery.data", 8, dtype=str),
    "adult": _adult,
}


def models(rows: pd.DataFrame, classes: pd.Series) -> dict[str, Any]:
    """fgrn and its peers, each with its default settings after the usual preparation of the columns."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler

    import fgrn

    numbers = [n for n in rows if pd.api.types.is_numeric_dtype(rows[n]) and rows[n].nunique() > FEW_NUMBERS]
    words = [name for name in rows if name not in numbers]

    def codes(unknown: float, missing: float) -> Any:
        return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=unknown, encoded_missing_value=missing)

    binned = KBinsDiscretizer(5, encode="ordinal", quantile_method="averaged_inverted_cdf")
    for_bayes = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), codes(np.nan, np.nan), SimpleImputer()), words),
        (make_pipeline(SimpleImputer(), binned), numbers),
    )
    levels = [rows[name].nunique() for name in words] + [5] * len(numbers)
    for_regression = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), (make_pipeline(SimpleImputer(), StandardScaler()), numbers)
    )
    for_forest = make_column_transformer((codes(-1, -2), words), (SimpleImputer(), numbers))
    for_boosting = make_column_transformer((codes(np.nan, np.nan), words), remainder="passthrough")
    is_rare = classes.value_counts().min() < 3  # which early stopping cannot part
    boosting = HistGradientBoostingClassifier(
        random_state=0, categorical_features=list(range(len(words))), early_stopping=False if is_rare else "auto"
    )
    return {
        "LatentClassifier": fgrn.LatentClassifier(random_state=0),
        "fgrn naive Bayes": fgrn.NaiveBayesClassifier(),
        "CategoricalNB": make_pipeline(for_bayes, CategoricalNB(min_categories=levels)),
        "LogisticRegression": make_pipeline(for_regression, LogisticRegression(max_iter=1000)),
        "RandomForest": make_pipeline(for_forest, RandomForestClassifier(random_state=0)),
        "HistGradientBoosting": make_pipeline(for_boosting, boosting),
    }


def judged(chances: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, log-loss, and the expected calibration error in ten bins of confidence."""
    rows = np.arange(len(truth))
    right, sure = chances.argmax(axis=1) == truth, chances.max(axis=1)
    loss = -np.log(np.maximum(chances[rows, truth], 1e-15)).mean()
    bins = np.minimum((10 * sure).astype(int), 9)
    error = sum(abs((right - sure)[bins == number].sum()) for number in range(10)) / len(truth)
    return float(right.mean()), float(loss), float(error)


def measured(name: str, most: int) -> list[dict[str, Any]]:
    """A record for each model on a table."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    rows, classes = TABLES[name]()
    if len(rows) > most:
        some = np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))
        rows, classes = rows.iloc[some].reset_index(drop=True), classes.iloc[some].reset_index(drop=True)
    labels, truth = np.unique(classes, return_inverse=True)
    records = []
    for called, model in models(rows, classes).items():
        chances = np.zeros((len(rows), len(labels)))
        parts, took = [], 0.0
        for learnt, asked in StratifiedKFold(PARTS, shuffle=True, random_state=0).split(rows, truth):
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(rows.iloc[learnt], classes.iloc[learnt])
                took += time.perf_counter() - begin
                places = np.searchsorted(labels, fitted.classes_)
                chances[np.ix_(asked, places)] = fitted.predict_proba(rows.iloc[asked])
            parts.append(judged(chances[asked], truth[asked]))
        accuracy, loss, calibration = judged(chances, truth)
        errors = np.std(np.array(parts), axis=0, ddof=1) / np.sqrt(PARTS)
        records.append({
            "table": name, "rows": len(rows), "columns": rows.shape[1], "classes": len(labels), "model": called,
            "accuracy": accuracy, "accuracy_error": float(errors[0]), "log_loss": loss,
            "log_loss_error": float(errors[1]), "calibration_error": calibration, "seconds": took / PARTS,
        })  # fmt: skip
        print(
            f"{name:14} {len(rows):6,} rows  {called:21} accuracy {accuracy:.4f} +/- {errors[0]:.4f}  "
            f"log-loss {loss:.4f} +/- {errors[1]:.4f}  calibration {calibration:.3f}  {took / PARTS:.2f} s",
            flush=True,
        )
    return records


def page(records: list[dict[str, Any]]) -> dict[str, str]:
    """The parts of the page: a table of accuracies and log-losses, and one of calibration and seconds."""
    names = list(dict.fromkeys(record["model"] for record in records))
    by_table: dict[str, dict[str, Any]] = {}
    for record in records:
        by_table.setdefault(record["table"], {})[record["model"]] = record
    head = ["| table | rows | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    scores, others = list(head), list(head)
    for table, found in by_table.items():
        rows = f"| {table} | {next(iter(found.values()))['rows']:,} | "
        best = min(one["log_loss"] for one in found.values())
        cells = [
            f"{found[n]['accuracy']:.3f} / " + ("**{:.3f}**" if found[n]["log_loss"] == best else "{:.3f}").format(
                found[n]["log_loss"]) if n in found else "" for n in names
        ]  # fmt: skip
        scores.append(rows + " | ".join(cells) + " |")
        cells = [
            f"{found[n]['calibration_error']:.3f} / {found[n]['seconds']:.2f} s" if n in found else "" for n in names
        ]
        others.append(rows + " | ".join(cells) + " |")
    means = [np.mean([found[name]["log_loss"] for found in by_table.values() if name in found]) for name in names]
    scores.append("| mean log-loss | | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return {"scores": "\n".join(scores), "calibration": "\n".join(others)}


def main() -> int:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; else all")
    parser.add_argument("--rows", type=int, default=10_000, help="the most rows of a table")
    parser.add_argument("--record", action="store_true", help="write the figures and the page")
    options = parser.parse_args()
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else []
    for name in options.tables or TABLES:
        found = measured(name, options.rows)
        if options.record:
            kept = [record for record in kept if record["table"] != name] + found
            kept.sort(key=lambda record: list(TABLES).index(record["table"]))
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
    if options.record:
        from .report import filled

        place = ROOT / "docs" / "quality.md"
        place.write_text(filled(place.read_text(), page(kept)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
