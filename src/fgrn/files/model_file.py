"""Model files (`.fgrn`): saving and loading networks and estimators, as a document and tensors in a container.

The document has the `version` of the format, the version of `fgrn` that wrote it, the `variables` (name and
states), the `blocks` in order (kind, variables by name, learn, tie, tensors of its start and support), and the
`tables` and `priors` (tensor, names, whether it waits for a random initialisation). Default values are left out.
`trained` says how the model was learnt, `online` has the expected counts of a model learnt in batches, and `estimator`
the record of an estimator (see `estimator_file`). Unknown keys and tensors are ignored, so that version 1 can be
extended.

    "table/<number>", "prior/<number>"     current tables and priors
    "start/<block>", "support/<block>"     tables, priors and supports as given by the user
    "online"                               expected counts per row, all tables and then all priors; then of continuous
                                           columns the weights, sums and sums of squares in each state
    "decision", "decision/second"          tables refined to predict the class, of one network or of two, whose
                                           geometric mean predicts it, one vector each, if the document has "decision",
                                           which may say how much they count in rows with missing values
    "mixture/..."                          trees that share tables with the network, see `mixture_file`
    "leaves"                               of continuous columns, if the document has "leaves", the means and then the
                                           logarithms of the variances, (2, states, columns), in units of the columns

`container` describes the bytes and the checks against malicious files. Here no array is created before the container
has found it in the file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .._version import __version__
from ..bayes.tree_mixture import TreeMixture
from ..core.exceptions import ModelFileError, Remedy
from ..core.refined_weight import RefinedWeight
from ..core.whole_file import reason_of, write_whole
from ..flow.gaussian_leaves import GaussianLeaves
from ..flow.online import Online
from ..flow.parameters import Parameters
from ..graph.blocks import Block
from ..graph.chain import Chain
from ..graph.network import Network
from ..graph.supervisor import layout_of
from ..graph.wiring import Wiring
from .block_records import bare_block, encode_block, request_given, with_given
from .container import Container, Readable, Refused, container_bytes, open_regular_file, short_repr, value_of
from .estimator_file import estimator_record, restore_estimator
from .leaves_record import CONTINUOUS_COLUMNS, check_leaves, leaves_record, read_leaves
from .mixture_file import mixture_parts, read_mixture, request_mixture
from .records import check_distributions, list_of_records, read_variables, refusing_invalid_models, states_of

if TYPE_CHECKING:
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram
    from ..estimators._base import LatentEstimator

    Saved: TypeAlias = (
        Network | TreeMixture | FactoredModel | InfluenceDiagram | DynamicBayesianNetwork | LatentEstimator
    )

FORMAT_VERSION = 2
"""Version of the model format; raised when older code would misread a file, not for keys it may ignore."""

COUNTED = "what was counted in batches"
COUNTED_NUMBERS = "what was counted in batches, with sums of numbers"
"""What messages call the tensor of running counts."""

DECIDING = "its tables that were refined for the class"
"""What the tensor of the tables that tell the class is called in messages."""

HEAD = {"version": 1, "fgrn": __version__}  # what older code reads, too


def save(model: Saved, path: str | os.PathLike[str]) -> None:
    """Write a network of any kind or a fitted estimator to a model file, completely or not at all.

    The bytes are read back and compared before anything is written, so what is saved can be loaded. An older file stays
    as it was if writing fails.
    """
    place = Path(path)
    failed = f"The model cannot be saved as {str(place)!r}"
    try:
        record = _record_of(model)
        data = _model_bytes(model, record)
        if not _is_equal(_read_model(io.BytesIO(data)), model, record):
            raise Refused("it would be read back differently; please report this.")
    except Refused as problem:
        raise ModelFileError(f"{failed}: {problem.what}", value=str(place)) from problem
    try:
        write_whole(place, data)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: circular links, a NUL in the name
        raise ModelFileError(
            f"{failed}: {reason_of(error)}. An older file is as it was.",
            value=str(place),
            remedies="save it somewhere else",
        ) from error


def _record_of(model: Saved) -> dict[str, Any]:
    """Return the record of an estimator, which takes a while where it has a report; an empty one for a network."""
    is_estimator = hasattr(model, "network_")
    return estimator_record(cast("LatentEstimator", model)) if is_estimator else {}


def _model_bytes(model: Saved, record: dict[str, Any]) -> bytes:
    """Return the bytes of the model file of a network, or of an estimator with its record."""
    if isinstance(model, Network):
        return _network_bytes(model, {})
    if isinstance(model, TreeMixture):
        return _network_bytes(model.network, *mixture_parts(model))
    if record:
        return _estimator_bytes(cast("LatentEstimator", model), record)
    from .factored_file import encode_model

    return container_bytes(
        *encode_model(cast("FactoredModel | InfluenceDiagram | DynamicBayesianNetwork", model), HEAD)
    )


def _estimator_bytes(model: LatentEstimator, record: dict[str, Any]) -> bytes:
    """Return the bytes of the model file of an estimator with its record."""
    beside: dict[str, Any] = {"estimator": record}
    arrays: dict[str, np.ndarray] = {}
    if hasattr(model, "decision_network_"):
        beside["decision"], arrays["decision"] = {"tensor": "decision"}, model.decision_network_._parameters.values
        weight = model._decision.weight
        if weight is not None:
            beside["decision"]["weight"] = {"usual": weight.usual, "power": weight.power}
            beside["version"] = 2  # code that does not know it would predict rows with missing values by refined tables
    if hasattr(model, "second_decision_network_"):
        beside["decision"]["second"] = "decision/second"
        arrays["decision/second"] = model.second_decision_network_._parameters.values
        beside["version"] = 2  # code that does not know it would predict by the first one alone
    if hasattr(model, "mixture_"):
        entry, tensors = mixture_parts(model.mixture_)
        beside, arrays = beside | entry, arrays | tensors
    return _network_bytes(model.network_, beside, arrays)


def _read_model(file: Readable) -> Saved:
    """Return the network or estimator in an open model file."""
    container = Container(file, _check_model_version)
    if "model" in container.document:
        from .factored_file import decode_factored

        return decode_factored(container)
    network, deciding, mixture = _decode_network(container)
    weight = _read_refined_weight(container.document)
    if "estimator" not in container.document:
        return network if mixture is None else mixture
    estimator = restore_estimator(container.document, network, mixture)
    estimator._decision.keep(deciding, weight)
    return estimator


def _is_equal(again: Any, model: Any, record: dict[str, Any]) -> bool:
    """Return whether a model read back from a file equals the one to be saved; `record` is that of an estimator."""
    if isinstance(model, Network):
        return bool(again == model and again.online_state == model.online_state)
    if not record:
        return bool(again == model)
    return (
        _is_equal(again.network_, model.network_, {})
        and again._decision.pool == model._decision.pool
        and getattr(again, "mixture_", None) == getattr(model, "mixture_", None)
        and estimator_record(again) == record
    )


def load(path: str | os.PathLike[str]) -> Saved:
    """Return the network, mixture or estimator in a model file, equal bit for bit to the one that was saved."""
    place = Path(path)
    failed = f"The model file {str(place)!r} cannot be read"
    try:
        with open_regular_file(place) as file:
            return _read_model(file)
    except Refused as problem:
        raise ModelFileError(
            f"{failed}: {problem.what}", value=str(place), remedies=(*_as_network(place), problem.remedy)
        ) from problem.__cause__
    except FileNotFoundError as error:
        raise ModelFileError(
            f"There is no model file {str(place)!r}.", value=str(place), remedies="check the name and the folder"
        ) from error
    except OSError as error:
        raise ModelFileError(f"{failed}: {reason_of(error)}. Check the name and the permissions.") from error
    except MemoryError as error:
        raise ModelFileError(f"{failed}: there is too little memory for it. Use a larger machine.") from error


def _as_network(place: Path) -> list[Remedy]:
    """Return what to do about the file of a network that another program has written; nothing for others."""
    from .formats import READABLE

    if Path(place.name.removesuffix(".gz")).suffix.lower() not in READABLE:
        return []
    return [Remedy("read a network of another program", f"fgrn.read({str(place)!r})", network=...)]


# From a network to bytes


def _network_bytes(
    network: Network, beside: Mapping[str, object], arrays: Mapping[str, np.ndarray] | None = None
) -> bytes:
    """Return the bytes of the file of a network, with additional entries of the document and tensors."""
    document, tensors = network_parts(network, network._parameters)
    more, counts = online_parts(network.online_state)
    return container_bytes({**document, **more, **beside}, {**tensors, **counts, **(arrays or {})})


def online_parts(state: Online | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of the running counts of online learning."""
    if state is None:
        return {}, {}
    record: dict[str, Any] = {"power": float(state.power), "batches": state.batches, "weight": float(state.weight)}
    record |= {} if state.effective_size is None else {"effective_size": float(state.effective_size)}
    return {"online": {**record, "tensor": "online"}}, {"online": state.running}


