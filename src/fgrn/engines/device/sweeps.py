"""The two sweeps of a block of rows on a device, and its expected counts.

Upwards, a clique adds the logarithms of all that comes in, and takes out its largest entry:

    u = exp(potentials + leaves + log of the messages of its children - largest)
    message to the parent = u summed to the variable of the link, times the table

Downwards, the posterior of the parent without that message goes the other way:

    q = posterior of the parent / message,   posterior = u * (q times the table)

Where a message is zero, all that it is multiplied with is zero too, and q may be zero there. A row in which u and the
rest have next to nothing in common, or a message has become too small, is marked as doubtful: states may have been lost
to underflow, and the reference engine has the last word on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from .layout import DeviceLayout, Group, Leaves, Links, Potential
from .library import Precision, torch

if TYPE_CHECKING:
    from ...plan.plan import Plan


Key = TypeVar("Key")


class DeviceTables:
    """The parameters on the device: tables of links and leaves, stacked as the layout has them."""

    def __init__(self, layout: DeviceLayout, values: np.ndarray, precision: Precision) -> None:
        self.layout, self.precision = layout, precision
        kind = precision.summed
        flat = torch.as_tensor(np.array(values, dtype=np.float64), device=layout.device).to(kind)
        plan = layout.plan
        self.links: dict[Links, torch.Tensor] = {}
        self.leaves: dict[Leaves, torch.Tensor] = {}
        self.sources: dict[int, torch.Tensor] = {}
        for level in layout.levels:
            for group in level:
                for links in group.links:
                    if links.has_table:
                        self.links[links] = torch.stack([_table(plan, flat, one) for one in links.tables])
                for leaves in group.leaves:
                    stacked = torch.stack([_table(plan, flat, leaf.table) for leaf in leaves.leaves])
                    self.leaves[leaves] = stacked.transpose(1, 2).contiguous()  # (leaves, values, states)
        for source, edge in enumerate(plan.source_edge.tolist()):
            start = int(plan.source_at[source])
            self.sources[source] = flat[start : start + int(plan.cardinality[edge])]

    def log_columns(self, leaves: Leaves) -> torch.Tensor:
        """The logarithms of the tables of leaves, (leaves, values + 1, states): zeros for a missing value."""
        columns = self.leaves[leaves].log()
        return torch.cat([columns, torch.zeros_like(columns[:, :1])], dim=1)


def _table(plan: Plan, flat: torch.Tensor, number: int) -> torch.Tensor:
    rows, columns = plan.layout.table_shapes[number]
    start = int(plan.layout.table_offsets[number])
    return flat[start : start + rows * columns].view(rows, columns)


class DeviceRows(NamedTuple):
    """Some rows on the device.

    codes     (columns, rows): the state, or one more than the last where it is missing (or soft)
    soft      (rows, width): distributions as the Evidence has them, or empty
    is_soft   (columns, rows): where a value is one
    weights   (rows,)
    """

    codes: torch.Tensor
    soft: torch.Tensor
    is_soft: torch.Tensor
    weights: torch.Tensor


class Sweep:
    """The messages of one block of rows; made by `Sweep(tables, block)`, which runs both sweeps."""

    def __init__(self, tables: DeviceTables, block: DeviceRows) -> None:
        self.tables, self.block = tables, block
        self.layout, self.precision = tables.layout, tables.precision
        self.rows = block.weights.shape[0]
        self.up: dict[Group, torch.Tensor] = {}  # by group, (cliques, rows, joint states)
        self.posterior: dict[Group, torch.Tensor] = {}
        self.sent: dict[Links, torch.Tensor] = {}  # by links: over the child's variable, before the table
        self.message: dict[Links, torch.Tensor] = {}  # the same after it
        self.rest: dict[Links, torch.Tensor] = {}  # q
        kind, device = self.precision.summed, block.weights.device
        self.log_likelihood = torch.zeros(self.rows, dtype=kind, device=device)
        self.doubtful = torch.zeros(self.rows, dtype=torch.bool, device=device)
        for level in reversed(self.layout.levels):
            for group in level:
                self._upwards(group)
        for level in self.layout.levels:
            for group in level:
                self._downwards(group)
        self.doubtful |= ~torch.isfinite(self.log_likelihood)

    def _upwards(self, group: Group) -> None:
        kind = self.precision.summed
        shape = (len(group.cliques), self.rows, group.size)
        total = torch.zeros(shape, dtype=kind, device=self.block.weights.device)
        for potential in group.potentials:
            total[potential.place] += potential.spread.out(self._potential(potential))
        for leaves in group.leaves:
            if leaves.columns is not None:
                codes = self.block.codes[leaves.columns].long()
                which = torch.arange(len(leaves.leaves), device=codes.device)[:, None]
                total[leaves.places] += leaves.spread.out(self.tables.log_columns(leaves)[which, codes])
        for incoming in group.incoming:
            message = self.message[incoming.links][incoming.which].to(kind)
            total[incoming.places] += incoming.spread.out(message.log())
        largest = total.amax(-1)
        lost = torch.isneginf(largest)
        largest = torch.where(lost, torch.zeros_like(largest), largest)
        self.log_likelihood += largest.sum(0)
        self.doubtful |= lost.any(0)
        self.up[group] = torch.exp(total - largest[..., None]).to(self.precision.stored)
        for links in group.links:
            self._send(group, links)

    def _send(self, group: Group, links: Links) -> None:
        """The messages from a group to the parents of its cliques."""
        sent = links.spread.summed(self.up[group][links.places])
        message = sent
        if links.has_table:
            table = self.tables.links[links].to(self.precision.stored)
            message = torch.matmul(sent, table.transpose(1, 2) if links.downward else table)
        small = message.amax(-1) < self.precision.faint
        self.doubtful |= small.any(0)
        self.sent[links] = sent
        self.message[links] = torch.where(small[..., None], torch.ones_like(message), message)

    def _potential(self, potential: Potential) -> torch.Tensor:
        """The logarithm of what is known of one variable, (rows, states) or (states,)."""
        states, kind = potential.part.states, self.precision.summed
        device = self.block.weights.device
        total = torch.zeros(states, dtype=kind, device=device)
        if potential.source >= 0:
            total = total + self.tables.sources[potential.source].log()
        if potential.uniform:
            total = total - float(np.log(states))
        if potential.column >= 0:
            known = torch.eye(states, dtype=kind, device=device).log()
            known = torch.cat([known, torch.zeros_like(known[:1])])[self.block.codes[potential.column].long()]
            if potential.soft >= 0:
                soft = self.block.soft[:, potential.soft : potential.soft + states].to(kind).log()
                known = torch.where(self.block.is_soft[potential.column][:, None], soft, known)
            total = total + known
        return total

    def _downwards(self, group: Group) -> None:
        up = self.up[group].to(self.precision.summed)
        weights = self.block.weights.to(self.precision.summed)
        if not group.links:  # roots
            total = up.sum(-1)
            self.log_likelihood += torch.where(total > 0, total, torch.ones_like(total)).log().sum(0)
            self.posterior[group] = up / torch.where(total > 0, total, torch.ones_like(total))[..., None]
            self.posterior[group] *= weights[:, None]
            return
        posterior = torch.zeros_like(up)
        for links in group.links:
            message = self.message[links].to(self.precision.summed)
            rest = torch.empty_like(message)
            for parent, which, places, spread in links.parents:
                rest[which] = spread.summed(self.posterior[parent][places])
            rest = torch.where(message > 0, rest / message, torch.zeros_like(rest)).to(self.precision.stored)
            self.rest[links] = rest
            passed = rest
            if links.has_table:
                table = self.tables.links[links].to(self.precision.stored)
                passed = torch.matmul(rest, table if links.downward else table.transpose(1, 2))
            passed = passed.to(self.precision.summed)
            product = up[links.places] * links.spread.out(passed)
            total = product.sum(-1)
            self.doubtful |= ((total <= self.precision.faint * passed.amax(-1)) & (weights > 0)).any(0)
            total = torch.where(total > 0, total, torch.ones_like(total))
            posterior[links.places] = product / total[..., None] * weights[:, None]
        self.posterior[group] = posterior

    def marginal(self, edge: int) -> torch.Tensor:
        """The posterior of a variable, (rows, states)."""
        if edge not in self.layout.leaf_of:
            part = self.layout.tree.home[edge]
            group, place = self.layout.where(part)
            return self.layout.spread(part).summed(self.posterior[group][place])
        leaf = self.layout.leaf_of[edge]
        group, place = self.layout.where(leaf.part)
        leaves = next(one for one in group.leaves if leaf in one.leaves)
        number = leaves.leaves.index(leaf)
        columns = self.tables.leaves[leaves][number]
        expected = leaves.spread.summed(self.posterior[group][place]) @ columns.T
        if leaves.columns is None:
            return expected
        codes = self.block.codes[leaves.columns[number]].long()
        known = torch.eye(len(columns) + 1, dtype=columns.dtype, device=columns.device)[codes][:, :-1]
        return torch.where((codes == len(columns))[:, None], expected, known)


class Sums:
    """Expected counts in the shape of the layout, added over blocks of rows, in float64."""

    def __init__(self, tables: DeviceTables) -> None:
        self.tables = tables
        self.links: dict[Links, torch.Tensor] = {}
        self.leaves: dict[Leaves, torch.Tensor] = {}
        self.sources: dict[int, torch.Tensor] = {}
        self.log_likelihood = torch.zeros((), dtype=torch.float64, device=tables.layout.device)

    def add(self, sweep: Sweep) -> None:
        """Add the counts of a block."""
        layout = self.tables.layout
        for level in layout.levels:
            for group in level:
                for links in group.links:
                    if links.has_table:
                        ends = sweep.rest[links], sweep.sent[links]
                        into, back = ends if links.downward else ends[::-1]
                        _added(self.links, links, _product(into.transpose(1, 2), back))
                for leaves in group.leaves:
                    posterior = leaves.spread.summed(sweep.posterior[group][leaves.places])
                    _added(self.leaves, leaves, _sums_by_value(leaves, posterior, sweep.block.codes))
        for source, edge in enumerate(layout.plan.source_edge.tolist()):
            _added(self.sources, source, sweep.marginal(edge).sum(0))
        weights = sweep.block.weights.to(torch.float64)
        finite = torch.where(weights > 0, sweep.log_likelihood.to(torch.float64), torch.zeros_like(weights))
        self.log_likelihood += (weights * finite).sum()

    def in_layout(self, expect: bool) -> np.ndarray:
        """All counts as one vector in the layout of the plan."""
        plan, tables = self.tables.layout.plan, self.tables
        out = np.zeros(plan.layout.size)
        for level in tables.layout.levels:
            for group in level:
                for links in group.links:
                    if links.has_table:
                        counts = (self.links[links] * tables.links[links].to(torch.float64)).cpu().numpy()
                        for number, table in enumerate(links.tables):
                            plan.layout.table(out, table)[...] += counts[number]
                for leaves in group.leaves:
                    found, columns = self.leaves[leaves], tables.leaves[leaves].to(torch.float64)
                    counts = found[:, :-1] + (found[:, -1:] * columns if expect else 0.0)
                    for number, leaf in enumerate(leaves.leaves):
                        plan.layout.table(out, leaf.table)[...] += counts[number].T.cpu().numpy()
        for source in range(len(plan.source_edge)):
            plan.source_values(out, source)[...] += self.sources[source].cpu().numpy()
        return out


def _added(totals: dict[Key, torch.Tensor], key: Key, counts: torch.Tensor) -> None:
    wide = counts.to(torch.float64)
    totals[key] = totals[key] + wide if key in totals else wide


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A batched product of stored messages, summed over rows in the wider type."""
    if one.dtype == torch.bfloat16:
        one, other = one.float(), other.float()
    return torch.matmul(one, other)


def _sums_by_value(leaves: Leaves, posterior: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """The posteriors of leaves added by the value of each row, (leaves, values + 1, states); missing values last."""
    count, _, states = posterior.shape
    values = leaves.shape[1] + 1
    out = torch.zeros((count, values, states), dtype=posterior.dtype, device=posterior.device)
    if leaves.columns is None:
        out[:, -1] = posterior.sum(1)
        return out
    mine = codes[leaves.columns].long()
    if posterior.device.type == "cpu":
        places = (mine + values * torch.arange(count)[:, None]).ravel()
        return out.view(-1, states).index_add_(0, places, posterior.reshape(-1, states)).view_as(out)
    for number in range(count):  # a product with one-hot codes: adding in any order would not give the same bits
        one_hot = torch.nn.functional.one_hot(mine[number], values).to(posterior.dtype)
        out[number] = one_hot.T @ posterior[number]
    return out
