"""The log messages of a block of rows while a program runs, with a function for each kind of step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from .protocol import BACKWARD, DIVERT, FORWARD, SOURCE, Buffers
from .scans import distribution, logarithm

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence
    from .reference import Reference


class State:
    """The log messages of a block of rows while a program runs; parallel rounds read those of the round `before`."""

    def __init__(
        self,
        engine: Reference,
        plan: Plan,
        values: np.ndarray,
        evidence: Evidence,
        before: Buffers | None = None,
    ) -> None:
        self.engine, self.plan, self.values, self.evidence = engine, plan, values, evidence
        rows = evidence.rows
        self.forward = np.zeros((rows, plan.states))
        self.backward = np.zeros((rows, plan.states))
        self.known_forward = np.zeros((rows, plan.edges), dtype=bool)
        self.known_backward = np.zeros((rows, plan.edges), dtype=bool)
        self.soft = {e: logarithm(evidence.weights(e, int(plan.cardinality[e]))) for e in self._edges_with_evidence()}
        for start in np.flatnonzero(~plan.driver).tolist():
            self.forward[:, plan.columns(start)] = -np.log(plan.cardinality[start])
        if before is None:
            self.old_forward, self.old_backward = self.forward, self.backward
            self.old_known_forward, self.old_known_backward = self.known_forward, self.known_backward
        else:
            self.old_forward = logarithm(before.forward)
            self.old_backward = logarithm(before.backward)
            for edge in range(plan.edges):  # an unknown backward message stands for ones
                self.old_backward[~before.known_backward[:, edge], plan.columns(edge)] = 0
            self.old_known_forward, self.old_known_backward = before.known_forward, before.known_backward

    def _edges_with_evidence(self) -> list[int]:
        return [int(edge) for edge in np.flatnonzero(self.evidence.slot >= 0)]

    def run(self, program: Program) -> None:
        """Run all steps of the program."""
        for edge in program.boundary:
            # a sum over all states of something unknown is one; the largest of them has to be found
            self._write_backward(int(edge), 0.0, np.full(self.evidence.rows, self.engine.largest))
        for kind, block, first, last in program.steps.tolist():
            STEPS[kind](self, block, program.targets[first:last].tolist(), program.gathered)

    def into_reader(self, edge: int) -> np.ndarray:
        """Return the message to the block that reads an edge: forward times the evidence on it."""
        message = self.old_forward[:, self.plan.columns(edge)]
        if edge in self.soft:
            self._count(self.plan.cardinality[edge], self.evidence.has_evidence(edge))
            message = message + self.soft[edge]
        return message

    def belief(self, edge: int) -> np.ndarray:
        """Return the logarithm of forward times backward of an edge."""
        columns = self.plan.columns(edge)
        out: np.ndarray = self.forward[:, columns] + self.backward[:, columns]
        return out

    def log_likelihood(self, program: Program) -> np.ndarray:
        """Return the log-likelihood of each row, from its roots."""
        total = np.zeros(self.evidence.rows)
        for edge in program.roots[:, 0]:
            total += self.engine.total(self.belief(int(edge)), axis=1)
        return total

    def buffers(self, program: Program, log_likelihood: np.ndarray) -> Buffers:
        """Return the messages that a program shows, each summing to one."""
        columns = [self.plan.columns(int(edge)) for edge in program.shown]
        parts = []
        for messages in (self.forward, self.backward, self.forward + self.backward):
            shown = [distribution(messages[:, place]) for place in columns]
            parts.append(np.concatenate(shown, axis=1) if shown else np.zeros((self.evidence.rows, 0)))
        forward, backward, marginal = parts
        return Buffers(forward, backward, marginal, self.known_forward, self.known_backward, log_likelihood)

    def _count(self, size: int, rows: np.ndarray) -> None:
        self.engine.multiplications += int(size) * int(np.count_nonzero(rows))

    def _write_backward(self, edge: int, message: np.ndarray | float, known: np.ndarray) -> None:
        columns = self.plan.columns(edge)
        self.backward[:, columns] = message
        self.known_backward[:, edge] = known
        if edge in self.soft:
            self.backward[:, columns] += self.soft[edge]
            self.known_backward[:, edge] |= self.evidence.has_evidence(edge)

    def table(self, siso: int) -> np.ndarray:
        """Return the logarithms of the table of a SISO."""
        return logarithm(self.plan.layout.table(self.values, int(self.plan.siso_table[siso])))

    def _source(self, source: int) -> None:
        edge = int(self.plan.source_edge[source])
        self.forward[:, self.plan.columns(edge)] = logarithm(self.plan.source_values(self.values, source))
        self.known_forward[:, edge] = self.plan.is_factor[source]

    def _siso_forward(self, siso: int) -> None:
        source, target = int(self.plan.siso_input[siso]), int(self.plan.siso_output[siso])
        table, message = self.table(siso), self.into_reader(source)
        self._count(table.size, np.ones(self.evidence.rows))
        self.forward[:, self.plan.columns(target)] = self.engine.total(message[:, :, None] + table[None], axis=1)
        self.known_forward[:, target] = self.old_known_forward[:, source] | self.evidence.has_evidence(source)

    def _siso_backward(self, siso: int) -> None:
        self._write_backward(int(self.plan.siso_input[siso]), *self._to_input(siso))

    def _to_input(self, siso: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute the message to the input of a SISO; ones in rows without evidence on the output's side."""
        output = int(self.plan.siso_output[siso])
        table = self.table(siso)
        known = self.old_known_backward[:, output]
        message = np.zeros((self.evidence.rows, len(table)))
        beyond = self.old_backward[known, self.plan.columns(output)]
        self._count(table.size, known)
        message[known] = self.engine.total(beyond[:, None, :] + table[None], axis=2)
        return message, known

    def incoming(self, diverter: int, gathered: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Yield the message of each leg into a Diverter, over its product space; `gathered` leaves from tables."""
        for leg in self.plan.legs(diverter):
            edge, index = int(self.plan.leg_edge[leg]), self.plan.leg_index(diverter, leg)
            if self.plan.leg_is_input[leg]:
                message = self.into_reader(edge)
            elif gathered is not None and gathered[leg] >= 0:
                message, self.old_known_backward[:, edge] = self._leaf(int(gathered[leg]))
            else:
                message = self.old_backward[:, self.plan.columns(edge)]
            yield message if index is None else message[:, index]

    def _divert(self, diverter: int, targets: list[int], gathered: np.ndarray) -> None:
        legs = list(self.plan.legs(diverter))
        incoming = list(self.incoming(diverter, gathered))
        known, carries = [], []
        for leg in legs:
            edge = int(self.plan.leg_edge[leg])
            if self.plan.leg_is_input[leg]:
                known.append(self.old_known_forward[:, edge] | self.evidence.has_evidence(edge))
                carries.append(np.ones(self.evidence.rows, dtype=bool))
            else:
                known.append(self.old_known_backward[:, edge].copy())
                carries.append(known[-1])
        positions = [leg - legs[0] for leg in targets]
        products = self._direct if self.engine.direct else self._cascade
        tally = np.sum(known, axis=0)
        for position, product in zip(positions, products(incoming, carries, positions), strict=True):
            leg = legs[position]
            edge = int(self.plan.leg_edge[leg])
            others = tally > known[position]
            if self.plan.leg_axes[leg] is not None:  # sum the joint states that share a state of this leg
                product = self.engine.total(product[:, self.plan.leg_groups(diverter, leg)], axis=2)
            if self.plan.leg_is_input[leg]:
                product = np.where(others[:, None], product, 0.0)  # nothing known elsewhere: ones
                self._write_backward(edge, product, others)
            else:
                self.forward[:, self.plan.columns(edge)] = product
                self.known_forward[:, edge] = others

    def _leaf(self, siso: int) -> tuple[np.ndarray, np.ndarray]:
        output = int(self.plan.siso_output[siso])
        known = self.evidence.has_evidence(output)
        self.old_known_backward[:, output] = known
        if output in self.soft:
            self.old_backward[:, self.plan.columns(output)] = self.soft[output]
        return self._to_input(siso)

    def _cascade(self, incoming: list[np.ndarray], carries: list[np.ndarray], positions: list[int]) -> list[np.ndarray]:
        """Multiply all messages but one, for each position, by the paper's linear double cascade, without division."""
        size = incoming[0].shape[1]
        count = len(incoming)
        from_left: list[np.ndarray | None] = [None]
        for leg in range(max(positions)):
            left = from_left[-1]
            if left is not None:
                self._count(size, carries[leg])
            from_left.append(incoming[leg] if left is None else left + incoming[leg])
        from_right: list[np.ndarray | None] = [None] * count
        for leg in range(count - 1, min(positions), -1):
            right = from_right[leg]
            if right is not None:
                self._count(size, carries[leg])
            from_right[leg - 1] = incoming[leg] if right is None else right + incoming[leg]
        products = []
        for position in positions:
            left, right = from_left[position], from_right[position]
            if left is not None and right is not None:
                self._count(size, np.ones(len(left)))
                products.append(left + right)
            else:
                one = left if left is not None else right
                products.append(np.zeros_like(incoming[0]) if one is None else one)
        return products

    def _direct(self, incoming: list[np.ndarray], carries: list[np.ndarray], positions: list[int]) -> list[np.ndarray]:
        """Multiply all messages but one, for each position, by the product rule: M (M - 2) vector products in all."""
        products = []
        for position in positions:
            others = [leg for leg in range(len(incoming)) if leg != position]
            product = incoming[others[0]] if others else np.zeros_like(incoming[position])
            for leg in others[1:]:
                self._count(product.shape[1], carries[leg])
                product = product + incoming[leg]
            products.append(product)
        return products


STEPS: dict[int, Callable[[State, int, list[int], np.ndarray], None]] = {
    SOURCE: lambda state, source, legs, gathered: state._source(source),
    FORWARD: lambda state, siso, legs, gathered: state._siso_forward(siso),
    BACKWARD: lambda state, siso, legs, gathered: state._siso_backward(siso),
    DIVERT: State._divert,
}
"""The function for each kind of step: of the state, the number of the block, and the legs and leaves of a Diverter."""
