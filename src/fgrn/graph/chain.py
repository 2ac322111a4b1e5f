"""Chain: a network for sequences of rows, such as a hidden Markov model over the lines of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from .. import engines
from ..core.exceptions import EvidenceError, ImpossibleEvidence, WiringError, counted
from ..core.labels import labels_of_codes
from ..core.settings import Name
from ..flow import em
from ..flow.evidence import encode, known_names
from ..flow.gaussian_leaves import GaussianLeaves
from ..flow.messages import Messages
from ..flow.sequence_messages import likeliest_path, marked_messages
from ..flow.sequences import KindMessages, Link, SequenceEStep, Sequences
from ..learning.execution import engine_for
from ..learning.learn import EStepOf
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..queries.assignments import Assignments
from ..queries.questions import MostProbable, most_probable
from ..queries.sampling import sampled, walked
from ..tables import frames
from ..tables.encoded import Evidence
from ..tables.missing import is_missing_value
from .blocks import SISO, Block, Diverter, Source
from .network import Network


def _unexplained(
    error: ImpossibleEvidence, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence
) -> ImpossibleEvidence:
    """Return the error unchanged: earlier rows contribute too, so a single row cannot be explained alone."""
    return error


class Chain(Network):
    """A network for sequences of rows, whose hidden variable depends on that of the row before.

    The blocks are those of one row. `link` names two of its variables: the output of the SISO block that leads to the
    next row, and the Source's variable that this output is, one row later. The prior of that Source is for the first
    row of a sequence.

    A table may have a column called `sequence`, whose value is the same in all rows of a sequence, which must be
    consecutive. Without that column all rows are one sequence. Messages are per row, given the whole sequence; the
    log-likelihood of a row is that given all rows before it, and sums to that of the sequence. An impossible row ends
    its sequence: later rows are impossible too, and earlier rows are computed without it.

    An epoch of `learn` is one iteration of Baum and Welch, `sample` draws one new sequence of the given number of rows,
    and `most_probable` is the Viterbi algorithm.
    """

    _cannot: ClassVar[Mapping[str, str]] = {
        "rounds": "A chain is scanned along its rows: it has neither rounds nor blocks that pause.",
        "pauses": "A chain is scanned along its rows: it has neither rounds nor blocks that pause.",
        "rows elsewhere": "The rows of a chain must be in memory to be learnt from.",
        "layers": "A chain cannot pause its layers. Use learn.",
        "max-marginals": "A chain has no max-marginals. Unroll its steps, hmm(..., length=), or use most_probable.",
        "samples given evidence": (
            "A chain draws new sequences only. To draw given what is known, unroll it: hmm(..., length=)."
        ),
    }

    _explained = staticmethod(_unexplained)
    _row_cost: ClassVar[int] = 10  # it goes from row to row

    def __init__(
        self,
        blocks: Iterable[Block],
        link: Sequence[str],
        sequence: str = "sequence",
        *,
        leaves: GaussianLeaves | None = None,
    ) -> None:
        super().__init__(blocks, leaves=leaves)
        if not isinstance(sequence, str):
            raise WiringError(f"'sequence' is the name of a column. Got {sequence!r} instead.")
        self.link, self.sequence = _checked_link(self, link), sequence
        self._beside = frozenset({sequence})
        self._kept: dict[bool, dict[tuple[int, ...], KindMessages]] = {}
        if sequence in self._wiring.variables:
            raise WiringError(f"A variable is called {sequence!r}, like the column that tells sequences apart.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        return (self.link, self.sequence) == (other.link, other.sequence) and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def __getstate__(self) -> Any:
        return *super().__getstate__(), self.link, self.sequence

    def __setstate__(self, state: Any) -> None:
        self.__init__(state[0], *state[5:], leaves=state[4])  # type: ignore[misc]
        self._parameters, self._trained, self._counted = state[1:4]

    def __repr__(self) -> str:
        output, source = self.link
        return f"{super().__repr__()}\n  chained: {output!r} is {source!r} of the next row of its {self.sequence!r}"

    # Private helpers

    def _encode_rows(self, plan: Plan, data: frames.Data, weights: Any = None) -> Evidence:
        if isinstance(data, Evidence):  # it says itself where sequences begin
            return data.numbered_by(plan)
        columns = frames.columns(data)
        output, source = self.link
        if output in columns:
            raise EvidenceError(f"{output!r} is {source!r} of the next row: put what is known of it there.")
        ids = columns.pop(self.sequence, None)
        rows = None if columns else (len(ids) if ids is not None else frames.rows_without_columns(data))
        encoded = encode(plan, columns, weights, rows, self._continuous)
        return replace(encoded, begins=sequence_begins(ids, encoded.rows, self.sequence))

    def _structure(self, plan: Plan) -> tuple[object, ...]:
        return plan, self.link

    def _sequences(
        self, runner: engines.Engine, plan: Plan, encoded: Evidence, threads: int | None = None, paused: Any = ()
    ) -> Sequences:
        programs_for = partial(self._programs_for, plan, paused)
        return Sequences(runner, plan, programs_for, encoded, self._linked, threads)

    def _asked_sequences(
        self, runner: engines.Engine, plan: Plan, encoded: Evidence, threads: int | None = None, paused: Any = ()
    ) -> Sequences:
        """Return sequences for queries; messages of kinds of rows are cached until the parameters change.

        With compiled kernels they are the slowest part of a query of a few hundred rows.
        """
        found = self._sequences(runner, plan, encoded, threads, paused)
        if runner.name == "cpu":
            found.kept = self._kept.setdefault(bool(paused), {})
        return found

    @cached_property
    def _linked(self) -> Link:
        return Link.of(self._plan(), *self.link)

    @property
    def _preferred_engine(self) -> str | None:  # type: ignore[override]
        """The engine of the last learning: compiled kernels are a hundred times as fast along rows."""
        return self._trained[-1].get("engine") if self._trained else None

    def _swept(
        self,
        engine: engines.Engine,
        plan: Plan,
        programs: Callable[[], Programs],
        evidence: Evidence,
        kept: tuple[str, ...],
        threads: int | None,
        parts: tuple[str, ...],
    ) -> Messages:
        return marked_messages(self._asked_sequences(engine, plan, evidence, threads), self._tables, kept, parts)

    def most_probable(self, evidence: frames.Data = None, *, names: Collection[Name] | None = None) -> MostProbable:
        """Return the most probable joint states of all variables of each sequence: the Viterbi path.

        `log_probability` has one number for each sequence, in order. The arguments are those of
        `Network.most_probable`.
        """
        output, source = self.link
        plan = self._plan((output,))  # what leads on is decided by the path
        encoded = self._encode(plan, evidence)
        sequences, values = self._sequences(engines.get("reference"), plan, encoded, paused=(output,)), self._tables
        link = sequences.link
        path, weight = likeliest_path(sequences, values)
        known, _ = sequences.with_hidden()
        codes = known.codes.astype(np.int32)
        codes[:, known.slot[link.source]] = path
        inner = replace(known, codes=codes)
        states, _ = Assignments(plan, self._programs_for(plan, (output,), inner), values, inner).likeliest()
        states[:, link.output] = plan.layout.table(values, link.table)[path].argmax(axis=1)
        onwards = np.flatnonzero(~encoded.begins)
        states[onwards - 1, link.output] = path[onwards]
        asked = (
            (source, *(name for name in self.observed if name != output)) if names is None else self._query_names(names)
        )
        edges = {name: plan.edge(name) for name in asked}
        labels = {name: labels_of_codes(plan.labels[edge], states[:, edge]) for name, edge in edges.items()}
        scales = np.add.reduceat(encoded.log_scale, np.flatnonzero(encoded.begins)) if encoded.rows else np.zeros(0)
        every = [name for name in self._assigned_names(plan) if name != output]
        return most_probable(labels, weight[encoded.begins] + scales, every, known_names(encoded))

    def decode(self, evidence: frames.Data = None, *, engine: str = "auto") -> np.ndarray:
        """Return the most probable path of hidden states of each sequence given the evidence, as labels of all rows.

        Missing values are summed out, whereas `most_probable` maximises over them as well.

        Args:
            evidence: the table, as for `propagate`.
            engine: see `propagate`.
        """
        output, source = self.link
        plan = self._plan((output,))
        encoded = self._encode(plan, evidence)
        runner = engine_for(engine, plan, self._row_cost * encoded.rows, preferred=self._preferred_engine)
        sequences = self._asked_sequences(runner, plan, encoded, paused=(output,))
        path, _ = likeliest_path(sequences, self._tables, alone=True)
        return np.asarray(labels_of_codes(plan.labels[plan.edge(source)], path))

    def _sampled(self, plan: Plan, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Draw one sequence: first the hidden variable of all rows in order, then the other variables."""
        link, values = Link.of(plan, *self.link), self._tables
        table, prior = plan.layout.table(values, link.table), plan.layout.prior(values, link.prior)
        states = walked(table, prior, rows, generator)
        return sampled(plan, values, rows, generator, {link.source: states})

    def _estep(self, engine: engines.Engine, plan: Plan, programs: Programs, **options: Any) -> EStepOf:
        def along_rows(evidence: Evidence) -> em.WholeEStep:
            weights, begins = evidence.row_weights, evidence.begins
            which = np.cumsum(begins) - 1
            if not np.array_equal(weights, weights[np.flatnonzero(begins)][which]):
                raise EvidenceError("All rows of a sequence must have the same weight.")
            if engine.name == "cpu" and self.leaves is None:
                engines.compile_aside("chains")
            return SequenceEStep(self._sequences(engine, plan, evidence, options["threads"]), options["expect"])

        return along_rows


