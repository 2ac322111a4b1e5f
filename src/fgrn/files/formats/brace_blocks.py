"""Parser of nested blocks in braces with attributes: the syntax of Netica's files."""

from __future__ import annotations

from dataclasses import dataclass, field

from .builder import Builder
from .tokens import SLASHES, STARS, Span, Token, Tokens

DEEPEST_BLOCK = 100
"""The deepest nesting of blocks."""


@dataclass(slots=True)
class BraceBlock:
    """A block in braces: the words before it, its attributes (name = value;), and the blocks in it."""

    words: list[Token]
    attributes: dict[str, Span] = field(default_factory=dict)
    blocks: list[BraceBlock] = field(default_factory=list)

    def first(self, kind: str) -> BraceBlock | None:
        """Return the first block of a kind in this one, or None."""
        return next((block for block in self.blocks if block.words[0].text == kind), None)


def parse_blocks(text: str, builder: Builder) -> tuple[Tokens, BraceBlock]:
    """Return the tokens of a text, and its outermost block."""
    tokens = Tokens(text, builder, "{}()=;,", SLASHES, STARS)
    words = []
    while tokens.next.text != "{":
        words.append(tokens.take("word", "text", "{"))
    if not words:
        raise tokens.unexpected("word")
    tokens.take("{")
    root = BraceBlock(words)
    within = [root]
    while within:
        if tokens.next.text == "}":
            tokens.take("}")
            within.pop()
            if tokens.next.text == ";":
                tokens.take(";")
        elif tokens.next.text == ";":
            tokens.take(";")
        else:
            _parse_entry(tokens, within)
    return tokens, root


def _parse_entry(tokens: Tokens, within: list[BraceBlock]) -> None:
    """Parse an attribute of the innermost block, or the beginning of a block in it."""
    words = [tokens.take("word")]
    while tokens.next.text not in ("=", "{", ";"):
        words.append(tokens.take("word", "text", "=", "{"))
    if tokens.next.text == "=":
        value = tokens.statement(tokens.take("=").place + 1)
        if tokens.next.text != "{":
            within[-1].attributes[words[0].text] = value
            tokens.take(";")
            return
    elif tokens.next.text == ";":
        tokens.take(";")
        return
    if len(within) >= DEEPEST_BLOCK:
        line = tokens.line(words[0].place)
        raise tokens.builder.error(line, f"more than {DEEPEST_BLOCK} blocks are within each other.")
    tokens.take("{")
    block = BraceBlock(words)
    within[-1].blocks.append(block)
    within.append(block)


def members(tokens: Tokens, span: Span) -> list[Token]:
    """Return the items of a list in parentheses, without the parentheses and commas at any depth."""
    return [token for token in tokens.tokens(span) if token.kind != "sign"]
