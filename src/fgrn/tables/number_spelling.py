"""Numbers that are written as no program reads them without being told: decimal commas, thousands, amounts of money."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..core.exceptions import Remedy, TableWarning, warn
from ..core.labels import is_number

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")

WHOLE = re.compile(r"[+-]?(0|[1-9]\d*|[1-9]\d{0,2}(,\d{3})+)")
"""A whole number, with or without thousands separators."""

WITH_POINTS = re.compile(r"[+-]?(0|[1-9]\d{0,2}(\.\d{3})*)(,\d+)?")
"""A number whose thousands are separated by points, and its decimals by a comma."""

DIGITS = r"\d+([.,' \u00a0\u202f]\d{3})*([.,]\d+)?"
SIGN = r"([$€£¥₹₩₽₺₪฿%]|USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY)"
AMOUNT = re.compile(rf"[+-]?{SIGN}?\s*[+-]?{DIGITS}\s*{SIGN}?")
"""An amount of money or a percentage, with or without its sign."""

CODE = re.compile(r"\s*[+-]?0\d")
"""How a code such as 007 begins."""


@dataclass(frozen=True)
class NumberSpelling:
    """How the words of a column write numbers.

    what     the words are, as part of a sentence: "numbers with a decimal comma, such as '1,5'"
    remedy   how to have them read as numbers
    """

    what: str
    remedy: Remedy | str


AS_TEXT = NumberSpelling("numbers written as text", "turn them into numbers, which are put into bins")
"""Of words that are numbers already."""


def number_spelling(words: Iterable[Any]) -> NumberSpelling | None:
    """Return how words write numbers, if all of them do; None for others, and for codes such as 007."""
    known = list(words)
    if not known or not all(isinstance(word, str) for word in known):
        return None
    if all(is_number(word) and not CODE.match(word) for word in known):
        return AS_TEXT
    separated = _first_with(",", WHOLE, known) or _first_with(r"\.", WITH_POINTS, known)
    if separated is not None:
        text = "remove the separators, so that they are read as numbers"
        return NumberSpelling(f"numbers with thousands separators, such as {separated!r}", text)
    with_comma = _first_with(",", DECIMAL_COMMA, known)
    if with_comma is not None:
        remedy = Remedy("read the file", decimal=",")
        return NumberSpelling(f"numbers with a decimal comma, such as {with_comma!r}", remedy)
    signed = _first_with(SIGN, AMOUNT, known)
    if signed is not None:
        text = "write them with digits and a decimal point alone, so that they are read as numbers"
        return NumberSpelling(f"numbers with a sign or a unit, such as {signed!r}", text)
    return None


def _first_with(part: str, form: re.Pattern[str], words: list[str]) -> str | None:
    """Return the first word with a part, if all words have a form; None if not, or if no word has the part."""
    found = next((word for word in words if re.search(part, word)), None)
    return found if all(map(form.fullmatch, words)) else None


def warn_of_numbers_as_words(name: str, levels: Iterable[Any]) -> None:
    """Warn if the levels of a column are numbers that are taken as words, and say how to have them read."""
    spelt = number_spelling(levels)
    if spelt is not None and spelt is not AS_TEXT:
        warn(f"{spelt.what}, are taken as words.", TableWarning, column=name, remedies=spelt.remedy)
