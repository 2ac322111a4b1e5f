"""Estimators in model files: the record of an estimator beside its network, and its restoration.

    "estimator": class, params, schema, features, classes, rows, weight, history, selection, report

A model file never names code to run: the class is looked up among the estimators of this package, and every part is
checked against the network in the file.
"""

from __future__ import annotations

from math import exp, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bayes.tree_mixture import TreeMixture
from ..core.exceptions import FgrnError
from ..flow.em import History
from ..graph.network import Network
from ..learning.criteria import Candidate, ClassCandidate, ClassSelection, Selection
from ..tables.schema import Schema
from ..tables.time_order import as_nanoseconds
from .container import Refused, short_repr, value_of

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator

CLASS_DTYPES = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}

CLASS_COUNTS = {"dropped": 0, "averaged": 0, "networks": 1}
"""The counts of a choice among classifiers, and what they are in files of earlier versions."""


def estimator_record(estimator: LatentEstimator) -> dict[str, Any]:
    """Return a fitted estimator, without its network, as JSON values."""
    params = estimator.get_params(deep=False)
    params["schema"] = params["schema"] is not None
    del params["checkpoint"]  # belongs to one run on one machine
    if not isinstance(params.get("validation", 0), (int, float)):
        params["validation"] = None  # a table belongs to one run, too
    random = params["random_state"]
    params["random_state"] = int(random) if isinstance(random, (int, np.integer)) else None
    record: dict[str, Any] = {
        "class": type(estimator).__name__,
        "params": {name: _to_json(value) for name, value in params.items()},
        "schema": estimator.schema_.as_dict(),
        "features": [str(name) for name in estimator.feature_names_in_]
        if hasattr(estimator, "feature_names_in_")
        else estimator.n_features_in_,
        "kind": estimator._kind,
        "rows": int(estimator.n_rows_),
        "weight": float(estimator.weight_),
        "iterations": int(estimator.n_iter_),
        "history": _history_record(estimator.history_),
    }
    if hasattr(estimator, "n_hidden_"):
        record["n_hidden"] = int(estimator.n_hidden_)
    if hasattr(estimator, "beside_"):
        record["beside"] = list(estimator.beside_)
    if hasattr(estimator, "n_trees_"):
        record["n_trees"] = int(estimator.n_trees_)
    if hasattr(estimator, "structure_"):
        record["structure"] = estimator.structure_
    if hasattr(estimator, "classes_"):
        record["classes"] = [_to_json(value) for value in estimator.classes_]
        record["classes_kind"] = estimator.classes_.dtype.kind
        record["target"] = estimator._y_name
    if hasattr(estimator, "selection_"):
        record["selection"] = {
            "criterion": estimator.selection_.criterion,
            "candidates": [_to_json(_stored(one)) for one in estimator.selection_.as_dicts()],
        }
        if isinstance(estimator.selection_, ClassSelection):
            record["selection"]["dropped"] = estimator.selection_.dropped
            record["selection"]["unfinished"] = list(estimator.selection_.unfinished)
            record["selection"]["temperature"] = estimator.selection_.temperature
            record["selection"]["mixed"] = estimator.selection_.mixed
            record["selection"]["averaged"] = estimator.selection_.averaged
            if estimator.selection_.networks > 1:  # else it is left out, as in files of earlier versions
                record["selection"]["networks"] = estimator.selection_.networks
            if estimator.selection_.simplest_share:
                record["selection"]["simplest_share"] = estimator.selection_.simplest_share
    report = estimator._report_to_save() if hasattr(estimator, "_report_to_save") else None
    if report is not None:
        from .report_record import report_record

        record["report"] = report_record(report)
    return record


