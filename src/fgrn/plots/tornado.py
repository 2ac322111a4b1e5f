"""The tornado chart of one-way sensitivity: the effect of each number of the tables on a posterior probability."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from ..core import settings
from ..core.exceptions import counted
from .style import (
    AGAINST,
    FOR,
    INK,
    PAPER,
    cut_all_to_width,
    cut_to_width,
    panels,
    percent,
    readable,
    set_title,
    share_of,
    styled,
    width_for_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..bayes.sensitivity import Sensitivities


@styled()
def tornado(found: Sensitivities, *, most: int = 15, ax: Axes | None = None) -> Figure:
    """Draw the effect of each number of the tables on a posterior probability, largest effect on top.

    A bar has two ends: the posterior probability where the number is smaller, and where it is larger, by the spread.

    Args:
        found: what `BayesianNetwork.sensitivities` returns.
        most: the most numbers to show; the picture says how many are left out.
        ax: the axes to draw on; None for a new figure.
    """
    settings.whole("most", most, 1)
    shown = found.numbers[:most]
    width = width_for_names(ax, 4.3)
    names = cut_all_to_width([f"{one.text} = {one.function.parameter:.3g}" for one in shown], width, 8)
    figure, (axes,) = panels(ax, (8.4, 1.5 + 0.27 * max(len(shown), 2)))
    now = found.probability
    ends = [now, *(end for one in shown for end in (one.low, one.high))]
    beside = 0.14 * ((max(ends) - min(ends)) or 0.1)  # space for the numbers at the ends of bars
    for row, one in enumerate(shown):
        for end, other, colour, called in ((one.low, one.high, AGAINST, "smaller"), (one.high, one.low, FOR, "larger")):
            axes.barh(row, end - now, 0.62, left=now, color=colour, gid=f"{called} {row}")
            above = other < now if isclose(end, now, rel_tol=1e-9) else end > now
            axes.annotate(
                share_of(end), (end, row), (3 if above else -3, 0), textcoords="offset points",
                ha="left" if above else "right", va="center_baseline", fontsize=7.5, color=colour,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}, zorder=2,
            )  # fmt: skip
    axes.axvline(now, color=INK, linewidth=0.9, zorder=3)
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(max(len(names), 1) - 0.4, -0.6), xlim=(min(ends) - beside, max(ends) + beside))
    axes.set_xlabel("posterior probability")
    left, right = (min(max(end, 0.0), 1.0) for end in axes.get_xlim())
    axes.set_xticks([tick for tick in axes.get_xticks() if left - 1e-9 <= tick <= right + 1e-9])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    state = cut_to_width(f"{readable(found.target[0])} = {readable(found.target[1])}", 3.6, 10, "bold")
    by = percent(found.spread)
    notes = [f"Orange: where the number is {by} smaller; blue: {by} larger."]
    if len(found) > len(shown):
        notes.append(f"{counted(len(found) - len(shown), 'number')} of smaller changes left out.")
    if not shown:
        notes = ["No number of the tables changes it."]
    set_title(figure, axes, f"{state}: {share_of(now)}", notes, ax is None)
    return figure
