"""XML parser for the formats: elements with line numbers, by expat of the standard library; entities are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from .builder import Builder

DEEPEST_ELEMENT = 100
"""The deepest nesting of elements."""

_BLANK = {ord(letter): " " for letter in map(chr, range(33, 127))}
_DECLARATION = re.compile(r"\s*<\?xml\s[^<>]*\?>")
_DECLARED = re.compile(r"\s*<\?xml[^>]*?\bencoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")


@dataclass(slots=True)
class Element:
    """An XML element; its text does not include that of its children."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element, without blanks around it."""
        return "".join(self.pieces).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """Return the children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """Return the first child with a tag, or None."""
        return next(self.all(tag), None)


def declared_encoding(start: str) -> str | None:
    """Return the encoding that the first line of an XML text declares, or None."""
    match = _DECLARED.match(start)
    return match[1] if match else None


def parse_xml(text: str, builder: Builder, root: str, upper: bool = False) -> Element:
    """Return the root element of an XML text.

    Args:
        text: the whole file.
        builder: makes the errors.
        root: the required tag of the root.
        upper: whether to convert tags to capital letters.
    """
    if (
        declaration := _DECLARATION.match(text)
    ) is not None:  # some files have blanks before the declaration, which XML forbids
        text = declaration[0].translate(_BLANK) + text[declaration.end() :]
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    found: list[Element] = []
    above: list[Element] = []

    def start_element(tag: str, attributes: dict[str, str]) -> None:
        if len(above) >= DEEPEST_ELEMENT:
            raise builder.error(
                parser.CurrentLineNumber, f"more than {DEEPEST_ELEMENT} elements are within each other."
            )
        element = Element(tag.upper() if upper else tag, attributes, parser.CurrentLineNumber)
        (above[-1].children if above else found).append(element)
        above.append(element)

    def end_element(_: str) -> None:
        above.pop()

    def add_text(data: str) -> None:
        if above:
            above[-1].pieces.append(data)

    def refuse_entity(*_: object) -> NoReturn:
        raise builder.error(parser.CurrentLineNumber, "it declares an entity, which fgrn does not read. Write it out.")

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.CharacterDataHandler = add_text
    parser.CommentHandler = lambda _: add_text(" ")  # a comment separates numbers
    parser.EntityDeclHandler = refuse_entity
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


def text_element(tag: str, text: str, indent: int) -> str:
    """Return an XML element that contains only text."""
    return f"{'  ' * indent}<{tag}>{escape(text)}</{tag}>"
