"""What all pictures share: colours, text that fits where it is put, panels, notes, and files.

Lengths are in inches, sizes of text in points.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.exceptions import FgrnError, Remedy
from ..core.labels import shown_number
from ..core.printing import told_apart
from .placement import Node, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, GREY, LINE, PALE, PAPER = "#20262e", "#667080", "#9aa4b1", "#eef1f5", "#ffffff"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")  # of Okabe and Ito
FORWARD, BACKWARD, BELIEF = PALETTE[:3]
FOR, AGAINST = PALETTE[:2]

STYLE: Any = {
    "figure.facecolor": PAPER, "savefig.facecolor": PAPER, "axes.facecolor": PAPER, "text.color": INK,
    "axes.labelcolor": INK, "axes.edgecolor": LINE, "xtick.color": LINE, "ytick.color": LINE, "grid.color": PALE,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.titlecolor": INK, "axes.titlelocation": "left",
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.labelsize": 9, "font.size": 9, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "legend.fontsize": 8, "legend.frameon": False, "axes.spines.top": False,
    "axes.spines.right": False, "axes.axisbelow": True, "axes.linewidth": 0.8, "lines.linewidth": 1.8,
    "text.usetex": False, "text.parse_math": False, "axes.unicode_minus": True,
}  # fmt: skip

FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Hiragino Sans", "PingFang SC", "Yu Gothic", "Microsoft YaHei",
    "Malgun Gothic", "Arial Unicode MS", "Noto Sans", "Noto Sans Devanagari", "Noto Emoji", "Segoe UI Symbol",
)  # fmt: skip
"""Fonts for what DejaVu Sans, which comes with matplotlib, cannot write."""

FORMATS = (".svg", ".png", ".pdf")


@contextmanager
def styled() -> Iterator[None]:
    """What is drawn here has the style of this package, whatever the settings of matplotlib are."""
    try:
        import matplotlib
        from matplotlib.font_manager import fontManager
    except ImportError as error:
        raise FgrnError(f"Pictures need {error.name}: pip install matplotlib.") from error
    installed = set(fontManager.get_font_names())
    families = ["DejaVu Sans", *(name for name in FALLBACKS if name in installed)]
    with matplotlib.rc_context({**STYLE, "font.family": families}):
        yield


def readable(value: object) -> str:
    """A name or label in one line that can be drawn."""
    text = shown_number(float(value), 6) if isinstance(value, (float, np.floating)) else str(value)[:400]
    text = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text) or "(blank)"


@lru_cache(maxsize=16384)
def width_of(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that no font has is drawn as a box, which is as wide
        width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)
    return float(width) / 72


def fitted(value: object, width: float, size: float, weight: str = "normal") -> str:
    """A name in one line of at most this many inches: the middle is left out, as names often end differently."""
    text = readable(value)
    low, high = 0, len(text)
    if width_of(text, size, weight) <= width:
        return text
    while low < high:  # the most letters that fit
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width_of(_cut(text, kept), size, weight) <= width else (low, kept - 1)
    return _cut(text, low)


def fitted_names(names: Sequence[object], width: float, size: float, weight: str = "normal") -> list[str]:
    """Names in one line of at most this many inches each, that stay apart."""
    apart = told_apart([readable(name) for name in names], lambda name: fitted(name, width, size, weight))
    return [fitted(name, width, size, weight) for name in apart]


def _cut(text: str, kept: int) -> str:
    end = kept * 2 // 5
    return f"{text[: kept - end].rstrip()}…{text[len(text) - end :].lstrip() if end else ''}"


def wrapped(value: object, width: float, size: float, most: int = 2, weight: str = "normal") -> list[str]:
    """A name in some lines of at most this many inches, broken between words where there are some."""
    lines = [""]
    for word in re.findall(r"[^\s_\-/.,:;]*[\s_\-/.,:;]+|[^\s_\-/.,:;]+", readable(value)):
        if lines[-1] and len(lines) < most and width_of((lines[-1] + word).rstrip(), size, weight) > width:
            lines.append("")
        lines[-1] += word
    return [fitted(line.strip(), width, size, weight) for line in lines]


def percent(share: float) -> str:
    """A probability in whole percent; what is small or nearly certain does not look like 0 or 1."""
    text = f"{share:.0%}"
    if text == "0%" and share > 1e-12:
        return "<1%"
    return ">99%" if text == "100%" and share < 1 - 1e-12 else text


def panels(
    ax: Axes | None, size: tuple[float, float], widths: Sequence[float] = (1,), heights: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """A figure with panels, row by row; or the figure of an axes and that axes, divided into panels."""
    from matplotlib.gridspec import GridSpec

    from .figure import Picture

    shape: dict[str, Any] = {
        "nrows": len(heights), "ncols": len(widths), "width_ratios": widths, "height_ratios": heights,
    }  # fmt: skip
    if ax is None:
        figure: Any = Picture(figsize=size, layout="constrained")
        grid: Any = GridSpec(figure=figure, **shape)
    else:
        figure = ax.figure
        if len(heights) * len(widths) == 1:
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=8, color=LINE, labelcolor=INK)
            for label in (ax.xaxis.label, ax.yaxis.label):
                label.set(fontsize=9, color=INK)
            return figure.canvas.figure, [ax]
        ax.set_axis_off()
        spot, box = ax.get_subplotspec(), ax.get_position()
        sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        grid = GridSpec(figure=figure, **shape, **sides) if spot is None else spot.subgridspec(**shape)
    axes = [figure.add_subplot(grid[row, column]) for row in range(len(heights)) for column in range(len(widths))]
    return figure.canvas.figure, axes


def room(ax: Axes | None, most: float) -> float:
    """How wide the names beside a picture may be: less in an axes that is given."""
    return most if ax is None else min(most, 0.4 * ax.bbox.width / ax.figure.dpi)


def title(figure: Figure, axes: Axes, text: str, notes: Sequence[str], own: bool, pad: float = 6) -> None:
    """The title over a picture and notes under it if the figure is its own; else both over the axes."""
    if not own:
        axes.set_title("\n".join([text, *notes]), pad=pad)
        return
    room = figure.get_figwidth() - 0.2
    figure.suptitle("\n".join(wrapped(text, room, 10, 2, "bold")), x=0.01, ha="left", fontsize=10, weight="bold")
    if notes:
        lines = [line for note in notes for line in wrapped(note, room, 7.5, 3)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color=GREY)


def label_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside the ends of lines, (x, y, name, colour), moved apart where they would overlap."""
    low, high = axes.get_ylim()
    inches = axes.get_position().height * figure.get_figheight()
    order = sorted((end for end in ends if np.isfinite(end[1])), key=lambda end: end[1])
    labels = [Node(width=0.16) for _ in order]
    wanted = [(y - low) / (high - low) * inches for _, y, _, _ in order]
    spread(labels, wanted, [1.0] * len(labels))
    for (x, y, name, color), label, at in zip(order, labels, wanted, strict=True):
        look: dict[str, Any] = {"va": "center", "fontsize": 8, "color": color}
        axes.annotate(fitted(name, 1.9, 8), (x, y), (9, 72 * (label.x - at)), textcoords="offset points", **look)


