"""BIF, the interchange format of the Bayesian network repositories.

    network asia { }
    variable smoke { type discrete [ 2 ] { yes, no }; property "position = (3, 4)"; }
    probability ( lung | smoke ) { ( yes ) 0.1, 0.9; ( no ) 0.01, 0.99; }

The tokens are coarse: a list of states, a row of a table or a whole table is one, and is taken apart by hand, so that
a file of millions of numbers is read in about a second. A `table` of a variable with parents has the child slowest, as
in the programs that write such; rows in parentheses are the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...document import Document, Factor
from ..container import shown
from .builder import Builder
from .names import check_directed, check_names, is_plain, joined_property, numbers_text, split_property

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedInput

GRAMMAR = r"""
    start: (network | variable | probability)*
    network: _NETWORK NAME? "{" PROPERTY* "}"
    variable: _VARIABLE NAME "{" (TYPE | PROPERTY)* "}"
    probability: _PROBABILITY SCOPE "{" (TABLE | DEFAULT | ROW | PROPERTY)* "}"

    _NETWORK: /network\b/
    _VARIABLE: /variable\b/
    _PROBABILITY: /probability\b/
    NAME: /"[^"\n]*"|[^\s{}";]+/
    TYPE: /type\b[^{};"]*\{[^{}"]*(?:"[^"\n]*"[^{}"]*)*\}\s*;/
    SCOPE: /\([^{}";]*(?:"[^"\n]*"[^{}";]*)*\)/
    ROW: /\([^;{}"]*(?:"[^"\n]*"[^;{}"]*)*;/
    TABLE: /table\b[^;{}]*;/
    DEFAULT: /default\b[^;{}]*;/
    PROPERTY: /property\b(?:[^;"]*(?:"[^"\n]*"[^;"]*)*;|[^;\n]*;)/
    %ignore /\s+/
"""

# A comment begins where a word could not go on, lest a label or an address with slashes be cut.
_COMMENT = re.compile(r'"[^"\n]*"|(?<![^\s{};,()\[\]|"0-9])(?://[^\n]*|/\*(?:.*?\*/|.*\Z))', re.S)
_TYPE = re.compile(r"(?s)type\s+([^\s\[]+)\s*\[\s*([0-9]+)\s*\]\s*\{(.*)\}\s*;")
_ITEM = re.compile(r'"([^"\n]*)"|([^\s,"]+)')
_SCOPE_ITEM = re.compile(r'"([^"\n]*)"|([^\s,|"]+)|(\|)')
_ROW = re.compile(r'\(([^()"]*)\)([^()"]*);')
_ANY_ROW = re.compile(r'(?s)\((.*)\)([^()"]*);')
_BARE = re.compile(r'(?!.*//)(?!.*/\*)[^\s,;{}()\[\]|"]+')
_BARE_PROPERTY = re.compile(r"(?!.*//)(?!.*/\*)[A-Za-z_][A-Za-z0-9_]* = [^;{}\"]+")
_STATEMENT = re.compile(r"\(|(?:type|table|default|property)\b")
_WORDS = {
    "_NETWORK": "'network'",
    "_VARIABLE": "'variable'",
    "_PROBABILITY": "'probability'",
    "NAME": "a name",
    "TYPE": "'type'",
    "SCOPE": "variables in parentheses",
    "ROW": "a row",
    "TABLE": "'table'",
    "DEFAULT": "'default'",
    "PROPERTY": "'property'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "$END": "the end",
}


def parse(text: str, file: str) -> Document:
    """The network in a BIF text."""
    builder = Builder(file)
    tree = _tree(_without_comments(text, builder), builder)
    blocks: dict[str, list[Tree[Token]]] = {"network": [], "variable": [], "probability": []}
    for block in _trees(tree):
        blocks[str(block.data)].append(block)
    name = ""
    for block in blocks["network"]:
        for token in _tokens(block):
            if token.type == "NAME":
                name = "" if token == "unknown" else token.strip('"')  # what is written for none
            else:
                _property(builder, "", token)
    for block in blocks["variable"]:
        _variable(builder, block)
    for block in blocks["probability"]:
        _probability(builder, block)
    return builder.finish(name)


def _without_comments(text: str, builder: Builder) -> str:
    """The text with blanks in place of comments: every line stays where it is."""
    if "//" not in text and "/*" not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith('"'):
            return found
        if found.startswith("/*") and (len(found) < 4 or not found.endswith("*/")):
            line = text.count("\n", 0, match.start()) + 1
            raise builder.error(line, "a comment begins here and has no end. Close it with */.")
        return "\n" * found.count("\n") + " "

    return _COMMENT.sub(blank, text)


@cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="contextual")


def _tree(text: str, builder: Builder) -> Tree[Token]:
    from lark import UnexpectedInput

    try:
        return _parser().parse(text)
    except UnexpectedInput as error:
        found_error = error
    raise _problem(text, found_error, builder)  # not while another is handled, which could not be pickled


def _problem(text: str, error: UnexpectedInput, builder: Builder) -> Exception:
    from lark import UnexpectedCharacters, UnexpectedToken

    expected: Any = ()
    at_end = True
    line, where = text.count("\n") + 1, len(text)
    if isinstance(error, UnexpectedToken):
        at_end, expected = error.token.type == "$END", error.expected
    elif isinstance(error, UnexpectedCharacters):
        at_end, expected = False, error.allowed or ()
    if not at_end:
        line, where = error.line, error.pos_in_stream or 0
    words = " or ".join(sorted(_WORDS.get(one, one) for one in expected)) or "something else"
    found = f"found {shown(text[where : where + 40].split(chr(10))[0])}" if not at_end else "the file ends"
    hint = " Is it complete?" if at_end else ""
    if _STATEMENT.match(text, where) and "RBRACE" in expected:  # what it begins with is right, so its end is not
        hint = " A statement ends with ';', and has its braces and quotation marks in pairs."
    return builder.error(line, f"{found} where {words} was expected.{hint}")


def _tokens(tree: Tree[Token]) -> Iterator[Token]:
    from lark import Token

    return (child for child in tree.children if isinstance(child, Token))


def _trees(tree: Tree[Token]) -> Iterator[Tree[Token]]:
    from lark import Tree

    return (child for child in tree.children if isinstance(child, Tree))


def _line(token: Token) -> int:
    return token.line or 0


def _items(text: str) -> list[str]:
    """The members of a list: between commas, or where there is none between blanks; quoted ones as they are."""
    if '"' in text:
        return [quoted or bare for quoted, bare in _ITEM.findall(text)]
    if "," not in text:
        return text.split()
    items = [item.strip() for item in text.split(",")]
    return items if items[-1] else items[:-1]


def _property(builder: Builder, name: str, token: Token) -> None:
    text = token[len("property") : -1].strip()
    if text.startswith('"') and text.endswith('"') and text.count('"') == 2:
        text = text[1:-1]
    if text:
        builder.add_property(name, *split_property(text))


def _variable(builder: Builder, block: Tree[Token]) -> None:
    name_token, *tokens = _tokens(block)
    name = name_token.strip('"')
    types = [token for token in tokens if token.type == "TYPE"]
    if len(types) != 1:
        text = f"variable {shown(name)} has {len(types)} types. Give it one, with its states."
        raise builder.error(_line(name_token), text)
    line = _line(types[0])
    match = _TYPE.fullmatch(types[0])
    if match is None:
        text = f"variable {shown(name)}: a type is written type discrete [ number ] {{ states }}; here."
        raise builder.error(line, text)
    kind, count, states = match.groups()
    if kind != "discrete":
        raise builder.error(line, f"variable {shown(name)} is {shown(kind)}; only discrete ones can be read.")
    count = count.lstrip("0") or "0"
    labels = _items(states)
    if str(len(labels)) != count and '"' not in states:
        labels = states.replace(",", " ").split()
    if str(len(labels)) != count:
        text = f"variable {shown(name)} should have {count[:20]} states, but {len(labels):,} are named."
        raise builder.error(line, text)
    builder.add_variable(name, labels, line)
    for token in tokens:
        if token.type == "PROPERTY":
            _property(builder, name, token)


def _probability(builder: Builder, block: Tree[Token]) -> None:
    scope, *tokens = _tokens(block)
    line = _line(scope)
    names: list[str] = []
    bar = False
    for match in _SCOPE_ITEM.finditer(scope, 1, len(scope) - 1):
        if match[3]:
            if bar or len(names) != 1:
                raise builder.error(
                    line, "before the bar stands one variable, and there is one bar: ( child | parents )."
                )
            bar = True
        else:
            names.append(match[2] or match[1])
    if not names:
        raise builder.error(line, "a table must say whose it is: probability ( child | parents ).")
    child, *parents = names
    kinds = {kind: [token for token in tokens if token.type == kind] for kind in ("TABLE", "DEFAULT", "ROW")}
    tables, defaults, rows = kinds["TABLE"], kinds["DEFAULT"], kinds["ROW"]
    if len(tables) + bool(defaults or rows) != 1 or len(defaults) > 1:
        wrong = (tables or defaults or [scope])[-1]
        found = "more than one table" if tables or defaults else "no numbers"
        raise builder.error(_line(wrong), f"variable {shown(child)} has {found}. Give a table, or a row for each case.")
    if tables:
        line = _line(tables[0])
        values = builder.numbers(tables[0][len("table") : -1], line)
        sizes = builder.sizes((*parents, child), line, f"the table of {shown(child)}")
        if parents and len(values) == builder.product(sizes):
            swapped = np.moveaxis(np.array(values).reshape(sizes[-1], *sizes[:-1]), 0, -1)
            builder.add_table(child, parents, swapped.ravel(), line)
        else:
            builder.add_table(child, parents, values, line)
    else:
        _rows(builder, child, parents, rows, defaults, line)


def _rows(
    builder: Builder, child: str, parents: Sequence[str], rows: list[Token], defaults: list[Token], line: int
) -> None:
    """A table of rows, each with its states of the parents, and one for all others."""
    what = f"the table of {shown(child)}"
    *sizes, width = builder.sizes((*parents, child), line, what)
    codes = [{label: code for code, label in enumerate(builder.states[name])} for name in parents]
    found: dict[int, tuple[list[float], int]] = {}
    for token in rows:
        at = _line(token)
        labels, numbers = _row(builder, token, len(parents), what)
        place = 0
        for name, table, size, label in zip(parents, codes, sizes, labels, strict=True):
            if label not in table:
                known = ", ".join(map(shown, builder.states[name][:8]))
                raise builder.error(at, f"{what}: {shown(label)} is no state of {shown(name)} (known: {known}).")
            place = place * size + table[label]
        if place in found:
            raise builder.error(
                at, f"{what} has two rows for {token[: token.find(')') + 1][:100]}. Remove one of them."
            )
        found[place] = (_checked_row(builder, numbers, width, at, what), at)
    total = builder.product(sizes)
    if len(found) < total and not defaults:
        first = next(place for place in range(total) if place not in found)
        which = builder.configuration(parents, first, line)
        raise builder.error(line, f"{what} has {len(found):,} rows of {total:,}; there is none for {which}.")
    rest: list[float] = []
    line_of_rest = line
    if defaults:
        line_of_rest = _line(defaults[0])
        rest = _checked_row(builder, defaults[0][len("default") : -1], width, line_of_rest, what)
        if total > len(found):
            builder.expand(min(total * width, 10**18), line_of_rest, what)
    values = np.empty((total, width))
    if len(found) < total:
        values[:] = rest
    values[list(found)] = [row for row, _ in found.values()] or np.empty((0, width))
    builder.add_table(child, parents, values.ravel(), line, lambda row: found[row][1] if row in found else line_of_rest)


def _row(builder: Builder, token: Token, count: int, what: str) -> tuple[list[str], str]:
    """The labels and the numbers of a row."""
    match = _ROW.fullmatch(token) or _ANY_ROW.fullmatch(token)
    if match is None:
        raise builder.error(_line(token), f"{what}: a row is written ( states of the parents ) numbers ; here.")
    labels = _items(match[1])
    if len(labels) != count and '"' not in match[1]:
        labels = match[1].replace(",", " ").split()
    if len(labels) != count:
        text = f"{what}: {shown(match[1].strip())} are {len(labels)} states, but there are {count} parents."
        raise builder.error(_line(token), text)
    return labels, match[2]


def _checked_row(builder: Builder, text: str, width: int, line: int, what: str) -> list[float]:
    values = builder.numbers(text, line)
    if len(values) != width:
        raise builder.error(line, f"{what}: a row has {len(values):,} numbers, but there are {width:,} states.")
    return values


# Writing


def serialise(document: Document) -> str:
    """A document as a BIF text; names that are not one plain word are quoted."""
    check_directed(document, "BIF")
    rule = "it has no way to write a quotation mark or a control character"
    check_names(document, "BIF", _can_quote, _can_quote, rule, ", or write XMLBIF (.xml)", title=_can_quote)
    name = _quoted(document.name) if document.name else "unknown"
    lines = [f"network {chr(34) + name + chr(34) if document.name == 'unknown' else name} {{"]
    lines += [*_properties(document, ""), "}"]
    for variable, labels in document.states.items():
        lines.append(f"variable {_quoted(variable)} {{")
        lines.append(f"  type discrete [ {len(labels)} ] {{ {', '.join(map(_quoted, labels))} }};")
        lines += [*_properties(document, variable), "}"]
    for factor in document.factors:
        lines += [*_written_table(document, factor), "}"]
    return "\n".join(lines) + "\n"


def _written_table(document: Document, factor: Factor) -> Iterator[str]:
    *parents, child = factor.scope
    if not parents:
        yield f"probability ( {_quoted(child)} ) {{"
        yield f"  table {numbers_text(factor.values.tolist(), ', ')};"
        return
    yield f"probability ( {_quoted(child)} | {', '.join(map(_quoted, parents))} ) {{"
    labels = [[_quoted(label) for label in document.states[parent]] for parent in parents]
    rows = factor.values.reshape(-1, factor.values.shape[-1]).tolist()
    for place, row in zip(np.ndindex(*factor.values.shape[:-1]), rows, strict=True):
        case = ", ".join(names[code] for names, code in zip(labels, place, strict=True))
        yield f"  ( {case} ) {numbers_text(row, ', ')};"


def _properties(document: Document, name: str) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        text = joined_property(key, value)
        if text is not None and is_plain(text) and _can_quote(text):
            bare = _BARE_PROPERTY.fullmatch(text)  # which programs read that know no quotation marks
            yield f"  property {text};" if bare else f'  property "{text}";'


def _can_quote(text: str) -> bool:
    return '"' not in text


def _quoted(text: str) -> str:
    return text if _BARE.fullmatch(text) else f'"{text}"'
