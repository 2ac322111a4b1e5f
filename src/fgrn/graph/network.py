"""Network: connected blocks with their parameters; inference, learning, sampling.

The wiring is checked in `wiring` and planned in `supervisor`, and every computation is a call into the flow
(evidence -> messages -> marginals -> counts -> parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import engines
from ..core import settings
from ..core.digests import digest
from ..core.exceptions import FgrnError, ImpossibleEvidence, LearningError
from ..core.labels import labels_of_codes
from ..core.learning_defaults import EPOCHS_PER_CHECKPOINT, ONLINE_POWER
from ..core.settings import Name
from ..flow import messages
from ..flow.conflicts import explained
from ..flow.evidence import known_names
from ..flow.marginals import refuse_impossible
from ..flow.messages import Messages, Round
from ..learning.execution import engine_for, merging
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..queries.assignments import Assignments
from ..queries.questions import MostProbable, Queries, most_probable
from ..queries.sampling import sampled
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from .wired_model import WiredModel

if TYPE_CHECKING:  # what learning needs is imported when something is learnt
    from ..flow import em
    from ..flow.leaf_estep import RowEStep
    from ..flow.online import Online
    from ..learning import checkpoints
    from ..learning.learn import EStepOf


class Network(WiredModel, Queries):
    """A discrete Bayesian network as a factor graph in reduced normal form.

    Made of `Source`, `SISO` and `Diverter` blocks that meet at `Variable`s. The wiring is checked at once. Two networks
    are equal if their blocks and their parameters are.
    """

    _explained = staticmethod(explained)

    def save(self, path: str | Path) -> None:
        """Write the network to a model file (`.fgrn`); `fgrn.load` reads it back."""
        from ..files.model_file import save

        save(self, path)

    def _repr_html_(self) -> str | None:
        """Return the HTML for notebooks: a drawing with the beliefs, and a button that opens the network's page."""
        from ..page.notebook import notebook_html

        return notebook_html(self)

    # Messages

    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        schedule: str = "auto",
        keep: Collection[Name] | None = None,
        parts: Collection[str] = messages.SHOWN_PARTS,
        impossible: str = "raise",
        paused: Collection[Name] = (),
        rounds: int | None = None,
        damping: float | None = None,
        tolerance: float = 1e-9,
        engine: str = "auto",
        threads: int | None = None,
        device: str | None = None,
        precision: str | None = None,
    ) -> Messages:
        """Return all forward and backward messages, marginals and the log-likelihood of every row of evidence.

        Args:
            evidence: a mapping of columns or a dataframe; a variable without a column is unknown.
            schedule: "sweeps" (two, exact, on a tree), "rounds" (parallel), or "auto": sweeps where they are exact,
                unless rounds or damping are given. On a graph with loops all results, including the log-likelihood
                and impossible rows, are approximations.
            keep: the variables whose messages to keep; all of them unless given.
            parts: the parts to keep: some of "forward", "backward", "marginal" and "likelihood".
            impossible: "raise" an error that names the rows of probability zero, or "mark" them in `.impossible`.
            paused: outputs of SISO blocks that pass no messages.
            rounds: the maximum number of parallel rounds; unless given, the diameter of a tree, or 500 with loops.
            damping: the weight of the old message in a new one; unless given, 0 on a tree and 0.5 with loops.
            tolerance: with loops, messages that change by no more than this have converged.
            engine: "reference", "cpu" (compiled; see `fgrn.warm`), "torch" (PyTorch, for a GPU), or "auto": the first
                for a little work, the second for more, the third for very much if there is a GPU. The first two agree
                to about 1e-10. The choice depends only on network, rows and machine: the same call, the same bits.
            threads: the number of threads; all processors unless given. The result does not depend on it.
            device: where engine="torch" computes: "cuda" or "cpu"; unless given, a GPU if there is one.
            precision: of its numbers: "float64" (default on the processor), "float32" (on a GPU), "tf32", "bfloat16".
        """
        settings.choice("schedule", schedule, ("auto", "sweeps", "rounds"))
        settings.choice("impossible", impossible, ("raise", "mark"))
        settings.number("tolerance", tolerance)
        paused = self._paused(paused)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        kept = plan.names if keep is None else settings.variable_names("keep", keep, own=self.variable)
        for name in kept:
            plan.edge(name)
        kept = tuple(dict.fromkeys(kept))
        ways = tuple(dict.fromkeys(settings.variable_names("parts", parts)))
        for way in ways:
            settings.choice("parts", way, messages.SHOWN_PARTS)
        cost, light = self._row_cost * encoded.rows, self._row_cost == 1 and set(ways) <= {"marginal", "likelihood"}
        runner = engine_for(engine, plan, cost, device, precision, self._preferred_engine, answers=light)
        programs = partial(self._programs_for, plan, paused, encoded)
        if schedule == "sweeps" and not plan.is_tree:
            raise FgrnError('This network has loops, on which two sweeps are not exact. Use schedule="rounds".')
        asked_for_rounds = schedule == "auto" and not (rounds is None and damping is None)
        if schedule == "rounds" or asked_for_rounds or not plan.is_tree:
            self._require("rounds")
            rule = self._round_rule(plan, rounds, damping, tolerance)
            found = messages.settled(runner, plan, programs(), self._tables, encoded, rule).only(kept, ways)
        else:
            found = self._swept(runner, plan, programs, encoded, kept, threads, ways)
        if impossible == "raise":
            try:
                refuse_impossible(np.flatnonzero(found.impossible))
            except ImpossibleEvidence as error:
                raise self._explained(error, plan, programs(), self._tables, encoded) from None
        return found

    def steps(
        self,
        evidence: frames.Data = None,
        *,
        rounds: int | None = None,
        damping: float | None = None,
        tolerance: float = 1e-12,
        paused: Collection[Name] = (),
        engine: str = "reference",
    ) -> Iterator[Round]:
        """Yield the state of each parallel round: all messages, and which of them changed; round 0 is the boundary.

        It ends when no message has changed, or after the maximum number of rounds, as in `propagate`.
        """
        self._require("rounds")
        settings.number("tolerance", tolerance)
        paused = self._paused(paused)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        runner = engine_for(engine, plan, encoded.rows)
        programs = self._programs_for(plan, paused, encoded)
        rule = self._round_rule(plan, rounds, damping, tolerance)
        return messages.stepped(runner, plan, programs, self._tables, encoded, rule)

    # Learning

    def learn(
        self,
        data: frames.Data,
        epochs: int | None = None,
        cycles: int = 1,
        smoothing: float | Mapping[str, Any] = 0.0,
        weights: Any = None,
        holes: str = "expect",
        seed: int = 0,
        *,
        starts: int = 1,
        tolerance: float = 0.0,
        accelerate: bool = False,
        cycle_tolerance: float = 1e-10,
        batch_size: int | None = None,
        step: float | tuple[float, float] | None = None,
        validation: Any = None,
        patience: int | None = None,
        hold: bool = True,
        only: Collection[Name] | None = None,
        constraints: Sequence[Any] = (),
        paused: Collection[Name] = (),
        engine: str = "auto",
        threads: int | None = None,
        device: str | None = None,
        precision: str | None = None,
        merge: bool | None = None,
        watch: em.Watcher | None = None,
        online: Online | None = None,
        checkpoint: checkpoints.Place = None,
        every: int = EPOCHS_PER_CHECKPOINT,
        resume: bool = False,
        executor: Any = None,
    ) -> em.History:
        """Learn tables and priors by maximum likelihood (EM): `epochs` T, with `cycles` K updates of tables in each.

        Learning continues from the current parameters; a table that was not given is drawn from `seed` first.

        Args:
            data: the rows to learn from: labels, codes, distributions and missing values, on any variable; or rows that
                are not in memory: a path, a glob, an Arrow dataset, batches of rows, or a `Stream`.
            epochs: the number of passes over the rows (T). Unless given 20, with a ConvergenceWarning if these were not
                enough.
            cycles: the number of updates of each table with the messages of one epoch (K); 1 is the incremental
                algorithm.
            smoothing: a Dirichlet count per cell of every table, or a mapping from tables and priors to counts, each a
                number or an array with one for each cell; priors are smoothed only if named.
            weights: one weight per row; the name of a column where `data` is not in memory.
            holes: "expect" counts a missing value as the model expects it (the paper); "ignore" leaves it out. Both
                lead to the same tables; the second in fewer epochs where much is missing.
            seed: of the random starts.
            starts: the number of random starts (initialisations); the best is kept. The first continues from the
                current tables; for the others every table that is learnt and was not given is drawn again.
            tolerance: stop when an epoch, or a round of three with `accelerate`, gains no more than this per row in the
                log-likelihood with the logarithm of the smoothing prior. 0 runs all epochs.
            accelerate: extrapolate the steps of EM (SQUAREM, see `fgrn.flow.acceleration`): several times fewer epochs
                where plain EM is slow. The objective never falls. For cycles=1.
            cycle_tolerance: a table that changes by no more than this in a cycle is not updated again in this epoch.
            batch_size: the number of rows after which the tables are updated (mini-batch EM), instead of once an epoch:
                many times fewer epochs for large tables. Rows are assigned to batches at random.
            step: the weight of a batch in the decayed counts, beside those of earlier batches: a number up to 1, or the
                first and the last, between which it falls geometrically over all epochs. Unless given, from 0.55 to
                0.03. See `fgrn.flow.minibatch`.
            validation: rows to hold out: a fraction of them, drawn by `seed`, or a table of other rows. The parameters
                with the best held-out likelihood are kept; `History.validation` has that of all epochs.
            patience: the number of epochs without a better held-out likelihood after which learning ends.
            hold: whether to keep the messages from cycle to cycle (the paper), or to recompute them in constant memory.
            only: the tables, priors and continuous columns to learn; all others are frozen.
            constraints: cells that are fixed, and rows that are equal: a list of ("fixed", table, row, level, value),
                ("zero", table, row, level), ("equal", table, table, ...) or ("equal", (table, row), (table, row), ...).
            paused: outputs of SISO blocks that pass no messages.
            engine: "reference", "cpu", "torch", or "auto". On a GPU tables and counts stay there until learning ends.
            threads: the number of threads; all processors unless given. The result does not depend on it.
            device: see `propagate`.
            precision: see `propagate`.
            merge: count equal rows once, with their weight (True), or one by one (False); unless given, the faster.
            watch: called after every epoch with (start, epoch, log-likelihood per row), counted from 0; if it returns
                True, this start ends with its result so far. Return True for each start to end learning. With an
                attribute `needs_every_epoch = False` it is called after several epochs, so that these are faster.
            online: the running counts of earlier batches, see `Network.online`; these rows are the next batch.
            checkpoint: a file that stores the progress of learning, see `Checkpoint`.
            every: the number of epochs between two checkpoints.
            resume: continue from the checkpoint, if it exists, to the same tables, bit for bit, as if not interrupted.
                There may be more epochs and starts than before; `engine` and `merge` stay as they were unless given.
            executor: a client of dask.distributed, whose workers keep the rows and count them. The data is then a Dask
                dataframe, or Parquet files that every worker can read; the result is the same.

        Names of tables are those of the SISO blocks' outputs or of their tie, names of priors those of the Sources'
        variables. The tables are replaced at the end: an error or an interruption leaves the network unchanged.
        """
        from ..flow import em
        from ..flow.online import OnlineEStep, check_online
        from ..learning import checkpoints
        from ..learning.convergence import warn_of_usual_epochs
        from ..learning.learn import Training, estep_over
        from ..learning.validation import check_patience, split_off

        smoothing = settings.by_name(smoothing, self.variable) if isinstance(smoothing, Mapping) else smoothing
        settings.choice("holes", holes, ("expect", "ignore"))
        settings.choice("merge", merge, (True, False, None))
        most = em.USUAL_EPOCHS if epochs is None else epochs
        rule = em.Rule(
            most, cycles, tolerance, cycle_tolerance, starts, seed, accelerate, batch_size, step, patience
        )  # fmt: skip
        check_patience(patience, validation)
        if executor is not None or frames.is_source(data):
            self._require("rows elsewhere", LearningError)
        paused = self._paused_in_learning(paused)
        plan = self._plan(paused)
        if not plan.is_tree:
            raise LearningError(
                "This network has loops, where messages are not exact and their counts would not be the expected ones. "
                "Join the variables on the loop in a product-space Diverter, which makes a tree of it."
            )
        if holes == "ignore" and plan.is_factor.any():
            raise LearningError('Missing values can be ignored only in a network without Factors; use holes="expect".')
        table = self._table(plan, data, weights, executor)
        if online is not None:
            check_online(online, rule, checkpoint, validation)
        table, held_out = split_off(table, validation, rule.seed, partial(self._table, plan))
        spec = self._restricted(only, paused, constraints, rule.cycles)
        training = Training(self, self._structure(plan), spec, table, rule, smoothing, holes, watch)
        programs = self._programs_for(plan, paused, table)
        with checkpoints.stage_journal(checkpoint, every, resume) as journal:
            engine, merge = checkpoints.as_begun(journal, table, engine, merge)
            runner = engine_for(engine, plan, self._row_cost * table.rows * most * cycles, device, precision)
            if self.leaves is not None and runner.name == "torch":
                runner = engines.get("cpu")  # numbers are read where the messages are made
            merge = merging(merge, rule, table)
            here = table.place != "workers"  # a worker has several tasks at once
            options = {"expect": holes == "expect", "threads": 1 if threads is None and not here else threads}
            estep_of = partial(self._estep_for, runner, plan, paused)
            make = estep_of(table, hold=hold and table.in_memory, merge=merge, frees_memory=not here, **options)
            counting = table.estep(partial(estep_over, make, partial(self._explained, plan=plan, programs=programs)))
            held_out_estep = None
            if held_out is not None:
                once = estep_of(held_out, merge=False, **options)
                held_out_estep = held_out.estep(partial(estep_over, once, None))
            batch = None if online is None else OnlineEStep(counting, online)
            run = {"engine": runner.name, "merge": merge}
            identity = {} if held_out is None else {"validation": digest(held_out.digests())}
            identity |= {} if precision is None else {"precision": precision}
            identity |= {"constraints": repr([tuple(one) for one in constraints])} if constraints else {}
            learnt = training.run(
                batch or counting, self._parameters, journal, run, held_out_estep, hold=hold, **identity
            )
        self._parameters, history, record = learnt
        if batch is not None:
            batch.close()
        self._counted = None if online is None else (self._parameters, replace(online))
        self._trained += (record,)
        if epochs is None and online is None:
            warn_of_usual_epochs(history, rule)
        return history

    def online(self, weight: float = 0.0, power: float = ONLINE_POWER, effective_size: float | None = None) -> Online:
        """Return a new state of online learning, to pass to `learn` with every batch of rows.

        To continue after the last batch, also after `fgrn.load`, pass `online_state` instead.

        Args:
            weight: the number of rows that the current tables represent, without the smoothing of the last learning,
                which is not counted twice; 0 to start anew with the first batch.
            power: of the step by which old counts are forgotten, from 0.5 to 1.
            effective_size: the largest total weight of earlier rows, in rows, for data that change with time; None for
                no limit.
        """
        from .network_learning import online_from_tables

        settings.number("weight", weight, LearningError)
        return online_from_tables(self, weight, power, effective_size)

    def learn_by_layer(self, data: frames.Data, *, together: int = 0, **options: Any) -> list[em.History]:
        """Learn layer after layer from the bottom, as the paper does; then all together for `together` epochs.

        While a layer is learnt the ones below it are frozen and the SISO blocks above it pause, so that nothing
        propagates above its Diverters. The options are those of `learn`, for each layer.
        """
        from .network_learning import learn_by_layer

        self._require("layers", LearningError)
        settings.whole("together", together, 0)
        return learn_by_layer(self, data, together, options)

    # Joint assignments; for all other queries see the class `Queries`

    def most_probable(self, evidence: frames.Data = None, *, names: Collection[Name] | None = None) -> MostProbable:
        """Return the most probable joint states of all variables given evidence (MPE), and their log-probability.

        For one row of plain values the answer has plain labels, for a table it has a column of each.

        Args:
            evidence: see `propagate`.
            names: the variables of that assignment to return; all observed ones unless given. They do not change what
                is maximised: the joint probability of all variables. For the most probable state of one variable,
                summed over the others, take the largest of `posterior`; for a few, of `BayesianNetwork.joint`. If
                unknown variables are left out, a warning says that this is a part of the most probable joint
                assignment, and so does the answer when it is printed.
        """
        given = self._assignments(evidence)
        found = given.likeliest_labels(self._query_names(names), frames.is_one_row(evidence))
        otherwise = () if names is None else self._query_names(None)
        return most_probable(*found, self._assigned_names(given.plan), known_names(given.evidence), otherwise)

    def max_marginals(
        self, evidence: frames.Data = None, *, names: Collection[Name] | None = None
    ) -> dict[str, np.ndarray]:
        """Return, for each state of a variable, the probability of the most probable joint states that contain it.

        Logarithms, (rows, states), by variable; -inf for an impossible state. The largest of each row is the
        log-probability of `most_probable`.

        Args:
            evidence: see `propagate`.
            names: the variables; all observed ones unless given.
        """
        self._require("max-marginals")
        given = self._assignments(evidence)
        asked = self._query_names(names)
        found = given.max_marginals([given.plan.edge(name) for name in asked])
        return dict(zip(asked, found, strict=True))

    def sample(
        self,
        rows: int = 1,
        evidence: frames.Data = None,
        seed: int = 0,
        *,
        names: Collection[Name] | None = None,
    ) -> dict[str, np.ndarray]:
        """Draw rows: the labels of the observed variables, or of those named.

        Without evidence they are drawn along the blocks, causes first (ancestral sampling); with evidence, given it:
        `rows` for each row of the evidence, one after the other.
        """
        settings.whole("rows", rows, 0)
        settings.whole("seed", seed, 0)
        plan, generator = self._plan(), np.random.default_rng(seed)
        edges = {name: plan.edge(name) for name in self._query_names(names)}
        if evidence is None and not plan.is_factor.any():
            codes = self._sampled(plan, rows, generator)[:, list(edges.values())]
        else:
            self._require("samples given evidence")
            codes = self._assignments(evidence).sampled(list(edges.values()), rows, generator)
        return {
            name: labels_of_codes(plan.labels[edge], column)
            for (name, edge), column in zip(edges.items(), codes.T, strict=True)
        }

    def multiplications(self, data: frames.Data, *, direct: bool = False) -> int:
        """Return the number of multiplications for all messages of these rows, by the cascade or the product rule."""
        return self._assignments(data).multiplications(direct)

    # Private helpers, which other kinds of network override

    def _estep(self, engine: engines.Engine, plan: Plan, programs: Programs, **options: Any) -> EStepOf:
        from .conditioned import estep_of_rows

        return partial(estep_of_rows, engine, plan, programs, queried_by=self._queried_by, **options)

    def _structure(self, plan: Plan) -> tuple[object, ...]:
        return (plan,)

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
        return messages.sweep(engine, plan, programs(), self._tables, evidence, kept, threads, parts)

    def _sampled(self, plan: Plan, rows: int, generator: np.random.Generator) -> np.ndarray:
        return sampled(plan, self._tables, rows, generator, {})

    def _estep_for(
        self, engine: engines.Engine, plan: Plan, paused: Collection[str], table: EncodedTable, **options: Any
    ) -> EStepOf:
        """Return the function that builds the E-step over the rows of a table."""

        def over(rows: EncodedTable) -> EStepOf:
            return self._estep(engine, plan, self._programs_for(plan, paused, rows), **options)

        if self.leaves is None:
            return over(table)
        from ..flow.leaf_estep import LeafEStep

        edge, size = plan.edge(self.leaves.variable), self._spec.layout.size
        return partial(LeafEStep, self.leaves, edge, size, lambda rows: cast("RowEStep", over(rows)(rows)))

    def _assignments(self, evidence: frames.Data) -> Assignments:
        """Return the joint assignments given evidence; an error on graphs with loops, where they are not exact."""
        plan = self._plan()
        if not plan.is_tree:
            raise FgrnError("This network has loops, on which only sums of messages are approximated.")
        encoded = self._encode(plan, evidence)
        return Assignments(plan, self._programs_for(plan, (), encoded), self._tables, encoded)
