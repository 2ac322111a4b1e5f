"""The demonstration `fgrn demo`: handwritten digits are learnt, predicted, explained, completed and drawn.

The table comes with scikit-learn. Eight by eight pixels in four shades of grey are 64 observed variables, the digit is
one more, and one hidden variable, some states of which belong to each digit, is their common cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plots
from ..core.exceptions import counted, shortened
from ..page.page import explore
from ..tables import table_file
from ..tables.columns import Column
from ..tables.schema import Schema
from . import datasets

if TYPE_CHECKING:
    from ..estimators import LatentClassifier

TRAINING_ROWS = 1300
EXPLAINED_ROW = 10
"""The number of the test row that is explained and completed."""


def run_demo(output: Path, hidden: int = 8, epochs: int = 100, say: Callable[[str], object] = print) -> dict[str, Any]:
    """Learn the digits with hidden states for each, print results, and write pictures, table and model to a folder.

    Returns the results.
    """
    from ..estimators import LatentClassifier

    table = datasets.load("digits")
    pixels = np.array(list(table.features.values())).T
    digits = np.array(table.classes)
    names = list(table.features)
    train, test = slice(0, TRAINING_ROWS), slice(TRAINING_ROWS, None)
    say(f"{table.rows:,} handwritten digits, 8 x 8 pixels in 4 shades of grey, of scikit-learn;")
    say(f"the first {TRAINING_ROWS:,} to learn from, the other {table.rows - TRAINING_ROWS} to be tested on.\n")

    shades = tuple(range(datasets.SHADES))  # a pixel may lack a shade in the training rows
    schema = Schema(Column(name, shades, ordered=True) for name in names)
    settings: dict[str, Any] = {"structure": "per_class", "n_hidden": hidden, "n_epochs": epochs, "max_seconds": 20}
    model = LatentClassifier(**settings, schema=schema, random_state=0, verbose=1)
    began = time.perf_counter()
    model.fit(_by_name(names, pixels[train]), {table.target: digits[train].tolist()})
    took = time.perf_counter() - began
    first, last = model.history_.per_row[[0, -1]]
    levels = shortened(model.schema_[names[20]].levels)
    say(f"Schema: {len(names)} columns such as {names[20]!r} (levels {levels}), and {table.target!r}")
    say(
        f"Learnt in {took:.1f} s: {counted(model.n_iter_, 'epoch')}, log-likelihood per digit "
        f"{first:.1f} -> {last:.1f}\n"
    )

    unseen = _by_name(names, pixels[test])
    found = model.predict(unseen)
    say("Accuracy on digits it has not seen")
    accuracy = {
        f"fgrn, {counted(hidden, 'hidden state')} for each digit": float(np.mean(found == digits[test])),
        **_accuracies_of_peers(pixels, digits, train, test),
    }
    for who, share in accuracy.items():
        say(f"  {who:38} {share:6.1%}")

    row = {name: int(column[EXPLAINED_ROW]) for name, column in unseen.items()}
    why = model.explain(row)
    truth = digits[test][EXPLAINED_ROW]
    say(f"\nWhy row {TRAINING_ROWS + EXPLAINED_ROW}, a {truth}, is called a {why.state} ({why.probability:.1%})")
    strongest = why.ranked[:4]
    rest = sum(value for _, value in why.ranked[4:])
    say(f"  {'any digit':16} {why.prior:+6.2f}   log-odds, in nats")
    for name, value in strongest:
        say(f"  {f'{name} = {row[name]}':16} {value:+6.2f}")
    say(f"  {f'{len(names) - len(strongest)} other pixels':16} {rest:+6.2f}")
    say(f"  {'total':16} {why.log_odds:+6.2f}")

    files = _write_files(model, table, pixels, digits, unseen, found, output, say)
    say("\nThe same with your own table:")
    say("  fgrn inspect yours.csv")
    say("  fgrn fit yours.csv --target COLUMN -o yours.fgrn")
    say(f"or with this one: fgrn fit {output / 'digits.csv'} --target digit -o {output / 'mine.fgrn'} --test 0.2")
    say("\nThe model as a page, on which pixels are set with a click; open it in a browser:")
    say(f"  {files[-1]}")
    return {
        "rows": TRAINING_ROWS,
        "rows_kept_back": table.rows - TRAINING_ROWS,
        "seconds": took,
        "epochs": model.n_iter_,
        "log_likelihood_per_row": float(last),
        "accuracy_on_rows_kept_back": accuracy,
        "files": files,
    }


def _write_files(
    model: LatentClassifier,
    table: datasets.Dataset,
    pixels: np.ndarray,
    digits: np.ndarray,
    unseen: dict[str, Any],
    found: np.ndarray,
    output: Path,
    say: Callable[[str], object],
) -> list[str]:
    """Write the pictures, the model, the table and the page; returns their paths."""
    output.mkdir(parents=True, exist_ok=True)
    names = list(table.features)
    test = digits[TRAINING_ROWS:]
    chosen = [int(np.flatnonzero(test == digit)[3]) for digit in range(10)]
    upper = {
        name: [None if place >= len(names) // 2 else int(pixels[TRAINING_ROWS + row, place]) for row in chosen]
        for place, name in enumerate(names)
    }
    row = {name: column[EXPLAINED_ROW] for name, column in unseen.items()}
    pictures = (
        ("prototypes.png", "what each digit looks like to the network", _prototypes(model, names)),
        ("completed.png", "lower halves it never saw, filled in from the upper ones",
         _completed(model, upper, pixels[TRAINING_ROWS:][chosen], test[chosen])),
        ("explained.png", "the row above, value by value", plots.explanation(model.explain(row))),
        ("confusion.png", "which digits are taken for which", plots.confusion(test, found)),
        ("convergence.png", "the likelihood, epoch by epoch", plots.convergence(model.history_)),
    )  # fmt: skip
    say("\nWritten")
    for name, what, figure in pictures:
        plots.save(figure, output / name)
        say(f"  {output / name}  {what}")
    model.save(output / "digits.fgrn")
    say(f"  {output / 'digits.fgrn'}  the model")
    table_file.write(table.columns, output / "digits.csv")
    say(f"  {output / 'digits.csv'}  the table")
    explore(model, output / "digits.html", title="Handwritten digits", source=output / "digits.fgrn")
    files = (*(name for name, _, _ in pictures), "digits.fgrn", "digits.csv", "digits.html")
    return [str(output / name) for name in files]


def _by_name(names: list[str], pixels: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(names, pixels.T, strict=True))


def _accuracies_of_peers(pixels: np.ndarray, digits: np.ndarray, train: slice, test: slice) -> dict[str, float]:
    """Return the accuracies of classifiers of scikit-learn with their default settings."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import CategoricalNB

    peers = {
        "random forest of scikit-learn": RandomForestClassifier(random_state=0),
        "naive Bayes of scikit-learn": CategoricalNB(min_categories=datasets.SHADES),
    }
    return {
        name: float(peer.fit(pixels[train], digits[train]).score(pixels[test], digits[test]))
        for name, peer in peers.items()
    }


