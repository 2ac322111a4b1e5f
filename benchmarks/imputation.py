"""How well missing values are told: the log score of LatentImputer beside the usual ways, on levels of all columns.

Of a table a fifth of the rows is held out, and of those a fifth of the known values is hidden, as is a tenth in the
others. Every model says how likely each level of a hidden value is:

mode       the shares of the levels in the rows learnt from
KNN        the shares among 15 nearest rows: scikit-learn's KNNImputer on indicators of the levels
boosting   a HistGradientBoostingClassifier for every column, from all others
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

TABLES = ("votes", "wisconsin", "mammographic", "cmc", "mushroom", "adult", "insurance", "nltcs")
"""Those with columns that depend on each other; of more than `MOST_ROWS` rows so many are drawn."""

MOST_ROWS = 2_000
NEIGHBOURS = 15


def levels_of(rows: pd.DataFrame) -> pd.DataFrame:
    """All columns as codes of their levels, numbers in five bins; NaN where a value is missing."""
    import fgrn

    schema = fgrn.Schema.infer(rows, bins=5)
    codes = schema.codes(rows)
    return pd.DataFrame({name: np.where(codes[name].codes < 0, np.nan, codes[name].codes) for name in rows})


def _mode(learnt: pd.DataFrame, asked: pd.DataFrame, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    found = {}
    for name, size in sizes.items():
        counts = np.bincount(learnt[name].dropna().astype(int), minlength=size) + 1 / size
        found[name] = np.tile(counts / counts.sum(), (len(asked), 1))
    return found


def _neighbours(learnt: pd.DataFrame, asked: pd.DataFrame, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    from sklearn.impute import KNNImputer

    def indicators(rows: pd.DataFrame) -> np.ndarray:
        parts = []
        for name, size in sizes.items():
            column = rows[name].to_numpy()
            parts.append(np.where(np.isnan(column)[:, None], np.nan, column[:, None] == np.arange(size)))
        return np.concatenate(parts, axis=1)

    model = KNNImputer(n_neighbors=NEIGHBOURS, keep_empty_features=True).fit(indicators(learnt))
    filled, found, first = model.transform(indicators(asked)), {}, 0
    for name, size in sizes.items():
        near = NEIGHBOURS * np.clip(filled[:, first : first + size], 0, 1) + 1 / size
        found[name] = near / near.sum(axis=1, keepdims=True)
        first += size
    return found


def _boosting(learnt: pd.DataFrame, asked: pd.DataFrame, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    found = {}
    for name, size in sizes.items():
        others = [other for other in sizes if other != name]
        known = learnt[name].notna()
        chances = np.full((len(asked), size), 1e-3)
        if learnt.loc[known, name].nunique() > 1:
            rare = learnt.loc[known, name].value_counts().min() < 3
            model = HistGradientBoostingClassifier(
                random_state=0, categorical_features=[sizes[other] > 2 for other in others],
                early_stopping=False if rare else "auto",
            ).fit(learnt.loc[known, others], learnt.loc[known, name].astype(int))  # fmt: skip
            chances[:, model.classes_] += model.predict_proba(asked[others])
        found[name] = chances / chances.sum(axis=1, keepdims=True)
    return found


def _latent(learnt: pd.DataFrame, asked: pd.DataFrame, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    import fgrn

    schema = fgrn.Schema([fgrn.Column(name, tuple(range(size))) for name, size in sizes.items()])
    model = fgrn.LatentImputer(schema=schema, random_state=0).fit(learnt)
    seen = model.network_.propagate(model.schema_.codes(asked), keep=list(sizes), parts=["marginal"])
    return {name: seen.marginal(name) for name in sizes}


MODELS = {"LatentImputer": _latent, "mode": _mode, "KNN": _neighbours, "boosting": _boosting}


def measured(name: str, rows: pd.DataFrame, classes: pd.Series) -> list[dict[str, Any]]:
    """A record for each way on a table, the class being a column like others."""
    rng = np.random.default_rng(0)
    whole = rows.assign(**{str(classes.name or "class"): classes.to_numpy()})
    if len(whole) > MOST_ROWS:
        whole = whole.iloc[np.sort(rng.choice(len(whole), MOST_ROWS, replace=False))].reset_index(drop=True)
    table = levels_of(whole)
    sizes = {column: int(table[column].max()) + 1 for column in table}
    back = rng.permutation(len(table)) < len(table) // 5
    learnt, truth = table[~back].reset_index(drop=True), table[back].reset_index(drop=True)
    learnt = learnt.mask(rng.random(learnt.shape) < 0.1)
    hidden = (rng.random(truth.shape) < 0.2) & truth.notna().to_numpy()
    asked = truth.mask(hidden)
    records, ours = [], np.zeros(0)
    for called, model in MODELS.items():
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model(learnt, asked, sizes)
        scores, right = [], []
        for place, column in enumerate(table):
            some = np.flatnonzero(hidden[:, place])
            levels = truth[column].to_numpy()[some].astype(int)
            scores.append(np.log(np.maximum(found[column][some, levels], 1e-9)))
            right.append(found[column][some].argmax(axis=1) == levels)
        score, share = np.concatenate(scores), float(np.concatenate(right).mean())
        ours = score if not records else ours
        apart = ours - score
        records.append({
            "table": name, "rows": len(table), "columns": len(sizes), "hidden": len(score), "model": called,
            "log_score": float(score.mean()), "right": share, "seconds": time.process_time() - begin,
            "behind_ours": float(apart.mean()), "behind_ours_error": float(apart.std(ddof=1) / np.sqrt(len(apart))),
        })  # fmt: skip
        print(
            f"{name:14} {len(score):6,} hidden values  {called:14} log score {score.mean():.4f}  right {share:.3f}  "
            f"{records[-1]['seconds']:.1f} s",
            flush=True,
        )
    return records


def page(records: list[dict[str, Any]]) -> str:
    """The table of the page: log scores, the largest bold, and shares of values that were told rightly."""
    names = list(MODELS)
    lines = ["| table | rows | hidden values | " + " | ".join(names) + " |", "|---" * (len(names) + 3) + "|"]
    for table in dict.fromkeys(record["table"] for record in records):
        found = {record["model"]: record for record in records if record["table"] == table}
        best = max(one["log_score"] for one in found.values())
        cells = [
            ("**{:.3f}**" if one["log_score"] == best else "{:.3f}").format(one["log_score"]) + f" / {one['right']:.3f}"
            for one in (found[name] for name in names)
        ]
        first = found[names[0]]
        lines.append(f"| {table} | {first['rows']:,} | {first['hidden']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
