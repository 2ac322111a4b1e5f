"""The content of a network file, common to all formats: variables, their states and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.arrays import ReadOnlyArrays


@dataclass(frozen=True, eq=False)
class WrittenTable(ReadOnlyArrays):
    """A table over some variables.

    Attributes:
        scope: the names of the variables; for a conditional table the parents in the order of the file, then the child.
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
    """A network as a file describes it, with its numbers as written: rows may differ from sum one by rounding.

    Attributes:
        states: the labels of every variable's states, in the order of the file.
        factors: the tables; those of a Bayesian network in the order of the variables, others in that of the file.
        directed: whether this is a Bayesian network, with one table for each variable, which is the last of its scope.
        name: the name of the network, or "".
        properties: other properties in the file, as text, by variable; "" is the network itself.
        compact: by variable, the few parameters that its table follows from, as plain values: a noisy-max has the
            `kind` "noisy_max", `effects` (rows by parent), a `leak` and the number of the state without an effect of
            each variable, `off`; a function of the parents the `kind` "deterministic" and the numbers of its `states`.
        decisions: of an influence diagram: variables without a table, and what is known at each of them.
        utilities: of an influence diagram: tables by name, whose numbers may be negative.
    """

    states: Mapping[str, tuple[str, ...]]
    factors: tuple[WrittenTable, ...]
    directed: bool
    name: str = ""
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    compact: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    utilities: Mapping[str, WrittenTable] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        # the order of variables is part of the document, and comparing mappings ignores it
        return list(self.states.items()) == list(other.states.items()) and (
            (self.factors, self.directed, self.name, self.properties, self.compact, self.decisions, self.utilities)
            == (
                other.factors,
                other.directed,
                other.name,
                other.properties,
                other.compact,
                other.decisions,
                other.utilities,
            )
        )

    __hash__ = None  # type: ignore[assignment]


Factor = WrittenTable
"""The name that it had before; a `fgrn.Factor` is a block."""
