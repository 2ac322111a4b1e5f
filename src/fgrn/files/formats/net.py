r"""Hugin NET: blocks of attributes for the network, for each node, and for each potential.

    net { node_size = (80 40); }
    node smoke { states = ("yes" "no"); label = "Smokes?"; position = (25 275); }
    potential ( lung | smoke ) { data = ((0.1 0.9)(0.01 0.99)); }   % the child fastest
    decision treat { states = ("yes" "no"); }
    potential ( treat | xray ) { }                                  % what is known at the decision
    utility life { }
    potential ( life | lung treat ) { data = ((5 1)(9 10)); }

Attributes that fgrn does not use are kept as properties: a quoted text without its quotation marks, others as written.
In a quoted text \" is a quotation mark and \\ a backslash. A potential without data is uniform, as in Hugin.

In an OOBN file all this is inside `class name { ... }`, with the attributes of the network. A class without instances
of other classes is read like any network; classes are not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ...bayes.document import Document
from ...core.exceptions import NetworkFileError
from ..container import short_repr
from .builder import RESCALE, Builder
from .names import check_directed, check_representable, is_plain, numbers_text
from .tokens import PERCENT, SLASHES, Span, Token, Tokens

_COMMENTS = (PERCENT, rf"(?<!:){SLASHES}")
_NET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIST = re.compile(r'\((?:[\s0-9.eE+()-]|"(?:[^"\\]|\\.)*")*\)', re.S)
_OTHER_KINDS = {
    "continuous": "a continuous variable",
    "function": "a function",
    "class": "a second class",
    "instance": "an instance of another class",
    "temporal": "a temporal clone",
}
_SEVERAL = "more follows the class, and fgrn reads one class without instances. Let Hugin save it as .net."
_RESERVED = frozenset({"net", "node", "discrete", "potential", "decision", "utility", *_OTHER_KINDS} - {"instance"})


def _read_attributes(tokens: Tokens) -> dict[str, Span]:
    """Return the attributes in a block in braces, each up to its semicolon."""
    tokens.take("{")
    found: dict[str, Span] = {}
    while tokens.next.text != "}":
        _read_attribute(tokens, tokens.take("word").text, found)
    tokens.take("}")
    return found


def _read_attribute(tokens: Tokens, name: str, found: dict[str, Span]) -> None:
    found[name] = tokens.statement(tokens.take("=").place + 1)
    tokens.take(";")


def _property_text(tokens: Tokens, attribute: Span) -> str:
    """Return an attribute as the text of a property."""
    parts = list(tokens.tokens(attribute))
    if len(parts) == 1 and parts[0].kind == "text":
        return parts[0].name
    return tokens.text[attribute.begin : attribute.end].strip()


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in a NET text, or in an OOBN text of one class without instances of other classes."""
    builder = Builder(file, len(text), rescale)
    found = _Blocks(Tokens(text, builder, "{}()=;|", *_COMMENTS))
    for key, attribute in found.own.items():
        if key != "name":
            builder.add_property("", key, _property_text(found.tokens, attribute))
    for token, attributes in found.nodes:
        _read_node(builder, found.tokens, token, attributes)
    utilities = {token.name: attributes for token, attributes in found.utilities}
    known: dict[str, list[str]] = {}
    for scope, attributes in found.potentials:
        child, *parents = (token.name for token in scope)
        if child in found.decisions:
            known[child] = parents
        elif child in utilities:
            _read_utility(builder, found.tokens, scope, attributes)
            for key, attribute in utilities.pop(child).items():
                builder.add_property(child, key, _property_text(found.tokens, attribute))
        else:
            _read_potential(builder, found.tokens, scope, attributes)
    for name, line in found.decisions.items():
        builder.add_decision(name, known.get(name, ()), line)
    for name in utilities:
        raise builder.error(None, f"the utility {short_repr(name)} has no potential. Is the file complete?")
    return builder.finish(_property_text(found.tokens, found.own["name"]) if "name" in found.own else found.name)


