"""What a network is made of: Variable, Source, SISO, Diverter, and how they are wired. No arithmetic here.

A Variable is an edge that carries two messages; every block sits at the ends of edges. A block *drives* the
variables it points at and *reads* those that point at it:

    Source ──> V          drives its variable
    V ──> SISO ──> Y      reads V, drives Y
    inputs ──> Diverter ──> outputs

so a variable has at most one driver and at most one reader. `Wiring` holds the checked result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .exceptions import TableError, WiringError, shortened, unknown_name

Label: TypeAlias = str | int | float | bool
Labels: TypeAlias = tuple[Label, ...] | range

PRODUCT_SPACE_LIMIT = 2**24
"""Most states the product space of one Diverter may have: one message of that size is 128 MiB."""

ROW_SUM_TOLERANCE = 1e-6
"""How far the sum of a given distribution may be from one: tables in files are often rounded to 7 digits."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Variable:
    """An edge of the graph: a name and its states, given as a number or as a list of labels.

    Without labels the states are called 0, 1, 2, ... Labels are strings, numbers or booleans, all different.
    """

    name: str
    labels: Labels

    def __init__(self, name: str, states: int | Iterable[Label]) -> None:
        if not isinstance(name, str) or not name.strip():
            raise WiringError(f"A Variable needs a name, a string that is not blank. Got {name!r} instead.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "labels", _checked_labels(name, states))

    @property
    def cardinality(self) -> int:
        """The number of states."""
        return len(self.labels)

    @property
    def is_labelled(self) -> bool:
        """Whether the states were given names, and are not just numbered from zero."""
        return not isinstance(self.labels, range)

    def code(self, state: object) -> int:
        """The position of a state, given by its label or, where the labels are not numbers, by its position."""
        if isinstance(state, np.generic):
            state = state.item()
        for position, label in enumerate(self.labels):
            if label == state:
                return position
        numbered = any(isinstance(label, (int, float)) for label in self.labels)
        if not numbered and isinstance(state, int) and 0 <= state < self.cardinality:
            return state
        raise unknown_name(f"state of {self.name!r} called", state, self.labels)

    def __repr__(self) -> str:
        states = list(self.labels) if self.is_labelled else self.cardinality
        return f"Variable({self.name!r}, {states!r})"


def _checked_labels(name: str, states: Any) -> Labels:
    if isinstance(states, (bool, np.bool_, str)) or states is None:
        raise WiringError(f"Variable {name!r}: the states are a number or a list of labels. Got {states!r} instead.")
    if isinstance(states, (int, np.integer)):
        if states < 1:
            raise WiringError(f"Variable {name!r} needs at least one state. Got {states} instead.")
        return range(int(states))
    try:
        labels = tuple(item.item() if isinstance(item, np.generic) else item for item in states)
    except TypeError:
        raise WiringError(
            f"Variable {name!r}: the states are a number or a list of labels. Got {states!r} instead."
        ) from None
    if not labels:
        raise WiringError(f"Variable {name!r} needs at least one state. Got an empty list of labels.")
    for label in labels:
        if not isinstance(label, (str, int, float)) or label != label:
            raise WiringError(
                f"Variable {name!r}: a label is a string, a number or a boolean; {label!r} is none of them "
                "(None and NaN stand for 'unknown' in data)."
            )
    if len(set(labels)) != len(labels):
        twice = sorted({str(label) for label in labels if labels.count(label) > 1})
        raise WiringError(f"Variable {name!r} has states with the same label: {shortened(twice)}.")
    if labels == tuple(range(len(labels))) and not any(isinstance(label, (bool, float)) for label in labels):
        return range(len(labels))
    return labels


def _frozen_array(values: ArrayLike | None, what: str) -> np.ndarray | None:
    if values is None:
        return None
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"{what} is not a rectangular array of numbers.") from None
    array.setflags(write=False)
    return array


