"""Rows of sequences in the step network of a dynamic network: their messages and expected counts (E-step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.exceptions import ImpossibleEvidence, WiringError
from ..core.printing import memory_size
from ..engines import Engine
from ..flow.counts import CountingMethod, Counts, LocalEStep
from ..flow.esteps import IN_ORDER, Cannot
from ..flow.marginals import REMEDIES, refuse_impossible
from ..flow.messages import Messages
from ..graph.blocks import Factor
from ..graph.network import Network
from ..tables.encoded import SOFT, Evidence
from .bayesian import BayesianNetwork
from .clique_memory import MEMORY_SHARE, machine_memory
from .slice_scan import SliceSteps
from .slices import SliceStructure

BYTES_PER_CELL = 64
"""Bytes for each pair of joint states before and after a slice in each distinct row: its step, and copies."""


def refuse_impossible_slices(impossible: np.ndarray) -> None:
    """Raise an error that names the rows that are impossible given the rows before them."""
    refuse_impossible(impossible, (*REMEDIES[:2], "see which rows these are: log_likelihood(data) is -inf there"))


@dataclass(frozen=True, eq=False)
class SliceRows:
    """Encoded rows of sequences, with the step network that models them."""

    structure: SliceStructure
    model: BayesianNetwork
    evidence: Evidence

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """A row of each kind, and the kind of each row; all rows differ if some have distributions."""
        if self.evidence.soft.shape[1]:
            each = np.arange(self.evidence.rows)
            return each, each
        if not self.evidence.codes.shape[1]:
            return np.zeros(min(1, self.evidence.rows), dtype=np.int64), np.zeros(self.evidence.rows, dtype=np.int64)
        _, first, which = np.unique(self.evidence.codes, axis=0, return_index=True, return_inverse=True)
        return first, which.ravel()

    def _pair_network(self) -> tuple[Network, str]:
        """The network with `past` and `next` in one clique, and the name of the edge that carries both."""
        network = self.model._tree_network((self.structure.names[0], *self.structure.now))
        joint = self.model._joint_name()
        name = next(one.variable.name for one in network.blocks if isinstance(one, Factor) and one.name == joint)
        return network, name

    def _shape(self) -> tuple[int, int]:
        return len(self.structure.past), len(self.structure.handed_on)

    def _kinds(self) -> tuple[Evidence, np.ndarray]:
        first, which = self._distinct
        needed = BYTES_PER_CELL * float(len(first)) * self._shape()[0] * self._shape()[1]
        limit = MEMORY_SHARE * machine_memory()
        if needed > limit:
            raise WiringError(
                f"The steps of {len(first):,} distinct rows with {self._shape()[0]:,} joint states of earlier slices "
                f"take about {memory_size(needed)}, and the limit is {memory_size(limit)}.",
                remedies=("give fewer sequences at a time", "link fewer variables"),
            )
        return self.evidence.take(first), which

    def _steps(self, steps: np.ndarray, logs: np.ndarray, which: np.ndarray, nothing: float) -> SliceSteps:
        states, places = self._shape(), self.structure.next_places
        whole = steps.reshape(len(steps), states[0], steps.shape[1] // states[0])
        found = whole[:, :, np.maximum(places, 0)]
        found[:, :, places < 0] = nothing  # states that no slice hands on
        return SliceSteps(
            self.evidence.begins,
            which,
            found,
            logs + np.log(states[0]),  # the past has a uniform prior in the step network
            self.structure.handed_on,
            states[0] - 1,
        )

    def steps(self) -> SliceSteps:
        """Return P(next, evidence | past) of each row."""
        rows, which = self._kinds()
        network, name = self._pair_network()
        found = network.propagate(rows, keep=[name], parts=["marginal", "likelihood"], impossible="mark")
        logs = found.log_likelihood
        return self._steps(np.array(found.marginal(name)), np.where(np.isneginf(logs), 0.0, logs), which, 0.0)

    def largest_steps(self) -> SliceSteps:
        """Return the logarithm of the maximum over other variables of P(next, others, evidence | past) of each row."""
        rows, which = self._kinds()
        network, name = self._pair_network()
        try:
            found = network.max_marginals(rows, names=[name])[name]
        except ImpossibleEvidence as error:
            refuse_impossible_slices(np.flatnonzero(np.isin(which, list(error.rows))))
            raise
        return self._steps(found, np.zeros(len(found)), which, -np.inf)

    def with_messages(self) -> tuple[Evidence, np.ndarray, np.ndarray]:
        """Return the rows with distributions on `past` and `next`, and views to write them to."""
        evidence, model = self.evidence, self.model
        edges = [model.index[name] for name in self.structure.names]
        widths = list(self._shape())
        soft = np.concatenate([evidence.soft, np.ones((evidence.rows, sum(widths)))], axis=1)
        slot, offset, codes = evidence.slot.copy(), evidence.soft_offset.copy(), evidence.codes
        columns = list(evidence.columns)
        begin = evidence.soft.shape[1]
        for edge, width in zip(edges, widths, strict=True):
            if slot[edge] < 0:
                slot[edge] = codes.shape[1]
                codes = np.concatenate([codes, np.empty((evidence.rows, 1), dtype=codes.dtype)], axis=1)
                columns.append(model.names[edge])
            offset[edge] = begin
            begin += width
        codes = np.asfortranarray(codes.copy())
        codes[:, slot[edges]] = SOFT
        found = Evidence(
            codes, soft, slot, offset, np.zeros(evidence.rows), row_weights=evidence.row_weights,
            columns=tuple(columns),
        )  # fmt: skip
        return found, soft[:, -sum(widths) : -widths[1]], soft[:, -widths[1] :]

    @cached_property
    def own_next(self) -> np.ndarray | float:
        """Return the evidence of each row on its `next`."""
        edge = self.model.index[self.structure.names[1]]
        if self.evidence.slot[edge] < 0:
            return 1.0
        return self.evidence.weights(edge, self._shape()[1])

    def write_messages(self, past: np.ndarray, after: np.ndarray | float, to: Sequence[np.ndarray]) -> None:
        """Write messages to the views of `with_messages`; each sums to one."""
        to[0][...] = past
        to[1][...] = self.own_next * after
        to[1][...] /= np.maximum(to[1].sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)

    def marginals(self, past: np.ndarray, after: np.ndarray | float, keep: Sequence[str]) -> Messages:
        """Return the marginals of the slice of each row, given messages from earlier and later slices."""
        evidence, *views = self.with_messages()
        self.write_messages(past, after, views)
        return self.model._tree_network().propagate(evidence, keep=keep, parts=["marginal"], impossible="mark")


@dataclass(frozen=True, eq=False)
class SliceEStep:
    """The E-step over sequences of slices: forward and backward along them, then each slice by itself."""

    rows: SliceRows
    engine: Engine
    threads: int | None = None

    cycles = Cannot("a dynamic network is swept once an epoch")
    batches = IN_ORDER

    @cached_property
    def _inner(self) -> tuple[LocalEStep, np.ndarray, np.ndarray]:
        evidence, *views = self.rows.with_messages()
        network = self.rows.model._tree_network()
        plan = network._plan()
        evidence = evidence.numbered_by(plan)
        programs = network._programs_for(plan, (), evidence)
        return (
            LocalEStep(self.engine, plan, programs, evidence, True, threads=self.threads, merge=False),
            views[0],
            views[1],
        )

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        inner = self._inner[0].method
        return inner._replace(kernel=f"scan of slices and {inner.kernel}", shareable=False)

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        model = self.rows.model
        model._parameters = replace(model._parameters, values=np.asarray(values))
        steps = self.rows.steps()
        past, _, likelihood = steps.forward()
        refuse_impossible_slices(np.flatnonzero(np.isneginf(likelihood)))
        estep, *views = self._inner
        self.rows.write_messages(past, steps.backward(), views)
        counts = estep.count(np.asarray(values))
        weights = self.rows.evidence.row_weights
        return Counts(counts.values, float((weights * likelihood).sum()), counts.weight)
