"""Network: the wired blocks together with their parameters, and what people do with them.

Thin on purpose: wiring is checked in `wiring`, planned in `supervisor`, and every computation is a call into the
flow (evidence -> messages -> marginals -> counts -> parameters).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoints, em, engines, frames, merging, messages, settings
from .conflicts import explained
from .counts import InMemory
from .evidence import Evidence, checked_weights, encode
from .exceptions import FgrnError, ImpossibleEvidence, LearningError, WiringError, unknown_name
from .graph import SISO, Block, Diverter, Factor, Source, line
from .layers import steps
from .marginals import refuse_impossible
from .messages import Messages, Round
from .online import POWER, Decayed, Online, expected
from .parameters import Smoothing, free_parameters, initial
from .plan import Plan
from .queries import Queries
from .schedule import MOST_PROGRAMS, Programs, special_edges
from .supervisor import layers_of, make_plan, specification_of
from .variable import Variable
from .wiring import Wiring

SMALL_WORK = 2e6
"""Below this many table cells visited, the reference engine is done before numba is even loaded."""


class Network(Queries):
    """A discrete Bayesian network as a factor graph in reduced normal form.

    Made of `Source`, `SISO` and `Diverter` blocks that meet at `Variable`s. The wiring is checked at once. Two networks
    are equal if their blocks and their parameters are.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        if isinstance(blocks, (Source, Factor, SISO, Diverter)) or not isinstance(blocks, Iterable):
            raise WiringError(f"A Network is made of a list of blocks. Got {blocks!r} instead.")
        self._wiring = Wiring(tuple(blocks))
        self._spec = specification_of(self._wiring.blocks)
        self._parameters = initial(self._spec)
        self._plans: dict[frozenset[str], Plan] = {}
        self._trained: tuple[dict[str, Any], ...] = ()
        self._work = 0.0  # table cells visited so far, call by call
        self._programs: dict[tuple[frozenset[str], frozenset[int]], Programs] = {}

    # What it is

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks as they were given: starts, not what has been learnt since."""
        return self._wiring.blocks

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, in the order of the blocks."""
        return tuple(self._wiring.variables.values())

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the variables that leave the graph: driven by a block and read by none."""
        return tuple(name for name in self._wiring.variables if name not in self._wiring.readers)

    def variable(self, name: str) -> Variable:
        """A variable by name."""
        try:
            return self._wiring.variables[name]
        except (KeyError, TypeError):
            raise unknown_name("variable", name, self._wiring.variables) from None

    @property
    def is_tree(self) -> bool:
        """Whether there is no loop, so that two sweeps are exact."""
        return self._wiring.is_tree

    @property
    def diameter(self) -> int:
        """The most blocks between two variables: as many parallel rounds bring every message everywhere."""
        return self._wiring.diameter

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The names of tables and priors by layer, the lowest first: what `learn_by_layer` learns together."""
        return layers_of(self._wiring)

    def table(self, name: str) -> np.ndarray:
        """The table of the SISO block with this output, (input states, output states); read-only."""
        return self._spec.layout.table(self._parameters.values, self._spec.layout.table_number(name))

    def prior(self, name: str) -> np.ndarray:
        """The prior of the Source of this variable, (states,); read-only."""
        return self._spec.layout.prior(self._parameters.values, self._spec.layout.prior_number(name))

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """How it was taught: one mapping for each time, with rows, settings and likelihood."""
        return self._trained

    @property
    def free_parameters(self) -> int:
        """How many numbers learning may choose: cells of tables and priors, less one for every row."""
        return free_parameters(self._spec)

    def copy(self) -> Network:
        """A network with the same blocks and parameters, to be taught something else."""
        other = Network(self.blocks)
        other._parameters, other._trained = self._parameters, self._trained
        return other

    def reset(self) -> None:
        """Forget what was learnt: everything as the blocks give it."""
        self._parameters, self._trained = initial(self._spec), ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network) or type(other) is not type(self):
            return NotImplemented
        return self.blocks == other.blocks and self._parameters == other._parameters

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def __getstate__(self) -> tuple[Any, ...]:
        return self.blocks, self._parameters, self._trained

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(state[0])  # type: ignore[misc]
        self._parameters, self._trained = state[1:]

    def __repr__(self) -> str:
        shape = f"tree of diameter {self.diameter}" if self.is_tree else "with loops"
        lines = [f"Network of {len(self.variables)} variables and {len(self.blocks)} blocks, {shape}"]
        lines += [f"  {line(block)}" for block in self.blocks[:40]]
        if len(self.blocks) > 40:
            lines.append(f"  ... {len(self.blocks) - 40:,} more blocks")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The network as notebooks show it: drawn, with its beliefs."""
        from .plots import network
        from .plots.style import as_svg

        return as_svg(network(self))

    # Messages

    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        schedule: str = "auto",
        keep: Collection[str] | None = None,
        parts: Collection[str] = messages.PARTS,
        impossible: str = "raise",
        paused: Collection[str] = (),
        rounds: int | None = None,
        damping: float | None = None,
        tolerance: float = 1e-9,
        engine: str = "auto",
        threads: int | None = None,
    ) -> Messages:
        """All forward and backward messages, marginals and the log-likelihood of every row of evidence.

        Args:
            evidence: a mapping of columns or a dataframe; a variable that is not named is unknown.
            schedule: "sweeps" (two, exact, on a tree), "rounds" (parallel), or "auto": sweeps where they are exact,
                unless rounds or damping are given. On a loop all that comes out, the log-likelihood and what is
                impossible included, is an approximation.
            keep: the variables whose messages to keep; all of them unless given.
            parts: which of "forward", "backward" and "marginal" to keep of each, and whether the "likelihood".
            impossible: "raise" an error that names the rows of probability zero, or "mark" them in `.impossible`.
            paused: outputs of SISO blocks that let no message through.
            rounds: the most parallel rounds; unless given, the diameter of a tree, 500 on a loop.
            damping: how much of the old message stays in a new one; unless given, 0 on a tree and 0.5 on a loop.
            tolerance: on a loop, messages that move by no more than this have come to rest.
            engine: "reference", "cpu", or "auto": the first for a little work, unless the second is loaded already.
                They agree to about 1e-10; name one to have the same bits every time.
            threads: how many threads; all processors unless given. The result does not depend on it.
        """
        settings.choice("schedule", schedule, ("auto", "sweeps", "rounds"))
        settings.choice("impossible", impossible, ("raise", "mark"))
        settings.number("tolerance", tolerance)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        kept = plan.names if keep is None else settings.names("keep", keep)
        for name in kept:
            plan.edge(name)
        kept = tuple(dict.fromkeys(kept))
        ways = tuple(dict.fromkeys(settings.names("parts", parts)))
        for way in ways:
            settings.choice("parts", way, messages.PARTS)
        runner = self._engine(engine, plan, encoded.rows, again=True)
        programs = self._programs_for(plan, paused, encoded)
        if schedule == "sweeps" and not plan.is_tree:
            raise FgrnError('This network has loops, where two sweeps are not enough. Use schedule="rounds".')
        asked_for_rounds = schedule == "auto" and not (rounds is None and damping is None)
        if schedule == "rounds" or asked_for_rounds or not plan.is_tree:
            most, rest = self._round_settings(plan, rounds, damping)
            found = messages.settled(
                runner, plan, programs, self._parameters.values, encoded, most, rest, tolerance,
                exact_after=self._rounds_needed(plan) if plan.is_tree and rest == 0 else None,
            )  # fmt: skip
            found = found.only(kept, ways)
        else:
            found = self._swept(runner, plan, programs, self._parameters.values, encoded, kept, threads, ways)
        if impossible == "raise":
            try:
                refuse_impossible(np.flatnonzero(found.impossible))
            except ImpossibleEvidence as error:
                raise self._explained(error, plan, programs, self._parameters.values, encoded) from None
        return found

    def steps(
        self,
        evidence: frames.Data = None,
        *,
        rounds: int | None = None,
        damping: float | None = None,
        tolerance: float = 1e-12,
        paused: Collection[str] = (),
        engine: str = "reference",
    ) -> Iterator[Round]:
        """Parallel rounds one by one: after each, all messages and which of them changed. Round 0 is the boundary.

        It ends when nothing has changed, or after the most rounds, which are those of `propagate`.
        """
        settings.number("tolerance", tolerance)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        runner = self._engine(engine, plan, encoded.rows)
        programs = self._programs_for(plan, paused, encoded)
        values = self._parameters.values
        most, rest = self._round_settings(plan, rounds, damping)
        exact_after = self._rounds_needed(plan) if plan.is_tree and rest == 0 else None
        yield from messages.stepped(runner, plan, programs, values, encoded, most, rest, tolerance, exact_after)

    # Learning

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
        cycle_tolerance: float = 1e-10,
        hold: bool = True,
        only: Collection[str] | None = None,
        paused: Collection[str] = (),
        engine: str = "auto",
        threads: int | None = None,
        merge: bool | None = None,
        watch: em.Watcher | None = None,
        online: Online | None = None,
        checkpoint: checkpoints.Place = None,
        every: int = checkpoints.EVERY,
        resume: bool = False,
    ) -> em.History:
        """Maximum likelihood by T epochs of K cycles, from the messages at the two ends of every block.

        Learning goes on from the parameters as they are; a table that was not given is drawn from `seed` first.

        Args:
            data: the rows to learn from: labels, codes, distributions and unknown values, on any variable.
            epochs: how often the evidence is presented (T).
            cycles: how often each table is updated on the messages of one epoch (K); 1 is the incremental algorithm.
            smoothing: a Dirichlet count per cell of every table, or a mapping from tables and priors to counts; priors
                are smoothed only if named.
            weights: one weight per row.
            holes: "expect" counts an unknown leaf as the model expects it (the paper); "ignore" leaves it out. Both
                lead to the same tables; the second in fewer epochs where much is missing.
            seed: for the random starts.
            starts: how many starts; the best is kept. The first goes on from the tables as they are; for the others
                every table that is learnt and was not given is drawn anew.
            tolerance: stop when an epoch gains less than this per row.
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

        Names of tables are those of the SISO blocks' outputs or of their tie, names of priors those of the Sources'
        variables. The tables are changed when all is done: an error or an interruption leaves the network as it was.
        """
        settings.choice("holes", holes, ("expect", "ignore"))
        settings.choice("merge", merge, (True, False, None))
        rule = em.Rule(epochs, cycles, tolerance, cycle_tolerance, starts, seed)
        plan = self._plan(paused)
        if not plan.is_tree:
            raise LearningError(
                "This network has loops, where messages are not exact and their counts would not be the expected ones. "
                "Join the variables on the loop in a product-space Diverter, which makes a tree of it."
            )
        if holes == "ignore" and plan.is_factor.any():
            raise LearningError('Only the leaves of a Network can ignore their holes; with Factors use holes="expect".')
        encoded = self._encode(plan, data)
        if not encoded.rows or not encoded.edges():
            raise LearningError("There are no rows to learn from.")
        spec = self._spec if only is None else self._spec.restricted(settings.names("only", only))
        spec = spec.without(paused)
        if not any((*spec.learnt_tables, *spec.learnt_priors)):
            raise LearningError("Nothing here may be learnt: every table and prior is frozen.")
        programs = self._programs_for(plan, paused, encoded)
        rows = InMemory(
            engine=self._engine(engine, plan, encoded.rows * epochs * cycles),
            plan=plan,
            programs=programs,
            evidence=encoded,
            weights=checked_weights(weights, encoded.rows),
            expect=holes == "expect",
            hold=hold,
            threads=threads,
            merge=False if merge is None and rule.epochs * rule.starts < merging.EPOCHS else merge,
        )
        estep = self._estep(rows)
        if online is not None and (rule.starts > 1 or checkpoint is not None):
            raise LearningError("Batches seen once go on from the tables as they are: starts=1, and no checkpoint.")
        batch = None if online is None else Decayed(estep, online)
        smooth = Smoothing.of(spec, smoothing)
        with checkpoints.kept(
            checkpoint, every, resume, self, self._structure(plan), spec, encoded, rows.weights, rule,
            smoothing=smoothing, holes=holes, hold=hold, engine=rows.engine.name, merge=rows.merge,
        ) as keeper:  # fmt: skip
            try:
                learnt = em.learn(batch or estep, spec, self._parameters, rule, smooth, watch, keeper)
            except ImpossibleEvidence as error:
                raise self._explained(error, plan, programs, estep.last_values, encoded) from None
        self._parameters, history = learnt
        if batch is not None:
            batch.close()
        self._trained += (em.record(history, encoded.rows, rule, smoothing, holes),)
        return history

    def online(self, weight: float = 0.0, power: float = POWER) -> Online:
        """What to pass to `learn` with every batch of rows that are seen once; see `Online` for the rule.

        Args:
            weight: how many rows the tables as they are stand for; 0 if the first batch is to begin anew.
            power: of the step by which old counts are forgotten, from 0.5 to 1.
        """
        settings.number("weight", weight, LearningError)
        if not weight:
            return Online(power)
        plan, values = self._plan(()), self._parameters.values
        alone = self.propagate(None, parts=["marginal"])
        running = expected(plan, values, [alone.marginal(name)[0] for name in plan.names])
        return Online(power, 1, weight, running)

    def learn_by_layer(self, data: frames.Data, *, together: int = 0, **options: Any) -> list[em.History]:
        """Learn layer after layer from the bottom, as the paper does; then all together for `together` epochs.

        While a layer is learnt the ones below it are frozen and the SISO blocks above it pause, so that nothing
        propagates above its Diverters. The options are those of `learn`, for each layer.
        """
        for name in ("only", "paused"):
            if name in options:
                raise LearningError(f"The layers decide what is {name!r}; leave it out, or use learn.")
        settings.whole("together", together, 0)
        before = self._parameters, self._trained
        kept = {name: options.pop(name) for name in ("checkpoint", "every", "resume") if name in options}
        try:
            with checkpoints.opened(**{"checkpoint": None, **kept}) as options["checkpoint"]:
                layers = steps(self._spec, self.layers)
                histories = [self.learn(data, only=layer, paused=above, **options) for layer, above in layers]
                if together:
                    histories.append(self.learn(data, **{**options, "epochs": together, "starts": 1}))
        except BaseException:
            self._parameters, self._trained = before
            raise
        return histories

    # What it is for: see also `Queries`

    def save(self, path: str | Path) -> None:
        """Write the network to a model file (`.fgrn`); `fgrn.load` reads it back."""
        from .io.model_file import save

        save(self, path)

    # Behind the scenes: what a network of another kind does in its own way

    def _encode(self, plan: Plan, data: frames.Data) -> Evidence:
        encoded, scale = encode(plan, data), self._wiring.log_scale
        return replace(encoded, log_scale=encoded.log_scale + scale) if scale else encoded

    def _estep(self, rows: InMemory) -> em.EStep:
        return rows

    def _structure(self, plan: Plan) -> tuple[object, ...]:
        return (plan,)

    _swept = staticmethod(messages.sweep)
    _explained = staticmethod(explained)

    # Behind the scenes

    def _plan(self, paused: Collection[str]) -> Plan:
        for name in settings.names("paused", paused):
            self._spec.layout.table_number(name)
            driver = self._wiring.drivers.get(name)
            if driver is not None and not isinstance(self._wiring.blocks[driver], SISO):
                raise FgrnError(f"{name!r} is not the output of a SISO block, and only those can pause.")
        key = frozenset(paused)
        if key not in self._plans:
            self._plans[key] = make_plan(self._wiring, key)
        return self._plans[key]

    def _programs_for(self, plan: Plan, paused: Collection[str], evidence: Evidence) -> Programs:
        key = (frozenset(paused), special_edges(plan, evidence.edges(), evidence.soft_edges()))
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            self._programs[key] = Programs(plan, key[1])
        return self._programs[key]

    def _engine(self, name: str, plan: Plan, rows: int, again: bool = False) -> engines.Engine:
        """The engine of a name; "auto" goes by the work, and, if it is asked `again` and again, by all of it."""
        if name == "auto":
            work = rows * plan.work
            self._work += work if again else 0
            much = work >= SMALL_WORK or (again and (self._work >= SMALL_WORK / 10 or engines.is_warm()))
            name = "cpu" if much else "reference"
        return engines.get(name)

    def _rounds_needed(self, plan: Plan) -> int:
        """The diameter; where blocks pause the pieces may be longer than the whole was."""
        return self.diameter if plan is self._plans.get(frozenset()) else plan.reach

    def _round_settings(self, plan: Plan, rounds: int | None, damping: float | None) -> tuple[int, float]:
        rest = (0.0 if plan.is_tree else 0.5) if damping is None else damping
        settings.number("damping", rest, below=1)
        if rounds is None:
            return (self._rounds_needed(plan) if plan.is_tree and rest == 0 else 500), rest
        settings.whole("rounds", rounds, 0)
        return rounds, rest
