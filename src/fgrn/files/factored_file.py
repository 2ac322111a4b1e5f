"""Bayesian and Markov networks, and influence diagrams, in model files.

The document has the `variables`, and under `model` its `kind` ("bayesian", "markov", "influence" or "dynamic"), `name`,
`properties`, and the `tables` in order. A table has a `scope`, the names of its variables, and a `tensor`; in a
Bayesian network also `learn`, `tie`, whether it waits for a random initialisation (`undrawn`), and the given tensors
`start` and `support`; instead of these two a table given by few parameters has them as `compact`, with its `kind`.
A table that was learnt has a tensor `counts`, the total Dirichlet count of each of its rows.
An influence diagram is its Bayesian network with `decisions` in the order of time, each with a `name` and what it
`knows`, and `utilities`, each with a `name`, a `scope` and a `tensor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import numpy as np

from ..bayes.bayesian import BayesianNetwork
from ..bayes.compact_kinds import compact_of_record
from ..bayes.compact_tables import CompactTable, TableFamily
from ..bayes.dynamic import DynamicBayesianNetwork
from ..bayes.factored import FactoredModel
from ..bayes.influence import InfluenceDiagram
from ..bayes.markov import MarkovNetwork
from ..core.variable import Variable
from ..flow.parameters import Parameters
from ..graph.blocks import PRODUCT_SPACE_LIMIT
from .container import Container, Refused, short_repr, value_of
from .dynamic_file import dynamic_record, restore_dynamic
from .records import NEWER, check_distributions, list_of_records, read_variables, refusing_invalid_models, states_of

COUNTS = "the counts of a table"


def encode_model(
    model: FactoredModel | InfluenceDiagram | DynamicBayesianNetwork, head: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of a network or an influence diagram."""
    if isinstance(model, InfluenceDiagram):
        return encode_influence(model, head)
    if isinstance(model, DynamicBayesianNetwork):
        return encode_dynamic(model, head)
    return encode_factored(model, head)


