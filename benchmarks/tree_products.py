"""An epoch of a hidden tree on the processor beside PyTorch doing the same products, and beside one large product.

    python -m benchmarks.tree_products [STATES ...] [--record]

Each link of the tree is three products of matrices for a block of rows: upwards, downwards, and expected counts.
PyTorch does these alone, all links of a depth at once, with random numbers; fgrn learns an epoch, emissions and
updates included. All of it in double precision on two threads. Needs PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fgrn
from fgrn.bayes.tree_mixture import copied_variables

from .measure import THREADS, epochs_in_turns, seconds
from .sets import measure
from .tree_cost import LEVELS, rows_of_tree

RECORD = Path(__file__).with_name("tree_products.json")
"""What was measured, by the states of hidden variables."""

STATES = {"64": 64, "128": 128}
ROWS, COLUMNS, LARGE = 8_192, 64, 2_048
"""Rows and columns of the table, and the side of the large matrices."""

ROWS_AT_ONCE = (256, 1024, 4096)
"""Rows of a block for PyTorch, of which the fastest counts."""


def measured(name: str) -> dict[str, Any]:
    """Measure an epoch, the products of PyTorch, and a product of as many operations."""
    import torch

    hidden, table = STATES[name], rows_of_tree(ROWS, COLUMNS)
    net = fgrn.hidden_tree(table, hidden, states=dict.fromkeys(table, LEVELS))
    torch.set_num_threads(THREADS)
    levels = _links_by_depth(net)
    tables = [torch.rand(count, hidden, hidden, dtype=torch.float64) for count in levels]

    def theirs(epochs: int, block: int) -> None:
        messages = [torch.rand(count, block, hidden, dtype=torch.float64) for count in levels]
        for _ in range(0, epochs * ROWS, block):
            for table, message in zip(tables, messages, strict=True):
                torch.bmm(message, table.transpose(1, 2))  # upwards
                torch.bmm(message, table)  # downwards
                torch.bmm(message.transpose(1, 2), message)  # counts

    def ours(epochs: int) -> None:
        net.copy().learn(table, epochs=epochs, smoothing=0.1, engine="cpu", threads=THREADS, merge=False)

    block = min(ROWS_AT_ONCE, key=lambda one: seconds(lambda: theirs(1, one), 2))
    epoch, products = epochs_in_turns(ours, lambda epochs: theirs(epochs, block), 1, 2)
    square = torch.rand(LARGE, LARGE, dtype=torch.float64)
    rate = 2 * LARGE**3 / seconds(lambda: square @ square, 7)
    operations = 3 * 2 * ROWS * hidden**2 * sum(levels)
    return {
        "rows": ROWS, "columns": COLUMNS, "states": hidden, "rows_at_once": block,
        "epoch": round(epoch, 4), "pytorch": round(products, 4), "one_product": round(operations / rate, 4),
        "gigaflops": round(rate / 1e9, 1), "ratio": round(products / epoch, 2),
        "share_of_rate": round(operations / rate / epoch, 2),
    }  # fmt: skip


def tables(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What was measured as a table in Markdown."""
    lines = [
        "| states | epoch of fgrn | PyTorch, products alone | its time / fgrn's | share of the rate of one product |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['states']} | {one['epoch']:.2f} s | {one['pytorch']:.2f} s | {one['ratio']:.2f} | "
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
    measure(__doc__, STATES, measured, RECORD, tables)
