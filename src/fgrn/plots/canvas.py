"""Building blocks of drawings of networks: shapes measured in inches, cards with beliefs, and the legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.variable import Variable
from .placement import GAP
from .style import (
    BELIEF,
    GREY,
    INK,
    LINE,
    PALE,
    PAPER,
    cut_all_to_width,
    cut_to_width,
    percent,
    readable,
    width_of,
    wrap_to_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROWEST_DRAWING = 3.4
"""The least width of a drawing, in inches, which the legend needs."""

MOST_INCHES = 200
"""A larger drawing is scaled down, as it would have more pixels than an image can."""

MOST_LISTED_STATES = 7
"""The most states that are listed by name; more are drawn as a row of bars."""

MOST_BARS = 48
"""The most bars side by side; with more states each bar is the maximum of several."""

ROW = 0.155
"""The height of a line of text, in inches."""


@dataclass
class Canvas:
    """An axes measured in inches, and the shapes that can be drawn on it."""

    ax: Axes
    scale: float

    def text(self, x: float, y: float, text: str, size: float, color: str = INK, **options: Any) -> None:
        """Draw a line of text, vertically centred at `y`."""
        options = {"ha": "center", "va": "center_baseline", "fontsize": size * self.scale, "zorder": 5, **options}
        self.ax.text(x, y, text, color=color, **options)

    def box(self, x: float, y: float, width: float, height: float, fill: str, round: float = 0, **options: Any) -> None:
        """Draw a box with left side `x` and top `y`."""
        from matplotlib.patches import FancyBboxPatch

        options = {"facecolor": fill, "edgecolor": LINE, "linewidth": 0.8 * self.scale, "zorder": 2, **options}
        style = f"round,pad=0,rounding_size={round}" if round else "square,pad=0"
        self.ax.add_artist(FancyBboxPatch((x, y), width, height, boxstyle=style, **options))

    def bars(self, boxes: Iterable[tuple[float, float, float, float]], color: str, name: str, alpha: float = 1) -> None:
        """Draw the bars of one distribution, each (left, top, width, height), with `name` as their gid."""
        from matplotlib.collections import PolyCollection

        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
        self.ax.add_collection(
            PolyCollection(corners, facecolor=color, edgecolor="none", alpha=alpha, zorder=3, gid=name), autolim=False
        )

    def histogram(self, values: np.ndarray, x: float, y: float, width: float, height: float, **options: Any) -> None:
        """Draw upright bars, the largest of the full height, as messages have no scale."""
        if len(values) > MOST_BARS:
            values = np.maximum.reduceat(values, np.linspace(0, len(values), MOST_BARS, endpoint=False).astype(int))
        step, most = width / len(values), max(float(values.max(initial=0)), 1e-300)
        heights = (values / most * height).tolist()
        self.bars([(x + at * step, y + height - h, step * 0.8, h) for at, h in enumerate(heights)], **options)
        self.line([(x, y + height), (x + width - 0.2 * step, y + height)], options["color"], 0.6)

    def line(self, points: Sequence[tuple[float, float]], color: str = INK, width: float = 1) -> None:
        """Draw a straight line or, for four points, a curve with two control points."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        codes = [Path.MOVETO, *[Path.CURVE4 if len(points) == 4 else Path.LINETO] * (len(points) - 1)]
        self.ax.add_artist(
            PathPatch(Path(points, codes), fill=False, color=color, linewidth=width * self.scale, zorder=1)
        )

    def arc(self, points: Sequence[tuple[float, float]], name: str, width: float = 0.9) -> None:
        """Draw alternating lines and curves: a first point, then for each pair a line and a curve of three points."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        step = [Path.LINETO, *[Path.CURVE4] * 3]
        codes = [Path.MOVETO, *step * (len(points) // 4)]
        look: Any = {"fill": False, "edgecolor": GREY, "linewidth": width * self.scale, "zorder": 1, "gid": name}
        self.ax.add_artist(PathPatch(Path(points, codes), **look))

    def arrow(self, x: float, y: float, rising: bool = False) -> None:
        """Draw an arrow head with its tip at `y`."""
        back = y + 0.075 if rising else y - 0.075
        self.ax.fill([x - 0.035, x + 0.035, x], [back, back, y], color=INK, linewidth=0, zorder=3)


# Cards


def is_listed(variable: Variable, compact: bool) -> bool:
    """Return whether a card has a line for each state."""
    return variable.cardinality <= MOST_LISTED_STATES and not compact


def card_height(variable: Variable, lines: int, compact: bool) -> float:
    """Return the height of a card with a given number of title lines."""
    inside = ROW * variable.cardinality + 0.06 if is_listed(variable, compact) else 0.38 + ROW
    return lines * ROW + 0.06 + inside


@dataclass
class Card:
    """The belief of a variable: its name above a bar for each state, or above a row of bars.

    `title` may have blank lines, which count for its height; `kind` is the kind of evidence on the variable, or "".
    """

    variable: Variable
    title: Sequence[str]
    values: np.ndarray
    kind: str
    compact: bool
    size: float

    def draw(self, canvas: Canvas, left: float, y: float, width: float, height: float) -> None:
        """Draw the card with left side `left` and top `y`."""
        head = len(self.title) * ROW + 0.06
        fill = {"hard": INK, "soft": GREY}.get(self.kind, PALE)
        canvas.box(left, y, width, height, PAPER, edgecolor=INK if self.kind else LINE)
        canvas.box(left, y, width, head, fill, edgecolor=INK if self.kind else LINE)
        lines = [line for line in self.title if line]
        for number, line in enumerate(lines):
            middle = y + head / 2 + (number - (len(lines) - 1) / 2) * ROW
            canvas.text(left + width / 2, middle, line, self.size, INK if fill == PALE else PAPER, weight="bold")
        if is_listed(self.variable, self.compact):
            self._draw_list(canvas, left, y + head, width)
        else:
            self._draw_histogram(canvas, left, y + head, width)

    @property
    def _name(self) -> str:
        return f"belief {readable(self.variable.name)}"

    def _draw_histogram(self, canvas: Canvas, left: float, y: float, width: float) -> None:
        inner = width - 0.12
        canvas.histogram(self.values, left + 0.06, y + 0.05, inner, 0.3, color=BELIEF, name=self._name)
        best = int(self.values.argmax())
        share = percent(float(self.values[best]))
        label = cut_to_width(self.variable.labels[best], inner - width_of(f": {share}", self.size - 1), self.size - 1)
        canvas.text(left + width / 2, y + 0.38 + ROW / 2, f"{label}: {share}", self.size - 1)

    def _draw_list(self, canvas: Canvas, left: float, y: float, width: float) -> None:
        size, inner = self.size - 0.5, width - 0.12
        names = cut_all_to_width(self.variable.labels, 0.46 * inner, size)
        start = left + 0.13 + max(width_of(name, size) for name in names)
        longest = left + width - 0.06 - width_of(">99%", size) - 0.05 - start
        tops = [y + 0.03 + number * ROW for number in range(len(self.values))]
        canvas.bars([(start, top + 0.03, longest, ROW - 0.06) for top in tops], PALE, "")
        shares = self.values.tolist()
        canvas.bars(
            [(start, top + 0.03, share * longest, ROW - 0.06) for top, share in zip(tops, shares, strict=True)],
            BELIEF, self._name,
        )  # fmt: skip
        for top, share, label in zip(tops, shares, names, strict=True):
            canvas.text(left + 0.06, top + ROW / 2, label, size, ha="left")
            canvas.text(left + width - 0.06, top + ROW / 2, percent(share), size, GREY, ha="right")


# Legend and figure


class Legend:
    """The meaning of colours, and notes, under a drawing, in lines that are not wider than it."""

    def __init__(self, entries: Iterable[tuple[str, str]], notes: Iterable[str], wide: float) -> None:
        self.key: list[list[tuple[str, str, float]]] = [[]]
        for color, text in entries:
            width = 0.42 + width_of(text, 7.5)
            if self.key[-1] and sum(entry[2] for entry in self.key[-1]) + width > wide - 2 * GAP:
                self.key.append([])
            self.key[-1].append((color, text, width))
        self.notes = [line for note in notes for line in wrap_to_width(note, wide - 2 * GAP, 7, 4)]

    @property
    def height(self) -> float:
        """The height, in inches."""
        return 0.06 + len(self.key) * 0.2 + len(self.notes) * ROW + GAP

    def draw(self, canvas: Canvas, y: float) -> None:
        """Draw the legend with top `y`."""
        y += 0.14
        for line in self.key:
            x = GAP
            for color, text, width in line:
                canvas.box(x, y - 0.055, 0.16, 0.11, color, edgecolor="none")
                canvas.text(x + 0.22, y, text, 7.5, ha="left")
                x += width
            y += 0.2
        for note in self.notes:
            canvas.text(GAP, y, note, 7, GREY, ha="left")
            y += ROW


def evidence_entries(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Return the entries of the legend for these kinds of evidence."""
    there = set(kinds)
    hard = [(INK, "evidence")] if "hard" in there else []
    return hard + ([(GREY, "soft evidence")] if "soft" in there else [])


def new_canvas(ax: Axes | None, wide: float, high: float) -> tuple[Figure, Canvas]:
    """Return a new figure of this size, or that of the given axes, with a canvas that fills it."""
    from .figure import Picture

    scale = min(1.0, MOST_INCHES / max(wide, high))
    if ax is None:
        ax = Picture(figsize=(wide * scale, high * scale)).add_axes((0, 0, 1, 1))
    else:
        scale = min(ax.bbox.width / wide, ax.bbox.height / high) / ax.figure.dpi
    ax.set(xlim=(0, wide), ylim=(high, 0), aspect="equal")
    ax.set_axis_off()
    return ax.figure.canvas.figure, Canvas(ax, scale)
