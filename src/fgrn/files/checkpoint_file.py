"""Reading and writing checkpoint files: the stages of a run, stored as a document and tensors like model files.

A checkpoint of a network has all that its model file would have, so that it can be loaded as one, and in addition

    "checkpoint": the version of the format, "over": whether the run has ended, "stages": for each stage
        about     the model, rows and settings it belongs to, see `checkpoints.about`
        size      the length of its parameter vector
        began     undrawn tables and priors of its initial parameters
        starts    for each start: epochs, converged, stopped, undrawn tables and priors, uncounted rows, and of the
                  round of accelerated EM its length, longest, and which of its parameter vectors there are;
                  "has": which of running, best, validations and row_counts there are, the last of length "lines"

and the tensors

    "<stage>/began", "<stage>/<start>/values"   parameters, (size,)
    "<stage>/<start>/first", ".../ahead"        parameters of a round of accelerated EM, (size,), if any
    "<stage>/<start>/running", ".../best"       decayed counts of mini-batch EM, best parameters, (size,), if any
    "<stage>/<start>/validations"               mean log-likelihoods of held-out rows, (epochs,), if any
    "<stage>/<start>/row_counts"                expected counts of rows of tables in the last epoch, (lines,), if any
    "<stage>/<start>/history"                   likelihoods and objectives, (2, epochs)
    "<stage>/<start>/rest"                      the weight of the rows and the final objective, NaN if not computed

Numbers are stored as tensors, so that they are restored bit for bit.
"""

from __future__ import annotations

from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..core import whole_file
from ..core.exceptions import CheckpointError
from ..core.whole_file import reason_of
from ..flow.acceleration import Extrapolation
from ..flow.em import Start
from ..flow.parameters import Parameters
from ..flow.series import Series
from ..graph.blocks import Factor
from ..graph.network import Network
from ..learning.checkpoints import Stage
from . import container
from .container import Container, Refused, container_bytes, open_regular_file, short_repr, value_of
from .model_file import network_parts

CHECKPOINT_VERSION = 1
"""Version of the checkpoint format; raised when older code would misread a file."""


ROUND_VECTORS = ("first", "ahead")
"""The parameter vectors of a round of accelerated EM: see `acceleration.Extrapolation`."""


PROGRESS = ("running", "best", "validations", "row_counts")
"""What a start has in addition in mini-batch EM, or with held-out rows: see `em.Start`."""


def write_checkpoint(place: Path, stages: list[Stage], over: bool, tidy: bool = True) -> None:
    """Write the stages of a run to a file completely; if that fails, an older file stays as it was.

    Args:
        place: the path of the file.
        stages: the stages of the run.
        over: whether the run has ended.
        tidy: whether to remove files that killed processes left in the folder; once in a run is enough.
    """
    failed = f"The checkpoint {str(place)!r} cannot be written"
    tensors: dict[str, np.ndarray] = {}
    records = [_encode_stage(stage, str(number), tensors) for number, stage in enumerate(stages)]
    document = {"checkpoint": CHECKPOINT_VERSION, "fgrn": __version__, "over": over, "stages": records}
    model, more = _best_network(stages)
    document, tensors = {**model, **document}, {**more, **tensors}
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > container.FILE_LIMIT // 2:
        raise CheckpointError(f"{failed}: it would have {size:,} bytes, and could not be read again.")
    try:
        whole_file.write_whole(place, container_bytes(document, tensors), tidy)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: circular links, a NUL in the name
        raise CheckpointError(f"{failed}: {reason_of(error)}. An older file is as it was.") from error


def read_checkpoint(place: Path) -> tuple[list[Stage], bool]:
    """Return the stages of a run, and whether it has ended."""
    failed, remedy = f"The checkpoint {str(place)!r} cannot be read", "Delete it, or name another, to begin anew."
    try:
        with open_regular_file(place) as file:
            return _decode_stages(Container(file, _check_checkpoint_version))
    except Refused as problem:
        raise CheckpointError(f"{failed}: {problem.what} {remedy}", value=str(place)) from problem.__cause__
    except OSError as error:
        raise CheckpointError(f"{failed}: {reason_of(error)}. Check the name and the permissions.") from error
    except MemoryError as error:
        raise CheckpointError(f"{failed}: there is too little memory for it. Use a larger machine.") from error


