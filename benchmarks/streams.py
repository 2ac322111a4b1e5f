"""Learning from more rows than memory would hold: the rate beside that of rows in memory, and the peak of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .measure import THREADS, Result

ROWS, COLUMNS, STATES, HIDDEN, EPOCHS = 100_000_000, 20, 4, 10, 8
IN_MEMORY = 4_000_000
LIMIT = 2.0
"""GiB that the process may take at its peak, everything included."""

CODE = """
import json, sys, time
import numpy as np
import fgrn
rows, in_memory, columns, states, hidden, epochs, threads = map(int, sys.argv[1:])
BATCH = 2**16

def batches(count):
    rng = np.random.default_rng(0)
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        yield {f"Y{k}": rng.integers(0, states, size, dtype=np.int8) for k in range(columns)}

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(kind))) / 2**20

def learn(data, epochs=epochs, together=1):
    net = fgrn.lvm({f"Y{k}": states for k in range(columns)}, hidden=hidden)
    ends = []
    begin = time.perf_counter()
    net.learn(data, epochs=epochs, merge=False if isinstance(data, dict) else None, threads=threads, engine="cpu",
              watch=lambda *_: ends.append(time.perf_counter()))
    # the first epoch packs; of the others the fastest, some of them taken together: a machine that is shared is slow
    # for a while, and short times would find the gaps
    taken = np.diff(ends[1:])
    windows = [taken[k : k + together].mean() for k in range(0, max(1, len(taken) - together + 1), together)]
    return net, ends[0] - begin, float(min(windows))

def whole():
    few = list(batches(in_memory))
    return {name: np.concatenate([batch[name] for batch in few]) for name in few[0]}

together = max(1, rows // in_memory)
first, _, before = learn(whole(), 4 * together + 2, together)
same = first == learn(lambda: batches(in_memory), 4 * together + 2)[0]
open("/proc/self/clear_refs", "w").write("5")
_, reading, epoch = learn(lambda: batches(rows))
peak = memory("VmHWM")
inside = min(before, learn(whole(), 4 * together + 2, together)[2])  # before and after
print(json.dumps({"inside": inside / in_memory, "streamed": epoch / rows, "reading": reading, "same": same,
                  "peak": peak}))
"""


def streamed(quick: bool) -> Iterator[Result]:
    """Rows generated on the spot, in a process of its own whose memory is watched."""
    yield from measured(ROWS // 200 if quick else ROWS, IN_MEMORY // 20 if quick else IN_MEMORY, not quick)


def measured(rows: int, in_memory: int, goals: bool) -> Iterator[Result]:
    """The same with some numbers of rows."""
    if not Path("/proc/self/clear_refs").exists():
        print("  streams: left out, memory is watched in the Linux way")
        return
    sizes = (rows, in_memory, COLUMNS, STATES, HIDDEN, EPOCHS, THREADS)
    done = subprocess.run([sys.executable, "-c", CODE, *map(str, sizes)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if not found["same"]:
        raise AssertionError("rows on disk and rows in memory teach different tables")
    what = f"{rows:,} rows x {COLUMNS}, |Y|={STATES}, |S|={HIDDEN}, from disk; in memory {in_memory:,}"
    note = f"{found['streamed'] * 1e9:.1f} ns a row; reading, encoding and the first epoch {found['reading']:.0f} s"
    yield Result(
        "rows on disk", what, found["streamed"], found["inside"], "rows in memory", 0.7 if goals else None, note=note
    )
    goal = 1.0 if goals else None
    note = f"{found['peak']:.2f} GiB at the peak, Python and libraries included"
    yield Result("rows on disk, memory", what, found["peak"], LIMIT, f"{LIMIT:g} GiB", goal, note=note)


if __name__ == "__main__":  # a size of one's own: python -m benchmarks.streams 10000000
    for result in measured(int(sys.argv[1]), min(int(sys.argv[1]), IN_MEMORY), goals=True):
        print(f"{result.name}, {result.what}: {result.ratio:.3g} times as fast as {result.peer}; {result.note}")
