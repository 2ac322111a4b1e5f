"""XDSL, the format of GeNIe: chance nodes (cpt), functions of their parents (deterministic), noisy-MAX, decisions.

In tables the first parent varies slowest and the child fastest. What GeNIe stores to draw a node, its name and its
position, is read as the properties "label" and "position"; other properties are user properties of the node.

Names and labels must be identifiers. Others are written as similar identifiers, with the originals in the user
properties fgrn_name and fgrn_states, so that they are restored when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ...bayes.document import Document
from ...core.exceptions import FgrnWarning, warn
from ..container import short_repr
from .builder import RESCALE, Builder
from .identifiers import identifiers, is_identifier, note_of, read_note
from .markup import Element, parse_xml, text_element
from .names import check_directed, check_title, is_plain, numbers_text

_POSITION = re.compile(r"-?[0-9]+(?: -?[0-9]+){3}")
_DRAWING = {"name": "label", "position": "position"}
_NAME, _STATES = "fgrn_name", "fgrn_states"
_NODE_TAGS = ("cpt", "deterministic", "noisymax", "decision")
_UTILITY_TAGS = ("utility", "mau")


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in an XDSL text."""
    builder = Builder(file, len(text), rescale)
    root = parse_xml(text, builder, "smile")
    nodes = root.first("nodes")
    if nodes is None:
        raise builder.error(root.line, "there is no <nodes>. Is the file complete?")
    if (dynamic := root.first("dynamic")) is not None:
        raise builder.error(dynamic.line, "this is a dynamic network, which fgrn does not read. Unroll it in GeNIe.")
    names: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    for node in nodes.children:
        name = _id_of(builder, node)
        if node.tag in _UTILITY_TAGS:
            _read_properties(builder, name, node, names, labels)
            continue
        if node.tag not in _NODE_TAGS:
            known = "only cpt, deterministic, noisymax, decision, utility and mau nodes are read"
            raise builder.error(node.line, f"node {short_repr(name)} is a <{node.tag[:40]}>; {known}.")
        builder.add_variable(name, [_id_of(builder, state) for state in node.all("state")], node.line)
        _read_properties(builder, name, node, names, labels)
    weights = _utility_weights(builder, nodes)
    for node in nodes.children:
        if node.tag == "utility":
            _read_utility(builder, node, weights[node.attributes["id"]])
        elif node.tag == "decision":
            builder.add_decision(node.attributes["id"], _parents_of(node), node.line)
        elif node.tag != "mau":
            _read_table(builder, node)
    for properties in root.all("properties"):
        _read_properties(builder, "", properties, {}, {})
    title = root.attributes.get("id", "")
    for extension in root.all("extensions"):
        for genie in extension.all("genie"):
            _read_drawing(builder, genie, names)
            title = genie.attributes.get("name", title)
    builder.use_names(names, labels)
    return builder.finish(title)


def _id_of(builder: Builder, element: Element) -> str:
    if "id" not in element.attributes:
        raise builder.error(element.line, f"this <{element.tag[:40]}> has no id. Give it one.")
    return element.attributes["id"]


def _read_properties(
    builder: Builder, name: str, element: Element, names: dict[str, str], labels: dict[str, dict[str, str]]
) -> None:
    """Read the user properties of a node; two of them store the names that its identifiers replace."""
    for one in element.all("property"):
        key = _id_of(builder, one)
        meant = read_note(one.text) if name and key in (_NAME, _STATES) else None
        if meant is None:
            builder.add_property(name, key, one.text)
        elif key == _STATES:
            labels[name] = meant
        elif meant.get(name, "").strip():
            names[name] = meant[name]


