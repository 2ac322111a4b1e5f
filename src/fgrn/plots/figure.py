"""The figure that pictures are drawn on, which notebooks show; imported when something is drawn, with matplotlib."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.figure import Figure

from ..core.exceptions import FgrnWarning


class Picture(Figure):
    """A figure of matplotlib that any notebook shows, with or without `%matplotlib inline`; pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        """The picture as notebooks show it."""
        out = io.BytesIO()
        with letters_told(stacklevel=4):
            self.savefig(out, format="png", dpi=self.dpi)
        return out.getvalue()


@contextmanager
def letters_told(stacklevel: int) -> Iterator[None]:
    """While something is drawn: one warning for all letters that no font has; other warnings as they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    _tell(caught, stacklevel)


def _tell(caught: Sequence[warnings.WarningMessage], stacklevel: int) -> None:
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
