"""The blocks of networks: Source, Factor, SISO, Diverter; their variables, tables and checks, without arithmetic.

A Variable is an edge that carries two messages; every block sits at the ends of edges. A block *drives* the
variables it points at and *reads* those that point at it:

    Source ──> V          drives its variable
    Factor ──> V          the same, for a table over the joint states of several variables
    V ──> SISO ──> Y      reads V, drives Y
    inputs ──> Diverter ──> outputs

so a variable has at most one driver and at most one reader. `wiring` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..core.distributions import check_distribution, checked_support, frozen_array, normalised_rows
from ..core.exceptions import TableError, WiringError, counted, shortened
from ..core.variable import Variable, more_than_once
from ..flow.table_forms import TableForm
from ..plan.block_kinds import DIVERT, FORWARD, SOURCE

PRODUCT_SPACE_LIMIT = 2**26
"""Most states the product space of one Diverter may have unless it is given: a message of that size is 512 MiB."""


def _restored(self: Any, state: Sequence[Any]) -> None:
    """Set the state of an unpickled or copied block, with its arrays read-only again."""
    for name, value in zip(type(self).__slots__, state, strict=True):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(self, name, value)


def _checked_learn(learn: object, what: str) -> bool:
    if not isinstance(learn, (bool, np.bool_)):
        raise WiringError(f"{what}: 'learn' must be True or False. Got {learn!r} instead.")
    return bool(learn)


def _check_tie(tie: object, what: str) -> None:
    if tie is not None and (not isinstance(tie, str) or not tie):
        raise WiringError(f"{what}: 'tie' is the name of a shared table. Got {tie!r} instead.")


class _Block:
    """Base class of blocks: the variables they read and drive, and equality by value."""

    __slots__ = ()
    kind: ClassVar[int]
    reads: tuple[Variable, ...]
    drives: tuple[Variable, ...]

    @property
    def _title(self) -> str:
        """The block in error messages."""
        raise NotImplementedError

    @property
    def _line(self) -> str:
        """The block in the list of a network's blocks."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Block) or type(self) is not type(other):
            return NotImplemented
        names: tuple[str, ...] = type(self).__slots__
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.reads, self.drives))