def restore_estimator(
    document: dict[str, Any], network: Network, mixture: TreeMixture | None = None
) -> LatentEstimator:
    """Return the estimator described in a document, with its network, and its mixture of trees if there is one."""
    from .. import estimators
    from ..estimators._class_labels import LatentClassifierBase
    from ..estimators._sequence_tables import SequenceTables
    from ..estimators._state_count import Choosing

    record = value_of(dict, document, "estimator", "its description")
    name = value_of(str, record, "class", "its estimator")
    if name not in estimators.__all__:
        raise Refused(
            f"there is no estimator {short_repr(name)}.", "A newer fgrn may know it: pip install --upgrade fgrn."
        )
    kind = getattr(estimators, name)
    params = value_of(dict, record, "params", "its estimator")
    known = set(kind._get_param_names())
    try:
        schema = Schema.from_dict(value_of(list, record, "schema", "its estimator"))
        estimator: LatentEstimator = kind(**{key: _from_json(value) for key, value in params.items() if key in known})
        estimator.schema = schema if params.get("schema") is True else None
        estimator._validate_params()
        estimator.network_, estimator.schema_ = network, schema
        _restore_features(estimator, record)
        if isinstance(estimator, LatentClassifierBase):
            _restore_classes(estimator, record)
        estimator._hidden()
    except (FgrnError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"its estimator is not one: {str(error)[:300]}") from error
    estimator._kind = value_of(str, record, "kind", "its estimator")
    estimator.n_rows_ = value_of(int, record, "rows", "its estimator")
    estimator.weight_ = _finite_value(record, "weight")
    estimator.n_iter_ = value_of(int, record, "iterations", "its estimator")
    estimator.history_ = _restore_history(value_of(dict, record, "history", "its estimator"))
    if "structure" in record:
        estimator.structure_ = value_of(str, record, "structure", "its estimator")
    if "n_trees" in known:
        estimator.n_trees_ = value_of(int, record, "n_trees", "its estimator")
        if mixture is not None:
            estimator.mixture_ = mixture
    has_sequences = isinstance(estimator, SequenceTables)
    if has_sequences:
        estimator.beside_ = _sequence_columns(record)
    if isinstance(estimator, Choosing) or has_sequences or "n_trees" in known:
        estimator.n_hidden_ = value_of(int, record, "n_hidden", "its estimator")
    if "selection" in record:
        estimator.selection_ = _restore_selection(value_of(dict, record, "selection", "its estimator"))
    _check_against_network(estimator)
    if "report" in record and hasattr(estimator, "_report_to_save"):
        from .report_record import restore_report

        parts = value_of(dict, record, "report", "its estimator")
        model = estimator._estimates()
        estimator._saved_report = restore_report(parts, model, estimator.history_, estimator._parameter_count(network))
    return estimator


def _check_against_network(estimator: LatentEstimator) -> None:
    """Raise `Refused` if the schema or the hidden variables do not fit the network."""
    wanted = {name: list(levels) for name, levels in estimator._observed().items()}
    found = {name: list(estimator.network_.variable(name).labels) for name in estimator.network_.observed}
    for name, levels in wanted.items():
        if found.get(name) != levels:
            raise Refused(f"the column {short_repr(name)} of its schema is not what its network knows.")
    variables = {variable.name: variable for variable in estimator.network_.variables}
    states = getattr(estimator, "n_hidden_", None)
    trees, mixture = getattr(estimator, "n_trees_", 1), getattr(estimator, "mixture_", None)
    if mixture is not None and mixture.trees != trees:
        raise Refused(f"its mixture is of {mixture.trees} trees, not {trees}.")
    states = None if states is None else states * (trees if mixture is None else 1)
    for name in estimator._hidden():
        if name not in variables:
            raise Refused(f"its network has no hidden variable {short_repr(name)}.")
        if states is not None and variables[name].cardinality != states:
            raise Refused(
                f"its hidden variable {short_repr(name)} has {variables[name].cardinality} states, not {states}."
            )