def _read_drawing(builder: Builder, element: Element, names: dict[str, str]) -> None:
    """Read the properties by which GeNIe draws the nodes, including those in submodels."""
    waiting = [element]
    order: dict[str, None] = {}
    while waiting:
        one = waiting.pop()
        waiting += one.all("submodel")
        for node in one.all("node"):
            name = node.attributes.get("id", "")
            order[name] = None
            for tag, key in _DRAWING.items():
                found = node.first(tag)
                if found is not None and name in builder.states and found.text not in ("", name, names.get(name)):
                    builder.add_property(name, key, " ".join(found.text.split()) if tag == "position" else found.text)
    drawn = [name for name in order if name in builder.states]
    if len(drawn) == len(builder.states):  # the original order: <nodes> lists parents first
        builder.states = {name: builder.states[name] for name in drawn}


def _parents_of(node: Element) -> list[str]:
    found = node.first("parents")
    return found.text.split() if found else []


def _utility_weights(builder: Builder, nodes: Element) -> dict[str, float]:
    """Return the weight of each utility in the total: products of the weights of additive nodes (mau) below it."""
    above = {node.attributes["id"]: node for node in nodes.children if node.tag in _UTILITY_TAGS}
    shares: dict[str, dict[str, float]] = {name: {} for name in above}  # by the mau that adds it
    for name, node in above.items():
        if node.tag != "mau":
            continue
        given, parents = node.first("weights"), _parents_of(node)
        if given is None or any(parent not in above for parent in parents):
            text = f"node {short_repr(name)} is not a weighted sum of utilities, and fgrn reads only such."
            raise builder.error(node.line, f"{text} Give it weights in GeNIe.")
        numbers = builder.numbers("".join(given.pieces), given.line)
        if len(numbers) != len(parents):
            raise builder.error(given.line, f"node {short_repr(name)} has {len(numbers)} weights for {len(parents)}.")
        for parent, number in zip(parents, numbers, strict=True):
            shares[parent][name] = shares[parent].get(name, 0.0) + number
    found: dict[str, float] = {}
    left = dict(shares)
    while left:
        ready = [name for name, some in left.items() if all(one in found for one in some)]
        if not ready:
            raise builder.error(nodes.line, "the utilities have a cycle. Remove one of its arrows.")
        for name in ready:
            some = left.pop(name)
            found[name] = sum(weight * found[one] for one, weight in some.items()) if some else 1.0
    return found


def _read_utility(builder: Builder, node: Element, weight: float) -> None:
    name, given = node.attributes["id"], node.first("utilities")
    if given is None:
        raise builder.error(node.line, f"node {short_repr(name)} has no <utilities>. Is the file complete?")
    numbers = builder.numbers("".join(given.pieces), given.line)
    builder.add_utility(name, _parents_of(node), [weight * number for number in numbers], given.line)


def _read_table(builder: Builder, node: Element) -> None:
    name = node.attributes["id"]
    parents = _parents_of(node)
    what = f"the table of {short_repr(name)}"
    tag = {"cpt": "probabilities", "deterministic": "resultingstates", "noisymax": "parameters"}[node.tag]
    given = node.first(tag)
    if given is None:
        raise builder.error(node.line, f"node {short_repr(name)} has no <{tag}>. Is the file complete?")
    text = "".join(given.pieces)
    if node.tag == "cpt":
        builder.add_table(name, parents, builder.numbers(text, given.line), given.line)
    elif node.tag == "deterministic":
        found = [(state, given.line) for state in text.split()]
        values = builder.function(name, parents, found, given.line)
        builder.add_table(name, parents, values, given.line)
        states = values.reshape(-1, len(builder.states[name])).argmax(axis=1).tolist()
        builder.add_compact(name, {"kind": "deterministic", "states": states})
    else:
        sizes = builder.sizes((*parents, name), node.line, what)
        strengths = node.first("strengths")
        words = strengths.text.split() if strengths else []
        orders = _orders(builder, words, sizes[:-1], node.line, name)
        columns = builder.numbers(text, given.line)
        values = _noisy_max(builder, orders, columns, sizes, given.line, what)
        builder.add_table(name, parents, values, given.line)
        record = _effects_record(name, parents, orders, np.array(columns).reshape(-1, sizes[-1]))
        if record is not None:
            builder.add_compact(name, record)


