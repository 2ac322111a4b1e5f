r"""Hugin NET: blocks of attributes, for the network, for each node, and for each potential.

    net { node_size = (80 40); }
    node smoke { states = ("yes" "no"); label = "Smokes?"; position = (25 275); }
    potential ( lung | smoke ) { data = ((0.1 0.9)(0.01 0.99)); }   % the child fastest

Attributes that fgrn does not need are kept as properties: a text without its quotation marks, all else as it is
written. In a text \" stands for a quotation mark and \\ for a backslash. A potential without data has ones
everywhere, as in Hugin, which is uniform.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...document import Document
from ..container import shown
from .builder import Builder
from .names import check_directed, check_names, is_plain, numbers_text

_TOKEN = re.compile(
    r"""(?P<blank>[\s]+|%[^\n]*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>[{}()=;|])|(?P<word>[^\s"%{}()=;|]+)""", re.S
)
_COMMENT = re.compile(r"%[^\n]*")
_DATA = re.compile(r'[^;%{}"]*(?:%[^\n]*[^;%{}"]*)*')
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIST = re.compile(r'\((?:[\s0-9.eE+()-]|"(?:[^"\\]|\\.)*")*\)', re.S)
_OTHER_KINDS = {
    "decision": "a decision",
    "utility": "a utility",
    "continuous": "a continuous variable",
    "function": "a function",
    "class": "a class",
    "temporal": "a temporal clone",
}
_RESERVED = frozenset({"net", "node", "discrete", "potential", *_OTHER_KINDS})


class _Token(NamedTuple):
    kind: str  # text, sign, word, or end
    text: str
    place: int


class _Attribute(NamedTuple):
    tokens: list[_Token]
    begin: int
    end: int


class _Reader:
    """The tokens of a text, one by one, and what can be made of them."""

    def __init__(self, text: str, builder: Builder) -> None:
        self.text, self.builder = text, builder
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self.next = self._token(0)

    def line(self, place: int) -> int:
        return bisect_left(self._breaks, place) + 1

    def _token(self, place: int) -> _Token:
        while place < len(self.text):
            match = _TOKEN.match(self.text, place)
            if match is None:  # only a quotation mark begins something without end
                raise self.builder.error(self.line(place), "a text begins here and has no end. Close it with '\"'.")
            if match.lastgroup != "blank":
                return _Token(str(match.lastgroup), match[0], place)
            place = match.end()
        return _Token("end", "", place)

    def take(self, *wanted: str) -> _Token:
        """The next token, which is of this kind or text; nothing wanted takes all but the end."""
        token = self.next
        if token.kind == "end" or (wanted and token.kind not in wanted and token.text not in wanted):
            found = f"found {shown(token.text)}" if token.text else "the file ends"
            hint = "" if token.text else " Is it complete?"
            words = " or ".join("a name" if one == "word" else repr(one) for one in wanted) or "something else"
            raise self.builder.error(self.line(token.place), f"{found} where {words} was expected.{hint}")
        self.next = self._token(token.place + len(token.text))
        return token

    def attributes(self) -> dict[str, _Attribute]:
        """A block of attributes in braces, each up to its semicolon."""
        self.take("{")
        found: dict[str, _Attribute] = {}
        while self.next.text != "}":
            name = self.take("word").text
            begin = self.take("=").place + 1
            tokens: list[_Token] = []
            if name == "data":  # as a whole: it may be of millions of numbers
                numbers = _DATA.match(self.text, begin)
                self.next = self._token(numbers.end() if numbers else begin)
            while self.next.text != ";":
                if self.next.text in ("{", "}"):
                    self.take(";")
                tokens.append(self.take())
            found[name] = _Attribute(tokens, begin, self.next.place)
            self.take(";")
        self.take("}")
        return found

    def value(self, attribute: _Attribute) -> str:
        """An attribute as a property."""
        if len(attribute.tokens) == 1 and attribute.tokens[0].kind == "text":
            return _unquoted(attribute.tokens[0].text)
        return self.text[attribute.begin : attribute.end].strip()


def _unquoted(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])


