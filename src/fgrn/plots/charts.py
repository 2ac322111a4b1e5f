"""Charts of learning and prediction: convergence, choice of the number of states, explanation of a belief.

They are public as functions of `fgrn.plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, counted
from ..core.printing import without_common_prefix
from ..learning.criteria import ClassSelection
from ..queries.explanation import CERTAIN, contribution_text
from .style import (
    AGAINST,
    FOR,
    GREY,
    INK,
    LINE,
    PALETTE,
    PAPER,
    cut_to_width,
    label_ends,
    panels,
    plain_numbers,
    readable,
    set_title,
    share_of,
    signed,
    styled,
    width_for_names,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..flow.em import History
    from ..learning.criteria import ClassCandidate, Selection
    from ..queries.explanation import Explanation


MOST_CLASSIFIERS = 20
"""The most classifiers that are drawn, the best of those tried."""


@styled()
def convergence(history: History | Mapping[str, History] | Sequence[History], *, ax: Axes | None = None) -> Figure:
    """Draw the log-likelihood per row by epoch, for one history of learning or several.

    A filled dot at the end means that learning converged, an open one that it did not. First epochs that are far below
    all others are cut off, with a note. For a single history the objective is drawn as well, if smoothing makes it
    differ, and the final values of the random initialisations.

    Args:
        history: the result of `learn`; or several by name, or a list as `learn_by_layer` returns it.
        ax: the axes to draw on; None for a new figure.
    """
    from matplotlib.ticker import MaxNLocator

    if isinstance(history, Mapping):
        named = [(readable(name), one) for name, one in history.items()]
    elif isinstance(history, Sequence):
        named = [(f"{number}", one) for number, one in enumerate(history, start=1)]
    else:
        named = [("", history)]
    figure, (axes,) = panels(ax, (6.4, 3.8))
    ends: list[tuple[float, float, str, str]] = []
    for number, (name, one) in enumerate(named):
        values, color = np.asarray(one.per_row), PALETTE[number % len(PALETTE)]
        if not np.isfinite(values).any():
            continue
        dashes = ("-", "--", ":", "-.")[number // len(PALETTE) % 4]
        epochs = np.arange(1, len(values) + 1)
        axes.plot(epochs, values, dashes, color=color, gid=f"history {name}")
        axes.plot(epochs[-1:], values[-1:], "o", color=color, markerfacecolor=color if one.converged else PAPER)
        ends.append((float(epochs[-1]), float(values[-1]), name or signed(values[-1], ".4g"), color))
    if len(named) == 1 and ends:
        ends += _draw_objective(axes, named[0][1], ends[0])
    left_out = _cut_off_first_epochs(axes)
    label_ends(figure, axes, ends)
    axes.set(xlabel="epoch", ylabel="log-likelihood per row")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if max((end[0] for end in ends), default=1) == 1:
        axes.set_xlim(0, 2)
    plain_numbers(axes.yaxis)
    axes.grid(axis="y")
    if not ends:
        axes.text(0.5, 0.5, "no epochs", transform=axes.transAxes, ha="center", color=GREY)
    done = [one for _, one in named if one.epochs]
    heading, notes = "Learning", ["● converged   ○ did not converge"] if len(done) > 1 else []
    if len(done) == 1:
        how = "converged after" if done[0].converged else "did not converge in"
        heading = f"Learning {how} {done[0].epochs:,} {'epoch' if done[0].epochs == 1 else 'epochs'}"
    set_title(figure, axes, heading, notes + left_out, ax is None)
    return figure


def _cut_off_first_epochs(axes: Axes) -> list[str]:
    """Limit the axis to later epochs if the first ones would leave little height; returns a note on it.

    The first tenth of the epochs is cut off if the others take less than a quarter of the height.
    """
    lines = [np.asarray(line.get_xydata()) for line in axes.lines]
    lines = [line[np.isfinite(line[:, 1])] for line in lines]
    lines = [line for line in lines if len(line)]
    begin = 0.1 * max((line[-1, 0] for line in lines), default=0.0)
    if begin < 1:
        return []
    later = np.concatenate([line[line[:, 0] > min(begin, line[-1, 0] - 1)] for line in lines])
    values = np.concatenate(lines)[:, 1]
    low, lowest, high = float(later[:, 1].min()), float(values.min()), float(values.max())
    height = (high - low) or 0.1 * (high - lowest)
    if 4 * height >= high - lowest:
        return []
    bottom = low - 0.35 * height
    axes.set_ylim(bottom, high + 0.08 * height)
    below = max(int(line[line[:, 1] < bottom, 0].max(initial=0)) for line in lines)
    first = "Epoch 1 is" if below == 1 else f"Epochs 1 to {below:,} are"
    return [f"{first} below the axis; the lowest value is {signed(lowest, '.4g')}."]


def _draw_objective(
    axes: Axes, history: History, end: tuple[float, float, str, str]
) -> list[tuple[float, float, str, str]]:
    """Draw the objective and the final values of all starts; returns labels for the ends of the lines."""
    weight = history.weight or 1
    objective = np.asarray(history.objective) / weight
    labels = []
    if len(objective) == history.epochs and not np.allclose(objective, history.per_row):
        axes.plot(np.arange(1, len(objective) + 1), objective, "--", color=GREY, linewidth=1.2, gid="objective")
        labels.append((end[0], float(objective[-1]), "with the prior of smoothing", GREY))
    if len(history.starts) > 1:
        finals = np.asarray(history.starts) / weight
        axes.plot(np.full(len(finals), end[0]), finals, "_", color=LINE, markersize=14, zorder=1, gid="starts")
        span = f"{signed(finals.min(), '.4g')} to {signed(finals.max(), '.4g')}"
        labels.append((end[0], float(finals.min()), f"{len(finals)} starts: {span}", GREY))
    return labels


@styled()
def selection(selection: Selection | ClassSelection, *, ax: Axes | None = None) -> Figure:
    """Draw every computed criterion by the number of hidden states, and mark the chosen number.

    Of a classifier this is the log-loss of the candidates in held-out rows, with its standard error as a bar.

    Args:
        selection: the candidates, as in `LatentClassModel.selection_` and `LatentClassifier.selection_`.
        ax: the axes to draw on; None for a new figure.
    """
    if isinstance(selection, ClassSelection):
        return _class_selection(selection, ax)
    tried = sorted(selection.candidates, key=lambda one: one.n_hidden)
    if not tried:
        raise FgrnError("There is no selection to draw: no number of hidden states was tried.")
    sizes, best = [one.n_hidden for one in tried], selection.best
    curves = [
        ("smaller is better", {"aic": "AIC", "bic": "BIC", "caic": "CAIC", "sabic": "SABIC"}),
        ("larger is better", {"held_out": "held out, per row"}),
        ("1 is clear-cut", {"relative_entropy": "relative entropy"}),
    ]
    found = {field: np.array([getattr(one, field) for one in tried]) for _, lines in curves for field in lines}
    curves = [part for part in curves if any(np.isfinite(found[field]).any() for field in part[1])]
    figure, axes = panels(
        ax, (6.4, 1.1 + 1.5 * len(curves)), heights=[2 if part is curves[0] else 1 for part in curves]
    )
    for axis, (sense, lines) in zip(axes, curves, strict=True):
        ends = []
        for field, name in lines.items():
            values, color = found[field], PALETTE[list(found).index(field)]
            axis.plot(sizes, values, "o-", color=color, markersize=3.5, gid=field)
            if field == selection.criterion:
                at = tried.index(best)
                axis.plot(sizes[at : at + 1], values[at : at + 1], "o", color=color, markersize=9, gid="chosen")
            known = np.flatnonzero(np.isfinite(values))
            if not len(known):
                continue
            ends.append((float(sizes[known[-1]]), float(values[known[-1]]), name, color))
        axis.axvline(best.n_hidden, color=LINE, linewidth=1, zorder=0)
        label_ends(figure, axis, ends)
        axis.set_ylabel(sense, color=GREY)
        axis.grid(axis="y")
        plain_numbers(axis.yaxis)
        _set_ticks(axis, sizes, best.n_hidden)
        if axis is not axes[-1]:
            axis.tick_params(labelbottom=False)
        axis.set_xlim(*axes[0].get_xlim())
    axes[-1].set_xlabel("hidden states")
    words = {"held_out": "held-out likelihood"}.get(selection.criterion, selection.criterion.upper())
    set_title(figure, axes[0], f"{counted(best.n_hidden, 'hidden state')}, chosen by {words}", [], ax is None)
    return figure


def _class_selection(selection: ClassSelection, ax: Axes | None) -> Figure:
    """Draw the log-loss of the best classifiers of each structure, number of states and way of refining, as dots."""
    if not selection.candidates:
        raise FgrnError("There is no selection to draw: no classifier was tried.")
    best = selection.best
    found: dict[tuple[str, int, str], ClassCandidate] = {}
    for one in sorted(selection.candidates, key=lambda one: (one is not best, one.log_loss)):
        found.setdefault((one.structure, one.n_hidden, one.towards), one)
    shown = sorted(list(found.values())[:MOST_CLASSIFIERS], key=lambda one: -one.log_loss)
    figure, (axes,) = panels(ax, (6.4, 1.1 + 0.24 * len(shown)))
    colors = dict(zip(dict.fromkeys(one.structure for one in selection.candidates), PALETTE, strict=False))
    for y, one in enumerate(shown):
        look: dict[str, Any] = {"color": colors[one.structure], "markersize": 9 if one is best else 4, "elinewidth": 1}
        axes.errorbar(one.log_loss, y, xerr=one.error, fmt="o", gid="chosen" if one is best else "tried", **look)
    labels = [
        f"{one.structure}, {counted(one.n_hidden, 'state')}"
        + (f", refined towards {one.towards}" if one.towards else "")
        for one in shown
    ]
    axes.set_yticks(range(len(shown)), labels)
    axes.set(ylim=(-0.6, len(shown) - 0.4), xlabel="log-loss of the class in held-out rows, smaller is better")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    plain_numbers(axes.xaxis)
    left_out = len(found) - len(shown)
    notes = [f"{left_out} worse ones are left out."] if left_out else []
    set_title(
        figure, axes, f"{best.structure}, {counted(best.n_hidden, 'hidden state')}, chosen by log-loss", notes,
        ax is None,
    )  # fmt: skip
    return figure


def _set_ticks(axes: Axes, sizes: Sequence[int], chosen: int) -> None:
    """Set a tick at every size that was tried, with its number if there is room; the chosen size always has it.

    The scale is logarithmic if the largest size is at least ten times the smallest.
    """
    from matplotlib.ticker import NullLocator

    logarithmic = sizes[0] > 0 and sizes[-1] >= 10 * sizes[0]
    if logarithmic:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = np.log(axes.get_xlim()) if logarithmic else np.array(axes.get_xlim())
    wide = 0.7 * axes.bbox.width / axes.figure.dpi  # the rest is for numbers and names beside the plot
    places = {size: (float(np.log(size) if logarithmic else size) - low) / (high - low) * wide for size in sizes}
    kept: list[int] = []
    for size in dict.fromkeys([chosen, sizes[-1], *sizes]):
        gaps = [(width_of(f"{size:,}", 8) + width_of(f"{other:,}", 8)) / 2 + 0.06 for other in kept]
        if all(abs(places[size] - places[other]) >= gap for other, gap in zip(kept, gaps, strict=True)):
            kept.append(size)
    axes.set_xticks(sizes, [f"{size:,}" if size in kept else "" for size in sizes])


@styled()
def explanation(explanation: Explanation, *, most: int = 15, ax: Axes | None = None) -> Figure:
    """Draw why a state is believed in one row: from the baseline log-odds, value by value, to those of the row.

    Args:
        explanation: the result of `explain`.
        most: the most values to show, by the size of their contribution; the others are summed into one bar.
        ax: the axes to draw on; None for a new figure.
    """
    settings.whole("most", most, 1)
    ranked = explanation.ranked
    shown, rest = (ranked, []) if len(ranked) <= most else (ranked[:most], ranked[most:])
    names = _value_lines([name for name, _ in shown], explanation.values, width_for_names(ax, 2.6))
    if rest:
        names.append(f"{len(rest):,} others")
    groups = [[item] for item in shown] + ([rest] if rest else [])
    begin, end = explanation.shares
    shares = [begin, *(sum(explanation.certain.get(name, 0.0) for name, _ in group) for group in groups), end]
    values = [explanation.prior, *(sum(value for _, value in group) for group in groups), explanation.log_odds]
    lengths = _bar_lengths(values, shares)
    levels = np.cumsum(lengths[:-1])
    levels[-1] = lengths[-1] if groups else lengths[0]
    figure, (axes,) = panels(ax, (6.8, 1.5 + 0.27 * (len(names) + 2)))
    ends = [(0.0, levels[0], GREY)]
    ends += [(a, b, FOR if b - a > -1e-9 else AGAINST) for a, b in pairwise(levels)]
    ends += [(0.0, levels[-1], INK)]
    low, high = min(0.0, float(levels.min())), max(0.0, float(levels.max()))
    beside = 0.13 * ((high - low) or 1.0)  # space for the text beside a bar
    low = min(low, *(min(a, b) - beside for a, b, _ in ends if b < a), low - 0.1 * beside)
    high = max(high, *(max(a, b) + beside for a, b, _ in ends if b >= a), high + 0.1 * beside)
    for row, (start, end, color) in enumerate(ends):
        text = contribution_text(values[row], shares[row], "+.2f").replace("-", "−")
        axes.barh(row, end - start, 0.62, left=start, color=color, gid=f"step {row}")
        right = end - start > -1e-9
        edge = max(start, end) if right else min(start, end)
        axes.annotate(
            text, (edge, row), (3 if right else -3, 0), textcoords="offset points",
            ha="left" if right else "right", va="center_baseline", fontsize=7.5, color=color,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.2}, zorder=2,
        )  # fmt: skip  # a white background hides the lines behind the text
        if row + 1 < len(ends):
            axes.plot([end, end], [row + 0.31, row + 0.69], color=LINE, linewidth=0.8, zorder=0)
    axes.axvline(0, color=LINE, linewidth=0.8, zorder=0)
    names = ["baseline", *names, "total: this row"]
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(low, high))
    axes.set_xlabel("log-odds, for (right) or against (left)")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _add_probability_axis(axes)
    state = f"{readable(explanation.variable)} = {readable(explanation.state)}"
    set_title(
        figure, axes, f"{cut_to_width(state, 4.2, 10, 'bold')}: {share_of(explanation.probability)}", [], ax is None
    )
    return figure


def _value_lines(names: Sequence[str], values: Mapping[str, object], width: float) -> list[str]:
    """Return "name = value" lines of at most `width` inches that stay different."""
    ends = [f" = {cut_to_width(values.get(name, '?'), 0.45 * width, 8)}" for name in names]
    narrow = width - max((width_of(end, 8) for end in ends), default=0.0)
    apart = without_common_prefix([readable(name) for name in names], lambda name: cut_to_width(name, narrow, 8))
    return [cut_to_width(name, width - width_of(end, 8), 8) + end for name, end in zip(apart, ends, strict=True)]


def _bar_lengths(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return the lengths of bars: infinite contributions are longer than all finite ones, within limits."""
    plain = [value - share * CERTAIN for value, share in zip(values, shares, strict=True)]
    certain = 5.0 + 1.5 * max(map(abs, plain))
    return [value + share * certain for value, share in zip(plain, shares, strict=True)]


def _add_probability_axis(axes: Axes) -> None:
    """Add a scale on top that gives log-odds as probabilities."""
    low, high = axes.get_xlim()
    upper = axes.secondary_xaxis("top")
    shares, last = [], -np.inf
    for share in (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999):
        at = float(np.log(share / (1 - share)))
        if low <= at <= high and at - last > (high - low) / 12:
            shares.append((at, f"{share:.1%}" if share in (0.001, 0.999) else f"{share:.0%}"))
            last = at
    upper.set_xticks([at for at, _ in shares], [text for _, text in shares])
    upper.tick_params(labelsize=7, labelcolor=GREY)
    upper.spines["top"].set_color(LINE)