def same(a: object, b: object) -> bool:
    """Return whether two attributes of blocks are equal, arrays by value."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return a == b


class _RootBlock(_Block):
    """Base class of blocks that drive one variable and read none."""

    __slots__ = ()
    variable: Variable

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables that point at it."""
        return ()

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it points at."""
        return (self.variable,)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Source(_RootBlock):
    """An independent variable with its prior. `learn=False` keeps the prior as it is."""

    kind: ClassVar[int] = SOURCE
    variable: Variable
    prior: np.ndarray | None
    learn: bool

    __setstate__ = _restored

    def __init__(self, variable: Variable, prior: ArrayLike | None = None, learn: bool = True) -> None:
        _check_variable(variable, "Source")
        array = frozen_array(prior, f"The prior of {variable.name!r}")
        if array is not None:
            what = f"The prior of {variable.name!r}"
            if array.shape != (variable.cardinality,):
                raise TableError(f"{what} must have the shape ({variable.cardinality},). Got {array.shape} instead.")
            check_distribution(array, what)
            array = normalised_rows(array)
        object.__setattr__(self, "variable", variable)
        object.__setattr__(self, "prior", array)
        object.__setattr__(self, "learn", _checked_learn(learn, type(self).__name__))

    @property
    def _title(self) -> str:
        return f"Source({self.variable.name})"

    @property
    def _line(self) -> str:
        kept = "" if self.learn else ", fixed"
        return f"Source    {self.variable.name} ({counted(self.variable.cardinality, 'state')}{kept})"

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

    kind: ClassVar[int] = FORWARD
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
        _check_tie(tie, f"SISO {output.name!r}")
        what = f"The table of {output.name!r}"
        shape = (input.cardinality, output.cardinality)
        mask = checked_support(support, shape, what)
        array = frozen_array(table, what)
        if array is not None:
            if array.shape != shape:
                hint = " It looks transposed." if array.shape == shape[::-1] else ""
                raise TableError(
                    f"{what} must have the shape {shape}: {counted(input.cardinality, 'state')} of {input.name!r} by "
                    f"{output.cardinality} of {output.name!r}. Got {array.shape} instead.{hint}"
                )
            check_distribution(array, what, input.labels)
            if mask is not None and np.any(array[~mask] > 0):
                raise TableError(f"{what} is not zero where its 'support' says it must be.")
            array = normalised_rows(array)
        object.__setattr__(self, "input", input)
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "table", array)
        object.__setattr__(self, "learn", _checked_learn(learn, type(self).__name__))
        object.__setattr__(self, "tie", tie)
        object.__setattr__(self, "support", mask)

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it reads (its inputs)."""
        return (self.input,)

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it drives (its outputs)."""
        return (self.output,)

    @property
    def name(self) -> str:
        """The name of its table: that of its output."""
        return self.output.name

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of its table, (input states, output states)."""
        return self.input.cardinality, self.output.cardinality

    @property
    def _title(self) -> str:
        return f"SISO({self.input.name} -> {self.output.name})"

    @property
    def _line(self) -> str:
        extra = ("" if self.learn else ", fixed") + (f", tied as {self.tie!r}" if self.tie else "")
        extra += "" if self.support is None else ", with a support"
        shape = f"{self.input.cardinality} x {self.output.cardinality}"
        return f"SISO      {self.input.name} -> {self.output.name} ({shape}{extra})"

    def __repr__(self) -> str:
        extra = ("" if self.table is None else ", table=...") + ("" if self.learn else ", learn=False")
        extra += (f", tie={self.tie!r}" if self.tie else "") + ("" if self.support is None else ", support=...")
        return f"SISO({self.input!r}, {self.output!r}{extra})"


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Factor(_RootBlock):
    """A table over the joint states of several variables, which form one product variable: any factor of a model.

    The rows of the table are the slower part of the joint states, its columns the faster. `name` is its name, that of
    the child for a conditional table. One with `sums_to_one=False` is not a distribution, is never learnt, and is
    scaled to a largest number of 1; the logarithm of the scale is its `log_scale`. `learn`, `tie` and `support` are
    those of a SISO; `form` is the `TableForm` of a compact table.
    """

    kind: ClassVar[int] = SOURCE
    variable: Variable
    name: str
    shape: tuple[int, int]
    table: np.ndarray | None
    learn: bool
    tie: str | None
    support: np.ndarray | None
    sums_to_one: bool
    log_scale: float
    form: TableForm | None

    __setstate__ = _restored

    def __init__(
        self,
        variable: Variable,
        name: str,
        shape: tuple[int, int],
        table: ArrayLike | None = None,
        learn: bool = True,
        *,
        tie: str | None = None,
        support: ArrayLike | None = None,
        sums_to_one: bool = True,
        form: TableForm | None = None,
    ) -> None:
        _check_variable(variable, "Factor")
        _check_tie(tie, f"Factor {name!r}")
        what = f"The table of {name!r}"
        rows, columns = shape
        if rows * columns != variable.cardinality:
            raise TableError(
                f"{what} is {rows} x {columns}, and {variable.name!r} has "
                f"{counted(variable.cardinality, 'joint state')}."
            )
        mask = checked_support(support, shape, what)
        array = frozen_array(table, what)
        if array is not None and array.shape != shape:
            raise TableError(f"{what} must have the shape {shape}. Got {array.shape} instead.")
        if array is not None and sums_to_one:
            check_distribution(array, what)
            array = normalised_rows(array)
        if not sums_to_one and (array is None or not (np.isfinite(array).all() and (array >= 0).all() and array.any())):
            raise TableError(f"{what} needs numbers that are finite, not negative and not all zero.")
        log_scale = 0.0
        if array is not None and not sums_to_one:
            log_scale = float(np.log(array.max()))
            array = array / array.max()
            array.setflags(write=False)
        given = (
            variable,
            name,
            (rows, columns),
            array,
            _checked_learn(learn, "Factor") and sums_to_one,
            tie,
            mask,
            sums_to_one,
            log_scale,
            form,
        )
        for field, value in zip(type(self).__slots__, given, strict=True):
            object.__setattr__(self, field, value)

    @property
    def _title(self) -> str:
        return f"Factor({self.name})"

    @property
    def _line(self) -> str:
        kept = "" if self.learn else ", fixed"
        return f"Factor    {self.name} ({self.shape[0]} x {self.shape[1]}{kept})"

    def __repr__(self) -> str:
        extra = ("" if self.table is None else ", table=...") + ("" if self.learn else ", learn=False")
        extra += (f", tie={self.tie!r}" if self.tie else "") + ("" if self.support is None else ", support=...")
        extra += "" if self.sums_to_one else ", sums_to_one=False"
        return f"Factor({self.variable!r}, {self.name!r}, {self.shape!r}{extra})"


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Diverter(_Block):
    """A block whose variables are all equal; with several inputs, the outputs are their product space.

    The states of a product space are ordered with the first input slowest. With `space`, the names and sizes of the
    parts of the product space, the first slowest, every variable carries some of the parts: `legs` says which, by the
    variable's name, in the order of the variable's own states. One that is not in `legs` carries all. A product space
    of more than `limit` states is an error.
    """

    kind: ClassVar[int] = DIVERT
    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    space: tuple[tuple[str, int], ...]
    legs: tuple[tuple[int, ...] | None, ...]

    __setstate__ = _restored

    def __init__(
        self,
        inputs: Iterable[Variable],
        outputs: Iterable[Variable],
        *,
        space: Mapping[str, int] | None = None,
        legs: Mapping[str, Sequence[str]] | None = None,
        limit: int = PRODUCT_SPACE_LIMIT,
    ) -> None:
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
            raise WiringError(f"{self._title}: {shortened(map(repr, more_than_once(names)))} is on it more than once.")
        carried: list[tuple[int, ...] | None]
        if space is None:
            parts = tuple((variable.name, variable.cardinality) for variable in ins)
            carried = [(k,) if len(ins) > 1 else None for k in range(len(ins))]
            carried += [None] * len(outs)
        else:
            parts = tuple((str(name), int(size)) for name, size in space.items())
            places = {name: place for place, (name, _) in enumerate(parts)}
            self._check_legs(legs or {}, names)
            try:
                carried = [
                    None if legs is None or name not in legs else tuple(places[part] for part in legs[name])
                    for name in names
                ]
            except KeyError as error:
                raise WiringError(f"{self._title}: {error.args[0]!r} is not a part of its 'space'.") from None
        object.__setattr__(self, "space", parts)
        object.__setattr__(self, "legs", tuple(carried))
        sizes = " x ".join(str(size) for _, size in parts)
        if self.size > limit and len(parts) == 1:
            raise WiringError(
                f"{self._title}: a variable cannot have as many as {self.size:,} states; the limit is "
                f"{limit:,}. Give it fewer."
            )
        if self.size > limit:
            raise WiringError(
                f"{self._title}: the product space of its inputs has {sizes} = {self.size:,} states; the limit is "
                f"{limit:,}. Join fewer variables, or split them over several Diverters."
            )
        for variable, axes in zip(ins + outs, carried, strict=True):
            needed = self.size if axes is None else prod(parts[axis][1] for axis in axes)
            if variable.cardinality != needed:
                whole = f"{sizes} = {self.size}" if len(parts) > 1 else f"{self.size}, as {ins[0].name!r} has"
                expected = whole if axes is None else f"{needed}, as its parts have"
                raise WiringError(
                    f"{self._title}: output {variable.name!r} has "
                    f"{counted(variable.cardinality, 'state')}; it needs {expected}."
                )

    def _check_legs(self, legs: Mapping[str, Sequence[str]], names: Sequence[str]) -> None:
        for name, some in legs.items():
            if name not in names:
                raise WiringError(f"{self._title}: {name!r} is among its 'legs', and is not a variable on it.")
            if len(set(some)) < len(some):
                raise WiringError(f"{self._title}: {name!r} carries a part of its 'space' more than once.")

    @property
    def size(self) -> int:
        """The number of states of the product space."""
        return prod(size for _, size in self.space)

    @property
    def _title(self) -> str:
        ins, outs = (shortened((v.name for v in side), 4) for side in (self.inputs, self.outputs))
        return f"Diverter [{ins}] -> [{outs}]"

    @property
    def reads(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it reads (its inputs)."""
        return self.inputs

    @property
    def drives(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The variables it drives (its outputs)."""
        return self.outputs

    @property
    def _line(self) -> str:
        ins = " x ".join(variable.name for variable in self.inputs)
        outs = ", ".join(variable.name for variable in self.outputs[:6])
        more = f", ... ({len(self.outputs) - 6} more)" if len(self.outputs) > 6 else ""
        return f"Diverter  {ins} -> {outs}{more}"

    def __repr__(self) -> str:
        names = [name for name, _ in self.space]
        parts = {
            variable.name: [names[axis] for axis in axes]
            for variable, axes in zip(self.inputs + self.outputs, self.legs, strict=True)
            if axes is not None
        }
        extra = "" if names == [v.name for v in self.inputs] else f", space={dict(self.space)!r}, legs={parts!r}"
        return f"Diverter({list(self.inputs)!r}, {list(self.outputs)!r}{extra})"


Block: TypeAlias = Source | Factor | SISO | Diverter


def _check_variable(variable: object, where: str) -> None:
    if not isinstance(variable, Variable):
        raise WiringError(f"A {where} joins Variables. Got {variable!r} instead.")
