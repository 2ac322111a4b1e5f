"""How a network is taught: from rows to the one learning loop, and back to its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core import settings
from ..core.exceptions import ImpossibleEvidence, LearningError
from ..core.settings import Name
from ..flow import em
from ..flow.counts import InMemory
from ..flow.evidence import checked_weights
from ..flow.online import POWER, Decayed, Online, expected, without_smoothing
from ..flow.parameters import Parameters, Smoothing, Specification
from ..tables import frames
from ..tables.encoded import Evidence, Spread
from . import checkpoints, execution
from .encoding import located, recorded
from .layers import steps

if TYPE_CHECKING:
    from ..core.variable import Variable
    from ..flow.messages import Messages
    from ..plan.plan import Plan
    from ..plan.schedule import Programs


class Learning:
    """What teaches a network; it has a plan, parameters, and the rest that is named here."""

    _spec: Specification
    _parameters: Parameters
    _trained: tuple[dict[str, Any], ...]
    _counted: tuple[Parameters, Online] | None  # in batches, and the tables that were made of it

    propagate: Callable[..., Messages]
    variable: Callable[[Name], Variable]
    _plan: Callable[[Collection[str]], Plan]
    _encode: Callable[[Plan, frames.Data], Evidence]
    _programs_for: Callable[[Plan, Collection[str], Evidence], Programs]
    _estep: Callable[[InMemory], em.EStep]
    _structure: Callable[[Plan], Any]
    _explained: Callable[..., ImpossibleEvidence]

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The names of tables and priors by layer, the lowest first."""
        raise NotImplementedError

    def learn(
        self,
        data: frames.Data,
        epochs: int = 20,
        cycles: int = 1,
        smoothing: float | Mapping[str, float] = 0.0,
        weights: Any = None,
        holes: str = "expect",
        seed: int = 0,
        *,
        starts: int = 1,
        tolerance: float = 0.0,
        accelerate: bool = False,
        cycle_tolerance: float = 1e-10,
        hold: bool = True,
        only: Collection[Name] | None = None,
        paused: Collection[Name] = (),
        engine: str = "auto",
        threads: int | None = None,
        merge: bool | None = None,
        watch: em.Watcher | None = None,
        online: Online | None = None,
        checkpoint: checkpoints.Place = None,
        every: int = checkpoints.EVERY,
        resume: bool = False,
        executor: Any = None,
    ) -> em.History:
        """Maximum likelihood by T epochs of K cycles, from the messages at the two ends of every block.

        Learning goes on from the parameters as they are; a table that was not given is drawn from `seed` first.

        Args:
            data: the rows to learn from: labels, codes, distributions and unknown values, on any variable. Also what
                is not in memory: a path, a glob, a dataset of Arrow, batches of rows, or a `Stream`.
            epochs: how often the evidence is presented (T).
            cycles: how often each table is updated on the messages of one epoch (K); 1 is the incremental algorithm.
            smoothing: a Dirichlet count per cell of every table, or a mapping from tables and priors to counts; priors
                are smoothed only if named.
            weights: one weight per row; the name of a column where `data` is not in memory.
            holes: "expect" counts an unknown leaf as the model expects it (the paper); "ignore" leaves it out. Both
                lead to the same tables; the second in fewer epochs where much is missing.
            seed: for the random starts.
            starts: how many starts; the best is kept. The first goes on from the tables as they are; for the others
                every table that is learnt and was not given is drawn anew.
            tolerance: stop when an epoch, or a round of three with `accelerate`, gains no more than this per row in the
                log-likelihood with the logarithm of the smoothing prior. 0 runs all epochs.
            accelerate: extrapolate the steps of EM (SQUAREM, see `fgrn.flow.acceleration`): several times fewer epochs
                where plain EM is slow. The objective never falls. For cycles=1.
            cycle_tolerance: a table that moves by no more than this in a cycle is left alone until the next epoch.
            hold: keep the messages from cycle to cycle (the paper), or make them again in constant memory.
            only: the tables and priors to learn, all others frozen.
            paused: outputs of SISO blocks that let no message through.
            engine: "reference", "cpu", or "auto".
            threads: how many threads; all processors unless given. The result does not depend on it.
            merge: count equal rows once, with their weight (True) or one by one (False); unless given, what pays.
            watch: called after every epoch with (start, epoch, log-likelihood per row); learning ends, and keeps what
                it has, when it returns True.
            online: what was counted in earlier batches, see `Network.online`; these rows are the next batch.
            checkpoint: a file to keep how far learning has come in, `every` so many epochs; see `Checkpoint`.
            every: how many epochs are between two checkpoints.
            resume: go on from the checkpoint, if it is there, to the same tables, bit for bit, as without interruption.
                There may be more epochs and starts than before; `engine` and `merge` stay as they were unless given.
            executor: a client of dask.distributed, whose workers keep the rows and count them. The data is then a Dask
                dataframe, or Parquet files that every worker can read; the result is the same.

        Names of tables are those of the SISO blocks' outputs or of their tie, names of priors those of the Sources'
        variables. The tables are changed when all is done: an error or an interruption leaves the network as it was.
        """
        smoothing = settings.by_name(smoothing, self.variable) if isinstance(smoothing, Mapping) else smoothing
        settings.choice("holes", holes, ("expect", "ignore"))
        settings.choice("merge", merge, (True, False, None))
        rule = em.Rule(epochs, cycles, tolerance, cycle_tolerance, starts, seed, accelerate)
        paused = settings.variable_names("paused", paused, own=self.variable)
        plan = self._plan(paused)
        if not plan.is_tree:
            raise LearningError(
                "This network has loops, where messages are not exact and their counts would not be the expected ones. "
                "Join the variables on the loop in a product-space Diverter, which makes a tree of it."
            )
        if holes == "ignore" and plan.is_factor.any():
            raise LearningError('Only the leaves of a Network can ignore their holes; with Factors use holes="expect".')
        data, weights = recorded(plan, data, weights, executor)
        encoded = self._encode(plan, data)
        if not encoded.rows or not encoded.edges():
            raise LearningError("There are no rows to learn from.")
        spec = (
            self._spec
            if only is None
            else self._spec.restricted(settings.variable_names("only", only, own=self.variable))
        )
        spec = spec.without(paused)
        if not any((*spec.learnt_tables, *spec.learnt_priors)):
            raise LearningError("Nothing here may be learnt: every table and prior is frozen.")
        programs = self._programs_for(plan, paused, encoded)
        if online is not None and (rule.starts > 1 or rule.accelerate or checkpoint is not None):
            raise LearningError(
                "Batches seen once go on from the tables as they are: starts=1, accelerate=False, and no checkpoint."
            )
        smooth = Smoothing.of(spec, smoothing)
        with checkpoints.kept(checkpoint, every, resume) as journal:
            engine, merge = checkpoints.as_begun(journal, encoded, engine, merge)
            rows = InMemory(
                engine=execution.engine_for(engine, plan, encoded.rows * epochs * cycles),
                plan=plan,
                programs=programs,
                evidence=encoded,
                weights=checked_weights(weights, encoded.rows),
                expect=holes == "expect",
                hold=hold and encoded.in_memory,
                threads=threads,
                merge=execution.merging(merge, rule, encoded),
            )
            if isinstance(data, Spread):  # errors are told where they are found
                estep = data.estep(rows, plan)
            else:
                estep = em.Explained(
                    self._estep(rows),
                    lambda error, values: located(self._explained(error, plan, programs, values, encoded), data),
                )
            batch = None if online is None else Decayed(estep, online)
            keeper = None if journal is None else journal.keeper(
                self, self._structure(plan), spec, checkpoints.of_table(data, encoded, rows.weights), rule,
                smoothing=smoothing, holes=holes, hold=hold, engine=rows.engine.name, merge=rows.merge,
            )  # fmt: skip
            at_once = execution.starts_at_once(estep.method, rule, watch)
            learn = partial(em.learn, batch or estep, spec, self._parameters, rule, smooth, watch, keeper, at_once)
            learnt = learn() if keeper is None else keeper.finished(learn)
        self._parameters, history = learnt
        if batch is not None:
            batch.close()
        self._counted = None if online is None else (self._parameters, replace(online))
        how = execution.Execution.of(rows.engine.name, estep.method, encoded.rows, at_once)
        history = replace(history, execution=str(how))
        run = {"engine": rows.engine.name, "merge": rows.merge, "kernel": how.kernel}
        self._trained += (em.training_record(history, encoded.rows, rule, smoothing, holes, run),)
        return history

    def online(self, weight: float = 0.0, power: float = POWER, effective_size: float | None = None) -> Online:
        """What to pass to `learn` with every batch of rows that are seen once; see `Online` for the rule.

        To go on where the last batch ended, also after `fgrn.load`, pass `online_state` instead.

        Args:
            weight: how many rows the tables as they are stand for, without the smoothing of the last time of learning,
                which is not counted twice; 0 if the first batch is to begin anew.
            power: of the step by which old counts are forgotten, from 0.5 to 1.
            effective_size: how many rows of today those before stand for, at most, where what is learnt changes with
                time; None if it does not.
        """
        settings.number("weight", weight, LearningError)
        if not weight:
            return Online(power, effective_size)
        plan, values = self._plan(()), self._parameters.values
        alone = self.propagate(None, parts=["marginal"], engine="reference")  # the same bits every time
        running = expected(plan, values, [alone.marginal(name)[0] for name in plan.names])
        if self._trained:
            last = self._trained[-1]
            rows = weight if effective_size is None else min(weight, last.get("weight", 0.0) + effective_size)
            smoothing = Smoothing.of(self._spec, last.get("smoothing", 0.0))
            running = without_smoothing(plan.layout, values, running, smoothing, rows)
        return Online(power, effective_size, 1, weight, running)

    @property
    def online_state(self) -> Online | None:
        """What was counted in batches, if the tables were made of it: a copy, to go on with in `learn(online=)`.

        It is saved with the network. None after any other way of learning.
        """
        if self._counted is None or self._counted[0] is not self._parameters:
            return None
        return replace(self._counted[1])

    def learn_by_layer(self, data: frames.Data, *, together: int = 0, **options: Any) -> list[em.History]:
        """Learn layer after layer from the bottom, as the paper does; then all together for `together` epochs.

        While a layer is learnt the ones below it are frozen and the SISO blocks above it pause, so that nothing
        propagates above its Diverters. The options are those of `learn`, for each layer.
        """
        for name in ("only", "paused"):
            if name in options:
                raise LearningError(f"The layers decide what is {name!r}; leave it out, or use learn.")
        settings.whole("together", together, 0)
        before = self._parameters, self._trained, self._counted
        kept = {name: options.pop(name) for name in ("checkpoint", "every", "resume") if name in options}
        try:
            with checkpoints.opened(**{"checkpoint": None, **kept}) as options["checkpoint"]:
                layers = steps(self._spec, self.layers)
                given = options.get("weights"), options.pop("executor", None)
                data, options["weights"] = recorded(self._plan(()), data, *given)
                histories = [self.learn(data, only=layer, paused=above, **options) for layer, above in layers]
                if together:
                    histories.append(self.learn(data, **{**options, "epochs": together, "starts": 1}))
        except BaseException:
            self._parameters, self._trained, self._counted = before
            raise
        return histories
