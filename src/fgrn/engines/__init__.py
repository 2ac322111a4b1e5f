"""Engines do the arithmetic. They see arrays only; everything they are given comes from Plan, Program and Evidence.

An engine lays out evidence once (`prepare`), parameters once an epoch (`load`), and then answers for any block of rows.
`get` finds one by name and imports it then, so that numba costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.exceptions import FgrnError
from .scans import LogScan, best_path, distribution, log_scan, log_sum, logarithm

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

__all__ = ["LogScan", "best_path", "distribution", "log_scan", "log_sum", "logarithm"]

NAMES = ("reference", "cpu")

SMALL_WORK = 2e6
"""Table cells visited; below this "auto" is the reference engine, which has done them within half a second.

In that time the kernels of the CPU engine would just be loaded, and compiling them, where that was never done, takes up
to half a minute: a small request must not wait for it.
"""

SOURCE, FORWARD, BACKWARD, DIVERT = range(4)
"""The kinds of step in a Program, as `fgrn.plan.plan` numbers them."""


class Buffers(NamedTuple):
    """The messages of a block of rows, those of the edges a program shows, side by side.

    forward, backward, marginal   (rows, states): each sums to one, or is all zero where the row is impossible
    known_forward, _backward      (rows, edges of the plan): whether evidence lies behind the message
    log_likelihood                (rows,): without the scale of soft evidence; -inf where the row is impossible
    """

    forward: np.ndarray
    backward: np.ndarray
    marginal: np.ndarray
    known_forward: np.ndarray
    known_backward: np.ndarray
    log_likelihood: np.ndarray


class BlockCounts(NamedTuple):
    """The expected counts of a block of rows, as the engine keeps them.

    log_likelihood   weighted, of all rows together, without the scale of soft evidence
    impossible       the rows of the block that have probability zero and a weight; they are in neither of the others
    """

    values: np.ndarray
    log_likelihood: float
    impossible: np.ndarray

    @classmethod
    def of_rows(cls, values: np.ndarray, log_likelihood: np.ndarray, weights: np.ndarray) -> BlockCounts:
        """From the log-likelihood of each row."""
        impossible = np.isneginf(log_likelihood)
        terms = weights * np.where(impossible, 0.0, log_likelihood)
        # summed by NumPy: a threaded BLAS would wake its threads for every block
        return cls(values, float(terms.sum()), np.flatnonzero(impossible & (weights > 0)))


class Scan(NamedTuple):
    """What a scan along sequences of rows writes down.

    past, future     (rows, states): the hidden variable as the rows before know it, and those after (1 in the last)
    around           (rows, states): both together, each row summing to one
    likelihood       (rows,): of each row given those before it; 0 where it is impossible
    """

    past: np.ndarray
    future: np.ndarray
    around: np.ndarray
    likelihood: np.ndarray

    @classmethod
    def room(cls, rows: int, states: int) -> Scan:
        """Room for the scan of some rows."""
        past, future, around = (np.empty((rows, states)) for _ in range(3))
        return cls(past, future, around, np.empty(rows))

    def of(self, rows: slice) -> Scan:
        """The room for some of the rows."""
        return Scan(*(part[rows] for part in self))


Room: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by the names of `Buffers`, for all that is shown of a block of rows."""


class Loaded(Protocol):
    """Evidence and parameters in place: what an engine answers for a block of rows."""

    def propagate(self, rows: slice, beliefs: bool = True, room: Room | None = None) -> Buffers:
        """Run the two sweeps of a tree; without `beliefs` the marginals may be anything.

        Parts of the answer may be put in the `room` for them, and be those arrays. If that has none for the
        log-likelihood, it may be anything but -inf, which is left to impossible rows.
        """

    def round(self, before: Buffers) -> Buffers:
        """Run one parallel round on the messages of the round before, for all rows."""

    def counts(self, rows: slice, weights: np.ndarray, expect: bool) -> BlockCounts:
        """Expected counts at K = 1; `expect`: unknown values count as the model expects them."""

    def release(self, counts: np.ndarray) -> None:
        """Take back the counts of a block that have been added up: their room may be used again."""

    def settled(self, counts: np.ndarray, expect: bool) -> tuple[np.ndarray, float]:
        """The sum of the counts of all blocks in the plan's layout, and what the log-likelihood still lacks.

        What is given may be overwritten, and is released.
        """

    def hold(self, rows: slice) -> Any:
        """The messages at both ends of every table, to be counted again with other tables."""


class Prepared(Protocol):
    """Evidence in place. `rows_at_once` is how many rows make a good block."""

    rows_at_once: int

    def rest(self) -> None:
        """Give back what is kept from one time to the next for speed alone."""

    def load(self, values: np.ndarray) -> Loaded:
        """Put parameters, a flat vector in the plan's layout, in place."""


class Engine(Protocol):
    """What the flow asks of an engine."""

    name: str
    parallel: bool
    """Whether several threads may call it at once, and are quicker together."""
    few_rows: int
    """So few that it is quicker to make every message than to lay out evidence for a program that leaves some out."""

    def prepare(self, plan: Plan, programs: Programs, program: Program, evidence: Evidence) -> Prepared:
        """Lay out the evidence for one of the programs."""

    def scan(
        self,
        prior: np.ndarray,
        table: np.ndarray,
        local: np.ndarray,
        begins: np.ndarray,
        weights: np.ndarray,
        out: Scan,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Along rows that follow each other, given what each says of its hidden variable; a sequence begins at True.

        Returns the expected counts of the first rows, and those from row to row without the factor of the table.
        """

    def recount(self, plan: Plan, held: Any, values: np.ndarray, weights: np.ndarray, expect: bool) -> BlockCounts:
        """Expected counts from held messages with the given tables (the paper's ML cycle)."""


def tracer(largest: bool) -> Any:
    """The engine that can choose states of all variables; `largest`: by largest products where others add."""
    from .reference import Reference

    return Reference(largest=largest)


class _Preference:
    """What the user has stated for all calls with engine="auto"; see `prefer_cpu`."""

    cpu = False


def prefer_cpu() -> None:
    """Let "auto" mean "cpu" from now on, whatever the work: the user has stated that its kernels are in place."""
    _Preference.cpu = True


def chosen(name: str, work: float) -> str:
    """The name of the engine for so many table cells to visit: the one asked for, or what "auto" means.

    It depends on these and on what the user has stated, never on what ran before: equal calls give equal bits.
    """
    if name != "auto":
        return name
    return "cpu" if _Preference.cpu or work >= SMALL_WORK else "reference"


def get(name: str) -> Engine:
    """The engine of that name."""
    if name == "reference":
        from .reference import Reference

        return Reference()
    if name == "cpu":
        from .cpu import Cpu
        from .reference import Reference

        return Cpu(judge=Reference())
    raise FgrnError(f"The 'engine' must be one of {', '.join(map(repr, NAMES))}. Got {name!r} instead.")
