"""Model files (`.fgrn`): a network with all it knows, as a document and tensors in a container.

The document has the `version` of the format, the version of `fgrn` that wrote it, the `variables` (name and
states), the `blocks` in order (kind, variables by name, learn, tie, tensors of its start and support), and the
`tables` and `priors` (tensor, names, whether it waits for a random start). A value that is the default is left
out. `trained` says how it was taught, and `estimator`, if there is one, what `estimator_file` tells. Keys and tensors
that are not known here are ignored, so that version 1 can grow.

    "table/<number>", "prior/<number>"     tensors as they are now
    "start/<block>", "support/<block>"     as they were given

What the bytes look like, and why they can do no harm, is told in `container`. Here no array is made before the
container has found it in the file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import isfinite
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..chain import Chain
from ..exceptions import FgrnError, ModelFileError
from ..graph import PRODUCT_SPACE_LIMIT, SISO, Block, Diverter, Factor, Source
from ..labels import Label
from ..network import Network
from ..parameters import Parameters
from ..supervisor import layout_of
from ..tables import ROW_SUM_TOLERANCE
from ..variable import Variable
from ..wiring import Wiring
from .container import Container, Readable, Refused, opened, packed, reason, shown, value_of, write
from .estimator_file import described, restored

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator

FORMAT_VERSION = 1
"""Goes up when the code of before would misread a file; what it may ignore is added without."""


def save(model: Network | LatentEstimator, path: str | os.PathLike[str]) -> None:
    """Write a network or a fitted estimator to a model file: all of it or, where that fails, nothing.

    The bytes are read back and compared before the disk is touched: what is saved can be loaded. An older file is as it
    was if it cannot be written.
    """
    place = Path(path)
    failed = f"The model cannot be saved as {str(place)!r}"
    network = model if isinstance(model, Network) else model.network_
    try:
        data = _encoded(network, {} if isinstance(model, Network) else {"estimator": described(model)})
        again, document = _decoded(io.BytesIO(data))
        same = again == network
        if not isinstance(model, Network):
            same &= described(restored(document, again)) == described(model)
        if not same:
            raise Refused("it does not come back as it was; please report this.")
    except Refused as problem:
        raise ModelFileError(f"{failed}: {problem.args[0]}") from problem
    try:
        write(place, data)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: links in a circle, a zero in the name
        missing = isinstance(error, FileNotFoundError)
        why = f"there is no folder {str(place.parent)!r}" if missing else reason(error)
        raise ModelFileError(f"{failed}: {why}. Save it somewhere else; an older file is as it was.") from error


def load(path: str | os.PathLike[str]) -> Network | LatentEstimator:
    """What is in a model file, a network or an estimator; equal to what was saved, bit for bit."""
    place = Path(path)
    failed = f"The model file {str(place)!r} cannot be read"
    try:
        with opened(place) as file:
            network, document = _decoded(file)
        return restored(document, network) if "estimator" in document else network
    except Refused as problem:
        raise ModelFileError(f"{failed}: {problem}") from problem.__cause__
    except FileNotFoundError as error:
        raise ModelFileError(f"There is no model file {str(place)!r}. Check the name and the folder.") from error
    except OSError as error:
        raise ModelFileError(f"{failed}: {reason(error)}. Check the name and the permissions.") from error
    except MemoryError as error:
        raise ModelFileError(f"{failed}: there is too little memory for it. Use a larger machine.") from error


# From a network to bytes


def _encoded(network: Network, beside: Mapping[str, object]) -> bytes:
    layout, parameters = network._spec.layout, network._parameters
    tensors: dict[str, np.ndarray] = {}

    def current(name: str, array: np.ndarray, names: Sequence[str], undrawn: bool) -> dict[str, object]:
        tensors[name] = array
        return {"tensor": name, "names": list(names)} | ({"undrawn": True} if undrawn else {})

    document: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "fgrn": __version__,
        "variables": [{"name": variable.name, "states": _states(variable)} for variable in network.variables],
        "blocks": [_block_record(block, number, tensors) for number, block in enumerate(network.blocks)],
        "tables": [
            current(f"table/{n}", layout.table(parameters.values, n), names, n in parameters.undrawn_tables)
            for n, names in enumerate(layout.table_names)
        ],
        "priors": [
            current(f"prior/{n}", layout.prior(parameters.values, n), [name], n in parameters.undrawn_priors)
            for n, name in enumerate(layout.prior_names)
        ],
    }
    if isinstance(network, Chain):
        document["chain"] = {"link": list(network.link), "sequence": network.sequence}
    if network.trained:
        document["trained"] = list(network.trained)
    return packed({**document, **beside}, tensors)


def _states(variable: Variable) -> int | list[object]:
    if not variable.is_labelled:
        return variable.cardinality
    for label in variable.labels:
        if isinstance(label, int) and label.bit_length() > 64:
            raise Refused(f"{shown(variable.name)} has a label of more than 64 bits. Make it a string.")
    # JSON knows no infinity
    return [{"float": str(label)} if label in (np.inf, -np.inf) else label for label in variable.labels]


def _block_record(block: Block, number: int, tensors: dict[str, np.ndarray]) -> dict[str, object]:
    if isinstance(block, Diverter):
        inputs, outputs = ([one.name for one in side] for side in (block.inputs, block.outputs))
        return {"kind": "diverter", "inputs": inputs, "outputs": outputs}
    if isinstance(block, Factor):
        raise Refused("it is a tree of clusters.", "Save the model it was made from, or write that with fgrn.write.")
    record: dict[str, object]
    if isinstance(block, Source):
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


# From bytes to a network


def _decoded(file: Readable) -> tuple[Network, dict[str, Any]]:
    """The network, and the document; first what the file claims, then how it is wired, at last the numbers."""
    container = Container(file, _check_version)
    document = container.document
    variables = _variables(document)
    records = _records(document, "blocks")
    blocks = [_bare_block(record, variables) for record in records]
    with _wiring_errors():
        layout = layout_of(Wiring(tuple(blocks)).blocks)
    for block, record in zip(blocks, records, strict=True):
        _want_given(container, block, record)
    shapes = [(size,) for size in layout.prior_sizes]
    tables, undrawn_tables = _want_current(container, "tables", layout.table_names, layout.table_shapes)
    priors, undrawn_priors = _want_current(container, "priors", [(name,) for name in layout.prior_names], shapes)
    arrays = container.tensors(_check_rows)
    with _wiring_errors():
        given = [_with_given(block, record, arrays) for block, record in zip(blocks, records, strict=True)]
        network = _chain(document, given) if "chain" in document else Network(given)
    values = _values(network, [arrays[name] for name in tables], [arrays[name] for name in priors])
    network._parameters = Parameters(values, undrawn_tables, undrawn_priors)
    network._trained = tuple(_records(document, "trained")) if "trained" in document else ()
    return network, document


def _chain(document: dict[str, Any], blocks: list[Block]) -> Chain:
    record = value_of(dict, document, "chain", "its description")
    link = value_of(list, record, "link", "its chain")
    if not all(isinstance(name, str) for name in link):
        raise Refused(f"its chain links {shown(link)}, which are no two names.")
    return Chain(blocks, tuple(link), value_of(str, record, "sequence", "its chain"))


@contextmanager
def _wiring_errors() -> Iterator[None]:
    try:
        yield
    except FgrnError as error:
        raise Refused(str(error)[:500]) from error


def _check_version(document: dict[str, Any]) -> None:
    version, writer = value_of(int, document, "version", "its description"), document.get("fgrn")
    if version > FORMAT_VERSION:
        known = isinstance(writer, str) and re.fullmatch(r"[0-9]{1,6}(\.[0-9a-z]{1,9}){0,4}", writer)
        raise Refused(
            f"it has format {version}, written by fgrn {writer if known else '(a later one)'}; "
            f"this is fgrn {__version__}, which reads formats up to {FORMAT_VERSION}.",
            f"Upgrade: pip install --upgrade 'fgrn{f'>={writer}' if known else ''}'.",
        )
    if version < 1:
        raise Refused(f"there is no format {version}.")


def _records(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    records = value_of(list, document, key, "its description")
    for record in records:
        if not isinstance(record, dict):
            raise Refused(f"{shown(record)} is among its {key}.")
    return records


def _variables(document: dict[str, Any]) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for record in _records(document, "variables"):
        name = value_of(str, record, "name", "a variable")
        what = f"the variable {shown(name)}"
        if name in variables:
            raise Refused(f"{what} is there twice.")
        states = record.get("states")
        if type(states) is not int:
            states = [_label(label, what) for label in value_of(list, record, "states", what)]
        elif states > PRODUCT_SPACE_LIMIT:
            raise Refused(f"{what} has {states:,} states; the limit is {PRODUCT_SPACE_LIMIT:,}.")
        with _wiring_errors():
            variables[name] = Variable(name, states)
    return variables


def _label(value: object, what: str) -> Label:
    if isinstance(value, dict) and value.get("float") in ("inf", "-inf"):
        return float(value["float"])
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise Refused(f"{what} has {shown(value)} as a label.")


def _bare_block(record: dict[str, Any], variables: dict[str, Variable]) -> Block:
    """A block without its numbers."""
    kind = value_of(str, record, "kind", "a block")
    what = f"a block of kind {shown(kind)}"

    def variable(name: object) -> Variable:
        if not isinstance(name, str) or name not in variables:
            raise Refused(f"{what} is on the variable {shown(name)}, which is not there.")
        return variables[name]

    learn = value_of(bool, record, "learn", what) if "learn" in record else True
    tie = value_of(str, record, "tie", what) if "tie" in record else None
    with _wiring_errors():
        if kind == "source":
            return Source(variable(record.get("variable")), None, learn)
        if kind == "siso":
            return SISO(variable(record.get("input")), variable(record.get("output")), None, learn, tie=tie)
        if kind == "diverter":
            inputs = [variable(name) for name in value_of(list, record, "inputs", what)]
            outputs = [variable(name) for name in value_of(list, record, "outputs", what)]
            # Diverter checks both too, but first multiplies all of them, however many
            if len({one.name for one in (*inputs, *outputs)}) < len(inputs) + len(outputs):
                raise Refused(f"{what} has the same variable more than once.")
            sizes = accumulate((one.cardinality for one in inputs), mul)
            if any(size > PRODUCT_SPACE_LIMIT for size in sizes):
                raise Refused(f"{what} has more than {PRODUCT_SPACE_LIMIT:,} states.")
            return Diverter(inputs, outputs)
    raise Refused(f"there is {what}.", "A newer fgrn may know it: pip install --upgrade fgrn.")


def _want_given(container: Container, block: Block, record: dict[str, Any]) -> None:
    """Asks for the start and the support of a block."""
    shape = tuple(variable.cardinality for variable in (*block.reads, *block.drives))
    for key, dtype, kinds in (("start", "F64", (Source, SISO)), ("support", "BOOL", (SISO,))):
        if key in record and isinstance(block, kinds):
            what = f"the {key} of {shown(block.drives[0].name)}"
            container.want(value_of(str, record, key, what), what, dtype, shape)


def _want_current(
    container: Container, key: str, groups: Sequence[tuple[str, ...]], shapes: Sequence[tuple[int, ...]]
) -> tuple[list[str], frozenset[int]]:
    """Asks for all tables, or all priors; the names of their tensors, and which wait for a random start."""
    tensors, undrawn = [""] * len(groups), set()
    numbers = {frozenset(names): number for number, names in enumerate(groups)}
    for record in _records(container.document, key):
        names = value_of(list, record, "names", f"one of its {key}")
        number = numbers.pop(frozenset(names), -1) if all(type(name) is str for name in names) else -1
        if number < 0:
            raise Refused(f"{shown(names)} is among its {key}: not known, or there twice.")
        what = f"the {key[:-1]} of {shown(names[0])}"
        tensors[number] = value_of(str, record, "tensor", what)
        container.want(tensors[number], what, "F64", shapes[number])
        if "undrawn" in record and value_of(bool, record, "undrawn", what):
            undrawn.add(number)
    if numbers:
        raise Refused(f"{shown(sorted(next(iter(numbers))))} is not among its {key}.")
    return tensors, frozenset(undrawn)


def _check_rows(rows: np.ndarray, first: int, what: str) -> None:
    """Refuses rows that are no distributions; the first of them has the number `first`."""
    with np.errstate(invalid="ignore"):
        bad = ~((rows >= 0) & (rows <= 1 + ROW_SUM_TOLERANCE))
    if bad.any():
        row, column = divmod(int(bad.argmax()), rows.shape[1])
        raise Refused(f"{what} holds {rows[row, column]} in row {first + row}, which is no probability.")
    off = np.abs((sums := rows.sum(axis=1)) - 1) > ROW_SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise Refused(f"{what} sums to {sums[row]:.9g} in row {first + row}, not to 1.")


def _with_given(block: Block, record: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Block:
    """The block with its start and support, which are those of the file to the last bit."""
    if isinstance(block, (Diverter, Factor)):
        return block
    start = arrays[record["start"]] if "start" in record else None
    full: Source | SISO
    if isinstance(block, Source):
        full = Source(block.variable, start, block.learn)
    else:
        support = arrays[record["support"]] if "support" in record else None
        full = SISO(block.input, block.output, start, block.learn, tie=block.tie, support=support)
    if start is not None:
        start.setflags(write=False)
        # a block divides rows by their sums once more, which may move the last bit
        object.__setattr__(full, "prior" if isinstance(full, Source) else "table", start)
    return full


def _values(network: Network, tables: list[np.ndarray], priors: list[np.ndarray]) -> np.ndarray:
    """All tables and priors as one vector."""
    spec, layout = network._spec, network._spec.layout
    values = np.empty(layout.size)
    for number, (table, support) in enumerate(zip(tables, spec.supports, strict=True)):
        if support is not None and table[~support].any():
            raise Refused(f"a table of {table.shape} is not zero outside its support.")
        layout.table(values, number)[...] = table
    for number, prior in enumerate(priors):
        layout.prior(values, number)[...] = prior
    return values
