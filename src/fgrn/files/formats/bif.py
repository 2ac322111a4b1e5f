"""BIF, the interchange format of the Bayesian network repositories.

    network asia { }
    variable smoke { type discrete [ 2 ] { yes, no }; property "position = (3, 4)"; }
    probability ( lung | smoke ) { ( yes ) 0.1, 0.9; ( no ) 0.01, 0.99; }

The tokens are coarse: a list of states, a row of a table or a whole table is one token, which is split afterwards, so
that a file of millions of numbers is read in about a second. Tables of variables with parents are normally written as
rows in parentheses; in a `table` of such a variable the child varies slowest, as in the programs that write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...bayes.document import Document, WrittenTable
from ...core.exceptions import NetworkFileError
from ..container import short_repr
from .builder import RESCALE, Builder, legible
from .names import check_directed, check_representable, is_plain, joined_property, numbers_text, split_property
from .table_rows import TableRows, code_of_label
from .tokens import SLASHES, STARS

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
    NAME: /"[^"\n]*"|[^\s{}";]+(?:[ \t]+(?!type\b)[^\s{}";]+)*/
    TYPE: /type\b[^{};"]*\{[^{}"]*(?:"[^"\n]*"[^{}"]*)*\}\s*;/
    SCOPE: /\([^{}";]*(?:"[^"\n]*"[^{}";]*)*\)/
    ROW: /\([^;{}"]*(?:"[^"\n]*"[^;{}"]*)*;/
    TABLE: /table\b[^;{}]*;/
    DEFAULT: /default\b[^;{}]*;/
    PROPERTY: /property\b(?:[^;"]*(?:"[^"\n]*"[^;"]*)*;|[^;\n]*;)/
    %ignore /\s+/
"""