def _check_distribution(array: np.ndarray, what: str, row_names: Sequence[object] = ()) -> None:
    rows = np.atleast_2d(array)
    bad = np.argwhere(~np.isfinite(rows) | (rows < 0))
    if len(bad):
        at, value = tuple(bad[0]), rows[tuple(bad[0])]
        where = f" in row {row_names[at[0]]!r}" if len(row_names) else ""
        raise TableError(f"{what} holds {value}{where}; probabilities are finite and not negative.")
    sums = rows.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)
    if len(off):
        where = f"row {row_names[off[0]]!r}" if len(row_names) else "it"
        more = f" ({len(off):,} rows are wrong)" if len(off) > 1 else ""
        hint = " Its columns do: is it transposed?" if _is_transposed(array) else ""
        raise TableError(f"{what} must sum to 1, but {where} sums to {sums[off[0]]:.9g}{more}.{hint}")


def _is_transposed(array: np.ndarray) -> bool:
    return array.ndim == 2 and bool(np.all(np.abs(array.sum(axis=0) - 1) <= ROW_SUM_TOLERANCE))


def _normalised(array: np.ndarray) -> np.ndarray:
    """Rows that sum to one as nearly as floating point allows, unless they did already."""
    sums = array.sum(axis=-1, keepdims=True)
    exact: np.ndarray = np.where(np.abs(sums - 1) < 1e-15, array, array / sums)
    exact.setflags(write=False)
    return exact


class _Block:
    """What all blocks share: the variables they read and drive, and equality by value."""

    __slots__ = ()
    reads: tuple[Variable, ...]
    drives: tuple[Variable, ...]

    def _value(self) -> tuple[object, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Block) or type(self) is not type(other):
            return NotImplemented
        return all(_same(a, b) for a, b in zip(self._value(), other._value(), strict=True))

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.reads, self.drives))


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return a == b


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Source(_Block):
    """An independent variable with its prior. `learn=False` keeps the prior as it is."""

    variable: Variable
    prior: np.ndarray | None
    learn: bool

    def __init__(self, variable: Variable, prior: ArrayLike | None = None, learn: bool = True) -> None:
        _check_variable(variable, "Source")
        array = _frozen_array(prior, f"The prior of {variable.name!r}")
        if array is not None:
            what = f"The prior of {variable.name!r}"
            if array.shape != (variable.cardinality,):
                raise TableError(f"{what} must have the shape ({variable.cardinality},). Got {array.shape} instead.")
            _check_distribution(array, what)
            array = _normalised(array)
        object.__setattr__(self, "variable", variable)
        object.__setattr__(self, "prior", array)
        object.__setattr__(self, "learn", bool(learn))

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables that point at it."""
        return ()

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it points at."""
        return (self.variable,)

    def _value(self) -> tuple[object, ...]:
        return self.variable, self.prior, self.learn

    def __repr__(self) -> str:
        extra = ("" if self.prior is None else ", prior=...") + ("" if self.learn else ", learn=False")
        return f"Source({self.variable!r}{extra})"


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SISO(_Block):
    """A row-stochastic table P(output | input), one row per state of the input.

    `learn=False` freezes the table. Blocks with the same `tie` share one table. `support` is a boolean mask of
    the cells that may be other than zero: learning and smoothing never fill the others (the identity as
    support keeps a table diagonal).
    """

    input: Variable
    output: Variable
    table: np.ndarray | None
    learn: bool
    tie: str | None
    support: np.ndarray | None

    def __init__(
        self,
        input: Variable,
        output: Variable,
        table: ArrayLike | None = None,
        learn: bool = True,
        *,
        tie: str | None = None,
        support: ArrayLike | None = None,
    ) -> None:
        _check_variable(input, "SISO")
        _check_variable(output, "SISO")
        if input.name == output.name:
            raise WiringError(f"SISO {input.name!r} -> {output.name!r}: input and output are the same variable.")
        if tie is not None and (not isinstance(tie, str) or not tie):
            raise WiringError(f"SISO {output.name!r}: 'tie' is the name of a shared table. Got {tie!r} instead.")
        what = f"The table of {output.name!r}"
        shape = (input.cardinality, output.cardinality)
        mask = _checked_support(support, shape, what)
        array = _frozen_array(table, what)
        if array is not None:
            if array.shape != shape:
                hint = " It looks transposed." if array.shape == shape[::-1] else ""
                raise TableError(
                    f"{what} must have the shape {shape}: {input.cardinality} states of {input.name!r} by "
                    f"{output.cardinality} of {output.name!r}. Got {array.shape} instead.{hint}"
                )
            _check_distribution(array, what, input.labels)
            if mask is not None and np.any(array[~mask] > 0):
                raise TableError(f"{what} is not zero where its 'support' says it must be.")
            array = _normalised(array)
        object.__setattr__(self, "input", input)
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "table", array)
        object.__setattr__(self, "learn", bool(learn))
        object.__setattr__(self, "tie", tie)
        object.__setattr__(self, "support", mask)

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables that point at it."""
        return (self.input,)

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it points at."""
        return (self.output,)

    def _value(self) -> tuple[object, ...]:
        return self.input, self.output, self.table, self.learn, self.tie, self.support

    def __repr__(self) -> str:
        extra = ("" if self.table is None else ", table=...") + ("" if self.learn else ", learn=False")
        extra += f", tie={self.tie!r}" if self.tie else ""
        return f"SISO({self.input!r}, {self.output!r}{extra})"


