"""Estimates and standard errors beside other programs, then the coverage of confidence intervals.

    python -m benchmarks.inference [parity | classes | regression | outcomes | continuous | imputation | answers ...]
                                   [--quick] [--record]

`parity` needs StepMix, statsmodels and hmmlearn. A difference that is too large, or a coverage that is not between 93
and 97 %, is an error. With --record the figures go to `inference.json` and the page `docs/inference.md`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from . import coverage
from .parity import parity

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "benchmarks" / "inference.json", ROOT / "docs" / "inference.md"

REPLICATIONS, QUICK = 1000, 50


def parity_table(records: list[dict[str, Any]]) -> str:
    """Markdown: what was compared with which program, and the largest difference."""
    lines = ["| what | beside | largest difference | limit |", "|---|---|---|---|"]
    lines += [f"| {one['what']} | {one['program']} | {one['difference']:.1e} | {one['limit']:.2g} |" for one in records]
    return "\n".join(lines)


def coverage_table(parts: dict[str, list[dict[str, Any]]]) -> str:
    """Markdown: how often intervals held the truth."""
    lines = ["| tables | how | intervals of | estimates | replications | held the truth |", "|---|---|---|---|---|---|"]
    for part in coverage.PARTS:
        for one in parts.get(part, []):
            held = f"{one['mean']:.1%}"
            if one["estimates"] > 1:
                held += f" (from {one['least']:.1%} to {one['most']:.1%})"
            cells = [one["part"], one["how"], one["what"], str(one["estimates"]), f"{one['replications']:,}", held]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(figures: dict[str, Any], text: str) -> str:
    """The page with the tables of these figures."""
    from .report import filled

    return filled(text, {"parity": parity_table(figures["parity"]), "coverage": coverage_table(figures)})


def main() -> None:
    """Compare, simulate, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["parity", *coverage.PARTS]
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(names)}; else all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} replications in place of {REPLICATIONS:,}")
    parser.add_argument("--record", action="store_true", help="write the figures and the page")
    options = parser.parse_args()
    unknown = set(options.parts) - set(names)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    warnings.simplefilter("ignore")
    for name in options.parts or names:
        if name == "parity":
            figures[name] = parity()
        else:
            figures[name] = coverage.PARTS[name](QUICK if options.quick else REPLICATIONS)
            coverage.check(figures[name])
        if options.record:
            FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    if options.record and all(name in figures for name in names):
        PAGE.write_text(page(figures, PAGE.read_text()))


if __name__ == "__main__":
    main()
