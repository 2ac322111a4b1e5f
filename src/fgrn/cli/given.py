"""Evidence from the command line or a table: states, weights of states, excluded states."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..core.exceptions import EvidenceError, FgrnError, counted, did_you_mean_instead, near_names, nearest, shortened
from ..core.labels import bin_of, is_number
from ..tables.columns import missing_remedy
from ..tables.missing import MISSING
from . import input_files
from .terminal import print_message

if TYPE_CHECKING:
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram
    from ..core.variable import Variable

given_help = "Evidence: NAME=STATE; NAME=[W,W,...], a weight for each state; or NAME!=STATE. Repeatable."
"""The help of the option --given."""

NOT = "!="


def parted(text: str, names: Collection[str], option: str = "--given", form: str = "NAME=STATE") -> tuple[str, str]:
    """Return the variable and the value of NAME=VALUE; a name that is known may contain equals signs.

    Args:
        text: what was given.
        names: the known names.
        option: that it was given for.
        form: of the text, for an error; of "NAME=STATE" a variable may also have NAME!=STATE, with the value "!=STATE".
    """
    is_network = form == "NAME=STATE"
    if "=" not in text:
        more = ", NAME=[W,W,...] or NAME!=STATE" if is_network and option == "--given" else ""
        raise click.UsageError(f"{option} is {form}{more}. Got {text!r}.")
    places = [at for at, letter in enumerate(text) if letter == "="]
    found = {text[:at]: text[at + 1 :] for at in places if text[:at] in names}
    if is_network:
        found |= {
            text[: at - 1]: text[at - 1 :] for at in places if text[:at].endswith("!") and text[: at - 1] in names
        }
    if len(found) > 1:
        meanings = " or ".join(f"{name!r} and the value {value!r}" for name, value in found.items())
        raise click.UsageError(f"{option} {text!r} may be read as {meanings}. Rename one of them.")
    for name, value in found.items():
        return name, value
    name = text.partition("=")[0]
    name = name.rstrip("!") if is_network else name
    what = "variable" if is_network else "column"
    raise EvidenceError(
        f"there is no {what} {name!r} here. {nearest(name, names)}", file=f"{option} {text}", value=name
    )


def parted_by_name(
    texts: Sequence[str], names: Collection[str], option: str, form: str = "NAME=STATE"
) -> dict[str, str]:
    """Return the values of several NAME=VALUE by name; two values of one name are an error."""
    found: dict[str, str] = {}
    for text in texts:
        name, value = parted(text, names, option, form)
        if found.setdefault(name, value) != value:
            told = f"{option} gives {name!r} two values, {found[name]} and {value}. Leave one of them out."
            raise click.UsageError(told)
    return found


def code_of(variable: Variable, text: str) -> int:
    """Return the code of a state: of its label, of a number equal to one label, or of the bin that holds a number."""
    labels = [str(label) for label in variable.labels]
    if text in labels:
        return labels.index(text)
    try:
        same = [at for at, label in enumerate(labels) if float(label) == float(text)]
    except ValueError:
        same = []
    if len(same) != 1 and is_number(text):
        place = bin_of(variable.labels, float(text))
        same = [] if place is None else [place]
    return same[0] if len(same) == 1 else variable.code(text)


def weights_of(variable: Variable, text: str) -> np.ndarray | None:
    """Return the weights of the states for "[.2, .8]" or "!=no"; None for any other text."""
    if text in map(str, variable.labels):
        return None
    if text.startswith(NOT):
        weights = np.ones(variable.cardinality)
        weights[code_of(variable, text.removeprefix(NOT))] = 0
        return weights
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        weights = np.array([float(word) for word in text[1:-1].split(",")])
    except ValueError:
        raise EvidenceError(f"{text} is not a list of numbers, such as [0.2,0.8].") from None
    if len(weights) != variable.cardinality:
        states = shortened(variable.labels)
        raise EvidenceError(
            f"{text} has {counted(len(weights), 'weight')}, for {counted(variable.cardinality, 'state')}: {states}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise EvidenceError(f"{text}: weights are finite, not negative, and not all zero.")
    return weights


def known_of(model: FactoredModel | InfluenceDiagram, given: Sequence[str]) -> dict[str, Any]:
    """Return the evidence of options --given by variable; several on one variable are multiplied."""
    states: dict[str, set[int]] = {}
    weights: dict[str, np.ndarray] = {}
    for text in given:
        name, value = parted(text, model.names)
        variable = model.variable(name)
        try:
            found = weights_of(variable, value)
            if found is None:
                code = code_of(variable, value)
                states.setdefault(name, set()).add(code)
                found = np.eye(variable.cardinality)[code]
        except FgrnError as error:
            raise error.changed(file=f"--given {text}") from None
        weights[name] = weights.get(name, 1.0) * found
        if not weights[name].any():
            raise EvidenceError(
                "it contradicts what was given before.", file=f"--given {text}", remedies="leave one of them out"
            )
    known: dict[str, Any] = {}
    for name, product in weights.items():
        # one state alone is that state; with weights beside it they matter for the probability
        one = states.get(name) if np.isin(product, (0, 1)).all() else None
        known[name] = model.variable(name).labels[one.pop()] if one else product
    return known


def rows_of(model: FactoredModel, path: str, **options: Any) -> tuple[dict[str, Any], int | None]:
    """Return the evidence of a file by variable, and its number of rows; None for one sample of a UAI file."""
    if path.removesuffix(".gz").endswith(".evid"):
        from .. import read_evidence

        known = dict(read_evidence(path))
        for name, states in known.items():
            _check_evidence(model, path, name, states if isinstance(states, list) else [states])
        lists = [states for states in known.values() if isinstance(states, list)]
        return known, len(lists[0]) if lists else None
    labels = {str(label) for variable in model.variables for label in variable.labels}
    options["missing"] = options["missing"] or tuple(code for code in MISSING if code not in labels)
    table = input_files.read(path, **options)
    names = known_columns(table.column_names, model.names, path)
    return {name: column_of(model.variable(name), table[name]) for name in names}, table.num_rows


def known_columns(columns: Sequence[str], names: Sequence[str], path: str, use: str = "") -> list[str]:
    """Return the columns of a file that are variables of a network, and report the others as left out.

    `use` says what the others may be for. It is an error if there are others and no variable at all.
    """
    known = [name for name in columns if name in names]
    others = [name for name in columns if name not in names]
    if others and not known:
        raise EvidenceError(
            f"no column is a variable of the network. {nearest(others[0], names)}",
            file=repr(path),
            column=others[0],
            remedies="rename the columns, or if the first line is data, add --no-header",
        )
    if others:
        near = {name: one for name in others for one in near_names(name, names)[:1] if one not in known}
        verb = "is not a variable" if len(others) == 1 else "are not variables"
        print_message(
            f"{path}: {shortened([repr(name) for name in others])} {verb} of the network: left out.{use} "
            f"{did_you_mean_instead(near)}".rstrip()
        )
    return known


def _check_evidence(model: FactoredModel, path: str, name: str, states: Sequence[int | None]) -> None:
    """Raise an error if the network does not have this variable or state."""
    if name not in model.names:
        raise EvidenceError(
            f"this is not a variable of the network. {nearest(name, model.names)}", file=repr(path), column=name
        )
    most = model.variable(name).cardinality
    for state in states:
        if state is not None and state >= most:
            raise EvidenceError(
                f"it has no state {state}: its states are 0 to {most - 1}.", file=repr(path), column=name, value=state
            )


def column_of(variable: Variable, column: Any) -> Any:
    """Return a column of a table as evidence: codes of states, or a list if some values are weights."""
    import pyarrow as pa

    from ..tables.frames import UNKNOWN, Coded

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column.to_pylist()  # weights, as Parquet has them
    encoded = column.combine_chunks().dictionary_encode()
    words = ["" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_numpy(zero_copy_only=False)
    places = np.where(np.isnan(places), len(words), places).astype(np.int64)
    meanings: list[int | np.ndarray] = []
    for place, word in enumerate(words):
        try:
            weights = weights_of(variable, word)
            meanings.append(code_of(variable, word) if weights is None else weights)
        except FgrnError as error:
            row = int(np.argmax(places == place))
            remedies = (*error.remedies, missing_remedy(word))
            raise error.changed(rows=[row], column=variable.name, value=word, remedies=remedies) from None
    if all(isinstance(meaning, int) for meaning in meanings):
        return Coded(np.array([*meanings, UNKNOWN], dtype=np.int64)[places])
    values = [variable.labels[one] if isinstance(one, int) else one for one in meanings]
    return [([*values, None])[place] for place in places.tolist()]


def with_evidence_added(rows: Mapping[str, Any], known: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return rows of evidence with the evidence `known` added to each row."""
    for name in known:
        if name in rows:
            raise click.UsageError(f"{name!r} is in --evidence and in --given. Leave one of them out.")
    return {**rows, **{name: [value] * count for name, value in known.items()}}
