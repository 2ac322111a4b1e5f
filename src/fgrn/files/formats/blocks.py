"""Blocks in braces within each other, with attributes between them: what files of Netica are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from .builder import Builder
from .tokens import SLASHES, STARS, Span, Token, Tokens

DEEPEST = 100
"""Most blocks within each other."""


@dataclass(slots=True)
class Block:
    """One block: the words before its brace, its attributes (name = value;), and the blocks in it."""

    words: list[Token]
    attributes: dict[str, Span] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def first(self, kind: str) -> Block | None:
        """The first block of a kind in this one."""
        return next((block for block in self.blocks if block.words[0].text == kind), None)


def blocks(text: str, builder: Builder) -> tuple[Tokens, Block]:
    """The tokens of a text, and its outermost block, with which it begins."""
    tokens = Tokens(text, builder, "{}()=;,", SLASHES, STARS)
    words = []
    while tokens.next.text != "{":
        words.append(tokens.take("word", "text", "{"))
    if not words:
        raise tokens.unexpected("word")
    tokens.take("{")
    root = Block(words)
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
            _entry(tokens, within)
    return tokens, root


def _entry(tokens: Tokens, within: list[Block]) -> None:
    """An attribute of the innermost block, or the beginning of a block in it."""
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
    if len(within) >= DEEPEST:
        raise tokens.builder.error(tokens.line(words[0].place), f"more than {DEEPEST} blocks are within each other.")
    tokens.take("{")
    block = Block(words)
    within[-1].blocks.append(block)
    within.append(block)


def members(tokens: Tokens, span: Span) -> list[Token]:
    """The members of a list in parentheses with commas, however deep."""
    return [token for token in tokens.tokens(span) if token.kind != "sign"]
