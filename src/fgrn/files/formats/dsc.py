"""DSC, the format of Microsoft's belief networks (MSBN), also written by bnlearn; reading only.

    belief network "asia"
    node smoke { name: "Smokes?"; type: discrete [ 2 ] = { "yes", "no" }; position: (25, 275); }
    probability ( smoke ) { 0.5, 0.5; }
    probability ( lung | smoke ) { (0): 0.1, 0.9; (1): 0.01, 0.99; }

A row is given by the positions of the states of its parents, from 0. Attributes that fgrn does not use are kept as
properties, the name of a node as its label. Other blocks are ignored.
"""

from __future__ import annotations

import re

from ...bayes.document import Document
from ..container import short_repr
from .builder import RESCALE, Builder
from .table_rows import TableRows
from .tokens import SLASHES, STARS, Span, Token, Tokens

_NETWORK_KINDS = ("belief", "diagnostic", "trouble")
_CASE = re.compile(r"\s*\(([^()]*)\)\s*:(.*)", re.S)
_DEFAULT = re.compile(r"\s*default\s*:(.*)", re.S)
_FUNCTION = re.compile(r"\s*[A-Za-z_]\w*\s*:(.*)", re.S)


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in a DSC text."""
    builder = Builder(file, len(text), rescale)
    tokens = Tokens(text, builder, "{}()[]=;:|,", SLASHES, STARS)
    name = ""
    tables: list[tuple[list[Token], list[Span]]] = []
    while tokens.next.kind != "end":
        word = tokens.take("word").text
        if word.lower() in _NETWORK_KINDS:
            tokens.take("network", "Network")
            name = tokens.take("text", "word").name
        elif word == "node":
            _read_node(builder, tokens)
        elif word == "probability":
            tables.append((_read_scope(tokens), _statements(tokens)))
        else:
            _skip_block(tokens)
    for scope, statements in tables:
        _read_table(builder, tokens, scope, statements)
    return builder.finish("" if name == "unknown" else name)


def _read_node(builder: Builder, tokens: Tokens) -> None:
    token = tokens.take("word", "text")
    line = tokens.line(token.place)
    labels: list[str] | None = None
    tokens.take("{")
    while tokens.next.text != "}":
        key = tokens.take("word").text
        begin = tokens.take(":", "=").place + 1
        if key == "type":
            labels = _read_type(builder, tokens, token.name)
        else:
            _read_property(builder, tokens, token.name, key, tokens.statement(begin))
        tokens.take(";")
    tokens.take("}")
    if labels is None:
        raise builder.error(
            line, f'node {short_repr(token.name)} has no type. It needs type: discrete[2] = {{ "a", "b" }};'
        )
    builder.add_variable(token.name, labels, line)


def _read_type(builder: Builder, tokens: Tokens, name: str) -> list[str]:
    """Return the labels of a node's states."""
    kind = tokens.take("word")
    line = tokens.line(kind.place)
    if kind.text != "discrete":
        raise builder.error(
            line, f"node {short_repr(name)} is {short_repr(kind.text)}; only discrete ones can be read."
        )
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
        text = f"node {short_repr(name)} should have {short_repr(count)} states, but {len(labels):,} are named."
        raise builder.error(line, text)
    return labels


def _read_property(builder: Builder, tokens: Tokens, name: str, key: str, span: Span) -> None:
    parts = list(tokens.tokens(span))
    value = parts[0].name if len(parts) == 1 else tokens.without_comments(span).strip()
    if key != "name":
        builder.add_property(name, key, value)
    elif value not in ("", name):
        builder.add_property(name, "label", value)


def _read_scope(tokens: Tokens) -> list[Token]:
    """Return the variables of a table: the child, then its parents."""
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


def _skip_block(tokens: Tokens) -> None:
    """Skip a block of an unused kind, up to its closing brace."""
    while tokens.next.text != "{":
        tokens.take("word", "text", "{")
    tokens.take("{")
    depth = 1
    while depth:
        token = tokens.take()
        depth += (token.text == "{") - (token.text == "}")


def _read_table(builder: Builder, tokens: Tokens, scope: list[Token], statements: list[Span]) -> None:
    line = tokens.line(scope[0].place)
    child, *parents = (token.name for token in scope)
    if not parents:
        if len(statements) != 1:
            few = f"has {len(statements)} rows; of a variable without parents it has one."
            raise builder.error(line, f"the table of {short_repr(child)} {few}")
        numbers, at = tokens.numbers(statements[0])
        builder.add_table(child, parents, numbers, at)
        return
    table = TableRows(builder, child, parents, line)
    sizes = builder.sizes(parents, line, table.what)
    for span in statements:
        said, at = tokens.without_comments(span), tokens.line(span.begin)
        if (match := _CASE.match(said)) is not None:
            table.add(
                _parent_codes(builder, table, match[1], sizes, at), match[2], at, f"({' '.join(match[1].split())})"
            )
        elif (match := _DEFAULT.match(said)) is not None:
            table.fill(match[1], at)
        elif (match := _FUNCTION.match(said)) is not None:
            function = f"{table.what} is given by a function, {short_repr(match[1].strip())}, and not by all its rows."
            raise builder.error(at, f"{function} Write the rows out.")
        else:
            raise builder.error(
                at, f"{table.what}: a row is written ( numbers of the parents' states ) : numbers ; here."
            )
    table.finish()


def _parent_codes(builder: Builder, table: TableRows, text: str, sizes: list[int], line: int) -> list[int]:
    """Return the codes of the parents' states at the beginning of a row."""
    words = text.replace(",", " ").split()
    if len(words) != len(sizes):
        raise builder.error(
            line,
            f"{table.what}: {short_repr(text.strip())} are {len(words)} states, but there are {len(sizes)} parents.",
        )
    codes = []
    for word, size, parent in zip(words, sizes, table.parents, strict=True):
        code = int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else size
        if code >= size:
            raise builder.error(
                line,
                f"{table.what}: {short_repr(word)} is not a state of {short_repr(parent)}; these are 0 to {size - 1}.",
            )
        codes.append(code)
    return codes
