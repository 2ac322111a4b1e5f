"""Discrete Bayesian networks as factor graphs in reduced normal form."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .chain import Chain
from .columns import Column
from .exceptions import (
    ConvergenceWarning,
    EvidenceError,
    FgrnError,
    ImpossibleEvidence,
    LearningError,
    ModelFileError,
    NetworkFileError,
    SchemaError,
    TableError,
    TableFileError,
    UnknownNameError,
    UnseenLevelWarning,
    WiringError,
)
from .frames import states
from .graph import SISO, Diverter, Factor, Source
from .network import Network
from .schema import Schema
from .structures import dica, hmm, lvm, naive_bayes, sequences, stack
from .variable import Variable

if TYPE_CHECKING:
    from pathlib import Path

    from .estimators import (
        DeepLatentClassifier,
        DiscreteICA,
        LatentClassifier,
        LatentClassModel,
        LatentImputer,
        NaiveBayesClassifier,
    )

__all__ = [
    "SISO",
    "Chain",
    "Column",
    "ConvergenceWarning",
    "DeepLatentClassifier",
    "DiscreteICA",
    "Diverter",
    "EvidenceError",
    "Factor",
    "FgrnError",
    "ImpossibleEvidence",
    "LatentClassModel",
    "LatentClassifier",
    "LatentImputer",
    "LearningError",
    "ModelFileError",
    "NaiveBayesClassifier",
    "Network",
    "NetworkFileError",
    "Schema",
    "SchemaError",
    "Source",
    "TableError",
    "TableFileError",
    "UnknownNameError",
    "UnseenLevelWarning",
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


_ESTIMATORS = frozenset(name for name in __all__ if name.startswith(("Latent", "Deep", "Discrete", "NaiveBayes")))
_MODULES = frozenset({"datasets", "estimators", "paper", "plots"})


def __getattr__(name: str) -> Any:
    """Estimators and heavy modules, imported when they are first asked for."""
    if name in _ESTIMATORS:
        return getattr(import_module(".estimators", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def load(path: str | Path) -> Any:
    """What is in a model file: the Network or the estimator that was saved there."""
    from .io.model_file import load as load_file

    return load_file(path)