# Within a property, and everywhere in the second attempt to read a file, a comment begins only at the end of a word.
_APART = r'(?<![^\s{};,()\[\]|"0-9])'
_COMMENT_APART = re.compile(rf'"[^"\n]*"|{_APART}(?:{SLASHES}|{STARS})', re.S)
_COMMENT = re.compile(
    rf'"[^"\n]*"|(?P<property>(?<![^\s{{}};])property\b[^;"\n]*+(?:"[^"\n]*"[^;"\n]*+)*+;?)|{SLASHES}|{STARS}', re.S
)
_TAKES_COMMA = re.compile(r'[^\s{};,()\[\]|"0-9/]//[^\s{};,()\[\]|"]{1,200}+[ \t]*+,[ \t\r]*+$', re.M)
_TYPE = re.compile(r"(?s)type\s+([^\s\[]+)\s*\[\s*([0-9]+)\s*\]\s*\{(.*)\}\s*;")
_ITEM = re.compile(r'"([^"\n]*)"|([^\s,"]+)')
_QUOTED = re.compile(r'"[^"\n]*"')
_MEMBER = re.compile(r'((?:"[^"\n]*"|[^",|])*+)([,|]|\Z)')
_ROW = re.compile(r'\(([^()"]*)\)([^()"]*);')
_ANY_ROW = re.compile(r'(?s)\((.*)\)([^()"]*);')
_BARE = re.compile(r'(?!.*//)(?!.*/\*)[^\s,;{}()\[\]|"]+')
_BARE_PROPERTY = re.compile(r"(?!.*//)(?!.*/\*)[A-Za-z_][A-Za-z0-9_]* = [^;{}\"]+")
_STATEMENT = re.compile(r"\(|(?:type|table|default|property)\b")
_WORDS = ("network", "variable", "probability", "type", "table", "default", "property")
_EXPECTED_IN_WORDS = {
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


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in a BIF text.

    A comment may follow a word without a blank, `no// a remark`. But some programs write labels with two slashes,
    `x//y`, without quotation marks. So a file that is invalid with such comments removed is read again with `//` inside
    words kept. If a removed comment would include a comma, as in `x//y,` at the end of a line, this second reading is
    tried first: commas are optional, so the file might be valid without the comma, but mean something else.
    """
    problems = []
    for comment in (_COMMENT_APART, _COMMENT) if _TAKES_COMMA.search(text) else (_COMMENT, _COMMENT_APART):
        try:
            return _parse_with_comments(text, Builder(file, len(text), rescale), comment)
        except NetworkFileError as error:
            if "//" not in text and "/*" not in text:
                raise
            problems.append(error)
    # the reading that got further is more likely to be the intended one
    raise max(problems, key=lambda error: error.line or 0)


def _parse_with_comments(text: str, builder: Builder, comment: re.Pattern[str]) -> Document:
    """Return the network in a text, given the pattern of comments."""
    tree = _tree(_without_comments(text, builder, comment), builder)
    blocks: dict[str, list[Tree[Token]]] = {"network": [], "variable": [], "probability": []}
    for block in _trees(tree):
        blocks[str(block.data)].append(block)
    name = ""
    for block in blocks["network"]:
        for token in _tokens(block):
            if token.type == "NAME":
                # "unknown" is written by programs for a network without a name
                name = "" if token == "unknown" else token.strip('"')
            else:
                _read_property(builder, "", token)
    for block in blocks["variable"]:
        _read_variable(builder, block)
    for block in blocks["probability"]:
        _read_probability(builder, block)
    return builder.finish(name)


def _without_comments(text: str, builder: Builder, comment: re.Pattern[str]) -> str:
    """Return the text with comments replaced by blanks, keeping line numbers."""
    if "//" not in text and "/*" not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith('"'):
            return found
        if found.startswith("property"):
            return _COMMENT_APART.sub(blank, found)
        if found.startswith("/*") and (len(found) < 4 or not found.endswith("*/")):
            line = text.count("\n", 0, text.find(found)) + 1
            raise builder.error(line, "a comment begins here and has no end. Close it with */.")
        return "\n" * found.count("\n") + " "

    return comment.sub(blank, text)


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
    raise _syntax_error(text, found_error, builder)  # outside of `except`: its cause could not be pickled


def _syntax_error(text: str, error: UnexpectedInput, builder: Builder) -> Exception:
    """Return the error for a text that the grammar does not accept."""
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
    begun = text[where : where + 40].split("\n")[0].rstrip()
    missing = ")" if "SCOPE" in expected else ";"
    is_word_begun = any(word.startswith(text[where:].rstrip()) for word in _WORDS)
    if not at_end and is_word_begun:
        return builder.error(line, f"the file ends within the word {short_repr(begun)}. Is it complete?")
    if not at_end and _STATEMENT.match(text, where) and not {missing, "}"} & {*text[where:]}:
        last = text.rstrip().count("\n") + 1
        what = (
            f"the file ends within {short_repr(begun)}, which begins in line {line}, before the '{missing}' at its end"
        )
        return builder.error(last, f"{what}. Is it complete?")
    words = " or ".join(sorted(_EXPECTED_IN_WORDS.get(one, one) for one in expected)) or "something else"
    found = f"found {short_repr(begun)}" if not at_end else "the file ends"
    hint = " Is it complete?" if at_end else ""
    if _STATEMENT.match(text, where) and "RBRACE" in expected:  # the statement begins correctly, so its end is wrong
        hint = " A statement ends with ';', and has its braces and quotation marks in pairs."
    return builder.error(line, f"{found} where {words} was expected.{hint}")


def _tokens(tree: Tree[Token]) -> Iterator[Token]:
    from lark import Token

    return (child for child in tree.children if isinstance(child, Token))


def _trees(tree: Tree[Token]) -> Iterator[Tree[Token]]:
    from lark import Tree

    return (child for child in tree.children if isinstance(child, Tree))


def _line_of(token: Token) -> int:
    return token.line or 0


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text between commas and bars outside quotation marks, each with its separator."""
    place = 0
    while (match := _MEMBER.match(text, place)) is not None:
        yield match[1].strip(), match[2]
        if not match[2]:
            return
        place = match.end()


def _items(text: str, count: int | None = None) -> list[str]:
    """Return the items of a list, separated by commas or, without any comma, by blanks; quoted items are kept whole.

    If the number of items is given, the separation that yields it is used, as labels may have blanks.
    """
    if '"' not in text:
        items = [item.strip() for item in text.split(",")]
        items = items if items[-1] or len(items) == 1 else items[:-1]
        blanks = text.replace(",", " ").split()
        if len(items) == 1 and len(blanks) != 1 and count != 1:
            return blanks
        return items if count in (None, len(items)) or len(blanks) != count else blanks
    items = [item for item, _ in _members(text)]
    items = items if items[-1] else items[:-1]
    if len(items) == count and all('"' not in item or _QUOTED.fullmatch(item) for item in items):
        return [item.strip('"') for item in items]
    return [quoted or bare for quoted, bare in _ITEM.findall(text)]


def _read_property(builder: Builder, name: str, token: Token) -> None:
    text = token[len("property") : -1].strip()
    if text.startswith('"') and text.endswith('"') and text.count('"') == 2:
        text = text[1:-1]
    if text:
        builder.add_property(name, *split_property(text))


def _read_variable(builder: Builder, block: Tree[Token]) -> None:
    name_token, *tokens = _tokens(block)
    name = name_token.strip('"')
    types = [token for token in tokens if token.type == "TYPE"]
    if len(types) != 1:
        text = f"variable {short_repr(name)} has {len(types)} types. Give it one, with its states."
        raise builder.error(_line_of(name_token), text)
    line = _line_of(types[0])
    match = _TYPE.fullmatch(types[0])
    if match is None:
        text = f"variable {short_repr(name)}: a type is written type discrete [ number ] {{ states }}; here."
        raise builder.error(line, text)
    kind, count, states = match.groups()
    if kind != "discrete":
        raise builder.error(line, f"variable {short_repr(name)} is {short_repr(kind)}; only discrete ones can be read.")
    count = count.lstrip("0") or "0"
    labels = _items(states, int(count) if len(count) < 10 else None)
    if str(len(labels)) != count:
        text = f"variable {short_repr(name)} should have {count[:20]} states, but {len(labels):,} are named."
        raise builder.error(line, text)
    builder.add_variable(name, labels, line)
    for token in tokens:
        if token.type == "PROPERTY":
            _read_property(builder, name, token)


def _read_probability(builder: Builder, block: Tree[Token]) -> None:
    scope, *tokens = _tokens(block)
    line = _line_of(scope)
    names: list[str] = []
    for number, (part, sign) in enumerate(_members(scope[1:-1])):
        names += _names_in_scope(builder, part)
        if sign == "|" and (number or len(names) != 1):
            raise builder.error(line, "before the bar stands one variable, and there is one bar: ( child | parents ).")
    if not names:
        raise builder.error(line, "a table must say whose it is: probability ( child | parents ).")
    child, *parents = names
    kinds = {kind: [token for token in tokens if token.type == kind] for kind in ("TABLE", "DEFAULT", "ROW")}
    tables, defaults, rows = kinds["TABLE"], kinds["DEFAULT"], kinds["ROW"]
    if len(tables) + bool(defaults or rows) != 1 or len(defaults) > 1:
        wrong = (tables or defaults or [scope])[-1]
        found = "more than one table" if tables or defaults else "no numbers"
        raise builder.error(
            _line_of(wrong), f"variable {short_repr(child)} has {found}. Give a table, or a row for each case."
        )
    if tables:
        line = _line_of(tables[0])
        values = builder.numbers(tables[0][len("table") : -1], line)
        sizes = builder.sizes((*parents, child), line, f"the table of {short_repr(child)}")
        if parents and len(values) == builder.product(sizes):
            swapped = np.moveaxis(np.array(values).reshape(sizes[-1], *sizes[:-1]), 0, -1)
            builder.add_table(child, parents, swapped.ravel(), line)
        else:
            builder.add_table(child, parents, values, line)
    else:
        _read_rows(builder, child, parents, rows, defaults, line)


def _names_in_scope(builder: Builder, text: str) -> list[str]:
    """Return the variables in a part of a scope: one whose name may have blanks, or several separated by blanks."""
    if text in builder.states or not text:
        return [text] if text else []
    return [quoted or bare for quoted, bare in _ITEM.findall(text)]


def _read_rows(
    builder: Builder, child: str, parents: Sequence[str], rows: list[Token], defaults: list[Token], line: int
) -> None:
    """Read a table from rows, each with the states of the parents, and a default for the other rows."""
    table = TableRows(builder, child, parents, line)
    codes = [{label: code for code, label in enumerate(builder.states[name])} for name in parents]
    for token in rows:
        at = _line_of(token)
        labels, numbers = _split_row(builder, token, len(parents), table.what)
        found = [
            code_of_label(builder, table.what, name, known, label, at)
            for name, known, label in zip(parents, codes, labels, strict=True)
        ]
        table.add(found, numbers, at, f"({', '.join(map(legible, labels))})")
    if defaults:
        table.fill(defaults[0][len("default") : -1], _line_of(defaults[0]))
    table.finish()


def _split_row(builder: Builder, token: Token, count: int, what: str) -> tuple[list[str], str]:
    """Return the labels and the numbers of a row."""
    match = _ROW.fullmatch(token) or _ANY_ROW.fullmatch(token)
    if match is None:
        raise builder.error(_line_of(token), f"{what}: a row is written ( states of the parents ) numbers ; here.")
    labels = _items(match[1], count)
    if len(labels) != count:
        text = f"{what}: {short_repr(match[1].strip())} are {len(labels)} states, but there are {count} parents."
        raise builder.error(_line_of(token), text)
    return labels, match[2]


# Writing


def serialise(document: Document) -> str:
    """Return a document as a BIF text; names that are not a single plain word are quoted."""
    check_directed(document, "BIF")
    rule = "it has no way to write a quotation mark or a control character"
    check_representable(document, "BIF", _can_quote, _can_quote, rule, title=_can_quote)
    name = _quoted_if_needed(document.name) if document.name else "unknown"
    lines = [f"network {chr(34) + name + chr(34) if document.name == 'unknown' else name} {{"]
    lines += [*_write_properties(document, ""), "}"]
    for variable, labels in document.states.items():
        lines.append(f"variable {_quoted_if_needed(variable)} {{")
        lines.append(f"  type discrete [ {len(labels)} ] {{ {', '.join(map(_quoted_if_needed, labels))} }};")
        lines += [*_write_properties(document, variable), "}"]
    for factor in document.factors:
        lines += [*_write_table(document, factor), "}"]
    return "\n".join(lines) + "\n"


def _write_table(document: Document, factor: WrittenTable) -> Iterator[str]:
    *parents, child = factor.scope
    if not parents:
        yield f"probability ( {_quoted_if_needed(child)} ) {{"
        yield f"  table {numbers_text(factor.values.tolist(), ', ')};"
        return
    yield f"probability ( {_quoted_if_needed(child)} | {', '.join(map(_quoted_if_needed, parents))} ) {{"
    labels = [[_quoted_if_needed(label) for label in document.states[parent]] for parent in parents]
    rows = factor.values.reshape(-1, factor.values.shape[-1]).tolist()
    for place, row in zip(np.ndindex(*factor.values.shape[:-1]), rows, strict=True):
        case = ", ".join(names[code] for names, code in zip(labels, place, strict=True))
        yield f"  ( {case} ) {numbers_text(row, ', ')};"


def _write_properties(document: Document, name: str) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        text = joined_property(key, value)
        if text is not None and is_plain(text) and _can_quote(text):
            bare = _BARE_PROPERTY.fullmatch(text)  # for programs that do not read quotation marks
            yield f"  property {text};" if bare else f'  property "{text}";'


def _can_quote(text: str) -> bool:
    return '"' not in text


def _quoted_if_needed(text: str) -> str:
    return text if _BARE.fullmatch(text) else f'"{text}"'
