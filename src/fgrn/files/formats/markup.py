"""XML as the formats need it: elements that know their line, by the standard library's expat; no entities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from .builder import Builder

DEEPEST = 100
"""Most elements within each other."""

_BLANK = {ord(letter): " " for letter in map(chr, range(33, 127))}
_DECLARATION = re.compile(r"\s*<\?xml\s[^<>]*\?>")
_DECLARED = re.compile(r"\s*<\?xml[^>]*?\bencoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")


@dataclass(slots=True)
class Element:
    """One element: what is between its tags as text, without that of its children."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its text, trimmed."""
        return "".join(self.pieces).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """The children of these kinds."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child of a kind."""
        return next(self.all(tag), None)


def declared_encoding(start: str) -> str | None:
    """The encoding that the first line of an XML text declares."""
    match = _DECLARED.match(start)
    return match[1] if match else None


def parsed(text: str, builder: Builder, root: str, upper: bool = False) -> Element:
    """The root element of an XML text.

    Args:
        text: the whole file.
        builder: whose errors are raised.
        root: what its tag must be.
        upper: whether tags are compared in capital letters.
    """
    if (declaration := _DECLARATION.match(text)) is not None:  # some files have blanks before it, which XML forbids
        text = declaration[0].translate(_BLANK) + text[declaration.end() :]
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    found: list[Element] = []
    above: list[Element] = []

    def opened(tag: str, attributes: dict[str, str]) -> None:
        if len(above) >= DEEPEST:
            raise builder.error(parser.CurrentLineNumber, f"more than {DEEPEST} elements are within each other.")
        element = Element(tag.upper() if upper else tag, attributes, parser.CurrentLineNumber)
        (above[-1].children if above else found).append(element)
        above.append(element)

    def closed(_: str) -> None:
        above.pop()

    def said(data: str) -> None:
        if above:
            above[-1].pieces.append(data)

    def refused(*_: object) -> NoReturn:
        raise builder.error(parser.CurrentLineNumber, "it declares an entity, which fgrn does not read. Write it out.")

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = said
    parser.CommentHandler = lambda _: said(" ")  # numbers on both sides of a comment are two
    parser.EntityDeclHandler = refused
    try:
        # surrogates cannot be encoded; a decoded file has none
        parser.Parse(text.encode("utf-8", errors="replace"), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        hint = "Is the file complete?" if error.lineno > text.count("\n") else "Correct it there."
        raise builder.error(error.lineno, f"this is not XML: {reason}. {hint}") from None
    if found[0].tag != root:
        raise builder.error(found[0].line, f"the file begins with <{found[0].tag[:40]}>, not with <{root}>.")
    return found[0]


def written(tag: str, text: str, indent: int) -> str:
    """An element with nothing but text."""
    return f"{'  ' * indent}<{tag}>{escape(text)}</{tag}>"
