"""The protocol of engines: the methods that every engine has, and the arrays that it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from .scans import Scan

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

SOURCE, FORWARD, BACKWARD, DIVERT = range(4)
"""The kinds of step in a Program, as `fgrn.plan.block_kinds` numbers them."""


PARTS = ("forward", "backward", "marginal", "likelihood", "known")
"""What can be asked of the messages of rows; `Buffers` says what each is."""


class Buffers(NamedTuple):
    """The messages of some rows: for each kind an array (rows, states of all shown edges).

    forward, backward, marginal   (rows, states): each sums to one, or is all zero where the row is impossible
    known_forward, _backward      (rows, edges of the plan): whether evidence lies behind the message
    log_likelihood                (rows,): without the scale of soft evidence; -inf where the row is impossible

    A part that was not asked for may be empty, and the log-likelihood then anything but -inf where the row is possible.
    """

    forward: np.ndarray
    backward: np.ndarray
    marginal: np.ndarray
    known_forward: np.ndarray
    known_backward: np.ndarray
    log_likelihood: np.ndarray


@runtime_checkable
class Vector(Protocol):
    """Counts or parameters that an engine keeps where it computes, such as on a device, instead of an array.

    The learning loop adds them, multiplies them by numbers, and asks for the update of the tables, as it does with
    arrays in the plan's layout. `numpy.asarray` hands such an array over. A line is a row of a table, or a prior;
    `learnt` tells of each table, and after these of each prior, whether it is learnt.
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the numbers as an array in the plan's layout."""

    def as_parameters(self) -> np.ndarray:
        """Return parameters as an array in which each learnt line sums to one in float64."""

    def __len__(self) -> int:
        """Return the number of cells."""

    def vector_of(self, values: Any) -> Self:
        """Return parameters, an array or a vector, as a vector on the same device as this one."""

    def __add__(self, other: Any) -> Self:
        """Return the sum with another vector, or with an array in the plan's layout."""

    def __mul__(self, factor: float) -> Self:
        """Return every cell multiplied by a number."""

    def __rmul__(self, factor: float) -> Self:
        """Return every cell multiplied by a number."""

    def updated(
        self, parameters: Any, before: Any, smoothing: np.ndarray | None, learnt: np.ndarray, least: float
    ) -> Self:
        """Return the parameters from these counts and smoothing, as `fgrn.flow.mstep.updated` does.

        A line whose total is below `least` has no counts.
        """

    def sum_of_logarithms(self, weights: np.ndarray, learnt: np.ndarray) -> float:
        """Return the sum over learnt cells of weight * log(cell); cells without weight are skipped."""

    def line_sums(self) -> np.ndarray:
        """Return the sum of each line, in the order of the layout."""

    def line_distances(self, other: Any) -> np.ndarray:
        """Return the largest absolute difference in each line from another vector or array."""


class RowCounts(NamedTuple):
    """The expected counts of some rows, in the plan's layout (inside an engine: in one of its own).

    values           an array, or a `Vector` in its place
    log_likelihood   weighted, total over the rows, without the scale of soft evidence
    impossible       the rows that have probability zero and a weight; they are in neither of the others
    """

    values: np.ndarray
    log_likelihood: float
    impossible: np.ndarray

    @classmethod
    def of_rows(cls, values: np.ndarray, log_likelihood: np.ndarray, weights: np.ndarray) -> RowCounts:
        """Return counts with the total log-likelihood, from the log-likelihood of each row."""
        impossible = np.isneginf(log_likelihood)
        terms = weights * np.where(impossible, 0.0, log_likelihood)
        # summed by NumPy: a threaded BLAS would wake its threads for every block
        return cls(values, float(terms.sum()), np.flatnonzero(impossible & (weights != 0)))


class Scanner(Protocol):
    """Sequences of rows laid out by an engine, to be scanned with any parameters."""

    def __call__(self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, weights: np.ndarray | None) -> Scan:
        """Run forward-backward along all sequences, given the message of each row to its hidden variable.

        Without weights only forward: the past of each row, and its likelihood. Its arrays may be used again by the next
        call.
        """


class Loaded(Protocol):
    """Rows and parameters laid out by an engine."""

    def propagate(self, parts: Collection[str]) -> Buffers:
        """Return the messages of all rows after the two sweeps of a tree; `parts` are some of PARTS."""

    def round(self, before: Buffers) -> Buffers:
        """Run one parallel round on the messages of the round before, for all rows."""

    def counts(self, expect: bool) -> RowCounts:
        """Return the expected counts of all rows at K = 1; `expect`: missing values add their expected counts."""

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """Return a function from new tables to expected counts, with the messages held (the paper's ML cycle).

        Messages are held in memory from one call to the next, or made again.
        """


class Prepared(Protocol):
    """Rows laid out by an engine.

    kernel         the name of the method that the engine uses
    rows_at_once   the number of rows of a block
    threads        the number of threads that work on blocks
    """

    kernel: str
    rows_at_once: int
    threads: int

    def free_memory(self) -> None:
        """Free memory that is kept between calls only for speed."""

    def load(self, values: np.ndarray) -> Loaded:
        """Lay out parameters, a flat vector in the plan's layout, and the current values of soft evidence."""


