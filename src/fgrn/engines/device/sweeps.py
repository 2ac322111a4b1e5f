"""Both sweeps over a block of rows on the device: products in the log domain, one level after the other.

Upwards, each clique multiplies what its leaves, its potentials and its children say of its states, as a sum of
logarithms; the largest is taken out, so that nothing underflows however many children there are:

    u = exp(potentials + leaves + log of the messages of its children - largest)
    message to the parent = u summed to the variable of the link, times the table

Downwards, the posterior of the parent without that message goes the other way:

    q = posterior of the parent / message,   posterior = u * (q times the table)

and the counts of a table are its cells times the product of q and u, summed over rows (see `device_counts`). Where a
message is zero, all that it is multiplied with is zero too, and q may be zero there. A row in which u and the rest have
next to nothing in common, or a message has become too small, is marked as doubtful: states may have been lost to
underflow, and the reference engine computes it again.

All tensors are made once for a number of rows and used again, so that a GPU can replay all of it as one graph. Where
`kernels` are given (see `kernels`), they do what is elementwise over whole spaces of cliques; everything else, and
all of it without them, is done by operations of PyTorch.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from .device_vectors import DeviceVector, VectorLayout
from .layout import DeviceLayout, Group, Incoming, IncomingLeaves, LeafStack, LinkStack, Potential
from .library import Precision, torch


class DeviceRows(NamedTuple):
    """Some rows on the device.

    codes     (columns, rows): the state; any other number where it is missing (or soft)
    soft      (rows, width): distributions as the Evidence has them, or empty
    is_soft   (columns, rows): where a value is one; empty if there are none
    weights   (rows,)
    """

    codes: torch.Tensor
    soft: torch.Tensor
    is_soft: torch.Tensor
    weights: torch.Tensor

    def fill(self, other: DeviceRows) -> None:
        """Copy other rows into the buffers."""
        for mine, theirs in zip(self, other, strict=True):
            if mine.numel():
                mine.copy_(theirs, non_blocking=True)


class DeviceTables:
    """The parameters for the sweeps: tables of links in the type of messages, logarithms of tables of leaves."""

    def __init__(self, layout: DeviceLayout, vectors: VectorLayout, precision: Precision) -> None:
        self.layout, self.vectors, self.precision = layout, vectors, precision
        device, kind = layout.device, precision.summed
        self.links: dict[LinkStack, torch.Tensor] = {}
        for stack in layout.stacks:
            if stack.has_table:
                shape = layout.plan.layout.table_shapes[stack.tables[0]]
                self.links[stack] = torch.empty((len(stack.links), *shape), dtype=precision.stored, device=device)
        self.leaf_logs = torch.zeros(layout.leaf_cells, dtype=kind, device=device)
        self.leaves: dict[LeafStack, torch.Tensor] = {}
        for leaves in layout.leaf_stacks:
            if leaves.is_known:
                room = (len(leaves.leaves), leaves.values + 1, leaves.states)
                self.leaves[leaves] = self.leaf_logs[leaves.begin : leaves.begin + int(np.prod(room))].view(room)
        self.sources = {
            source: torch.empty(int(layout.plan.cardinality[edge]), dtype=kind, device=device)
            for source, edge in enumerate(layout.plan.source_edge.tolist())
        }
        self._loaded: DeviceVector | None = None

    def load(self, vector: DeviceVector) -> None:
        """Copy parameters to the device, unless the same ones were copied before."""
        if vector is self._loaded:
            return
        self._loaded = vector
        for stack, links in self.links.items():
            links.copy_(self.vectors.stacked_tables(vector.blocks, stack.tables, turned=False))
        for leaves, logs in self.leaves.items():
            torch.log(self.vectors.stacked_tables(vector.blocks, leaves.tables, turned=True), out=logs[:, :-1])
        for source, prior in self.sources.items():
            prior.copy_(self.prior(vector, source).log())

    def prior(self, vector: DeviceVector, source: int) -> torch.Tensor:
        """Return the message of a Source: a prior, or a table of one row."""
        item = item_at(self.vectors, int(self.layout.plan.source_at[source]))
        return self.vectors.stacked_tables(vector.blocks, [item], turned=False).reshape(-1)


def item_at(vectors: VectorLayout, start: int) -> int:
    """Return the number of the table or prior that begins at this cell of the plan's layout."""
    return int(np.flatnonzero(vectors.starts == start)[-1])


