"""Tables of a junction tree as conditional distributions, beside expected counts of a row that nothing is known of."""

from __future__ import annotations

import numpy as np
import pytest

import fgrn
from fgrn.engines import get
from fgrn.flow.counts import LocalEStep
from fgrn.graph.conditional_tables import conditional_logarithms


def mixture_of_trees(rng: np.random.Generator) -> fgrn.Network:
    """A tree over a few columns, most of which depend on a hidden variable too, in any order of the parents."""
    names = [f"v{number}" for number in range(rng.integers(2, 8))]
    parents = {}
    for number, name in enumerate(names[1:], start=1):
        beside = [names[rng.integers(1, number)]] if number > 1 and rng.random() < 0.8 else []
        hub = [names[0]] if rng.random() < 0.8 and all(names[0] in parents.get(one, ()) for one in beside) else []
        parents[name] = tuple(rng.permutation([*hub, *beside]).tolist())
    states = {name: int(rng.integers(1, 4)) for name in names}
    return fgrn.BayesianNetwork(states, {name: those for name, those in parents.items() if those}).to_network()


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_conditional_tables_are_those_of_expected_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = mixture_of_trees(rng)
    plan = net._plan()
    if plan.junction_tables is None:
        pytest.skip("no variable has two parents: the network is made of SISO blocks, without a junction tree")
    cells = 3 * rng.random(plan.layout.size) * (rng.random(plan.layout.size) > 0.05 * (seed % 2))
    cells[plan.layout.lines] = 1.0  # so that the first states of all variables are possible together
    with np.errstate(divide="ignore"):
        found = np.exp(conditional_logarithms(plan.junction_tables, np.log(cells)))
    nothing = net._encode(plan, None)
    programs = net._programs_for(plan, (), nothing)
    counts = LocalEStep(get("reference"), plan, programs, nothing, expect=True).count(cells).values
    total = np.add.reduceat(counts, plan.layout.lines)[plan.layout.line_of]
    assert found[total > 0] == pytest.approx(counts[total > 0] / total[total > 0], abs=1e-12)
    assert np.isfinite(found).all()
