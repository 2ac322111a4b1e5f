"""Charts of tables: the confusion matrix of predictions, and the missing values of a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.arrays import is_masked
from ..core.exceptions import FgrnError, counted
from ..tables import frames
from ..tables.missing import is_missing_value
from .style import (
    AGAINST,
    GREY,
    INK,
    PALE,
    PAPER,
    cut_all_to_width,
    cut_to_width,
    panels,
    percent,
    plain_numbers,
    set_title,
    share_of,
    styled,
    width_for_names,
    width_of,
    write_in_cell,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PATTERNS = 8
"""The most patterns of missing values that are drawn, the most frequent ones."""

MOST_COLUMNS = 40
"""The most columns whose missing values are drawn, those with the most of them."""

SHARES_UP_TO, COUNTS_UP_TO = 20, 60
"""The most labels for which the cells of a confusion matrix have counts and shares, and counts alone."""


@styled()
def confusion(
    truth: Any,
    predicted: Any,
    *,
    labels: Sequence[Any] | None = None,
    normalise: bool = True,
    ax: Axes | None = None,
) -> Figure:
    """Draw the confusion matrix: how often each label was predicted for each true label, as counts and shares.

    An empty cell means zero.

    Args:
        truth: the true labels; rows where they are missing are left out.
        predicted: the predicted labels.
        labels: the labels to show, in this order; None for all that occur, sorted. Rows with others are left out.
        normalise: whether colours and second lines are shares of the true label; otherwise colours are counts.
        ax: the axes to draw on; None for a new figure.
    """
    true, guess = _as_labels("truth", truth), _as_labels("predicted", predicted)
    if len(true) != len(guess):
        raise FgrnError(f"There are {len(true):,} true labels and {len(guess):,} predicted ones; one each is wanted.")
    pairs = [(t, g) for t, g in zip(true, guess, strict=True) if not (is_missing_value(t) or is_missing_value(g))]
    found = {value: None for pair in pairs for value in pair}
    names = sorted(found, key=_numbers_first) if labels is None else _as_labels("labels", labels)
    index = {name: at for at, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=int)
    for t, g in pairs:
        if t in index and g in index:
            counts[index[t], index[g]] += 1
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = _cells(counts, normalise, ax)
    side = max(cells.side * len(names), 1.8)
    short = cut_all_to_width(names, 1.2, 8)
    longest = max((width_of(name, 8) for name in short), default=0)
    turned = longest > side / max(len(names), 1) - 0.06
    figure, (axes,) = panels(ax, (max(side + longest + 0.7, 3.2), side + (longest if turned else 0.2) + 0.9))
    colors = shares if normalise else counts / max(counts.max(initial=0), 1)
    gap = 1 if cells.side > 0.15 else 0
    axes.pcolormesh(colors, cmap="Blues", vmin=0, vmax=1.15, edgecolors=PAPER, linewidth=gap, gid="confusion")
    for row, column in np.argwhere(counts) if cells.size else ():
        share = f"\n{percent(shares[row, column])}" if cells.shares else ""
        shade = PAPER if colors[row, column] > 0.6 else INK
        write_in_cell(axes, column + 0.5, row + 0.5, f"{counts[row, column]:,}{share}", shade, cells.size)
    every = max(int(np.ceil(0.16 / cells.side)), 1)
    at = np.arange(0, len(names), every) + 0.5
    axes.set_xticks(at, short[::every], rotation=90 if turned else 0)
    axes.set_yticks(at, short[::every])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(
        xlim=(0, max(len(names), 1)), ylim=(max(len(names), 1), 0), aspect="equal", xlabel="predicted", ylabel="true"
    )
    total = int(counts.sum())
    rate = f"{np.trace(counts) / total:.1%} of {total:,} rows are right" if total else "No rows"
    rest = len(true) - total
    notes = [f"{counted(rest, 'row')} with unknown or other labels {_is_or_are(rest)} left out."] if rest else []
    if not cells.size:
        what = "shares of the true label" if normalise else "counts"
        notes.append(f"There is no room for numbers: colours are {what}. {_mistakes(counts, names)}")
    set_title(figure, axes, rate, notes, ax is None)
    return figure


class Cells(NamedTuple):
    """The layout of a confusion matrix: side of a cell in inches, size of numbers in points or 0, shares or not."""

    side: float
    size: float
    shares: bool


def _cells(counts: np.ndarray, normalise: bool, ax: Axes | None) -> Cells:
    """Return cells as large as the longest number needs; without numbers if there are too many labels for them."""
    count = len(counts)
    room = np.inf if ax is None else 0.75 * min(ax.bbox.width, ax.bbox.height) / ax.figure.dpi / max(count, 1)
    written = [f"{counts.max(initial=0):,}"]
    for size, least, most in ((7.5, 0.52, 12), (7.0, 0.4, SHARES_UP_TO), (6.0, 0.26, COUNTS_UP_TO)):
        shares = normalise and most <= SHARES_UP_TO
        needed = max(width_of(text, size) for text in [*written, *(["100%"] if shares else [])]) + 0.08
        if count <= most and needed <= room:
            return Cells(min(max(least, needed), room), size, shares)
    return Cells(min(0.2, room, 8 / max(count, 1)), 0.0, False)


def _mistakes(counts: np.ndarray, names: Sequence[Any]) -> str:
    """Return the most frequent mistakes in words, for cells without numbers."""
    wrong = counts * ~np.eye(len(counts), dtype=bool)
    found = []
    for at in np.argsort(-wrong, axis=None, kind="stable")[:3]:
        true, guess = np.unravel_index(at, wrong.shape)
        if wrong[true, guess]:
            pair = (cut_to_width(names[one], 0.9, 7.5) for one in (true, guess))
            found.append(f"{' as '.join(pair)} ({wrong[true, guess]:,})")
    return f"The most frequent mistakes: {', '.join(found)}." if found else ""


def _as_labels(name: str, values: Any) -> list[Any]:
    """Return a column of labels as a list; FgrnError if it is not one."""
    column = frames.as_column(values, name)
    plain = [] if frames.is_bare(column) else frames.as_list(column)
    if frames.is_bare(column) or not all(isinstance(value, Hashable) for value in plain):
        raise FgrnError(f"{name!r} is a list or a column of labels. Got {type(values).__name__} instead.")
    return [value.item() if isinstance(value, np.generic) else value for value in plain]


def _numbers_first(label: Any) -> tuple[bool, float, str]:
    number = isinstance(label, (int, float))
    return not number, float(label) if number else 0.0, str(label)


@styled()
def missingness(table: frames.Data, *, most_rows: int = 2000, ax: Axes | None = None) -> Figure:
    """Draw which values of a table are missing: their share in each column, where they are, and which together.

    Args:
        table: a mapping of columns or a dataframe; None, NaN and null values are missing.
        most_rows: the most rows to draw, evenly spaced; counts are of all rows.
        ax: the axes to draw on; None for a new figure.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    settings.whole("most_rows", most_rows, 1)
    columns = frames.columns(table)
    if not columns:
        raise FgrnError("There is no column in this table, so that nothing can be missing.")
    rows = frames.row_count(columns)
    unknown = np.stack([_missing_values(column, rows) for column in columns.values()], axis=1)
    share = unknown.mean(axis=0) if rows else np.zeros(len(columns))
    order = np.argsort(-share, kind="stable")[:MOST_COLUMNS]
    names = [list(columns)[at] for at in order]
    figure, (bars, image, patterns) = panels(ax, (9.4, 1.5 + 0.22 * max(len(names), 4)), widths=(1.3, 2.4, 2))
    places = np.arange(len(names))
    bars.barh(places, share[order], 0.62, color=AGAINST, gid="shares")
    for at, value in zip(places, share[order], strict=True):
        bars.annotate(
            share_of(value), (value, at), (3, 0), textcoords="offset points", va="center_baseline", fontsize=7.5
        )
    bars.set_yticks(places, cut_all_to_width(names, width_for_names(ax, 2.2), 8))
    bars.set_xlim(0, max(float(share.max()) * 1.3, 0.01))
    bars.set_xticks([])
    bars.spines[["bottom"]].set_visible(False)
    drawn = np.linspace(0, rows - 1, min(rows, most_rows)).round().astype(int) if rows else np.zeros(0, dtype=int)
    stripes = _stripes(unknown[np.ix_(drawn, order)].T, int(image.bbox.width))
    image.imshow(
        np.sqrt(stripes), cmap=LinearSegmentedColormap.from_list("unknown", [PALE, AGAINST]), vmin=0, vmax=1,
        aspect="auto", interpolation="nearest", extent=(0, max(rows, 1), len(names) - 0.5, -0.5), gid="rows",
    )  # fmt: skip  # the square root makes a single missing value visible
    image.set_xlabel(f"row, of {rows:,}")
    image.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    plain_numbers(image.xaxis)
    _draw_patterns(patterns, unknown, order)
    for axes in (bars, image, patterns):
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelleft=axes is bars)
        axes.spines[["left", "bottom"]].set_visible(False)
    notes = [f"{counted(len(drawn), 'row')}, evenly spaced, are drawn."] if len(drawn) < rows else []
    rest = len(columns) - len(names)
    if rest:
        notes.append(
            f"{counted(rest, 'more column')}, with no more missing values than these, {_is_or_are(rest)} left out."
        )
    for axes, head in ((bars, "share"), (image, "where"), (patterns, "which together")):
        axes.set_title(head, fontsize=8.5, weight="normal", color=GREY)
    total = f"{unknown.mean():.1%} of all values are missing" if unknown.size else "No rows"
    set_title(figure, bars, total, notes, ax is None, pad=22)  # space for the titles of the panels
    return figure