def _checked_support(support: ArrayLike | None, shape: tuple[int, int], what: str) -> np.ndarray | None:
    if support is None:
        return None
    mask = np.array(support, dtype=bool)
    if mask.shape != shape:
        raise TableError(f"{what}: its 'support' must have the shape {shape}. Got {mask.shape} instead.")
    if not mask.any(axis=1).all():
        raise TableError(f"{what}: its 'support' leaves row {int(np.argmin(mask.any(axis=1)))} without any cell.")
    mask.setflags(write=False)
    return mask


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Diverter(_Block):
    """All connected variables are the same; with several inputs, the outputs are their product space.

    The states of a product space are ordered with the first input slowest.
    """

    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]

    def __init__(self, inputs: Iterable[Variable], outputs: Iterable[Variable]) -> None:
        if isinstance(inputs, Variable) or isinstance(outputs, Variable):
            raise WiringError("A Diverter takes two lists of variables: Diverter([inputs], [outputs]).")
        ins, outs = tuple(inputs), tuple(outputs)
        for variable in ins + outs:
            _check_variable(variable, "Diverter")
        object.__setattr__(self, "inputs", ins)
        object.__setattr__(self, "outputs", outs)
        if not ins or not outs:
            raise WiringError(f"{self._title}: a Diverter needs at least one input and one output.")
        names = [variable.name for variable in ins + outs]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise WiringError(f"{self._title}: {shortened(map(repr, twice))} is on it more than once.")
        sizes = " x ".join(str(variable.cardinality) for variable in ins)
        if self.size > PRODUCT_SPACE_LIMIT:
            raise WiringError(
                f"{self._title}: the product space of its inputs has {sizes} = {self.size:,} states; the limit is "
                f"{PRODUCT_SPACE_LIMIT:,}. Join fewer variables, or split them over several Diverters."
            )
        for variable in outs:
            if variable.cardinality != self.size:
                expected = f"{sizes} = {self.size}" if len(ins) > 1 else f"{self.size}, as {ins[0].name!r} has"
                raise WiringError(
                    f"{self._title}: output {variable.name!r} has {variable.cardinality} states; it needs {expected}."
                )

    @property
    def size(self) -> int:
        """The number of states of the product space of the inputs."""
        return prod(variable.cardinality for variable in self.inputs)

    @property
    def _title(self) -> str:
        ins, outs = (shortened((v.name for v in side), 4) for side in (self.inputs, self.outputs))
        return f"Diverter [{ins}] -> [{outs}]"

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables that point at it."""
        return self.inputs

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it points at."""
        return self.outputs

    def _value(self) -> tuple[object, ...]:
        return self.inputs, self.outputs

    def __repr__(self) -> str:
        return f"Diverter({list(self.inputs)!r}, {list(self.outputs)!r})"