def sequence_begins(ids: Any, rows: int, name: str) -> np.ndarray:
    """Return where sequences begin, by the column that identifies them; without it all rows are one sequence."""
    begins = np.zeros(rows, dtype=bool)
    begins[:1] = True
    if ids is None or frames.is_bare(ids):
        return begins
    values = frames.as_list(ids)
    if len(values) != rows:
        raise EvidenceError(f"it has {counted(len(values), 'row')}, the others have {rows:,}.", column=name)
    seen: set[Any] = set()
    for row, value in enumerate(values):
        if is_missing_value(value):
            raise EvidenceError("it is not known which sequence this row belongs to.", row=row, column=name)
        if row and value == values[row - 1]:
            continue
        if not isinstance(value, Hashable):
            raise EvidenceError(f"{value!r} is not the name of a sequence.", row=row, column=name, value=value)
        if value in seen:
            raise EvidenceError(
                f"the rows of a sequence must be consecutive, but {value!r} had ended before.",
                row=row,
                column=name,
                value=value,
            )
        seen.add(value)
        begins[row] = True
    return begins


def _checked_link(net: Network, link: Sequence[str]) -> tuple[str, str]:
    """Return the names of the two ends of a link; an error unless both can be the hidden variable."""
    if isinstance(link, str) or not isinstance(link, Sequence) or len(link) != 2:
        raise WiringError(f"'link' is two names: the output of the transition, and the hidden variable. Got {link!r}.")
    output, source = (net.variable(name) for name in link)
    wiring = net._wiring
    blocks = wiring.blocks
    drives = blocks[wiring.drivers[output.name]] if output.name in wiring.drivers else None
    if not isinstance(drives, SISO) or output.name in wiring.readers:
        raise WiringError(
            f"{output.name!r} is the hidden variable of the next row: it must be the output of a SISO block, and no "
            "other block may read it."
        )
    begins = blocks[wiring.drivers[source.name]] if source.name in wiring.drivers else None
    reads = blocks[wiring.readers[source.name]] if source.name in wiring.readers else None
    if not isinstance(begins, Source) or not isinstance(reads, Diverter) or len(reads.inputs) != 1:
        raise WiringError(f"{source.name!r} must come from a Source and be the only input of a Diverter.")
    if drives.input not in reads.outputs:
        raise WiringError(f"The SISO block to {output.name!r} must be connected to the Diverter of {source.name!r}.")
    if output.labels != source.labels:
        raise WiringError(f"{output.name!r} and {source.name!r} are one variable in two rows, with the same states.")
    return output.name, source.name
