"""What a network is made of: Variable, Source, SISO, Diverter. No arithmetic here.

A Variable is an edge that carries two messages; every block sits at the ends of edges. A block *drives* the
variables it points at and *reads* those that point at it:

    Source ──> V          drives its variable
    V ──> SISO ──> Y      reads V, drives Y
    inputs ──> Diverter ──> outputs

so a variable has at most one driver and at most one reader. `wiring` joins them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .arrays import numbers
from .exceptions import TableError, WiringError, shortened, unknown_name
from .labels import Label, Labels, takes_codes

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
        labels = self.labels
        if isinstance(labels, range):  # not searched: for a word or a fraction it would be walked through
            whole = isinstance(state, int) or (isinstance(state, float) and state.is_integer())
            if whole and 0 <= state < len(labels):  # type: ignore[operator]  # a number, as it is whole
                return int(state)  # type: ignore[call-overload, no-any-return]
        elif isinstance(state, (str, int, float)) and state in labels:
            return labels.index(state)
        elif takes_codes(labels) and isinstance(state, int) and 0 <= state < len(labels):
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
        if states > sys.maxsize:
            raise WiringError(f"Variable {name!r} has {states:,} states, more than can be counted.")
        return range(int(states))
    if isinstance(states, range) and states and states == range(len(states)):
        return states
    if isinstance(states, (set, frozenset)):
        raise WiringError(f"Variable {name!r}: a set of labels has no order. Make it a list.")
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
        raise WiringError(f"Variable {name!r} has states with the same label: {shortened(_more_than_once(labels))}.")
    if labels == tuple(range(len(labels))) and not any(isinstance(label, (bool, float)) for label in labels):
        return range(len(labels))
    return labels


def _more_than_once(items: Sequence[Label]) -> list[str]:
    count = Counter(items)
    return sorted({str(item) for item in items if count[item] > 1})


def _frozen_array(values: ArrayLike | None, what: str) -> np.ndarray | None:
    if values is None:
        return None
    try:
        array = numbers(values)
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


def _restored(self: Any, state: Sequence[Any]) -> None:
    """Unpickle or copy a block: NumPy forgets that its arrays are read-only."""
    for name, value in zip(type(self).__slots__, state, strict=True):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(self, name, value)


def _checked_learn(learn: object, what: str) -> bool:
    if not isinstance(learn, (bool, np.bool_)):
        raise WiringError(f"{what}: 'learn' must be True or False. Got {learn!r} instead.")
    return bool(learn)


class _Block:
    """What all blocks share: the variables they read and drive, and equality by value."""

    __slots__ = ()
    reads: tuple[Variable, ...]
    drives: tuple[Variable, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Block) or type(self) is not type(other):
            return NotImplemented
        names: tuple[str, ...] = type(self).__slots__
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.reads, self.drives))


def same(a: object, b: object) -> bool:
    """Equality of what blocks hold, arrays by value."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return a == b


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Source(_Block):
    """An independent variable with its prior. `learn=False` keeps the prior as it is."""

    variable: Variable
    prior: np.ndarray | None
    learn: bool

    __setstate__ = _restored

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
        object.__setattr__(self, "learn", _checked_learn(learn, type(self).__name__))

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables that point at it."""
        return ()

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it points at."""
        return (self.variable,)

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

    __setstate__ = _restored

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
        object.__setattr__(self, "learn", _checked_learn(learn, type(self).__name__))
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

    def __repr__(self) -> str:
        extra = ("" if self.table is None else ", table=...") + ("" if self.learn else ", learn=False")
        extra += (f", tie={self.tie!r}" if self.tie else "") + ("" if self.support is None else ", support=...")
        return f"SISO({self.input!r}, {self.output!r}{extra})"


def _checked_support(support: ArrayLike | None, shape: tuple[int, int], what: str) -> np.ndarray | None:
    if support is None:
        return None
    try:
        mask = numbers(support)
    except (TypeError, ValueError):
        mask = np.full(shape, np.nan)
    if not np.isfinite(mask).all():
        raise TableError(f"{what}: its 'support' is not a rectangular array of True and False.")
    mask = mask.astype(bool)
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

    __setstate__ = _restored

    def __init__(self, inputs: Iterable[Variable], outputs: Iterable[Variable]) -> None:
        if isinstance(inputs, Variable) or isinstance(outputs, Variable):
            raise WiringError("A Diverter takes two lists of variables: Diverter([inputs], [outputs]).")
        try:
            ins, outs = tuple(inputs), tuple(outputs)
        except TypeError:
            raise WiringError("A Diverter takes two lists of variables: Diverter([inputs], [outputs]).") from None
        for variable in ins + outs:
            _check_variable(variable, "Diverter")
        object.__setattr__(self, "inputs", ins)
        object.__setattr__(self, "outputs", outs)
        if not ins or not outs:
            raise WiringError(f"{self._title}: a Diverter needs at least one input and one output.")
        names = [variable.name for variable in ins + outs]
        if len(set(names)) != len(names):
            raise WiringError(f"{self._title}: {shortened(map(repr, _more_than_once(names)))} is on it more than once.")
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

    def __repr__(self) -> str:
        return f"Diverter({list(self.inputs)!r}, {list(self.outputs)!r})"


Block: TypeAlias = Source | SISO | Diverter


def _check_variable(variable: object, where: str) -> None:
    if not isinstance(variable, Variable):
        raise WiringError(f"A {where} joins Variables. Got {variable!r} instead.")


def title(block: Block) -> str:
    """What a block is called in an error message."""
    if isinstance(block, Source):
        return f"Source({block.variable.name})"
    if isinstance(block, SISO):
        return f"SISO({block.input.name} -> {block.output.name})"
    return block._title


def line(block: Block) -> str:
    """A block in one line, for people."""
    if isinstance(block, Source):
        kept = "" if block.learn else ", fixed"
        return f"Source    {block.variable.name} ({block.variable.cardinality} states{kept})"
    if isinstance(block, Diverter):
        ins = " x ".join(variable.name for variable in block.inputs)
        outs = ", ".join(variable.name for variable in block.outputs[:6])
        more = f", ... ({len(block.outputs) - 6} more)" if len(block.outputs) > 6 else ""
        return f"Diverter  {ins} -> {outs}{more}"
    extra = ("" if block.learn else ", fixed") + (f", tied as {block.tie!r}" if block.tie else "")
    extra += "" if block.support is None else ", with a support"
    shape = f"{block.input.cardinality} x {block.output.cardinality}"
    return f"SISO      {block.input.name} -> {block.output.name} ({shape}{extra})"
