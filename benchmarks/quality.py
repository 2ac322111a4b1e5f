"""How good classifiers with default settings are: accuracy, log-loss, calibration and seconds, beside scikit-learn's.

    python -m benchmarks.quality [table ...] [--rows 10000] [--model NAME] [--record]
        [--imputation | --hidden | --unseen]

Every model is fitted on four fifths of a table and asked for the classes of the rest, in turn. A table with more rows
than --rows is drawn from. Two models are compared by the differences between them in the five parts: their mean, and
its standard error. With --imputation missing values are asked for instead, see `benchmarks.imputation`; with --hidden
the class of rows whose values are hidden, see `benchmarks.hidden_values`; with --unseen the class in tables on which
no default was chosen, see `benchmarks.unseen`. With --record the figures go to
`quality.json` and the page `docs/quality.md`.
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

from . import hidden_values, imputation, unseen

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


def _sampled(network: str, target: str) -> tuple[pd.DataFrame, pd.Series]:
    """Rows drawn from a Bayesian network, a tenth of the values missing."""
    import fgrn

    rows = pd.DataFrame(fgrn.read(shared() / "bif" / f"{network}.bif").sample(2_000, seed=7))
    classes = rows.pop(target)
    rows = rows.replace("None", "none")  # a level, not a missing value
    return rows.mask(np.random.default_rng(7).random(rows.shape) < 0.1), classes


def _binary(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """A binary table for density estimation, of which the column nearest to one half is the class."""
    rows = pd.read_csv(shared() / "debd" / f"{name}.ts.data.gz", header=None, nrows=3_000)
    target = int((rows.mean() - 0.5).abs().argmin())
    rows = rows.rename(columns=lambda number: f"c{number}")
    return rows.drop(columns=f"c{target}"), rows[f"c{target}"]


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
    "child": lambda: _sampled("child", "Disease"),
    "insurance": lambda: _sampled("insurance", "PropCost"),
    "nltcs": lambda: _binary("nltcs"),
    "plants": lambda: _binary("plants"),
}

APART = ("child", "insurance", "nltcs", "plants")
"""Tables on which nothing was tried out: the settings are those found on the others (but see the page)."""

BOOSTING = "HistGradientBoosting"
OURS, BAYES, REGRESSION, TREES = (
    "LatentClassifier", "fgrn naive Bayes", "LogisticRegression", ("RandomForest", BOOSTING),
)  # fmt: skip
BOOSTED_CLASSES = 5
"""With more classes boosting is left out of the tables of `benchmarks.unseen`: it takes half a minute to fit some."""


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


def measures_of(chances: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, log-loss, and the expected calibration error in ten bins of confidence."""
    rows = np.arange(len(truth))
    right, sure = chances.argmax(axis=1) == truth, chances.max(axis=1)
    loss = -np.log(np.maximum(chances[rows, truth], 1e-15)).mean()
    bins = np.minimum((10 * sure).astype(int), 9)
    error = sum(abs((right - sure)[bins == number].sum()) for number in range(10)) / len(truth)
    return float(right.mean()), float(loss), float(error)


def expected_calibration(chances: np.ndarray, draws: int = 50) -> float:
    """The calibration error of these probabilities if they were right: classes drawn from them, in so few rows."""
    rng = np.random.default_rng(0)
    ends = chances.cumsum(axis=1)
    ends /= ends[:, -1:]
    found = [
        measures_of(chances, np.minimum((rng.random((len(ends), 1)) > ends).sum(axis=1), ends.shape[1] - 1))[2]
        for _ in range(draws)
    ]
    return float(np.mean(found))


def difference(one: dict[str, Any], other: dict[str, Any], what: str) -> tuple[float, float]:
    """How much larger a figure is for one model than for another: the mean over the parts, and its standard error."""
    apart = np.array(one[f"{what}_parts"]) - np.array(other[f"{what}_parts"])
    return float(apart.mean()), float(np.std(apart, ddof=1) / np.sqrt(len(apart)))


def is_behind(gain: float, error: float) -> bool:
    """Whether one model is behind another by more than one standard error of the difference."""
    return gain < -error - 1e-9


