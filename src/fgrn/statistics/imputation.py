"""Multiple imputation: several completed tables that differ by the uncertainty of missing values (Rubin 1987).

For each table the model is refitted to rows drawn with replacement, so that the uncertainty of its parameters is
included (approximate Bayesian bootstrap); then the class of every row is drawn given its known values, and every
missing value given the class, so that the values of a row are consistent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..queries.sampling import draw_states
from ..tables import frames
from ..tables.columns import Column
from ..tables.frames import UNKNOWN
from .latent_classes import LatentClasses, Patterns


def drawn_values(model: LatentClasses, rows: Patterns, generator: np.random.Generator) -> Patterns:
    """Return the rows, not merged, with every missing value drawn at random."""
    posterior, _ = model.posterior(rows)
    classes = draw_states(posterior, np.arange(len(posterior)), generator)
    codes, numbers = rows.codes.copy(), rows.numbers
    for item, table in enumerate(model.tables):
        gone = np.flatnonzero(codes[:, item] == UNKNOWN)
        codes[gone, item] = draw_states(table, classes[gone], generator)
    if model.numbers is not None:
        numbers = np.where(np.isnan(numbers), model.numbers.drawn(classes, generator), numbers)
    return replace(rows, codes=codes, numbers=numbers)


def numbers_filled(
    columns: Mapping[str, Any], names: tuple[str, ...], given: np.ndarray, drawn: np.ndarray
) -> dict[str, list[Any]]:
    """Return the continuous columns with missing numbers replaced by random ones; both (rows, columns)."""
    filled = {}
    for place, name in enumerate(names):
        gone = np.isnan(given[:, place])
        if gone.any():
            pairs = zip(frames.as_list(columns[name]), gone.tolist(), drawn[:, place].tolist(), strict=True)
            filled[name] = [new if is_gone else old for old, is_gone, new in pairs]
    return filled


@dataclass(frozen=True, eq=False)
class MissingValues:
    """The missing values of one column, and the values that their drawn levels become.

    item    the number of the column
    rows    where values are missing; a level that was not seen in training is not
    values  the column as it is
    donors  of a column of numbers: the values observed in each bin; a drawn bin becomes one of them
    """

    item: int
    column: Column
    rows: tuple[int, ...]
    values: Sequence[Any]
    donors: Mapping[int, Sequence[Any]]

    @classmethod
    def of(cls, item: int, column: Column, codes: np.ndarray, values: list[Any]) -> MissingValues:
        """Return the missing values of a column, given its codes and its values."""
        gone = tuple(row for row in np.flatnonzero(codes == UNKNOWN).tolist() if column.is_missing(values[row]))
        donors = {
            code: [values[row] for row in np.flatnonzero(codes == code).tolist()] or [float(column.centers[code])]
            for code in range(len(column.levels) if column.centers and gone else 0)
        }
        return cls(item, column, gone, values, donors)

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.column.name

    def filled(self, codes: np.ndarray, generator: np.random.Generator) -> list[Any]:
        """Return the column with the drawn levels in place of missing values."""
        out = list(self.values)
        for row in self.rows:
            code = int(codes[row])
            some = self.donors.get(code)
            out[row] = self.column.levels[code] if some is None else some[int(generator.integers(len(some)))]
        return out
