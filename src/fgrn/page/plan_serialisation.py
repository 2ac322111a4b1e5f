"""Arrays of a Plan as bytes for the script of a page: one little-endian buffer, and the offset of each array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.network import Network
from ..plan.plan import Plan, Program
from ..queries.explanation import orders_of

TYPES_IN_PAGE = {"f8": "<f8", "i8": "<i4", "i4": "<i4", "i2": "<i2", "b1": "<u1"}


class Packed:
    """Arrays one after the other in a buffer, found by name: [type, first byte, number of values]."""

    def __init__(self) -> None:
        self.places: dict[str, list[Any]] = {}
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, name: str, values: Any) -> None:
        """Append an array: floats as float64, integers as int32 or int16, booleans as bytes."""
        array = np.asarray(values)
        kind = TYPES_IN_PAGE[array.dtype.str[1:]]
        self._parts.append(b"\0" * (-self.size % 8))  # a typed array of the browser begins at a multiple of its size
        self.size += len(self._parts[-1])
        data = np.ascontiguousarray(array, dtype=kind).tobytes()
        self.places[name] = [kind[1:], self.size, array.size]
        self._parts.append(data)
        self.size += len(data)

    def bytes(self) -> bytes:
        """The buffer."""
        return b"".join(self._parts)


def pack_plan(packed: Packed, plan: Plan, values: np.ndarray) -> None:
    """Add the index arrays of a Plan and the parameters it is run with."""
    packed.add("values", values)
    for name in (
        "cardinality", "offset", "driver", "reader", "source_edge", "source_at", "is_factor", "siso_input",
        "siso_output", "siso_table", "leg_start", "leg_edge", "leg_is_input", "leg_map", "maps", "diverter_size",
        "diverter_run",
    ):  # fmt: skip
        array = getattr(plan, name)
        packed.add(name, array if array.size else np.zeros(0, dtype=np.int32))
    packed.add("table_offset", plan.layout.table_offsets)
    packed.add("table_shape", np.array(plan.layout.table_shapes, dtype=np.int32).reshape(-1, 2))


def pack_refined(packed: Packed, networks: Sequence[Network]) -> None:
    """Add the parameters of networks with the same Plan, one network after the other."""
    packed.add("refined.values", np.concatenate([network._parameters.values for network in networks]))


def pack_orders(packed: Packed, most: int) -> None:
    """Add how many orders of up to `most` values an explanation has, and these orders; see `queries.explanation`."""
    orders = [orders_of(known) for known in range(most + 1)]
    packed.add("order_counts", np.array([len(some) for some in orders], dtype=np.int16))
    packed.add("orders", np.concatenate([order for some in orders for order in some]).astype(np.int16))


def pack_program(packed: Packed, name: str, program: Program) -> None:
    """Add the steps of a Program without gathered leaves, with its boundary, roots and shown edges."""
    packed.add(f"{name}.steps", program.steps)
    packed.add(f"{name}.targets", program.targets.astype(np.int32))
    packed.add(f"{name}.boundary", program.boundary.astype(np.int32))
    packed.add(f"{name}.roots", program.roots[:, 0].astype(np.int32))
