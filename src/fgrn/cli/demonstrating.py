"""Commands that demonstrate and measure: `demo`, `bench`, `paper`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..core.exceptions import counted
from . import shared_options, terminal
from .terminal import print_text


@click.command(epilog="\b\nExample\n  fgrn demo --output pictures")
@click.option(
    "--output", default="fgrn-demo", show_default=True, metavar="FOLDER", help="The folder for pictures and models."
)
@click.option("--hidden", type=click.IntRange(1), default=8, show_default=True, help="Hidden states for each digit.")
@click.option("--epochs", type=click.IntRange(1), default=100, show_default=True, help="Epochs of learning, at most.")
@shared_options.json_option
def demo(output: str, hidden: int, epochs: int, as_json: bool) -> None:
    """Learn handwritten digits, compare, explain, complete, and draw what was learnt. Needs no network."""
    from ..showcase.demo import run_demo

    results = run_demo(Path(output), hidden, epochs, (lambda _: None) if as_json else print_text)
    if as_json:
        terminal.print_json(results)


@click.command(epilog="\b\nExample\n  fgrn bench --rows 200000")
@click.option("--rows", type=click.IntRange(1), default=200_000, show_default=True, help="Random rows to learn from.")
@click.option(
    "--variables",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of observed variables, each with four states.",
)
@click.option("--hidden", type=click.IntRange(1), default=20, show_default=True, help="States of the hidden variable.")
@click.option("--epochs", type=click.IntRange(1), default=10, show_default=True, help="Epochs that are timed.")
@shared_options.json_option
def bench(rows: int, variables: int, hidden: int, epochs: int, as_json: bool) -> None:
    """Measure the speed on this machine: rows per second in learning and inference, beside the reference engine."""
    from ..engines import thread_count
    from ..graph.structures import lvm
    from ..tables.frames import Coded

    generator = np.random.default_rng(0)
    names = [f"Y{number}" for number in range(variables)]
    data = {name: Coded(generator.integers(0, 4, rows).astype(np.int8)) for name in names}
    few = {name: Coded(column.codes[: max(1, rows // 100)]) for name, column in data.items()}

    def seconds(table: Any, engine: str, threads: int | None, count: int) -> float:
        net = lvm(dict.fromkeys(names, 4), hidden=hidden)
        begin = time.perf_counter()
        net.learn(table, epochs=count, engine=engine, threads=threads, merge=False)
        return time.perf_counter() - begin

    begin = time.perf_counter()
    seconds(few, "cpu", None, 1)
    compiled = time.perf_counter() - begin
    results: dict[str, float] = {"seconds to compile or load kernels": compiled}
    for name, threads in ((f"learning, {counted(thread_count(), 'thread')}", None), ("learning, one thread", 1)):
        epoch = min(
            (seconds(data, "cpu", threads, epochs + 1) - seconds(data, "cpu", threads, 1)) / epochs for _ in range(3)
        )
        results[f"{name}, rows per second"] = rows / max(epoch, 1e-9)
    plain = (seconds(few, "reference", 1, 2) - seconds(few, "reference", 1, 1)) / len(few["Y0"])
    results["reference engine, rows per second"] = 1 / max(plain, 1e-12)
    net = lvm(dict.fromkeys(names, 4), hidden=hidden)
    net.posterior(few, "S", engine="cpu")
    begin = time.perf_counter()
    net.posterior(data, "S", engine="cpu")
    results["posterior of the hidden variable, rows per second"] = rows / (time.perf_counter() - begin)
    if as_json:
        terminal.print_json(results)
        return
    print_text(
        f"{counted(rows, 'random row')}, {counted(variables, 'variable')} of 4 states, "
        f"{counted(hidden, 'hidden state')}"
    )
    lines = [[name, f"{value:,.1f}" if value < 100 else f"{value:,.0f}"] for name, value in results.items()]
    print_text(terminal.aligned(["what", ""], lines))


@click.command(epilog="\b\nExample\n  fgrn paper --quick")
@click.option(
    "--folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="The folder of the three UCI files. [FGRN_DATA, or they are downloaded once]",
)
@click.option(
    "--splits", type=click.IntRange(1), default=20, show_default=True, help="Random splits into training and test rows."
)
@click.option("--quick", is_flag=True, help="Few splits and starts, as a quick check.")
@shared_options.json_option
def paper(folder: str | None, splits: int, quick: bool, as_json: bool) -> None:
    """Reproduce the results of the paper: accuracy on three UCI tables, operations, memory."""
    from ..showcase import paper as module

    results = module.run(folder=folder, splits=splits, quick=quick)
    if as_json:
        terminal.print_json(results.as_dict())
    else:
        print_text(str(results))
