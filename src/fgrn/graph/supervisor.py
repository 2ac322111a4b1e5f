"""The Supervisor: compiles a graph of blocks into a Plan (order of blocks, layout of parameters, index vectors).

A paused SISO block passes no messages: the graph is planned as if it were cut there, which is how layers are learnt one
after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..core.arrays import frozen
from ..core.exceptions import WiringError
from ..flow.parameters import Specification
from ..plan.block_kinds import BLOCK_KINDS, DIVERT
from ..plan.plan import Layout, Plan
from .blocks import SISO, Block, Diverter, Factor, Source
from .wiring import Wiring

LONGEST_RUN = 2**12
"""The most joint states of a run of a product space, unless its last part has more: the index fits the cache."""


def layout_of(blocks: Iterable[Block]) -> Layout:
    """Return the layout of parameters: one table per SISO block or Factor, or per tie, and one prior per Source."""
    tables: dict[str, tuple[list[str], tuple[int, int]]] = {}
    priors: dict[str, int] = {}
    for block in blocks:
        if isinstance(block, (SISO, Factor)):
            # a tie and an output may have the same name, but are two tables
            key = f"tie {block.tie}" if block.tie else f"output {block.name}"
            tables.setdefault(key, ([], block.shape))[0].append(block.name)
        elif isinstance(block, Source):
            priors[block.variable.name] = block.variable.cardinality
    return Layout(
        tuple(tuple(names) for names, _ in tables.values()),
        tuple(shape for _, shape in tables.values()),
        tuple(priors),
        tuple(priors.values()),
        tuple(key.removeprefix("tie ") if key.startswith("tie ") else None for key in tables),
    )


def specification_of(blocks: Sequence[Block]) -> Specification:
    """Return the initial tables and priors of the blocks, and their constraints."""
    layout = layout_of(blocks)
    sisos = {block.name: block for block in blocks if isinstance(block, (SISO, Factor))}
    sources = {block.variable.name: block for block in blocks if isinstance(block, Source)}
    first = [sisos[names[0]] for names in layout.table_names]
    forms = tuple(block.form if isinstance(block, Factor) else None for block in first)
    return Specification(
        layout,
        tuple(block.table for block in first),
        tuple(sources[name].prior for name in layout.prior_names),
        tuple(block.support for block in first),
        tuple(block.learn for block in first),
        tuple(sources[name].learn for name in layout.prior_names),
        forms if any(form is not None for form in forms) else None,
    )


def make_plan(wiring: Wiring, paused: Collection[str] = ()) -> Plan:
    """Return the Plan of a graph, cut at the SISO blocks whose outputs are named in `paused`."""
    layout = layout_of(wiring.blocks)
    edge = {name: number for number, name in enumerate(wiring.variables)}
    table = {name: number for number, names in enumerate(layout.table_names) for name in names}
    cardinality = [variable.cardinality for variable in wiring.variables.values()]
    sources: list[Source | Factor] = []
    sisos: list[SISO] = []
    diverters: list[Diverter] = []
    for block in wiring.blocks:
        if isinstance(block, (Source, Factor)):
            sources.append(block)
        elif isinstance(block, Diverter):
            diverters.append(block)
        elif block.output.name not in paused:
            sisos.append(block)

    driver, reader = np.full(len(edge), -1), np.full(len(edge), -1)
    blocks: list[Block] = [*sources, *sisos, *diverters]
    for number, block in enumerate(blocks):
        for variable in block.drives:
            driver[edge[variable.name]] = number
        for variable in block.reads:
            reader[edge[variable.name]] = number

    leaves = {
        edge[block.input.name]: number for number, block in enumerate(sisos) if reader[edge[block.output.name]] < 0
    }
    order, roots = _order(blocks, edge, driver, reader)
    return Plan(
        names=tuple(edge),
        labels=tuple(variable.labels for variable in wiring.variables.values()),
        layout=layout,
        cardinality=frozen(cardinality),
        offset=frozen([0, *np.cumsum(cardinality)]),
        driver=frozen(driver >= 0, bool),
        reader=frozen(reader >= 0, bool),
        source_edge=frozen(edge[block.variable.name] for block in sources),
        source_at=frozen(
            layout.prior_offsets[layout.prior_number(block.variable.name)]
            if isinstance(block, Source)
            else layout.table_offsets[table[block.name]]
            for block in sources
        ),
        is_factor=frozen([isinstance(block, Factor) for block in sources], bool),
        siso_input=frozen(edge[block.input.name] for block in sisos),
        siso_output=frozen(edge[block.output.name] for block in sisos),
        siso_table=frozen(table[block.output.name] for block in sisos),
        **_legs_of(diverters, edge, leaves),
        is_tree=order is not None,
        order=tuple(order or ()),
        root=frozen(roots),
    )


def _legs_of(diverters: Sequence[Diverter], edge: dict[str, int], leaves: dict[int, int]) -> dict[str, Any]:
    """Return the arrays of a Plan about Diverters; `leaves` are the SISO blocks with an unread output, by input."""
    start, edges, inputs, places, sisos = [0], [], [], [], []
    maps: list[np.ndarray] = []
    runs: list[int] = []
    mapped = 0
    for diverter in diverters:
        sizes = [size for _, size in diverter.space]
        runs.append(_run_length(sizes))
        for position, (variable, axes) in enumerate(zip(diverter.reads + diverter.drives, diverter.legs, strict=True)):
            number, into = edge[variable.name], position < len(diverter.reads)
            edges.append(number)
            inputs.append(into)
            sisos.append(-1 if into else leaves.get(number, -1))
            places.append(-1 if axes is None else mapped)
            if axes is not None:
                maps += _index_vectors(sizes, axes, runs[-1])
                mapped += len(maps[-2]) + len(maps[-1])
        start.append(len(edges))
    return {
        "leg_start": frozen(start),
        "leg_edge": frozen(edges),
        "leg_is_input": frozen(inputs, bool),
        "leg_map": frozen(places),
        "leg_siso": frozen(sisos),
        "leg_axes": tuple(axes for block in diverters for axes in block.legs),
        "maps": frozen(np.concatenate(maps) if maps else []),
        "diverter_size": frozen(block.size for block in diverters),
        "diverter_run": frozen(runs),
        "spaces": tuple(tuple(size for _, size in block.space) for block in diverters),
    }


def _run_length(sizes: Sequence[int]) -> int:
    """Return the length of a run: the joint states of the last parts of a space, at most LONGEST_RUN."""
    run = 1
    for size in reversed(sizes):
        if run > 1 and run * size > LONGEST_RUN:
            break
        run *= size
    return run


def _index_vectors(sizes: Sequence[int], axes: Sequence[int], run: int) -> list[np.ndarray]:
    """Return the index of some parts of a space for each run of joint states, and the offset within a run."""
    strides = [0] * len(sizes)
    for position, axis in enumerate(axes):
        strides[axis] = prod(sizes[other] for other in axes[position + 1 :])
    split = len(sizes)
    while prod(sizes[split:]) < run:
        split -= 1
    index = []
    for part in (slice(0, split), slice(split, None)):
        total = np.zeros(1, dtype=np.int64)
        for size, stride in zip(sizes[part], strides[part], strict=True):
            total = (total[:, None] + stride * np.arange(size)).ravel()
        index.append(total)
    return index


def _order(
    blocks: list[Block], edge: dict[str, int], driver: np.ndarray, reader: np.ndarray
) -> tuple[list[tuple[int, int, int]] | None, list[int]]:
    """Return every block once, outwards from a root of each component, with its edge towards the root (-1 at a root).

    The root is a Diverter if there is one: its product gives the posterior and the likelihood at once. Blocks are
    numbered within their kind. The order is None if there is a loop.
    """
    edges_of = [[edge[variable.name] for variable in (*block.reads, *block.drives)] for block in blocks]
    kinds = [block.kind for block in blocks]
    first = {kind: kinds.index(kind) for kind in BLOCK_KINDS if kind in kinds}
    starts = sorted(range(len(blocks)), key=lambda block: kinds[block] != DIVERT)
    seen = [False] * len(blocks)
    order: list[tuple[int, int, int]] = []
    roots: list[int] = []
    for start in starts:
        if seen[start]:
            continue
        roots.append(len(order))
        seen[start] = True
        queue = [(start, -1)]
        for block, parent in queue:  # the list grows during the loop: breadth first
            order.append((kinds[block], block - first[kinds[block]], parent))
            for number in edges_of[block]:
                if number == parent:
                    continue
                other = int(reader[number] if driver[number] == block else driver[number])
                if other < 0:
                    continue
                if seen[other]:
                    return None, []
                seen[other] = True
                queue.append((other, number))
    return order, roots


def layers_of(wiring: Wiring) -> tuple[tuple[str, ...], ...]:
    """Return the names of tables and priors by layer; a Diverter is one layer above the highest Diverter below it.

    Tables and priors are in the layer of their Diverter.
    """
    if any(isinstance(block, Factor) for block in wiring.blocks):
        raise WiringError("A network with Factors has no layers: they are tables between variables, not above them.")
    layer_of_edge: dict[str, int] = {}
    pending = [name for name in wiring.variables if name not in wiring.readers]
    done: dict[int, int] = {}
    for name in pending:
        layer_of_edge[name] = 0
    waiting = [len(block.drives) for block in wiring.blocks]
    for name in pending:  # the list grows during the loop: leaves first
        number = wiring.drivers.get(name)
        if number is None:
            continue
        waiting[number] -= 1
        if waiting[number]:
            continue
        block = wiring.blocks[number]
        height = max(layer_of_edge[variable.name] for variable in block.drives)
        done[number] = height + isinstance(block, SISO)
        for variable in block.reads:
            layer_of_edge[variable.name] = done[number]
            pending.append(variable.name)
    if len(done) < len(wiring.blocks):
        raise WiringError("The arrows of this network form a cycle, so that it has no layers.")
    layers: dict[int, list[str]] = {}
    for number, block in enumerate(wiring.blocks):
        if isinstance(block, SISO):
            above = wiring.drivers.get(block.input.name)
            layer = done[number] if above is None else max(done[number], done[above])
            layers.setdefault(layer, []).append(block.output.name)
        elif isinstance(block, Source):
            below = wiring.readers.get(block.variable.name)
            layers.setdefault(0 if below is None else done[below], []).append(block.variable.name)
    return tuple(tuple(layers[layer]) for layer in sorted(layers))
