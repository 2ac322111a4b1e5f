"""Conversion of a discrete model to reduced normal form: by its junction tree (exact), or with its loops.

exact   every clique is a Diverter over the product space of its variables; what two cliques share is a variable
between them; a table comes in as a Factor, and a variable of the model ends at one of its cliques
loopy   of a Bayesian network: every table is a SISO from the product space of the parents
of any other model: every factor and every variable is a Diverter
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from ..core.variable import Variable
from ..flow.table_forms import TableForm
from ..graph.blocks import SISO, Block, Diverter, Factor, Source, same
from .clique_memory import check_memory
from .junction_tree import JunctionTree, junction_tree

BYTES_PER_STATE = 24
"""Memory for a joint state of a clique: its product, a message, and what is being summed."""


@dataclass(frozen=True, eq=False)
class ScopedTable:
    """A table of a model over some variables, its scope; a conditional one sums to one over the last of them."""

    name: str
    scope: tuple[str, ...]
    table: np.ndarray | None  # of `shape`
    learn: bool = True
    tie: str | None = None
    support: np.ndarray | None = None
    conditional: bool = True
    form: TableForm | None = None


def alike_in_all_but_start(one: ScopedTable, other: ScopedTable) -> bool:
    """Return whether two tables differ only in their initial values."""
    kept = ("name", "scope", "learn", "tie", "support", "conditional")
    return type(one.form) is type(other.form) and all(same(getattr(one, name), getattr(other, name)) for name in kept)


def shape_of(variables: Mapping[str, Variable], scope: Sequence[str]) -> tuple[int, int]:
    """Return the shape of a table: (joint states of all but the last variable, states of the last)."""
    sizes = [variables[name].cardinality for name in scope]
    return prod(sizes[:-1]), sizes[-1] if sizes else 1


def tree_of(
    variables: Mapping[str, Variable],
    scopes: Iterable[Sequence[str]],
    memory: float | None = None,
    quick: bool = False,
) -> JunctionTree:
    """Return the junction tree of a model; an error if its cliques are too large.

    Args:
        variables: of the model.
        scopes: of its tables.
        memory: the most bytes that cliques may take; half of the memory of the machine unless given.
        quick: whether the first rule will do if its cliques are small; see `junction_tree`.
    """
    tree = junction_tree({name: variable.cardinality for name, variable in variables.items()}, scopes, quick)
    check_memory(tree, BYTES_PER_STATE * tree.total, memory)
    return tree


def exact(variables: Mapping[str, Variable], parts: Sequence[ScopedTable], tree: JunctionTree) -> list[Block]:
    """Return the blocks of the junction tree of a model, on which two sweeps are exact."""
    fresh = _Names(variables)
    parts = [*parts, *lonely(variables, parts)]
    home = {part.name: tree.holding(part.scope) for part in parts}
    root = max(set(home.values()), key=lambda number: (tree.states[number], -number))
    order = tree.outwards(root)
    shared = {number: common for number, _, common in order}
    inputs: dict[int, list[Variable]] = {number: [] for number in shared}
    outputs: dict[int, list[Variable]] = {number: [] for number in shared}
    legs: dict[int, dict[str, Sequence[str]]] = {number: {} for number in shared}
    blocks: list[Block] = []
    for part in parts:
        factor, number = factor_of(variables, part, fresh), home[part.name]
        blocks.append(factor)
        inputs[number].append(factor.variable)
        legs[number][factor.variable.name] = part.scope
    for number, before, common in order[1:]:
        size = prod(variables[name].cardinality for name in common)
        between = Variable(fresh(f"{{{', '.join(common)}}}"), size)
        inputs[number].append(between)
        outputs[before].append(between)
        legs[number][between.name] = legs[before][between.name] = common
    for name, variable in variables.items():
        number = tree.holding([name])
        outputs[number].append(variable)
        legs[number][name] = [name]
    for number, _, common in order:
        # what is shared comes last: sums over the rest then run along memory
        ordered = [*(name for name in tree.cliques[number] if name not in common), *common]
        space = {name: variables[name].cardinality for name in ordered}
        size = tree.states[number]  # the memory of all cliques was checked before
        blocks.append(Diverter(inputs[number], outputs[number], space=space, legs=legs[number], limit=size))
    return blocks


def loopy(variables: Mapping[str, Variable], parts: Sequence[ScopedTable]) -> list[Block]:
    """Return the blocks of a model with its loops, for approximate inference."""
    directed = len(parts) == len(variables) and all(part.conditional for part in parts)
    return list(_directed(variables, parts) if directed else _undirected(variables, parts))


def _directed(variables: Mapping[str, Variable], parts: Sequence[ScopedTable]) -> Iterator[Block]:
    """Yield the blocks of a directed model: a Source or SISO for each variable, and a Diverter for its children."""
    fresh = _Names(variables)
    children: dict[str, list[str]] = {name: [] for name in variables}
    for part in parts:
        for parent in part.scope[:-1]:
            children[parent].append(part.scope[-1])
    copies: dict[tuple[str, str], Variable] = {}
    links = _links(variables, [part.scope for part in parts], fresh)
    for name, variable in variables.items():
        taken, given = links.get(name, ([], []))
        names = [fresh(f"{name}->{child}") for child in children[name]]
        for child, copy in zip(children[name], names, strict=True):
            copies[name, child] = Variable(copy, variable.labels)
        if len(names) == 1 and not taken and not given:
            copies[name, children[name][0]] = variable  # no need of a copy
        elif names or taken or given:
            outputs = [*(copies[name, child] for child in children[name]), *given]
            if not outputs:
                outputs = [Variable(fresh(f"{name}->"), variable.labels)]
            legs: dict[str, list[str]] = {link.name: [] for link in (*taken, *given)}
            legs |= {one.name: [name] for one in (variable, *outputs) if one.name not in legs}
            space = {name: variable.cardinality}
            yield Diverter([variable, *taken], outputs, space=space, legs=legs)
    for part in parts:
        output = variables[part.scope[-1]]
        parents = [copies[parent, output.name] for parent in part.scope[:-1]]
        learn = part.learn and part.form is None  # a SISO would learn each cell, not the few parameters of a form
        if not parents:
            prior = None if part.table is None else part.table[0]
            yield Source(output, prior, learn)
            continue
        source = parents[0]
        if len(parents) > 1:
            source = Variable(fresh(" x ".join(part.scope[:-1])), prod(parent.cardinality for parent in parents))
            yield Diverter(parents, [source])
        yield SISO(source, output, part.table, learn, tie=part.tie, support=part.support)


def _undirected(variables: Mapping[str, Variable], parts: Sequence[ScopedTable]) -> Iterator[Block]:
    """Yield the blocks of an undirected model: a Diverter for each factor, and for the copies of each variable."""
    fresh = _Names(variables)
    parts = [*parts, *lonely(variables, parts)]
    links = _links(variables, [part.scope for part in parts], fresh)
    copies: dict[str, list[Variable]] = {name: [] for name in variables}
    for part in parts:
        factor = factor_of(variables, part, fresh)
        yield factor
        if len(part.scope) == 1:
            copies[part.scope[0]].append(factor.variable)
            continue
        mine = [Variable(fresh(f"{part.name}->{name}"), variables[name].labels) for name in part.scope]
        for name, copy in zip(part.scope, mine, strict=True):
            copies[name].append(copy)
        space = {name: variables[name].cardinality for name in part.scope}
        carried = {copy.name: [name] for name, copy in zip(part.scope, mine, strict=True)}
        yield Diverter([factor.variable], mine, space=space, legs=carried)
    for name, variable in variables.items():
        taken, given = links.get(name, ([], []))
        legs: dict[str, list[str]] = {link.name: [] for link in (*taken, *given)}
        legs |= {one.name: [name] for one in (variable, *copies[name])}
        yield Diverter([*copies[name], *taken], [variable, *given], space={name: variable.cardinality}, legs=legs)


def factor_of(variables: Mapping[str, Variable], part: ScopedTable, fresh: Callable[[str], str] = str) -> Factor:
    """Return the block of a table."""
    shape = shape_of(variables, part.scope)
    given = f" | {', '.join(part.scope[:-1])}" if len(part.scope) > 1 else ""
    title = f"P({part.scope[-1]}{given})" if part.conditional else f"f({', '.join(part.scope)})"
    variable = Variable(fresh(title), shape[0] * shape[1])
    return Factor(
        variable, part.name, shape, part.table, part.learn, tie=part.tie, support=part.support,
        sums_to_one=part.conditional, form=part.form,
    )  # fmt: skip


def lonely(variables: Mapping[str, Variable], parts: Sequence[ScopedTable]) -> list[ScopedTable]:
    """Return a factor of ones for every variable that is in no table."""
    there = {name for part in parts for name in part.scope}
    return [
        ScopedTable(f"1({name})", (name,), np.ones((1, variable.cardinality)), False, conditional=False)
        for name, variable in variables.items()
        if name not in there
    ]


def _links(
    variables: Mapping[str, Variable], scopes: Iterable[Sequence[str]], fresh: _Names
) -> dict[str, tuple[list[Variable], list[Variable]]]:
    """Return variables of one state that connect separate components: those each component reads, and drives."""
    root = {name: name for name in variables}

    def found(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for scope in scopes:
        for name in scope[1:]:
            root[found(name)] = found(scope[0])
    ends = list(dict.fromkeys(found(name) for name in variables))
    links: dict[str, tuple[list[Variable], list[Variable]]] = {}
    for one, next_one in pairwise(ends):
        link = Variable(fresh(f"{one} and {next_one}"), 1)
        links.setdefault(one, ([], []))[1].append(link)
        links.setdefault(next_one, ([], []))[0].append(link)
    return links


class _Names:
    """Makes unused names."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        number, free = 1, name
        while free in self._taken:
            number += 1
            free = f"{name} #{number}"
        self._taken.add(free)
        return free
