"""The record of a block in a model file: its kind, its variables, and the tensors that the user gave for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from ..core.variable import Variable
from ..graph.blocks import PRODUCT_SPACE_LIMIT, SISO, Block, Diverter, Factor, Source
from .container import Container, Refused, short_repr, value_of
from .records import NEWER, refusing_invalid_models


def encode_block(block: Block, number: int, tensors: dict[str, np.ndarray]) -> dict[str, object]:
    """Return the record of a block, and add the tensors given by the user to `tensors`."""
    if isinstance(block, Diverter):
        return _encode_diverter(block)
    record: dict[str, object]
    if isinstance(block, Factor):
        if not block.sums_to_one:
            raise Refused("it is a Markov network.", "Save the model it was made from, or write that with fgrn.write.")
        if block.form is not None:
            raise Refused(f"its table {block.name!r} is given by few parameters.", "Save the model it was made from.")
        record = {"kind": "factor", "variable": block.variable.name, "name": block.name, "shape": list(block.shape)}
        record |= {} if block.tie is None else {"tie": block.tie}
        given = {"start": block.table, "support": block.support}
    elif isinstance(block, Source):
        record = {"kind": "source", "variable": block.variable.name}
        given = {"start": block.prior}
    else:
        record = {"kind": "siso", "input": block.input.name, "output": block.output.name}
        record |= {} if block.tie is None else {"tie": block.tie}
        given = {"start": block.table, "support": block.support}
    record |= {} if block.learn else {"learn": False}
    for key, array in given.items():
        if array is not None:
            record[key] = f"{key}/{number}"
            tensors[f"{key}/{number}"] = array
    return record


def _encode_diverter(block: Diverter) -> dict[str, object]:
    """Return the record of a Diverter; what its product space is made of is there only if that is not its inputs."""
    inputs, outputs = ([one.name for one in side] for side in (block.inputs, block.outputs))
    record: dict[str, object] = {"kind": "diverter", "inputs": inputs, "outputs": outputs}
    parts = [name for name, _ in block.space]
    plain = [*([(axis,) for axis in range(len(inputs))] if len(inputs) > 1 else [None]), *[None for _ in outputs]]
    if parts != inputs or list(block.legs) != plain:
        record["space"] = [[name, size] for name, size in block.space]
        carried = zip([*inputs, *outputs], block.legs, strict=True)
        record["legs"] = {name: [parts[axis] for axis in axes] for name, axes in carried if axes is not None}
    return record


def bare_block(record: dict[str, Any], variables: dict[str, Variable]) -> Block:
    """Return a block without its tensors."""
    kind = value_of(str, record, "kind", "a block")
    what = f"a block of kind {short_repr(kind)}"

    def variable(name: object) -> Variable:
        if not isinstance(name, str) or name not in variables:
            raise Refused(f"{what} is on the variable {short_repr(name)}, which is not there.")
        return variables[name]

    learn = value_of(bool, record, "learn", what) if "learn" in record else True
    tie = value_of(str, record, "tie", what) if "tie" in record else None
    with refusing_invalid_models():
        if kind == "source":
            return Source(variable(record.get("variable")), None, learn)
        if kind == "siso":
            return SISO(variable(record.get("input")), variable(record.get("output")), None, learn, tie=tie)
        if kind == "factor":
            shape = value_of(list, record, "shape", what)
            if len(shape) != 2 or not all(type(size) is int and size > 0 for size in shape):
                raise Refused(f"{what} has the shape {short_repr(shape)}.")
            name = value_of(str, record, "name", what)
            return Factor(variable(record.get("variable")), name, (shape[0], shape[1]), None, learn, tie=tie)
        if kind == "diverter":
            inputs = [variable(name) for name in value_of(list, record, "inputs", what)]
            outputs = [variable(name) for name in value_of(list, record, "outputs", what)]
            # Diverter checks this too, but only after multiplying all sizes, however many
            if len({one.name for one in (*inputs, *outputs)}) < len(inputs) + len(outputs):
                raise Refused(f"{what} has the same variable more than once.")
            space = _product_space(record, what)
            parts = [one.cardinality for one in inputs] if space is None else list(space.values())
            if any(size > PRODUCT_SPACE_LIMIT for size in accumulate(parts, mul)):
                raise Refused(f"{what} has more than {PRODUCT_SPACE_LIMIT:,} states.")
            return Diverter(inputs, outputs, space=space, legs=None if space is None else _legs(record, what))
    raise Refused(f"there is {what}.", NEWER)


def _product_space(record: dict[str, Any], what: str) -> dict[str, int] | None:
    """Return what the product space of a Diverter is made of, if that is not its inputs."""
    if "space" not in record:
        return None
    pairs = value_of(list, record, "space", what)
    for pair in pairs:
        if not isinstance(pair, list) or list(map(type, pair)) != [str, int] or pair[1] < 1:
            raise Refused(f"{what} has {short_repr(pair)} in its product space.")
    return dict(pairs)


def _legs(record: dict[str, Any], what: str) -> dict[str, list[str]]:
    """Return which parts of the product space each variable of a Diverter carries."""
    found = value_of(dict, record, "legs", what)
    for parts in found.values():
        if not isinstance(parts, list) or not all(type(part) is str for part in parts):
            raise Refused(f"a variable on {what} carries {short_repr(parts)}.")
    return found


def request_given(container: Container, block: Block, record: dict[str, Any]) -> None:
    """Request the tensors of the start and the support of a block."""
    shape = tuple(variable.cardinality for variable in (*block.reads, *block.drives))
    shape = block.shape if isinstance(block, Factor) else shape
    for key, dtype, kinds in (("start", "F64", (Source, SISO, Factor)), ("support", "BOOL", (SISO, Factor))):
        if key in record and isinstance(block, kinds):
            what = f"the {key} of {short_repr(block.drives[0].name)}"
            container.want(value_of(str, record, key, what), what, dtype, shape)


def with_given(block: Block, record: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Block:
    """Return the block with its start and support from the file, bit for bit."""
    if isinstance(block, Diverter):
        return block
    start = arrays[record["start"]] if "start" in record else None
    support = arrays[record["support"]] if "support" in record else None
    full: Source | SISO | Factor
    if isinstance(block, Source):
        full = Source(block.variable, start, block.learn)
    elif isinstance(block, Factor):
        full = Factor(
            block.variable, block.name, block.shape, start, block.learn, tie=block.tie, support=support
        )  # fmt: skip
    else:
        full = SISO(block.input, block.output, start, block.learn, tie=block.tie, support=support)
    if start is not None:
        start.setflags(write=False)
        # a block divides rows by their sums again, which may change the last bit
        object.__setattr__(full, "prior" if isinstance(full, Source) else "table", start)
    return full
