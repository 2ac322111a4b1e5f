"""Small random models, and their exact answers by enumeration of all joint states."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import fgrn
from fgrn import BayesianNetwork, MarkovNetwork
from fgrn.bayes.factored import FactoredModel


def bayesian_network(seed: int, most: int = 6, zeros: bool = True) -> BayesianNetwork:
    """Return a random network of a few variables, with random arcs and a few zeros."""
    draw = np.random.default_rng(seed)
    names = [f"v{k}" for k in draw.permutation(int(draw.integers(1, most + 1)))]
    sizes = {name: int(draw.integers(1, 4)) for name in names}
    parents = {
        name: [str(p) for p in draw.permutation(names[:k])[: int(draw.integers(0, min(k, 3) + 1))]]
        for k, name in enumerate(names)
    }
    tables = {}
    for name in names:
        shape = [sizes[parent] for parent in parents[name]] + [sizes[name]]
        table = draw.random(shape) + 0.05
        if zeros:
            keep = draw.random(shape) < 0.8
            keep[..., 0] = True
            table = table * keep
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    states = {name: [f"{name}.{k}" for k in range(size)] for name, size in sizes.items()}
    return BayesianNetwork(states, parents, tables)


def markov_network(seed: int) -> MarkovNetwork:
    """Return random factors of any scale over a few variables; one variable may be in none."""
    draw = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(int(draw.integers(1, 6)))]
    sizes = {name: int(draw.integers(1, 4)) for name in names}
    factors = []
    for _ in range(int(draw.integers(1, 7))):
        scope = [str(n) for n in draw.permutation(names)[: int(draw.integers(0, min(3, len(names)) + 1))]]
        values = draw.random([sizes[name] for name in scope]) * 10.0 ** draw.integers(-30, 30)
        factors.append((scope, values))
    return MarkovNetwork(sizes, factors)


def joint_of(model: FactoredModel) -> np.ndarray:
    """Return the product of all tables, with one axis per variable."""
    names = list(model.names)
    out = np.ones([model.variable(name).cardinality for name in names])
    for factor in model.to_document().factors:
        places = [names.index(name) for name in factor.scope]
        values = factor.values.transpose(np.argsort(places)) if places else factor.values
        shape = [model.variable(name).cardinality if k in places else 1 for k, name in enumerate(names)]
        out = out * values.reshape(shape)
    return out


def weighted(model: FactoredModel, row: dict[str, Any]) -> np.ndarray:
    """Return the product of all tables and the evidence of a row: a code, or a weight for each state."""
    out = joint_of(model)
    for axis, name in enumerate(model.names):
        if row.get(name) is None:
            continue
        weights = row[name]
        if not isinstance(weights, (list, np.ndarray)):
            weights = np.eye(model.variable(name).cardinality)[int(weights)]
        out = out * np.asarray(weights).reshape([-1 if k == axis else 1 for k in range(out.ndim)])
    return out


def marginal(total: np.ndarray, axis: int) -> np.ndarray:
    """Return the marginal of one variable."""
    others = tuple(k for k in range(total.ndim) if k != axis)
    found: np.ndarray = total.sum(axis=others) / total.sum()
    return found


def random_row(model: FactoredModel, draw: np.random.Generator, soft: bool = True) -> dict[str, Any]:
    """Return possible evidence on some variables: states, or weights of which one may be zero."""
    joint = joint_of(model)
    flat = int(draw.choice(joint.size, p=(joint / joint.sum()).ravel()))
    states = np.unravel_index(flat, joint.shape)
    row: dict[str, Any] = {}
    for name, state in zip(model.names, states, strict=True):
        kind = draw.integers(3)
        size = model.variable(name).cardinality
        if kind == 0:
            row[name] = int(state)
        elif kind == 1 and soft:
            weights = draw.random(size) + 0.01
            weights[(state + 1) % size] = 0 if size > 1 and draw.random() < 0.3 else weights[(state + 1) % size]
            row[name] = weights.tolist()
    return row


def as_evidence(rows: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return rows as columns."""
    return {name: [row.get(name) for row in rows] for name in names}


def chain(length: int, states: int, seed: int = 0) -> BayesianNetwork:
    """Return a Bayesian network in which each variable depends on the one before it."""
    draw = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(length)]
    tables = {names[0]: draw.dirichlet(np.ones(states))}
    for name in names[1:]:
        tables[name] = draw.dirichlet(np.ones(states), states)
    return BayesianNetwork(dict.fromkeys(names, states), list(pairwise(names)), tables)


def random_tree(seed: int) -> fgrn.Network:
    """A network of one of the ready-made kinds, with random tables, a few of them with zeros."""
    draw = np.random.default_rng(seed)
    sizes = {f"Y{k}": int(draw.integers(2, 5)) for k in range(int(draw.integers(2, 7)))}
    kind = seed % 4
    if kind == 0:
        net = fgrn.lvm(sizes, hidden=int(draw.integers(2, 6)))
    elif kind == 1:
        net = fgrn.dica(sizes, hidden=[2, 3])
    elif kind == 2:
        names = list(sizes)
        net = fgrn.stack(sizes, [3, 2], groups=[[names[:1], names[1:]]])
    else:
        net = fgrn.hmm({"Y": 3}, hidden=3, length=4)
    tables = {}
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.learn:
            shape = (block.input.cardinality, block.output.cardinality)
            table = draw.dirichlet(np.full(shape[1], 0.5), shape[0])
            table[draw.random(shape) < 0.1] = 0
            table[:, 0] += 1e-3
            tables[block.output.name] = table / table.sum(axis=1, keepdims=True)
    blocks: list[Any] = []
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.output.name in tables:
            blocks.append(fgrn.SISO(block.input, block.output, tables[block.output.name]))
        elif isinstance(block, fgrn.Source):
            blocks.append(fgrn.Source(block.variable, draw.dirichlet(np.ones(block.variable.cardinality))))
        else:
            blocks.append(block)
    return fgrn.Network(blocks)
