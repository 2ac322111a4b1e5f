"""Model files (`.fgrn`): a network with all it knows, as a document and tensors in a container.

The document has the `version` of the format, the version of `fgrn` that wrote it, the `variables` (name and
states), the `blocks` in order (kind, variables by name, learn, tie, tensors of its start and support), and the
`tables` and `priors` (tensor, names, whether it waits for a random start). A value that is the default is left
out. `trained` says how it was taught, `online`, if its tables are from batches, what was counted in these, and
`estimator`, if there is one, what `estimator_file` tells. Keys and tensors that are not known here are ignored, so that
version 1 can grow.

    "table/<number>", "prior/<number>"     tensors as they are now
    "start/<block>", "support/<block>"     as they were given
    "online"                               expected counts per row, all tables and then all priors

What the bytes look like, and why they can do no harm, is told in `container`. Here no array is made before the
container has found it in the file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..bayes.factored import FactoredModel
from ..core.exceptions import ModelFileError, Remedy
from ..core.variable import Variable
from ..core.whole_file import reason, write
from ..flow.online import Online
from ..flow.parameters import Parameters
from ..graph.blocks import PRODUCT_SPACE_LIMIT, SISO, Block, Diverter, Factor, Source
from ..graph.chain import Chain
from ..graph.network import Network
from ..graph.supervisor import layout_of
from ..graph.wiring import Wiring
from . import factored_file
from .container import Container, Readable, Refused, opened, packed, shown, value_of
from .estimator_file import described, restored
from .records import NEWER, check_rows, records_of, states_of, variables_of, wiring_errors

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator

FORMAT_VERSION = 1
"""Goes up when the code of before would misread a file; what it may ignore is added without."""

COUNTED = "what was counted in batches"
"""What the tensor of running counts is called in messages."""

HEAD = {"version": FORMAT_VERSION, "fgrn": __version__}


def save(model: Network | FactoredModel | LatentEstimator, path: str | os.PathLike[str]) -> None:
    """Write a network, of any kind, or a fitted estimator to a model file: all of it or, where that fails, nothing.

    The bytes are read back and compared before the disk is touched: what is saved can be loaded. An older file is as it
    was if it cannot be written.
    """
    place = Path(path)
    failed = f"The model cannot be saved as {str(place)!r}"
    try:
        data = _bytes_of(model)
        if not _same(_read(io.BytesIO(data)), model):
            raise Refused("it does not come back as it was; please report this.")
    except Refused as problem:
        raise ModelFileError(f"{failed}: {problem.what}", value=str(place)) from problem
    try:
        write(place, data)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: links in a circle, a zero in the name
        raise ModelFileError(
            f"{failed}: {reason(error)}. An older file is as it was.",
            value=str(place),
            remedies="save it somewhere else",
        ) from error


def _bytes_of(model: Network | FactoredModel | LatentEstimator) -> bytes:
    if isinstance(model, FactoredModel):
        return packed(*factored_file.encoded(model, HEAD))
    if isinstance(model, Network):
        return _encoded(model, {})
    return _encoded(model.network_, {"estimator": described(model)})


def _read(file: Readable) -> Network | FactoredModel | LatentEstimator:
    container = Container(file, _check_version)
    if "model" in container.document:
        return factored_file.decoded(container)
    network = _decoded(container)
    return restored(container.document, network) if "estimator" in container.document else network


def _same(again: Any, model: Any) -> bool:
    if isinstance(model, FactoredModel):
        return bool(again == model)
    if isinstance(model, Network):
        return bool(again == model and again.online_state == model.online_state)
    return _same(again.network_, model.network_) and described(again) == described(model)


def load(path: str | os.PathLike[str]) -> Network | FactoredModel | LatentEstimator:
    """What is in a model file, a network or an estimator; equal to what was saved, bit for bit."""
    place = Path(path)
    failed = f"The model file {str(place)!r} cannot be read"
    try:
        with opened(place) as file:
            return _read(file)
    except Refused as problem:
        raise ModelFileError(
            f"{failed}: {problem.what}", value=str(place), remedies=problem.remedy
        ) from problem.__cause__
    except FileNotFoundError as error:
        raise ModelFileError(
            f"There is no model file {str(place)!r}.", value=str(place), remedies="check the name and the folder"
        ) from error
    except OSError as error:
        raise ModelFileError(f"{failed}: {reason(error)}. Check the name and the permissions.") from error
    except MemoryError as error:
        raise ModelFileError(f"{failed}: there is too little memory for it. Use a larger machine.") from error


# From a network to bytes


def _encoded(network: Network, beside: Mapping[str, object]) -> bytes:
    document, tensors = network_parts(network, network._parameters)
    more, counts = online_parts(network.online_state)
    return packed({**document, **more, **beside}, {**tensors, **counts})


def online_parts(state: Online | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the tensors of what was counted in batches."""
    if state is None:
        return {}, {}
    record: dict[str, Any] = {"power": float(state.power), "batches": state.batches, "weight": float(state.weight)}
    record |= {} if state.effective_size is None else {"effective_size": float(state.effective_size)}
    return {"online": {**record, "tensor": "online"}}, {"online": state.running}


