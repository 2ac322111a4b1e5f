"""DynamicBayesianNetwork: slices of variables at consecutive times, with links from slice to slice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import settings
from ..core.exceptions import EvidenceError, WiringError, counted, nearest, unknown_name, visible
from ..core.labels import Label, Labels, labels_of_codes
from ..core.learning_defaults import EPOCHS_PER_CHECKPOINT
from ..core.settings import Name
from ..core.variable import Variable
from ..flow import em
from ..flow.evidence import encode
from ..graph.chain import sequence_begins
from ..learning import checkpoints
from ..learning.convergence import warn_of_usual_epochs
from ..learning.encoding import table_of_source
from ..learning.execution import engine_for
from ..learning.learn import Training, estep_over
from ..queries.questions import MostProbable
from ..queries.sampling import draw_states
from ..tables import frames
from ..tables.encoded import Evidence
from ..tables.outputs import frame_of_records
from .bayesian import Arcs, BayesianNetwork
from .directed_graph import ParentsOf
from .factored import checked_variables
from .slice_rows import SliceEStep, SliceRows, refuse_impossible_slices
from .slices import SliceStructure, checked_links

Links = Mapping[Any, Sequence[Any]] | Iterable[Sequence[Any]]
"""By variable, those of earlier slices it depends on: a name for the slice before, or (name, lag); or triples."""


@dataclass(frozen=True, eq=False)
class SliceBeliefs:
    """The distribution of each variable in each slice.

    Attributes:
        sequence: the number of the sequence of each row, from 0.
        step: the number of each row in its sequence, from 0; in a prediction, of steps after its last row, from 1.
        log_likelihood: of each row given all rows before it; those of a sequence sum to its own. Zero in a prediction.
    """

    sequence: np.ndarray
    step: np.ndarray
    log_likelihood: np.ndarray
    _marginals: Mapping[str, np.ndarray]
    _labels: Mapping[str, Labels]

    def marginal(self, name: Name) -> np.ndarray:
        """Return the distribution of a variable in each row, (rows, states)."""
        found = self._marginals.get(settings.name_of(name))
        if found is None:
            raise unknown_name("variable", name, self._marginals)
        return found

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return, for each row, its sequence, step, and the likeliest state of each variable with its probability."""
        found = []
        for row, (sequence, step) in enumerate(zip(self.sequence.tolist(), self.step.tolist(), strict=True)):
            record: dict[str, Any] = {"sequence": sequence, "step": step}
            for name, shares in self._marginals.items():
                best = int(shares[row].argmax())
                record |= {name: self._labels[name][best], f"P({name})": float(shares[row, best])}
            found.append(record)
        return found

    def to_frame(self) -> Any:
        """Return the likeliest states as a pandas data frame."""
        return frame_of_records(self.as_dicts())


