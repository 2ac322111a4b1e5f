"""The shape of evidence: the properties that a tape depends on, so that evidence of one shape shares a tape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence

MORE_CODES = 640
"""Codes of one pack where the tables of all packs together have at most MOST_CELLS: four leaves of 4."""

ROWS_PER_CODE = 32
"""Rows of data for every code of a pack, at least: its joint table is made anew in every epoch."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The properties of evidence that a tape depends on: observed variables, codes of each leaf, number of rows.

    `codes` are the states of a leaf, and one more if some row does not know it; 0 for a leaf that no row knows.
    `subtracts`: whether some row has a negative weight.
    """

    slot: np.ndarray
    soft_offset: np.ndarray
    codes: tuple[int, ...]  # of the gathered legs, in their order
    most_codes: int  # of a pack
    subtracts: bool

    @classmethod
    def of(cls, plan: Plan, program: Program, evidence: Evidence) -> Shape:
        """Return the shape of the evidence that a program runs on."""
        codes = []
        for siso in program.gathered[program.gathered >= 0].tolist():
            output = int(plan.siso_output[siso])
            known = evidence.slot[output] >= 0
            codes.append(int(plan.cardinality[output]) + (not evidence.is_complete(output)) if known else 0)
        # by powers of two: the same tape serves more or less as many rows
        enough = 2 ** int(evidence.rows // ROWS_PER_CODE).bit_length() // 2
        subtracts = evidence.is_weighted and bool((evidence.row_weights < 0).any())
        return cls(evidence.slot, evidence.soft_offset, tuple(codes), min(MORE_CODES, enough), subtracts)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for shapes with the same tape."""
        return self.slot.tobytes(), self.soft_offset.tobytes(), self.codes, self.most_codes, self.subtracts