def network_parts(network: Network, parameters: Parameters) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the tensors of a network, with these parameters."""
    layout = network._spec.layout
    tensors: dict[str, np.ndarray] = {}

    def current(name: str, array: np.ndarray, names: Sequence[str], undrawn: bool) -> dict[str, object]:
        tensors[name] = array
        return {"tensor": name, "names": list(names)} | ({"undrawn": True} if undrawn else {})

    document: dict[str, Any] = {
        **HEAD,
        "variables": [{"name": variable.name, "states": states_of(variable)} for variable in network.variables],
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
    return document, tensors


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


def _decoded(container: Container) -> Network:
    """The network; first what the file claims, then how it is wired, at last the numbers."""
    document = container.document
    variables = variables_of(document)
    records = records_of(document, "blocks")
    blocks = [_bare_block(record, variables) for record in records]
    with wiring_errors():
        layout = layout_of(Wiring(tuple(blocks)).blocks)
    for block, record in zip(blocks, records, strict=True):
        _want_given(container, block, record)
    shapes = [(size,) for size in layout.prior_sizes]
    tables, undrawn_tables = _want_current(container, "tables", layout.table_names, layout.table_shapes)
    priors, undrawn_priors = _want_current(container, "priors", [(name,) for name in layout.prior_names], shapes)
    if "online" in document:
        container.want(_online_record(document)["tensor"], COUNTED, "F64", (layout.size,))
    arrays = container.tensors(_check_numbers)
    with wiring_errors():
        given = [_with_given(block, record, arrays) for block, record in zip(blocks, records, strict=True)]
        network = _chain(document, given) if "chain" in document else Network(given)
    values = _values(network, [arrays[name] for name in tables], [arrays[name] for name in priors])
    network._parameters = Parameters(values, undrawn_tables, undrawn_priors)
    network._trained = tuple(records_of(document, "trained")) if "trained" in document else ()
    if "online" in document:
        network._counted = network._parameters, _online(_online_record(document), arrays)
    return network


def _online_record(document: dict[str, Any]) -> dict[str, Any]:
    record = value_of(dict, document, "online", "its description")
    value_of(str, record, "tensor", COUNTED)
    return record


def _online(record: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Online:
    batches, size = value_of(int, record, "batches", COUNTED), record.get("effective_size")
    weight = value_of(float, record, "weight", COUNTED)
    if batches < 0 or not 0 < weight < np.inf:
        raise Refused(f"{COUNTED} is of {batches} batches with the weight {weight}.")
    with wiring_errors():
        return Online(value_of(float, record, "power", COUNTED), size, batches, weight, arrays[record["tensor"]])


def _check_numbers(rows: np.ndarray, first: int, what: str) -> None:
    """Refuses counts that are none, and rows of tables that are no distributions."""
    if what != COUNTED:
        check_rows(rows, first, what)
    elif not (np.isfinite(rows) & (rows >= 0)).all():
        raise Refused(f"{what} holds numbers that are no counts.")


def _chain(document: dict[str, Any], blocks: list[Block]) -> Chain:
    record = value_of(dict, document, "chain", "its description")
    link = value_of(list, record, "link", "its chain")
    if not all(isinstance(name, str) for name in link):
        raise Refused(f"its chain links {shown(link)}, which are no two names.")
    return Chain(blocks, tuple(link), value_of(str, record, "sequence", "its chain"))


def _check_version(document: dict[str, Any]) -> None:
    if "checkpoint" in document and "version" not in document:
        raise Refused(
            "it is a checkpoint of learning without a model.",
            Remedy("go on from it", "`learn` and resume=True", resume=True),
        )
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
    with wiring_errors():
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
    raise Refused(f"there is {what}.", NEWER)


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
    for record in records_of(container.document, key):
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
