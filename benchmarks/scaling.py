"""How learning scales: rows, and the workers of a cluster; what a task costs; and what that means for 10^11 rows.

python -m benchmarks.scaling            writes the curve, the figures and the page `docs/scaling.md`
python -m benchmarks.scaling --quick    a hundredth of the rows, to see that it runs; writes nothing
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import fgrn

from .measure import machine
from .report import filled

ROOT = Path(__file__).parents[1]
COLUMNS, STATES, HIDDEN, EPOCHS = 20, 4, 10, 8
ROWS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
WORKERS = (1, 2)
FILES, GROUP = 8, 2**18
PIECES, PIECE_ROWS, TASK_EPOCHS = (16, 64, 128, 256), 64, 20


def files(folder: Path, rows: int, group: int = GROUP) -> Path:
    """Random rows in Parquet files, made on the spot."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir()
    rng = np.random.default_rng(0)
    ends = [rows * number // FILES for number in range(FILES + 1)]
    for number in range(FILES):
        schema = pa.schema([(f"Y{k}", pa.int8()) for k in range(COLUMNS)])
        with parquet.ParquetWriter(folder / f"{number}.parquet", schema) as writer:
            left = ends[number + 1] - ends[number]
            while left:
                size = min(left, group)
                columns = [pa.array(rng.integers(0, STATES, size, dtype=np.int8)) for _ in range(COLUMNS)]
                writer.write_table(pa.table(columns, schema=schema), row_group_size=group)
                left -= size
    return folder


def network() -> fgrn.Network:
    return fgrn.lvm({f"Y{k}": STATES for k in range(COLUMNS)}, hidden=HIDDEN)


def learnt(source: Any, epochs: int = EPOCHS, **options: Any) -> tuple[fgrn.Network, float, float]:
    """The network, the seconds until the first epoch is over, and those of the shortest of the others."""
    net, ends = network(), []
    begin = time.perf_counter()
    net.learn(source, epochs=epochs, engine="cpu", watch=lambda *_: ends.append(time.perf_counter()), **options)
    return net, ends[0] - begin, float(np.diff(ends).min())


def peak_memory() -> float:
    """GiB that this process has taken at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 2**20


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """Worker processes of one thread each, on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
        Client(local) as client,
    ):
        yield client


def curve(rows: tuple[int, ...]) -> list[dict[str, Any]]:
    """Seconds to read and of an epoch: in this process by one thread and by two, and by one worker and two."""
    found = []
    with TemporaryDirectory(dir="/var/tmp") as place:
        for count in rows:
            folder = files(Path(place) / str(count), count)
            here = {threads: learnt(folder, threads=threads) for threads in WORKERS}
            for workers in WORKERS:
                with cluster(workers) as client:
                    learnt(folder, 2, executor=client)  # so that all workers have their kernels in place
                    net, reading, epoch = learnt(folder, executor=client)
                    peak = max(client.run(peak_memory).values())
                if not np.allclose(net._parameters.values, here[1][0]._parameters.values, rtol=1e-9):
                    raise AssertionError("workers and one process learn different tables")
                line = {"rows": count, "workers": workers, "reading": reading, "epoch": epoch,
                        "peak": peak, "reading_here": here[workers][1], "epoch_here": here[workers][2]}  # fmt: skip
                print(f"  {line}", flush=True)
                found.append(line)
    return found


def tasks() -> dict[str, Any]:
    """What a piece costs that has next to no rows: the work of the scheduler, and of the wires."""
    import dask.dataframe as dd

    times = []
    with TemporaryDirectory(dir="/var/tmp") as place, cluster(2) as client:
        for pieces in PIECES:
            folder = files(Path(place) / str(pieces), pieces * PIECE_ROWS, PIECE_ROWS)
            rows = dd.read_parquet(folder, split_row_groups=1)
            if rows.npartitions != pieces:
                raise AssertionError(f"{rows.npartitions} partitions, where there should be {pieces}")
            times.append(learnt(rows, TASK_EPOCHS, executor=client)[2])
            print(f"  {pieces} pieces: {times[-1]:.3f} s", flush=True)
    slope, fixed = np.polyfit(PIECES, times, 1)
    return {"pieces": list(PIECES), "seconds": times, "per_piece": float(slope), "fixed": float(fixed)}


def table(lines: list[dict[str, Any]]) -> str:
    """The curve as Markdown."""
    out = [
        "| rows | workers | reading, first epoch | one epoch | rows a second | a worker's peak | threads, here |",
        "|---|---|---|---|---|---|---|",
    ]
    out += [
        f"| {line['rows']:,} | {line['workers']} | {line['reading']:.1f} s | {line['epoch'] * 1000:,.0f} ms "
        f"| {line['rows'] / line['epoch'] / 1e6:.0f} million | {line['peak']:.2f} GiB "
        f"| {line['epoch_here'] * 1000:,.0f} ms |"
        for line in lines
    ]
    return "\n".join(out)


def picture(path: Path, lines: list[dict[str, Any]]) -> None:
    """Seconds of an epoch over rows, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for workers, colour in zip(WORKERS, ("#3b6ea5", "#d1495b"), strict=True):
        some = [line for line in lines if line["workers"] == workers]
        rows = [line["rows"] for line in some]
        named = f"{workers} {'worker' if workers == 1 else 'workers'}"
        axes.plot(rows, [line["epoch"] for line in some], "o-", color=colour, label=named)
        threads = f"{workers} {'thread' if workers == 1 else 'threads'} of one process"
        axes.plot(
            rows, [line["epoch_here"] for line in some], "o--", color=colour, alpha=0.6, label=threads, mfc="white"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds of one epoch")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} million")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"{COLUMNS} columns of {STATES} states, {HIDDEN} hidden states", loc="left", fontsize=11)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path)


def main() -> None:
    """Measure, and write down."""
    quick = "--quick" in sys.argv
    lines = curve(tuple(count // 100 for count in ROWS) if quick else ROWS)
    costs = tasks()
    print(f"  a piece costs {costs['per_piece'] * 1e3:.2f} ms an epoch, and an epoch {costs['fixed'] * 1e3:.0f} ms")
    if quick:
        return
    here = machine()
    figures = {"machine": here, "curve": lines, "tasks": costs}
    (ROOT / "benchmarks" / "scaling.json").write_text(json.dumps(figures, indent=1) + "\n")
    picture(ROOT / "docs" / "scaling.svg", lines)
    page = ROOT / "docs" / "scaling.md"
    if page.exists():
        where = f"{here['processor']}, {here['cores']} cores, Python {here['python']}."
        page.write_text(filled(page.read_text(), {"machine": where, "curve": table(lines)}))


if __name__ == "__main__":
    main()
