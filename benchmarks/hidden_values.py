"""How well the class of rows with missing values is predicted: log-loss with shares of the values hidden.

Every model is learnt from four fifths of a table as it is, and asked for the class of the rest, of which a share of the
values is hidden at random.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

MOST_ROWS = 3_000
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75)
SHOWN = SHARES[1:]
PARTS = 5


def measured(name: str, rows: pd.DataFrame, classes: pd.Series, models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record for each model on a table: the log-loss for every share of hidden values."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    labels, truth = np.unique(classes, return_inverse=True)
    records = []
    for called, model in models.items():
        losses: dict[float, list[float]] = {share: [] for share in SHARES}
        for part, (learnt, asked) in enumerate(StratifiedKFold(PARTS, shuffle=True, random_state=0).split(rows, truth)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(rows.iloc[learnt], classes.iloc[learnt])
                places = np.searchsorted(labels, fitted.classes_)
                chance = np.random.default_rng(part).random((len(asked), rows.shape[1]))
                for share in SHARES:
                    chances = np.zeros((len(asked), len(labels)))
                    chances[:, places] = fitted.predict_proba(rows.iloc[asked].mask(chance < share))
                    told = chances[np.arange(len(asked)), truth[asked]]
                    losses[share].append(float(-np.log(np.maximum(told, 1e-15)).mean()))
        found = {str(share): float(np.mean(one)) for share, one in losses.items()}
        records.append({"table": name, "rows": len(rows), "model": called, "log_loss": found})
        shown = "  ".join(f"{share:.0%} {found[str(share)]:.3f}" for share in SHARES)
        print(f"{name:14} {len(rows):6,} rows  {called:21} {shown}", flush=True)
    return records


def page(records: list[dict[str, Any]]) -> str:
    """The table of the page: the log-loss of each model on each table, by the share of hidden values."""
    names = list(dict.fromkeys(record["model"] for record in records))
    tables = list(dict.fromkeys(record["table"] for record in records))
    by_name = {(record["table"], record["model"]): record["log_loss"] for record in records}
    lines = ["| table | hidden | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]

    def line(first: str, share: float, losses: list[float]) -> str:
        best = min(losses)
        cells = [("**{:.3f}**" if loss == best else "{:.3f}").format(loss) for loss in losses]
        return f"| {first} | {share:.0%} | " + " | ".join(cells) + " |"

    for table in tables:
        for share in SHOWN:
            losses = [by_name[table, name][str(share)] for name in names]
            lines.append(line(table if share == SHOWN[0] else "", share, losses))
    for share in SHOWN:
        means = [float(np.mean([by_name[table, name][str(share)] for table in tables])) for name in names]
        lines.append(line("mean" if share == SHOWN[0] else "", share, means))
    return "\n".join(lines)
