"""Products of the factors that are connected to one Diverter, computed once for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..plan.plan import Plan

SMALLEST = 2.0**-960
"""Rows that need a product of factors below this, but not zero, are left to the reference engine: digits are lost."""


@dataclass(frozen=True)
class Product:
    """The product of the factors that are connected to a Diverter, computed once for all rows.

    It lies behind the parameters, from `at` on, with its smallest positive number before it.
    """

    diverter: int
    sources: tuple[tuple[int, int], ...]  # with the leg of each
    at: int


class ProductCache:
    """A cache of the products for the last parameters, which several queries to one model share."""

    def __init__(self) -> None:
        self._last: tuple[np.ndarray, tuple[np.ndarray, bool]] | None = None

    def of(self, plan: Plan, products: Sequence[Product], values: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return `with_products(...)`, from the cache if `values` are those of the last call (they never change)."""
        last = self._last  # another thread may put another one there
        if last is None or last[0] is not values:
            self._last = last = (values, with_products(plan, products, values))
        return last[1]


def with_products(plan: Plan, products: Sequence[Product], values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the parameters with the products appended, and whether a product may have underflowed."""
    last = products[-1]
    out = np.empty(last.at + int(plan.diverter_size[last.diverter]))
    out[: plan.layout.size] = values[: plan.layout.size]
    is_deep = False
    for product in products:
        size = int(plan.diverter_size[product.diverter])
        room = out[product.at : product.at + size]
        room[...] = 1.0
        bound = 1.0  # no factor is above 1
        for source, leg in product.sources:
            factor, index = plan.source_values(values, source), plan.leg_index(product.diverter, leg)
            room *= factor if index is None else factor[index]
            bound *= factor.min(initial=1.0, where=factor > 0)
        if bound < SMALLEST:  # the smallest of all factors may never meet
            bound = _smallest(plan, product, values)
        is_deep |= bound < SMALLEST
        out[product.at - 1] = bound
    return out, is_deep


def _smallest(plan: Plan, product: Product, values: np.ndarray) -> float:
    """Return the smallest positive value of a product, computed in the log domain."""
    total = np.zeros(int(plan.diverter_size[product.diverter]))
    with np.errstate(divide="ignore"):
        for source, leg in product.sources:
            factor, index = np.log(plan.source_values(values, source)), plan.leg_index(product.diverter, leg)
            total += factor if index is None else factor[index]
    return float(np.exp(total.min(initial=0.0, where=total > -np.inf)))
