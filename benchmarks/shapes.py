"""Random networks in the shape of known ones: as many variables, arcs, states and parents, with arcs that stay near.

For barley, link, munin1, pathfinder and pigs of the Bayesian Network Repository, whose files may not be at hand. A
child's parents are drawn from the variables just before it: without that a random network of this size has far larger
cliques than the real ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import fgrn


class Shape(NamedTuple):
    """How many variables and arcs, the most parents, the fewest and the most states, and how near parents are."""

    variables: int
    arcs: int
    parents: int
    states: tuple[int, int]
    window: int


SHAPES = {
    "barley": Shape(48, 84, 4, (2, 16), 8),
    "link": Shape(724, 1_125, 3, (2, 4), 24),
    "munin1": Shape(186, 273, 3, (2, 12), 22),
    "pathfinder": Shape(109, 195, 5, (2, 8), 8),
    "pigs": Shape(441, 592, 2, (3, 3), 20),
}


def shaped(name: str, seed: int = 0) -> fgrn.BayesianNetwork:
    """A random network in a shape."""
    shape, draw = SHAPES[name], np.random.default_rng(seed)
    names = [f"v{number}" for number in range(shape.variables)]
    sizes = {one: int(draw.integers(shape.states[0], shape.states[1] + 1)) for one in names}
    room = np.minimum(shape.parents, np.arange(shape.variables))
    count = np.zeros(shape.variables, dtype=int)
    while count.sum() < shape.arcs:
        open_ones = np.flatnonzero(count < np.minimum(room, shape.window))
        count[draw.choice(open_ones)] += 1
    parents = {
        names[at]: [names[one] for one in draw.choice(np.arange(max(0, at - shape.window), at), count[at], False)]
        for at in range(shape.variables)
        if count[at]
    }
    tables = {
        one: draw.dirichlet(np.full(sizes[one], 0.7), int(np.prod([sizes[p] for p in parents.get(one, ())], dtype=int)))
        for one in names
    }
    return fgrn.BayesianNetwork(sizes, parents, tables)
