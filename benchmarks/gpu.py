"""The torch engine on a GPU: parity with the reference engine first, then its speed and memory.

    python -m benchmarks.gpu --output gpu.json

needs NumPy, PyTorch and a GPU. A hidden tree of 784 columns x 256 levels is learnt through `Network.learn`; an epoch is
timed from one call of its watcher to the next. What is printed is written to the output as JSON too.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fgrn import SISO, BayesianNetwork, Diverter, Network, Source, Variable, engines, lvm
from fgrn.bayes.tree_learning import parents_from
from fgrn.core.tree_centre import neighbours_of, tree_centre
from fgrn.tables.disk import Disk
from fgrn.tables.encoded import Evidence

SIDE, LEVELS = 28, 256
"""Columns are the pixels of a square of this side, each with so many levels."""

BOUNDS = {"float64": 1e-10, "float32": 1e-4, "tf32": 1e-2, "bfloat16": 5e-2}
"""By how much counts may differ from those of the reference engine, as a part of the largest."""

LIKELIHOOD_BOUNDS = {"float64": 1e-12, "float32": 1e-6, "tf32": 1e-4, "bfloat16": 5e-3}
"""And the log-likelihood, as a part of itself."""

RANDOM_ROWS, MISSING = 4096, 0.3
"""Of rows in a file: how many are drawn, which then repeat, and the part of their values that is missing."""

GOALS = {("tf32", 128): 400, ("bfloat16", 128): 600, ("tf32", 512): 100, ("bfloat16", 512): 165,
         ("tf32", 1024): 35, ("bfloat16", 1024): 62}  # fmt: skip
"""Thousand rows a second that an epoch has to make on an H200."""


def grid_tree(side: int, seed: int = 0) -> list[int]:
    """The parent of each pixel in a random spanning tree of the square, -1 for the root; about as deep as of images."""
    draw, count = np.random.default_rng(seed), side * side
    parents, seen = [-1] * count, {count // 2 + side // 2}
    edge = list(seen)
    while edge:
        here = edge[int(draw.integers(max(0, len(edge) - 24), len(edge)))]
        row, column = divmod(here, side)
        near = [(row + a, column + b) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        free = [r * side + c for r, c in near if 0 <= r < side and 0 <= c < side and r * side + c not in seen]
        if not free:
            edge.remove(here)
            continue
        there = free[int(draw.integers(len(free)))]
        parents[there] = here
        seen.add(there)
        edge.append(there)
    return from_the_middle(parents)


def from_the_middle(parents: list[int]) -> list[int]:
    """The same tree from the node whose farthest node is nearest, as `fgrn.hidden_tree` has it."""
    edges = [(parent, node) for node, parent in enumerate(parents) if parent >= 0]
    return parents_from(edges, len(parents), tree_centre(neighbours_of(edges, len(parents))))


def depth_of(parents: Sequence[int]) -> int:
    """How many links lie between the root and the node farthest away."""
    depth = [0] * len(parents)
    for node in range(len(parents)):
        above = node
        while parents[above] >= 0:
            above = parents[above]
            depth[node] += 1
    return max(depth)


def hidden_tree_of(parents: Sequence[int], hidden: int, levels: int) -> Network:
    """A hidden variable for each column, joined as the parents say; tables are drawn when it is learnt."""
    above = [Variable(f"S{node}", hidden) for node in range(len(parents))]
    blocks: list[Any] = []
    for node, parent in enumerate(parents):
        children = [child for child, its in enumerate(parents) if its == node]
        legs = [Variable(f"S{node}:{name}", hidden) for name in ("y", *children)]
        if parent < 0:
            blocks.append(Source(above[node]))
        if children:
            blocks.append(Diverter([above[node]], legs))
            blocks += [SISO(leg, above[child]) for leg, child in zip(legs[1:], children, strict=True)]
        blocks.append(SISO(legs[0] if children else above[node], Variable(f"Y{node}", levels)))
    return Network(blocks)


def random_rows(columns: int, levels: int, rows: int, missing: float = 0.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Codes that hang together from column to column; -1 is no code, so missing values are floats that are NaN."""
    draw = np.random.default_rng(seed)
    shade = draw.integers(0, levels, rows)
    table: dict[str, np.ndarray] = {}
    for column in range(columns):
        shade = (shade + draw.integers(-(levels // 8), levels // 8 + 1, rows)) % levels
        values: np.ndarray = shade.copy()
        if missing:
            values = np.where(draw.random(rows) < missing, np.nan, values)
        table[f"Y{column}"] = values
    return table


# Parity


def counted(net: Network, data: Any, engine: str, **options: Any) -> tuple[np.ndarray, float]:
    """The expected counts of all rows, and the log-likelihood, from one epoch's E-step."""
    plan = net._plan(())
    encoded = net._encode(plan, data)
    programs = net._programs_for(plan, (), encoded)
    prepared = engines.get(engine, **options).prepare(plan, programs, programs.counting, encoded)
    found = prepared.load(net._parameters.values).counts(True)
    return np.asarray(found.values), found.log_likelihood


def networks_to_compare() -> dict[str, tuple[Network, Any]]:
    """Small networks of several kinds, with rows."""
    draw = np.random.default_rng(3)
    tree = hidden_tree_of(grid_tree(6), 20, 10)
    mixed = Network([
        Source(Variable("A", 3)), Diverter([Variable("A", 3)], [Variable("A1", 3), Variable("A2", 3)]),
        SISO(Variable("A1", 3), Variable("B", 7)), SISO(Variable("A2", 3), Variable("Y0", 300)),
        Diverter([Variable("B", 7)], [Variable("B1", 7), Variable("B2", 7)]),
        SISO(Variable("B1", 7), Variable("Y1", 4), tie="t"), SISO(Variable("B2", 7), Variable("Y2", 4), tie="t"),
    ])  # fmt: skip
    rows = {"Y0": draw.integers(0, 300, 500), "Y1": draw.integers(0, 4, 500), "Y2": draw.integers(0, 4, 500)}
    many = lvm({f"Y{i}": 5 for i in range(60)}, hidden=33)
    found = {
        "hidden tree": (tree, random_rows(36, 10, 700, seed=1)),
        "hidden tree, missing values": (tree.copy(), random_rows(36, 10, 700, missing=0.3, seed=2)),
        "tied tables, 300 levels": (mixed, rows),
        "60 leaves": (many, random_rows(60, 5, 900, missing=0.1)),
        "large tree": (hidden_tree_of(grid_tree(8), 128, 256), random_rows(64, 256, 100)),
    }
    for net, data in found.values():
        net.learn({name: values[:50] for name, values in data.items()}, epochs=1, engine="reference", smoothing=0.1)
    return found


def check_parity(device: str) -> dict[str, Any]:
    """Compare with the reference engine in every precision; an AssertionError where they differ too much."""
    told: dict[str, Any] = {}
    for name, (net, data) in networks_to_compare().items():
        right, likelihood = counted(net, data, "reference")
        for precision, bound in BOUNDS.items():
            counts, found = counted(net, data, "torch", device=device, precision=precision)
            off = float(np.abs(counts - right).max() / right.max())
            away = abs(found - likelihood) / abs(likelihood)
            told[f"{name}, {precision}"] = [off, away]
            print(f"  {name:30} {precision:9} counts {off:.1e}  log-likelihood {away:.1e}", flush=True)
            assert np.isfinite(counts).all(), (name, precision)
            assert off <= bound, (name, precision, off)
            assert away <= LIKELIHOOD_BOUNDS[precision], (name, precision, away)
            again, same = counted(net, data, "torch", device=device, precision=precision)
            assert np.array_equal(again, counts) and same == found, ("not the same twice", name, precision)
    told |= _check_junction_tree(device)
    told |= _check_zeros(device)
    return told


def _check_junction_tree(device: str) -> dict[str, Any]:
    """Posteriors of a Bayesian network with a loop, and of rows with distributions."""
    draw = np.random.default_rng(5)
    model = BayesianNetwork(dict.fromkeys("abcd", 4), {"b": ["a"], "c": ["a"], "d": ["b", "c"]})
    data = {name: draw.integers(0, 4, 400) for name in "abcd"}
    model.learn(data, smoothing=1.0)
    asked = {"d": draw.integers(0, 4, 50), "b": draw.dirichlet(np.ones(4), 50).tolist()}
    right = model.posterior(asked, "a", engine="reference")
    found = model.propagate(
        asked, keep=["a"], parts=["marginal"], engine="torch", device=device, precision="float64"
    ).marginal("a")
    off = float(np.abs(found - right).max())
    assert off < 1e-10, off
    return {"junction tree, float64": [off, 0.0]}


def _check_zeros(device: str) -> dict[str, Any]:
    """Cells that are exactly zero stay so, and impossible rows are told."""
    draw = np.random.default_rng(7)
    one = Network([
        Source(Variable("A", 4)),
        SISO(Variable("A", 4), Variable("Y", 4), table=np.eye(4)[[1, 0, 3, 2]] * 0.5 + np.eye(4) * 0.5),
    ])  # fmt: skip
    rows = {"Y": draw.integers(0, 4, 100)}
    net = one.copy()
    net.learn(rows, epochs=3, engine="torch", device=device, precision="bfloat16")
    assert ((net.table("Y") == 0) == (one.table("Y") == 0)).all()
    return {}


# Speed


def epoch_seconds(net: Network, data: Any, epochs: int, **options: Any) -> tuple[float, float, str]:
    """The seconds until the first epoch was counted, the median of the others, and how it was run."""
    begun, ticks = time.perf_counter(), []

    def watch(start: int, epoch: int, likelihood: float) -> None:
        ticks.append(time.perf_counter())
        assert np.isfinite(likelihood)

    history = net.learn(data, epochs=epochs, watch=watch, engine="torch", merge=False, **options)
    return ticks[0] - begun, float(np.median(np.diff(ticks))) if len(ticks) > 1 else 0.0, history.execution


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rows a second for each size and precision, and memory for each row."""
    import torch

    parents = grid_tree(SIDE)
    told: dict[str, Any] = {"depth": depth_of(parents), "rows": arguments.rows}
    data = random_rows(SIDE * SIDE, LEVELS, arguments.rows)
    for hidden in arguments.sizes:
        begun = time.perf_counter()
        net = hidden_tree_of(parents, hidden, LEVELS)
        print(f"  S={hidden}: built in {time.perf_counter() - begun:.1f} s", flush=True)
        for precision in arguments.precisions:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            epochs = arguments.epochs if hidden < 1024 else min(arguments.epochs, 4)
            begun = time.perf_counter()
            first, epoch, how = epoch_seconds(net, data, epochs, device=arguments.device, precision=precision)
            whole = time.perf_counter() - begun
            rate, goal = arguments.rows / epoch / 1000, GOALS.get((precision, hidden))
            found = {
                "thousand_rows_a_second": round(rate, 1), "goal": goal, "epoch_s": epoch, "first_epoch_s": first,
                "whole_call_s": whole, "peak_GiB": torch.cuda.max_memory_allocated() / 2**30, "execution": how,
            }  # fmt: skip
            told[f"S={hidden} {precision}"] = found
            print(f"  S={hidden} {precision}: {rate:.0f} k rows/s (goal {goal}) {found}", flush=True)
    return told


def measure_memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """The memory of blocks of two sizes beside the formula."""
    import torch

    from fgrn.engines.device import engine

    hidden, told = arguments.sizes[0], {}
    net = hidden_tree_of(grid_tree(SIDE), hidden, LEVELS)
    data = random_rows(SIDE * SIDE, LEVELS, 8192)
    for precision in arguments.precisions:
        peaks = []
        for most in (4096, 8192):
            engine.MOST_ROWS = most
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            epoch_seconds(net, data, 1, device=arguments.device, precision=precision)
            peaks.append(torch.cuda.max_memory_allocated())
        size = {"tf32": 4, "float32": 4, "bfloat16": 2, "float64": 8}[precision]
        formula = size * 3 * SIDE * SIDE * hidden
        found = (peaks[1] - peaks[0]) / 4096
        told[precision] = {"bytes_per_row": found, "formula": formula, "ratio": found / formula}
        print(f"  {precision}: {found:,.0f} bytes a row, {formula:,} by the formula", flush=True)
    return told


def measure_streaming(arguments: argparse.Namespace) -> dict[str, Any]:
    """An epoch of rows that stay on the device beside one of rows that are copied there every time."""
    from fgrn.engines.device import device_rows

    hidden, rows = arguments.sizes[0], 2 * arguments.rows
    net, told = hidden_tree_of(grid_tree(SIDE), hidden, LEVELS), {}
    data = random_rows(SIDE * SIDE, LEVELS, rows)
    share = device_rows.RESIDENT_SHARE
    for precision in arguments.precisions:
        seconds = {}
        for name, part in (("resident", share), ("streamed", 0.0)):
            device_rows.RESIDENT_SHARE = part
            seconds[name] = epoch_seconds(net, data, 5, device=arguments.device, precision=precision)[1]
        told[precision] = {**seconds, "ratio": seconds["resident"] / seconds["streamed"]}
        print(f"  {precision}: {told[precision]}", flush=True)
    device_rows.RESIDENT_SHARE = share
    return told


def rows_on_disk(rows: int, missing: float) -> Evidence:
    """Random rows in a file, one after the other."""
    table, disk = random_rows(SIDE * SIDE, LEVELS, RANDOM_ROWS), Disk()
    codes = np.stack(list(table.values()), axis=1).astype(np.int16)
    draw = np.random.default_rng(1)

    def some(cells: slice) -> np.ndarray:
        found = codes.ravel()[np.arange(cells.start, cells.stop) % codes.size]
        return np.where(draw.random(len(found), dtype=np.float32) < missing, -1, found)

    kept = disk.computed(rows * codes.shape[1], np.int16, some).reshape(rows, -1)
    return Evidence.of_codes(tuple(table), kept, disk=disk)


def measure_disk(arguments: argparse.Namespace) -> dict[str, Any]:
    """A million rows in a file, with missing values: an epoch, and the posterior of the root's hidden variable."""
    net, told = hidden_tree_of(grid_tree(SIDE), arguments.sizes[0], LEVELS), {}
    (root,) = (block.variable.name for block in net.blocks if isinstance(block, Source))
    begun = time.perf_counter()
    table = rows_on_disk(arguments.million, MISSING)
    print(f"  {table.rows:,} rows written in {time.perf_counter() - begun:.1f} s", flush=True)
    for precision in arguments.precisions:
        options = {"device": arguments.device, "precision": precision}
        first, epoch, _ = epoch_seconds(net, table, 3, **options)
        begun = time.perf_counter()
        found = net.propagate(table, keep=[root], parts=["marginal", "likelihood"], engine="torch", **options)
        asked = time.perf_counter() - begun
        assert np.isfinite(found.log_likelihood).all()
        assert np.allclose(found.marginal(root).sum(axis=1), 1, atol=1e-3)
        told[precision] = {
            "rows": table.rows, "missing": MISSING, "first_epoch_s": first, "epoch_s": epoch, "posterior_s": asked,
            "thousand_rows_a_second": table.rows / epoch / 1000,
            "thousand_posteriors_a_second": table.rows / asked / 1000,
        }  # fmt: skip
        print(f"  {precision}: {told[precision]}", flush=True)
    return told


def measure_batches(arguments: argparse.Namespace) -> dict[str, Any]:
    """Mini-batch EM with the update after every thousand rows."""
    net, told = hidden_tree_of(grid_tree(SIDE), arguments.sizes[0], LEVELS), {}
    data = random_rows(SIDE * SIDE, LEVELS, arguments.rows)
    for precision in arguments.precisions:
        found = epoch_seconds(
            net, data, 4, device=arguments.device, precision=precision, batch_size=1000, smoothing=0.1
        )
        told[precision] = {"thousand_rows_a_second": arguments.rows / found[1] / 1000, "first_epoch_s": found[0]}
        print(f"  {precision}: {told[precision]}", flush=True)
    return told


def profile(arguments: argparse.Namespace) -> dict[str, Any]:
    """Which kernels take how long in one epoch."""
    import torch

    net, told = hidden_tree_of(grid_tree(SIDE), arguments.sizes[0], LEVELS), {}
    data = random_rows(SIDE * SIDE, LEVELS, 16384)
    for precision in arguments.precisions:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            epoch_seconds(net, data, 3, device=arguments.device, precision=precision)
        print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=60), flush=True)
        told[precision] = {
            event.key[:80]: [event.count, event.device_time_total / 1e3]
            for event in sorted(seen.key_averages(), key=lambda one: -one.device_time_total)[:14]
        }
    return told


TRIALS = (
    "", "kernels.BYTES=8192", "kernels.BYTES=16384", "kernels.WARPS=8", "kernels.WARPS=2",
    "engine.MOST_ROWS=4096", "engine.MOST_ROWS=16384",
    "kernels.TILE_FLOAT32=(256, 128, 32, 8, 5)", "kernels.TILE_FLOAT32=(128, 128, 32, 4, 4)",
    "kernels.TILE_FLOAT32=(256, 128, 64, 8, 3)", "kernels.TILE_FLOAT32=(128, 256, 32, 8, 4)",
    "kernels.TILE_BFLOAT16=(256, 128, 64, 8, 4)", "kernels.TILE_BFLOAT16=(128, 128, 64, 4, 4)",
    "kernels.TILE_BFLOAT16=(64, 256, 64, 8, 3)", "kernels.TILE_BFLOAT16=(128, 256, 64, 8, 3)",
)  # fmt: skip
"""Constants of the engine that are tried one at a time."""


def tune(arguments: argparse.Namespace) -> dict[str, Any]:
    """An epoch with other constants of the engine."""
    told: dict[str, Any] = {}
    rows = 16384
    data = random_rows(SIDE * SIDE, LEVELS, rows)
    for hidden in arguments.sizes:
        net = hidden_tree_of(grid_tree(SIDE), hidden, LEVELS)
        plan = net._plan(())
        encoded = net._encode(plan, data)
        programs = net._programs_for(plan, (), encoded)
        for precision in arguments.precisions:
            for trial in TRIALS:
                if ("FLOAT32" if precision == "bfloat16" else "BFLOAT16") in trial:
                    continue
                before = set_constants([trial] if trial else [])
                engine = engines.get("torch", device=arguments.device, precision=precision)
                prepared = engine.prepare(plan, programs, programs.counting, encoded)
                values = engine.vectors(plan).vector(net._parameters.values)
                seconds = []
                for _ in range(4):
                    begun = time.perf_counter()
                    prepared.load(values).counts(True)
                    seconds.append(time.perf_counter() - begun)
                told[f"S={hidden} {precision} {trial}"] = rows / min(seconds) / 1000
                print(f"  S={hidden} {precision} {trial or 'as it is'}: {rows / min(seconds) / 1000:.0f} k", flush=True)
                for module, constant, value in before:
                    setattr(module, constant, value)
    return told


def set_constants(wanted: Sequence[str]) -> list[tuple[Any, str, Any]]:
    """Set constants of the engine, such as "kernels.CELLS=4096"; returns what they were."""
    before = []
    for one in wanted:
        name, value = one.split("=", 1)
        place, constant = name.split(".")
        module = importlib.import_module(f"fgrn.engines.device.{place}")
        before.append((module, constant, getattr(module, constant)))
        setattr(module, constant, ast.literal_eval(value))
    return before


def first_epoch(arguments: argparse.Namespace) -> dict[str, Any]:
    """The first epoch in a process of its own, with nothing compiled before."""
    code = (
        "import time; begun = time.perf_counter()\n"
        "from benchmarks.gpu import *\n"
        f"net = hidden_tree_of(grid_tree(SIDE), {arguments.sizes[0]}, LEVELS)\n"
        f"data = random_rows(SIDE * SIDE, LEVELS, {arguments.rows})\n"
        "ready = time.perf_counter()\n"
        f"first, _, _ = epoch_seconds(net, data, 1, device={arguments.device!r}, precision='tf32')\n"
        "print(ready - begun, first)"
    )
    with tempfile.TemporaryDirectory() as cold:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "TRITON_CACHE_DIR": cold},
        )  # fmt: skip
    made, first = map(float, done.stdout.split())
    print(f"  network and rows made in {made:.1f} s, first epoch counted after {first:.1f} s (goal 20)", flush=True)
    return {"seconds": first, "goal": 20}


