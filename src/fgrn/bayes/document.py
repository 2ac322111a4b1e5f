"""The content of a network file: variables, their states and tables, as plain data for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..core.arrays import ReadOnlyArrays


@dataclass(frozen=True, eq=False)
class WrittenTable(ReadOnlyArrays):
    """A table over some variables.

    Attributes:
        scope: names of the variables; of a conditional table the parents in the order of the file, then the child.
        values: float64, one axis for each variable of the scope; read-only.
    """

    scope: tuple[str, ...]
    values: np.ndarray

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WrittenTable):
            return NotImplemented
        return self.scope == other.scope and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none


@dataclass(frozen=True, eq=False)
class Document:
    """The content of a network file. Its numbers are kept as they are: rows may differ from a sum of one by rounding.

    Attributes:
        states: the labels of every variable's states, in the order of the file.
        factors: the tables; those of a Bayesian network in the order of the variables, others in that of the file.
        directed: whether this is a Bayesian network, with one table for each variable, which is the last of its scope.
        name: of the network, if it has one.
        properties: what else the file said, as text, by variable; "" stands for the network itself.
    """

    states: Mapping[str, tuple[str, ...]]
    factors: tuple[WrittenTable, ...]
    directed: bool
    name: str = ""
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        # the order of variables is a part of the document, and a mapping would not compare it
        return list(self.states.items()) == list(other.states.items()) and (
            (self.factors, self.directed, self.name, self.properties)
            == (other.factors, other.directed, other.name, other.properties)
        )

    __hash__ = None  # type: ignore[assignment]


Factor = WrittenTable
"""The name that it had before; a `fgrn.Factor` is a block."""
