"""How the time of an epoch of a hidden tree grows with rows, columns and hidden states, on the processor.

    python -m benchmarks.tree_cost [--record]

CPU seconds on one thread, the least of several epochs; the power is the slope of a straight line through the
logarithms. The time is proportional to rows and columns. In the hidden states S it grows like S at first, where the
values of columns are gathered, and like the square of S from the size on at which products of matrices dominate.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - its BLAS is limited, too
from threadpoolctl import threadpool_limits

import fgrn

from .sets import measure

RECORD = Path(__file__).with_name("tree_cost.json")
"""What was measured."""

BASE = {"rows": 4000, "columns": 64, "hidden": 48}
POINTS = {"rows": (2000, 4000, 8000, 16000), "columns": (32, 64, 128, 256), "hidden": (8, 16, 32, 64, 128, 256)}
LEVELS, EPOCHS = 4, 6


def rows_of_tree(rows: int, columns: int) -> dict[str, np.ndarray]:
    """Random columns of four levels, each like one before it six times of ten, so that there is a tree to find."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, LEVELS, (rows, columns))
    for column in range(1, columns):
        alike = draw.random(rows) < 0.6
        codes[alike, column] = codes[alike, (column - 1) // 2]
    return {f"x{number}": codes[:, number] for number in range(columns)}


def epoch_seconds(rows: int, columns: int, hidden: int) -> float:
    """CPU seconds of an epoch, the least of some."""
    table = rows_of_tree(rows, columns)
    net = fgrn.hidden_tree(table, hidden, states=dict.fromkeys(table, LEVELS))
    ticks: list[float] = []
    net.learn(
        table, epochs=EPOCHS, smoothing=0.1, engine="cpu", threads=1, merge=False,
        watch=lambda *_: ticks.append(time.process_time()),
    )  # fmt: skip
    return float(np.diff(ticks).min())


def on_one_thread(what: str) -> dict[str, Any]:
    """Measure with one thread of BLAS: another would spin between epochs, and count as work."""
    with threadpool_limits(1, user_api="blas"):
        return measured(what)


def measured(what: str) -> dict[str, Any]:
    """Measure epochs with other numbers of rows, columns or hidden states."""
    points = POINTS[what]
    seconds = [epoch_seconds(**{**BASE, what: point}) for point in points]
    powers = np.diff(np.log(seconds)) / np.diff(np.log(points))
    slope = float(np.polyfit(np.log(points), np.log(seconds), 1)[0])
    return {
        "points": list(points), "milliseconds": [round(1000 * one, 2) for one in seconds],
        "power": round(slope, 2), "power_between": [round(float(one), 2) for one in powers],
    }  # fmt: skip


def tables(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What was measured as tables in Markdown, one below the other."""
    out = []
    for what, one in found.items():
        power = f"power {one['power']:.2f}"
        if what == "hidden":
            power = f"power from {one['points'][-2]} on {one['power_between'][-1]:.2f}"
        name = "states" if what == "hidden" else what
        lines = [[name, *(f"{point:,}" for point in one["points"]), power]]
        lines += [["---"] * len(lines[0]), ["", *(f"{value:,.0f}" for value in one["milliseconds"]), ""]]
        out.append("\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines))
    return {"cost": "\n\n".join(out)}


if __name__ == "__main__":
    measure(__doc__, POINTS, on_one_thread, RECORD, tables)
