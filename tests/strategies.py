"""Hypothesis strategies: small random networks with all their numbers, evidence for them, and row weights.

The structure is drawn choice by choice, so that Hypothesis can shrink it; the numbers come from one drawn seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from brute_force import Array, Oracle, assignments
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from fgrn.graph.blocks import SISO, Block, Diverter, Source, Variable

CARDINALITIES = st.sampled_from([2, 3, 2, 2, 3, 4, 2, 3, 2, 1, 2, 3, 2])
SEEDS = st.integers(0, 2**32 - 1)
LARGEST_DIVERTER = 12
"""The most states of the product space of a drawn Diverter."""

Value: TypeAlias = int | list[float] | None


@dataclass(frozen=True)
class SmallNetwork:
    """Blocks and their numbers: tables by the SISO's output, priors by the Source's variable."""

    blocks: list[Block]
    tables: dict[str, Array] = field(init=False)
    priors: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", {})
        object.__setattr__(self, "priors", {})
        for block in self.blocks:
            if isinstance(block, SISO) and block.table is not None:
                self.tables[block.output.name] = block.table
            elif isinstance(block, Source) and block.prior is not None:
                self.priors[block.variable.name] = block.prior

    @property
    def variables(self) -> dict[str, Variable]:
        """Every variable by its name."""
        return {one.name: one for block in self.blocks for one in (*block.reads, *block.drives)}

    @property
    def size(self) -> int:
        """The number of assignments that the Diverters allow."""
        return _size(self.variables.values(), self.blocks)

    def oracle(self, evidence: Evidence) -> Oracle:
        """Return the oracle of this network for some rows of evidence."""
        return Oracle(self.blocks, self.tables, self.priors, evidence.weights, evidence.known, evidence.rows)


@dataclass(frozen=True)
class Evidence:
    """The same rows as a user writes them and as the oracle reads them.

    `columns` has one value per row: a code, None (unknown) or a list of weights. `weights` has the shape
    (rows, cardinality), `known` (rows,). All three have the same names, and at least one.
    """

    rows: int
    columns: dict[str, list[Value]]
    weights: dict[str, Array] = field(repr=False)
    known: dict[str, NDArray[np.bool_]] = field(repr=False)


# Networks


@st.composite
def networks(
    draw: DrawFn, *, zeros: bool = True, constraints: bool = True, largest: int = 20_000, steps: int = 10
) -> SmallNetwork:
    """Draw a random tree with at most `largest` assignments, grown from one variable in at most `steps` steps.

    With `zeros` tables and priors have some exact zeros; otherwise every number is positive. `constraints` allows
    learn=False, ties and (with `zeros`) supports.
    """
    tree = _Tree(Variable("V0", draw(CARDINALITIES)), largest)
    for _ in range(draw(st.integers(1, steps))):
        tree.grow(draw)
    for variable in tree.undriven:
        if not tree.blocks or draw(st.integers(0, 3)):  # the others stay open inputs
            tree.blocks.append(Source(variable))
    return _with_numbers(draw, draw(st.permutations(tree.blocks)), zeros, constraints)


@st.composite
def loopy_networks(draw: DrawFn, *, zeros: bool = True, constraints: bool = True) -> SmallNetwork:
    """Draw a network with one loop: a Diverter, two paths of one or two SISO blocks, and a Diverter joining them."""
    cardinalities = st.sampled_from([2, 3])
    names = iter(range(1_000))

    def new(cardinality: int) -> Variable:
        return Variable(f"V{next(names)}", cardinality)

    root = new(draw(cardinalities))
    branches = [new(root.cardinality) for _ in range(draw(st.integers(2, 3)))]
    blocks: list[Block] = [Source(root)] if draw(st.integers(0, 3)) else []
    blocks.append(Diverter([root], branches))
    ends = []
    for end in branches[:2]:
        for _ in range(draw(st.integers(1, 2))):
            beyond = new(draw(cardinalities))
            blocks.append(SISO(end, beyond))
            end = beyond
        ends.append(end)
    joined = [new(prod(end.cardinality for end in ends)) for _ in range(draw(st.integers(1, 2)))]
    blocks.append(Diverter(ends, joined))
    loose = [end for end in [*branches[2:], *joined] if draw(st.booleans())]
    blocks.extend(SISO(end, new(draw(cardinalities))) for end in loose)
    return _with_numbers(draw, draw(st.permutations(blocks)), zeros, constraints)


class _Tree:
    """A tree that grows at its loose ends: each new block shares one variable with the existing ones."""

    def __init__(self, first: Variable, largest: int) -> None:
        self.largest = largest
        self.blocks: list[Block] = []
        self.variables = [first]

    @property
    def undriven(self) -> list[Variable]:
        driven = {one.name for block in self.blocks for one in block.drives}
        return [variable for variable in self.variables if variable.name not in driven]

    @property
    def unread(self) -> list[Variable]:
        read = {one.name for block in self.blocks for one in block.reads}
        return [variable for variable in self.variables if variable.name not in read]

    def grow(self, draw: DrawFn) -> None:
        """Adds a SISO or a Diverter above or below a loose end, unless that makes the network too large."""
        ends = [(end, "below") for end in self.unread] + [(end, "above") for end in self.undriven]
        if not ends:
            return
        end, place = draw(st.sampled_from(ends))
        kind = draw(st.sampled_from([SISO, SISO, Diverter]))
        names = iter(range(len(self.variables), 1_000))

        def new(cardinality: int) -> Variable:
            return Variable(f"V{next(names)}", cardinality)

        block: Block
        if kind is SISO:
            other = new(draw(CARDINALITIES))
            block = SISO(end, other) if place == "below" else SISO(other, end)
        elif place == "below":
            inputs = [end] + [new(draw(CARDINALITIES)) for _ in range(draw(st.sampled_from([0, 1, 0, 2])))]
            inputs = draw(st.permutations(inputs))
            size = prod(one.cardinality for one in inputs)
            if size > LARGEST_DIVERTER:
                return
            block = Diverter(inputs, [new(size) for _ in range(draw(st.integers(1, 4)))])
        else:
            inputs = [new(factor) for factor in draw(st.sampled_from(_factorisations(end.cardinality)))]
            outputs = [end] + [new(end.cardinality) for _ in range(draw(st.integers(0, 3)))]
            block = Diverter(inputs, draw(st.permutations(outputs)))
        variables = self.variables + [one for one in (*block.reads, *block.drives) if one != end]
        if _size(variables, [*self.blocks, block]) <= self.largest:
            self.blocks.append(block)
            self.variables = variables


def _factorisations(number: int) -> list[tuple[int, ...]]:
    """The number as the product of one, two or three factors, in every order; few of them ones."""
    pairs = [(one, number // one) for one in range(1, number + 1) if number % one == 0]
    triples = [(one, *rest) for one, other in pairs if 1 < one < number for rest in _factorisations(other)]
    return [(number,), *pairs, *(triple for triple in triples if len(triple) == 3)]


def _size(variables: Any, blocks: Sequence[Block]) -> int:
    decided = {one.name for block in blocks if isinstance(block, Diverter) for one in block.outputs}
    return prod(variable.cardinality for variable in variables if variable.name not in decided)


# Numbers


def _with_numbers(draw: DrawFn, blocks: Sequence[Block], zeros: bool, constraints: bool) -> SmallNetwork:
    """Return the blocks with drawn tables, priors, learn, tie and support."""
    rng = np.random.default_rng(draw(SEEDS))
    rarely = st.sampled_from([False, False, False, False, constraints])
    tied: dict[tuple[int, int], dict[str, Any]] = {}  # at most one shared table of each shape
    finished: list[Block] = []
    for block in blocks:
        if isinstance(block, Source):
            prior = _random_rows(rng, np.ones((1, block.variable.cardinality), dtype=bool), zeros)[0]
            finished.append(Source(block.variable, prior, learn=not draw(rarely)))
        elif isinstance(block, SISO):
            shape = (block.input.cardinality, block.output.cardinality)
            settings = _random_settings(rng, shape, zeros, masked=zeros and draw(rarely))
            settings["learn"] = not draw(rarely)
            if constraints and draw(st.booleans()):
                settings = tied.setdefault(shape, settings | {"tie": f"{shape[0]}x{shape[1]}"})
            finished.append(SISO(block.input, block.output, **settings))
        else:
            finished.append(block)
    return SmallNetwork(finished)


def _random_settings(rng: np.random.Generator, shape: tuple[int, int], zeros: bool, masked: bool) -> dict[str, Any]:
    allowed = np.ones(shape, dtype=bool)
    if masked:
        allowed = rng.random(shape) < 0.6
        allowed[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    return {"table": _random_rows(rng, allowed, zeros), "support": allowed if masked else None}


def _random_rows(rng: np.random.Generator, allowed: NDArray[np.bool_], zeros: bool) -> Array:
    """Stochastic rows that are zero where not `allowed`, and with `zeros` in one allowed cell of four too."""
    values = np.where(allowed, rng.uniform(0.05, 1, allowed.shape), 0)
    if zeros:
        keep = rng.random(allowed.shape) < 0.75
        keep[np.arange(len(values)), values.argmax(axis=1)] = True
        values = values * keep
    rows: Array = values / values.sum(axis=1, keepdims=True)
    return rows


# Rows


@st.composite
def evidence(draw: DrawFn, network: SmallNetwork, rows: int, *, possible: bool = True, soft: bool = True) -> Evidence:
    """Values on a random choice of the variables, inner edges too: codes, unknown, and (with `soft`) weights.

    With `possible` no row has probability zero: each is drawn around an assignment that the network allows.
    Weights are not all zero and, of two or more, not all equal: those would say as little as None does.
    """
    rng = np.random.default_rng(draw(SEEDS))
    truth = _random_assignments(rng, network, rows, possible)
    columns: dict[str, list[Value]] = {}
    weights: dict[str, Array] = {}
    known: dict[str, NDArray[np.bool_]] = {}
    kinds = ["code", "unknown", "weights"] if soft else ["code", "unknown"]
    named = [name for name in network.variables if draw(st.booleans())] or list(network.variables)[:1]
    for name in named:
        cardinality = network.variables[name].cardinality
        columns[name], weights[name] = [], np.ones((rows, cardinality))
        for row, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=rows, max_size=rows))):
            value: Value = None
            if kind == "code":
                value = int(truth[name][row])
                weights[name][row] = np.arange(cardinality) == value
            elif kind == "weights":
                weights[name][row] = _random_weights(rng, cardinality, truth[name][row])
                value = weights[name][row].tolist()
            columns[name].append(value)
        known[name] = np.array([value is not None for value in columns[name]])
    return Evidence(rows, columns, weights, known)


@st.composite
def weights(draw: DrawFn, rows: int) -> Array:
    """One weight per row: not negative, some zero, not all of them."""
    values = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5, 0.0, 3.25]), min_size=rows, max_size=rows))
    if not any(values):
        values[draw(st.integers(0, rows - 1))] = 1.0
    return np.array(values)


@st.composite
def networks_with_evidence(
    draw: DrawFn,
    network: SearchStrategy[SmallNetwork] | None = None,
    *,
    most_rows: int = 6,
    possible: bool = True,
    soft: bool = True,
) -> tuple[SmallNetwork, Evidence]:
    """A network, of `networks()` unless told otherwise, and one to `most_rows` rows of evidence for it."""
    drawn = draw(networks() if network is None else network)
    return drawn, draw(evidence(drawn, draw(st.integers(1, most_rows)), possible=possible, soft=soft))


def _random_assignments(
    rng: np.random.Generator, network: SmallNetwork, rows: int, possible: bool
) -> dict[str, NDArray[np.intp]]:
    if not possible:
        return {name: rng.integers(one.cardinality, size=rows) for name, one in network.variables.items()}
    states = assignments(network.blocks, network.variables.values())
    allowed = np.ones(len(next(iter(states.values()))), dtype=bool)
    for block in network.blocks:
        if isinstance(block, Source):
            allowed &= network.priors[block.variable.name][states[block.variable.name]] > 0
        elif isinstance(block, SISO):
            table = network.tables[block.output.name]
            allowed &= table[states[block.input.name], states[block.output.name]] > 0
    chosen = rng.choice(np.flatnonzero(allowed), size=rows)
    return {name: column[chosen] for name, column in states.items()}


def _random_weights(rng: np.random.Generator, cardinality: int, positive_at: int) -> Array:
    values = rng.uniform(0.05, 1, cardinality)
    values[rng.random(cardinality) < 0.25] = 0
    values[positive_at] = rng.uniform(0.05, 1)
    return values * 10.0 ** rng.integers(-3, 4)
