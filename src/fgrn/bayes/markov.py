"""MarkovNetwork: an undirected model, proportional to the product of factors over a few variables each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import LearningError, TableError, counted, unknown_name, visible
from ..core.labels import Label
from ..core.settings import Name, name_of
from ..core.variable import Variable
from .document import Document
from .factored import FactoredModel, checked_variables, variables_of
from .realisation import ScopedTable


class MarkovNetwork(FactoredModel):
    """A Markov network (factor graph): the joint probability is proportional to the product of the factors.

    Factors are called "f0", "f1", ... in their order. `log_likelihood` is the logarithm of the product, summed over all
    that is unknown: without evidence, the logarithm of the partition function.

    Args:
        variables: every variable with its states, a number or a list of labels; or a list of `Variable`s.
        factors: pairs of the names of some variables and numbers that are not negative, one axis for each of them.
        name: of the network.
        properties: text about each variable, and under "" about the network, for files.
    """

    def __init__(
        self,
        variables: Mapping[str, int | Iterable[Label]] | Iterable[Variable],
        factors: Iterable[tuple[Sequence[str], ArrayLike]],
        *,
        name: str = "",
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        known = checked_variables(variables)
        self._factors: dict[str, np.ndarray] = {}
        self._scopes: list[tuple[str, ...]] = []
        parts = []
        for number, (scope, values) in enumerate(factors):
            called, scope = f"f{number}", tuple(map(name_of, scope))
            array = _checked_factor(known, called, scope, values)
            self._factors[called] = array
            self._scopes.append(scope)
            # without variables it is a constant, which some variable has to carry
            over = scope or (next(iter(known)),)
            spread = array if scope else np.full(known[over[0]].cardinality, array)
            parts.append(ScopedTable(called, over, spread.reshape(-1, spread.shape[-1]), False, conditional=False))
        super().__init__(known, parts, name, properties)

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Return the network that a document describes."""
        variables = variables_of(document)
        factors = [(factor.scope, factor.values) for factor in document.factors]
        return cls(variables, factors, name=document.name, properties=document.properties)

    def factor(self, name: str) -> np.ndarray:
        """Return the values of a factor, with an axis for each of its variables; read-only."""
        try:
            return self._factors[name]
        except (KeyError, TypeError):
            raise unknown_name("factor", name, self._factors) from None

    def _written(self) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        yield from zip(self._scopes, self._factors.values(), strict=True)

    def table(self, name: Name) -> np.ndarray:
        """Return the values of a factor, (joint states of all its variables but the last, states of the last)."""
        values = self.factor(name_of(name))
        return values.reshape(-1, values.shape[-1] if values.ndim else 1)

    def learn(self, *arguments: Any, **options: Any) -> Any:
        """Raise a LearningError: factors are not distributions, and cannot be learnt."""
        raise LearningError(
            "The factors of a MarkovNetwork are not distributions, and are not learnt. Learn a BayesianNetwork."
        )

    def __repr__(self) -> str:
        title = f"MarkovNetwork {self.name!r}" if self.name else "MarkovNetwork"
        lines = [f"{title} of {counted(len(self._variables), 'variable')} and {counted(len(self._factors), 'factor')}"]
        for (called, values), scope in zip([*self._factors.items()][:40], self._scopes, strict=False):
            lines += [f"  {called}({', '.join(scope)}): {' x '.join(map(str, values.shape))}"]
        if len(self._given) > 40:
            lines.append(f"  ... {len(self._given) - 40:,} more")
        return "\n".join(map(visible, lines))


def _checked_factor(known: Mapping[str, Variable], called: str, scope: tuple[str, ...], values: Any) -> np.ndarray:
    for one in scope:
        if one not in known:
            raise unknown_name("variable", one, known)
    if len(set(scope)) < len(scope):
        raise TableError(f"Factor {called!r} has a variable more than once: {', '.join(scope)}.")
    shape = tuple(known[one].cardinality for one in scope)
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"Factor {called!r} is not a rectangular array of numbers.") from None
    if array.shape != shape:
        raise TableError(f"Factor {called!r} over {', '.join(scope)} must have the shape {shape}. Got {array.shape}.")
    array.setflags(write=False)
    return array
