"""Discrete Bayesian networks as factor graphs in reduced normal form."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _moved
from ._version import __version__
from .core.exceptions import (
    CheckpointError,
    CheckpointWarning,
    ConvergenceWarning,
    EmptyColumnWarning,
    EvidenceError,
    FgrnError,
    FgrnWarning,
    ImpossibleEvidence,
    ImpossibleRowWarning,
    InterruptedWarning,
    KernelCacheWarning,
    LearningError,
    LongNumbersWarning,
    ManyLevelsWarning,
    ModelFileError,
    NetworkFileError,
    RescaledTableWarning,
    SchemaError,
    TableError,
    TableFileError,
    TableWarning,
    UnknownNameError,
    UnseenLevelWarning,
    WiringError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .bayes.arc_confidence import arc_confidence
    from .bayes.bayesian import BayesianNetwork
    from .bayes.compact_kinds import DeterministicTable, LogisticTable
    from .bayes.dynamic import DynamicBayesianNetwork
    from .bayes.factored import FactoredModel
    from .bayes.hidden_trees import hidden_tree
    from .bayes.influence import InfluenceDiagram
    from .bayes.markov import MarkovNetwork
    from .bayes.mixture_learning import tree_mixture
    from .bayes.noisy_tables import NoisyMax, NoisyOr
    from .bayes.structure_search import search
    from .bayes.tree_learning import chow_liu, tan
    from .bayes.tree_mixture import TreeMixture
    from .core.variable import Variable
    from .estimators import (
        DeepLatentClassifier,
        DiscreteICA,
        HiddenMarkovModel,
        HiddenTreeModel,
        LatentClassifier,
        LatentClassModel,
        LatentImputer,
        NaiveBayesClassifier,
    )
    from .graph.blocks import SISO, Diverter, Factor, Source
    from .graph.chain import Chain
    from .graph.network import Network
    from .graph.structures import class_mixture, dica, hmm, lvm, naive_bayes, sequences, stack
    from .learning.checkpoints import Checkpoint
    from .page.page import explore
    from .statistics.pooling import pool
    from .tables.columns import Column
    from .tables.frames import Not, states
    from .tables.schema import Schema
    from .warming import warm

__all__ = [
    "SISO",
    "BayesianNetwork",
    "Chain",
    "Checkpoint",
    "CheckpointError",
    "CheckpointWarning",
    "Column",
    "ConvergenceWarning",
    "DeepLatentClassifier",
    "DeterministicTable",
    "DiscreteICA",
    "Diverter",
    "DynamicBayesianNetwork",
    "EmptyColumnWarning",
    "EvidenceError",
    "Factor",
    "FgrnError",
    "FgrnWarning",
    "HiddenMarkovModel",
    "HiddenTreeModel",
    "ImpossibleEvidence",
    "ImpossibleRowWarning",
    "InfluenceDiagram",
    "InterruptedWarning",
    "KernelCacheWarning",
    "LatentClassModel",
    "LatentClassifier",
    "LatentImputer",
    "LearningError",
    "LogisticTable",
    "LongNumbersWarning",
    "ManyLevelsWarning",
    "MarkovNetwork",
    "ModelFileError",
    "NaiveBayesClassifier",
    "Network",
    "NetworkFileError",
    "NoisyMax",
    "NoisyOr",
    "Not",
    "RescaledTableWarning",
    "Schema",
    "SchemaError",
    "Source",
    "Stream",
    "TableError",
    "TableFileError",
    "TableWarning",
    "TreeMixture",
    "UnknownNameError",
    "UnseenLevelWarning",
    "Variable",
    "WiringError",
    "__version__",
    "arc_confidence",
    "chow_liu",
    "class_mixture",
    "dica",
    "explore",
    "hidden_tree",
    "hmm",
    "load",
    "lvm",
    "naive_bayes",
    "pool",
    "read",
    "read_evidence",
    "search",
    "sequences",
    "stack",
    "states",
    "tan",
    "tree_mixture",
    "warm",
    "write",
]


_BASIC = {
    "Chain": "graph.chain",
    "Checkpoint": "learning.checkpoints",
    "Column": "tables.columns",
    "Diverter": "graph.blocks",
    "Factor": "graph.blocks",
    "Network": "graph.network",
    "Not": "tables.frames",
    "SISO": "graph.blocks",
    "Schema": "tables.schema",
    "Source": "graph.blocks",
    "Variable": "core.variable",
    "class_mixture": "graph.structures",
    "dica": "graph.structures",
    "hmm": "graph.structures",
    "lvm": "graph.structures",
    "naive_bayes": "graph.structures",
    "sequences": "graph.structures",
    "stack": "graph.structures",
    "states": "tables.frames",
}
"""Names of networks and tables, and where they are. The first use of one, or of a folder below, imports all of them."""
_FOLDERS = frozenset({"core", "flow", "graph", "learning", "plan", "queries", "tables"})
_MODELS = {
    "BayesianNetwork": "bayes.bayesian",
    "DeterministicTable": "bayes.compact_kinds",
    "DynamicBayesianNetwork": "bayes.dynamic",
    "InfluenceDiagram": "bayes.influence",
    "LogisticTable": "bayes.compact_kinds",
    "MarkovNetwork": "bayes.markov",
    "NoisyMax": "bayes.noisy_tables",
    "NoisyOr": "bayes.noisy_tables",
    "Stream": "tables.stream",
    "TreeMixture": "bayes.tree_mixture",
    "arc_confidence": "bayes.arc_confidence",
    "chow_liu": "bayes.tree_learning",
    "explore": "page.page",
    "hidden_tree": "bayes.hidden_trees",
    "pool": "statistics.pooling",
    "search": "bayes.structure_search",
    "tan": "bayes.tree_learning",
    "tree_mixture": "bayes.mixture_learning",
    "warm": "warming",
}
_ESTIMATORS = frozenset(
    name for name in __all__ if name.startswith(("Latent", "Deep", "Discrete", "Hidden", "NaiveBayes"))
)
_MODULES = {
    "datasets": "showcase.datasets",
    "engines": "engines",
    "estimators": "estimators",
    "paper": "showcase.paper",
    "plots": "plots",
}

_moved.find_moved()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import fgrn` is fast."""
    if name in _BASIC:
        globals()[name] = found = getattr(import_module(f".{_BASIC[name]}", __name__), name)
        return found
    if name in _FOLDERS:  # with the modules in it that everything basic is made of
        for module in _BASIC.values():
            import_module(f".{module}", __name__)
        return globals()[name]
    if name in _ESTIMATORS:
        return getattr(import_module(".estimators", __name__), name)
    if name in _MODELS:
        return getattr(import_module(f".{_MODELS[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    if f"{__name__}.{name}" in _moved.MOVED:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def load(path: str | Path) -> Any:
    """Return the Network or the estimator that was saved in a model file."""
    from .files.model_file import load as load_file

    return load_file(path)


def read(path: str | Path, format: str | None = None, *, rescale: bool | float = 0.01) -> Any:
    """Return the network in a file of another program: BIF, XMLBIF, Hugin NET, XDSL, UAI, DSC or DNE, also gzipped.

    A Bayesian network is a `BayesianNetwork`, one with decisions or utilities an `InfluenceDiagram`, any other model a
    `MarkovNetwork`. Variables of UAI files are called x0, x1, ..., and their states are numbers.

    Args:
        path: the path of the file.
        format: "bif", "xmlbif", "net", "xdsl", "uai", "dsc" or "dne"; None for the one that the extension of the name
            or the content of the file indicates.
        rescale: the largest accepted difference between the sum of a row and one. Rows that differ by more than
            rounding, 0.0001, and at most by this are divided by their sum, with a warning; others are an error. True
            divides any row by its sum, for tables of counts; False none.
    """
    from .bayes.bayesian import BayesianNetwork
    from .bayes.markov import MarkovNetwork
    from .files.formats import read_document

    document = read_document(path, format, rescale=rescale)
    kind: Any = BayesianNetwork if document.directed else MarkovNetwork
    if document.decisions or document.utilities:
        from .bayes.influence import InfluenceDiagram

        kind = InfluenceDiagram
    try:
        return kind.from_document(document)
    except (TableError, WiringError) as error:
        raise NetworkFileError(**{**error.parts, "file": repr(str(path))}) from None


def write(
    model: FactoredModel | InfluenceDiagram | DynamicBayesianNetwork, path: str | Path, format: str | None = None
) -> None:
    """Write a model to a file for other programs; gzipped if its name ends in .gz.

    Args:
        model: a `BayesianNetwork`, a `MarkovNetwork` (for UAI), an `InfluenceDiagram` (for XDSL and NET), or a
            `DynamicBayesianNetwork` of order one, which is written as its two slices (not for UAI, which has no names).
        path: the path of the file.
        format: see `read`; None for the one that the extension of the name indicates.

    Files hold labels as words: those that are numbers are read back as words.
    """
    from .bayes.dynamic import DynamicBayesianNetwork
    from .bayes.factored import FactoredModel
    from .bayes.influence import InfluenceDiagram
    from .files.formats import format_to_write, write_document

    if isinstance(model, DynamicBayesianNetwork):
        if format_to_write(path, format) == "uai":
            raise NetworkFileError(
                "UAI has no names of variables, by which the two slices of a dynamic network are told apart.",
                file=repr(str(path)),
                remedies=(
                    "write another format, such as BIF (.bif)",
                    "write two_slices(), whose names are then lost",
                ),
            )
        model = model.two_slices()
    if not isinstance(model, (FactoredModel, InfluenceDiagram)):
        raise FgrnError(
            f"A BayesianNetwork or a MarkovNetwork can be written for other programs. Got a {type(model).__name__}."
        )
    write_document(model.to_document(), path, format)


def read_evidence(path: str | Path) -> Mapping[str, Any]:
    """Return the evidence in a UAI evidence file, by variable, as `propagate` takes it."""
    from .files.formats import read_evidence as read_file

    return read_file(path)