def parse(text: str, file: str) -> Document:
    """The network in a NET text."""
    builder = Builder(file)
    reader = _Reader(text, builder)
    name = ""
    nodes: list[tuple[_Token, dict[str, _Attribute]]] = []
    potentials: list[tuple[list[_Token], dict[str, _Attribute]]] = []
    while reader.next.kind != "end":
        word = reader.take("word")
        if word.text == "net":
            for key, attribute in reader.attributes().items():
                if key == "name":
                    name = reader.value(attribute)
                else:
                    builder.add_property("", key, reader.value(attribute))
        elif word.text == "potential":
            potentials.append((_scope(reader), reader.attributes()))
        elif word.text in ("node", "discrete"):
            if word.text == "discrete":
                reader.take("node")
            nodes.append((reader.take("word", "text"), reader.attributes()))
        elif word.text in _OTHER_KINDS:
            what = _OTHER_KINDS[word.text]
            raise builder.error(
                reader.line(word.place), f"here is {what}; only discrete nodes and their potentials are read."
            )
        else:
            raise builder.error(
                reader.line(word.place), f"found {shown(word.text)} where net, node or potential was expected."
            )
    for token, attributes in nodes:
        _node(builder, reader, token, attributes)
    for scope, attributes in potentials:
        _potential(builder, reader, scope, attributes)
    return builder.finish(name)


def _name(token: _Token) -> str:
    return _unquoted(token.text) if token.kind == "text" else token.text


def _scope(reader: _Reader) -> list[_Token]:
    """The variables of a potential: the child, then its parents."""
    opening = reader.take("(")
    found: list[_Token] = []
    bar = False
    while reader.next.text != ")":
        token = reader.take("word", "text", "|")
        if token.text != "|":
            found.append(token)
        elif bar or len(found) != 1:
            break
        else:
            bar = True
    if len(found) != 1 and not bar:
        raise reader.builder.error(
            reader.line(opening.place), "a potential is of one variable: potential ( child | parents )."
        )
    reader.take(")")
    return found


def _node(builder: Builder, reader: _Reader, token: _Token, attributes: dict[str, _Attribute]) -> None:
    name, line = _name(token), reader.line(token.place)
    states = attributes.pop("states", None)
    if states is None:
        raise builder.error(line, f'node {shown(name)} has no states. It needs states = ("..." "...");')
    labels = [_name(one) for one in states.tokens if one.kind != "sign"]
    builder.add_variable(name, labels, line)
    for key, attribute in attributes.items():
        builder.add_property(name, key, reader.value(attribute))


def _potential(builder: Builder, reader: _Reader, scope: list[_Token], attributes: dict[str, _Attribute]) -> None:
    line = reader.line(scope[0].place)
    child, *parents = (_name(token) for token in scope)
    what = f"the table of {shown(child)}"
    data = attributes.get("data")
    if data is None:
        if any(key.startswith("model") for key in attributes):
            raise builder.error(line, f"{what} is given by a model without data. Let Hugin write its table.")
        sizes = builder.sizes((*parents, child), line, what)
        total = builder.product(sizes)
        builder.expand(total, line, what)
        builder.add_table(child, parents, np.full(total, 1 / sizes[-1]), line)
        return
    raw = _COMMENT.sub(" ", reader.text[data.begin : data.end]).replace("(", " ").replace(")", " ")
    numbers = builder.numbers(raw, reader.line(data.begin))
    builder.add_table(child, parents, numbers, reader.line(data.begin + len(raw) - len(raw.lstrip())))


# Writing


def serialise(document: Document) -> str:
    """A document as a NET text."""
    check_directed(document, "Hugin NET")
    rule = "names are letters, digits and underscores, do not begin with a digit and are no words of the format"
    check_names(document, "Hugin NET", _is_name, lambda _: True, rule, ", or write XMLBIF (.xml) or BIF (.bif)")
    lines = ["net", "{"]
    lines += [f"  name = {_quoted(document.name)};"] if document.name else []
    lines += [*_properties(document, "", "name"), "}"]
    for name, labels in document.states.items():
        lines += ["", f"node {name}", "{", f"  states = ({' '.join(map(_quoted, labels))});"]
        lines += [*_properties(document, name, "states"), "}"]
    for factor in document.factors:
        *parents, child = factor.scope
        scope = f"{child} | {' '.join(parents)}" if parents else child
        lines += ["", f"potential ( {scope} )", "{", f"  data = {_nested(factor.values)};", "}"]
    return "\n".join(lines) + "\n"


def _nested(values: np.ndarray) -> str:
    """A table with a pair of parentheses for each of its rows, and for each state of each parent."""
    rows = [f"({numbers_text(row)})" for row in values.reshape(-1, values.shape[-1]).tolist()]
    glue = "\n          "
    for size in values.shape[-2::-1]:
        rows = ["(" + glue.join(rows[at : at + size]) + ")" for at in range(0, len(rows), size)]
    return rows[0]


def _is_name(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name)) and name not in _RESERVED


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _properties(document: Document, name: str, taken: str) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        if key != taken and _IDENTIFIER.fullmatch(key) and is_plain(value):
            bare = _NUMBER.fullmatch(value) or _LIST.fullmatch(value)
            yield f"  {key} = {value if bare else _quoted(value)};"
