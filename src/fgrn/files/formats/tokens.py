"""The tokens of formats that are made of blocks in braces and of statements that end in a semicolon."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..container import shown
from .builder import Builder

PERCENT = r"%[^\n]*"
SLASHES = r"//[^\n]*"
STARS = r"/\*(?:.*?\*/|.*\Z)"
"""Comments: from a sign to the end of its line, or up to the sign that closes it."""

_TEXT = r'"(?:[^"\\]|\\.)*+"'
_ESCAPED = re.compile(r'\\(["\\])')


class Token(NamedTuple):
    """One token: its kind (text, sign, word or end), how it is written, and where."""

    kind: str
    text: str
    place: int

    @property
    def name(self) -> str:
        """What it says: a text without its quotation marks."""
        return unquoted(self.text) if self.kind == "text" else self.text


class Span(NamedTuple):
    """A part of the text, from one place to another."""

    begin: int
    end: int


def unquoted(text: str) -> str:
    """A text without its quotation marks; a backslash before one, or before another, is dropped."""
    return _ESCAPED.sub(r"\1", text[1:-1])


class Tokens:
    """The tokens of a text, taken one by one.

    Args:
        text: the whole file.
        builder: whose errors are raised.
        signs: the characters that are tokens by themselves.
        comments: what is passed over, as regular expressions.
    """

    def __init__(self, text: str, builder: Builder, signs: str, *comments: str) -> None:
        self.text, self.builder = text, builder
        comment = "|".join(comments)
        sign = re.escape(signs)
        self._token = re.compile(
            rf"(?P<blank>\s+|{comment})|(?P<text>{_TEXT})|(?P<sign>[{sign}])"
            rf'|(?P<word>(?:(?!{comment})[^\s"{sign}])++)',
            re.S,
        )
        self._comment = re.compile(rf"{_TEXT}|(?P<comment>{comment})", re.S)
        self._statement = re.compile(rf'(?:[^;{{}}"%/]++|{_TEXT}|{comment}|[%/])*+', re.S)
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self.next = self._after(0)

    def line(self, place: int) -> int:
        """The line of a place in the text."""
        return bisect_left(self._breaks, place) + 1

    def _after(self, place: int) -> Token:
        for token in self.tokens(Span(place, len(self.text))):
            return token
        return Token("end", "", len(self.text))

    def tokens(self, span: Span) -> Iterator[Token]:
        """The tokens of a part of the text."""
        place = span.begin
        while place < span.end:
            match = self._token.match(self.text, place, span.end)
            if match is None:  # only a quotation mark begins something without end
                raise self.builder.error(self.line(place), "a text begins here and has no end. Close it with '\"'.")
            if match.lastgroup != "blank":
                yield Token(str(match.lastgroup), match[0], place)
            elif match[0].startswith("/*") and (len(match[0]) < 4 or not match[0].endswith("*/")):
                raise self.builder.error(self.line(place), "a comment begins here and has no end. Close it with */.")
            place = match.end()

    def take(self, *wanted: str) -> Token:
        """The next token, which is of this kind or text; nothing wanted takes all but the end."""
        token = self.next
        if token.kind == "end" or (wanted and token.kind not in wanted and token.text not in wanted):
            raise self.unexpected(*wanted)
        self.next = self._after(token.place + len(token.text))
        return token

    def unexpected(self, *wanted: str) -> Exception:
        """The error for the next token, where others were wanted."""
        token = self.next
        found = f"found {shown(token.text)}" if token.text else "the file ends"
        hint = "" if token.text else " Is it complete?"
        words = " or ".join("a name" if one == "word" else repr(one) for one in wanted) or "something else"
        return self.builder.error(self.line(token.place), f"{found} where {words} was expected.{hint}")

    def statement(self, begin: int | None = None) -> Span:
        """What stands here, as a whole, before the next semicolon or brace that is in no text and no comment."""
        start = self.next.place if begin is None else begin
        match = self._statement.match(self.text, start)
        end = match.end() if match else start
        self.next = self._after(end)
        return Span(start, end)

    def said(self, span: Span) -> str:
        """A part of the text, with a blank in place of each comment and of what breaks a line of it."""

        def blank(match: re.Match[str]) -> str:
            return "\n" * match[0].count("\n") + " " if match["comment"] else match[0]

        return self._comment.sub(blank, self.text[span.begin : span.end])

    def numbers(self, span: Span, words: Mapping[str, float] | None = None) -> tuple[list[float], int]:
        """The numbers of a list with any parentheses and commas, some of which are words, and the line of the first."""
        raw = self.said(span).replace("(", " ").replace(")", " ")
        for word, value in (words or {}).items():
            raw = raw.replace(word, repr(value))
        line = self.line(span.begin)
        first = line + raw.count("\n", 0, len(raw) - len(raw.lstrip()))
        return self.builder.numbers(raw, line), first