class MStep(NamedTuple):
    """An M-step by which an engine can update parameters itself: lines are counts plus smoothing, over their sum.

    The sum is that of `numpy.bincount`, one cell after the other.

    smoothing   counts to add to each cell; empty if there are none
    lines       the offset of each line (row of a table, prior), and the number of cells at the end
    learnt      for each line, whether it is learnt: others keep their values
    least       a line with a smaller total has no counts: the engine leaves such an update to its caller
    """

    smoothing: np.ndarray
    lines: np.ndarray
    learnt: np.ndarray
    least: float


GROWTH = 4.0
"""The factor by which the longest step of accelerated EM grows or shrinks."""

LIMIT = GROWTH**6
"""The longest step that is tried: longer ones do not succeed, and might overflow."""


ROUNDED = 2.0**-50
"""Of a log-likelihood, more than rounding changes it."""


class AcceleratedRound(NamedTuple):
    """Where an epoch is in a round of accelerated EM; see `fgrn.flow.acceleration`, whose arithmetic engines repeat.

    first    the parameters that the epoch before it began with, if extrapolated ones follow from these; or None
    ahead    the extrapolated parameters, if this epoch tries them; or None
    last     those to go on from if they fail
    failed   whether they have failed, and the epoch begins with `last` in their place
    length   the length of the step to `ahead`
    longest  the largest length
    before   the objective of the epoch before the last one; -inf if there is none
    previous that of the last one, which `ahead` have to reach
    """

    first: np.ndarray | None
    ahead: np.ndarray | None
    last: np.ndarray | None
    failed: bool
    length: float
    longest: float
    before: float = -np.inf
    previous: float = -np.inf

    @property
    def epochs_left(self) -> int:
        """The number of epochs before the next extrapolation, this one included."""
        if self.ahead is not None:
            return 3
        return 2 if self.first is None else 1


class EpochRequest(NamedTuple):
    """Parameters to count the rows under, and how many epochs of EM may follow from there without asking again.

    The objective of an epoch is the log-likelihood under its parameters plus their log prior. An engine may end sooner
    than it is asked to, as where rounding decides.

    values   the parameters, in the plan's layout
    epochs   the number of epochs, the first of which begins with the parameters, at most
    least    no other epoch follows if the objective of the first is not above it
    gain     nor if that of a later one does not gain more than this
    silent   whether only the last epoch is asked for, and the log-likelihoods of those before it
    round    of accelerated EM: where the first epoch is in it; then `gain` is that of a round, and `least` nothing
    rounding what rounding may change in the objectives, at most, beside their own last bits
    """

    values: np.ndarray
    epochs: int = 1
    least: float = -np.inf
    gain: float = -np.inf
    silent: bool = False
    round: AcceleratedRound | None = None
    rounding: float = 0.0


class SilentEpochs(NamedTuple):
    """The epochs before the last one of a silent request: log-likelihoods and log priors; and where the last one is.

    round    its place in a round of accelerated EM, without objectives; None in plain EM
    """

    likelihoods: Sequence[float]
    log_priors: Sequence[float]
    round: AcceleratedRound | None


class EpochCounts(NamedTuple):
    """An epoch that an engine ran: its parameters, the expected counts of all rows, and the updated parameters.

    The update is a read-only array, with which the next epoch begins; None where it is left to the caller. The log
    prior is that of the parameters the epoch began with. `earlier` tells of the epochs before it, if these were silent.
    """

    values: np.ndarray
    counts: RowCounts
    updated: np.ndarray | None
    log_prior: float
    earlier: SilentEpochs | None = None


@runtime_checkable
class CountsTogether(Protocol):
    """Rows laid out by an engine that can count them under several vectors of parameters in one call.

    counts_together   whether it can with these rows
    """

    counts_together: bool

    def epochs_of_each(
        self, requests: Sequence[EpochRequest], expect: bool, mstep: MStep | None
    ) -> Sequence[Sequence[EpochCounts]]:
        """Run epochs from each vector of parameters, with expected counts as `Loaded.counts` returns them.

        One epoch from each if there is no M-step, without log priors. An empty list for a vector that has to be counted
        by itself, since a row is next to impossible under it.
        """

    def log_prior(self, mstep: MStep, values: np.ndarray) -> float:
        """Return the log prior of parameters, smoothing * log(probability) over learnt cells, as epochs return it."""


class Engine(Protocol):
    """An engine: it lays out rows, and computes messages and expected counts."""

    name: str
    all_messages_up_to: int
    """Up to so many rows it is quicker to make every message than to lay out a program that leaves some out."""

    def prepare(
        self,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None = None,
        threads: int | None = None,
    ) -> Prepared:
        """Lay out rows for one of the programs; `threads` work on them, None for one per processor.

        Without weights every row counts once. The counts of a row with a negative weight are subtracted, if missing
        values add their expected counts.
        """

    def best_path(
        self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, which: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable states of each sequence (Viterbi) and, at its first row, the log-weight of the path.

        Prior, table and the messages to hidden variables are logarithms. `which` tells the message of each row, if many
        rows have the same; without it `local` has one for each row.
        """

    def scanner(self, begins: np.ndarray, states: int, threads: int | None = None) -> Scanner:
        """Lay out sequences of rows; a sequence begins where `begins` is True."""
