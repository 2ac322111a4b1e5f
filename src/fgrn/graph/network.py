"""Network: the wired blocks together with their parameters, and what people do with them.

Thin on purpose: wiring is checked in `wiring`, planned in `supervisor`, and every computation is a call into the
flow (evidence -> messages -> marginals -> counts -> parameters).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, ImpossibleEvidence, WiringError, counted, unknown_name, visible
from ..core.settings import Name
from ..core.variable import Variable
from ..flow import em, messages
from ..flow.conflicts import explained
from ..flow.counts import InMemory
from ..flow.evidence import encode
from ..flow.marginals import refuse_impossible
from ..flow.messages import Messages, Round
from ..flow.parameters import free_parameters, initial
from ..learning.execution import engine_for
from ..learning.learn import Learning
from ..plan.plan import Plan
from ..plan.schedule import MOST_PROGRAMS, Programs, special_edges
from ..queries.questions import Queries
from ..tables import frames
from ..tables.encoded import Evidence
from .blocks import SISO, Block, Diverter, Factor, Source, line
from .supervisor import layers_of, make_plan, specification_of
from .wiring import Wiring


class Network(Learning, Queries):
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
        self._counted = None
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

    def variable(self, name: Name) -> Variable:
        """A variable by name."""
        try:
            found = self._wiring.variables[settings.name_of(name)]
        except (KeyError, TypeError):
            raise unknown_name("variable", name, self._wiring.variables) from None
        settings.check_states(name, found.labels)
        return found

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

    def table(self, name: Name) -> np.ndarray:
        """The table of the SISO block with this output, (input states, output states); read-only."""
        return self._spec.layout.table(
            self._parameters.values, self._spec.layout.table_number(settings.name_of(name, self.variable))
        )

    def prior(self, name: Name) -> np.ndarray:
        """The prior of the Source of this variable, (states,); read-only."""
        return self._spec.layout.prior(
            self._parameters.values, self._spec.layout.prior_number(settings.name_of(name, self.variable))
        )

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """How it was taught: one mapping for each time, with rows, settings, likelihood, and how it was run.

        "engine" and "merge" are those that were chosen where they were not given, "kernel" is the way the engine took.
        A merge of None found out whether it pays to count equal rows once; an engine of None is that of a table without
        missing values, whose rows are counted without one.
        """
        return self._trained

    @property
    def free_parameters(self) -> int:
        """How many numbers learning may choose: cells of tables and priors, less one for every row."""
        return free_parameters(self._spec)

    def copy(self) -> Network:
        """A network with the same blocks and parameters, to be taught something else."""
        other = Network(self.blocks)
        other._parameters, other._trained, other._counted = self._parameters, self._trained, self._counted
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
        return self.blocks, self._parameters, self._trained, self._counted

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(state[0])  # type: ignore[misc]
        self._parameters, self._trained, self._counted = state[1:]

    def __repr__(self) -> str:
        shape = f"tree of diameter {self.diameter}" if self.is_tree else "with loops"
        lines = [
            f"Network of {counted(len(self.variables), 'variable')} and {counted(len(self.blocks), 'block')}, {shape}"
        ]
        lines += [f"  {line(block)}" for block in self.blocks[:40]]
        if len(self.blocks) > 40:
            lines.append(f"  ... {counted(len(self.blocks) - 40, 'more block')}")
        return "\n".join(map(visible, lines))

    def _repr_html_(self) -> str:
        """The network as notebooks show it: drawn, with its beliefs."""
        from ..plots import network
        from ..plots.style import as_svg

        return as_svg(network(self))

    # Messages

    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        schedule: str = "auto",
        keep: Collection[Name] | None = None,
        parts: Collection[str] = messages.PARTS,
        impossible: str = "raise",
        paused: Collection[Name] = (),
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
            engine: "reference", "cpu" (compiled; see `fgrn.warm`), or "auto": the first for a little work, the second
                for more. They agree to about 1e-10. Which one it is depends on the network and the number of rows
                alone: the same call gives the same bits.
            threads: how many threads; all processors unless given. The result does not depend on it.
        """
        settings.choice("schedule", schedule, ("auto", "sweeps", "rounds"))
        settings.choice("impossible", impossible, ("raise", "mark"))
        settings.number("tolerance", tolerance)
        paused = settings.variable_names("paused", paused, own=self.variable)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        kept = plan.names if keep is None else settings.variable_names("keep", keep, own=self.variable)
        for name in kept:
            plan.edge(name)
        kept = tuple(dict.fromkeys(kept))
        ways = tuple(dict.fromkeys(settings.variable_names("parts", parts)))
        for way in ways:
            settings.choice("parts", way, messages.PARTS)
        runner = engine_for(engine, plan, encoded.rows)
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
        paused: Collection[Name] = (),
        engine: str = "reference",
    ) -> Iterator[Round]:
        """Parallel rounds one by one: after each, all messages and which of them changed. Round 0 is the boundary.

        It ends when nothing has changed, or after the most rounds, which are those of `propagate`.
        """
        settings.number("tolerance", tolerance)
        paused = settings.variable_names("paused", paused, own=self.variable)
        plan = self._plan(paused)
        encoded = self._encode(plan, evidence)
        runner = engine_for(engine, plan, encoded.rows)
        programs = self._programs_for(plan, paused, encoded)
        values = self._parameters.values
        most, rest = self._round_settings(plan, rounds, damping)
        exact_after = self._rounds_needed(plan) if plan.is_tree and rest == 0 else None
        yield from messages.stepped(runner, plan, programs, values, encoded, most, rest, tolerance, exact_after)

    # What it is for: see also `Learning` and `Queries`

    def save(self, path: str | Path) -> None:
        """Write the network to a model file (`.fgrn`); `fgrn.load` reads it back."""
        from ..files.model_file import save

        save(self, path)

    # Behind the scenes: what a network of another kind does in its own way

    def _encode(self, plan: Plan, data: frames.Data) -> Evidence:
        encoded, scale = encode(plan, data), self._wiring.log_scale
        return encoded.scaled(scale) if scale else encoded

    def _estep(self, rows: InMemory) -> em.EStep:
        return rows

    def _structure(self, plan: Plan) -> tuple[object, ...]:
        return (plan,)

    _swept = staticmethod(messages.sweep)
    _explained = staticmethod(explained)

    # Behind the scenes

    def _plan(self, paused: Collection[str]) -> Plan:
        for name in paused:
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
