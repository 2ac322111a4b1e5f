"""DSC, the format of Microsoft's belief networks (MSBN), which bnlearn writes, too; it is read, and not written.

    belief network "asia"
    node smoke { name: "Smokes?"; type: discrete [ 2 ] = { "yes", "no" }; position: (25, 275); }
    probability ( smoke ) { 0.5, 0.5; }
    probability ( lung | smoke ) { (0): 0.1, 0.9; (1): 0.01, 0.99; }

A row is told by the numbers of the states of its parents, from 0 on. Attributes that fgrn does not need are kept as
properties, the name of a node as its label. Other blocks than these are passed over.
"""

from __future__ import annotations

import re

from ...bayes.document import Document
from ..container import shown
from .builder import RESCALE, Builder
from .rows import Rows
from .tokens import SLASHES, STARS, Span, Token, Tokens

_KINDS = ("belief", "diagnostic", "trouble")
_ROW = re.compile(r"\s*\(([^()]*)\)\s*:(.*)", re.S)
_DEFAULT = re.compile(r"\s*default\s*:(.*)", re.S)
_WORDS = re.compile(r"\s*[A-Za-z_]\w*\s*:(.*)", re.S)


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """The network in a DSC text."""
    builder = Builder(file, len(text), rescale)
    tokens = Tokens(text, builder, "{}()[]=;:|,", SLASHES, STARS)
    name = ""
    tables: list[tuple[list[Token], list[Span]]] = []
    while tokens.next.kind != "end":
        word = tokens.take("word").text
        if word.lower() in _KINDS:
            tokens.take("network", "Network")
            name = tokens.take("text", "word").name
        elif word == "node":
            _node(builder, tokens)
        elif word == "probability":
            tables.append((_scope(tokens), _statements(tokens)))
        else:
            _passed_over(tokens)
    for scope, statements in tables:
        _table(builder, tokens, scope, statements)
    return builder.finish("" if name == "unknown" else name)


def _node(builder: Builder, tokens: Tokens) -> None:
    token = tokens.take("word", "text")
    line = tokens.line(token.place)
    labels: list[str] | None = None
    tokens.take("{")
    while tokens.next.text != "}":
        key = tokens.take("word").text
        begin = tokens.take(":", "=").place + 1
        if key == "type":
            labels = _type(builder, tokens, token.name)
        else:
            _property(builder, tokens, token.name, key, tokens.statement(begin))
        tokens.take(";")
    tokens.take("}")
    if labels is None:
        raise builder.error(line, f'node {shown(token.name)} has no type. It needs type: discrete[2] = {{ "a", "b" }};')
    builder.add_variable(token.name, labels, line)


def _type(builder: Builder, tokens: Tokens, name: str) -> list[str]:
    """The labels of a node's states."""
    kind = tokens.take("word")
    line = tokens.line(kind.place)
    if kind.text != "discrete":
        raise builder.error(line, f"node {shown(name)} is {shown(kind.text)}; only discrete ones can be read.")
    tokens.take("[")
    count = tokens.take("word").text
    for sign in ("]", "=", "{"):
        tokens.take(sign)
    labels: list[str] = []
    while tokens.next.text != "}":
        labels.append(tokens.take("text", "word").name)
        if tokens.next.text != "}":
            tokens.take(",")
    tokens.take("}")
    if str(len(labels)) != count:
        text = f"node {shown(name)} should have {shown(count)} states, but {len(labels):,} are named."
        raise builder.error(line, text)
    return labels


def _property(builder: Builder, tokens: Tokens, name: str, key: str, span: Span) -> None:
    parts = list(tokens.tokens(span))
    value = parts[0].name if len(parts) == 1 else tokens.said(span).strip()
    if key != "name":
        builder.add_property(name, key, value)
    elif value not in ("", name):
        builder.add_property(name, "label", value)


def _scope(tokens: Tokens) -> list[Token]:
    """The variables of a table: the child, then its parents."""
    tokens.take("(")
    found = [tokens.take("word", "text")]
    while tokens.next.text != ")":
        tokens.take("|" if len(found) == 1 else ",")
        found.append(tokens.take("word", "text"))
    tokens.take(")")
    return found


def _statements(tokens: Tokens) -> list[Span]:
    tokens.take("{")
    found: list[Span] = []
    while tokens.next.text != "}":
        found.append(tokens.statement())
        tokens.take(";")
    tokens.take("}")
    return found


def _passed_over(tokens: Tokens) -> None:
    """A block of another kind, up to the brace that closes it."""
    while tokens.next.text != "{":
        tokens.take("word", "text", "{")
    tokens.take("{")
    depth = 1
    while depth:
        token = tokens.take()
        depth += (token.text == "{") - (token.text == "}")


def _table(builder: Builder, tokens: Tokens, scope: list[Token], statements: list[Span]) -> None:
    line = tokens.line(scope[0].place)
    child, *parents = (token.name for token in scope)
    if not parents:
        if len(statements) != 1:
            few = f"the table of {shown(child)} has {len(statements)} rows; of a variable without parents it has one."
            raise builder.error(line, few)
        numbers, at = tokens.numbers(statements[0])
        builder.add_table(child, parents, numbers, at)
        return
    table = Rows(builder, child, parents, line)
    sizes = builder.sizes(parents, line, table.what)
    for span in statements:
        said, at = tokens.said(span), tokens.line(span.begin)
        if (match := _ROW.match(said)) is not None:
            table.add(_codes(builder, table, match[1], sizes, at), match[2], at, f"({' '.join(match[1].split())})")
        elif (match := _DEFAULT.match(said)) is not None:
            table.fill(match[1], at)
        elif (match := _WORDS.match(said)) is not None:
            function = f"{table.what} is given by a function, {shown(match[1].strip())}, and not by all its rows."
            raise builder.error(at, f"{function} Write the rows out.")
        else:
            raise builder.error(
                at, f"{table.what}: a row is written ( numbers of the parents' states ) : numbers ; here."
            )
    table.finish()


def _codes(builder: Builder, table: Rows, text: str, sizes: list[int], line: int) -> list[int]:
    words = text.replace(",", " ").split()
    if len(words) != len(sizes):
        raise builder.error(
            line, f"{table.what}: {shown(text.strip())} are {len(words)} states, but there are {len(sizes)} parents."
        )
    codes = []
    for word, size, parent in zip(words, sizes, table.parents, strict=True):
        code = int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else size
        if code >= size:
            raise builder.error(
                line, f"{table.what}: {shown(word)} is no state of {shown(parent)}; they go from 0 to {size - 1}."
            )
        codes.append(code)
    return codes
