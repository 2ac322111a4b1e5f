"""The Plan: a network compiled once into frozen, read-only index arrays, the only input of all computations.

Three things live here, none of which computes:

- `Layout`: where every table and prior sits in one flat vector. Parameters and Counts are such vectors, so adding
  Counts, sending Parameters and comparing either is one operation on one array.
- `Plan`: edges, blocks and legs by number, and which messages the likelihood is made of.
- `Program`: the steps to take, in order, for a given purpose (all messages, some of them, one parallel round).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays import ReadOnlyArrays, frozen
from ..core.exceptions import unknown_name
from ..core.labels import Labels
from ..core.settings import Name, check_states, name_of
from .block_kinds import BLOCK_KINDS, STEP_KINDS, Message
from .junction_tables import JunctionTables, junction_tables_of


@dataclass(frozen=True, eq=False)
class Layout(ReadOnlyArrays):
    """The offsets of all tables and priors in one flat vector of float64.

    `table_names[t]` are the outputs of the SISO blocks that share table t (several where they are tied, by the name
    `ties[t]`); `prior_names[p]` is the variable of the Source.
    """

    table_names: tuple[tuple[str, ...], ...]
    table_shapes: tuple[tuple[int, int], ...]
    prior_names: tuple[str, ...]
    prior_sizes: tuple[int, ...]
    ties: tuple[str | None, ...]
    table_offsets: np.ndarray = field(init=False)
    prior_offsets: np.ndarray = field(init=False)
    size: int = field(init=False)
    _tables: Mapping[str, int] = field(init=False, repr=False)
    _priors: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbered = {tie: number for number, tie in enumerate(self.ties) if tie is not None}
        numbered |= {name: number for number, names in enumerate(self.table_names) for name in names}
        object.__setattr__(self, "_tables", numbered)
        object.__setattr__(self, "_priors", {name: number for number, name in enumerate(self.prior_names)})
        sizes = [rows * columns for rows, columns in self.table_shapes] + list(self.prior_sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        tables = len(self.table_shapes)
        object.__setattr__(self, "table_offsets", frozen(offsets[:tables]))
        object.__setattr__(self, "prior_offsets", frozen(offsets[tables:-1]))
        object.__setattr__(self, "size", int(offsets[-1]))

    @cached_property
    def lines(self) -> np.ndarray:
        """The offsets of all lines in a flat vector; a line is a row of a table or a prior, and sums to one."""
        begins = [
            start + columns * np.arange(rows)
            for start, (rows, columns) in zip(self.table_offsets, self.table_shapes, strict=True)
        ]
        return frozen(np.concatenate([*begins, self.prior_offsets]), np.int64)

    @cached_property
    def line_of(self) -> np.ndarray:
        """For each cell of a flat vector, the number of its line (row of a table, or prior)."""
        return frozen(np.repeat(np.arange(len(self.lines)), np.diff(self.lines, append=self.size)), np.intp)

    def spread(self, tables: Iterable[Any], priors: Iterable[Any], dtype: type = np.float64) -> np.ndarray:
        """Return a flat vector filled with one value or array for each table and for each prior."""
        out: np.ndarray = np.empty(self.size, dtype=dtype)
        for number, value in enumerate(tables):
            self.table(out, number)[...] = value
        for number, value in enumerate(priors):
            self.prior(out, number)[...] = value
        return out

    @property
    def tables_end(self) -> int:
        """The offset at which the tables end and the priors begin."""
        return self.size - sum(self.prior_sizes)

    def table(self, values: np.ndarray, number: int) -> np.ndarray:
        """Return the view of a table in a flat vector, of shape (input states, output states)."""
        rows, columns = self.table_shapes[number]
        start = self.table_offsets[number]
        return values[start : start + rows * columns].reshape(rows, columns)

    def prior(self, values: np.ndarray, number: int) -> np.ndarray:
        """Return the view of a prior in a flat vector, of shape (states,)."""
        start = self.prior_offsets[number]
        return values[start : start + self.prior_sizes[number]]

    def table_number(self, name: Name) -> int:
        """Return the number of the table of the SISO block with this output, or of the tie with this name."""
        try:
            return self._tables[name_of(name)]
        except (KeyError, TypeError):
            raise unknown_name("table", name, (n for names in self.table_names for n in names)) from None

    def prior_number(self, name: Name) -> int:
        """Return the number of the prior of the Source of this variable."""
        return _found("prior", name, self._priors)


@dataclass(frozen=True, eq=False)
class Program(ReadOnlyArrays):
    """Steps in order, each (kind, block, first target, last target); the targets of DIVERT are leg numbers.

    `gathered[leg]` is the leaf SISO whose backward message on this leg is read as a column of its table when the
    product is made, and never stored; -1 for a leg whose message is in the buffer. `boundary` are the edges
    without a reader whose backward message is the evidence; `shown` those of which both messages will have been
    made, so that there is a marginal. The likelihood of a row is the product of the norms of
    the messages in `inward`, and for each of `roots` of its norm and of its product with what it meets; both
    hold rows of (edge, is forward). Where only Diverters and what ends at them make up the network, messages away from
    the root may be made `by_posteriors`, and are no steps. `believed` are then shown edges that end at a Diverter and
    have no messages here, only the marginal, which is a part of the posterior; `plain` is a program with messages.
    """

    steps: np.ndarray
    targets: np.ndarray
    gathered: np.ndarray
    is_gathered: np.ndarray  # the same per SISO: whether it is
    boundary: np.ndarray
    shown: np.ndarray
    inward: np.ndarray
    roots: np.ndarray
    for_counts: bool = False  # the likelihood of a piece with a Diverter is then the norm of the root's posterior
    by_posteriors: bool = False
    needed: frozenset[int] | None = None  # the Diverters whose posteriors are; None for all
    believed: np.ndarray = field(default_factory=lambda: frozen([]))
    plain: Program | None = None


@dataclass(frozen=True, eq=False)
class Plan(ReadOnlyArrays):
    """A network as arrays: edges, blocks, legs, the order of the two sweeps, and the layout of its parameters.

    Edges: `cardinality[e]`; the messages of edge e are columns `offset[e] : offset[e + 1]` of a message buffer;
    `driver[e]` and `reader[e]` say whether a (not paused) block is at that end.
    Sources: source s sends the values from `source_at[s]` on; a factor is one that says something by itself.
    Legs: Diverter d has the legs `leg_start[d] : leg_start[d + 1]`, inputs first. A leg that carries a part of the
    product space has an index vector, its own state for every joint state, which is the sum of two: one per run of
    `diverter_run[d]` joint states and one per place in the run, both from `maps[leg_map[leg]]` on. `leg_map` is -1
    where the leg carries the whole space.
    """

    names: tuple[str, ...]
    labels: tuple[Labels, ...]
    layout: Layout
    cardinality: np.ndarray
    offset: np.ndarray
    driver: np.ndarray
    reader: np.ndarray
    source_edge: np.ndarray
    source_at: np.ndarray
    is_factor: np.ndarray
    siso_input: np.ndarray
    siso_output: np.ndarray
    siso_table: np.ndarray
    leg_start: np.ndarray
    leg_edge: np.ndarray
    leg_is_input: np.ndarray
    leg_map: np.ndarray
    leg_siso: np.ndarray  # the leaf SISO behind this leg, or -1
    maps: np.ndarray
    diverter_size: np.ndarray
    diverter_run: np.ndarray
    spaces: tuple[tuple[int, ...], ...]  # of each Diverter: the sizes of what its product space is made of
    leg_axes: tuple[tuple[int, ...] | None, ...]  # which of them a leg carries; None for all, as they are
    is_tree: bool
    # (kind, block, parent leg or edge) from the root outwards; empty on a loop
    order: tuple[tuple[int, int, int], ...]
    root: np.ndarray  # positions in `order` that are roots, one per connected piece
    index: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: edge for edge, name in enumerate(self.names)})

    @cached_property
    def work(self) -> int:
        """An estimate of the work per row: cells of tables, of messages, and of product spaces for each leg."""
        legs = np.diff(self.leg_start)
        spaces = int((legs * self.diverter_size).sum()) if self.is_factor.any() else 0
        return self.layout.size + self.states + spaces

    @cached_property
    def junction_tables(self) -> JunctionTables | None:
        """The tables of a junction tree and their variables; None if the network is not one."""
        return junction_tables_of(self)

    @property
    def reach(self) -> int:
        """The number of parallel rounds after which every message has reached every edge of a tree."""
        deepest, depth = 0, {-1: 0}
        for kind, block, parent in self.order:
            here = depth[parent] + 1 if parent >= 0 else 0
            deepest = max(deepest, here)
            depth.update((edge, here) for edge in self.ends(kind, block) if edge != parent)
        return 2 * deepest + 1

    @property
    def source_of(self) -> dict[int, int]:
        """A mapping from each edge that has a Source to the number of that Source."""
        return {edge: source for source, edge in enumerate(self.source_edge.tolist())}

    @property
    def edges(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def states(self) -> int:
        """The total number of states of all variables, which is the width of a message buffer."""
        return int(self.offset[-1])

    @property
    def diverters(self) -> int:
        """The number of Diverters."""
        return len(self.diverter_size)

    def edge(self, name: Name) -> int:
        """Return the number of a variable."""
        edge = _found("variable", name, self.index)
        check_states(name, self.labels[edge])
        return edge

    def columns(self, edge: int) -> slice:
        """Return the columns of a message buffer that belong to an edge."""
        return slice(int(self.offset[edge]), int(self.offset[edge + 1]))

    def ends(self, kind: int, block: int) -> list[int]:
        """Return the edges at a block."""
        return [edge for edge, _ in BLOCK_KINDS[kind].outgoing(self, block)]

    def step_messages(self, kind: int, block: int, legs: Sequence[int]) -> list[Message]:
        """Return the messages that a step of a program computes."""
        return STEP_KINDS[kind].messages(self, block, legs)

    def legs(self, diverter: int) -> range:
        """Return the range of leg numbers of a Diverter."""
        return range(int(self.leg_start[diverter]), int(self.leg_start[diverter + 1]))

    def leg_index(self, diverter: int, leg: int) -> np.ndarray | None:
        """Return the index vector of a leg; None if its variable has all joint states of the Diverter."""
        start = int(self.leg_map[leg])
        if start < 0:
            return None
        run = int(self.diverter_run[diverter])
        first = start + int(self.diverter_size[diverter]) // run
        index: np.ndarray = (self.maps[start:first, None] + self.maps[first : first + run]).ravel()
        return index

    def leg_groups(self, diverter: int, leg: int) -> np.ndarray:
        """Return the joint states of a Diverter grouped by the state of a leg, (states, joint states of each)."""
        space, axes = self.spaces[diverter], self.leg_axes[leg]
        joint = np.arange(int(self.diverter_size[diverter]))
        if axes is None:
            return joint[:, None]
        rest = [axis for axis in range(len(space)) if axis not in axes]
        return joint.reshape(space).transpose(*axes, *rest).reshape(int(self.cardinality[self.leg_edge[leg]]), -1)

    def source_values(self, values: np.ndarray, source: int) -> np.ndarray:
        """Return the view of the message of a Source, its prior or factor, in a flat vector."""
        start = int(self.source_at[source])
        return values[start : start + int(self.cardinality[self.source_edge[source]])]

    def all_messages(self) -> set[Message]:
        """Return both messages of every edge."""
        return {Message(edge, way) for edge in range(self.edges) for way in (True, False)}

    def messages_of(self, names: Sequence[str]) -> set[Message]:
        """Return both messages of the named variables."""
        return {Message(self.edge(name), way) for name in names for way in (True, False)}


def _found(kind: str, name: Name, numbers: Mapping[str, int]) -> int:
    try:
        return numbers[name_of(name)]
    except (KeyError, TypeError):
        raise unknown_name(kind, name, numbers) from None