def network_parts(network: Network, parameters: Parameters) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of a network with the given parameters."""
    layout = network._spec.layout
    tensors: dict[str, np.ndarray] = {}

    def current(name: str, array: np.ndarray, names: Sequence[str], undrawn: bool) -> dict[str, object]:
        tensors[name] = array
        return {"tensor": name, "names": list(names)} | ({"undrawn": True} if undrawn else {})

    document: dict[str, Any] = {
        **HEAD,
        "variables": [{"name": variable.name, "states": states_of(variable)} for variable in network.variables],
        "blocks": [encode_block(block, number, tensors) for number, block in enumerate(network.blocks)],
        "tables": [
            current(f"table/{n}", layout.table(parameters.values, n), names, n in parameters.undrawn_tables)
            for n, names in enumerate(layout.table_names)
        ],
        "priors": [
            current(f"prior/{n}", layout.prior(parameters.values, n), [name], n in parameters.undrawn_priors)
            for n, name in enumerate(layout.prior_names)
        ],
    }
    if network.leaves is not None:
        document["leaves"] = leaves_record(network.leaves)
        document["version"] = 2  # code that does not know them must not leave them out
        tensors["leaves"] = parameters.values[layout.size :].reshape(2, *network.leaves.shape)
    if isinstance(network, Chain):
        document["chain"] = {"link": list(network.link), "sequence": network.sequence}
    if network.trained:
        document["trained"] = list(network.trained)
    return document, tensors


# From bytes to a network


def _decode_network(container: Container) -> tuple[Network, list[Network], TreeMixture | None]:
    """Return the network in a file, those refined for predicting the class, and the mixture, if there are any.

    The document, then the wiring, then the numbers are checked.
    """
    document = container.document
    variables = read_variables(document)
    records = list_of_records(document, "blocks")
    blocks = [bare_block(record, variables) for record in records]
    with refusing_invalid_models():
        layout = layout_of(Wiring(tuple(blocks)).blocks)
    for block, record in zip(blocks, records, strict=True):
        request_given(container, block, record)
    shapes = [(size,) for size in layout.prior_sizes]
    tables, undrawn_tables = _request_current(container, "tables", layout.table_names, layout.table_shapes)
    priors, undrawn_priors = _request_current(container, "priors", [(name,) for name in layout.prior_names], shapes)
    for name in _decision_tensors(document):
        container.want(name, DECIDING, "F64", (layout.size,))
    request_mixture(container, layout)
    leaves = read_leaves(document, variables)
    if "online" in document:
        count = layout.size + (0 if leaves is None else leaves.count_size)
        what = COUNTED if leaves is None else COUNTED_NUMBERS
        container.want(_online_record(document)["tensor"], what, "F64", (count,))
    if leaves is not None:
        container.want("leaves", CONTINUOUS_COLUMNS, "F64", (2, *leaves.shape))
    arrays = container.tensors(_check_tensor)
    with refusing_invalid_models():
        given = [with_given(block, record, arrays) for block, record in zip(blocks, records, strict=True)]
        network = _build_chain(document, given, leaves) if "chain" in document else Network(given, leaves=leaves)
    values = _parameter_vector(network, [arrays[name] for name in tables], [arrays[name] for name in priors])
    values = values if leaves is None else np.concatenate([values, arrays["leaves"].ravel()])
    network._parameters = Parameters(values, undrawn_tables, undrawn_priors)
    network._trained = tuple(list_of_records(document, "trained")) if "trained" in document else ()
    if "online" in document:
        network._counted = network._parameters, _online(_online_record(document), arrays)
    deciding = [_deciding(network, arrays[name]) for name in _decision_tensors(document)]
    return network, deciding, read_mixture(document, network, arrays)


def _decision_tensors(document: dict[str, Any]) -> list[str]:
    """Return the names of the tensors with tables refined for predicting the class: of no, one or two networks."""
    if "decision" not in document:
        return []
    record = value_of(dict, document, "decision", "its description")
    return [value_of(str, record, key, DECIDING) for key in ("tensor", "second") if key == "tensor" or key in record]


def _read_refined_weight(document: dict[str, Any]) -> RefinedWeight | None:
    """Return how much refined tables count in rows with missing values; None for a file that does not say so."""
    record = value_of(dict, document, "decision", "its description") if "decision" in document else {}
    if "weight" not in record:
        return None
    said = value_of(dict, record, "weight", DECIDING)
    usual, power = (value_of(float, said, key, DECIDING) for key in ("usual", "power"))
    if not (0 < usual < np.inf and 0 < power < np.inf):
        raise Refused(f"{DECIDING} have a weight that is not positive.")
    return RefinedWeight(usual, power)


def _deciding(network: Network, values: np.ndarray) -> Network:
    """Return the network with other tables, checked to fit it."""
    spec = network._spec
    if values[~spec.supported].any() or (values[~spec.learnt] != network._parameters.values[~spec.learnt]).any():
        raise Refused(f"{DECIDING} differ where nothing is learnt.")
    if spec.layout.size and not np.allclose(np.add.reduceat(values, spec.layout.lines), 1.0, atol=1e-6):
        raise Refused(f"{DECIDING} are not distributions.")
    if not isinstance(network, Chain):
        other = network.copy()
        other._parameters = Parameters(values)
        return other
    raise Refused("it is a chain, which predicts no class.")


def _online_record(document: dict[str, Any]) -> dict[str, Any]:
    record = value_of(dict, document, "online", "its description")
    value_of(str, record, "tensor", COUNTED)
    return record


def _online(record: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Online:
    batches, size = value_of(int, record, "batches", COUNTED), record.get("effective_size")
    weight = value_of(float, record, "weight", COUNTED)
    if batches < 0 or not 0 < weight < np.inf:
        raise Refused(f"{COUNTED} is of {batches} batches with the weight {weight}.")
    with refusing_invalid_models():
        return Online(value_of(float, record, "power", COUNTED), size, batches, weight, arrays[record["tensor"]])


def _check_tensor(rows: np.ndarray, first: int, what: str) -> None:
    """Raise `Refused` unless rows are distributions or, for running counts, finite and not negative."""
    if what == CONTINUOUS_COLUMNS:
        check_leaves(rows)
    elif what == COUNTED_NUMBERS:
        if not np.isfinite(rows).all():
            raise Refused(f"{what} is not finite.")
    elif what not in (COUNTED, DECIDING):
        check_distributions(rows, first, what)
    elif not (np.isfinite(rows) & (rows >= 0)).all():
        raise Refused(f"{what} holds numbers that are not counts.")


def _build_chain(document: dict[str, Any], blocks: list[Block], leaves: GaussianLeaves | None) -> Chain:
    record = value_of(dict, document, "chain", "its description")
    link = value_of(list, record, "link", "its chain")
    if not all(isinstance(name, str) for name in link):
        raise Refused(f"its chain links {short_repr(link)}, which are not two names.")
    return Chain(blocks, tuple(link), value_of(str, record, "sequence", "its chain"), leaves=leaves)


def _check_model_version(document: dict[str, Any]) -> None:
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


def _request_current(
    container: Container, key: str, groups: Sequence[tuple[str, ...]], shapes: Sequence[tuple[int, ...]]
) -> tuple[list[str], frozenset[int]]:
    """Request all tables or all priors; returns their tensor names, and the numbers of those not drawn yet."""
    tensors, undrawn = [""] * len(groups), set()
    numbers = {frozenset(names): number for number, names in enumerate(groups)}
    for record in list_of_records(container.document, key):
        names = value_of(list, record, "names", f"one of its {key}")
        number = numbers.pop(frozenset(names), -1) if all(type(name) is str for name in names) else -1
        if number < 0:
            raise Refused(f"{short_repr(names)} is among its {key}: not known, or there twice.")
        what = f"the {key[:-1]} of {short_repr(names[0])}"
        tensors[number] = value_of(str, record, "tensor", what)
        container.want(tensors[number], what, "F64", shapes[number])
        if "undrawn" in record and value_of(bool, record, "undrawn", what):
            undrawn.add(number)
    if numbers:
        raise Refused(f"{short_repr(sorted(next(iter(numbers))))} is not among its {key}.")
    return tensors, frozenset(undrawn)


def _parameter_vector(network: Network, tables: list[np.ndarray], priors: list[np.ndarray]) -> np.ndarray:
    """Return all tables and priors as one vector."""
    spec, layout = network._spec, network._spec.layout
    values = np.empty(layout.size)
    for number, (table, support) in enumerate(zip(tables, spec.supports, strict=True)):
        if support is not None and table[~support].any():
            raise Refused(f"a table of {table.shape} is not zero outside its support.")
        layout.table(values, number)[...] = table
    for number, prior in enumerate(priors):
        layout.prior(values, number)[...] = prior
    return values
