"""Wiring: the driver and the reader of every variable, with checks; no arithmetic."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ..core.exceptions import WiringError, counted, shortened
from ..core.variable import Variable
from .blocks import SISO, Block, Diverter, Factor, Source, same

TABLE_LIMIT = 2**28
"""The most cells of one table: 2 GiB, and learning holds a few copies."""


@dataclass(frozen=True)
class Wiring:
    """Blocks with checked connections: every variable, its driver and its reader."""

    blocks: tuple[Block, ...]
    variables: Mapping[str, Variable] = field(init=False)
    drivers: Mapping[str, int] = field(init=False)
    readers: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        if not self.blocks:
            raise WiringError("A Network needs at least one block.")
        for block in self.blocks:
            if not isinstance(block, Block):
                raise WiringError(f"A Network is made of Source, SISO and Diverter blocks. Got {block!r} instead.")
        object.__setattr__(self, "variables", self._joined_variables())
        drivers: dict[str, int] = {}
        readers: dict[str, int] = {}
        for number, block in enumerate(self.blocks):
            for side, variables in ((drivers, block.drives), (readers, block.reads)):
                for variable in variables:
                    if variable.name in side:
                        raise self._joint_error(variable.name)
                    side[variable.name] = number
        object.__setattr__(self, "drivers", drivers)
        object.__setattr__(self, "readers", readers)
        self._check_connected()
        self._check_factors()
        check_ties(self.blocks)
        self._check_sizes()

    def _joined_variables(self) -> dict[str, Variable]:
        variables: dict[str, Variable] = {}
        for block in self.blocks:
            for variable in (*block.reads, *block.drives):
                known = variables.setdefault(variable.name, variable)
                if known.cardinality != variable.cardinality:
                    raise WiringError(
                        f"Variable {variable.name!r} has {counted(known.cardinality, 'state')} on one block and "
                        f"{variable.cardinality} on another. Two variables need two names; one needs the same "
                        "states at both ends."
                    )
                if known != variable:
                    raise WiringError(
                        f"Two different variables are called {variable.name!r}: their states are "
                        f"{shortened(known.labels)} and {shortened(variable.labels)}. A name stands for one variable."
                    )
        return variables

    def _joint_error(self, name: str) -> WiringError:
        on = [block for block in self.blocks if any(v.name == name for v in (*block.reads, *block.drives))]
        titles = " and ".join(block._title for block in on[:3])
        if len(on) > 2:
            return WiringError(
                f"Variable {name!r} is on {len(on)} blocks ({titles}); an edge has two ends. "
                "Replicate it with a Diverter."
            )
        if all(any(v.name == name for v in block.drives) for block in on):
            return WiringError(
                f"Variable {name!r} has reversed directions: {titles} both point at it. One of the two must read it."
            )
        return WiringError(
            f"Variable {name!r} has reversed directions: {titles} both read it. Let one drive it, or replicate it "
            "with a Diverter."
        )

    def _check_connected(self) -> None:
        seen = self._reached_from(next(iter(self.variables)))
        if len(seen) < len(self.variables):
            pieces = [sorted(seen)]
            rest = [name for name in self.variables if name not in seen]
            raise WiringError(
                f"The network falls into pieces: {shortened(pieces[0], 5)} are not connected with "
                f"{shortened(rest, 5)}. Make a Network of each, or join them."
            )

    def _check_factors(self) -> None:
        for block in self.blocks:
            if isinstance(block, Factor):
                reader = self.readers.get(block.variable.name)
                if reader is None or not isinstance(self.blocks[reader], Diverter):
                    raise WiringError(f"{block._title} stands alone: a Diverter has to read its variable.")

    def _check_sizes(self) -> None:
        for block in self.blocks:
            cells = prod(variable.cardinality for variable in (*block.reads, *block.drives))
            if not isinstance(block, Diverter) and cells > TABLE_LIMIT:
                what = f"{'prior' if isinstance(block, Source) else 'table'} of {block.drives[0].name!r}"
                raise WiringError(f"The {what} would have {cells:,} cells; the limit is {TABLE_LIMIT:,}.")

    def block_neighbours(self, name: str) -> Iterator[int]:
        """Yield the numbers of the blocks at the two ends of a variable."""
        for side in (self.drivers, self.readers):
            if name in side:
                yield side[name]

    def _distances_from(self, start: str) -> dict[str, int]:
        """Return the number of blocks between `start` and each variable that is reached from it."""
        distance, queue, visited = {start: 0}, deque([start]), set[int]()
        while queue:
            name = queue.popleft()
            for number in self.block_neighbours(name):
                if number in visited:
                    continue
                visited.add(number)
                block = self.blocks[number]
                for variable in (*block.reads, *block.drives):
                    if variable.name not in distance:
                        distance[variable.name] = distance[name] + 1
                        queue.append(variable.name)
        return distance

    def _reached_from(self, start: str) -> set[str]:
        return set(self._distances_from(start))

    @cached_property
    def log_scale(self) -> float:
        """The logarithm of the scales divided out of all Factors, which is added to the log-likelihood of every row."""
        return sum(block.log_scale for block in self.blocks if isinstance(block, Factor))

    @cached_property
    def is_tree(self) -> bool:
        """Whether the graph has no loop, so that two sweeps are exact."""
        joints = sum(len(list(self.block_neighbours(name))) for name in self.variables)
        return joints == len(self.variables) + len(self.blocks) - 1

    @cached_property
    def diameter(self) -> int:
        """The largest number of blocks between two variables: the number of rounds until all messages have arrived."""
        start = next(iter(self.variables))
        if self.is_tree:  # the variable farthest from any other is one end of a longest path
            distances = self._distances_from(start)
            far = max(distances, key=distances.__getitem__)
            return max(self._distances_from(far).values())
        return max(max(self._distances_from(name).values()) for name in self.variables)


def check_ties(blocks: Iterable[Block]) -> None:
    """Raise WiringError if tied blocks differ in shape, table, support or `learn`."""
    first: dict[str, SISO | Factor] = {}
    for block in blocks:
        if isinstance(block, (SISO, Factor)) and block.tie is not None:
            one = first.setdefault(block.tie, block)
            parts = ("table", "learn", "support", "shape", "form")
            pairs = [(getattr(block, part, None), getattr(one, part, None)) for part in parts]
            if type(one) is not type(block) or not all(same(a, b) for a, b in pairs):
                raise WiringError(
                    f"The {type(block).__name__} blocks of {one.name!r} and {block.name!r} are tied as "
                    f"{block.tie!r} but differ in shape, table, support or 'learn'; tied blocks share one table."
                )