def _prototypes(model: LatentClassifier, names: list[str]) -> Any:
    figure, axes = _grid(2, 5)
    for (digit, columns), axis in zip(model.prototypes_.items(), axes.flat, strict=True):
        shades = [sum(float(level) * share for level, share in columns[name].items()) for name in names]
        _image(axis, np.array(shades).reshape(datasets.SIDE, -1), str(digit))
    figure.suptitle("Prototype of each digit: expected shade of every pixel")
    return figure


def _completed(model: LatentClassifier, upper: dict[str, Any], truth: np.ndarray, digits: np.ndarray) -> Any:
    named = model.predict(upper)
    filled = np.array(list(model.complete(upper).values()), dtype=float).T
    given = np.array([[np.nan if v is None else v for v in column] for column in upper.values()], dtype=float).T
    figure, axes = _grid(3, len(digits))
    for column, digit in enumerate(digits):
        titles = ("", f"a {named[column]}", f"was a {digit}")
        for axis, picture, title in zip(axes[:, column], (given, filled, truth), titles, strict=True):
            _image(axis, picture[column].reshape(datasets.SIDE, -1), title)
    for axis, label in zip(axes[:, 0], ("given", "completed", "truth"), strict=True):
        axis.set_ylabel(label, fontsize=11)
    figure.suptitle("Digits completed from their upper half")
    return figure


def _grid(rows: int, columns: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.15 * columns, 1.35 * rows + 0.5), layout="constrained", dpi=150)
    return figure, figure.subplots(rows, columns)


def _image(axis: Any, picture: np.ndarray, title: str) -> None:
    axis.set_facecolor("#dfe8f2")
    axis.imshow(picture, cmap="gray_r", vmin=0, vmax=datasets.SHADES - 1)
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_color("#9aa7b5")
    if title:
        axis.set_title(title, fontsize=10)
