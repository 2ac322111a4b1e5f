"""What all parsers share: a document put together piece by piece, every check made once, with the line of the file.

A file is read as if an enemy had written it: no array is made before the numbers that fill it have been found in the
file, but for tables that a format may abbreviate, which together are limited by the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np

from ...bayes.document import Document, WrittenTable
from ...core.exceptions import NetworkFileError, RescaledTableWarning, shortened, unknown_name, warn
from ..container import shown

ROUNDED_SUM_TOLERANCE = 1e-4
"""How far from one a row may sum up: files round to six digits, and a row may have a hundred of them.

The numbers are kept as they are, as pyAgrum keeps them too (its reader of BIF takes single precision): a row divided by
its sum would not come back from a file bit for bit. Blocks divide their rows when they are made.
"""

RESCALE = 0.01
"""How far from one a row may sum up to be divided by its sum, with a warning, unless the reader is told otherwise."""

NEGATIVE_TOLERANCE = 1e-4
"""A number of a table that is less than zero by at most this is taken for zero, with a warning: it was rounded."""

EXPANSION_BASE = 2**20
EXPANSION_SHARE = 32
EXPANSION_LIMIT = 2**24
"""Most values that a file may leave unwritten (default rows, functions of the parents), all tables together.

A file may leave EXPANSION_BASE values unwritten, EXPANSION_SHARE more for each of its characters, and in all no more
than EXPANSION_LIMIT, so that a small file takes little memory.
"""

MOST_AXES = 60
"""Most variables in one table: NumPy takes 64."""


def counted(number: int) -> str:
    """A whole number as people read it; beyond all tables that can be, only that."""
    return f"{number:,}" if number < 10**18 else "more than 10^18"


def as_numbers(words: Sequence[str]) -> tuple[list[float], int | None]:
    """Words as numbers, and the place of the first that is none, if there is one."""
    with suppress(ValueError):
        if "_" not in "".join(words):
            return [float(word) for word in words], None
    return [], next(place for place, word in enumerate(words) if not _is_number(word))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word  # Python takes 1_000 for a number


def legible(text: str) -> str:
    """A name or label of a file in a message: as it is, or quoted where it has blanks or control characters."""
    return text if text.isprintable() and text and not set(text) & set(" ,='\"") else shown(text)


def _some(notes: Sequence[str]) -> str:
    more = f"; and {len(notes) - 3:,} more tables" if len(notes) > 3 else ""
    return f"{'; '.join(notes[:3])}{more}."


def check(document: Document) -> None:
    """What is to be written is a network, as if it had been read."""
    builder = Builder("this network")
    for name, labels in document.states.items():
        builder.add_variable(name, labels, None)
    for factor in document.factors:
        what = f"the table of {shortened(map(shown, factor.scope), 4) or 'no variable'}"
        sizes = builder.sizes(factor.scope, None, what)
        if factor.values.shape != tuple(sizes):
            raise builder.error(None, f"{what} has the shape {factor.values.shape} instead of {tuple(sizes)}.")
        if document.directed and factor.scope:
            builder.add_table(factor.scope[-1], factor.scope[:-1], factor.values.ravel(), None)
        else:
            builder.add_factor(factor.scope, factor.values.ravel(), None)
    builder.finish(directed=document.directed)


class Builder:
    """A document that grows. Variables come first, then tables or factors; `finish` gives it.

    Args:
        file: its name, for messages.
        size: how many characters it has.
        rescale: how far from one a row may sum up to be divided by its sum; None refuses all that was not just rounded.
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
        self._expanded = 0

    def error(self, line: int | None, text: str) -> NetworkFileError:
        """The error for something in this file."""
        where = self.file if line is None else f"{self.file}, line {line}"
        return NetworkFileError(f"{where}: {text}", line)

    def numbers(self, text: str, line: int) -> list[float]:
        """The numbers of a list, separated by blanks or commas."""
        words = text.replace(",", " ").split()
        found, wrong = as_numbers(words)
        if wrong is not None:
            raise self.no_number(words[wrong], line + text.count("\n", 0, text.find(words[wrong])))
        return found

    def no_number(self, word: str, line: int) -> NetworkFileError:
        """The error for a word that is no number."""
        return self.error(line, f"{shown(word)} is no number. Probabilities are written like 0.25 or 2.5e-1.")

    # Variables

    def add_variable(self, name: str, states: Sequence[str], line: int | None) -> None:
        """A variable and the labels of its states."""
        if not name.strip():
            raise self.error(line, "a variable has no name. Give it one.")
        if name in self.states:
            first = self._lines[name]
            raise self.error(line, f"variable {shown(name)} is there twice, first in line {first}. Rename one of them.")
        if not states:
            raise self.error(line, f"variable {shown(name)} has no states. It needs at least one.")
        if len(set(states)) < len(states):
            twice = next(label for label, count in Counter(states).items() if count > 1)
            raise self.error(line, f"variable {shown(name)} has the state {shown(twice)} twice. Rename one of them.")
        self.states[name] = tuple(states)
        self._lines[name] = line

    def add_property(self, name: str, key: str, value: str) -> None:
        """Something else that was said of a variable, or of the network, "", which is carried along."""
        self._properties.setdefault(name, {})[key] = value

    def use_names(self, names: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]) -> None:
        """Give variables, and states of each of them, the names that those of the file stand for."""
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

    # Tables

    def sizes(self, scope: Sequence[str], line: int | None, what: str) -> list[int]:
        """The numbers of states of variables, which are all there, and each once."""
        for name in scope:
            if name not in self.states:
                # near names are sought among some of them only: hostile ones could be long and many
                known = [legible(other[:100]) for other in islice(self.states, 2000)]
                near = unknown_name("variable", name[:100], known)
                raise self.error(line, f"{what} names {shown(name)}, which is not declared. {near}")
        if len(set(scope)) < len(scope):
            twice = next(name for name, count in Counter(scope).items() if count > 1)
            raise self.error(line, f"{what} names {shown(twice)} twice. Each variable of a table is named once.")
        if len(scope) > MOST_AXES:
            raise self.error(line, f"{what} joins {len(scope)} variables; the most is {MOST_AXES}.")
        return [len(self.states[name]) for name in scope]

    def product(self, sizes: Iterable[int]) -> int:
        """How many values a table has; beyond 10^18 only that they are more."""
        total = 1
        for size in sizes:
            total = min(total * size, 10**18)
        return total

    def expand(self, count: int, line: int, what: str) -> None:
        """Ask for a table of values of which the file holds only a few."""
        self._expanded = min(self._expanded + count, 10**18)
        if self._expanded > self._room:
            raise self.error(
                line,
                f"{what} stands for {counted(count)} values that the file does not hold; in a file of this size all "
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
        """The table of a child given its parents, the first parent slowest, the child fastest.

        Args:
            child: whose table it is.
            parents: in the order of the table.
            values: all of them, in one row.
            line: where the table begins.
            line_of_row: where a row of it is, if the format writes them apart.
        """
        what = f"the table of {shown(child)}"
        scope = (*parents, child)
        sizes = self.sizes(scope, line, what)
        if child in self._tables:
            first = f", first in line {self._tables[child]}" if line is not None else ""
            raise self.error(line, f"{what} is there twice{first}. Remove one of them.")
        array = self._array(scope, sizes, values, line, what, directed=True)
        self._tables[child] = line
        self._factors.append(WrittenTable(scope, self._summed(array, parents, what, line, line_of_row)))

    def _summed(
        self,
        array: np.ndarray,
        parents: Sequence[str],
        what: str,
        line: int | None,
        line_of_row: Callable[[int], int] | None,
    ) -> np.ndarray:
        """A table whose rows sum to one: as it is where it was just rounded, else divided by its sums."""
        rows = array.reshape(-1, array.shape[-1])
        with np.errstate(over="ignore"):
            sums = rows.sum(axis=1)
        distances = np.abs(sums - 1)
        off = np.flatnonzero(~(distances <= ROUNDED_SUM_TOLERANCE))
        if not len(off):
            return array
        can = np.isfinite(sums[off]) & (sums[off] > 0)
        bound = ROUNDED_SUM_TOLERANCE if self._rescale is None else self._rescale
        bad = off[~(can & (distances[off] <= bound + 1e-9))]  # 0.99 misses one by a little more than 0.01
        first = int(bad[0] if len(bad) else off[0])
        of = f" for {self._configuration(parents, array.shape[:-1], first)}" if parents else ""
        at = line_of_row(first) if line_of_row is not None else line
        if len(bad):
            more = f" ({len(bad):,} rows do)" if len(bad) > 1 else ""
            remedy = " Correct its numbers."
            if self._rescale is not None and np.isfinite(sums[first]) and sums[first] > 0:
                remedy = " Correct its numbers, or divide each row by its sum with rescale=True."
            raise self.error(at, f"{what}{of} sums to {sums[first]:.9g}, not to 1{more}.{remedy}")
        more = f", and {len(off) - 1:,} more of its rows" if len(off) > 1 else ""
        self._rescaled.append(f"line {at}: {what}{of} summed to {sums[first]:.9g}{more}")
        scaled = rows.copy()
        scaled[off] /= sums[off, None]
        result: np.ndarray = scaled.reshape(array.shape)
        result.setflags(write=False)
        return result

    def function(self, child: str, parents: Sequence[str], codes: Sequence[int], line: int) -> np.ndarray:
        """The values of a table that says for each case of the parents which state the child has."""
        what = f"the table of {shown(child)}"
        *sizes, width = self.sizes((*parents, child), line, what)
        cases = self.product(sizes)
        if len(codes) != cases:
            raise self.error(
                line, f"{what} has {len(codes):,} resulting states; its parents have {counted(cases)} cases."
            )
        self.expand(cases * width, line, what)
        values = np.zeros((cases, width))
        values[np.arange(cases), codes] = 1.0
        return values.ravel()

    def add_factor(self, scope: Sequence[str], values: Sequence[float] | np.ndarray, line: int | None) -> None:
        """A table over some variables, the first slowest; of any numbers that are not negative."""
        what = f"the factor of {shortened(map(shown, scope), 4) or 'no variable'}"
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
        expected = self.product(sizes)
        if len(values) != expected:
            how = " × ".join(f"{size} of {shown(name)}" for name, size in islice(zip(scope, sizes, strict=True), 8))
            how = f"the product of the states, {how}{' × ...' if len(sizes) > 8 else ''}" if sizes else "a constant"
            raise self.error(line, f"{what} has {len(values):,} values instead of {counted(expected)} ({how}).")
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
        """The states of the parents in a row of a table, as people read them."""
        return self._configuration(parents, self.sizes(parents, line, "the table"), row)

    # The whole

    def finish(self, name: str = "", directed: bool = True) -> Document:
        """The document, once all is there: each variable has its table, and none is its own ancestor."""
        if not self.states:
            raise self.error(1, "there are no variables. Is it complete, and is it the right file?")
        if directed:
            for variable, line in self._lines.items():
                if variable not in self._tables:
                    raise self.error(line, f"variable {shown(variable)} has no table. Is the file complete?")
            self._check_cycles()
            places = {variable: place for place, variable in enumerate(self.states)}
            self._factors.sort(key=lambda factor: places[factor.scope[-1]])
        self._tell()
        factors = tuple(self._factors)
        return Document(self.states, factors, directed, name, self._properties)

    def _tell(self) -> None:
        """Warn of what was mended."""
        if self._raised:
            warn(f"{self.file}: numbers below zero were taken for zero. {_some(self._raised)}", RescaledTableWarning)
        if self._rescaled:
            warn(
                f"{self.file}: rows that do not sum to 1 were divided by their sum. {_some(self._rescaled)}",
                RescaledTableWarning,
            )

    def _check_cycles(self) -> None:
        parents = {factor.scope[-1]: factor.scope[:-1] for factor in self._factors}
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
        while name not in path:  # each that waits has a parent that waits, so this comes back to where it was
            path[name] = None
            name = next(parent for parent in parents[name] if parent in waiting)
        cycle = list(path)[list(path).index(name) :][::-1]
        arrows = " -> ".join(map(shown, [cycle[-1], *cycle][:12])) + (" -> ..." if len(cycle) > 11 else "")
        line = self._tables[cycle[0]]
        raise self.error(line, f"the network has a cycle: {arrows}. Remove one of its arrows.")
