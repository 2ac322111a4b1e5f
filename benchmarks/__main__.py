"""Run the measurements: parity first, then the clock. See `docs/speed.md` for what they show."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import growth, little, networks, report, small_tables, stars, streams, trees
from .measure import Result, read, write

ROOT = Path(__file__).parents[1]
CASES = {
    "epochs": stars.epochs,
    "small": small_tables.small_tables,
    "holes": stars.holes,
    "merging": stars.merging,
    "inference": stars.inference,
    "latent-classes": stars.latent_classes,
    "reference": trees.against_the_reference,
    "markov": trees.markov,
    "networks": networks.networks,
    "questions": networks.questions,
    "little": little.little,
    "streams": streams.streamed,
}


def main() -> int:
    """Run, print, and (at full size, all cases or those to record) write the page, the picture and the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of {', '.join([*CASES, 'growth'])}; else all")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows, to see that everything runs")
    parser.add_argument("--redraw", action="store_true", help="the page and the picture from what was measured last")
    parser.add_argument("--record", action="store_true", help="write the figures of some cases, too; others stay")
    options = parser.parse_args()
    if options.redraw:
        publish()
        return 0
    unknown = set(options.cases) - {*CASES, "growth"}
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    chosen = options.cases or [*CASES, "growth"]
    results: list[Result] = []
    for name in CASES:
        if name not in chosen:
            continue
        print(name, flush=True)
        for result in CASES[name](options.quick):
            results.append(result)
            goal = "" if result.goal is None else f"  goal {result.goal:g} {'met' if result.met else 'MISSED'}"
            print(f"  {result.name}, {result.peer}: {result.ratio:.3g}{goal}  {result.note}", flush=True)
            time.sleep(0.5)  # let a machine that shares its cores settle
    slopes = growth.slopes(options.quick) if "growth" in chosen else []
    for line in slopes:
        print(f"  time grows with the power {line['power']:.2f} of the {line['what']}")
    if not options.quick and (options.record or not options.cases):
        write(ROOT / "benchmarks" / "results.json", results, {"growth": slopes}, whole=not options.cases)
        publish()
    missed = [result.name for result in results if result.met is False]
    if missed:
        print(f"{len(missed)} goals were missed: {', '.join(missed)}")
    return 0


def publish() -> None:
    """Write the page and the picture from the figures."""
    here, results, slopes = read(ROOT / "benchmarks" / "results.json")
    report.fill(ROOT / "docs" / "speed.md", here, results, slopes)
    report.picture(ROOT / "docs" / "speed.svg", results)
    print("written: docs/speed.md, docs/speed.svg")


if __name__ == "__main__":
    sys.exit(main())
