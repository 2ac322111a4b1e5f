"""XMLBIF 0.3: variables, then definitions with FOR, GIVEN and TABLE, in which the child varies fastest.

A property is one text, "key = value". Blanks around a name or a label do not belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...bayes.document import Document
from .builder import RESCALE, Builder
from .markup import Element, parse_xml, text_element
from .names import check_directed, check_representable, is_plain, joined_property, numbers_text, split_property


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in an XMLBIF text."""
    builder = Builder(file, len(text), rescale)
    root = parse_xml(text, builder, "BIF", upper=True)
    network = root.first("NETWORK")
    if network is None:
        raise builder.error(root.line, "there is no <NETWORK>. Is the file complete?")
    for variable in network.all("VARIABLE"):
        kind = next((value for key, value in variable.attributes.items() if key.upper() == "TYPE"), "nature")
        name = _only_child(builder, variable, "NAME").text
        if kind.lower() != "nature":
            raise builder.error(
                variable.line, f"variable {name[:60]!r} is of the type {kind[:20]!r}; only nature is read."
            )
        builder.add_variable(name, [state.text for state in variable.all("OUTCOME", "VALUE")], variable.line)
        _read_properties(builder, name, variable)
    for definition in network.all("DEFINITION", "PROBABILITY"):
        child = _only_child(builder, definition, "FOR").text
        parents = [given.text for given in definition.all("GIVEN")]
        table = _only_child(builder, definition, "TABLE")
        builder.add_table(child, parents, builder.numbers("".join(table.pieces), table.line), table.line)
    _read_properties(builder, "", network)
    name_element = network.first("NAME")
    return builder.finish(name_element.text if name_element else "")


def _only_child(builder: Builder, element: Element, tag: str) -> Element:
    """Return the child with a tag; an error unless there is exactly one."""
    found = list(element.all(tag))
    if len(found) != 1:
        raise builder.error(element.line, f"this <{element.tag}> has {len(found)} <{tag}>; it needs one.")
    return found[0]


def _read_properties(builder: Builder, name: str, element: Element) -> None:
    for one in element.all("PROPERTY"):
        if one.text:
            builder.add_property(name, *split_property(one.text))


def serialise(document: Document) -> str:
    """Return a document as an XMLBIF text."""
    check_directed(document, "XMLBIF")
    rule = "it is trimmed, and has no control characters"
    check_representable(document, "XMLBIF", _is_trimmed, _is_trimmed, rule, title=_is_trimmed)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines += [text_element("NAME", document.name, 0), *_write_properties(document, "", 0)]
    for name, labels in document.states.items():
        lines += ['<VARIABLE TYPE="nature">', text_element("NAME", name, 1)]
        lines += [text_element("OUTCOME", label, 1) for label in labels]
        lines += [*_write_properties(document, name, 1), "</VARIABLE>"]
    for factor in document.factors:
        *parents, child = factor.scope
        lines += ["<DEFINITION>", text_element("FOR", child, 1)]
        lines += [text_element("GIVEN", parent, 1) for parent in parents]
        rows = factor.values.reshape(-1, factor.values.shape[-1]).tolist()
        lines += ["  <TABLE>", *(f"    {numbers_text(row)}" for row in rows), "  </TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def _is_trimmed(text: str) -> bool:
    return text == text.strip()


def _write_properties(document: Document, name: str, indent: int) -> Iterator[str]:
    for key, value in document.properties.get(name, {}).items():
        text = joined_property(key, value)
        if text is not None and is_plain(text):
            yield text_element("PROPERTY", text, indent)