PARTS = {
    "parity": lambda arguments: check_parity(arguments.device), "first": first_epoch, "speed": measure,
    "batches": measure_batches, "memory": measure_memory, "streaming": measure_streaming, "disk": measure_disk,
    "profile": profile, "tune": tune,
}  # fmt: skip


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--precisions", nargs="+", default=["tf32", "bfloat16"])
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--million", type=int, default=2**20, help="rows in a file")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--parts", nargs="+", default=[name for name in PARTS if name not in ("profile", "tune")])
    parser.add_argument("--set", nargs="*", default=[], help="constants of the engine: kernels.CELLS=4096")
    arguments = parser.parse_args()
    set_constants(arguments.set)
    import torch

    gpu = arguments.device.startswith("cuda")
    told: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if gpu else "processor",
        "torch": torch.__version__,
        "settings": arguments.set,
    }
    print(told, flush=True)
    for part in arguments.parts:
        begun = time.perf_counter()
        print(part, flush=True)
        try:
            told[part] = PARTS[part](arguments)
        except Exception as error:  # the other parts are still worth their time
            if part == "parity":
                raise
            told[part] = f"{type(error).__name__}: {error}"
            print(f"  {told[part]}", flush=True)
        print(f"  {time.perf_counter() - begun:.1f} s", flush=True)
        if arguments.output:
            Path(arguments.output).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
