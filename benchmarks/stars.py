"""Learning and inference on one hidden variable: against StepMix, pomegranate and matrix products."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import fgrn

from . import peers
from .measure import (
    THREADS,
    Result,
    columns_of,
    epochs_in_turns,
    in_turns,
    per_epoch,
    random_rows,
    random_star,
    seconds,
    tables_of,
)

SIZES = {"small": (1_000_000, 10, 4, 20), "large": (200_000, 100, 4, 64)}
GOALS = {
    ("small", "StepMix"): 100, ("small", "pomegranate"): 400, ("small", "NumPy one-hot float64"): 5,
    ("large", "StepMix"): 35, ("large", "NumPy one-hot float64"): 3,
}  # fmt: skip


def agree(peer: peers.Peer, net: fgrn.Network, codes: np.ndarray, tolerance: float) -> None:
    """Refuse to time a peer that does not compute the same epoch."""
    prior, tables = peer.step()
    mine = net.copy()
    mine.learn(columns_of(codes), epochs=1, merge=False, holes="ignore", threads=THREADS)
    our_prior, our_tables = tables_of(mine)
    np.testing.assert_allclose(our_prior, prior, rtol=tolerance)
    np.testing.assert_allclose(our_tables, tables, rtol=tolerance, atol=tolerance / 10)


def learner(net: fgrn.Network, codes: np.ndarray, **options: object) -> Callable[[int], object]:
    """A run of as many epochs as asked for, by the public method, on a copy."""
    data = columns_of(codes)
    settings = {"merge": False, "threads": THREADS, **options}
    return lambda epochs: net.copy().learn(data, epochs=epochs, **settings)


def epochs(quick: bool) -> Iterator[Result]:
    """One epoch at K = 1, through `learn`, on random data, equal rows not merged."""
    for size, (rows, variables, states, hidden) in SIZES.items():
        rows = rows // 20 if quick else rows
        net, codes = random_star(variables, states, hidden), random_rows(rows, variables, states)
        prior, tables = tables_of(net)
        learner(net, codes)(20)  # the memory of this size is there
        ours = per_epoch(learner(net, codes), 2, 42, 5)
        what = f"{rows:,} rows, N={variables}, |Y|={states}, |S|={hidden}"
        both = epochs_in_turns(learner(net, codes), learner(net, codes, threads=1), 2, 32)
        yield Result(f"threads, {size}", what, *both, "one thread", None if quick else 1.7)
        whole = seconds(lambda net=net, codes=codes: learner(net, codes)(20))
        yield Result(f"20 epochs, {size}, reading included", what, whole, 20 * ours, "20 epochs alone")
        for make, tolerance in ((peers.one_hot, 1e-8), (peers.stepmix, 1e-8), (peers.pomegranate, 2e-2)):
            if make is peers.pomegranate and size == "large":
                continue
            peer = make(codes, prior, tables)
            few = codes[: rows // 20]
            agree(make(few, prior, tables), net, few, tolerance)
            theirs = per_epoch(peer.fit, 1, 4, 1)
            goal = None if quick else GOALS.get((size, peer.name))
            yield Result(f"epoch, {size}", what, ours, theirs, peer.name, goal)
            del peer
        single = peers.one_hot(codes, prior, tables, np.float32)
        yield Result(f"epoch, {size}", what, ours, per_epoch(single.fit, 1, 4, 1), single.name)


def holes(quick: bool) -> Iterator[Result]:
    """The same with every fifth value missing."""
    rows, variables, states, hidden = SIZES["small"]
    rows = rows // 20 if quick else rows
    net, codes = random_star(variables, states, hidden), random_rows(rows, variables, states)
    full = per_epoch(learner(net, codes), 2, 22)
    codes = random_rows(rows, variables, states, holes=0.2)
    peer = peers.stepmix(codes, *tables_of(net))
    few = codes[: rows // 20]
    agree(peers.stepmix(few, *tables_of(net)), net, few, 1e-8)
    ours = per_epoch(learner(net, codes), 2, 22)
    what = f"{rows:,} rows, N={variables}, |Y|={states}, |S|={hidden}, 20 % missing"
    yield Result("epoch, holes", what, ours, per_epoch(peer.fit, 1, 3, 1), "StepMix")
    yield Result("holes against complete", what, full, ours, "complete rows", 1.3, at_most=True)
    for hidden in (20, 64):
        net = random_star(100, 4, hidden)
        full = per_epoch(learner(net, random_rows(rows // 10, 100, 4)), 2, 12)
        sparse = per_epoch(learner(net, random_rows(rows // 10, 100, 4, holes=0.9)), 2, 12)
        what = f"N=100, |S|={hidden}: a row with 90 % holes, of a full one"
        yield Result("nearly empty rows", what, full, sparse, "full rows")


def merging(quick: bool) -> Iterator[Result]:
    """A real table with repeats: what merging equal rows is worth."""
    folder = Path(__file__).parents[2] / "shared" / "data" / "debd"
    file = folder / "msnbc.ts.data.gz"
    if not file.exists():
        print("  merging: left out, the page visits msnbc are not beside this checkout")
        return
    codes = np.loadtxt(file, delimiter=",", dtype=np.int8)
    net = random_star(codes.shape[1], 2, 20)
    ours = seconds(lambda: learner(net, codes, merge=None)(100))
    theirs = seconds(lambda: learner(net, codes, merge=False)(100))
    kinds = len(np.unique(codes, axis=0))
    what = f"msnbc: {len(codes):,} rows of {kinds:,} kinds, {codes.shape[1]} variables, |S|=20, 100 epochs"
    yield Result("equal rows merged", what, ours, theirs, "not merged")


def inference(quick: bool) -> Iterator[Result]:
    """The class posterior of many rows, beside one epoch of learning on them; both calls whole, reading included."""
    rows, variables, states, hidden = SIZES["small"]
    rows = rows // 20 if quick else rows
    codes = random_rows(rows, variables, states).astype(np.uint8)
    net = fgrn.lvm({**{f"Y{i}": states for i in range(variables)}, "L": 3}, hidden=hidden)
    data, few = columns_of(codes), {name: column[:3000] for name, column in columns_of(codes).items()}
    net.learn({**few, "L": random_rows(3000, 1, 3)[:, 0]}, epochs=2)
    one, other = (net.posterior(few, "L", engine=engine) for engine in ("cpu", "reference"))
    np.testing.assert_allclose(one, other, rtol=1e-9)
    ours, learning = in_turns(
        lambda: net.posterior(data, "L"),
        lambda: net.copy().learn(data, epochs=1, merge=False, threads=THREADS),
    )
    what = f"class posterior of {rows:,} rows, N={variables}, |S|={hidden}"
    yield Result("inference", what, ours, learning, "learning, 1 epoch", None if quick else 1.0)


LATENT_CLASSES = """
import sys, time
import numpy as np
import fgrn
rows, items, levels, classes, epochs = map(int, sys.argv[1:])
net = fgrn.lvm({f"Y{i}": levels for i in range(items)}, hidden=classes)
small = np.random.default_rng(1).integers(0, levels, (300, items), dtype=np.uint8)
net.copy().learn({f"Y{i}": small[:, i] for i in range(items)}, epochs=1, engine="cpu")  # compiled
def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(kind)))
open("/proc/self/clear_refs", "w").write("5")  # forget the peak of the compiler
before = memory("VmRSS")
codes = np.empty((items, rows), dtype=np.uint8)
rng = np.random.default_rng(0)
for item in codes:
    item[:] = rng.integers(0, levels, rows, dtype=np.uint8)
begin = time.perf_counter()
net.learn({f"Y{i}": codes[i] for i in range(items)}, epochs=epochs, merge=False, threads=2)
print(time.perf_counter() - begin, (memory("VmHWM") - before) / codes.nbytes)
"""


def latent_classes(quick: bool) -> Iterator[Result]:
    """The field's best-known wait, in a process of its own whose memory is watched."""
    if not Path("/proc/self/clear_refs").exists():
        print("  latent classes: left out, memory is watched in the Linux way")
        return
    rows = 25_000 if quick else 500_000
    done = subprocess.run(
        [sys.executable, "-c", LATENT_CLASSES, str(rows), "200", "5", "10", "100"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    took, memory = map(float, done.stdout.split())
    what = f"latent classes: {rows:,} rows x 200 items of 5 levels, 10 classes, 100 epochs"
    goal = None if quick else 1.0
    yield Result("latent classes, seconds", what, took, 30.0, "30 s", goal, note=f"{took:.1f} s")
    note = f"peak, with the table itself, {memory:.2f} times the codes as uint8"
    yield Result("latent classes, memory", what, memory, 3.0, "3 x the codes", goal, note=note)
