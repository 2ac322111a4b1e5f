"""UAI, the format of the inference competitions: numbers only, for Bayesian networks (BAYES) and factors (MARKOV).

    MARKOV         or BAYES, where the last variable of a scope is the child
    3              the number of variables, here named x0, x1, x2; their states are 0, 1, ...
    2 2 3          numbers of states
    2              the number of factors
    2 0 1          of each factor the number of variables, and which
    2 1 2
    4 .1 .9 .5 .5          of each factor the number of values, and the values; the first variable varies slowest
    6 .1 .2 .3 .4 .5 .6

Evidence is in separate files: the number of observed variables, then pairs of variable and state. An older style begins
with the number of samples, followed by this for each sample.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...bayes.document import Document
from ..container import short_repr
from .builder import RESCALE, ROUNDING_TOLERANCE, Builder, as_numbers, count_text
from .names import numbers_text

MOST_SPARE_STATES = 2**16
"""The most states of all variables beyond the number of words that follow in the file."""

CELLS_BASE = 2**20
CELLS_SHARE = 32
"""The most cells of evidence of several samples: one for each sample and each variable observed in any of them.

The limit is CELLS_SHARE for each number in the file, at least CELLS_BASE, so that a small file takes little memory.
"""

_HASH_COMMENT = re.compile(r"#[^\n]*")


def _is_whole(word: str) -> bool:
    return word.isascii() and word.isdecimal()


class _Words:
    """The words of a text, consumed one by one."""

    def __init__(self, text: str, builder: Builder) -> None:
        self._builder = builder
        self.words: list[str] = []
        self.ends: list[int] = []  # the number of words up to the end of each line
        for line in _HASH_COMMENT.sub("", text).split("\n"):
            self.words += line.split()
            self.ends.append(len(self.words))
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.words) - self.at

    def line(self, at: int | None = None) -> int:
        """Return the line of a word, by default of the last one consumed."""
        return bisect_right(self.ends, max(self.at - 1, 0) if at is None else at) + 1

    def integer(self, what: str, least: int = 0, most: int | None = None) -> int:
        """Consume the next word as an integer; an error if it is less than `least` or more than `most`."""
        if not self.left:
            raise self._builder.error(self.line(), f"the file ends where {what} was expected. Is it complete?")
        word = self.words[self.at]
        self.at += 1
        if not _is_whole(word):
            raise self._builder.error(
                self.line(), f"{short_repr(word)} is not a whole number, but {what} was expected."
            )
        value = int(word) if len(word) < 19 else 10**18
        if value < least:
            raise self._builder.error(self.line(), f"{what} is {value}; it is at least {least}.")
        if most is not None and value > most:
            raise self._builder.error(
                self.line(), f"{what} is {count_text(value)}, but only {most:,} words follow. Is the file complete?"
            )
        return value

    def numbers(self, count: int) -> list[float]:
        """Consume the next words as numbers."""
        begin, self.at = self.at, self.at + count
        found, wrong = as_numbers(self.words[begin : self.at])
        if wrong is not None:
            raise self._builder.no_number(self.words[begin + wrong], self.line(begin + wrong))
        return found


def parse(text: str, file: str, rescale: float | None = RESCALE) -> Document:
    """Return the network in a UAI text."""
    builder = Builder(file, len(text), rescale)
    words = _Words(text, builder)
    kind = words.words[0].upper() if words.words else ""
    if kind not in ("BAYES", "MARKOV"):
        found = f"begins with {short_repr(words.words[0])}" if words.words else "is empty"
        raise builder.error(1, f"the file {found}; a UAI file begins with BAYES or MARKOV.")
    words.at = 1
    _read_variables(builder, words)
    sizes = {name: len(labels) for name, labels in builder.states.items()}
    names = list(sizes)
    count = words.integer("the number of factors", most=words.left)
    scopes = [_read_scope(builder, words, names, number, int(kind == "BAYES")) for number in range(1, count + 1)]
    tables: list[tuple[list[str], list[float], int]] = []
    for number, scope in enumerate(scopes, 1):
        what = f"the number of values of factor {number}"
        expected = builder.product(sizes[name] for name in scope)
        size = words.integer(what, 1)
        line = words.line()
        if size != expected:
            how = " × ".join(str(sizes[name]) for name in scope[:12]) or "of no variable"
            raise builder.error(line, f"{what} is {count_text(size)} instead of {count_text(expected)} ({how}).")
        if size > words.left:
            raise builder.error(line, f"{what} is {size:,}, but only {words.left:,} follow. Is the file complete?")
        values = words.numbers(size)
        tables.append((scope, values, line))
    for at in range(words.at, len(words.words)):
        if not _is_whole(words.words[at]):  # some programs append a query or an order of variables, as integers
            more = f"{short_repr(words.words[at])} follows the last factor. Is the number of factors, {count:,}, right?"
            raise builder.error(words.line(at), more)
    directed = kind == "BAYES" and not _is_reduced([(values, sizes[scope[-1]]) for scope, values, _ in tables])
    for scope, values, line in tables:
        if directed:
            builder.add_table(scope[-1], scope[:-1], values, line)
        else:
            builder.add_factor(scope, values, line)
    return builder.finish(directed=directed)


def _is_reduced(tables: Sequence[tuple[list[float], int]]) -> bool:
    """Return whether evidence was entered into the tables of a Bayesian network, so that rows sum to less than one.

    Pedigrees are written like this: observed variables keep one state, impossible configurations have rows of zeros,
    and other rows sum to less than one. This is a product of factors, but not a Bayesian network. Each table is given
    with the width of its rows.
    """
    sums = [np.array(values).reshape(-1, width).sum(axis=1) for values, width in tables]
    marked = any(width == 1 for _, width in tables) or any((one == 0).any() for one in sums)
    return (
        marked
        and all((one <= 1 + ROUNDING_TOLERANCE).all() for one in sums)
        and any((one < 1 - ROUNDING_TOLERANCE).any() for one in sums)
    )


def _read_variables(builder: Builder, words: _Words) -> None:
    count = words.integer("the number of variables", 1, words.left)
    room = MOST_SPARE_STATES + words.left
    labels: dict[int, tuple[str, ...]] = {}
    for number in range(count):
        size = words.integer(f"the number of states of variable {number}", 1)
        room -= size
        if room < 0:
            few = f"variable {number} has {count_text(size)} states; the file holds too few numbers for such tables."
            raise builder.error(words.line(), few)
        if size not in labels:
            labels[size] = tuple(map(str, range(size)))
        builder.add_variable(f"x{number}", labels[size], words.line())


def _read_scope(builder: Builder, words: _Words, names: list[str], number: int, least: int) -> list[str]:
    size = words.integer(f"the number of variables of factor {number}", least, words.left)
    scope = [words.integer(f"a variable of factor {number}") for _ in range(size)]
    for variable in scope:
        if variable >= len(names):
            unknown = f"factor {number} has the variable {count_text(variable)}; they go from 0 to {len(names) - 1:,}."
            raise builder.error(words.line(), unknown)
    return [names[variable] for variable in scope]


def serialise(document: Document) -> str:
    """Return a document as a UAI text: variables and states become positions, names and properties are dropped."""
    places = {name: place for place, name in enumerate(document.states)}
    lines = ["BAYES" if document.directed else "MARKOV", str(len(places))]
    lines += [" ".join(str(len(labels)) for labels in document.states.values()), str(len(document.factors))]
    lines += [" ".join(map(str, [len(one.scope), *(places[name] for name in one.scope)])) for one in document.factors]
    for factor in document.factors:
        width = factor.values.shape[-1] if factor.scope else 1
        rows = factor.values.reshape(-1, width).tolist()
        lines += ["", str(factor.values.size), *(numbers_text(row) for row in rows)]
    return "\n".join(lines) + "\n"


# Evidence

Sample = dict[str, int]


def parse_evidence(text: str, file: str) -> Mapping[str, int | list[int | None]]:
    """Return the evidence in a UAI evidence file, by variable, as `propagate` takes it.

    One sample gives a state for each observed variable, {"x3": 1}; several give a list for each variable, with None
    where a sample has no evidence on it. An empty file, and one that begins with 0, has no evidence.
    """
    builder = Builder(file)
    words = _Words(text, builder)
    if not words.words:
        return {}
    count = words.integer("the number of observed variables")
    if count == 0:  # the rest is disabled: inference programs read no further
        return {}
    plain = len(words.words) == 1 + 2 * count
    if plain and not _is_sampled_by_line(words, count):
        return _read_sample(builder, words, count)
    words.at = 1
    if count > words.left:
        few = f"{count_text(count)} variables or samples are promised, but only {words.left:,} numbers follow."
        raise builder.error(words.line(0), f"{few} Is the file complete?")
    samples: list[Sample] = []
    for number in range(1, count + 1):
        size = words.integer(f"the number of observed variables of sample {number}", most=words.left // 2)
        samples.append(_read_sample(builder, words, size))
    if words.left:
        more = f"{words.left:,} numbers too many: there are {count} samples, or {count} pairs of variable and state."
        raise builder.error(words.line(words.at), more)
    if count == 1:
        return samples[0]
    names = sorted({name for sample in samples for name in sample}, key=lambda name: int(name[1:]))
    most = max(CELLS_BASE, CELLS_SHARE * len(words.words))
    if len(names) * count > most:
        table = f"{count:,} samples name {len(names):,} variables, a table of {len(names) * count:,} cells"
        remedy = "Split it into files of fewer samples."
        raise builder.error(1, f"{table}; of a file with {len(words.words):,} numbers the most is {most:,}. {remedy}")
    return {name: [sample.get(name) for sample in samples] for name in names}


def _is_sampled_by_line(words: _Words, count: int) -> bool:
    """Return whether each line after the first is one sample, which decides between two layouts of the format."""
    lines = list(_lines_of_words(words))
    return (
        len(lines) == count + 1
        and len(lines[0]) == 1
        and all(line[0] == str(len(line) // 2) and len(line) % 2 for line in lines[1:])
    )


def _lines_of_words(words: _Words) -> Iterator[list[str]]:
    begin = 0
    for end in words.ends:
        if end > begin:
            yield words.words[begin:end]
        begin = end


def _read_sample(builder: Builder, words: _Words, count: int) -> Sample:
    sample: Sample = {}
    for _ in range(count):
        name = f"x{words.integer('an observed variable')}"
        state = words.integer(f"the state of {name}")
        if sample.setdefault(name, state) != state:
            raise builder.error(words.line(), f"{name} is observed twice, in states {sample[name]} and {state}.")
    return sample