class DynamicBayesianNetwork:
    """A dynamic Bayesian network: equal slices at consecutive times, with variables, arcs, and links in time.

    Data are tables with a row for each slice, and a column that identifies sequences, whose rows are consecutive;
    without that column all rows are one sequence. Values may be missing, and variables hidden. All answers are exact,
    by messages over the joint states of the variables that later slices depend on.

    Args:
        variables: of a slice, with their states.
        arcs: within a slice; see `BayesianNetwork`.
        links: by variable, those of earlier slices that it depends on: a name for the slice before, or (name, lag) for
            an earlier one; or a list of (parent, child) and (parent, child, lag).
        tables: P(variable | parents in the slice, then links, in their order), for slices in which all links are there.
        initial: of variables with links, P(variable | parents in the slice) in the first slices, as long as no link is
            there; with links of several lags a list with a table for each lag, the next ones given the links that are
            there already.
        frozen: the names of variables whose tables are never learnt.
        sequence: the name of the column that identifies sequences.
        name: of the network.
    """

    def __init__(
        self,
        variables: Mapping[str, int | Iterable[Label]] | Iterable[Variable],
        arcs: Arcs = (),
        links: Links = (),
        tables: Mapping[Any, ArrayLike] | None = None,
        initial: Mapping[Any, Any] | None = None,
        *,
        frozen: Collection[Name] = (),
        sequence: str = "sequence",
        name: str = "",
    ) -> None:
        known = checked_variables(variables)
        within: ParentsOf = BayesianNetwork(known.values(), arcs).parents_of_all
        self._structure = SliceStructure(
            known, {one: tuple(some) for one, some in within.items()}, checked_links(known, links)
        )
        if not self._structure.copies:
            raise WiringError(
                "No variable depends on an earlier slice.", remedies=("give links", "use a BayesianNetwork")
            )
        if not isinstance(sequence, str) or sequence in known:
            raise WiringError(
                f"'sequence' must be a column that is not a variable. Got {sequence!r}.", remedies="choose another"
            )
        self.name, self.sequence = name, sequence
        later, first = settings.by_name(tables), settings.by_name(initial)
        kept = settings.variable_names("frozen", frozen)
        for key in (*later, *first, *kept):
            if key not in known:
                raise unknown_name("variable", key, known)
        whole = {one: self._structure.table(one, later.get(one), first.get(one)) for one in known}
        self._step = self._structure.network(whole, kept, name)

    # Properties

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of a slice."""
        return tuple(self._structure.variables.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables of a slice."""
        return tuple(self._structure.variables)

    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""
        found = self._structure.variables.get(settings.name_of(name))
        if found is None:
            raise unknown_name("variable", name, self._structure.variables)
        return found

    def parents(self, name: Name) -> tuple[str, ...]:
        """Return the parents of a variable in its slice, then those in earlier slices: `x[-1]` is one slice before."""
        return self._step.parents(self.variable(name).name)

    @property
    def order(self) -> int:
        """The order: the number of earlier slices that a slice depends on."""
        return self._structure.order

    @property
    def free_parameters(self) -> int:
        """The number of free parameters of all tables, those of the first slices included."""
        return self._step.free_parameters

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """The training record, one mapping for each call of `learn`."""
        return self._step.trained

    def table(self, name: Name, slice: int | None = None) -> np.ndarray:
        """Return the table of a variable, with an axis for each parent and existing link, and the last for itself.

        Args:
            name: of the variable.
            slice: which of the first slices, from 0; unless given, a later one, in which all links are there.
        """
        one = self.variable(name).name
        if slice is not None:
            settings.whole("slice", slice, 0)
        lags = self._structure.lags(one)
        stage = len(lags) if slice is None else self._structure.stage(one, slice)
        whole = self._step.table(one).reshape(self._structure.shape(one))
        return np.array(whole[self._structure.cells(one, stage)])

    def __repr__(self) -> str:
        title = f"DynamicBayesianNetwork {self.name!r}" if self.name else "DynamicBayesianNetwork"
        lines = [f"{title} of {counted(len(self.names), 'variable')} in a slice, order {self.order}"]
        for one in self.names[:40]:
            above = ", ".join(self.parents(one))
            lines.append(f"  P({one} | {above})" if above else f"  P({one})")
        return "\n".join(map(visible, lines))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicBayesianNetwork):
            return NotImplemented
        mine, theirs = self._structure, other._structure
        return (self.sequence, mine.links) == (other.sequence, theirs.links) and self._step == other._step

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def copy(self) -> Self:
        """Return a copy, to be learnt further."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _step=self._step.copy())
        return other

    def save(self, path: str | Path) -> None:
        """Write the network to a model file (`.fgrn`); `fgrn.load` reads it back."""
        from ..files.model_file import save

        save(self, path)

    def unrolled(self, length: int) -> BayesianNetwork:
        """Return the Bayesian network of a number of slices: `x[0]`, `x[1]`, ...; equal tables are tied.

        It answers every query, as long as its cliques fit into memory.
        """
        settings.whole("length", length, 1)
        structure = self._structure
        variables: list[Variable] = []
        parents: dict[str, list[str]] = {}
        tables, ties = {}, {}
        for time in range(length):
            for one, variable in structure.variables.items():
                here = f"{one}[{time}]"
                variables.append(Variable(here, variable.labels))
                parents[here] = [f"{above}[{time}]" for above in structure.parents[one]]
                parents[here] += [f"{c.name}[{time - c.lag}]" for c in structure.links.get(one, ()) if c.lag <= time]
                tables[here] = self.table(one, time)
                ties[here] = f"{one}, {structure.stage(one, time)} lags"
        kept = [f"{one}[{time}]" for one in self._frozen for time in range(length)]
        return BayesianNetwork(variables, parents, tables, ties=ties, frozen=kept, name=self.name)

    @property
    def _frozen(self) -> list[str]:
        """The names of variables whose tables are never learnt."""
        return [part.name for part in self._step._parts if not part.learn and part.name in self._structure.variables]

    def two_slices(self) -> BayesianNetwork:
        """Return the two-slice network (2TBN) of a network of order one: `x0` in the first and `xt` in a later slice.

        In this form files of ordinary networks hold a dynamic one, for pyAgrum as well: `fgrn.write` writes it.
        """
        from .two_slices import two_slices

        return two_slices(self)

    @classmethod
    def of_two_slices(cls, network: BayesianNetwork, sequence: str = "sequence") -> DynamicBayesianNetwork:
        """Return the dynamic network of a two-slice network (2TBN), such as one read from a file by `fgrn.read`.

        Args:
            network: its variables are `x0`, x in the first slice, and `xt`, x in a later one. Parents of `xt` are in
                its own slice, `yt`, or in the one before, `y0`.
            sequence: the name of the column that identifies sequences.

        Files of other programs hold labels as words: where those of a network are numbers, the one that is read back
        from such a file has words instead, and is not equal to it.
        """
        from .two_slices import dynamic_of_two_slices

        return dynamic_of_two_slices(network, sequence)

    # Rows

    def _encoded(self, data: frames.Data, weights: Any = None) -> SliceRows:
        columns = frames.columns(data)
        ids = columns.pop(self.sequence, None)
        for one in columns:
            if one not in self._structure.variables:
                raise EvidenceError(f"this is not a variable of a slice. {nearest(one, self.names)}", column=one)
        rows = None if columns else (len(ids) if ids is not None else frames.rows_without_columns(data))
        encoded = encode(self._step, columns, weights, rows)
        begins = sequence_begins(ids, encoded.rows, self.sequence)
        return SliceRows(self._structure, self._step, replace(encoded, begins=begins))

    def _answer(self, rows: SliceRows, past: np.ndarray, after: Any, likelihood: np.ndarray) -> SliceBeliefs:
        begins = rows.evidence.begins
        found = rows.marginals(past, after, self.names)
        marginals = {name: found.marginal(name) for name in self.names}
        first = np.flatnonzero(begins)
        sequence = np.cumsum(begins) - 1
        step = np.arange(len(begins)) - first[sequence] if len(begins) else sequence
        return SliceBeliefs(sequence, step, likelihood, marginals, self._labels)

    @property
    def _labels(self) -> dict[str, Labels]:
        return {name: variable.labels for name, variable in self._structure.variables.items()}

    # Queries

    def filter(self, data: frames.Data) -> SliceBeliefs:
        """Return the distribution of each variable in each slice, given this slice and all before it (filtering)."""
        rows = self._encoded(data)
        past, _, likelihood = rows.steps().forward()
        refuse_impossible_slices(np.flatnonzero(np.isneginf(likelihood)))
        return self._answer(rows, past, 1.0, likelihood)

    def smooth(self, data: frames.Data) -> SliceBeliefs:
        """Return the distribution of each variable in each slice, given all slices of the sequence (smoothing)."""
        rows = self._encoded(data)
        steps = rows.steps()
        past, _, likelihood = steps.forward()
        refuse_impossible_slices(np.flatnonzero(np.isneginf(likelihood)))
        return self._answer(rows, past, steps.backward(), likelihood)

    def predict(self, data: frames.Data = None, steps: int = 1) -> SliceBeliefs:
        """Return the distribution of each variable in the slices after the end of each sequence.

        Args:
            data: the sequences; None for the first slices of a new one.
            steps: the number of slices.
        """
        settings.whole("steps", steps, 1)
        structure = self._structure
        empty = SliceRows(structure, self._step, replace(encode(self._step, {}, rows=1), begins=np.ones(1, dtype=bool)))
        step = empty.steps()
        matrix = step.steps[0] * np.exp(step.logs[0])
        if data is None:
            last = step.first_past()
        else:
            rows = self._encoded(data)
            _, after, likelihood = rows.steps().forward()
            refuse_impossible_slices(np.flatnonzero(np.isneginf(likelihood)))
            ends = np.flatnonzero(np.append(rows.evidence.begins[1:], True)[: rows.evidence.rows])
            last = self._handed(after[ends])
        pasts = [last]
        for _ in range(steps - 1):
            pasts.append(self._handed(pasts[-1] @ matrix))
        count = len(last)
        past = np.stack(pasts, axis=1).reshape(count * steps, len(structure.past))
        begins = np.arange(count * steps) % steps == 0
        nothing = replace(encode(self._step, {}, rows=count * steps), begins=begins)
        found = self._answer(SliceRows(structure, self._step, nothing), past, 1.0, np.zeros(count * steps))
        return replace(found, step=found.step + 1)

    def _handed(self, after: np.ndarray) -> np.ndarray:
        """Return the distribution of the past of the next slice, from that of the state handed on."""
        past = np.zeros((len(after), len(self._structure.past)))
        past[:, self._structure.handed_on] = after
        return past

    def log_likelihood(self, data: frames.Data) -> np.ndarray:
        """Return the log-likelihood of each row given earlier rows of its sequence; -inf from an impossible one on."""
        return self._encoded(data).steps().forward()[2]

    def most_probable(self, data: frames.Data) -> MostProbable:
        """Return the most probable joint states of all slices of a sequence (Viterbi path).

        The labels are columns with the rows of the data; there is one log-probability for each sequence.
        """
        rows = self._encoded(data)
        past, after, weight = rows.largest_steps().best_path()
        lost = np.flatnonzero(np.isneginf(weight))
        refuse_impossible_slices(np.flatnonzero(rows.evidence.begins)[lost])
        evidence, before, behind = rows.with_messages()
        before[...] = np.eye(before.shape[1])[past]
        behind[...] = np.eye(behind.shape[1])[after]
        found = self._step._tree_network()._assignments(evidence)
        codes, _ = found.likeliest()
        labels = {
            name: labels_of_codes(variable.labels, codes[:, found.plan.edge(name)])
            for name, variable in self._structure.variables.items()
        }
        return MostProbable(labels, weight)

    def sample(self, length: int, sequences: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
        """Draw sequences of a given length: the labels of all variables, and the number of the sequence."""
        settings.whole("length", length, 1)
        settings.whole("sequences", sequences, 1)
        settings.whole("seed", seed, 0)
        generator, structure = np.random.default_rng(seed), self._structure
        order = [name for name in self._step._order if name in structure.variables]
        codes = {name: np.zeros((length, sequences), dtype=np.int64) for name in structure.variables}
        for time in range(length):
            for name in order:
                row = np.zeros(sequences, dtype=np.int64)
                for above in structure.parents[name]:
                    row = row * structure.variables[above].cardinality + codes[above][time]
                for copy in structure.links.get(name, ()):
                    there = time >= copy.lag
                    row = row * structure.size(copy)
                    row += codes[copy.name][time - copy.lag] if there else structure.size(copy) - 1
                codes[name][time] = draw_states(self._step.table(name), row, generator)
        labels = {name: labels_of_codes(self.variable(name).labels, some.T.ravel()) for name, some in codes.items()}
        return {self.sequence: np.repeat(np.arange(sequences), length), **labels}

    # Learning

    def learn(
        self,
        data: frames.Data,
        epochs: int | None = None,
        smoothing: float | Mapping[str, Any] = 0.0,
        weights: Any = None,
        seed: int = 0,
        *,
        starts: int = 1,
        tolerance: float = 0.0,
        accelerate: bool = False,
        only: Collection[Name] | None = None,
        watch: em.Watcher | None = None,
        engine: str = "auto",
        threads: int | None = None,
        checkpoint: checkpoints.Place = None,
        every: int = EPOCHS_PER_CHECKPOINT,
        resume: bool = False,
    ) -> em.History:
        """Learn the tables by maximum likelihood (EM) from sequences; values may be missing, and variables hidden.

        The options are those of `Network.learn`. All rows of a sequence have one weight. The data may be a path, a
        glob, batches of rows or a `Stream`, too, and is read into memory then.
        """
        data = table_of_source(data) if frames.is_source(data) else data
        most = em.USUAL_EPOCHS if epochs is None else epochs
        rule = em.Rule(most, 1, tolerance, 1e-10, starts, seed, accelerate, None, None, None)
        smooth = settings.by_name(smoothing, self.variable) if isinstance(smoothing, Mapping) else smoothing
        rows = self._encoded(data, weights)
        table = rows.evidence
        _check_weights(table)
        spec = self._step._spec
        if only is not None:
            spec = spec.restricted(settings.variable_names("only", only, own=self.variable))
        model = self._step.copy()
        plan = model._tree_network()._plan()

        def along(evidence: Evidence) -> em.WholeEStep:
            return SliceEStep(SliceRows(self._structure, model, evidence), runner, threads)

        structure = (self.names, sorted(self._structure.links.items()))
        training = Training(self, structure, spec, table, rule, smooth, "expect", watch)
        with checkpoints.stage_journal(checkpoint, every, resume) as journal:
            engine, _ = checkpoints.as_begun(journal, table, engine, False)
            runner = engine_for(engine, plan, table.rows * most)
            estep = estep_over(along, None, table, "of all")
            run = {"engine": runner.name, "merge": False}
            learnt = training.run(estep, self._step._parameters, journal, run)
        self._step._parameters, history, record = learnt
        self._step._trained += (record,)
        if epochs is None:
            warn_of_usual_epochs(history, rule)
        return history


def _check_weights(table: Evidence) -> None:
    """Raise an error for weights that differ within a sequence."""
    begins = table.begins
    which = np.cumsum(begins) - 1
    if not np.array_equal(table.row_weights, table.row_weights[np.flatnonzero(begins)][which]):
        raise EvidenceError("All rows of a sequence must have the same weight.")
