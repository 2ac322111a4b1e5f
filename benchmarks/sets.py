"""What benchmarks have in common that measure one set after the other: options, a record in JSON, tables in a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .report import filled

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "images.md"
"""The page with the tables of hidden trees."""


def measure(
    about: str | None,
    names: Mapping[str, Any],
    measured: Callable[[str], Any],
    record: Path,
    tables: Callable[[dict[str, Any]], dict[str, str]],
) -> None:
    """Measure the sets that are named on the command line, or all; with --record, keep it and write the page.

    Args:
        about: what the benchmark does.
        names: the sets; only their names matter.
        measured: returns what was measured of a set.
        record: the file with what was measured, by set.
        tables: returns the tables of the page, by mark, from all that was measured.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(names)}; all of them unless named")
    parser.add_argument("--record", action="store_true", help=f"write what was measured to {record.name} and the page")
    given = parser.parse_args()
    known = json.loads(record.read_text()) if record.exists() else {}
    for name in given.sets or names:
        known[name] = measured(name)
        print(name, known[name], flush=True)
        known = {key: known[key] for key in names if key in known}
        if given.record:
            record.write_text(json.dumps(known, indent=1) + "\n")
    for table in tables(known).values():
        print(table)
    if given.record:
        PAGE.write_text(filled(PAGE.read_text(), tables(known)))
