"""Checkpoints as files: the stages of a run as a document and tensors in the container of model files.

Beside what a model file has for the network as it is so far, so that it can be loaded as such, there are

    "checkpoint": the version of the format, "over": whether the run has ended, "stages": of each
        about     what it is about, see `checkpoints.about`
        size      of the vector of its parameters
        began     undrawn tables and priors of the parameters it began with
        starts    of each: epochs, converged, stopped, undrawn tables and priors

and the tensors

    "<stage>/began", "<stage>/<start>/values"   parameters, (size,)
    "<stage>/<start>/history"                   likelihoods and objectives, (2, epochs)
    "<stage>/<start>/rest"                      the weight of the rows and the final objective, NaN if it is not known

Numbers are in tensors, so that each comes back to the last bit.
"""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..checkpoints import Stage
from ..em import Start
from ..exceptions import CheckpointError
from ..network import Network
from ..parameters import Parameters
from . import container, whole_file
from .container import Container, Refused, opened, packed, shown, value_of
from .model_file import network_parts
from .whole_file import reason

FORMAT_VERSION = 1
"""Goes up when the code of before would misread a file."""


def write(place: Path, stages: list[Stage], over: bool, tidy: bool = True) -> None:
    """Write the stages of a run: all of them or, where that fails, nothing; an older file is then as it was.

    Args:
        place: of the file.
        stages: of the run.
        over: whether the run has ended.
        tidy: remove what killed processes have left in the folder; once in a run is enough.
    """
    failed = f"The checkpoint {str(place)!r} cannot be written"
    tensors: dict[str, np.ndarray] = {}
    records = [_stage_record(stage, str(number), tensors) for number, stage in enumerate(stages)]
    document = {"checkpoint": FORMAT_VERSION, "fgrn": __version__, "over": over, "stages": records}
    model, more = _model(stages)
    document, tensors = {**model, **document}, {**more, **tensors}
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > container.FILE_LIMIT // 2:
        raise CheckpointError(f"{failed}: it would have {size:,} bytes, and could not be read again.")
    try:
        whole_file.write(place, packed(document, tensors), tidy)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: links in a circle, a zero in the name
        raise CheckpointError(f"{failed}: {reason(error)}. An older file is as it was.") from error


def read(place: Path) -> tuple[list[Stage], bool]:
    """The stages of a run, and whether it has ended."""
    failed, remedy = f"The checkpoint {str(place)!r} cannot be read", "Delete it, or name another, to begin anew."
    try:
        with opened(place) as file:
            return _decoded(Container(file, _check_version))
    except Refused as problem:
        raise CheckpointError(f"{failed}: {problem.args[0]} {remedy}") from problem.__cause__
    except OSError as error:
        raise CheckpointError(f"{failed}: {reason(error)}. Check the name and the permissions.") from error
    except MemoryError as error:
        raise CheckpointError(f"{failed}: there is too little memory for it. Use a larger machine.") from error


# From stages to a document


def _model(stages: list[Stage]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The network of the last stage that has begun here, with the best parameters so far; nothing of other models."""
    stage = next((one for one in reversed(stages) if isinstance(one.model, Network)), None)
    if stage is None:
        return {}, {}
    tried = [start for start in stage.starts if start.epochs]
    best = max(tried, key=_objective).parameters if tried else stage.began
    try:
        return network_parts(stage.model, best)
    except Refused:  # a tree of clusters is no model of its own
        return {}, {}


def _objective(start: Start) -> float:
    """Of its parameters as they are, or else of those before the last update."""
    return start.objectives[-1] if start.final is None else start.final


def _stage_record(stage: Stage, name: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    tensors[f"{name}/began"] = stage.began.values
    starts = []
    for number, start in enumerate(stage.starts):
        key = f"{name}/{number}"
        tensors[f"{key}/values"] = start.parameters.values
        tensors[f"{key}/rest"] = np.array([start.weight, nan if start.final is None else start.final])
        if start.epochs:
            tensors[f"{key}/history"] = np.array([start.likelihoods, start.objectives])
        ends = {"epochs": start.epochs, "converged": start.converged, "stopped": start.stopped}
        starts.append(ends | _undrawn(start.parameters))
    return {"about": stage.about, "size": len(stage.began.values), "began": _undrawn(stage.began), "starts": starts}


def _undrawn(parameters: Parameters) -> dict[str, list[int]]:
    return {"tables": sorted(parameters.undrawn_tables), "priors": sorted(parameters.undrawn_priors)}


# From a document to stages


def _check_version(document: dict[str, Any]) -> None:
    if "checkpoint" not in document:
        raise Refused("it is a model file, and does not tell how far learning has come.")
    version = value_of(int, document, "checkpoint", "its description")
    if version != FORMAT_VERSION:
        raise Refused(f"it has format {version}, written by another version of fgrn; this is {__version__}.")


def _decoded(file: Container) -> tuple[list[Stage], bool]:
    records = _records(file.document, "stages")
    for number, record in enumerate(records):
        size = value_of(int, record, "size", "a stage")
        file.want(f"{number}/began", "the parameters a stage began with", "F64", (size,))
        for start, one in enumerate(_records(record, "starts")):
            epochs, key = value_of(int, one, "epochs", "a start"), f"{number}/{start}"
            file.want(f"{key}/values", "the parameters of a start", "F64", (size,))
            file.want(f"{key}/rest", "the weight of a start", "F64", (2,))
            if epochs:
                file.want(f"{key}/history", "the history of a start", "F64", (2, epochs))
    arrays = file.tensors(lambda *_: None)
    stages = []
    for number, record in enumerate(records):
        began = _parameters(arrays[f"{number}/began"], value_of(dict, record, "began", "a stage"))
        starts = [_start(arrays, f"{number}/{start}", one) for start, one in enumerate(_records(record, "starts"))]
        stages.append(Stage(value_of(dict, record, "about", "a stage"), began, starts))
    return stages, value_of(bool, file.document, "over", "its description")


def _records(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = value_of(list, record, key, "its description")
    if not all(isinstance(one, dict) for one in found):
        raise Refused(f"{shown(found)} are its {key}.")
    return found


def _start(arrays: dict[str, np.ndarray], key: str, record: dict[str, Any]) -> Start:
    weight, final = arrays[f"{key}/rest"].tolist()
    likelihoods, objectives = arrays.get(f"{key}/history", np.zeros((2, 0))).tolist()
    return Start(
        _parameters(arrays[f"{key}/values"], record),
        tuple(likelihoods),
        tuple(objectives),
        weight,
        value_of(bool, record, "converged", "a start"),
        value_of(bool, record, "stopped", "a start"),
        None if isnan(final) else final,
    )


def _parameters(values: np.ndarray, record: dict[str, Any]) -> Parameters:
    undrawn = [value_of(list, record, key, "its parameters") for key in ("tables", "priors")]
    if not all(type(number) is int for some in undrawn for number in some):
        raise Refused(f"{shown(undrawn)} wait for a random start.")
    return Parameters(values, frozenset(undrawn[0]), frozenset(undrawn[1]))
