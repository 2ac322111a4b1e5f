"""An epoch of a hidden tree on the processor beside PyTorch doing the same products, and beside one large product.

    python -m benchmarks.tree_products [STATESxTHREADS ...] [--record]

Each link of the tree is three products of matrices for a block of rows: upwards, downwards, and expected counts.
PyTorch does these alone, all links of a depth at once, with random numbers; fgrn learns an epoch, emissions and
updates included. All of it in double precision, on as many threads; seconds, the least of several: nothing else should
run. Needs PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrn
from fgrn.bayes.tree_mixture import copied_variables

from .sets import measure
from .tree_cost import LEVELS, rows_of_tree

RECORD = Path(__file__).with_name("tree_products.json")
"""What was measured, by the states of hidden variables and the threads."""

STATES_AND_THREADS = {"64x1": (64, 1), "64x2": (64, 2), "128x1": (128, 1), "128x2": (128, 2)}
ROWS, COLUMNS, LARGE, TURNS = 4_096, 64, 1_024, 5
"""Rows and columns of the table, the side of the large matrices, and how often each is measured."""

ROWS_AT_ONCE = (256, 1024, 4096)
"""Rows of a block for PyTorch, of which the fastest counts."""


def measured(name: str) -> dict[str, Any]:
    """Measure an epoch, the products of PyTorch, and a product of as many operations."""
    import torch

    hidden, threads = STATES_AND_THREADS[name]
    table = rows_of_tree(ROWS, COLUMNS)
    net = fgrn.hidden_tree(table, hidden, states=dict.fromkeys(table, LEVELS))
    torch.set_num_threads(threads)
    levels = _links_by_depth(net)
    tables = [torch.rand(count, hidden, hidden, dtype=torch.float64) for count in levels]

    def theirs(block: int) -> None:
        messages = [torch.rand(count, block, hidden, dtype=torch.float64) for count in levels]
        for _ in range(0, ROWS, block):
            for table, message in zip(tables, messages, strict=True):
                torch.bmm(message, table.transpose(1, 2))  # upwards
                torch.bmm(message, table)  # downwards
                torch.bmm(message.transpose(1, 2), message)  # counts

    ticks: list[float] = []
    net.learn(
        table, epochs=TURNS + 2, smoothing=0.1, engine="cpu", threads=threads, merge=False,
        watch=lambda *_: ticks.append(time.perf_counter()),
    )  # fmt: skip
    epoch = float(np.diff(ticks).min())
    block = min(ROWS_AT_ONCE, key=lambda one: _seconds(lambda: theirs(one), 2))
    products = _seconds(lambda: theirs(block))
    square = torch.rand(LARGE, LARGE, dtype=torch.float64)
    rate = 2 * LARGE**3 / _seconds(lambda: square @ square)
    operations = 3 * 2 * ROWS * hidden**2 * sum(levels)
    return {
        "rows": ROWS, "columns": COLUMNS, "states": hidden, "threads": threads, "rows_at_once": block,
        "epoch": round(epoch, 4), "pytorch": round(products, 4), "one_product": round(operations / rate, 4),
        "gigaflops": round(rate / 1e9, 1), "ratio": round(products / epoch, 2),
        "share_of_rate": round(operations / rate / epoch, 2),
    }  # fmt: skip


def _seconds(work: Callable[[], Any], turns: int = TURNS) -> float:
    """Seconds of some work, the least of several."""
    found = []
    for _ in range(turns):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def tables(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What was measured as a table in Markdown."""
    lines = [
        "| states | threads | epoch of fgrn | PyTorch, products alone | its time / fgrn's "
        "| share of the rate of one product |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['states']} | {one['threads']} | {one['epoch']:.2f} s | {one['pytorch']:.2f} s | {one['ratio']:.2f} | "
        f"{one['share_of_rate']:.2f} |"
        for one in found.values()
    ]
    return {"products": "\n".join(lines)}


def _links_by_depth(net: fgrn.Network) -> list[int]:
    """The number of tables between hidden variables at each depth of a hidden tree, the deepest first."""
    copies, depth = copied_variables(net), {net._spec.layout.prior_names[0]: 0}
    links = [block for block in net.blocks if isinstance(block, fgrn.SISO) and block.output.name not in net.observed]
    while len(depth) <= len(links):
        for block in links:
            above = copies.get(block.input.name, block.input.name)
            if above in depth:
                depth[block.output.name] = depth[above] + 1
    return np.bincount(list(depth.values()))[:0:-1].tolist()


if __name__ == "__main__":
    measure(__doc__, STATES_AND_THREADS, measured, RECORD, tables)
