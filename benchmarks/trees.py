"""Learning beyond one hidden variable and hard values, beside hmmlearn where it can, else the reference engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

import fgrn

from .measure import THREADS, Result, columns_of, per_epoch, random_rows, random_star


def against_the_reference(quick: bool) -> Iterator[Result]:
    """K = 5, soft evidence, two layers, product spaces: the CPU engine and the reference, time per row and epoch."""
    rows = 5_000 if quick else 100_000
    codes = random_rows(rows, 10, 4)
    data = columns_of(codes)
    rng = np.random.default_rng(0)
    soft = {name: rng.dirichlet(np.ones(4), rows) for name in data}
    names = list(data)
    states = dict.fromkeys(data, 4)
    cases = {
        "K=5, messages held": (random_star(10, 4, 20), data, {"cycles": 5}),
        "K=5, messages made again": (random_star(10, 4, 20), data, {"cycles": 5, "hold": False}),
        "soft evidence, 2 of 10": (random_star(10, 4, 20), {**data, "Y0": soft["Y0"], "Y1": soft["Y1"]}, {}),
        "soft evidence, all": (random_star(10, 4, 20), soft, {}),
        "two layers": (fgrn.stack(states, hidden=[8, 6], groups=[[names[:5], names[5:]]]), data, {}),
        "product space, 5 x 4": (fgrn.dica(states, hidden=[5, 4]), data, {}),
    }
    for name, (net, table, options) in cases.items():
        few = {column: values[:1000] for column, values in table.items()}
        learnt = []
        for engine in ("cpu", "reference"):
            mine = net.copy()
            mine.learn(few, epochs=2, engine=engine, merge=False, **options)
            learnt.append(mine)
        for table_name in names:
            np.testing.assert_allclose(learnt[0].table(table_name), learnt[1].table(table_name), rtol=1e-8)

        def run(epochs: int, engine: str, rows: dict[str, np.ndarray], net=net, options=options) -> None:
            net.copy().learn(rows, epochs=epochs, engine=engine, merge=False, threads=THREADS, **options)

        ours = per_epoch(lambda epochs, run=run, table=table: run(epochs, "cpu", table), 1, 4) / rows
        theirs = per_epoch(lambda epochs, run=run, few=few: run(epochs, "reference", few), 1, 2) / 1000
        yield Result(name, "one epoch, per row; N=10, |Y|=4, |S|=20 (8 and 6 in layers)", ours, theirs, "reference")


def markov(quick: bool) -> Iterator[Result]:
    """Hidden Markov models against hmmlearn, from the same tables: many short sequences, and one long one."""
    from hmmlearn.hmm import CategoricalHMM

    hidden, states = 10, 20
    rng = np.random.default_rng(0)
    prior, step, emit = (rng.dirichlet(np.ones(n), k) for n, k in ((hidden, 1), (hidden, hidden), (states, hidden)))
    for name, count, length in (("many short sequences", 1000, 100), ("one long sequence", 1, 100_000)):
        length = length // 10 if quick else length
        values = rng.integers(0, states, (count, length))

        def theirs(epochs: int, implementation: str, values=values, count=count, length=length) -> CategoricalHMM:
            model = CategoricalHMM(
                hidden, n_iter=epochs, tol=-1e300, implementation=implementation, init_params="", n_features=states
            )
            model.startprob_, model.transmat_, model.emissionprob_ = prior[0].copy(), step.copy(), emit.copy()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(values.reshape(-1, 1), [length] * count)

        plain = fgrn.hmm({"Y": states}, hidden=hidden)
        tables = {"S": prior[0], "Y": emit, "S next": step}
        net = fgrn.Chain([_started(block, tables) for block in plain.blocks], plain.link)
        data = {"Y": values.ravel(), "sequence": np.repeat(np.arange(count), length)}

        def ours(epochs: int, net=net, data=data) -> fgrn.Network:
            mine = net.copy()
            mine.learn(data, epochs=epochs, threads=THREADS, engine="cpu")
            return mine

        expected, found = theirs(2, "log"), ours(2)
        np.testing.assert_allclose(found.table("S next"), expected.transmat_, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(found.table("Y"), expected.emissionprob_, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(found.prior("S"), expected.startprob_, rtol=1e-7, atol=1e-12)
        took = per_epoch(ours, 2, 12)
        what = f"{count:,} x {length:,} steps, |S|={hidden}, |Y|={states}, one epoch"
        for implementation, goal in (("log", 5.0), ("scaling", 1.5)):
            peer = per_epoch(lambda epochs, kind=implementation, theirs=theirs: theirs(epochs, kind), 1, 4)
            yield Result(f"HMM, {name}", what, took, peer, f"hmmlearn, {implementation}", None if quick else goal)


def _started(block: fgrn.graph.blocks.Block, tables: dict[str, np.ndarray]) -> fgrn.graph.blocks.Block:
    if isinstance(block, fgrn.Source):
        return fgrn.Source(block.variable, tables[block.variable.name])
    if isinstance(block, fgrn.SISO):
        return fgrn.SISO(block.input, block.output, tables[block.output.name])
    return block