def encode_factored(model: FactoredModel, head: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of a Bayesian or Markov network."""
    tensors: dict[str, np.ndarray] = {}
    tables: list[dict[str, Any]] = []
    for number, (scope, values) in enumerate(model._written()):
        record: dict[str, Any] = {"scope": list(scope), "tensor": f"table/{number}"}
        tensors[record["tensor"]] = values.reshape(-1, values.shape[-1] if scope else 1)
        if isinstance(model, BayesianNetwork):
            part = model._given[number]
            table = model._spec.layout.table_number(part.name)
            tensors[record["tensor"]] = model.table(part.name)
            record |= {} if part.learn else {"learn": False}
            record |= {} if part.tie is None else {"tie": part.tie}
            record |= {"undrawn": True} if table in model._parameters.undrawn_tables else {}
            counts = model._row_totals(part.name)
            if counts is not None:
                record["counts"] = f"counts/{number}"
                tensors[record["counts"]] = counts.reshape(-1, 1)
            compact = model._compact.get(part.name)
            if compact is not None:
                record["compact"] = compact.record(model._family(part.name))
                tables.append(record)
                continue
            for key, array in (("start", model._as_given.get(part.name)), ("support", part.support)):
                if array is not None:
                    record[key] = f"{key}/{number}"
                    tensors[record[key]] = array.astype(bool) if key == "support" else array
        tables.append(record)
    kind = "bayesian" if isinstance(model, BayesianNetwork) else "markov"
    document = {
        **head,
        "variables": [{"name": variable.name, "states": states_of(variable)} for variable in model.variables],
        "model": {"kind": kind, "name": model.name, "properties": model.properties, "tables": tables},
    }
    if model.trained:
        document["trained"] = list(model.trained)
    return document, tensors


def encode_influence(
    diagram: InfluenceDiagram, head: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of an influence diagram."""
    document, tensors = encode_factored(diagram.network, head)
    utilities = []
    for number, (name, one) in enumerate(diagram.utilities.items()):
        tensors[f"utility/{number}"] = one.values.reshape(1, -1)
        utilities.append({"name": name, "scope": list(one.scope), "tensor": f"utility/{number}"})
    decisions = [{"name": name, "knows": list(seen)} for name, seen in diagram._seen.items()]
    document["model"] |= {"kind": "influence", "decisions": decisions, "utilities": utilities}
    return document, tensors


def encode_dynamic(
    model: DynamicBayesianNetwork, head: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the tensors of a dynamic network."""
    document, tensors = encode_factored(model._step, head)
    document["model"] |= dynamic_record(model)
    return document, tensors


def decode_factored(container: Container) -> FactoredModel | InfluenceDiagram | DynamicBayesianNetwork:
    """Return the Bayesian, Markov or dynamic network, or the influence diagram, in a file.

    The document is checked before the numbers are read.
    """
    document = container.document
    variables = read_variables(document)
    record = value_of(dict, document, "model", "its description")
    kind = value_of(str, record, "kind", "its model")
    if kind not in ("bayesian", "markov", "influence", "dynamic"):
        raise Refused(f"its model is of the kind {short_repr(kind)}.", NEWER)
    gains = list_of_records(record, "utilities") if kind == "influence" else []
    for one in gains:
        size = prod(variables[name].cardinality for name in _scope_of_table(one, variables))
        container.want(value_of(str, one, "tensor", "a utility"), "a utility", "F64", (1, size))
    directed = kind != "markov"
    tables = list_of_records(record, "tables")
    scopes = [_scope_of_table(one, variables) for one in tables]
    for number, (one, scope) in enumerate(zip(tables, scopes, strict=True)):
        sizes = tuple(variables[name].cardinality for name in scope)
        flat = (prod(sizes[:-1]), sizes[-1] if sizes else 1)
        for key, dtype in (("tensor", "F64"), ("start", "F64"), ("support", "BOOL")):
            if key == "tensor" or (key in one and directed):
                what = f"the {'table' if key == 'tensor' else key} of number {number}"
                container.want(value_of(str, one, key, what), what, dtype, flat)
        if directed and "counts" in one:
            container.want(value_of(str, one, "counts", f"table {number}"), COUNTS, "F64", (flat[0], 1))
    arrays = container.tensors(_check_values if directed else _check_factor_values)
    named = (value_of(str, record, "name", "its model"), _checked_properties(record))
    with refusing_invalid_models():
        model = _build_bayesian if directed else _build_markov
        found = model(variables, tables, scopes, arrays, *named)
    found._trained = tuple(list_of_records(document, "trained")) if "trained" in document else ()
    if not isinstance(found, BayesianNetwork) or kind == "bayesian":
        return found
    with refusing_invalid_models():
        if kind == "dynamic":
            return restore_dynamic(found, record)
        return _build_influence(found, record, gains, arrays)


def _build_influence(
    network: BayesianNetwork, record: dict[str, Any], gains: list[dict[str, Any]], arrays: dict[str, np.ndarray]
) -> InfluenceDiagram:
    decisions = {
        value_of(str, one, "name", "a decision"): value_of(list, one, "knows", "a decision")
        for one in list_of_records(record, "decisions")
    }
    for name in (one for knows in decisions.values() for one in knows):
        if not isinstance(name, str):
            raise Refused(f"a decision knows {short_repr(name)}, which is not a name.")
    utilities = {
        value_of(str, one, "name", "a utility"): (
            one["scope"],
            arrays[one["tensor"]].reshape([network.variable(name).cardinality for name in one["scope"]]),
        )
        for one in gains
    }
    diagram = InfluenceDiagram(network, decisions, utilities)
    diagram.network = network  # as it was, to the last bit
    return diagram


def _build_bayesian(
    variables: dict[str, Variable],
    tables: list[dict[str, Any]],
    scopes: list[tuple[str, ...]],
    arrays: dict[str, np.ndarray],
    name: str,
    properties: dict[str, dict[str, str]],
) -> BayesianNetwork:
    if any(not scope for scope in scopes) or [scope[-1] for scope in scopes] != list(variables):
        raise Refused("its tables are not those of its variables, one for each and in their order.")
    children = [scope[-1] for scope in scopes]
    rows = list(zip(children, tables, strict=True))
    starts: dict[str, Any] = {child: arrays[one["start"]] for child, one in rows if "start" in one}
    for scope, one in zip(scopes, tables, strict=True):
        if "compact" in one:
            starts[scope[-1]] = _read_compact(value_of(dict, one, "compact", "a table"), scope, variables)
    model = BayesianNetwork(
        variables.values(),
        {scope[-1]: scope[:-1] for scope in scopes},
        starts,
        frozen=[child for child, one in rows if "learn" in one and not value_of(bool, one, "learn", "a table")],
        ties={child: value_of(str, one, "tie", "a table") for child, one in rows if "tie" in one},
        supports={child: arrays[one["support"]] for child, one in rows if "support" in one and "compact" not in one},
        name=name,
        properties=properties,
    )
    layout = model._spec.layout
    values = model._parameters.values.copy()
    undrawn = set()
    for child, one in rows:
        number = layout.table_number(child)
        layout.table(values, number)[...] = arrays[one["tensor"]]
        if "undrawn" in one and value_of(bool, one, "undrawn", "a table"):
            undrawn.add(number)
    model._parameters = Parameters(values, frozenset(undrawn))
    model._restore_counts({child: arrays[one["counts"]] for child, one in rows if "counts" in one})
    return model


def _read_compact(record: dict[str, Any], scope: tuple[str, ...], variables: Mapping[str, Variable]) -> CompactTable:
    """Return a table given by few parameters."""
    *parents, child = (variables[name] for name in scope)
    return compact_of_record(TableFamily(tuple(parents), child), record)


def _build_markov(
    variables: dict[str, Variable],
    tables: list[dict[str, Any]],
    scopes: list[tuple[str, ...]],
    arrays: dict[str, np.ndarray],
    name: str,
    properties: dict[str, dict[str, str]],
) -> MarkovNetwork:
    sizes = [[variables[one].cardinality for one in scope] for scope in scopes]
    factors = [
        (scope, arrays[one["tensor"]].reshape(size)) for one, scope, size in zip(tables, scopes, sizes, strict=True)
    ]
    return MarkovNetwork(variables.values(), factors, name=name, properties=properties)


def _scope_of_table(record: dict[str, Any], variables: Mapping[str, Variable]) -> tuple[str, ...]:
    """Return the names of the variables of a table; `Refused` for unknown or repeated ones, or too many cells."""
    names = value_of(list, record, "scope", "a table")
    for name in names:
        if not isinstance(name, str) or name not in variables:
            raise Refused(f"a table is over the variable {short_repr(name)}, which is not there.")
    if len(set(names)) < len(names):
        raise Refused("a table is over the same variable more than once.")
    if any(size > PRODUCT_SPACE_LIMIT for size in accumulate((variables[name].cardinality for name in names), mul)):
        raise Refused(f"a table has more than {PRODUCT_SPACE_LIMIT:,} cells.")
    return tuple(names)


def _checked_properties(record: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the properties by variable; `Refused` unless all are texts."""
    found = value_of(dict, record, "properties", "its model")
    for name, texts in found.items():
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise Refused(f"what it says of {short_repr(name)} is not text.")
    return found


def _check_values(rows: np.ndarray, first: int, what: str) -> None:
    """Raise `Refused` unless tables are distributions, utilities finite, and counts finite and not negative."""
    if what == COUNTS:
        if not (np.isfinite(rows) & (rows >= 0)).all():
            raise Refused(f"{what} are not finite, or negative.")
    elif what != "a utility":
        check_distributions(rows, first, what)
    elif not np.isfinite(rows).all():
        raise Refused(f"{what} has a value that is not finite.")


def _check_factor_values(rows: np.ndarray, first: int, what: str) -> None:
    """Raise `Refused` unless the values of a factor are finite and not negative."""
    with np.errstate(invalid="ignore"):
        bad = ~(np.isfinite(rows) & (rows >= 0))
    if bad.any():
        raise Refused(f"{what} holds {rows.reshape(-1)[int(bad.argmax())]}, which is not a factor.")