class Sweep:
    """Buffers for the messages of a block of rows, and the steps that compute them; `complete`: no value is missing."""

    def __init__(
        self, tables: DeviceTables, block: DeviceRows, complete: bool, kernels: ModuleType | None = None
    ) -> None:
        self.tables, self.block, self.complete, self.kernels = tables, block, complete, kernels
        self.layout, self.precision = tables.layout, tables.precision
        self.rows = block.weights.shape[0]
        layout, stored, summed = self.layout, self.precision.stored, self.precision.summed
        self.up = {size: self._room(count, size, stored) for size, count in layout.sizes.items()}
        self.posterior = {size: self._room(count, size, stored) for size, count in layout.sizes.items()}
        self.message = {states: self._room(count, states, stored) for states, count in layout.messages.items()}
        self.largest = {size: self._room(count, None, summed) for size, count in layout.sizes.items()}
        self.doubt_up = {size: self._room(count, None, torch.uint8) for size, count in layout.sizes.items()}
        self.doubt_down = {size: self._room(count, None, torch.uint8) for size, count in layout.sizes.items()}
        self.sent = {
            stack: self._room(len(stack.links), stack.child_states, stored)
            for stack in layout.stacks
            if not stack.spread.is_whole
        }
        self.weights = torch.zeros_like(block.weights)
        self.log_likelihood = torch.zeros(self.rows, dtype=summed, device=layout.device)
        self.lost = torch.zeros(self.rows, dtype=torch.bool, device=layout.device)
        self.late = torch.zeros(self.rows, dtype=torch.bool, device=layout.device)

    def _room(self, count: int, states: int | None, kind: torch.dtype) -> torch.Tensor:
        shape = (count, self.rows) if states is None else (count, self.rows, states)
        return torch.zeros(shape, dtype=kind, device=self.layout.device)

    def run(self) -> None:
        """Compute all messages and posteriors of the rows, in place.

        Rows that are `lost` on the way up have no weight on the way down; those that are doubtful only there are
        marked as `late`.
        """
        for level in reversed(self.layout.levels):
            for group in level:
                self._combine(group)
                if group.stack is not None:
                    self._send(group, group.stack)
        lost = _any(self.doubt_up, self.lost)
        self.lost.copy_(lost)
        self.weights.copy_(torch.where(lost, torch.zeros_like(self.weights), self.block.weights))
        for level in self.layout.levels:
            for group in level:
                self._finish(group)
        self.late.copy_(_any(self.doubt_down, self.late))
        total = torch.zeros_like(self.log_likelihood)
        for largest in self.largest.values():
            total = total + largest.sum(0)
        self.lost |= ~torch.isfinite(total)
        self.log_likelihood.copy_(torch.where(self.lost, torch.zeros_like(total), total))

    # Upwards

    def _combine(self, group: Group) -> None:
        """Compute u of the cliques of a group: the product of leaves, potentials and messages from children."""
        known = self._odd_logs(group)
        if self.kernels is not None and self.kernels.fits(group.size):
            self.kernels.combine(self, group, known)
            return
        if known is None:
            known = self._logs(group)
        doubt = self.doubt_up[group.size][group.cliques]
        doubt.zero_()
        for leaves in group.leaves:
            if leaves.spread.is_whole:
                known[leaves.places] += self._leaf_logs(leaves.stack, leaves.which)
        for incoming in group.incoming:
            if incoming.spread.is_whole:
                self._add_messages(known, doubt, incoming)
        largest = known.amax(-1)
        lost = torch.isneginf(largest)
        doubt |= lost
        largest = torch.where(lost, torch.zeros_like(largest), largest)
        self.largest[group.size][group.cliques] = largest
        self.up[group.size][group.cliques] = torch.exp(known - largest[..., None]).to(self.precision.stored)

    def _logs(self, group: Group) -> torch.Tensor:
        shape = (group.count, self.rows, group.size)
        return torch.zeros(shape, dtype=self.precision.summed, device=self.layout.device)

    def _odd_logs(self, group: Group) -> torch.Tensor | None:
        """Return the logarithms of potentials and of messages over part of a clique; None if there are none."""
        parts = [one for one in (*group.incoming, *group.leaves) if not one.spread.is_whole]
        if not group.potentials and not parts:
            return None
        known = self._logs(group)
        for potential in group.potentials:
            known[potential.place] += potential.spread.out(self._potential(potential))
        odd_doubt = torch.zeros((group.count, self.rows), dtype=torch.uint8, device=self.layout.device)
        for incoming in parts:
            if isinstance(incoming, IncomingLeaves):
                logs = self._leaf_logs(incoming.stack, incoming.which)
                known[incoming.places] += incoming.spread.out(logs)
            else:
                self._add_messages(known, odd_doubt, incoming)
        # a doubtful row may be given up as lost: all its states are then impossible
        return torch.where(odd_doubt.bool()[..., None], torch.full_like(known, -np.inf), known) if parts else known

    def _add_messages(self, known: torch.Tensor, doubt: torch.Tensor, incoming: Incoming) -> None:
        message = self.message[incoming.states][incoming.which].to(self.precision.summed)
        small = message.amax(-1) < self.precision.faint
        doubt[incoming.places] |= small.to(torch.uint8)
        message = torch.where(small[..., None], torch.ones_like(message), message)
        known[incoming.places] += incoming.spread.out(message.log())

    def _leaf_logs(self, stack: LeafStack, which: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the table columns of the observed values, (leaves, rows, states)."""
        return self.tables.leaves[stack][which[:, None], self._values(stack, which)]

    def _values(self, stack: LeafStack, which: torch.Tensor | slice = slice(None)) -> torch.Tensor:
        """Return the values of leaves, (leaves, rows); the code of a missing value is the number of values."""
        codes = self.block.codes[stack.columns[which]].long()
        return torch.where((codes < 0) | (codes >= stack.values), stack.values, codes)

    def _send(self, group: Group, stack: LinkStack) -> None:
        """Compute the messages from the cliques of a group to their parents."""
        sent = self.up[group.size][group.cliques]
        if not stack.spread.is_whole:
            sent = stack.spread.summed(sent.to(self.precision.summed)).to(self.precision.stored)
            self.sent[stack][group.in_stack] = sent
        message = self.message[stack.parent_states][group.messages]
        if stack.has_table:
            table = self.tables.links[stack][group.in_stack]
            torch.bmm(sent, table.transpose(1, 2) if stack.downward else table, out=message)
        else:
            message.copy_(sent)

    def _potential(self, potential: Potential) -> torch.Tensor:
        """Return the logarithm of the evidence or prior of one variable, (rows, states) or (states,)."""
        states, kind = potential.part.states, self.precision.summed
        device = self.layout.device
        total = torch.zeros(states, dtype=kind, device=device)
        if potential.source >= 0:
            total = total + self.tables.sources[potential.source]
        if potential.uniform:
            total = total - float(np.log(states))
        if potential.column >= 0:
            codes = self.block.codes[potential.column].long()
            codes = torch.where((codes < 0) | (codes >= states), states, codes)
            known = torch.eye(states, dtype=kind, device=device).log()
            known = torch.cat([known, torch.zeros_like(known[:1])])[codes]
            if potential.soft >= 0:
                soft = self.block.soft[:, potential.soft : potential.soft + states].to(kind).log()
                known = torch.where(self.block.is_soft[potential.column][:, None], soft, known)
            total = total + known
        return total

    # Downwards

    def _finish(self, group: Group) -> None:
        """Compute the posteriors of the cliques of a group, and the messages to their children."""
        stack = group.stack
        posterior = self.posterior[group.size][group.cliques]
        if stack is not None:
            passed = self.message[stack.parent_states][group.messages]  # q, made by the parents
            if stack.has_table:
                table = self.tables.links[stack][group.in_stack]
                way = table if stack.downward else table.transpose(1, 2)
                passed = torch.bmm(passed, way, out=posterior) if stack.spread.is_whole else torch.bmm(passed, way)
            if passed is not posterior:
                posterior.copy_(stack.spread.out(passed))
        if self.kernels is not None and self.kernels.fits(group.size):
            self.kernels.finish(self, group)
            odd = [one for one in group.incoming if not one.spread.is_whole]
        else:
            self._normalise(group, posterior)
            odd = group.incoming
        for incoming in odd:
            message = self.message[incoming.states][incoming.which].to(self.precision.summed)
            rest = incoming.spread.summed(posterior[incoming.places].to(self.precision.summed))
            rest = torch.where(message > 0, rest / message, torch.zeros_like(rest))
            self.message[incoming.states][incoming.which] = rest.to(self.precision.stored)

    def _normalise(self, group: Group, posterior: torch.Tensor) -> None:
        """Compute posteriors of cliques from u and the downward messages, weighted by rows."""
        up = self.up[group.size][group.cliques].to(self.precision.summed)
        product = up
        if group.stack is not None:
            passed = posterior.to(self.precision.summed)
            product = up * passed
        total = product.sum(-1)
        doubt = torch.zeros_like(total, dtype=torch.bool)
        if group.stack is not None:
            doubt = (total <= self.precision.faint * passed.amax(-1)) & (self.weights != 0)
        else:
            logs = torch.where(total > 0, total, torch.ones_like(total)).log()
            self.largest[group.size][group.cliques] += logs
        self.doubt_down[group.size][group.cliques] = doubt.to(torch.uint8)
        factor = torch.where(total > 0, self.weights / total, torch.zeros_like(total))
        posterior.copy_(product * factor[..., None])

    # Results

    def marginal(self, edge: int, vector: DeviceVector) -> torch.Tensor:
        """Return the posterior of a variable, (rows, states); rows sum to one, or are zero if they underflowed."""
        found = self._posterior_of(edge, vector)
        if self.precision.stored == torch.float64:
            return found
        total = found.sum(1, keepdim=True)
        return found / torch.where(total > 0, total, torch.ones_like(total))

    def _posterior_of(self, edge: int, vector: DeviceVector) -> torch.Tensor:
        """Return the posterior of a variable, in the precision in which messages are stored."""
        kind = self.precision.summed
        if edge not in self.layout.leaf_of:
            part = self.layout.tree.home[edge]
            group, place = self.layout.where(part)
            return self.layout.spread(part).summed(self.posterior[group.size][group.cliques.start + place].to(kind))
        leaf = self.layout.leaf_of[edge]
        stack, number = self.layout.leaf_place(leaf)
        posterior = stack.spread.summed(self.posterior[stack.size][int(stack.cliques[number])].to(kind))
        table = self.tables.vectors.stacked_tables(vector.blocks, [leaf.table], turned=False)[0]
        expected = posterior @ table
        if not stack.is_known:
            return expected
        values = self._values(stack, slice(number, number + 1))[0]
        known = torch.eye(stack.values + 1, dtype=kind, device=values.device)[values][:, :-1]
        return torch.where((values == stack.values)[:, None], expected, known)


def _any(doubts: dict[int, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Return, for each row, whether any message may have underflowed."""
    out = torch.zeros_like(like)
    for doubt in doubts.values():
        out = out | (doubt.amax(0) > 0)
    return out
