"""Messages of all rows: two sweeps on a tree, parallel rounds (loopy belief propagation) on any graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core import settings
from ..core.exceptions import ConvergenceWarning, Remedy, UnknownNameError, counted, unknown_name, visible, warn
from ..core.settings import Name
from ..engines import Buffers, Engine, blocks_of_rows
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import Evidence
from . import marginals

WAYS = ("forward", "backward", "marginal")

SHOWN_PARTS = (*WAYS, "likelihood")
"""What can be kept of the messages of a row."""

ROUND_BYTES = 2**22
"""Of the messages of a block of rows that goes through its rounds together."""


class Edges(Protocol):
    """The protocol of edges that carry messages: names, labels and numbers of states; a `Plan` is one."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the edges."""

    @property
    def labels(self) -> Sequence[Any]:
        """The labels of the states of each edge."""

    @property
    def cardinality(self) -> np.ndarray:
        """The number of states of each edge."""

    def edge(self, name: Name) -> int:
        """Return the number of an edge, given its name."""


@dataclass(frozen=True, eq=False, repr=False)
class Messages:
    """Messages of rows, each (rows, states) and summing to one, and the log-likelihood of each row.

    impossible  (rows,): rows of probability zero, whose messages may be all zero and whose log-likelihood is -inf
    rounds      how many parallel rounds were run; None for two sweeps
    converged   (rows,): whether the messages had converged; always true after two sweeps
    """

    plan: Edges
    kept: tuple[str, ...]
    _likelihood: np.ndarray  # without it in `_parts`: 0, or -inf for impossible rows
    rounds: int | None = None
    converged: np.ndarray = field(default_factory=lambda: np.ones(0, dtype=bool))
    _shown: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))  # edges, in the order of the columns
    _arrays: Mapping[str, np.ndarray] = field(default_factory=dict)  # by way: the messages of those edges side by side
    _parts: tuple[str, ...] = SHOWN_PARTS

    @property
    def log_likelihood(self) -> np.ndarray:
        """The logarithm of the sum over all unknown variables, (rows,); -inf for an impossible row."""
        if "likelihood" not in self._parts:
            raise unknown_name("kept part", "likelihood", self._parts)
        return self._likelihood

    @property
    def method(self) -> str:
        """The method of inference: "exact", or "loopy" for the approximation on graphs with loops; see `converged`."""
        if self.rounds is None or (getattr(self.plan, "is_tree", False) and bool(self.converged.all())):
            return "exact"
        return "loopy"

    def forward(self, name: Name) -> np.ndarray:
        """Return the forward message f, from the variable's driver, without the evidence on the variable itself."""
        return self._part(name, "forward")

    def backward(self, name: Name) -> np.ndarray:
        """Return the backward message b, from the variable's reader, with the evidence on the variable itself."""
        return self._part(name, "backward")

    def marginal(self, name: Name) -> np.ndarray:
        """Return the marginal p, proportional to f * b: the posterior given all evidence."""
        return self._part(name, "marginal")

    def belief(self, name: Name, row: int = 0) -> dict[Any, float]:
        """Return the marginal of a variable in one row, by label."""
        labels = self.plan.labels[self.plan.edge(name)]
        rows = len(self._likelihood)
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not -rows <= row < rows:
            raise UnknownNameError(f"There is no row {row!r}; there are {rows:,}, counted from 0.")
        return dict(zip(labels, self.marginal(name)[row].tolist(), strict=True))

    @property
    def impossible(self) -> np.ndarray:
        """Whether each row has probability zero."""
        if self._likelihood.strides == (0,):  # none was marked
            return np.zeros(len(self._likelihood), dtype=bool)
        return np.isneginf(self._likelihood)

    def only(self, kept: Sequence[str], parts: tuple[str, ...]) -> Messages:
        """Return the messages of some variables only."""
        arrays = {way: self._arrays[way] for way in parts if way != "likelihood"}
        return replace(self, kept=tuple(kept), _arrays=arrays, _parts=parts)

    def _part(self, name: Name, way: str) -> np.ndarray:
        edge = self.plan.edge(name)
        if self.plan.names[edge] not in self.kept:
            raise unknown_name("kept message on", name, self.kept)
        if way not in self._arrays:
            raise unknown_name("kept part", way, self._arrays)
        return self._arrays[way][:, self._places[edge]]

    @cached_property
    def _places(self) -> dict[int, slice]:
        ends = [0, *accumulate(self.plan.cardinality[self._shown].tolist())]
        return {edge: slice(a, b) for edge, (a, b) in zip(self._shown.tolist(), pairwise(ends), strict=True)}

    def __repr__(self) -> str:
        how = "two sweeps" if self.rounds is None else f"{counted(self.rounds, 'round')}"
        if not self.converged.all():
            how += ", not converged"
        return f"Messages of {counted(len(self.kept), 'variable')}, {counted(len(self._likelihood), 'row')} ({how})"