def _restore_features(estimator: LatentEstimator, record: dict[str, Any]) -> None:
    """Set the names or the number of the columns of an estimator."""
    features = record.get("features")
    if isinstance(features, list) and all(isinstance(name, str) for name in features):
        estimator.feature_names_in_ = np.array(features, dtype=object)
        estimator.n_features_in_ = len(features)
    elif type(features) is int and features == len(estimator.schema_):
        estimator.n_features_in_ = features
    else:
        raise Refused(f"its estimator has {short_repr(features)} as its columns.")
    if estimator._names() != list(estimator.schema_):
        raise Refused("the columns of its estimator are not those of its schema.")


def _restore_classes(estimator: LatentEstimator, record: dict[str, Any]) -> None:
    """Set the classes of a classifier and the name of its class column."""
    values = value_of(list, record, "classes", "its estimator")
    kind = value_of(str, record, "classes_kind", "its estimator")
    if not values or not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise Refused(f"{short_repr(values)} are not classes.")
    try:
        estimator.classes_ = np.array(values, dtype=CLASS_DTYPES.get(kind, object if kind == "O" else None))
    except (TypeError, ValueError, OverflowError) as error:
        raise Refused(f"{short_repr(values)} are not classes.") from error
    estimator._y_name = value_of(str, record, "target", "its estimator")


