"""Helpers to test figures: the texts and shapes in them, and whether texts are legible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

HOSTILE = (
    "$x_1^2$",
    "_leading",
    "x" * 200,
    "имя ✓",
    "two\nlines\tand tabs",
    "日本語",
    "\x00\ud800",
    "%s {} \\frac{1}{2}",
)
"""Names that are difficult to draw."""


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


def named(figure: Figure, name: str) -> Any:
    found = figure.findobj(lambda artist: artist.get_gid() == name)
    assert len(found) == 1, (name, len(found))
    return found[0]


def names_of(figure: Figure, kind: str) -> list[str]:
    found = figure.findobj(lambda artist: str(artist.get_gid() or "").startswith(f"{kind} "))
    return [artist.get_gid().removeprefix(f"{kind} ") for artist in found]


def sides(figure: Figure, name: str) -> np.ndarray:
    """Return the widths and heights of the bars of a distribution: (bars, 2)."""
    bars = named(figure, name)
    assert isinstance(bars, PolyCollection)
    return np.array([np.ptp(path.vertices, axis=0) for path in bars.get_paths()])


def shares(lengths: np.ndarray) -> np.ndarray:
    return lengths / lengths.sum()


MISSING_LETTERS = "Glyph .* missing|Matplotlib currently does not support"
"""What Matplotlib warns of where a font lacks letters, or, in old versions, letters are of scripts such as Hebrew."""


def drawn(figure: Figure) -> Figure:
    """Return the figure after computing its layout, without warnings of missing letters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING_LETTERS, UserWarning)
        FigureCanvasAgg(figure)  # whose renderer measures text
        figure.draw_without_rendering()
    return figure


def out_of_sight(figure: Figure) -> set[int]:
    """Return the ids of tick labels outside the visible interval, which matplotlib keeps and does not draw."""
    axis = [one for axes in figure.findobj(Axes) for one in (axes.xaxis, axes.yaxis)]
    ticks = [(tick, sorted(one.get_view_interval())) for one in axis for tick in one.get_major_ticks()]
    hidden = [tick for tick, (low, high) in ticks if not low <= tick.get_loc() <= high]
    off = [one for one in axis if not one.axes.axison]
    hidden += [tick for one in off for tick in one.get_major_ticks()]
    return {id(text) for tick in hidden for text in (tick.label1, tick.label2)}


def assert_legible(figure: Figure) -> None:
    """Assert that all text is inside the figure, and that no two texts overlap."""
    drawn(figure)
    hidden = out_of_sight(figure)
    shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    shown = [text for text in shown if id(text) not in hidden]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING_LETTERS, UserWarning)
        boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    wide, high = figure.bbox.width, figure.bbox.height
    for text, box in boxes:
        assert -1 <= box.x0 <= box.x1 <= wide + 1 and -1 <= box.y0 <= box.y1 <= high + 1, text
    sides = np.array([(box.x0, box.x1, box.y0, box.y1) for _, box in boxes]).reshape(-1, 4).T
    x0, x1, y0, y1 = sides[..., None]
    across = np.minimum(x1, x1.T) - np.maximum(x0, x0.T)
    along = np.minimum(y1, y1.T) - np.maximum(y0, y0.T)
    for one, other in np.argwhere(np.triu((across > 1) & (along > 2), k=1)):
        raise AssertionError((boxes[one][0], boxes[other][0]))
