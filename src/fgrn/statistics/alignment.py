"""Matching the classes of two solutions, since the order of latent classes is arbitrary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import LearningError, unknown_name
from ..core.printing import html_table, text_table
from ..tables.outputs import frame_of_records
from .latent_classes import LatentClasses
from .results import Result

SAME = 1e-9
"""Probabilities that differ by no more are equal under constraints."""


def in_order_of(model: LatentClasses, to: LatentClasses) -> LatentClasses:
    """Return the model with its classes reordered so that their profiles are nearest to those of another model.

    Constraints may number classes: an order in which they are not met is not taken.
    """
    found = model.ordered(nearest_order(model, to))
    cells = found.cells.ravel()
    equal = model.leader is None or np.allclose(cells, cells[model.leader.ravel()], rtol=0, atol=SAME)
    return found if equal and (found.numbers is None or found.numbers.meets_constraints) else model


def nearest_order(model: LatentClasses, to: LatentClasses) -> np.ndarray:
    """Return the order of a model's classes in which their profiles are nearest to those of another model.

    The sum of squared differences of item-response probabilities, and of means and standard deviations of continuous
    columns in the units of the columns, is minimised over all orders (Kuhn 1955), but for
    those in which constraints would hold other probabilities than they do.
    """
    from scipy.optimize import linear_sum_assignment

    apart = ((to.coordinates[:, None, :] - model.coordinates[None, :, :]) ** 2).sum(axis=2)
    if model.held is not None:
        fixed = np.where(model.held, model.cells, -1.0)
        apart[(np.abs(fixed[:, None, :] - fixed[None, :, :]) > SAME).any(axis=2)] = np.inf
    found: np.ndarray = linear_sum_assignment(apart)[1]
    return found


def class_order(model: LatentClasses, by: Any) -> np.ndarray:
    """Return the present numbers of the classes in a new order.

    Args:
        model: the classes.
        by: "size", the largest first; (item, level), where the level is most frequent first; or the order itself.
    """
    if isinstance(by, str) and by == "size":
        return np.argsort(-model.prior, kind="stable")
    given = list(by) if isinstance(by, (list, tuple, np.ndarray, range)) else []
    if len(given) == 2 and isinstance(given[0], str):
        if given[0] not in model.names:
            raise unknown_name("column", given[0], model.names)
        item = model.names.index(given[0])
        if given[1] not in model.levels[item]:
            raise unknown_name("level", given[1], model.levels[item])
        return np.argsort(-model.tables[item][:, model.levels[item].index(given[1])], kind="stable")
    if sorted(map(str, given)) == sorted(str(k) for k in range(model.n_classes)):
        return np.array([int(k) for k in given])
    raise LearningError(
        f"must be 'size', a pair (column, level), or the numbers 0 to {model.n_classes - 1} in order. Got {by!r}.",
        setting="by",
        value=by,
    )


@dataclass(frozen=True, eq=False)
class SolutionComparison(Result):
    """The agreement of two assignments of the same rows to classes.

    Attributes:
        table: (classes of the first, classes of the second), the weight of the rows in both.
        matching: for each class of the first the class of the second that it is matched with, so that as many rows as
            possible agree; None where the second has fewer classes.
        agreement: the share of rows in matched classes.
        adjusted_rand: 1 if the two are the same but for the order, about 0 if they have nothing to do with each other
            (Hubert and Arabie 1985).
        frames: everything as pandas data frames, by name: "agreement", "summary", "notes".
    """

    _table_name = "agreement"

    table: np.ndarray
    matching: tuple[int | None, ...]
    agreement: float
    adjusted_rand: float

    @classmethod
    def of(
        cls, first: np.ndarray, second: np.ndarray, weights: np.ndarray, shape: tuple[int, int]
    ) -> SolutionComparison:
        """Return the comparison, from the class of each row in both solutions and its weight."""
        from scipy.optimize import linear_sum_assignment

        table = np.zeros(shape)
        np.add.at(table, (first, second), weights)
        one, other = linear_sum_assignment(-table)
        matched = dict(zip(one.tolist(), other.tolist(), strict=True))
        total = table.sum()
        return cls(
            table,
            tuple(matched.get(k) for k in range(shape[0])),
            float(table[one, other].sum() / total),
            _adjusted_rand(table),
        )

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per class of the first solution: the weight of its rows in each class of the other."""
        return [
            {"class": k}
            | {f"other {m}": float(value) for m, value in enumerate(row)}
            | {"matched_with": "" if match is None else f"other {match}"}
            for k, (row, match) in enumerate(zip(self.table, self.matching, strict=True))
        ]

    def _other_frames(self) -> dict[str, Any]:
        return {"summary": frame_of_records([{"agreement": self.agreement, "adjusted_rand": self.adjusted_rand}])}

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["", *(f"other {m}" for m in range(self.table.shape[1])), "matched with"]
        rows = [
            [f"class {k}", *(f"{value:,.0f}" for value in row), "-" if match is None else f"other {match}"]
            for k, (row, match) in enumerate(zip(self.table, self.matching, strict=True))
        ]
        return heads, rows

    @property
    def notes(self) -> list[str]:
        """The agreement of the two solutions, in sentences."""
        return [f"agreement {self.agreement:.1%}, adjusted Rand index {self.adjusted_rand:.4f}"]

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows()), *self.notes])

    def _repr_html_(self) -> str:
        return html_table(f"Two solutions: {self.notes[0]}", *self._rows())


def _adjusted_rand(table: np.ndarray) -> float:
    """Return the adjusted Rand index of a table of agreement, which is 0 for agreement by chance."""

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1)).sum() / 2)

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    total = pairs(np.array([table.sum()]))
    chance = rows * columns / total if total > 0 else 0.0
    most = (rows + columns) / 2
    return 1.0 if most - chance == 0 else float((both - chance) / (most - chance))