def plain_numbers(axis: Axis) -> None:
    """Numbers at the ticks as they are: with commas, as many digits as tell them apart, no offset and no exponent."""
    from matplotlib.ticker import FuncFormatter

    def shown(value: float, _: int | None) -> str:
        steps = np.diff(axis.get_majorticklocs())
        step = float(steps.min(initial=np.inf))
        digits = int(np.clip(np.ceil(-np.log10(step) - 1e-9), 0, 12)) if 0 < step < np.inf else 2
        digits += round(step * 10**digits, 6) % 1 > 0  # such as 0.25 or 2.5
        return signed(value, f",.{digits}f") if abs(value) < 1e15 else signed(value, ".4g")

    axis.set_major_formatter(FuncFormatter(shown))


def write(axes: Axes, x: float, y: float, text: str, color: str, size: float = 7.5) -> None:
    """Text in the middle of a cell."""
    axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)


def share_of(probability: float) -> str:
    """A probability with one digit after the point."""
    return f"{probability:.1%}" if 0.001 <= probability <= 0.999 else percent(probability)


def signed(value: float, form: str = "+.2f") -> str:
    """A number with the minus of print."""
    return format(value, form).replace("-", "−")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a name under which no picture can be saved."""
    place = Path(path)
    failed = f"The picture cannot be saved as {str(place)!r}"
    if place.suffix.lower() not in FORMATS:
        raise FgrnError(f"{failed}: its suffix is {place.suffix!r}. Choose {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    if not place.parent.is_dir():
        raise FgrnError(f"{failed}: there is no folder {str(place.parent)!r}. Make it first, or choose another.")


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 150) -> Path:
    """Write a picture to a file: all of it or, with an error, nothing. Returns the path.

    Args:
        figure: what a function of this module returned, or any figure of matplotlib.
        path: its suffix says the format: .svg, .png or .pdf.
        dpi: pixels per inch of a PNG.
    """
    import matplotlib

    from ..core.whole_file import reason, write
    from .figure import letters_told

    place = Path(path)
    kind, failed = place.suffix.lower(), f"The picture cannot be saved as {str(place)!r}"
    if not hasattr(figure, "savefig"):
        raise FgrnError(f"{failed}: a figure of matplotlib is wanted. Got {type(figure).__name__} instead.")
    check_name(place)
    buffer = io.BytesIO()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind)  # the same picture, the same bytes
    with matplotlib.rc_context({"svg.hashsalt": "fgrn"}), letters_told(stacklevel=5):
        try:
            figure.savefig(buffer, format=kind[1:], dpi=dpi, metadata=undated)
        except (ValueError, MemoryError) as error:
            raise FgrnError(
                f"{failed}: {reason(error)}.", value=str(place), remedies=("draw less", Remedy("lower {}", dpi=dpi))
            ) from error
    try:
        write(place, buffer.getvalue())
    except (OSError, RuntimeError, ValueError) as error:
        raise FgrnError(f"{failed}: {reason(error)}. Save it somewhere else; an older file is as it was.") from error
    return place


def as_svg(figure: Figure) -> str:
    """A figure as the text of an SVG element, for notebooks."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    return text[text.index("<svg") :]
