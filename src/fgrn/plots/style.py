"""The common style of all pictures: colours, text cut to a width, panels, notes, and saving to files.

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
from ..core.printing import without_common_prefix
from .placement import Node, place_in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, GREY, LINE, PALE, PAPER = "#20262e", "#667080", "#9aa4b1", "#eef1f5", "#ffffff"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")  # of Okabe and Ito
FORWARD_COLOR, BACKWARD_COLOR, BELIEF = PALETTE[:3]
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
"""Fonts for characters that DejaVu Sans, the font of matplotlib, does not have."""

PICTURE_FORMATS = (".svg", ".png", ".pdf")


@contextmanager
def styled() -> Iterator[None]:
    """A context for drawing in the style of this package, independent of matplotlib's settings."""
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
    """Return a name or label as one line of printable text."""
    text = shown_number(float(value), 6) if isinstance(value, (float, np.floating)) else str(value)[:400]
    text = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text) or "(blank)"


@lru_cache(maxsize=16384)
def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a line of text, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing letter is drawn as a box of the same width
        width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)
    return float(width) / 72


BIN = re.compile(r"(-?\d\S*) to (-?\d\S*)")
"""The label of a bin of numbers: from one edge to the next."""


def cut_to_width(value: object, width: float, size: float, weight: str = "normal") -> str:
    """Return a name as one line of at most `width` inches, without its middle if it is too long."""
    text = readable(value)
    low, high = 0, len(text)
    if width_of(text, size, weight) <= width:
        return text
    if found := BIN.fullmatch(text):  # a number without some of its digits would be another one
        whole, rest = f"{found[1]}–{found[2]}", width - width_of("–…", size, weight)
        return whole if width_of(whole, size, weight) <= width else f"{cut_to_width(found[1], rest, size, weight)}–…"
    while low < high:  # binary search of the most letters that fit
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width_of(_without_middle(text, kept), size, weight) <= width else (low, kept - 1)
    return _without_middle(text, low)


def cut_all_to_width(names: Sequence[object], width: float, size: float, weight: str = "normal") -> list[str]:
    """Return names as lines of at most `width` inches each, so that different names stay different."""
    apart = without_common_prefix(
        [readable(name) for name in names], lambda name: cut_to_width(name, width, size, weight)
    )
    return [cut_to_width(name, width, size, weight) for name in apart]


def _without_middle(text: str, kept: int) -> str:
    """Return the first and last letters of a text, `kept` in total, around an ellipsis."""
    end = kept * 2 // 5
    return f"{text[: kept - end].rstrip()}…{text[len(text) - end :].lstrip() if end else ''}"


def wrap_to_width(value: object, width: float, size: float, most: int = 2, weight: str = "normal") -> list[str]:
    """Return a name as at most `most` lines of at most `width` inches, broken between words if possible."""
    lines = [""]
    for word in re.findall(r"[^\s_\-/.,:;]*[\s_\-/.,:;]+|[^\s_\-/.,:;]+", readable(value)):
        if lines[-1] and len(lines) < most and width_of((lines[-1] + word).rstrip(), size, weight) > width:
            lines.append("")
        lines[-1] += word
    return [cut_to_width(line.strip(), width, size, weight) for line in lines]


def in_order_of_numbers(labels: list[Any]) -> list[Any]:
    """Return words in the order of the numbers in them: "group 2" before "group 10".

    Only words in alphabetical order, which nobody has chosen, are put into another order.
    """
    if not all(isinstance(label, str) for label in labels) or labels != sorted(labels):
        return labels

    def parts(label: str) -> list[tuple[bool, float, str]]:
        words = enumerate(re.split(r"(\d+(?:\.\d+)?)", label))  # every second one is a number
        return [(False, float(word), "") if place % 2 else (True, 0.0, word) for place, word in words if word]

    return sorted(labels, key=parts)


def percent(share: float) -> str:
    """Return a probability in whole percent; "<1%" or ">99%" where rounding would give 0 or 100%."""
    text = f"{share:.0%}"
    if text == "0%" and share > 1e-12:
        return "<1%"
    return ">99%" if text == "100%" and share < 1 - 1e-12 else text


