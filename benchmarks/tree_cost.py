"""How the time of an epoch of a hidden tree grows with rows, columns and hidden states, on the processor.

    python -m benchmarks.tree_cost [--record]

CPU seconds on one thread, the least of several epochs; the power is the slope of a straight line through the
logarithms. The time is proportional to rows and columns. In the hidden states S it grows like S at first, where the
values of columns are gathered, and like the square of S from the size on at which products of matrices dominate.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import fgrn

RECORD = Path(__file__).with_name("tree_cost.json")
"""What was measured."""

BASE = {"rows": 4000, "columns": 64, "hidden": 48}
POINTS = {"rows": (2000, 4000, 8000, 16000), "columns": (32, 64, 128, 256), "hidden": (8, 16, 32, 64, 128, 256)}
LEVELS, EPOCHS = 4, 6


def epoch_seconds(rows: int, columns: int, hidden: int) -> float:
    """CPU seconds of an epoch, the least of some."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, LEVELS, (rows, columns))
    for column in range(1, columns):  # each like one before it, so that there is a tree to find
        alike = draw.random(rows) < 0.6
        codes[alike, column] = codes[alike, (column - 1) // 2]
    table = {f"x{number}": codes[:, number] for number in range(columns)}
    net = fgrn.hidden_tree(table, hidden, states=dict.fromkeys(table, LEVELS))
    ticks: list[float] = []
    net.learn(
        table, epochs=EPOCHS, smoothing=0.1, engine="cpu", threads=1, merge=False,
        watch=lambda *_: ticks.append(time.process_time()),
    )  # fmt: skip
    return float(np.diff(ticks).min())


def main() -> None:
    """Measure, and record it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"write what was measured to {RECORD.name}")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for what, points in POINTS.items():
        seconds = [epoch_seconds(**{**BASE, what: point}) for point in points]
        powers = np.diff(np.log(seconds)) / np.diff(np.log(points))
        slope = float(np.polyfit(np.log(points), np.log(seconds), 1)[0])
        found[what] = {
            "points": list(points), "milliseconds": [round(1000 * one, 2) for one in seconds],
            "power": round(slope, 2), "power_between": [round(float(one), 2) for one in powers],
        }  # fmt: skip
        print(what, found[what], flush=True)
    if given.record:
        RECORD.write_text(json.dumps({"base": BASE, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