def _orders(builder: Builder, words: list[str], sizes: list[int], line: int, name: str) -> list[list[int]]:
    """Return the column of each state of each parent in the parameters of a noisy-MAX node.

    Only orders that are their own inverse are read: for others it is not known whether a number means a state or a
    column.
    """
    given = [int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else -1 for word in words]
    if len(given) != sum(sizes):
        raise builder.error(
            line, f"node {short_repr(name)} has {len(given)} strengths for {sum(sizes)} states of parents."
        )
    orders, at = [], 0
    for size in sizes:
        order = given[at : at + size]
        at += size
        if sorted(order) != list(range(size)) or any(order[order[state]] != state for state in range(size)):
            text = f"node {short_repr(name)} is a noisy-MAX whose strengths, {order[:8]}, are not read by fgrn."
            raise builder.error(line, f"{text} Change its type to General in GeNIe.")
        orders.append(order)
    return orders


def _effects_record(
    name: str, parents: list[str], orders: list[list[int]], columns: np.ndarray
) -> dict[str, object] | None:
    """Return the parameters of a noisy-MAX node; None if a parent has an effect even in its weakest state."""
    none = np.eye(columns.shape[1])[-1]
    effects: dict[str, object] = {}
    off: dict[str, object] = {name: columns.shape[1] - 1}
    at = 0
    for parent, order in zip(parents, orders, strict=True):
        rows = columns[at : at + len(order)]
        if not np.array_equal(rows[-1], none):
            return None
        off[parent] = order.index(len(order) - 1)
        effects[parent] = rows[order].tolist()
        at += len(order)
    return {"kind": "noisy_max", "effects": effects, "leak": columns[-1].tolist(), "off": off}


def _noisy_max(
    builder: Builder, orders: list[list[int]], columns: list[float], sizes: list[int], line: int, what: str
) -> np.ndarray:
    """Return the table of the maximum of independent effects: a column for each parent state, and one for the leak.

    States are ordered from the strongest effect to none, so the maximum is the first state of any effect:
    P(state >= k) is the product of P(effect >= k) over all effects.
    """
    *sizes, width = sizes
    expected = (sum(sizes) + 1) * width
    if len(columns) != expected:
        raise builder.error(line, f"{what} has {len(columns):,} parameters instead of {expected:,}.")
    builder.expand(builder.product([*sizes, width]), line, what)
    # P(effect >= k) for each column
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
    """Return a document as an XDSL text."""
    check_directed(document, "XDSL")
    check_title(document, "XDSL")
    ids = identifiers([*document.states, *document.utilities])
    name = quoteattr(document.name)
    identifier = document.name if is_identifier(document.name) else "Network"
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<smile version="1.0" id="{identifier}" numsamples="10000">']
    own = list(_write_properties(document, "", "", 2))
    lines += ["  <properties>", *own, "  </properties>"] if own else []
    lines.append("  <nodes>")
    for (*parents, child), values in _parents_first(document):
        states = identifiers(document.states[child])
        tag, numbers = _definition(document, child, parents, values, list(states.values()))
        lines.append(f'    <{tag} id="{ids[child]}">')
        lines += [f'      <state id="{states[label]}" />' for label in document.states[child]]
        lines += [text_element("parents", " ".join(ids[parent] for parent in parents), 3)] if parents else []
        for key, meant in ((_NAME, {child: ids[child]}), (_STATES, states)):
            if text := note_of(meant):
                lines.append(_property_element(key, text, 3))
        lines += [*_write_properties(document, child, ids[child], 3)]
        lines += [*(text_element(key, text, 3) for key, text in numbers.items()), f"    </{tag}>"]
    for child, one in document.utilities.items():
        lines.append(f'    <utility id="{ids[child]}">')
        lines += [text_element("parents", " ".join(ids[parent] for parent in one.scope), 3)] if one.scope else []
        if text := note_of({child: ids[child]}):
            lines.append(_property_element(_NAME, text, 3))
        lines += [*_write_properties(document, child, ids[child], 3)]
        lines += [text_element("utilities", numbers_text(one.values.ravel().tolist()), 3), "    </utility>"]
    lines += ["  </nodes>", "  <extensions>", f'    <genie version="1.0" app="fgrn" name={name}>']
    for variable in (*document.states, *document.utilities):
        known = document.properties.get(variable, {})
        lines.append(f'      <node id="{ids[variable]}">')
        for tag, key in _DRAWING.items():
            if _is_drawing_property(variable, ids[variable], key, known.get(key, "")):
                lines.append(text_element(tag, known[key], 4))
            elif tag == "name":  # every node has a name
                can = is_plain(variable) and variable == variable.strip()
                lines.append(text_element(tag, variable if can else ids[variable], 4))
        lines.append("      </node>")
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>", ""])


