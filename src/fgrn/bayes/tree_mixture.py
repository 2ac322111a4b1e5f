"""A mixture of hidden trees that share the tables of columns, with separate tables between hidden variables.

    P(row) = sum over trees t of  weight(t) * P(row | tree t)

In a hidden tree over columns of many levels, such as pixels, most cells are in the tables of columns. The trees of the
mixture share these: a hidden state has the same distribution of its column in all trees. The tables between hidden
variables differ by tree; they are learnt near those of one tree that was learnt from all rows. As a network, the number
of the tree is one more hidden variable, on which all tables between hidden variables depend. `mixture_learning` learns
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import settings
from ..core.distributions import check_distribution
from ..core.exceptions import FgrnError, Remedy, WiringError, counted
from ..core.settings import Name
from ..core.variable import Variable
from ..flow import messages
from ..flow.marginals import refuse_impossible
from ..flow.messages import Messages
from ..flow.parameters import Parameters
from ..graph.blocks import SISO, Block, Diverter, Source
from ..graph.network import Network
from ..learning.execution import engine_for
from ..queries.questions import Queries
from ..tables import frames
from ..tables.encoded import Evidence

if TYPE_CHECKING:
    from ..engines import Engine
    from ..plan.plan import Layout

MIXED_PARTS = ("marginal", "likelihood")
"""The parts of messages that a mixture has; others have no meaning over all trees."""

MOST_CELLS_AS_ONE = 2**27
"""Of the tables of a mixture as one network: 1 GiB."""


class TreeMixture(Queries):
    """A mixture of hidden trees with the same variables and tables of columns, and separate hidden tables.

    It answers what a `Network` does: posteriors, classes, imputed tables, samples, log-likelihoods. Made by
    `tree_mixture`.

    Args:
        network: the hidden tree that has the tables of columns.
        weights: the probability of each tree.
        tables: by hidden variable, the tables of all trees, (trees, states of the parent, states); of the root the
            priors, (trees, states).
    """

    def __init__(self, network: Network, weights: Any, tables: Mapping[str, np.ndarray]) -> None:
        self.network = network
        self.weights = np.asarray(weights, dtype=np.float64)
        self.tables = {name: np.asarray(stack, dtype=np.float64) for name, stack in tables.items()}
        layout = network._spec.layout
        positive = np.isfinite(self.weights) & (self.weights > 0)
        if self.weights.ndim != 1 or not len(self.weights) or not positive.all():
            raise WiringError(
                f"The 'weights' are a positive number, not infinite, for each tree. Got {weights!r} instead."
            )
        self.weights = self.weights / self.weights.sum()
        if list(self.tables) != own_names(network):
            raise WiringError("The 'tables' are those of all hidden variables of the network, in their order.")
        for name, stack in self.tables.items():
            shape = (self.trees, *own_table(layout, network._parameters.values, name).shape)
            if stack.shape != shape:
                raise WiringError(f"The 'tables' of {name!r} must have the shape {shape}. Got {stack.shape} instead.")
            check_distribution(stack.reshape(-1, shape[-1]), f"A table of {name!r}")

    @property
    def trees(self) -> int:
        """The number of trees."""
        return len(self.weights)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of a tree, in the order of its blocks."""
        return self.network.variables

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.network.observed

    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""
        return self.network.variable(name)

    @property
    def free_parameters(self) -> int:
        """The number of free parameters: of the network, of the other trees' tables, and of the weights."""
        own = sum(int(stack[0].size) - len(np.atleast_2d(stack[0])) for stack in self.tables.values())
        return self.network.free_parameters + (self.trees - 1) * (own + 1)

    def tree(self, number: int) -> Network:
        """Return one of the trees as a network."""
        settings.whole("number", number, 0)
        if number >= self.trees:
            raise FgrnError(f"There is no tree {number}; there are {self.trees}, counted from 0.")
        return self.network._with_parameters(Parameters(self._values(number)))

    def as_network(self) -> Network:
        """Return the same model as one Network, with all its methods.

        Its hidden variables have trees x states, of which state t * states + s is state s of tree t: that of
        `hidden_tree(..., trees=)`. Its tables grow with the square of the number of trees.
        """
        root, *_ = self.tables
        cells = self.trees**2 * sum(int(stack[0].size) for stack in self.tables.values())
        if cells > MOST_CELLS_AS_ONE:
            raise FgrnError(
                f"As one network this mixture would have tables of {cells:,} cells; the limit is "
                f"{MOST_CELLS_AS_ONE:,}.",
                remedies=Remedy("ask {}", "the mixture, or one of its trees: tree(0)", tree=0),
            )
        return one_network(
            self.network,
            {root: np.concatenate(self.weights[:, None] * self.tables[root])}
            | {name: side_by_side(stack) for name, stack in self.tables.items() if name != root}
            | {name: np.tile(self.network.table(name), (self.trees, 1)) for name in self.observed},
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeMixture):
            return NotImplemented
        return (
            self.network == other.network
            and np.array_equal(self.weights, other.weights)
            and all(np.array_equal(stack, other.tables[name]) for name, stack in self.tables.items())
        )

    __hash__ = None  # type: ignore[assignment]  # as a Network

    def __repr__(self) -> str:
        return f"TreeMixture of {counted(self.trees, 'tree')} over {counted(len(self.observed), 'column')}"

    def save(self, path: str | Path) -> None:
        """Write the mixture to a model file (`.fgrn`); `fgrn.load` reads it back."""
        from ..files.model_file import save

        save(self, path)

    # Queries; for all others see the class `Queries`

    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        keep: Collection[Name] | None = None,
        parts: Collection[str] = MIXED_PARTS,
        impossible: str = "raise",
        engine: str | Engine = "auto",
        threads: int | None = None,
        device: str | None = None,
        precision: str | None = None,
    ) -> Messages:
        """Return the marginals and the log-likelihood of every row of evidence; see `Network.propagate`.

        Args:
            evidence: a mapping of columns or a dataframe; a variable that is not named is unknown.
            keep: the variables whose marginals to keep; all of them unless given.
            parts: "marginal", "likelihood", or both.
            impossible: "raise" an error that names the rows of probability zero, or "mark" them in `.impossible`.
            engine: see `Network.propagate`, and so are the others.
            threads: the number of threads.
            device: where engine="torch" computes.
            precision: of its numbers.
        """
        settings.choice("impossible", impossible, ("raise", "mark"))
        for part in parts:
            settings.choice("parts", part, MIXED_PARTS)
        swept = self._swept(evidence, keep, tuple(parts), engine, threads, device, precision)
        found = _mixed(zip(np.log(self.weights).tolist(), map(swept, range(self.trees)), strict=True))
        if impossible == "raise":
            refuse_impossible(np.flatnonzero(found.impossible))
        return found.only(found.kept, tuple(dict.fromkeys(parts)))

    def tree_posterior(self, evidence: frames.Data, **options: Any) -> np.ndarray:
        """Return the probability of each tree in each row, (rows, trees).

        Args:
            evidence: the rows.
            options: engine, threads, device and precision of `propagate`.
        """
        scores = self.scores(evidence, **options)
        largest = scores.max(axis=1, keepdims=True)
        refuse_impossible(np.flatnonzero(np.isneginf(largest[:, 0])))
        shares: np.ndarray = np.exp(scores - largest)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def scores(self, evidence: frames.Data, **options: Any) -> np.ndarray:
        """Return the logarithm of the joint probability of each tree and row, (rows, trees).

        Args:
            evidence: the rows.
            options: engine, threads, device and precision of `propagate`.
        """
        swept = self._swept(evidence, [], ("likelihood",), **options)
        out: np.ndarray = np.stack([swept(number).log_likelihood for number in range(self.trees)], axis=1)
        return out + np.log(self.weights)

    def embed(self, data: frames.Data, name: Name, *, engine: str = "auto") -> np.ndarray:
        """Return the backward message at the hidden variable of the root in each row, (rows, states).

        Args:
            data: the rows.
            name: the hidden variable, that of the root: below other variables the trees see different rows.
            engine: see `propagate`.
        """
        name = settings.name_of(name, self.variable)
        if name not in self.network._spec.layout.prior_names:
            raise FgrnError(f"{name!r} is not the hidden variable of the root; only that has a message in a mixture.")
        return self.root_message(self.propagate(data, keep=[name], parts=["marginal"], engine=engine).marginal(name))

    def root_message(self, marginal: np.ndarray) -> np.ndarray:
        """Return the backward message at the hidden variable of the root, from its marginal in each row."""
        (root,) = self.network._spec.layout.prior_names
        prior = self.weights @ self.tables[root]
        ratio: np.ndarray = np.divide(marginal, prior, where=prior > 0, out=np.zeros_like(marginal))
        ratio /= ratio.sum(axis=1, keepdims=True)
        return ratio

    def sample(
        self, rows: int = 1, evidence: frames.Data = None, seed: int = 0, *, names: Collection[Name] | None = None
    ) -> dict[str, np.ndarray]:
        """Draw rows: the labels of the columns, or of the variables named; see `Network.sample`.

        Args:
            rows: how many; with evidence, how many for each row of it, one after the other.
            evidence: what is known.
            seed: of the draw.
            names: the variables; the columns unless given.
        """
        settings.whole("rows", rows, 0)
        settings.whole("seed", seed, 0)
        draw = np.random.default_rng(seed)
        known = None if evidence is None else self._encoded(evidence)
        if known is None:
            of_row = draw.choice(self.trees, size=rows, p=self.weights)
        else:
            shares = np.cumsum(self.tree_posterior(known), axis=1).repeat(rows, axis=0)
            of_row = (draw.random(len(shares))[:, None] > shares[:, :-1]).sum(axis=1)
        found: dict[str, np.ndarray] = {}
        for number, own in enumerate(draw.integers(2**31, size=self.trees).tolist()):
            mine = np.flatnonzero(of_row == number)
            if known is None:
                drawn = self.tree(number).sample(len(mine), seed=own, names=names)
            else:
                drawn = self.tree(number).sample(1, known.take(mine // max(rows, 1)), seed=own, names=names)
            for name, labels in drawn.items():
                found.setdefault(name, np.empty(len(of_row), dtype=labels.dtype))[mine] = labels
        return found

    # Private helpers

    def _encoded(self, evidence: frames.Data) -> Evidence:
        return self.network._encode(self.network._plan(), evidence)

    def _values(self, number: int) -> np.ndarray:
        """Return the parameters of a tree, in the layout of the network."""
        values = self.network._parameters.values.copy()
        self._write(number, values)
        return values

    def _write(self, number: int, values: np.ndarray) -> None:
        """Write the tables between hidden variables of a tree into parameters of the network."""
        for name, stack in self.tables.items():
            own_table(self.network._spec.layout, values, name)[...] = stack[number]

    def _swept(
        self,
        evidence: frames.Data,
        keep: Collection[Name] | None,
        parts: tuple[str, ...],
        engine: str | Engine = "auto",
        threads: int | None = None,
        device: str | None = None,
        precision: str | None = None,
    ) -> Callable[[int], Messages]:
        """Return a function from the number of a tree to marginals and likelihoods, with the rows laid out once."""
        network, plan = self.network, self.network._plan()
        encoded = self._encoded(evidence)
        kept = plan.names if keep is None else settings.variable_names("keep", keep, own=self.variable)
        ways = tuple(dict.fromkeys((*parts, "likelihood")))
        runner = engine_for(engine, plan, encoded.rows * self.trees, device, precision)
        programs = network._programs_for(plan, (), encoded)
        sweep = messages.sweeper(runner, plan, programs, encoded, tuple(dict.fromkeys(kept)), threads, ways)
        values = network._parameters.values.copy()  # of one tree after the other: copies of large models take long

        def swept(number: int) -> Messages:
            self._write(number, values)
            return sweep(values.view())  # another object for each tree, by which engines tell parameters apart

        return swept


def own_names(network: Network) -> list[str]:
    """Return the hidden variables of a hidden tree, whose tables and prior are separate for each tree."""
    layout, columns = network._spec.layout, set(network.observed)
    return [*layout.prior_names, *(names[0] for names in layout.table_names if names[0] not in columns)]


def own_table(layout: Layout, values: np.ndarray, name: str) -> np.ndarray:
    """Return the view of the table of a hidden variable, or of the root's prior, in a vector of parameters."""
    if name in layout.prior_names:
        return layout.prior(values, layout.prior_number(name))
    return layout.table(values, layout.table_number(name))


def side_by_side(tables: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return tables of several trees as one block-diagonal table."""
    if len(tables) == 1:
        return np.asarray(tables[0])
    out = np.zeros([sum(sizes) for sizes in zip(*(table.shape for table in tables), strict=True)])
    row = column = 0
    for table in tables:
        rows, columns = table.shape
        out[row : row + rows, column : column + columns] = table
        row, column = row + rows, column + columns
    return out


def copied_variables(network: Network) -> dict[str, str]:
    """Return the copies made by Diverters, by name, and the hidden variable of each."""
    diverters = (block for block in network.blocks if isinstance(block, Diverter))
    return {copy.name: block.inputs[0].name for block in diverters for copy in block.outputs}


def one_network(network: Network, tables: Mapping[str, np.ndarray]) -> Network:
    """Return a hidden tree with the same connections, other tables by name, and hidden variables of their sizes."""
    columns, copies = set(network.observed), copied_variables(network)

    def variable(one: Variable) -> Variable:
        hidden = copies.get(one.name, one.name)
        return one if one.name in columns else Variable(one.name, tables[hidden].shape[-1])

    blocks: list[Block] = []
    for block in network.blocks:
        if isinstance(block, Source):
            blocks.append(Source(variable(block.variable), tables[block.variable.name]))
        elif isinstance(block, SISO):
            table = tables[block.output.name]
            own = None if block.output.name in columns else table > 0
            blocks.append(SISO(variable(block.input), variable(block.output), table, support=own))
        elif isinstance(block, Diverter):
            blocks.append(Diverter([variable(one) for one in block.inputs], [variable(one) for one in block.outputs]))
    return Network(blocks)


def _mixed(found: Iterable[tuple[float, Messages]]) -> Messages:
    """Return the marginals and likelihoods of a mixture, from log-weights and messages of each tree."""
    others = iter(found)
    first, mixed = next(others)
    total, arrays = mixed.log_likelihood + first, dict(mixed._arrays)
    for weight, one in others:
        likelihood = one.log_likelihood + weight
        both = np.logaddexp(total, likelihood)
        known = ~np.isneginf(both)
        share = np.where(known, np.exp(np.subtract(total, both, where=known, out=np.zeros_like(both))), 1.0)[:, None]
        arrays = {way: share * array + (1 - share) * one._arrays[way] for way, array in arrays.items()}
        total = both
    for array in arrays.values():
        array.setflags(write=False)
    return replace(mixed, _likelihood=total, _arrays=arrays)