class _Blocks:
    """The blocks of a file in order, collected before they are read because they may refer to later ones."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.name = ""
        self.own: dict[str, Span] = {}
        self.nodes: list[tuple[Token, dict[str, Span]]] = []
        self.potentials: list[tuple[list[Token], dict[str, Span]]] = []
        self.utilities: list[tuple[Token, dict[str, Span]]] = []
        self.decisions: dict[str, int] = {}  # and their lines
        if tokens.next.text != "class":
            while tokens.next.kind != "end":
                self._block(tokens.take("word"))
            return
        tokens.take("class")
        self.name = tokens.take("word", "text").name
        tokens.take("{")
        while tokens.next.text != "}":
            word = tokens.take("word")
            if tokens.next.text == "=":
                _read_attribute(tokens, word.text, self.own)
            else:
                self._block(word)
        tokens.take("}")
        if tokens.next.kind != "end":
            raise tokens.builder.error(tokens.line(tokens.next.place), _SEVERAL)

    def _block(self, word: Token) -> None:
        tokens = self.tokens
        line = tokens.line(word.place)
        if word.text == "net":
            self.own |= _read_attributes(tokens)
        elif word.text == "potential":
            self.potentials.append((_read_scope(tokens), _read_attributes(tokens)))
        elif word.text == "utility":
            self.utilities.append((tokens.take("word", "text"), _read_attributes(tokens)))
        elif word.text in ("node", "discrete", "decision"):
            if word.text == "discrete":
                tokens.take("node")
            elif word.text == "decision":
                self.decisions[tokens.next.name] = line
            self.nodes.append((tokens.take("word", "text"), _read_attributes(tokens)))
        elif word.text in _OTHER_KINDS:
            what = _OTHER_KINDS[word.text]
            raise tokens.builder.error(
                line, f"here is {what}; only discrete nodes, decisions, utilities and their potentials are read."
            )
        else:
            raise tokens.builder.error(
                line, f"found {short_repr(word.text)} where net, node or potential was expected."
            )


def _read_scope(tokens: Tokens) -> list[Token]:
    """Return the variables of a potential: the child, then its parents."""
    opening = tokens.take("(")
    found: list[Token] = []
    bar = False
    while tokens.next.text != ")":
        token = tokens.take("word", "text", "|")
        if token.text != "|":
            found.append(token)
        elif bar or len(found) != 1:
            break
        else:
            bar = True
    if len(found) != 1 and not bar:
        raise tokens.builder.error(
            tokens.line(opening.place), "a potential is of one variable: potential ( child | parents )."
        )
    tokens.take(")")
    return found


def _read_node(builder: Builder, tokens: Tokens, token: Token, attributes: dict[str, Span]) -> None:
    line = tokens.line(token.place)
    states = attributes.pop("states", None)
    if states is None:
        raise builder.error(line, f'node {short_repr(token.name)} has no states. It needs states = ("..." "...");')
    builder.add_variable(token.name, [one.name for one in tokens.tokens(states) if one.kind != "sign"], line)
    for key, attribute in attributes.items():
        builder.add_property(token.name, key, _property_text(tokens, attribute))


def _read_potential(builder: Builder, tokens: Tokens, scope: list[Token], attributes: dict[str, Span]) -> None:
    line = tokens.line(scope[0].place)
    child, *parents = (token.name for token in scope)
    what = f"the table of {short_repr(child)}"
    data = attributes.get("data")
    if data is None:
        if any(key.startswith("model") for key in attributes):
            raise builder.error(line, f"{what} is given by a model without data. Let Hugin write its table.")
        sizes = builder.sizes((*parents, child), line, what)
        total = builder.product(sizes)
        builder.expand(total, line, what)
        builder.add_table(child, parents, np.full(total, 1 / sizes[-1]), line)
        return
    numbers, first = tokens.numbers(data)
    builder.add_table(child, parents, numbers, first)


def _read_utility(builder: Builder, tokens: Tokens, scope: list[Token], attributes: dict[str, Span]) -> None:
    child, *parents = (token.name for token in scope)
    data = attributes.get("data")
    if data is None:
        line = tokens.line(scope[0].place)
        raise builder.error(line, f"the utility {short_repr(child)} has no data. Let Hugin write its table.")
    numbers, first = tokens.numbers(data)
    builder.add_utility(child, parents, numbers, first)


# Writing


def serialise(document: Document) -> str:
    """Return a document as a NET text."""
    check_directed(document, "Hugin NET")
    rule = "names are letters, digits and underscores, do not begin with a digit and are not words of the format"
    check_representable(document, "Hugin NET", _is_name, lambda _: True, rule)
    lines = ["net", "{"]
    lines += [f"  name = {_quoted_text(document.name)};"] if document.name else []
    lines += [*_write_properties(document, "", "name"), "}"]
    for name, labels in document.states.items():
        kind = "decision" if name in document.decisions else "node"
        lines += ["", f"{kind} {name}", "{", f"  states = ({' '.join(map(_quoted_text, labels))});"]
        lines += [*_write_properties(document, name, "states"), "}"]
    for name in document.utilities:
        if not _is_name(name):
            raise NetworkFileError(f"Hugin NET cannot carry the name {short_repr(name)}: {rule}. Rename it.")
        lines += ["", f"utility {name}", "{", *_write_properties(document, name, ""), "}"]
    for name, seen in document.decisions.items():
        lines += ["", f"potential ( {name} | {' '.join(seen)} )" if seen else f"potential ( {name} )", "{", "}"]
    for name, one in document.utilities.items():
        scope = f"{name} | {' '.join(one.scope)}" if one.scope else name
        lines += ["", f"potential ( {scope} )", "{", f"  data = {_nested(one.values[..., None])};", "}"]
    for factor in document.factors:
        *parents, child = factor.scope
        scope = f"{child} | {' '.join(parents)}" if parents else child
        lines += ["", f"potential ( {scope} )", "{", f"  data = {_nested(factor.values)};", "}"]
    return "\n".join(lines) + "\n"


def _nested(values: np.ndarray) -> str:
    """Return a table with parentheses around each row, and around the rows of each state of each parent."""
    rows = [f"({numbers_text(row)})" for row in values.reshape(-1, values.shape[-1]).tolist()]
    glue = "\n          "
    for size in values.shape[-2::-1]:
        rows = ["(" + glue.join(rows[at : at + size]) + ")" for at in range(0, len(rows), size)]
    return rows[0]


def _is_name(name: str) -> bool:
    return bool(_NET_NAME.fullmatch(name)) and name not in _RESERVED


def _quoted_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write_properties(document: Document, name: str, taken: str) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        if key != taken and _NET_NAME.fullmatch(key) and is_plain(value):
            bare = _NUMBER.fullmatch(value) or _LIST.fullmatch(value)
            yield f"  {key} = {value if bare else _quoted_text(value)};"
