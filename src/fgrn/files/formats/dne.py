"""DNE, the text format of Netica: blocks for the network and its nodes; reading only.

    bnet Asia {
    node lung {
        kind = NATURE; discrete = TRUE; chance = CHANCE;
        states = (yes, no);
        parents = (smoke);
        probs = ((0.1, 0.9), (0.01, 0.99));     // the child fastest
        title = "Lung cancer";
        visual V1 { center = (126, 54); };
        };
    };

Chance nodes (NATURE) are read, with probabilities or as a function of their parents (functable). The states of a
discretised continuous node are its intervals. The title of a node is read as its label, its centre as its position.
Constants that no node depends on are ignored. Configurations that Netica marks as impossible, @imposs, get a uniform
row, which has no effect.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ...bayes.document import Document
from ..container import short_repr
from .brace_blocks import BraceBlock, members, parse_blocks
from .builder import RESCALE, Builder
from .tokens import Span, Token, Tokens

_BROKEN = re.compile(r"\\\n[ \t]*\|?")
_ESCAPES = {"n": "\n", "t": "\t"}
_ESCAPED = re.compile(r"\\(.)", re.S)
_OTHER_NODES = {"DECISION": "a decision", "UTILITY": "a utility"}


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in a DNE text."""
    builder = Builder(file, len(text), rescale)
    tokens, root = parse_blocks(text, builder)
    if root.words[0].text != "bnet":
        raise builder.error(
            tokens.line(root.words[0].place), f"the file begins with {short_repr(root.words[0].text)}, not with 'bnet'."
        )
    nodes = [block for block in root.blocks if block.words[0].text == "node" and len(block.words) > 1]
    parents = {one.name for node in nodes for one in _read_list(tokens, node, "parents")}
    nodes = [node for node in nodes if _read_word(tokens, node, "kind") != "CONSTANT" or node.words[1].name in parents]
    for node in nodes:
        _read_node(builder, tokens, node)
    for open_link in (block.words[1] for block in root.blocks if block.words[0].text == "param" and block.words[1:]):
        raise builder.error(
            tokens.line(open_link.place),
            f"{short_repr(open_link.name)} stands for a parent that is in another network. Join the two in Netica.",
        )
    for node in nodes:
        _read_table(builder, tokens, node)
    for key in ("title", "comment"):
        if key in root.attributes:
            builder.add_property("", key, _read_text(tokens, root.attributes[key]))
    return builder.finish(root.words[1].name if len(root.words) > 1 else "")


def _read_list(tokens: Tokens, node: BraceBlock, key: str) -> list[Token]:
    return members(tokens, node.attributes[key]) if key in node.attributes else []


def _read_word(tokens: Tokens, node: BraceBlock, key: str) -> str:
    """Return the value of an attribute that is a single word, else ""."""
    found = _read_list(tokens, node, key)
    return found[0].name if len(found) == 1 else ""


def _read_text(tokens: Tokens, span: Span) -> str:
    """Return an attribute as the text of a property; a quoted text may have line breaks and escapes."""
    parts = list(tokens.tokens(span))
    if len(parts) != 1 or parts[0].kind != "text":
        return tokens.without_comments(span).strip()
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), _BROKEN.sub("", parts[0].text[1:-1]))


def _read_node(builder: Builder, tokens: Tokens, node: BraceBlock) -> None:
    name, line = node.words[1].name, tokens.line(node.words[1].place)
    kind = _read_word(tokens, node, "kind")
    if kind not in ("NATURE", ""):
        what = _OTHER_NODES.get(kind, f"of the kind {short_repr(kind)}")
        raise builder.error(line, f"node {short_repr(name)} is {what}; only nodes of nature are read.")
    builder.add_variable(name, _read_states(builder, tokens, node, name, line), line)
    for key, other in (("title", "label"), ("comment", "comment")):
        if key in node.attributes and (value := _read_text(tokens, node.attributes[key])) not in ("", name):
            builder.add_property(name, other, value)
    visual = node.first("visual")
    if visual is not None and "center" in visual.attributes:
        builder.add_property(name, "position", tokens.without_comments(visual.attributes["center"]).strip())


def _read_states(builder: Builder, tokens: Tokens, node: BraceBlock, name: str, line: int) -> list[str]:
    """Return the labels of a node's states: their names, the intervals between its levels, or the levels."""
    states = [one.name for one in _read_list(tokens, node, "states")]
    if states:
        return states
    levels = [one.name for one in _read_list(tokens, node, "levels")]
    if _read_word(tokens, node, "discrete") == "FALSE":
        if len(levels) < 2:
            raise builder.error(
                line, f"node {short_repr(name)} is continuous. Let Netica cut it into intervals (levels)."
            )
        return [f"{low} to {high}" for low, high in pairwise(levels)]
    if levels:
        return levels
    count = _read_word(tokens, node, "numstates")
    if count.isascii() and count.isdecimal() and len(count) < 10 and "probs" in node.attributes:
        room = node.attributes["probs"].end - node.attributes["probs"].begin
        if int(count) <= room:  # at least one character for each state
            return [f"s{number}" for number in range(int(count))]
    raise builder.error(line, f"node {short_repr(name)} has no states. It needs states = (...);")


def _read_table(builder: Builder, tokens: Tokens, node: BraceBlock) -> None:
    name, line = node.words[1].name, tokens.line(node.words[1].place)
    parents = [one.name for one in _read_list(tokens, node, "parents")]
    states = len(builder.states[name])
    if "probs" in node.attributes:
        numbers, first = tokens.numbers(node.attributes["probs"], {"@imposs": 1 / states})
        builder.add_table(name, parents, numbers, first)
    elif "functable" in node.attributes:
        span = node.attributes["functable"]
        found = [(one.name, tokens.line(one.place)) for one in members(tokens, span)]
        values = builder.function(name, parents, found, tokens.line(span.begin), by_number=True)
        builder.add_table(name, parents, values, line)
    elif states == 1 and not parents:  # Netica writes no table for a constant
        builder.add_table(name, parents, [1.0], line)
    else:
        how = "an equation" if "equation" in node.attributes else "no table"
        raise builder.error(
            line, f"node {short_repr(name)} has {how} and no probs. Let Netica make its table, and save it."
        )
