"""XDSL, the format of GeNIe: chance nodes (cpt), functions of their parents (deterministic) and noisy-MAX nodes.

Tables have the first parent slowest and the child fastest. What GeNIe keeps to draw a node, its name and its place, is
read as the properties "label" and "position"; other properties are user properties of the node.

Names and labels are identifiers there. What is none is written as one like it, with a note of what is meant in the user
properties fgrn_name and fgrn_states, so that it comes back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ...bayes.document import Document, WrittenTable
from ..container import shown
from .builder import RESCALE, Builder
from .identifiers import identifiers, is_identifier, note, noted
from .markup import Element, parsed, written
from .names import check_directed, check_title, is_plain, numbers_text

_POSITION = re.compile(r"-?[0-9]+(?: -?[0-9]+){3}")
_DRAWN = {"name": "label", "position": "position"}
_NAME, _STATES = "fgrn_name", "fgrn_states"
_TABLES = ("cpt", "deterministic", "noisymax")


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """The network in an XDSL text."""
    builder = Builder(file, len(text), rescale)
    root = parsed(text, builder, "smile")
    nodes = root.first("nodes")
    if nodes is None:
        raise builder.error(root.line, "there is no <nodes>. Is the file complete?")
    if (dynamic := root.first("dynamic")) is not None:
        raise builder.error(dynamic.line, "this is a dynamic network, which fgrn does not read. Unroll it in GeNIe.")
    names: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    for node in nodes.children:
        name = _id(builder, node)
        if node.tag not in _TABLES:
            known = "only cpt, deterministic and noisymax nodes are read"
            raise builder.error(node.line, f"node {shown(name)} is a <{node.tag[:40]}>; {known}.")
        builder.add_variable(name, [_id(builder, state) for state in node.all("state")], node.line)
        _properties(builder, name, node, names, labels)
    for node in nodes.children:
        _table(builder, node)
    for properties in root.all("properties"):
        _properties(builder, "", properties, {}, {})
    title = root.attributes.get("id", "")
    for extension in root.all("extensions"):
        for genie in extension.all("genie"):
            _drawn(builder, genie, names)
            title = genie.attributes.get("name", title)
    builder.use_names(names, labels)
    return builder.finish(title)


def _id(builder: Builder, element: Element) -> str:
    if "id" not in element.attributes:
        raise builder.error(element.line, f"this <{element.tag[:40]}> has no id. Give it one.")
    return element.attributes["id"]


def _properties(
    builder: Builder, name: str, element: Element, names: dict[str, str], labels: dict[str, dict[str, str]]
) -> None:
    """The user properties of a node; two of them note what its name, and those of its states, stand for."""
    for one in element.all("property"):
        key = _id(builder, one)
        meant = noted(one.text) if name and key in (_NAME, _STATES) else None
        if meant is None:
            builder.add_property(name, key, one.text)
        elif key == _STATES:
            labels[name] = meant
        elif meant.get(name, "").strip():
            names[name] = meant[name]


def _drawn(builder: Builder, element: Element, names: dict[str, str]) -> None:
    """What GeNIe needs to draw the nodes, those in submodels among them."""
    waiting = [element]
    order: dict[str, None] = {}
    while waiting:
        one = waiting.pop()
        waiting += one.all("submodel")
        for node in one.all("node"):
            name = node.attributes.get("id", "")
            order[name] = None
            for tag, key in _DRAWN.items():
                found = node.first(tag)
                if found is not None and name in builder.states and found.text not in ("", name, names.get(name)):
                    builder.add_property(name, key, " ".join(found.text.split()) if tag == "position" else found.text)
    if order.keys() == builder.states.keys():  # nodes have their parents before them, and this is how they were given
        builder.states = {name: builder.states[name] for name in order}


def _table(builder: Builder, node: Element) -> None:
    name = node.attributes["id"]
    parents_element = node.first("parents")
    parents = parents_element.text.split() if parents_element else []
    what = f"the table of {shown(name)}"
    tag = {"cpt": "probabilities", "deterministic": "resultingstates", "noisymax": "parameters"}[node.tag]
    given = node.first(tag)
    if given is None:
        raise builder.error(node.line, f"node {shown(name)} has no <{tag}>. Is the file complete?")
    text = "".join(given.pieces)
    if node.tag == "cpt":
        builder.add_table(name, parents, builder.numbers(text, given.line), given.line)
    elif node.tag == "deterministic":
        builder.add_table(name, parents, _function(builder, name, parents, text.split(), given.line), given.line)
    else:
        sizes = builder.sizes((*parents, name), node.line, what)
        strengths = node.first("strengths")
        words = strengths.text.split() if strengths else []
        orders = _orders(builder, words, sizes[:-1], node.line, name)
        columns = builder.numbers(text, given.line)
        values = _noisy_max(builder, orders, columns, sizes, given.line, what)
        builder.add_table(name, parents, values, given.line)


def _function(builder: Builder, name: str, parents: list[str], states: list[str], line: int) -> np.ndarray:
    """The table of a node that is a function of its parents: one of its states for each case."""
    what = f"the table of {shown(name)}"
    codes = {label: code for code, label in enumerate(builder.states[name])}
    for state in states:
        if state not in codes:
            known = ", ".join(map(shown, builder.states[name][:8]))
            raise builder.error(line, f"{what}: {shown(state)} is no state of it (known: {known}).")
    return builder.function(name, parents, [codes[state] for state in states], line)


def _orders(builder: Builder, words: list[str], sizes: list[int], line: int, name: str) -> list[list[int]]:
    """In which column the states of each parent are.

    Of an order that is not its own inverse it is not known whether a number is that of a state or that of a column.
    """
    given = [int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else -1 for word in words]
    if len(given) != sum(sizes):
        raise builder.error(line, f"node {shown(name)} has {len(given)} strengths for {sum(sizes)} states of parents.")
    orders, at = [], 0
    for size in sizes:
        order = given[at : at + size]
        at += size
        if sorted(order) != list(range(size)) or any(order[order[state]] != state for state in range(size)):
            text = f"node {shown(name)} is a noisy-MAX whose strengths, {order[:8]}, are not read by fgrn."
            raise builder.error(line, f"{text} Change its type to General in GeNIe.")
        orders.append(order)
    return orders


def _noisy_max(
    builder: Builder, orders: list[list[int]], columns: list[float], sizes: list[int], line: int, what: str
) -> np.ndarray:
    """The table of the largest of independent effects: one column for each state of each parent, and one for the leak.

    States go from the strongest effect to none, so the largest is the first: that the state is k or later takes that
    all effects are.
    """
    *sizes, width = sizes
    expected = (sum(sizes) + 1) * width
    if len(columns) != expected:
        raise builder.error(line, f"{what} has {len(columns):,} parameters instead of {expected:,}.")
    builder.expand(builder.product([*sizes, width]), line, what)
    # the sum of all states from k on, for each column
    beyond = np.array(columns).reshape(-1, width)[:, ::-1].cumsum(axis=1)[:, ::-1]
    joint = beyond[-1]
    at = 0
    for order in orders:
        joint = (joint[..., None, :] * beyond[at : at + len(order)][order]).reshape(-1, width)
        at += len(order)
    joint = joint.reshape(prod(sizes), width)
    values: np.ndarray = np.maximum(joint - np.pad(joint[:, 1:], ((0, 0), (0, 1))), 0.0)
    return values.ravel()


# Writing


def serialise(document: Document) -> str:
    """A document as an XDSL text."""
    check_directed(document, "XDSL")
    check_title(document, "XDSL")
    ids = identifiers(document.states)
    name = quoteattr(document.name)
    identifier = document.name if is_identifier(document.name) else "Network"
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<smile version="1.0" id="{identifier}" numsamples="10000">']
    own = list(_written_properties(document, "", "", 2))
    lines += ["  <properties>", *own, "  </properties>"] if own else []
    lines.append("  <nodes>")
    for factor in _parents_first(document):
        *parents, child = factor.scope
        states = identifiers(document.states[child])
        lines.append(f'    <cpt id="{ids[child]}">')
        lines += [f'      <state id="{states[label]}" />' for label in document.states[child]]
        lines += [written("parents", " ".join(ids[parent] for parent in parents), 3)] if parents else []
        for key, meant in ((_NAME, {child: ids[child]}), (_STATES, states)):
            if text := note(meant):
                lines.append(_property(key, text, 3))
        lines += [*_written_properties(document, child, ids[child], 3)]
        lines += [written("probabilities", numbers_text(factor.values.ravel().tolist()), 3), "    </cpt>"]
    lines += ["  </nodes>", "  <extensions>", f'    <genie version="1.0" app="fgrn" name={name}>']
    for variable in document.states:
        known = document.properties.get(variable, {})
        lines.append(f'      <node id="{ids[variable]}">')
        for tag, key in _DRAWN.items():
            if _is_drawn(variable, ids[variable], key, known.get(key, "")):
                lines.append(written(tag, known[key], 4))
            elif tag == "name":  # which every node has
                can = is_plain(variable) and variable == variable.strip()
                lines.append(written(tag, variable if can else ids[variable], 4))
        lines.append("      </node>")
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>", ""])


def _parents_first(document: Document) -> Iterator[WrittenTable]:
    """The tables in an order in which parents come before their children, as GeNIe wants its nodes."""
    factors = {factor.scope[-1]: factor for factor in document.factors}
    done: set[str] = set()
    for name in document.states:
        path = [name]
        while path:
            waiting = [parent for parent in factors[path[-1]].scope[:-1] if parent not in done]
            if waiting:
                path.append(waiting[0])
                continue
            last = path.pop()
            if last not in done:
                done.add(last)
                yield factors[last]


def _is_drawn(variable: str, identifier: str, key: str, value: str) -> bool:
    """Whether a property is one that GeNIe draws; a label that is the name itself would be taken for none."""
    if key == "position":
        return bool(_POSITION.fullmatch(value))
    plain = value == value.strip() and is_plain(value)
    return key in _DRAWN.values() and value not in ("", variable, identifier) and plain


def _written_properties(document: Document, name: str, identifier: str, indent: int) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        drawn = bool(name) and _is_drawn(name, identifier, key, value)
        can = is_identifier(key) and key not in (_NAME, _STATES) and is_plain(value) and value == value.strip()
        if can and not drawn:
            yield _property(key, value, indent)


def _property(key: str, value: str, indent: int) -> str:
    return f'{"  " * indent}<property id="{key}">{escape(value)}</property>'
