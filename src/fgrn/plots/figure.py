"""The matplotlib figure of all pictures; this module is imported, with matplotlib, when something is drawn."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.figure import Figure

from ..core.exceptions import FgrnWarning


class Picture(Figure):
    """A matplotlib figure that notebooks show, with or without `%matplotlib inline`, and that pyplot does not hold."""

    def _repr_png_(self) -> bytes:
        """Return the PNG image that notebooks show."""
        out = io.BytesIO()
        with joined_glyph_warnings(stacklevel=4):
            self.savefig(out, format="png", dpi=self.dpi)
        return out.getvalue()


@contextmanager
def joined_glyph_warnings(stacklevel: int) -> Iterator[None]:
    """Give one warning for all letters that no font has, when the context ends; pass on other warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    _warn_of_glyphs(caught, stacklevel)


def _warn_of_glyphs(caught: Sequence[warnings.WarningMessage], stacklevel: int) -> None:
    letters: dict[str, None] = {}
    for warning in caught:
        found = re.match(r"Glyph (\d+) .* missing from", str(warning.message))
        if found:
            letters[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if letters:
        sample = " ".join(list(letters)[:12])
        warnings.warn(
            f"No font that matplotlib found has the letters {sample}; boxes are drawn instead. "
            "Install a font that has them, such as Noto Sans CJK.",
            FgrnWarning,
            stacklevel=stacklevel,
        )
