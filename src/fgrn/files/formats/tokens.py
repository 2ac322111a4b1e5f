"""Tokens of formats that consist of blocks in braces and of statements that end in a semicolon."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..container import short_repr
from .builder import Builder

PERCENT = r"%[^\n]*"
SLASHES = r"//[^\n]*"
STARS = r"/\*(?:.*?\*/|.*\Z)"
"""Patterns of comments: up to the end of the line, or up to the closing sign."""

_TEXT = r'"(?:[^"\\]|\\.)*+"'
_ESCAPED_QUOTE = re.compile(r'\\(["\\])')


class Token(NamedTuple):
    """A token: its kind (text, sign, word or end), its text as written, and its position in the file."""

    kind: str
    text: str
    place: int

    @property
    def name(self) -> str:
        """The content of the token: a quoted text without its quotation marks and backslashes before escaped signs."""
        return _ESCAPED_QUOTE.sub(r"\1", self.text[1:-1]) if self.kind == "text" else self.text


class Span(NamedTuple):
    """A part of the text, from one position to another."""

    begin: int
    end: int


class Tokens:
    """The tokens of a text, consumed one by one.

    Args:
        text: the whole file.
        builder: makes the errors.
        signs: the characters that are tokens by themselves.
        comments: the regular expressions of comments, which are skipped.
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
        """Return the line of a position in the text."""
        return bisect_left(self._breaks, place) + 1

    def _after(self, place: int) -> Token:
        for token in self.tokens(Span(place, len(self.text))):
            return token
        return Token("end", "", len(self.text))

    def tokens(self, span: Span) -> Iterator[Token]:
        """Yield the tokens of a part of the text."""
        place = span.begin
        while place < span.end:
            match = self._token.match(self.text, place, span.end)
            if match is None:  # no token matches only after a quotation mark that is not closed
                raise self.builder.error(self.line(place), "a text begins here and has no end. Close it with '\"'.")
            if match.lastgroup != "blank":
                yield Token(str(match.lastgroup), match[0], place)
            elif match[0].startswith("/*") and (len(match[0]) < 4 or not match[0].endswith("*/")):
                raise self.builder.error(self.line(place), "a comment begins here and has no end. Close it with */.")
            place = match.end()

    def take(self, *wanted: str) -> Token:
        """Consume and return the next token; an error unless it has one of these kinds or texts, if any are given."""
        token = self.next
        if token.kind == "end" or (wanted and token.kind not in wanted and token.text not in wanted):
            raise self.unexpected(*wanted)
        self.next = self._after(token.place + len(token.text))
        return token

    def unexpected(self, *wanted: str) -> Exception:
        """Return the error for the next token, where others were expected."""
        token = self.next
        found = f"found {short_repr(token.text)}" if token.text else "the file ends"
        hint = "" if token.text else " Is it complete?"
        words = " or ".join("a name" if one == "word" else repr(one) for one in wanted) or "something else"
        return self.builder.error(self.line(token.place), f"{found} where {words} was expected.{hint}")

    def statement(self, begin: int | None = None) -> Span:
        """Consume and return the part up to the next semicolon or brace outside quoted texts and comments."""
        start = self.next.place if begin is None else begin
        match = self._statement.match(self.text, start)
        end = match.end() if match else start
        self.next = self._after(end)
        return Span(start, end)

    def without_comments(self, span: Span) -> str:
        """Return a part of the text, with a blank in place of each comment; line breaks are kept."""

        def blank(match: re.Match[str]) -> str:
            return "\n" * match[0].count("\n") + " " if match["comment"] else match[0]

        return self._comment.sub(blank, self.text[span.begin : span.end])

    def numbers(self, span: Span, words: Mapping[str, float] | None = None) -> tuple[list[float], int]:
        """Return the numbers of a list with any parentheses and commas, and the line of the first.

        Some words may stand for numbers.
        """
        raw = self.without_comments(span).replace("(", " ").replace(")", " ")
        for word, value in (words or {}).items():
            raw = raw.replace(word, repr(value))
        line = self.line(span.begin)
        first = line + raw.count("\n", 0, len(raw) - len(raw.lstrip()))
        return self.builder.numbers(raw, line), first
