"""What the code in the pages prints: `python docs/outputs.py [page ...]` runs it and writes the outputs into the pages.

A ```python block shows its output in a ```text block right below it: what it prints, then the value of its last line.
A ```console block shows the output of each `$ fgrn ...` line below that line. Blocks without an output are run too.
A line `...` in an output stands for lines left out; as many lines as were there before and after it are kept.
The tests run the same code and compare: words exactly, numbers to the last digit shown, or to nine digits.
"""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FENCE = re.compile(r"^```(python|console|text)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d*)?(?:e[+-]?\d+)?")
COLUMNS = "100"
"""How wide the terminal of the examples is."""


@dataclass(frozen=True)
class Ran:
    """One block of a page after it was run: the span of its output in the page, and what belongs there."""

    line: int
    span: tuple[int, int] | None  # None: the page does not show the output
    shown: str
    real: str
    value: Any  # of the last line, if that is an expression


def pages() -> list[str]:
    """The pages below this folder, by their paths."""
    found = (path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "_pictures")


def run(text: str, name: str) -> Iterator[Ran]:
    """Run the blocks of a page in the current folder, in one namespace."""
    os.environ["COLUMNS"] = COLUMNS
    namespace: dict[str, Any] = {"__name__": name}
    fences = list(FENCE.finditer(text))
    for fence, after in zip_longest(fences, fences[1:]):  # a page may have none
        kind, code = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        if kind == "console":
            real, shown = _console(code, f"{name}, line {line}"), code
            span = fence.span(2) if re.search(r"^(?!\$ )", code.rstrip("\n"), re.M) else None
            yield Ran(line, span, shown, real, None)
        elif kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                # As far down as on the page, so that a traceback names the line.
                value = _execute("\n" * line + code, str(DOCS / name), namespace)
                if value is not None:
                    print(repr(value))
            follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
            shown = after[2] if follows else ""
            yield Ran(line, after.span(2) if follows else None, shown, _elided(printed.getvalue(), shown), value)


def rewritten(text: str, name: str) -> str:
    """The page with the outputs its code has now; an output that differs in no way that matters stays."""
    parts, end = [], 0
    for ran in run(text, name):
        if ran.span is not None and not same(ran.shown, ran.real):
            parts += [text[end : ran.span[0]], ran.real]
            end = ran.span[1]
    return "".join([*parts, text[end:]])


def same(shown: str, real: str) -> bool:
    """Whether two outputs have the same words, and numbers that differ by one in the last digit, or by 1e-9 of them."""
    if NUMBER.sub("#", " ".join(shown.split())) != NUMBER.sub("#", " ".join(real.split())):
        return False
    return all(_near(one, other) for one, other in zip(NUMBER.findall(shown), NUMBER.findall(real), strict=True))


def _near(shown: str, real: str) -> bool:
    if shown == real:
        return True
    mantissa, _, exponent = shown.replace(",", "").partition("e")
    if "." not in mantissa:
        return False
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    one, other = (float(number.replace(",", "")) for number in (shown, real))
    return abs(one - other) <= max(1.01 * unit, 1e-9 * abs(one))


def _execute(code: str, path: str, namespace: dict[str, Any]) -> Any:
    tree = ast.parse(code, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, path, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), path, "eval"), namespace) if last else None


def _console(code: str, where: str) -> str:
    from fgrn.cli import main

    logging.getLogger("fgrn.kernels").setLevel(logging.ERROR)  # that kernels are compiled is no output of a page
    parts = []
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", code, re.M):
        program, *arguments = shlex.split(command)
        if program != "fgrn":
            raise ValueError(f"{where}: only the command fgrn can be run. Got {command!r}.")
        written = io.BytesIO()
        said = io.TextIOWrapper(written, encoding="utf-8", write_through=True)  # tables are written as bytes
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main(arguments)
        text = written.getvalue().decode()
        if status:
            raise RuntimeError(f"{where}: {command!r} ended with exit code {status}: {text}")
        parts.append(f"$ {command}\n{_elided(text, shown)}")
    return "".join(parts)


def _elided(real: str, shown: str) -> str:
    lines = [line.rstrip() for line in real.rstrip("\n").splitlines()]
    kept = shown.splitlines()
    if "..." in kept:
        head, tail = kept.index("..."), len(kept) - kept.index("...") - 1
        if head + tail < len(lines):
            lines = [*lines[:head], "...", *lines[len(lines) - tail :]]
    return "".join(f"{line}\n" for line in lines)


def main(names: list[str]) -> int:
    """Write the outputs into some pages, or all."""
    for name in names or pages():
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        if not FENCE.search(text):
            continue
        print(name, end=": ", flush=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            new = rewritten(text, name)
        page.write_text(new, encoding="utf-8")
        print("as it was" if new == text else "changed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(name).resolve().relative_to(DOCS.resolve()).as_posix() for name in sys.argv[1:]]))
