"""How the cost grows: a straight line fitted to the logarithms, whose slope is the power."""

from __future__ import annotations

from typing import Any

import numpy as np

from .measure import per_epoch, random_rows, random_star
from .stars import learner

BASE = {"rows": 200_000, "variables": 20, "states": 4, "hidden": 32}
ALSO = {"states": {"hidden": 8}}  # so that tables of many states stay in the second level of the cache
POINTS = {
    "rows": (100_000, 200_000, 400_000, 800_000),
    "variables": (20, 40, 80, 160),
    "hidden": (32, 64, 128, 256),
    "states": (20, 40, 80, 160),
}


def slopes(quick: bool) -> list[dict[str, Any]]:
    """Seconds of one epoch as one thing grows and the others stay."""
    found = []
    for what, points in POINTS.items():
        times = []
        for point in points:
            size = {**BASE, **ALSO.get(what, {}), what: point}
            rows = size["rows"] // 10 if quick else size["rows"]
            net = random_star(size["variables"], size["states"], size["hidden"])
            codes = random_rows(rows, size["variables"], size["states"])
            times.append(per_epoch(learner(net, codes), 1, 6, 2))
        slope = float(np.polyfit(np.log(points), np.log(times), 1)[0])
        found.append({"what": what, "points": list(points), "seconds": times, "power": slope})
    return found