def some_rows(name: str, most: int) -> tuple[pd.DataFrame, pd.Series]:
    """The columns and classes of a table; if it has more rows than `most`, of so many that are drawn."""
    rows, classes = TABLES[name]()
    if len(rows) <= most:
        return rows, classes
    some = np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))
    return rows.iloc[some].reset_index(drop=True), classes.iloc[some].reset_index(drop=True)


def measured(
    name: str, rows: pd.DataFrame, classes: pd.Series, only: str | None = None, most_classes: float = np.inf
) -> list[dict[str, Any]]:
    """A record for each model on a table, or for one of them."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    labels, truth = np.unique(classes, return_inverse=True)
    records = []
    for called, model in models(rows, classes).items():
        if only not in (None, called) or (called == BOOSTING and len(labels) > most_classes):
            continue
        chances = np.zeros((len(rows), len(labels)))
        parts, took = [], 0.0
        for learnt, asked in StratifiedKFold(PARTS, shuffle=True, random_state=0).split(rows, truth):
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(rows.iloc[learnt], classes.iloc[learnt])
                took += time.process_time() - begin
                places = np.searchsorted(labels, fitted.classes_)
                chances[np.ix_(asked, places)] = fitted.predict_proba(rows.iloc[asked])
            parts.append(measures_of(chances[asked], truth[asked]))
        accuracy, loss, calibration = measures_of(chances, truth)
        errors = np.std(np.array(parts), axis=0, ddof=1) / np.sqrt(PARTS)
        records.append({
            "table": name, "rows": len(rows), "columns": rows.shape[1], "classes": len(labels), "model": called,
            "accuracy": accuracy, "accuracy_error": float(errors[0]), "log_loss": loss,
            "log_loss_error": float(errors[1]), "calibration_error": calibration, "seconds": took / PARTS,
            "calibration_expected": expected_calibration(chances), "accuracy_parts": [one[0] for one in parts],
            "log_loss_parts": [one[1] for one in parts],
        })  # fmt: skip
        print(
            f"{name:14} {len(rows):6,} rows  {called:21} accuracy {accuracy:.4f} +/- {errors[0]:.4f}  "
            f"log-loss {loss:.4f} +/- {errors[1]:.4f}  calibration {calibration:.3f}  {took / PARTS:.2f} s",
            flush=True,
        )
    return records


def page(records: list[dict[str, Any]]) -> dict[str, str]:
    """The parts of the page: accuracy and log-loss, differences with their errors, calibration and seconds, counts."""
    names = list(dict.fromkeys(record["model"] for record in records))
    by_table: dict[str, dict[str, Any]] = {}
    for record in records:
        by_table.setdefault(record["table"], {})[record["model"]] = record
    head = ["| table | rows | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    scores, others = list(head), list(head)
    for table, found in by_table.items():
        rows = f"| {_marked(table, found)} | {next(iter(found.values()))['rows']:,} | "
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
    means = [
        np.mean([found[name]["log_loss"] for found in by_table.values()]) if all(name in f for f in by_table.values())
        else np.nan for name in names
    ]  # fmt: skip
    scores.append("| mean log-loss | | " + " | ".join(f"{m:.3f}" if m == m else "" for m in means) + " |")
    by_table = {table: found for table, found in by_table.items() if _has_parts(found)}
    return {
        "scores": "\n".join(scores),
        "differences": _differences(by_table),
        "calibration": "\n".join(others),
        "counts": _counts(by_table),
    }


def _has_parts(found: dict[str, Any]) -> bool:
    """Whether the figures of each part were kept: those of earlier versions were not."""
    return all("accuracy_parts" in record for record in found.values())


def _marked(table: str, found: dict[str, Any]) -> str:
    """The name of a table, with a star if it was kept apart, and a dagger if its figures are of an earlier version."""
    return f"{table}{'*' if table in APART else ''}{'' if _has_parts(found) else '†'}"


def _differences(by_table: dict[str, dict[str, Any]]) -> str:
    """How far LatentClassifier is from naive Bayes and logistic regression, bold where it is behind."""
    head = ["accuracy", "log-loss"]
    lines = [
        "| table | " + " | ".join(f"{what}, beside {peer}" for peer in (BAYES, REGRESSION) for what in head) + " |",
        "|---" * 5 + "|",
    ]
    for table, found in by_table.items():
        cells = []
        for peer in (BAYES, REGRESSION):
            for what, sign in (("accuracy", 1), ("log_loss", -1)):
                mean, error = difference(found[OURS], found[peer], what)
                text = f"{mean:+.3f} ± {error:.3f}"
                cells.append(f"**{text}**" if is_behind(sign * mean, error) else text)
        lines.append(f"| {_marked(table, found)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _counts(by_table: dict[str, dict[str, Any]]) -> str:
    """On how many tables LatentClassifier is as good as it should be."""
    lines = []
    for peer in (BAYES, REGRESSION):
        for what, sign, word in (("accuracy", 1, "accuracy"), ("log_loss", -1, "log-loss")):
            behind = []
            for table, found in by_table.items():
                mean, error = difference(found[OURS], found[peer], what)
                if is_behind(sign * mean, error):
                    behind.append(table)
            less = f"; not on {', '.join(behind)}" if behind else ""
            count = len(by_table) - len(behind)
            asked = "at least that of {}, less" if sign > 0 else "at most that of {}, plus"
            told = f"{word} {asked.format(peer)} one standard error"
            lines.append(f"- {told}: {count} of {len(by_table)}{less}")
    far = []
    for table, found in by_table.items():
        if found[OURS]["accuracy"] < max(found[one]["accuracy"] for one in TREES if one in found) - 0.02:
            far.append(table)
    less = f"; not on {', '.join(far)}" if far else ""
    near = len(by_table) - len(far)
    lines.append(f"- accuracy within 0.02 of the better of {' and '.join(TREES)}: {near} of {len(by_table)}{less}")
    large = {table: found[OURS] for table, found in by_table.items() if found[OURS]["rows"] >= 1000}
    off = [
        f"{table} ({one['calibration_error']:.3f}; {one['calibration_expected']:.3f} if its probabilities were right)"
        for table, one in large.items()
        if one["calibration_error"] > 0.03
    ]
    less = f"; not on {', '.join(off)}" if off else ""
    good = len(large) - len(off)
    lines.append(f"- calibration error at most 0.03 where there are 1,000 rows: {good} of {len(large)}{less}")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; else all")
    parser.add_argument("--rows", type=int, default=10_000, help="the most rows of a table")
    parser.add_argument("--model", help="measure this model alone; the figures of others stay as they were recorded")
    parser.add_argument("--record", action="store_true", help="write the figures and the page")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--imputation", action="store_true", help="compare what is told of missing values instead")
    other.add_argument("--hidden", action="store_true", help="compare the log-loss with values hidden instead")
    other.add_argument("--unseen", action="store_true", help="measure tables of other packages instead")
    options = parser.parse_args()
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"classes": [], "imputation": []}
    kept = {"hidden": [], "unseen": []} | kept
    part, tables = ("imputation", imputation.TABLES) if options.imputation else ("classes", tuple(TABLES))
    part = "hidden" if options.hidden else part
    part, tables = ("unseen", unseen.NAMES) if options.unseen else (part, tables)
    order = list(unseen.NAMES if options.unseen else TABLES)
    for name in options.tables or tables:
        if options.imputation:
            found = imputation.measured(name, *TABLES[name]())
        elif options.hidden:
            rows, classes = some_rows(name, hidden_values.MOST_ROWS)
            compared = {called: one for called, one in models(rows, classes).items() if options.model in (None, called)}
            found = hidden_values.measured(name, rows, classes, compared)
        elif options.unseen:
            found = measured(name, *unseen.table(name), options.model, BOOSTED_CLASSES)
        else:
            found = measured(name, *some_rows(name, options.rows), options.model)
        # new figures take the place of old ones
        by_name = {(record["table"], record["model"]): record for record in [*kept[part], *found]}
        kept[part] = sorted(by_name.values(), key=lambda record: order.index(record["table"]))
        if options.record:
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
    if part in ("classes", "unseen"):
        print(page(kept[part])["counts"])
    if options.record:
        from .report import filled

        place = ROOT / "docs" / "quality.md"
        others = [record for record in kept["unseen"] if record["table"] not in unseen.EARLIER]
        parts = {
            **page(kept["classes"]), "imputation": imputation.page(kept["imputation"]),
            "hidden": hidden_values.page(kept["hidden"]),
            **{f"unseen {name}": page(kept["unseen"])[name] for name in ("scores", "counts")},
            "unseen without earlier": page(others)["counts"],
        }  # fmt: skip
        place.write_text(filled(place.read_text(), parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
