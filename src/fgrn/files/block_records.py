"""The record of a block in a model file: its kind, its variables, and the tables given by the user.

`KINDS_OF_RECORD` has an entry for each kind of block: how it is written, how it is read, and its tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from ..core.variable import Variable
from ..graph.blocks import PRODUCT_SPACE_LIMIT, SISO, Block, Diverter, Factor, Source
from .container import Container, Refused, short_repr, value_of
from .records import NEWER, refusing_invalid_models


class BlockFields(NamedTuple):
    """The fields of a record being read: `find` returns a variable by its name, `what` names the block in errors."""

    record: Mapping[str, Any]
    find: Callable[[object], Variable]
    what: str
    learn: bool
    tie: str | None

    def variable(self, key: str) -> Variable:
        """Return the variable named in a field."""
        return self.find(self.record.get(key))

    def variables(self, key: str) -> list[Variable]:
        """Return the variables named in a list."""
        return [self.find(name) for name in value_of(list, self.record, key, self.what)]


class RecordKind(NamedTuple):
    """The functions that write and read one kind of block.

    block     its class
    encode    from a block to the fields that are its own
    decode    from the fields to a block without tensors
    tensors   the attribute of the block for each tensor that a user may have given
    given     from a block, a start and a support to the block with these; None for a block without tensors
    """

    block: type
    encode: Callable[[Any], dict[str, object]]
    decode: Callable[[BlockFields], Block]
    tensors: Mapping[str, str]
    given: Callable[[Any, np.ndarray | None, np.ndarray | None], Block] | None


def encode_block(block: Block, number: int, tensors: dict[str, np.ndarray]) -> dict[str, object]:
    """Return the record of a block, and add the tensors given by the user to `tensors`."""
    name, kind = next((name, kind) for name, kind in KINDS_OF_RECORD.items() if type(block) is kind.block)
    record: dict[str, object] = {"kind": name, **kind.encode(block)}
    record |= {} if getattr(block, "tie", None) is None else {"tie": block.tie}  # type: ignore[union-attr]
    record |= {} if getattr(block, "learn", True) else {"learn": False}
    for key, attribute in kind.tensors.items():
        array = getattr(block, attribute)
        if array is not None:
            record[key] = f"{key}/{number}"
            tensors[f"{key}/{number}"] = array
    return record


def bare_block(record: dict[str, Any], variables: dict[str, Variable]) -> Block:
    """Return a block without its tensors."""
    kind = value_of(str, record, "kind", "a block")
    what = f"a block of kind {short_repr(kind)}"

    def find(name: object) -> Variable:
        if not isinstance(name, str) or name not in variables:
            raise Refused(f"{what} is on the variable {short_repr(name)}, which is not there.")
        return variables[name]

    learn = value_of(bool, record, "learn", what) if "learn" in record else True
    tie = value_of(str, record, "tie", what) if "tie" in record else None
    if kind not in KINDS_OF_RECORD:
        raise Refused(f"there is {what}.", NEWER)
    with refusing_invalid_models():
        return KINDS_OF_RECORD[kind].decode(BlockFields(record, find, what, learn, tie))


def request_given(container: Container, block: Block, record: dict[str, Any]) -> None:
    """Request the tensors of the initial table and the support of a block."""
    shape = tuple(variable.cardinality for variable in (*block.reads, *block.drives))
    shape = block.shape if isinstance(block, Factor) else shape
    for key in KINDS_OF_RECORD[record["kind"]].tensors:
        if key in record:
            what = f"the {key} of {short_repr(block.drives[0].name)}"
            container.want(value_of(str, record, key, what), what, "BOOL" if key == "support" else "F64", shape)


def with_given(block: Block, record: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Block:
    """Return the block with its initial table and support from the file, bit for bit."""
    kind = KINDS_OF_RECORD[record["kind"]]
    if kind.given is None:
        return block
    start, support = (arrays[record[key]] if key in record else None for key in ("start", "support"))
    full = kind.given(block, start, support)
    if start is not None:
        start.setflags(write=False)
        # a block divides rows by their sums again, which may change the last bit
        object.__setattr__(full, kind.tensors["start"], start)
    return full


# Each kind of block


def _encode_factor(block: Factor) -> dict[str, object]:
    """Return the specific fields of a Factor; an error for one of a Markov network, or with a `TableForm`."""
    if not block.sums_to_one:
        raise Refused("it is a Markov network.", "Save the model it was made from, or write that with fgrn.write.")
    if block.form is not None:
        raise Refused(f"its table {block.name!r} is a compact table.", "Save the model it was made from.")
    return {"variable": block.variable.name, "name": block.name, "shape": list(block.shape)}


def _decode_factor(fields: BlockFields) -> Factor:
    record, what = fields.record, fields.what
    shape = value_of(list, record, "shape", what)
    if len(shape) != 2 or not all(type(size) is int and size > 0 for size in shape):
        raise Refused(f"{what} has the shape {short_repr(shape)}.")
    name = value_of(str, record, "name", what)
    return Factor(fields.variable("variable"), name, (shape[0], shape[1]), None, fields.learn, tie=fields.tie)


def _encode_diverter(block: Diverter) -> dict[str, object]:
    """Return the specific fields of a Diverter; its product space only if it is not that of its inputs."""
    inputs, outputs = ([one.name for one in side] for side in (block.inputs, block.outputs))
    record: dict[str, object] = {"inputs": inputs, "outputs": outputs}
    parts = [name for name, _ in block.space]
    plain = [*([(axis,) for axis in range(len(inputs))] if len(inputs) > 1 else [None]), *[None for _ in outputs]]
    if parts != inputs or list(block.legs) != plain:
        record["space"] = [[name, size] for name, size in block.space]
        carried = zip([*inputs, *outputs], block.legs, strict=True)
        record["legs"] = {name: [parts[axis] for axis in axes] for name, axes in carried if axes is not None}
    return record


def _decode_diverter(fields: BlockFields) -> Diverter:
    record, what = fields.record, fields.what
    inputs, outputs = fields.variables("inputs"), fields.variables("outputs")
    # Diverter checks this too, but only after multiplying all sizes, however many
    if len({one.name for one in (*inputs, *outputs)}) < len(inputs) + len(outputs):
        raise Refused(f"{what} has the same variable more than once.")
    space = _product_space(record, what)
    parts = [one.cardinality for one in inputs] if space is None else list(space.values())
    if any(size > PRODUCT_SPACE_LIMIT for size in accumulate(parts, mul)):
        raise Refused(f"{what} has more than {PRODUCT_SPACE_LIMIT:,} states.")
    return Diverter(inputs, outputs, space=space, legs=None if space is None else _legs(record, what))


def _product_space(record: Mapping[str, Any], what: str) -> dict[str, int] | None:
    """Return the parts of the product space of a Diverter, if they are not its inputs."""
    if "space" not in record:
        return None
    pairs = value_of(list, record, "space", what)
    for pair in pairs:
        if not isinstance(pair, list) or list(map(type, pair)) != [str, int] or pair[1] < 1:
            raise Refused(f"{what} has {short_repr(pair)} in its product space.")
    return dict(pairs)


def _legs(record: Mapping[str, Any], what: str) -> dict[str, list[str]]:
    """Return the parts of the product space that each variable of a Diverter carries."""
    found = value_of(dict, record, "legs", what)
    for parts in found.values():
        if not isinstance(parts, list) or not all(type(part) is str for part in parts):
            raise Refused(f"a variable on {what} carries {short_repr(parts)}.")
    return found


KINDS_OF_RECORD = {
    "source": RecordKind(
        Source,
        lambda block: {"variable": block.variable.name},
        lambda fields: Source(fields.variable("variable"), None, fields.learn),
        {"start": "prior"},
        lambda block, start, support: Source(block.variable, start, block.learn),
    ),
    "factor": RecordKind(
        Factor,
        _encode_factor,
        _decode_factor,
        {"start": "table", "support": "support"},
        lambda block, start, support: Factor(
            block.variable, block.name, block.shape, start, block.learn, tie=block.tie, support=support
        ),
    ),
    "siso": RecordKind(
        SISO,
        lambda block: {"input": block.input.name, "output": block.output.name},
        lambda fields: SISO(fields.variable("input"), fields.variable("output"), None, fields.learn, tie=fields.tie),
        {"start": "table", "support": "support"},
        lambda block, start, support: SISO(
            block.input, block.output, start, block.learn, tie=block.tie, support=support
        ),
    ),
    "diverter": RecordKind(Diverter, _encode_diverter, _decode_diverter, {}, None),
}
"""Each kind of block by its name in files."""