def _sequence_columns(record: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the names of the columns of sequences and times, None for a column that was not given."""
    names = value_of(list, record, "beside", "its estimator")
    if len(names) != 2 or not all(name is None or isinstance(name, str) for name in names):
        raise Refused(f"{short_repr(names)} are not columns of sequences and times.")
    return names[0], names[1]


def _history_record(history: History) -> dict[str, Any]:
    return {
        "log_likelihood": [_to_json(value) for value in history.log_likelihood.tolist()],
        "objective": [_to_json(value) for value in history.objective.tolist()],
        "weight": float(history.weight),
        "converged": bool(history.converged),
        "start": int(history.start),
        "starts": [_to_json(value) for value in history.starts.tolist()],
        "not_estimated": {name: list(rows) for name, rows in history.not_estimated.items()},
        "execution": history.execution,
        "validation": [_to_json(value) for value in history.validation.tolist()],
    }


def _restore_history(record: dict[str, Any]) -> History:
    numbers = {
        name: [_float(value) for value in value_of(list, {"validation": [], **record}, name, "its history")]
        for name in ("log_likelihood", "objective", "starts", "validation")
    }
    return History(
        np.array(numbers["log_likelihood"]),
        np.array(numbers["objective"]),
        _finite_value(record, "weight"),
        value_of(bool, record, "converged", "its history"),
        value_of(int, record, "start", "its history"),
        np.array(numbers["starts"]),
        not_estimated=_not_estimated(record),
        execution=value_of(str, {"execution": "", **record}, "execution", "its history"),
        validation=np.array(numbers["validation"]),
    )


def _restore_class_selection(record: dict[str, Any]) -> ClassSelection:
    kinds: dict[str, type] = {"structure": str, "towards": str, "size": int, "n_hidden": int, "n_parameters": int}
    candidates = []
    for one in value_of(list, record, "candidates", "its selection"):
        one = {"temperature": 1.0, **one} if isinstance(one, dict) else one  # files of earlier versions have none
        if not isinstance(one, dict) or set(one) != set(ClassCandidate.__dataclass_fields__):
            raise Refused(f"{short_repr(one)} is among what was tried.")
        parts: dict[str, Any] = {name: value_of(kind, one, name, "its selection") for name, kind in kinds.items()}
        parts |= {name: _float(one[name]) for name in ("strength", "log_loss", "error", "temperature")}
        candidates.append(ClassCandidate(**parts))
    if not candidates:
        raise Refused("its selection is of no candidates.")
    record = {"unfinished": [], "temperature": 1.0, "mixed": False, "simplest_share": 0.0, **CLASS_COUNTS, **record}
    counts: dict[str, Any] = {name: value_of(int, record, name, "its selection") for name in CLASS_COUNTS}
    unfinished = value_of(list, record, "unfinished", "its selection")
    temperature, mixed = _float(record["temperature"]), value_of(bool, record, "mixed", "its selection")
    share = _float(record["simplest_share"])
    if (
        min(counts.values()) < 0
        or not all(isinstance(one, str) for one in unfinished)
        or not temperature > 0
        or not 0 <= share < 1
    ):
        raise Refused("what was tried of its selection is not told in numbers and names.")
    return ClassSelection(
        tuple(candidates), unfinished=tuple(unfinished), temperature=temperature, mixed=mixed,
        simplest_share=share, **counts,
    )  # fmt: skip


def _weight_by_bic(one: dict[str, Any]) -> float:
    """Return the weight of the rows, solved from BIC = parameters * log(weight) - 2 log-likelihood."""
    total, count = _float(one["bic"]) + 2 * _float(one["log_likelihood"]), _float(one["n_parameters"])
    return exp(min(total / count, 700.0)) if count > 0 else 1.0


def _stored(candidate: dict[str, Any]) -> dict[str, Any]:
    """Return the stored fields of a candidate: those that cannot be computed from the others."""
    return {name: value for name, value in candidate.items() if name not in ("caic", "sabic")}


def _restore_selection(record: dict[str, Any]) -> Selection | ClassSelection:
    criterion = value_of(str, record, "criterion", "its selection")
    if criterion == "log_loss":
        return _restore_class_selection(record)
    fields = set(Candidate.__dataclass_fields__)
    candidates = []
    for one in value_of(list, record, "candidates", "its selection"):
        if isinstance(one, dict) and fields - set(one) == {"weight"}:  # of an earlier version: bic = k log n - 2 log L
            one = one | {"weight": _weight_by_bic(one)}
        if not isinstance(one, dict) or set(one) != fields:
            raise Refused(f"{short_repr(one)} is among what was tried.")
        sizes = tuple(_float(value) for value in value_of(list, one, "class_sizes", "its selection"))
        if not sizes:
            raise Refused("a number of hidden states that was tried has no classes.")
        one = one | ({"held_out": {"float": "nan"}} if one["held_out"] is None else {})
        numbers = {name: _float(one[name]) for name in fields - {"class_sizes", "n_hidden", "n_parameters"}}
        counts = {name: value_of(int, one, name, "its selection") for name in ("n_hidden", "n_parameters")}
        candidates.append(Candidate(class_sizes=sizes, **numbers, **counts))  # type: ignore[arg-type]
    if criterion not in ("aic", "bic", "caic", "sabic", "held_out") or not candidates:
        raise Refused(f"its hidden states were chosen by {short_repr(criterion)}.")
    return Selection(criterion, tuple(candidates))


def _to_json(value: Any) -> Any:
    """Return a value as JSON values; infinity and NaN become {"float": text}, a timedelta its nanoseconds."""
    value = as_nanoseconds(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _to_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_to_json(one) for one in value]
    if isinstance(value, float) and not isfinite(value):
        return {"float": str(value)}
    return value


def _from_json(value: Any) -> Any:
    """Return the value from the form that `_to_json` returns."""
    if isinstance(value, dict) and set(value) == {"float"}:
        return _float(value)
    return [_from_json(one) for one in value] if isinstance(value, list) else value


def _float(value: object) -> float:
    """Return a number from its JSON value; `Refused` for anything else."""
    if isinstance(value, dict) and value.get("float") in ("inf", "-inf", "nan"):
        return float(value["float"])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise Refused(f"{short_repr(value)} is not a number.")


def _finite_value(record: dict[str, Any], key: str) -> float:
    """Return the finite number under a key; `Refused` for anything else."""
    number = _float(record.get(key))
    if not isfinite(number):
        raise Refused(f"its {key} is {number}.")
    return number


def _not_estimated(record: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the rows of tables that were not estimated, by name; older files do not have them."""
    found = value_of(dict, {"not_estimated": {}, **record}, "not_estimated", "its history")
    for rows in found.values():
        if not isinstance(rows, list) or not all(type(row) is int for row in rows):
            raise Refused(f"{short_repr(rows)} are the rows of a table that were not estimated.")
    return {name: tuple(rows) for name, rows in found.items()}
