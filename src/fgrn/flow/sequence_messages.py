"""Messages and most probable paths (decoding) of sequences of rows, from forward-backward; see `sequences`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.arrays import equal_numbers
from ..core.exceptions import ImpossibleEvidence
from ..engines import able, distribution, log_sum, logarithm
from .marginals import normalised, refuse_impossible
from .messages import WAYS, Messages, sweep
from .sequences import ScanResult, Sequences, Wanted

CERTAIN = 1e-9
"""Rows without evidence are looked for only if some row has a log-likelihood above minus this."""


def marked_messages(
    sequences: Sequences,
    values: np.ndarray,
    kept: tuple[str, ...],
    parts: tuple[str, ...],
) -> Messages:
    """Return the messages of all rows; the log-likelihood of impossible rows and those after them is -inf."""
    evidence, part = sequences.evidence, sequences
    rows, fine = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=bool)
    while True:
        try:
            found = chained_messages(part, values, kept, parts)
        except ImpossibleEvidence as error:
            if part is sequences:
                which, rows = np.cumsum(evidence.begins), np.arange(evidence.rows)
                fine = np.ones(evidence.rows, dtype=bool)
            for row in rows[list(error.rows)].tolist():
                fine[row:] &= which[row:] != which[row]
            rows = np.flatnonzero(fine)
            part = replace(sequences, evidence=evidence.take(rows))
        else:
            break
    if part is sequences:
        return found
    arrays = {way: np.zeros((evidence.rows, array.shape[1])) for way, array in found._arrays.items()}
    for way, array in arrays.items():
        array[rows] = found._arrays[way]
        array.setflags(write=False)
    likelihood = np.full(evidence.rows, -np.inf)
    likelihood[rows] = found._likelihood
    everywhere = np.ones(evidence.rows, dtype=bool)
    return replace(found, _likelihood=likelihood, converged=everywhere, _arrays=arrays)


def chained_messages(
    sequences: Sequences,
    values: np.ndarray,
    kept: tuple[str, ...],
    parts: tuple[str, ...],
) -> Messages:
    """Return the messages of all rows of sequences; the log-likelihood of a row is conditional on the rows before.

    Those of the hidden variable come from the scan along the rows; each row by itself is swept for others only.
    """
    mine, plan, link = sequences, sequences.plan, sequences.link
    ways = tuple(way for way in WAYS if way in parts)
    shown = bool(kept and ways)
    wanted: Wanted = "sums" if not shown else "posteriors" if ways == ("marginal",) else "messages"
    whole = mine.scan(values, equal_numbers(1.0, mine.evidence.rows) if shown else None, wanted)
    linked = (link.source, link.leg, link.output)
    edges = [plan.edge(name) for name in kept]
    arrays: dict[str, np.ndarray] = {}
    if set(edges) <= set(linked):
        columns = np.array(edges, dtype=np.intp)
        messages = [_link_messages(mine, whole, values, edge, ways) for edge in edges]
        for number, way in enumerate(ways):
            each = [one[number] for one in messages]
            arrays[way] = each[0] if len(each) == 1 else np.hstack([np.zeros((mine.evidence.rows, 0)), *each])
    else:
        evidence, room = mine.with_hidden()
        mine.around(whole.scan, room)
        found = sweep(
            mine.engine, plan, mine.programs_for(evidence), mine.alone(values), evidence, plan.names, mine.threads
        )  # fmt: skip
        columns = found._shown
        arrays = {way: found._arrays[way].copy() for way in ways}
        for edge in linked:
            for way, message in zip(ways, _link_messages(mine, whole, values, edge, ways), strict=True):
                arrays[way][:, plan.columns(edge)] = message
    for array in arrays.values():
        array.setflags(write=False)
    everywhere = np.ones(mine.evidence.rows, dtype=bool)
    likelihood, scale = whole.log_likelihood, mine.evidence.log_scale
    if (likelihood - scale).max(initial=-np.inf) > -CERTAIN:
        # nothing has probability 1 exactly, and a sum may be rounded to more
        likelihood = np.where(mine.evidence.unknown_rows, scale, likelihood)
    return Messages(plan, kept, likelihood, None, everywhere, columns, arrays, parts)


def _link_messages(
    sequences: Sequences, whole: ScanResult, values: np.ndarray, edge: int, ways: tuple[str, ...]
) -> list[np.ndarray]:
    """Return messages on the hidden variable, on its copy that leads on, or on that of the next row."""
    link, begins, scan = sequences.link, sequences.evidence.begins, whole.scan
    table = sequences.plan.layout.table(values, link.table)
    rows, part, log_local = (np.zeros(0, dtype=np.intp), None, None) if whole.again is None else whole.again
    found = []
    for way in ways:
        if way == "marginal" and edge != link.output:
            message = normalised(scan.around * whole.local)
        elif edge == link.source:
            message = np.array(scan.past) if way == "forward" else normalised(whole.local * scan.future)
        elif edge == link.leg:
            message = normalised(scan.past * whole.local) if way == "forward" else normalised(scan.future)
        else:
            onwards = normalised(scan.past * whole.local) @ table
            ahead = _ahead(whole.local * scan.future, begins, 1.0)
            message = onwards if way == "forward" else normalised(ahead if way == "backward" else onwards * ahead)
        if part is not None and log_local is not None:
            now = part.past + log_local
            if edge == link.source:
                logs = {"forward": part.past, "backward": log_local + part.future, "marginal": now + part.future}[way]
            elif edge == link.leg:
                logs = {"forward": now, "backward": part.future, "marginal": now + part.future}[way]
            else:
                log_onwards = log_sum(now[:, :, None] + logarithm(table), axis=1)
                log_ahead = _ahead(log_local + part.future, begins[rows], 0.0)
                logs = {"forward": log_onwards, "backward": log_ahead, "marginal": log_onwards + log_ahead}[way]
            message[rows] = distribution(logs)
        found.append(message)
    return found


def _ahead(message: np.ndarray, begins: np.ndarray, nothing: float) -> np.ndarray:
    """Return the message of all later rows to the next hidden variable; `nothing` in the last row of a sequence."""
    out = np.full_like(message, nothing)
    inner = np.flatnonzero(~begins)
    out[inner - 1] = message[inner]
    return out


def likeliest_path(sequences: Sequences, values: np.ndarray, alone: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable path of the hidden variable (Viterbi), and the log-weight of each sequence.

    The log-weight is at the first row of each sequence, and 0 elsewhere. Other unknown variables have their most
    probable states, too; with `alone` they are summed out.
    """
    mine, layout = sequences, sequences.plan.layout
    if alone:
        local, which = mine.log_messages(values)
    else:
        local, which = mine._log_local(values, np.arange(mine.evidence.rows), largest=True), None
    prior = logarithm(layout.prior(values, mine.link.prior))
    table = logarithm(layout.table(values, mine.link.table))
    path, weight = able(mine.engine, "scan").best_path(prior, table, local, mine.evidence.begins, which)
    impossible = np.isneginf(weight)
    refuse_impossible(np.flatnonzero(impossible))
    return path, weight