Block: TypeAlias = Source | SISO | Diverter


def _check_variable(variable: object, where: str) -> None:
    if not isinstance(variable, Variable):
        raise WiringError(f"A {where} joins Variables. Got {variable!r} instead.")


@dataclass(frozen=True)
class Wiring:
    """Blocks whose joints have been checked: every variable, its driver and its reader."""

    blocks: tuple[Block, ...]
    variables: dict[str, Variable] = field(init=False)
    drivers: dict[str, int] = field(init=False)
    readers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        if not self.blocks:
            raise WiringError("A Network needs at least one block.")
        for block in self.blocks:
            if not isinstance(block, (Source, SISO, Diverter)):
                raise WiringError(f"A Network is made of Source, SISO and Diverter blocks. Got {block!r} instead.")
        object.__setattr__(self, "variables", self._joined_variables())
        object.__setattr__(self, "drivers", {})
        object.__setattr__(self, "readers", {})
        for number, block in enumerate(self.blocks):
            for side, variables in ((self.drivers, block.drives), (self.readers, block.reads)):
                for variable in variables:
                    if variable.name in side:
                        raise self._joint_error(variable.name)
                    side[variable.name] = number
        self._check_connected()
        self._check_ties()

    def _joined_variables(self) -> dict[str, Variable]:
        variables: dict[str, Variable] = {}
        for block in self.blocks:
            for variable in (*block.reads, *block.drives):
                known = variables.setdefault(variable.name, variable)
                if known.cardinality != variable.cardinality:
                    raise WiringError(
                        f"Variable {variable.name!r} has {known.cardinality} states on one block and "
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
        titles = " and ".join(_title(block) for block in on[:3])
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

    def _check_ties(self) -> None:
        first: dict[str, SISO] = {}
        for block in self.blocks:
            if isinstance(block, SISO) and block.tie is not None:
                one = first.setdefault(block.tie, block)
                mine = (
                    block.table,
                    block.learn,
                    block.support,
                    block.input.cardinality,
                    block.output.cardinality,
                )
                theirs = (one.table, one.learn, one.support, one.input.cardinality, one.output.cardinality)
                if not all(_same(a, b) for a, b in zip(mine, theirs, strict=True)):
                    raise WiringError(
                        f"The SISO blocks of {one.output.name!r} and {block.output.name!r} are tied as "
                        f"{block.tie!r} but differ in shape, table, support or 'learn'; tied blocks share one table."
                    )

    def block_neighbours(self, name: str) -> Iterator[int]:
        """The blocks at the two ends of a variable."""
        for side in (self.drivers, self.readers):
            if name in side:
                yield side[name]

    def _distances_from(self, start: str) -> dict[str, int]:
        """How many blocks lie between `start` and each variable it reaches."""
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
    def is_tree(self) -> bool:
        """Whether the graph has no loop, so that two sweeps are exact."""
        joints = sum(len(list(self.block_neighbours(name))) for name in self.variables)
        return joints == len(self.variables) + len(self.blocks) - 1

    @cached_property
    def diameter(self) -> int:
        """The most blocks a message has to cross from one variable to another: the rounds that reach everything."""
        start = next(iter(self.variables))
        if self.is_tree:  # the farthest from anywhere is one end of a longest path
            distances = self._distances_from(start)
            far = max(distances, key=distances.__getitem__)
            return max(self._distances_from(far).values())
        return max(max(self._distances_from(name).values()) for name in self.variables)


def _title(block: Block) -> str:
    if isinstance(block, Source):
        return f"Source({block.variable.name})"
    if isinstance(block, SISO):
        return f"SISO({block.input.name} -> {block.output.name})"
    return block._title
