"""The tables that an answer depends on: those of ancestors, and not those separated by evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .directed_graph import closure
from .realisation import ScopedTable


class TableGraph:
    """The tables that contain each variable, and its ancestors; computed once per model.

    Attributes:
        parts: the tables.
        directed: whether all of them are distributions of their last variable.
    """

    def __init__(self, parts: Sequence[ScopedTable]) -> None:
        self.parts = tuple(parts)
        self.directed = all(part.conditional for part in parts)
        self._parents = {part.scope[-1]: part.scope[:-1] for part in parts} if self.directed else {}
        self._own = {part.scope[-1]: number for number, part in enumerate(parts)} if self.directed else {}
        self._tables_of: dict[str, list[int]] = {}
        for number, part in enumerate(parts):
            for name in part.scope:
                self._tables_of.setdefault(name, []).append(number)

    def alive(self, names: Collection[str]) -> tuple[ScopedTable, ...]:
        """Return the tables of some variables and their ancestors; all tables of an undirected model."""
        if not self.directed:
            return self.parts
        alive = closure(names, self._parents)
        return tuple([part for part in self.parts if part.scope[-1] in alive])

    def near_and_apart(
        self, target: Collection[str], known: Collection[str], weighted: Collection[str]
    ) -> tuple[tuple[ScopedTable, ...], tuple[ScopedTable, ...]]:
        """Return the tables connected to a target by unknown variables, and the other tables that are alive."""
        alive = closure({*target, *known, *weighted}, self._parents) if self.directed else None
        found = self._joined(target, known, alive)
        near = tuple([self.parts[number] for number in sorted(found)])
        if alive is None:
            return near, tuple([part for number, part in enumerate(self.parts) if number not in found])
        if len(near) == len(alive):
            return near, ()
        others = sorted({self._own[name] for name in alive} - found)
        return near, tuple([self.parts[number] for number in others])

    def joined_to(
        self, some: Collection[ScopedTable], parts: Collection[ScopedTable], known: Collection[str]
    ) -> tuple[ScopedTable, ...]:
        """Return those of `parts` that unknown variables connect to `some` tables, including these."""
        alive = {part.scope[-1] for part in parts} if self.directed else None
        found = self._joined([name for part in some for name in part.scope], known, alive)
        wanted = {part.name for part in some} | {self.parts[number].name for number in found}
        return tuple([part for part in parts if part.name in wanted])

    @staticmethod
    def deciding(
        parts: Sequence[ScopedTable], with_zeros: Collection[str], fixed: Collection[str]
    ) -> tuple[ScopedTable, ...]:
        """Those of some tables that decide whether evidence is possible: whether all are positive in some joint state.

        A table without zeros is positive in all. So is, in some state of its last variable, a distribution of it
        whatever the others are: it decides nothing if no other table that is left has this variable.

        Args:
            parts: the tables.
            with_zeros: the names of those with zeros, or with a variable on which there are weights.
            fixed: variables that are known, or on which there are weights.
        """
        left = [part for part in parts if part.name in with_zeros]
        uses: dict[str, int] = {}
        for part in left:
            for name in part.scope:
                uses[name] = uses.get(name, 0) + 1
        before = -1
        while before != len(left):
            before, kept = len(left), list[ScopedTable]()
            for part in reversed(left):  # children come after their parents, mostly
                last = part.scope[-1]
                if not part.conditional or uses[last] > 1 or last in fixed:
                    kept.append(part)
                    continue
                for name in part.scope:
                    uses[name] -= 1
            left = kept[::-1]
        return tuple(left)

    def _joined(self, names: Collection[str], known: Collection[str], alive: Collection[str] | None) -> set[int]:
        """Return the numbers of tables that are connected to some variables by unknown variables.

        Only those of variables that are alive, if these are given.
        """
        line = [name for name in names if name not in known]
        done, found = {*line, *known}, set[int]()
        parts, tables_of = self.parts, self._tables_of
        for name in line:  # grows while it is walked
            for number in tables_of.get(name, ()):
                if number in found:
                    continue
                scope = parts[number].scope
                if alive is not None and scope[-1] not in alive:
                    continue
                found.add(number)
                for other in scope:
                    if other not in done:
                        done.add(other)
                        line.append(other)
        return found
