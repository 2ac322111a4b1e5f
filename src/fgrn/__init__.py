"""Discrete Bayesian networks as factor graphs in reduced normal form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .chain import Chain
from .exceptions import (
    ConvergenceWarning,
    EvidenceError,
    FgrnError,
    ImpossibleEvidence,
    LearningError,
    ModelFileError,
    TableError,
    UnknownNameError,
    WiringError,
)
from .frames import states
from .graph import SISO, Diverter, Source, Variable
from .network import Network
from .structures import dica, hmm, lvm, naive_bayes, sequences, stack

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "SISO",
    "Chain",
    "ConvergenceWarning",
    "Diverter",
    "EvidenceError",
    "FgrnError",
    "ImpossibleEvidence",
    "LearningError",
    "ModelFileError",
    "Network",
    "Source",
    "TableError",
    "UnknownNameError",
    "Variable",
    "WiringError",
    "__version__",
    "dica",
    "hmm",
    "load",
    "lvm",
    "naive_bayes",
    "sequences",
    "stack",
    "states",
]


def load(path: str | Path) -> Network:
    """The network in a model file written by `Network.save`."""
    from .io.model_file import load as load_file

    return load_file(path)
