"""Expected counts on the device: the counts of blocks of rows, summed in float64."""

from __future__ import annotations

from .device_vectors import DeviceVector
from .layout import LeafStack, LinkStack
from .library import torch
from .sweeps import Sweep, item_at

ADDED_AT_ONCE = 16
"""Blocks of rows whose counts of links are added in the type of their products before they are added in float64.

With products of the precision "tf32", whose own rounding is a thousand times larger.
"""


class Sums:
    """Expected counts summed over blocks of rows in float64, in the layout of the device.

    partial   counts of links since these were added to the others last, where a product can add to them; or none
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, layout = sweep, sweep.layout
        self.layout, self.tables = layout, sweep.tables
        self.partial: dict[LinkStack, torch.Tensor] = {}
        self.links: dict[LinkStack, torch.Tensor] = {}
        if sweep.precision.name == "tf32":
            self.partial = {stack: torch.zeros_like(links) for stack, links in self.tables.links.items()}
        else:
            self.links = {stack: self._room(links.shape) for stack, links in self.tables.links.items()}
        self._added = 0
        self.leaves = {
            stack: self._room((len(stack.leaves), stack.values + 1, stack.states)) for stack in layout.leaf_stacks
        }
        self.sources = {source: self._room(prior.shape) for source, prior in self.tables.sources.items()}
        self.log_likelihood = self._room(())

    def _room(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.layout.device)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors of all sums."""
        sums = (self.partial, self.links, self.leaves, self.sources)
        return (*(counts for some in sums for counts in some.values()), self.log_likelihood)

    def clear(self) -> None:
        """Set all sums to zero."""
        self._added = 0
        if self.partial:
            self.links.clear()
        for counts in self.tensors:
            counts.zero_()

    def has_added(self) -> None:
        """Note that a block was added: after some blocks, partial sums are added to the totals in float64."""
        self._added += 1
        if self.partial and self._added % ADDED_AT_ONCE == 0:
            self._add_partial()

    def _add_partial(self) -> None:
        for stack, counts in self.partial.items():
            self.links[stack] = self.links[stack] + counts if stack in self.links else counts.to(torch.float64)
            counts.zero_()

    def _of_links(self) -> dict[LinkStack, torch.Tensor]:
        """Return the counts of links of all blocks."""
        if self.partial and not self.links:
            return self.partial
        return {stack: counts + self.partial[stack] if self.partial else counts for stack, counts in self.links.items()}

    def add(self) -> None:
        """Add the counts of the block of the last sweep."""
        sweep = self.sweep
        for stack, totals in (self.partial or self.links).items():
            rest = sweep.message[stack.parent_states][stack.messages]
            sent = sweep.up[stack.size][stack.cliques] if stack.spread.is_whole else sweep.sent[stack]
            into, back = (rest, sent) if stack.downward else (sent, rest)
            if self.partial:
                totals.baddbmm_(into.transpose(1, 2), back)
            else:
                totals += _product(into.transpose(1, 2), back)
        for leaves, totals in self.leaves.items():
            if sweep.kernels is None or not sweep.kernels.add_by_value(sweep, leaves, totals):
                self._add_by_value(leaves, totals)
        for source, edge in enumerate(self.layout.plan.source_edge.tolist()):
            part = self.layout.tree.home[edge]
            group, place = self.layout.where(part)
            posterior = sweep.posterior[group.size][group.cliques.start + place]
            totals = self.sources[source]
            totals += self.layout.spread(part).summed(posterior.sum(0, dtype=sweep.precision.summed))
        self.log_likelihood += (sweep.weights.to(torch.float64) * sweep.log_likelihood).sum()

    def _add_by_value(self, stack: LeafStack, totals: torch.Tensor) -> None:
        """Add the posteriors of leaves by the value of each row, (leaves, values + 1, states); missing values last."""
        sweep = self.sweep
        posterior = sweep.posterior[stack.size][stack.cliques].to(sweep.precision.summed)
        posterior = stack.spread.summed(posterior)
        if not stack.is_known:
            totals[:, -1] += posterior.sum(1)
            return
        values = sweep._values(stack)
        if posterior.device.type == "cpu":
            out = torch.zeros(totals.shape, dtype=posterior.dtype)
            places = (values + (stack.values + 1) * torch.arange(len(values))[:, None]).ravel()
            out.view(-1, stack.states).index_add_(0, places, posterior.reshape(-1, stack.states))
            totals += out
            return
        for number in range(len(values)):  # a product with one-hot codes: adding in any order would change bits
            one_hot = torch.nn.functional.one_hot(values[number], stack.values + 1).to(posterior.dtype)
            totals[number] += one_hot.T @ posterior[number]

    def in_vector(self, vector: DeviceVector, expect: bool) -> DeviceVector:
        """Return all counts, given the parameters under which they were computed."""
        vectors = self.tables.vectors
        out: list[torch.Tensor | None] = [None] * len(vectors.blocks)
        for stack, counts in self._of_links().items():
            tables = vectors.stacked_tables(vector.blocks, stack.tables, turned=False)
            found = torch.empty_like(counts, dtype=vectors.kind)
            vectors.add(out, stack.tables, torch.mul(counts, tables, out=found), turned=False)
        for leaves, counts in self.leaves.items():
            tables = vectors.stacked_tables(vector.blocks, leaves.tables, turned=True)
            found = counts[:, :-1] + counts[:, -1:] * tables if expect else counts[:, :-1]
            vectors.add(out, leaves.tables, found.to(vectors.kind), turned=True)
        for source, counts in self.sources.items():
            item = item_at(vectors, int(self.layout.plan.source_at[source]))
            vectors.add(out, [item], counts.view(1, *vectors.shapes[item]).to(vectors.kind), turned=False)
        return DeviceVector(vectors, [vectors.zeros(n) if one is None else one for n, one in enumerate(out)])


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a batched product of stored messages, summed over rows in the more precise type."""
    if one.dtype != torch.bfloat16:
        return torch.bmm(one, other)
    if one.device.type == "cuda":
        return torch.bmm(one, other, out_dtype=torch.float32)
    return torch.bmm(one.float(), other.float())