def _missing_values(column: Any, rows: int) -> np.ndarray:
    """Return which values of a column are missing: (rows,) of bool."""
    if isinstance(column, frames.Coded):
        return np.asarray(column.codes < 0)
    if frames.is_bare(column):
        return np.full(rows, is_missing_value(column))
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf" and not is_masked(column):
        return np.asarray(np.isnan(column) if column.ndim == 1 else np.isnan(column).all(axis=1))
    return np.fromiter(map(is_missing_value, column), dtype=bool, count=rows)


def _stripes(picture: np.ndarray, most: int) -> np.ndarray:
    """Return the share of missing values (columns, stripes); a stripe is one row or several neighbouring ones."""
    rows = picture.shape[1]
    if not rows:
        return np.zeros((len(picture), 1))
    first = np.unique(np.linspace(0, rows, min(rows, max(most, 1)), endpoint=False).astype(int))
    shares: np.ndarray = np.add.reduceat(picture.astype(float), first, axis=1) / np.diff([*first, rows])
    return shares


def _draw_patterns(axes: Axes, unknown: np.ndarray, order: np.ndarray) -> None:
    """Draw the most frequent sets of columns that are missing together, and their numbers of rows."""
    dpi = axes.figure.dpi
    packed = np.ascontiguousarray(np.packbits(unknown, axis=1))
    _, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    ranked = np.argsort(-counts, kind="stable")
    groups = [(unknown[first[at]], int(counts[at])) for at in ranked[:MOST_PATTERNS]]
    rest = ranked[MOST_PATTERNS:]
    written: dict[str, Any] = {"ha": "center", "va": "center", "rotation": 90, "fontsize": 7.5, "color": GREY}
    for x, (pattern, _) in enumerate(groups):
        here = np.flatnonzero(pattern[order])
        if not len(here):
            what = "in columns that are left out" if pattern.any() else "nothing missing"
            axes.text(x, (len(order) - 1) / 2, what, **written)
            continue
        axes.plot(np.full(len(order), x), np.arange(len(order)), "o", color=PALE, markersize=4, zorder=1)
        axes.plot(np.full(len(here), x), here, "o-", color=AGAINST, markersize=4, linewidth=1, gid=f"pattern {x}")
    labels = [f"{count:,}" for _, count in groups]
    if len(rest):
        axes.text(len(groups), (len(order) - 1) / 2, f"{counted(len(rest), 'other pattern')}", **written)
        labels.append(f"{counts[rest].sum():,}")
    turned = max((width_of(label, 8) for label in labels), default=0) * len(labels) > 0.85 * axes.bbox.width / dpi
    axes.set_xticks(range(len(labels)), labels, rotation=90 if turned else 0)
    axes.set_xlim(-0.6, max(len(labels), 1) - 0.4)
    axes.set_xlabel("rows")
    axes.tick_params(axis="x", length=0)


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
