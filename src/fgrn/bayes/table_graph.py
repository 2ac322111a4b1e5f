"""The tables that an answer depends on: those of ancestors, and not those separated by evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .directed_graph import closure
from .realisation import ScopedTable


class TableGraph:
    """The tables that contain each variable, and its ancestors; computed once per model."""

    def __init__(self, parts: Sequence[ScopedTable]) -> None:
        self.parts = tuple(parts)
        self._directed = all(part.conditional for part in parts)
        self._parents = {part.scope[-1]: part.scope[:-1] for part in parts} if self._directed else {}
        self._tables_of: dict[str, list[int]] = {}
        for number, part in enumerate(parts):
            for name in part.scope:
                self._tables_of.setdefault(name, []).append(number)

    def alive(self, names: Collection[str]) -> tuple[ScopedTable, ...]:
        """Return the tables of some variables and their ancestors; all tables of an undirected model."""
        if not self._directed:
            return self.parts
        alive = closure(names, self._parents)
        return tuple([part for part in self.parts if part.scope[-1] in alive])

    def near_and_apart(
        self, target: Collection[str], known: Collection[str], weighted: Collection[str]
    ) -> tuple[tuple[ScopedTable, ...], tuple[ScopedTable, ...]]:
        """Return the tables connected to a target by unknown variables, and the other tables that are alive."""
        alive = closure({*target, *known, *weighted}, self._parents) if self._directed else None
        found = self._joined(target, known, alive)
        near = tuple([self.parts[number] for number in sorted(found)])
        others = [part for number, part in enumerate(self.parts) if number not in found]
        return near, tuple([part for part in others if alive is None or part.scope[-1] in alive])

    def joined_to(
        self, some: Collection[ScopedTable], parts: Collection[ScopedTable], known: Collection[str]
    ) -> tuple[ScopedTable, ...]:
        """Return those of `parts` that unknown variables connect to `some` tables, including these."""
        alive = {part.scope[-1] for part in parts} if self._directed else None
        found = self._joined([name for part in some for name in part.scope], known, alive)
        wanted = {part.name for part in some} | {self.parts[number].name for number in found}
        return tuple([part for part in parts if part.name in wanted])

    def _joined(self, names: Collection[str], known: Collection[str], alive: Collection[str] | None) -> set[int]:
        """Return the numbers of tables that are connected to some variables by unknown variables.

        Only those of variables that are alive, if these are given.
        """
        line = [name for name in names if name not in known]
        seen, found = set(line), set[int]()
        for name in line:  # the list grows during the loop
            for number in self._tables_of.get(name, ()):
                scope = self.parts[number].scope
                if number in found or (alive is not None and scope[-1] not in alive):
                    continue
                found.add(number)
                for other in scope:
                    if other not in seen and other not in known:
                        seen.add(other)
                        line.append(other)
        return found