@dataclass(frozen=True, eq=False)
class Round:
    """The state after one parallel round: all messages, and which of them changed, as (variable, direction)."""

    number: int
    messages: Messages
    changed: tuple[tuple[str, str], ...]
    largest_change: float

    def __repr__(self) -> str:
        moved = ", ".join(f"{way} {name}" for name, way in self.changed) or "nothing"
        return visible(f"Round {self.number}: {moved} changed")


def sweep(
    engine: Engine,
    plan: Plan,
    programs: Programs,
    values: np.ndarray,
    evidence: Evidence,
    kept: Sequence[str],
    threads: int | None = None,
    parts: tuple[str, ...] = SHOWN_PARTS,
) -> Messages:
    """Return the messages after two sweeps on a tree; only the given variables and parts are stored."""
    return sweeper(engine, plan, programs, evidence, kept, threads, parts)(values)


def sweeper(
    engine: Engine,
    plan: Plan,
    programs: Programs,
    evidence: Evidence,
    kept: Sequence[str],
    threads: int | None = None,
    parts: tuple[str, ...] = SHOWN_PARTS,
) -> Callable[[np.ndarray], Messages]:
    """Return a function from parameters to the messages after two sweeps, with the rows laid out once.

    It reads the distributions of the evidence anew at every call.
    """
    if set(parts) <= {"marginal", "likelihood"} and plan.is_factor.any():
        # of few rows one program for all questions is quicker than one for each
        few = evidence.rows <= engine.all_messages_up_to
        program = programs.marginals([plan.edge(name) for name in kept], whole=few)
    elif len(kept) == plan.edges or evidence.rows <= engine.all_messages_up_to:
        program = programs.everything
    else:
        program = programs.messages_on(tuple(kept))
    if threads is not None:
        settings.whole("threads", threads, 1)
    prepared = engine.prepare(plan, programs, program, evidence, None, threads)

    def swept(values: np.ndarray) -> Messages:
        found = prepared.load(values).propagate(parts)
        out = {way: getattr(found, way) for way in parts if way != "likelihood"}
        for array in out.values():
            array.setflags(write=False)
        likelihood = found.log_likelihood
        if "likelihood" in parts:
            likelihood = likelihood + evidence.log_scale
        everywhere = np.ones(evidence.rows, dtype=bool)
        return Messages(plan, tuple(kept), likelihood, None, everywhere, program.shown, out, parts)

    return swept


class RoundRule(NamedTuple):
    """How parallel rounds are run.

    most          how many there are, at most
    damping       how much of the old message stays in a new one
    tolerance     messages that change by no more have converged
    exact_after   the number of rounds after which messages are exact, on a tree without damping; else None
    """

    most: int
    damping: float
    tolerance: float
    exact_after: int | None


def rounds(
    engine: Engine, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, rule: RoundRule
) -> Iterator[tuple[Buffers, np.ndarray]]:
    """Yield the messages after each parallel round, and the change of each entry without damping.

    The first is round 0, the boundary.
    """
    loaded = engine.prepare(plan, programs, programs.round, evidence).load(values)
    now = _boundary(plan, values, evidence)
    yield now, np.zeros((2, *now.forward.shape))
    damping = rule.damping
    for _ in range(rule.most):
        new = loaded.round(now)
        change = np.abs(np.stack([new.forward - now.forward, new.backward - now.backward]))
        forward = damping * now.forward + (1 - damping) * new.forward
        backward = damping * now.backward + (1 - damping) * new.backward
        now = new._replace(forward=forward, backward=backward)
        yield now, change


def stepped(
    engine: Engine, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, rule: RoundRule
) -> Iterator[Round]:
    """Yield the state after each parallel round until no message changes by more than the tolerance."""
    tolerance, exact_after = rule.tolerance, rule.exact_after
    for number, (buffers, change) in enumerate(rounds(engine, plan, programs, values, evidence, rule)):
        moved = change.max(axis=1, initial=0)
        changed = tuple(
            (name, way)
            for edge, name in enumerate(plan.names)
            for direction, way in enumerate(("forward", "backward"))
            if moved[direction, plan.columns(edge)].max() > tolerance
        )
        exact = exact_after is not None and number >= exact_after
        still = (change.max(axis=(0, 2), initial=0) <= tolerance) & (number > 0) | exact
        found = as_messages(plan, values, evidence, buffers, number, still)
        yield Round(number, found, changed, float(change.max(initial=0)))
        if number and not changed:
            return