def _definition(
    document: Document, child: str, parents: list[str], values: np.ndarray | None, states: list[str]
) -> tuple[str, dict[str, str]]:
    """Return the tag of a node, and its numbers as texts by the name of their element."""
    record = document.compact.get(child, {})
    if values is None:
        return "decision", {}
    if record.get("kind") == "deterministic":
        return "deterministic", {"resultingstates": " ".join(states[code] for code in record["states"])}
    off = record.get("off", {})
    if record.get("kind") == "noisy_max" and off[child] == len(states) - 1:
        strengths, columns = [], []
        for parent in parents:
            order = list(range(len(document.states[parent])))
            order[off[parent]], order[-1] = order[-1], order[off[parent]]  # its own inverse
            strengths += order
            columns += [record["effects"][parent][state] for state in order]
        numbers = np.array([*columns, record["leak"]]).ravel().tolist()
        return "noisymax", {"strengths": " ".join(map(str, strengths)), "parameters": numbers_text(numbers)}
    if record.get("kind") == "noisy_max":
        warn(
            f"In XDSL the state of a noisy-max node without an effect is its last; that of {child!r} is not, so its "
            "whole table is written, without the parameters.",
            FgrnWarning,
            column=child,
            remedies=("order its states so that it is the last", "keep the parameters in a model file: model.save"),
        )
    return "cpt", {"probabilities": numbers_text(values.ravel().tolist())}


def _parents_first(document: Document) -> Iterator[tuple[tuple[str, ...], np.ndarray | None]]:
    """Yield scope and table, parents before their children, as GeNIe requires; a decision has no table."""
    tables: dict[str, tuple[tuple[str, ...], np.ndarray | None]] = {
        factor.scope[-1]: (factor.scope, factor.values) for factor in document.factors
    }
    tables |= {name: ((*seen, name), None) for name, seen in document.decisions.items()}
    done: set[str] = set()
    for name in document.states:
        path = [name]
        while path:
            waiting = [parent for parent in tables[path[-1]][0][:-1] if parent not in done]
            if waiting:
                path.append(waiting[0])
                continue
            last = path.pop()
            if last not in done:
                done.add(last)
                yield tables[last]


def _is_drawing_property(variable: str, identifier: str, key: str, value: str) -> bool:
    """Return whether a property is one by which GeNIe draws; a label equal to the name would be read as none."""
    if key == "position":
        return bool(_POSITION.fullmatch(value))
    plain = value == value.strip() and is_plain(value)
    return key in _DRAWING.values() and value not in ("", variable, identifier) and plain


def _write_properties(document: Document, name: str, identifier: str, indent: int) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        drawn = bool(name) and _is_drawing_property(name, identifier, key, value)
        can = is_identifier(key) and key not in (_NAME, _STATES) and is_plain(value) and value == value.strip()
        if can and not drawn:
            yield _property_element(key, value, indent)


def _property_element(key: str, value: str, indent: int) -> str:
    return f'{"  " * indent}<property id="{key}">{escape(value)}</property>'
