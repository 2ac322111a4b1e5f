"""Hidden Markov models beside hmmlearn: the same answers, and the CPU time of an epoch, of decoding and of scoring.

python -m benchmarks.sequences                   # all sizes
python -m benchmarks.sequences --rows 2000       # one size
python -m benchmarks.sequences --output x.json   # the table as JSON, too

Both programs have the same tables. Answers are compared first: states by Viterbi and by posterior, posterior
probabilities, and the log-likelihood. Times are those of a user's call: fgrn's with a table of values and a column
that names sequences, hmmlearn's with its array of codes or numbers and its lengths of sequences.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrn

SIZES = [
    (500, 5, 3), (500, 5, 10), (2_000, 10, 3), (2_000, 10, 10),
    (20_000, 20, 3), (20_000, 20, 10), (20_000, 20, 20), (200_000, 194, 3),
]  # fmt: skip
"""Rows, sequences and states."""

EPOCHS = 10


def spent(work: Callable[[], object], least: float = 0.3) -> float:
    """Milliseconds of CPU time, the least of several calls that take so many seconds in all, at least three."""
    found: list[float] = []
    while len(found) < 3 or (sum(found) < least and len(found) < 200):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return 1000 * min(found)


def drawn(kind: str, rows: int, count: int, states: int) -> tuple[np.ndarray, np.ndarray]:
    """Values, (rows, columns), numbers or codes, and the length of each sequence."""
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(np.arange(1, rows), count - 1, replace=False))
    hidden = np.cumsum(rng.random(rows) < 0.1) % states
    numbers = rng.normal(size=(rows, 2)) + hidden[:, None] * [1.0, 2.0]
    codes = ((hidden + rng.integers(0, 2, rows)) % 4)[:, None]
    return (numbers if kind == "numbers" else codes), np.diff(np.concatenate([[0], cuts, [rows]]))


def pair(kind: str, values: np.ndarray, ids: np.ndarray, states: int) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """A fitted model, hmmlearn's with the same tables, and the table of values."""
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    table = {f"x{k}": values[:, k] for k in range(values.shape[1])}
    names = list(table) if kind == "numbers" else None
    model = fgrn.HiddenMarkovModel(states, continuous=names, tol=100, n_init=1, random_state=0)
    model.fit(table, sequence=ids)
    peer = (GaussianHMM if kind == "numbers" else CategoricalHMM)(states, init_params="", tol=-np.inf)
    peer.startprob_, peer.transmat_ = model.initial_, model.transitions_
    if kind == "numbers":
        peer.means_, peer.covars_ = model.means_, model.variances_
    else:
        peer.emissionprob_ = model.network_.table("x0")
    return model, peer, table


def same_answers(model: Any, peer: Any, table: Any, ids: np.ndarray, values: np.ndarray, lengths: Any) -> float:
    """The largest difference of posteriors, of log-likelihoods, and of the log-probabilities of Viterbi's paths.

    Log-likelihoods and log-probabilities are per row. Of equally probable paths either may be found.
    """
    place = {label: k for k, label in enumerate(model.states_.tolist())}
    begins = np.cumsum([0, *lengths[:-1]])

    def path(states: np.ndarray) -> float:
        steps = np.log(peer.transmat_[states[:-1], states[1:]])
        steps[begins[1:] - 1] = 0
        seen = peer._compute_log_likelihood(values)[np.arange(len(values)), states]
        return float((np.log(peer.startprob_[states[begins]]).sum() + steps.sum() + seen.sum()) / len(values))

    def codes(method: str) -> np.ndarray:
        return np.array([place[one] for one in model.predict(table, sequence=ids, method=method).tolist()])

    shares = model.predict_proba(table, sequence=ids)
    assert np.array_equal(codes("posterior"), shares.argmax(axis=1))
    return max(
        float(np.abs(shares - peer.predict_proba(values, lengths)).max()),
        abs(model.score(table, sequence=ids) - peer.score(values, lengths) / len(values)),
        abs(path(codes("viterbi")) - path(peer.predict(values, lengths))),
    )


def measured(kind: str, rows: int, count: int, states: int) -> dict[str, Any]:
    """The times of one table, ours and hmmlearn's in milliseconds."""
    values, lengths = drawn(kind, rows, count, states)
    ids = np.repeat(np.arange(count), lengths)
    model, peer, table = pair(kind, values, ids, states)
    apart = same_answers(model, peer, table, ids, values, lengths)
    assert apart < 1e-9, f"answers differ by {apart:g}"
    given, _, _ = model._ordered(table, ids, None)

    def ours(epochs: int) -> Callable[[], object]:
        return lambda: model.network_.copy().learn(given, epochs=epochs, smoothing=0.01, engine="cpu")

    def theirs(epochs: int) -> Callable[[], object]:
        def work() -> object:
            before = {name: getattr(peer, name).copy() for name in ("startprob_", "transmat_")}
            peer.n_iter = peer.monitor_.n_iter = epochs
            peer.fit(values, lengths)
            peer.__dict__.update(before)
            return peer

        return work

    questions: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "viterbi": (lambda: model.predict(table, sequence=ids), lambda: peer.predict(values, lengths)),
        "posterior": (
            lambda: model.predict(table, sequence=ids, method="posterior"),
            lambda: peer.decode(values, lengths, algorithm="map"),
        ),
        "predict_proba": (
            lambda: model.predict_proba(table, sequence=ids),
            lambda: peer.predict_proba(values, lengths),
        ),
        "score": (lambda: model.score(table, sequence=ids), lambda: peer.score(values, lengths)),
    }
    found = {name: [spent(one), spent(other)] for name, (one, other) in questions.items()}
    found["epoch"] = [(spent(one(2 + EPOCHS)) - spent(one(2))) / EPOCHS for one in (ours, theirs)]
    shape = {"kind": kind, "rows": rows, "sequences": count, "states": states, "differ": apart}
    return shape | {name: [round(one, 3) for one in some] for name, some in found.items()}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="Only tables of so many rows.")
    parser.add_argument("--output", type=Path, help="Write the results to this file as JSON.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    print("CPU ms, fgrn / hmmlearn")
    for kind in ("codes", "numbers"):
        for rows, count, states in SIZES:
            if options.rows in (None, rows):
                found = measured(kind, rows, count, states)
                results.append(found)
                shown = "  ".join(
                    f"{name} {found[name][0]:.2f}/{found[name][1]:.2f}"
                    for name in ("viterbi", "posterior", "predict_proba", "score", "epoch")
                )
                print(f"{kind:7} {rows:7,} rows {count:3} sequences {states:2} states: {shown}", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
