"""What commands print: text, messages on standard error, aligned columns and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Any

import click

from ..core import printing
from ..core.exceptions import visible
from .wording import spoken


def print_text(text: str, err: bool = False) -> None:
    """Print lines of text, on standard output or error."""
    click.echo(visible(text, lines=True), err=err)


def print_message(message: object) -> None:
    """Print an error, a warning or a remark on standard error, as one line."""
    click.echo(f"fgrn: {visible(message if isinstance(message, str) else spoken(message))}", err=True)


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: int = 0, bars: bool = False
) -> str:
    """Return rows as aligned columns, no wider than the terminal."""
    return printing.text_table(heads, rows, left, indent, printing.terminal_width(), bars)


def print_json(value: Any) -> None:
    """Print a value as JSON: NaN and infinity as null, invisible characters escaped."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=1, allow_nan=False)
    click.echo(re.sub(r"[^\n -~]", lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, NoneType)) else str(value)