def settled(
    engine: Engine, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, rule: RoundRule
) -> Messages:
    """Run parallel rounds until no message changes by more than the tolerance; warn if the rule's number is not enough.

    On a tree without damping the messages are exact after a known number of rounds, and the tolerance is not used.
    """
    most, tolerance, exact_after = rule.most, rule.tolerance, rule.exact_after
    pieces: list[Messages] = []
    for rows in blocks_of_rows(evidence.rows, max(1, ROUND_BYTES // (16 * plan.states))):
        part = evidence.take(rows)
        steps = enumerate(rounds(engine, plan, programs, values, part, rule))
        number, (buffers, change) = next(steps)
        for number, (buffers, change) in steps:  # noqa: B007 - the last one is what is wanted
            if exact_after is None and change.max(initial=0) <= tolerance:
                break
        if exact_after is None:
            still = change.max(axis=(0, 2), initial=0) <= tolerance if number else np.zeros(part.rows, dtype=bool)
        else:
            still = np.full(part.rows, number >= exact_after)
        piece = as_messages(plan, values, part, buffers, number, still)
        if exact_after is not None and number >= exact_after and piece.impossible.any():
            piece = _confirmed(engine, plan, programs, values, part, piece)
        pieces.append(piece)
    joined = _joined_messages(plan, pieces, evidence)
    if not joined.converged.all():
        warn(
            f"the messages did not converge in {counted(most, 'round')}, so that the beliefs are not to be trusted.",
            ConvergenceWarning,
            rows=np.flatnonzero(~joined.converged),
            remedies=(Remedy("allow more rounds", rounds=2 * most), Remedy("damp the messages more", damping=...)),
        )
    return joined


def _confirmed(
    engine: Engine, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, found: Messages
) -> Messages:
    """Return, if the graph is a tree, the messages of two sweeps: the same, and exact where rounds underflow."""
    rows = found.impossible
    swept = sweep(engine, plan, programs, values, evidence.take(rows), plan.names)
    arrays = {way: found._arrays[way].copy() for way in WAYS}
    for way, array in arrays.items():
        array[rows] = swept._arrays[way]
        array.setflags(write=False)
    likelihood = found.log_likelihood.copy()
    likelihood[rows] = swept.log_likelihood
    return replace(found, _likelihood=likelihood, _arrays=arrays)


def as_messages(
    plan: Plan, values: np.ndarray, evidence: Evidence, buffers: Buffers, number: int, converged: np.ndarray
) -> Messages:
    """Return the buffers of a round as messages."""
    marginal = marginals.beliefs(plan, buffers.forward, buffers.backward)
    for array in (buffers.forward, buffers.backward, marginal):
        array.setflags(write=False)
    likelihood = marginals.bethe_log_likelihood(plan, values, evidence, buffers) + evidence.log_scale
    arrays = dict(zip(WAYS, (buffers.forward, buffers.backward, marginal), strict=True))
    return Messages(plan, plan.names, likelihood, number, converged, np.arange(plan.edges), arrays)


def _boundary(plan: Plan, values: np.ndarray, evidence: Evidence) -> Buffers:
    """Return round 0: priors and evidence in their places, every other message uniform."""
    forward = np.empty((evidence.rows, plan.states))
    backward = np.empty((evidence.rows, plan.states))
    known_backward = np.zeros((evidence.rows, plan.edges), dtype=bool)
    for edge in range(plan.edges):
        cardinality = int(plan.cardinality[edge])
        forward[:, plan.columns(edge)] = 1 / cardinality
        backward[:, plan.columns(edge)] = marginals.normalised(evidence.weights(edge, cardinality))
        known_backward[:, edge] = evidence.has_evidence(edge)
    for source, edge in enumerate(plan.source_edge):
        prior = plan.source_values(values, source)
        forward[:, plan.columns(int(edge))] = prior
    nothing = np.zeros_like(known_backward)
    return Buffers(forward, backward, forward * backward, nothing, known_backward, np.zeros(evidence.rows))


def _joined_messages(plan: Plan, pieces: list[Messages], evidence: Evidence) -> Messages:
    if len(pieces) == 1:
        return pieces[0]
    empty = np.zeros((0, plan.states))
    arrays = {way: np.concatenate([empty, *(piece._arrays[way] for piece in pieces)]) for way in WAYS}
    likelihood = np.concatenate([np.zeros(0), *(piece.log_likelihood for piece in pieces)])
    converged = np.concatenate([np.zeros(0, dtype=bool), *(piece.converged for piece in pieces)])
    number = max((piece.rounds or 0 for piece in pieces), default=0)
    return Messages(plan, plan.names, likelihood, number, converged, np.arange(plan.edges), arrays)
