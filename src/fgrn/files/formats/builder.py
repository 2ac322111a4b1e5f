"""The builder of Documents for all parsers, with all checks in one place, and errors that name the line.

Files are not trusted: no array is created before its numbers have been found in the file, except tables that a format
abbreviates, whose total size is limited by the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from ...bayes.document import Document, WrittenTable
from ...core.exceptions import NetworkFileError, Remedy, RescaledTableWarning, nearest, shortened, warn
from ..container import short_repr

ROUNDING_TOLERANCE = 1e-4
"""The largest difference between the sum of a row and one that counts as rounding.

Files round to six digits, and a row may have a hundred numbers. The numbers are kept as they are, as in pyAgrum (its
BIF reader uses single precision): rows divided by their sums would not be written back bit for bit. Blocks divide rows
by their sums when they are made.
"""

RESCALE = 0.01
"""The default of the largest difference between the sum of a row and one for which it is divided by its sum."""

NEGATIVE_TOLERANCE = 1e-4
"""A negative number of at most this size is read as zero, with a warning: it is an error of rounding."""

EXPANSION_BASE = 2**20
EXPANSION_SHARE = 32
EXPANSION_LIMIT = 2**24
"""The most values that all tables of a file may abbreviate (default rows, functions of the parents).

The limit is EXPANSION_BASE values, EXPANSION_SHARE more for each character of the file, and EXPANSION_LIMIT in total,
so that a small file takes little memory.
"""

MOST_AXES = 60
"""The most variables in one table: NumPy allows 64 axes."""


def count_text(number: int) -> str:
    """Return an integer with separators of thousands, or "more than 10^18" where counting was capped."""
    return f"{number:,}" if number < 10**18 else "more than 10^18"


def as_numbers(words: Sequence[str]) -> tuple[list[float], int | None]:
    """Return words as numbers, and the position of the first that is not a number, or None."""
    with suppress(ValueError):
        if "_" not in "".join(words):
            return [float(word) for word in words], None
    return [], next(place for place, word in enumerate(words) if not _is_number(word))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word  # Python reads 1_000 as a number


def legible(text: str) -> str:
    """Return a name or label for a message: unchanged, or quoted if it has blanks or control characters."""
    return text if text.isprintable() and text and not set(text) & set(" ,='\"") else short_repr(text)


def _first_notes(notes: Sequence[str]) -> str:
    """Return the first three notes as a sentence, with the number of the rest."""
    more = f"; and {len(notes) - 3:,} more tables" if len(notes) > 3 else ""
    return f"{'; '.join(notes[:3])}{more}."


def check_document(document: Document) -> None:
    """Raise NetworkFileError unless a document to be written is a valid network."""
    builder = Builder("this network")
    for name, labels in document.states.items():
        builder.add_variable(name, labels, None)
    for factor in document.factors:
        what = f"the table of {shortened(map(short_repr, factor.scope), 4) or 'no variable'}"
        sizes = builder.sizes(factor.scope, None, what)
        if factor.values.shape != tuple(sizes):
            raise builder.error(None, f"{what} has the shape {factor.values.shape} instead of {tuple(sizes)}.")
        if document.directed and factor.scope:
            builder.add_table(factor.scope[-1], factor.scope[:-1], factor.values.ravel(), None)
        else:
            builder.add_factor(factor.scope, factor.values.ravel(), None)
    for name, seen in document.decisions.items():
        builder.add_decision(name, seen, None)
    for name, utility in document.utilities.items():
        builder.add_utility(name, utility.scope, utility.values.ravel(), None)
    builder.finish(directed=document.directed)


class Builder:
    """A Document under construction: variables first, then tables or factors; `finish` returns it.

    Args:
        file: the name of the file, for messages.
        size: the number of characters of the file.
        rescale: the largest difference between the sum of a row and one for which it is divided by its sum; None
            accepts rounding only.
    """

    def __init__(self, file: str, size: int = 0, rescale: float | None = None) -> None:
        self.file = file
        self._room = min(EXPANSION_BASE + EXPANSION_SHARE * size, EXPANSION_LIMIT)
        self._rescale = rescale
        self._rescaled: list[str] = []
        self._raised: list[str] = []
        self.states: dict[str, tuple[str, ...]] = {}
        self._lines: dict[str, int | None] = {}
        self._factors: list[WrittenTable] = []
        self._tables: dict[str, int | None] = {}  # child -> line
        self._properties: dict[str, dict[str, str]] = {}
        self._compact: dict[str, dict[str, Any]] = {}
        self._decisions: dict[str, tuple[str, ...]] = {}
        self._utilities: dict[str, WrittenTable] = {}
        self._expanded = 0

    def error(self, line: int | None, text: str, remedies: Sequence[Remedy | str] = ()) -> NetworkFileError:
        """Return the error for something in this file."""
        return NetworkFileError(text, file=self.file, line=line, remedies=remedies)

    def numbers(self, text: str, line: int) -> list[float]:
        """Return the numbers of a list that is separated by blanks or commas."""
        words = text.replace(",", " ").split()
        found, wrong = as_numbers(words)
        if wrong is not None:
            raise self.no_number(words[wrong], line + text.count("\n", 0, text.find(words[wrong])))
        return found

    def no_number(self, word: str, line: int) -> NetworkFileError:
        """Return the error for a word that is not a number."""
        return self.error(line, f"{short_repr(word)} is not a number. Probabilities are written like 0.25 or 2.5e-1.")

    # Variables

    def add_variable(self, name: str, states: Sequence[str], line: int | None) -> None:
        """Add a variable and the labels of its states."""
        if not name.strip():
            raise self.error(line, "a variable has no name. Give it one.")
        if name in self.states:
            first = self._lines[name]
            raise self.error(
                line, f"variable {short_repr(name)} is there twice, first in line {first}. Rename one of them."
            )
        if not states:
            raise self.error(line, f"variable {short_repr(name)} has no states. It needs at least one.")
        if len(set(states)) < len(states):
            twice = next(label for label, count in Counter(states).items() if count > 1)
            raise self.error(
                line, f"variable {short_repr(name)} has the state {short_repr(twice)} twice. Rename one of them."
            )
        self.states[name] = tuple(states)
        self._lines[name] = line

    def add_property(self, name: str, key: str, value: str) -> None:
        """Add a property of a variable, or of the network if the name is "", which is kept when written again."""
        self._properties.setdefault(name, {})[key] = value

    def use_names(self, names: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]) -> None:
        """Rename variables and their states from the identifiers in the file to the names noted there."""
        states, lines = self.states, self._lines
        self.states, self._lines = {}, {}
        for name, old in states.items():
            meant = labels.get(name, {})
            self.add_variable(names.get(name, name), [meant.get(label, label) for label in old], lines[name])
        self._tables = {names.get(name, name): line for name, line in self._tables.items()}
        self._factors = [
            WrittenTable(tuple(names.get(name, name) for name in factor.scope), factor.values)
            for factor in self._factors
        ]
        self._properties = {names.get(name, name): known for name, known in self._properties.items()}

        def renamed(scope: Iterable[str]) -> tuple[str, ...]:
            return tuple(names.get(name, name) for name in scope)

        self._decisions = {names.get(name, name): renamed(seen) for name, seen in self._decisions.items()}
        self._utilities = {
            names.get(name, name): WrittenTable(renamed(one.scope), one.values) for name, one in self._utilities.items()
        }
        self._compact = {
            names.get(name, name): {
                key: {names.get(one, one): some for one, some in value.items()} if isinstance(value, dict) else value
                for key, value in record.items()
            }
            for name, record in self._compact.items()
        }

    # Decisions and utilities

    def add_decision(self, name: str, seen: Sequence[str], line: int | None) -> None:
        """Make a variable a decision, and set the variables that are known when it is made."""
        self.sizes((*seen, name), line, f"the decision {short_repr(name)}")
        self._decisions[name] = tuple(seen)
        self._tables[name] = line

    def add_utility(
        self, name: str, scope: Sequence[str], values: Sequence[float] | np.ndarray, line: int | None
    ) -> None:
        """Add a utility, whose values are finite and may be negative; the first variable varies slowest."""
        what = f"the utility {short_repr(name)}"
        if not name.strip() or name in self.states or name in self._utilities:
            raise self.error(line, f"{what} has no name of its own. Rename it.")
        sizes = self.sizes(scope, line, what)
        if len(values) != self.product(sizes):
            raise self.error(line, f"{what} has {len(values):,} values instead of {count_text(self.product(sizes))}.")
        array = np.asarray(values, dtype=np.float64).reshape(tuple(sizes))
        if not np.isfinite(array).all():
            raise self.error(line, f"{what} has a value that is not finite. Write a large number instead.")
        array.setflags(write=False)
        self._utilities[name] = WrittenTable(tuple(scope), array)

    def add_compact(self, name: str, record: dict[str, Any]) -> None:
        """Add the parameters of a compact table of a variable, such as a noisy-max; see `Document`."""
        self._compact[name] = record

    # Tables

    def sizes(self, scope: Sequence[str], line: int | None, what: str) -> list[int]:
        """Return the numbers of states of the variables of a scope; an error for unknown or repeated ones."""
        for name in scope:
            if name not in self.states:
                # similar names are searched among a few short ones only, which bounds the time for malicious files
                known = [legible(other[:100]) for other in islice(self.states, 2000)]
                near = nearest(name[:100], known)
                raise self.error(line, f"{what} names {short_repr(name)}, which is not declared. {near}")
        if len(set(scope)) < len(scope):
            twice = next(name for name, count in Counter(scope).items() if count > 1)
            raise self.error(line, f"{what} names {short_repr(twice)} twice. Each variable of a table is named once.")
        if len(scope) > MOST_AXES:
            raise self.error(line, f"{what} joins {len(scope)} variables; the most is {MOST_AXES}.")
        return [len(self.states[name]) for name in scope]

    def product(self, sizes: Iterable[int]) -> int:
        """Return the product of the sizes, capped at 10^18."""
        total = 1
        for size in sizes:
            total = min(total * size, 10**18)
        return total

    def expand(self, count: int, line: int, what: str) -> None:
        """Add to the number of table values that the file abbreviates; an error beyond the limit."""
        self._expanded = min(self._expanded + count, 10**18)
        if self._expanded > self._room:
            raise self.error(
                line,
                f"{what} stands for {count_text(count)} values that the file does not hold; in a file of this size all "
                f"such tables together may have {self._room:,}. Write the table out, or give the variable fewer "
                "parents.",
            )

    def add_table(
        self,
        child: str,
        parents: Sequence[str],
        values: Sequence[float] | np.ndarray,
        line: int | None,
        line_of_row: Callable[[int], int] | None = None,
    ) -> None:
        """Add the table of a child given its parents; the first parent varies slowest, the child fastest.

        Args:
            child: the name of the child.
            parents: the names of the parents, in the order of the table.
            values: all values as one vector.
            line: the line on which the table begins.
            line_of_row: returns the line of a row, if the format has the rows on separate lines.
        """
        what = f"the table of {short_repr(child)}"
        scope = (*parents, child)
        sizes = self.sizes(scope, line, what)
        if child in self._tables:
            first = f", first in line {self._tables[child]}" if line is not None else ""
            raise self.error(line, f"{what} is there twice{first}. Remove one of them.")
        array = self._array(scope, sizes, values, line, what, directed=True)
        self._tables[child] = line
        self._factors.append(WrittenTable(scope, self._with_row_sums(array, parents, what, line, line_of_row)))

    def _with_row_sums(
        self,
        array: np.ndarray,
        parents: Sequence[str],
        what: str,
        line: int | None,
        line_of_row: Callable[[int], int] | None,
    ) -> np.ndarray:
        """Return a table whose rows sum to one: unchanged within rounding, else divided by their sums."""
        rows = array.reshape(-1, array.shape[-1])
        with np.errstate(over="ignore"):
            sums = rows.sum(axis=1)
        distances = np.abs(sums - 1)
        off = np.flatnonzero(~(distances <= ROUNDING_TOLERANCE))
        if not len(off):
            return array
        can = np.isfinite(sums[off]) & (sums[off] > 0)
        bound = ROUNDING_TOLERANCE if self._rescale is None else self._rescale
        bad = off[~(can & (distances[off] <= bound + 1e-9))]  # in floating point 1 - 0.99 is a little more than 0.01
        first = int(bad[0] if len(bad) else off[0])
        of = f" for {self._configuration(parents, array.shape[:-1], first)}" if parents else ""
        at = line_of_row(first) if line_of_row is not None else line
        if len(bad):
            more = f" ({len(bad):,} rows do)" if len(bad) > 1 else ""
            remedies: list[Remedy | str] = ["correct its numbers"]
            if self._rescale is not None and np.isfinite(sums[first]) and sums[first] > 0:
                remedies.append(Remedy("divide each row by its sum", rescale=True))
            raise self.error(at, f"{what}{of} sums to {sums[first]:.9g}, not to 1{more}.", remedies)
        more = f", and {len(off) - 1:,} more of its rows" if len(off) > 1 else ""
        self._rescaled.append(f"line {at}: {what}{of} summed to {sums[first]:.9g}{more}")
        scaled = rows.copy()
        scaled[off] /= sums[off, None]
        result: np.ndarray = scaled.reshape(array.shape)
        result.setflags(write=False)
        return result

    def function(
        self, child: str, parents: Sequence[str], states: Iterable[tuple[str, int]], line: int, by_number: bool = False
    ) -> np.ndarray:
        """Return the table of a child that is a function of its parents, from its state in each case.

        Args:
            child: the variable.
            parents: its parents.
            states: of the child, for each case, and the line of each.
            line: of the table.
            by_number: whether #0, #1, ... are also names of states.
        """
        what = f"the table of {short_repr(child)}"
        known = {label: code for code, label in enumerate(self.states[child])}
        known |= {f"#{code}": code for code in range(len(known))} if by_number else {}
        codes = []
        for state, at in states:
            if state not in known:
                some = ", ".join(map(short_repr, self.states[child][:8]))
                raise self.error(at, f"{what}: {short_repr(state)} is not a state of it (known: {some}).")
            codes.append(known[state])
        *sizes, width = self.sizes((*parents, child), line, what)
        cases = self.product(sizes)
        if len(codes) != cases:
            raise self.error(
                line, f"{what} has {len(codes):,} resulting states; its parents have {count_text(cases)} cases."
            )
        self.expand(cases * width, line, what)
        values = np.zeros((cases, width))
        values[np.arange(cases), codes] = 1.0
        return values.ravel()

    def add_factor(self, scope: Sequence[str], values: Sequence[float] | np.ndarray, line: int | None) -> None:
        """Add a table of non-negative numbers over some variables, the first of which varies slowest."""
        what = f"the factor of {shortened(map(short_repr, scope), 4) or 'no variable'}"
        sizes = self.sizes(scope, line, what)
        self._factors.append(WrittenTable(tuple(scope), self._array(scope, sizes, values, line, what)))

    def _array(
        self,
        scope: Sequence[str],
        sizes: Sequence[int],
        values: Sequence[float] | np.ndarray,
        line: int | None,
        what: str,
        directed: bool = False,
    ) -> np.ndarray:
        """Return the values as a read-only array; an error for a wrong number of values or invalid ones."""
        expected = self.product(sizes)
        if len(values) != expected:
            how = " × ".join(
                f"{size} of {short_repr(name)}" for name, size in islice(zip(scope, sizes, strict=True), 8)
            )
            how = f"the product of the states, {how}{' × ...' if len(sizes) > 8 else ''}" if sizes else "a constant"
            raise self.error(line, f"{what} has {len(values):,} values instead of {count_text(expected)} ({how}).")
        array = np.asarray(values, dtype=np.float64)
        wrong = ~(np.isfinite(array) & (array >= 0))
        if directed and self._rescale is not None and wrong.any():
            slight = wrong & (array < 0) & (array >= -NEGATIVE_TOLERANCE)
            if slight.any():
                first = int(np.flatnonzero(slight)[0])
                self._raised.append(f"line {line}: value {first + 1} of {what} was {array[first]}")
                array, wrong = np.where(slight, 0.0, array), wrong & ~slight
        bad = np.flatnonzero(wrong)
        if len(bad):
            place = f"value {int(bad[0]) + 1} of {what}"
            raise self.error(line, f"{place} is {array[bad[0]]}. Values of tables are finite and not negative.")
        array = array.reshape(tuple(sizes))
        array.setflags(write=False)
        return array

    def _configuration(self, parents: Sequence[str], sizes: Sequence[int], row: int) -> str:
        codes = np.unravel_index(row, tuple(sizes))
        pairs = zip(parents, codes, strict=True)
        return shortened((f"{legible(name)}={legible(self.states[name][int(code)])}" for name, code in pairs), 6)[:300]

    def configuration(self, parents: Sequence[str], row: int, line: int) -> str:
        """Return the states of the parents in a row of a table, as text."""
        return self._configuration(parents, self.sizes(parents, line, "the table"), row)

    # Finishing

    def finish(self, name: str = "", directed: bool = True) -> Document:
        """Return the document; an error if a variable has no table or is its own ancestor."""
        if not self.states:
            raise self.error(1, "there are no variables. Is it complete, and is it the right file?")
        if directed:
            for variable, line in self._lines.items():
                if variable not in self._tables:
                    raise self.error(line, f"variable {short_repr(variable)} has no table. Is the file complete?")
            self._check_cycles()
            places = {variable: place for place, variable in enumerate(self.states)}
            self._factors.sort(key=lambda factor: places[factor.scope[-1]])
        self._warn_of_changes()
        return Document(
            self.states, tuple(self._factors), directed, name, self._properties, self._compact, self._decisions,
            self._utilities,
        )  # fmt: skip

    def _warn_of_changes(self) -> None:
        """Warn of numbers that were changed: negative ones, and rows that were divided by their sums."""
        if self._raised:
            text = f"numbers below zero were taken for zero. {_first_notes(self._raised)}"
            warn(text, RescaledTableWarning, file=self.file)
        if self._rescaled:
            text = f"rows that do not sum to 1 were divided by their sum. {_first_notes(self._rescaled)}"
            warn(text, RescaledTableWarning, file=self.file)

    def _check_cycles(self) -> None:
        """Raise an error that names a directed cycle, if there is one."""
        parents = {factor.scope[-1]: factor.scope[:-1] for factor in self._factors} | self._decisions
        children: dict[str, list[str]] = {name: [] for name in parents}
        waiting = {name: len(above) for name, above in parents.items()}
        for name, above in parents.items():
            for parent in above:
                children[parent].append(name)
        ready = [name for name, count in waiting.items() if not count]
        while ready:
            name = ready.pop()
            del waiting[name]
            for child in children[name]:
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
        if not waiting:
            return
        path: dict[str, None] = {}
        name = next(iter(waiting))
        while name not in path:  # each remaining variable has a remaining parent, so following parents ends in a cycle
            path[name] = None
            name = next(parent for parent in parents[name] if parent in waiting)
        cycle = list(path)[list(path).index(name) :][::-1]
        arrows = " -> ".join(map(short_repr, [cycle[-1], *cycle][:12])) + (" -> ..." if len(cycle) > 11 else "")
        line = self._tables[cycle[0]]
        raise self.error(line, f"the network has a cycle: {arrows}. Remove one of its arrows.")
