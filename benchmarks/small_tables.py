"""Learning on tables of a few hundred to a few thousand rows: epochs beside StepMix, and several random starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fgrn

from . import peers
from .measure import THREADS, Result, columns_of, in_turns, per_epoch, random_rows, random_star, tables_of
from .stars import agree, learner

SIZES = {
    (1_000, 10, 4, 20): 40, (10_000, 10, 4, 20): 60, (5_000, 30, 4, 10): 30, (1_000, 100, 4, 64): 30,
    (20_000, 100, 4, 64): 25,
}  # fmt: skip
"""Rows, variables, states, hidden states: how many times as fast as StepMix an epoch should be."""

STARTS = (300, 1_000, 3_000, 10_000, 30_000)
"""Rows of 10 columns with 10 hidden states, learnt from ten random starts."""


def small_tables(quick: bool) -> Iterator[Result]:
    """One epoch at K = 1 on small tables, and ten random starts on two threads beside one."""
    for (rows, variables, states, hidden), goal in SIZES.items():
        net, codes = random_star(variables, states, hidden), random_rows(rows, variables, states)
        peer = peers.stepmix(codes, *tables_of(net))
        agree(peer, net, codes, 1e-8)
        most = 12 if quick else max(40, 400_000 // rows)
        ours = per_epoch(learner(net, codes), 2, 2 + most, 7)
        theirs = per_epoch(peer.fit, 1, 4 if quick else 11, 2 if quick else 5)
        what = f"{rows:,} rows, N={variables}, |Y|={states}, |S|={hidden}"
        yield Result("epoch of a small table", what, ours, theirs, peer.name, None if quick else goal)
    for rows in STARTS[:2] if quick else STARTS:
        for accelerate in (False, True):
            one, all_of_them = (ten_starts(rows, accelerate, threads) for threads in (1, THREADS))
            assert np.array_equal(one().starts, all_of_them().starts)  # the same bits
            ours, theirs = in_turns(all_of_them, one, 3 if quick else 9)
            what = f"{rows:,} rows, N=10, |S|=10, 10 starts of 99 epochs{', accelerated' if accelerate else ''}"
            yield Result("ten starts", what, ours, theirs, "one thread", None if quick else 1 / 0.55)


def ten_starts(rows: int, accelerate: bool, threads: int) -> Callable[[], Any]:
    """A run of ten random starts on so many threads."""
    data = columns_of(random_rows(rows, 10, 4))
    settings = {"epochs": 99, "starts": 10, "accelerate": accelerate, "threads": threads, "merge": False}
    return lambda: fgrn.lvm(dict.fromkeys(data, 4), hidden=10).learn(data, engine="cpu", **settings)