def panels(
    ax: Axes | None, size: tuple[float, float], widths: Sequence[float] = (1,), heights: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels, row by row; or the figure of the given axes, which is divided into panels."""
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


def width_for_names(ax: Axes | None, most: float) -> float:
    """Return the width for names beside a picture: `most`, or less if the given axes is small."""
    return most if ax is None else min(most, 0.4 * ax.bbox.width / ax.figure.dpi)


def set_title(figure: Figure, axes: Axes, text: str, notes: Sequence[str], own: bool, pad: float = 6) -> None:
    """Set the title above a figure of its own and the notes below it; both above the axes of another figure."""
    if not own:
        axes.set_title("\n".join([text, *notes]), pad=pad)
        return
    width = figure.get_figwidth() - 0.2
    figure.suptitle("\n".join(wrap_to_width(text, width, 10, 2, "bold")), x=0.01, ha="left", fontsize=10, weight="bold")
    if notes:
        lines = [line for note in notes for line in wrap_to_width(note, width, 7.5, 3)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color=GREY)


def label_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names beside the ends of lines, (x, y, name, colour), moved apart where they would overlap."""
    low, high = axes.get_ylim()
    inches = axes.get_position().height * figure.get_figheight()
    order = sorted((end for end in ends if np.isfinite(end[1])), key=lambda end: end[1])
    labels = [Node(width=0.16) for _ in order]
    wanted = [(y - low) / (high - low) * inches for _, y, _, _ in order]
    place_in_order(labels, wanted, [1.0] * len(labels))
    for (x, y, name, color), label, at in zip(order, labels, wanted, strict=True):
        look: dict[str, Any] = {"va": "center", "fontsize": 8, "color": color}
        axes.annotate(cut_to_width(name, 1.9, 8), (x, y), (9, 72 * (label.x - at)), textcoords="offset points", **look)


def plain_numbers(axis: Axis) -> None:
    """Format the ticks of an axis with thousands separators and enough digits, without offset or exponent."""
    from matplotlib.ticker import FuncFormatter

    def shown(value: float, _: int | None) -> str:
        steps = np.diff(axis.get_majorticklocs())
        step = float(steps.min(initial=np.inf))
        digits = int(np.clip(np.ceil(-np.log10(step) - 1e-9), 0, 12)) if 0 < step < np.inf else 2
        digits += round(step * 10**digits, 6) % 1 > 0  # such as 0.25 or 2.5
        return signed(value, f",.{digits}f") if abs(value) < 1e15 else signed(value, ".4g")

    axis.set_major_formatter(FuncFormatter(shown))


def write_in_cell(axes: Axes, x: float, y: float, text: str, color: str, size: float = 7.5) -> None:
    """Draw a text centred at a point of the axes."""
    axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)


def share_of(probability: float) -> str:
    """Return a probability in percent with one decimal, or as `percent` if it is near 0 or 1."""
    return f"{probability:.1%}" if 0.001 <= probability <= 0.999 else percent(probability)


def signed(value: float, form: str = "+.2f") -> str:
    """Return a formatted number with a typographic minus sign."""
    return format(value, form).replace("-", "−")


def check_picture_path(path: str | os.PathLike[str]) -> None:
    """Raise FgrnError if no picture can be saved under this name."""
    place = Path(path)
    failed = f"The picture cannot be saved as {str(place)!r}"
    if place.suffix.lower() not in PICTURE_FORMATS:
        *others, last = PICTURE_FORMATS
        raise FgrnError(f"{failed}: its suffix is {place.suffix!r}. Choose {', '.join(others)} or {last}.")
    if not place.parent.is_dir():
        raise FgrnError(f"{failed}: there is no folder {str(place.parent)!r}. Make it first, or choose another.")


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 150) -> Path:
    """Write a picture to a file completely, or raise an error and write nothing; returns the path.

    Args:
        figure: a figure of this package or any other figure of matplotlib.
        path: the path of the file, whose extension is the format: .svg, .png or .pdf.
        dpi: pixels per inch of a PNG.
    """
    import matplotlib

    from ..core.whole_file import reason_of, write_whole
    from .figure import joined_glyph_warnings

    place = Path(path)
    kind, failed = place.suffix.lower(), f"The picture cannot be saved as {str(place)!r}"
    if not hasattr(figure, "savefig"):
        raise FgrnError(f"{failed}: a figure of matplotlib is wanted. Got {type(figure).__name__} instead.")
    check_picture_path(place)
    buffer = io.BytesIO()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind)  # equal pictures give equal bytes
    with matplotlib.rc_context({"svg.hashsalt": "fgrn"}), joined_glyph_warnings(stacklevel=5):
        try:
            figure.savefig(buffer, format=kind[1:], dpi=dpi, metadata=undated)
        except (ValueError, MemoryError) as error:
            raise FgrnError(
                f"{failed}: {reason_of(error)}.", value=str(place), remedies=("draw less", Remedy("lower {}", dpi=dpi))
            ) from error
    try:
        write_whole(place, buffer.getvalue())
    except (OSError, RuntimeError, ValueError) as error:
        raise FgrnError(f"{failed}: {reason_of(error)}. Save it somewhere else; an older file is as it was.") from error
    return place


def as_svg(figure: Figure) -> str:
    """Return a figure as the text of an SVG element, for notebooks."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    return text[text.index("<svg") :]