# From stages to a document


def _best_network(stages: list[Stage]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return document and tensors of the latest network with its best parameters so far; empty if there is none."""
    stage = next((one for one in reversed(stages) if isinstance(one.model, Network)), None)
    if stage is None or any(isinstance(block, Factor) for block in stage.model.blocks):
        return {}, {}  # the junction tree in which a Bayesian network learns is not the model
    best = stage.began if stage.best is None else stage.starts[stage.best].result.handed_over()
    return network_parts(stage.model, best)


def _encode_stage(stage: Stage, name: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the record of a stage, and add its tensors to `tensors`."""
    tensors[f"{name}/began"] = stage.began.values
    starts = []
    for number, start in enumerate(stage.starts):
        key = f"{name}/{number}"
        tensors[f"{key}/values"] = np.asarray(start.parameters.values)
        tensors[f"{key}/rest"] = np.array([start.weight, nan if start.final is None else start.final])
        if start.epochs:
            tensors[f"{key}/history"] = np.array([start.likelihoods, start.objectives])
        ends: dict[str, Any] = {"epochs": start.epochs, "converged": start.converged, "stopped": start.stopped}
        ends["uncounted"] = list(start.uncounted)
        there = {one: getattr(start.extrapolation, one) for one in ROUND_VECTORS}
        tensors |= {f"{key}/{one}": values for one, values in there.items() if values is not None}
        ends["round"] = {
            "length": start.extrapolation.length,
            "longest": start.extrapolation.longest,
            "has": [one for one, values in there.items() if values is not None],
        }
        found = {one: getattr(start, one) for one in PROGRESS}
        ends["lines"] = 0 if start.row_counts is None else len(start.row_counts)
        ends["has"] = [one for one, values in found.items() if values is not None and len(values)]
        tensors |= {f"{key}/{one}": np.array(found[one]) for one in ends["has"]}
        starts.append(ends | _undrawn(start.parameters))
    return {"about": stage.about, "size": len(stage.began.values), "began": _undrawn(stage.began), "starts": starts}


def _undrawn(parameters: Parameters) -> dict[str, list[int]]:
    """Return the numbers of the tables and priors that have not been drawn at random yet."""
    return {"tables": sorted(parameters.undrawn_tables), "priors": sorted(parameters.undrawn_priors)}


# From a document to stages


def _check_checkpoint_version(document: dict[str, Any]) -> None:
    if "checkpoint" not in document:
        raise Refused("it is a model file, and does not tell how far learning has come.")
    version = value_of(int, document, "checkpoint", "its description")
    if version != CHECKPOINT_VERSION:
        raise Refused(f"it has format {version}, written by another version of fgrn; this is {__version__}.")


def _decode_stages(file: Container) -> tuple[list[Stage], bool]:
    """Return the stages in a file, and whether the run has ended."""
    records = _stage_records(file.document, "stages")
    for number, record in enumerate(records):
        size = value_of(int, record, "size", "a stage")
        file.want(f"{number}/began", "the parameters a stage began with", "F64", (size,))
        for start, one in enumerate(_stage_records(record, "starts")):
            epochs, key = value_of(int, one, "epochs", "a start"), f"{number}/{start}"
            file.want(f"{key}/values", "the parameters of a start", "F64", (size,))
            file.want(f"{key}/rest", "the weight of a start", "F64", (2,))
            if epochs:
                file.want(f"{key}/history", "the history of a start", "F64", (2, epochs))
            for name in _round_of(one)["has"]:
                file.want(f"{key}/{name}", "the parameters of a round", "F64", (size,))
            for name in _progress_of(one):
                lengths = {"validations": epochs, "row_counts": value_of(int, {"lines": 0, **one}, "lines", "a start")}
                file.want(f"{key}/{name}", "the progress of a start", "F64", (lengths.get(name, size),))
    arrays = file.tensors(lambda *_: None)
    stages = []
    for number, record in enumerate(records):
        began = _parameters(arrays[f"{number}/began"], value_of(dict, record, "began", "a stage"))
        starts = [
            _start(arrays, f"{number}/{start}", one) for start, one in enumerate(_stage_records(record, "starts"))
        ]
        stages.append(Stage(value_of(dict, record, "about", "a stage"), began, starts))
    return stages, value_of(bool, file.document, "over", "its description")


def _stage_records(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of records of the document."""
    found = value_of(list, record, key, "its description")
    if not all(isinstance(one, dict) for one in found):
        raise Refused(f"{short_repr(found)} are its {key}.")
    return found


def _start(arrays: dict[str, np.ndarray], key: str, record: dict[str, Any]) -> Start:
    """Return one start with its parameters and history."""
    weight, final = arrays[f"{key}/rest"].tolist()
    likelihoods, objectives = arrays.get(f"{key}/history", np.zeros((2, 0))).tolist()
    return Start(
        _parameters(arrays[f"{key}/values"], record),
        Series(likelihoods),
        Series(objectives),
        weight,
        value_of(bool, record, "converged", "a start"),
        value_of(bool, record, "stopped", "a start"),
        None if isnan(final) else final,
        tuple(_whole_numbers(record.get("uncounted", []), "are the lines without counts")),
        _extrapolation(arrays, key, _round_of(record)),
        _counts_of(arrays.get(f"{key}/running")),
        Series(arrays.get(f"{key}/validations", np.zeros(0)).tolist()),
        arrays.get(f"{key}/best"),
        _counts_of(arrays.get(f"{key}/row_counts")),
    )


def _progress_of(record: dict[str, Any]) -> list[Any]:
    """Return the additional arrays of a start; older files have none."""
    names = value_of(list, {"has": [], **record}, "has", "a start")
    if any(name not in PROGRESS for name in names):
        raise Refused(f"{short_repr(names)} are the progress of a start.")
    return names


def _counts_of(values: np.ndarray | None) -> np.ndarray | None:
    """Return decayed counts, checked to be finite and not negative."""
    if values is not None and not (np.isfinite(values) & (values >= 0)).all():
        raise Refused("its counts are not finite, or are negative.")
    return values


def _round_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the round of accelerated EM of a start; files without one give an empty round."""
    found = value_of(dict, {"round": {"has": []}, **record}, "round", "a start")
    names = value_of(list, found, "has", "a round")
    if any(name not in ROUND_VECTORS for name in names):
        raise Refused(f"{short_repr(names)} are the parameters of a round.")
    return found


def _extrapolation(arrays: dict[str, np.ndarray], key: str, record: dict[str, Any]) -> Extrapolation:
    if not record.keys() - {"has"}:
        return Extrapolation()
    numbers = [value_of(float, record, name, "a round") for name in ("length", "longest")]
    if not all(1 <= number < inf for number in numbers):
        raise Refused(f"{short_repr(numbers)} are the steps of a round.")
    first, ahead = (arrays.get(f"{key}/{name}") for name in ROUND_VECTORS)
    return Extrapolation(first, ahead, *numbers)


def _parameters(values: np.ndarray, record: dict[str, Any]) -> Parameters:
    undrawn = [
        frozenset(_whole_numbers(value_of(list, record, key, "its parameters"), "wait for a random start"))
        for key in ("tables", "priors")
    ]
    return Parameters(values, *undrawn)


def _whole_numbers(found: Any, what: str) -> list[int]:
    if not isinstance(found, list) or not all(type(number) is int for number in found):
        raise Refused(f"{short_repr(found)} {what}.")
    return found
