"""Dynamic networks as networks of two slices (2TBN), in which `x0` is x in the first slice and `xt` in a later one.

This is how files of ordinary networks with names (BIF, XMLBIF, NET, XDSL) hold a dynamic network of order one, as
pyAgrum reads and writes it: parents of `xt` are variables of its own slice, `yt`, and of the slice before, `y0`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import WiringError, shortened
from ..core.variable import Variable
from .bayesian import BayesianNetwork
from .dynamic import DynamicBayesianNetwork

FIRST, LATER = "0", "t"
"""What the names of variables end in: in the first slice, and in a later one."""


def is_two_slices(network: Any) -> bool:
    """Return whether all variables of a Bayesian network occur twice, as `x0` and `xt`."""
    names = set(network.names) if isinstance(network, BayesianNetwork) else set()
    pairs = {name[:-1] + end for name in names if name[-1:] in (FIRST, LATER) for end in (FIRST, LATER)}
    return bool(names) and names == pairs


def two_slices(model: DynamicBayesianNetwork) -> BayesianNetwork:
    """Return the two-slice network of a dynamic network of order one: `x0` and `xt` for each variable x."""
    if model.order > 1:
        raise WiringError(
            f"A slice depends on the {model.order} slices before it, and two slices show links to the one before only.",
            remedies=("save it as a model file (.fgrn)", "write some slices: unrolled(length)"),
        )
    structure, without = model._structure, _without_start(model._step)
    variables, parents, tables = [], {}, {}
    for time, end in ((0, FIRST), (1, LATER)):
        for variable in model.variables:
            name = variable.name
            variables.append(Variable(name + end, variable.labels))
            parents[name + end] = [above + end for above in structure.parents[name]]
            if time:
                parents[name + end] += [copy.name + FIRST for copy in structure.links.get(name, ())]
            if name not in without:
                tables[name + end] = model.table(name, time)
    frozen = [name + end for name in model._frozen for end in (FIRST, LATER)]
    return BayesianNetwork(variables, parents, tables, frozen=frozen, name=model.name)


def dynamic_of_two_slices(network: BayesianNetwork, sequence: str = "sequence") -> DynamicBayesianNetwork:
    """Return the dynamic network of a two-slice network.

    A variable whose first table differs from the later one, and that depends on no earlier slice, has a link to itself
    without effect: only variables with links have a table of their own in the first slice.
    """
    names, without = network.names, _without_start(network)
    later = [name[:-1] for name in names if name.endswith(LATER) and name[:-1] + FIRST in names]
    others = [name for name in names if name[:-1] not in later]
    if not later or others:
        raise WiringError(
            f"This is no network of two slices, in which each variable is there as 'x{FIRST}' and 'x{LATER}'. "
            f"Others: {shortened(others or names, 5)}.",
            remedies="rename its variables, or build a DynamicBayesianNetwork",
        )
    arcs: dict[str, list[str]] = {}
    links: dict[str, list[str]] = {}
    variables: list[Variable] = []
    tables: dict[str, np.ndarray] = {}
    initial: dict[str, np.ndarray] = {}
    for name in later:
        variable = network.variable(name + LATER)
        if network.variable(name + FIRST).labels != variable.labels:
            raise WiringError(f"{name + FIRST!r} and {name + LATER!r} are one variable, with the same states.")
        variables.append(Variable(name, variable.labels))
        above, first = network.parents(name + LATER), network.parents(name + FIRST)
        backwards = [one for one in first if one.endswith(LATER)]
        if backwards:
            raise WiringError(f"{name + FIRST!r} depends on {backwards[0]!r}, which is later.")
        within = [one[:-1] for one in above if one.endswith(LATER)]
        within += [one[:-1] for one in first if one[:-1] not in within]
        before = [one[:-1] for one in above if one.endswith(FIRST)]
        table = _table_on(network, name + LATER, [*(one + LATER for one in within), *(one + FIRST for one in before)])
        start = _table_on(network, name + FIRST, [one + FIRST for one in within])
        if not before and not np.array_equal(table, start):
            before = [name]
            table = np.repeat(table[..., None, :], variable.cardinality, axis=-2)
        arcs[name] = within
        if before:
            links[name] = before
        if not {name + FIRST, name + LATER} <= without:
            tables[name] = table
            if before:
                initial[name] = start
    frozen = _frozen_in_both(network, later)
    return DynamicBayesianNetwork(
        variables, arcs, links, tables, initial, frozen=frozen, sequence=sequence, name=network.name
    )


def _without_start(network: BayesianNetwork) -> set[str]:
    """Return the variables whose tables were neither given nor learnt, and are drawn at random."""
    return {part.name for part in network._given if network._start(part) is None}


def _frozen_in_both(network: BayesianNetwork, names: list[str]) -> list[str]:
    """Return the variables whose tables are never learnt; an error if only those of one kind of slice are not."""
    fixed = {part.name for part in network._given if not part.learn}
    for name in names:
        ends = sorted((name + FIRST, name + LATER), key=lambda one: one not in fixed)
        if ends[0] in fixed and ends[1] not in fixed:
            raise WiringError(
                f"{ends[0]!r} is frozen and {ends[1]!r} is not: the tables of a variable are learnt in all slices or "
                "in none.",
                remedies="freeze both, or none of them",
            )
    return [name for name in names if name + FIRST in fixed]


def _table_on(network: BayesianNetwork, name: str, parents: list[str]) -> np.ndarray:
    """Return the table of a variable with an axis for each of these parents, which include its own."""
    own = network.parents(name)
    states = network.variable(name).cardinality
    table = np.asarray(network.table(name)).reshape(*(network.variable(one).cardinality for one in own), states)
    table = table.transpose(*(own.index(one) for one in parents if one in own), len(own))
    sizes = [network.variable(one).cardinality for one in parents]
    shape = [size if one in own else 1 for one, size in zip(parents, sizes, strict=True)]
    return np.array(np.broadcast_to(table.reshape(*shape, states), (*sizes, states)))
