"""scikit-learn estimators for tables of any kind: classifiers, clustering, embeddings, imputation.

Validation and names are here; everything computed is asked of a `Network` (`network_` of a fitted estimator).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifiers import LatentClassifier
    from .deep_classifier import DeepLatentClassifier
    from .hidden_markov import HiddenMarkovModel
    from .hidden_tree_model import HiddenTreeModel
    from .imputer import LatentImputer
    from .latent import DiscreteICA, LatentClassModel
    from .naive_bayes_classifier import NaiveBayesClassifier

__all__ = [
    "DeepLatentClassifier",
    "DiscreteICA",
    "HiddenMarkovModel",
    "HiddenTreeModel",
    "LatentClassModel",
    "LatentClassifier",
    "LatentImputer",
    "NaiveBayesClassifier",
]

_MODULES = {
    "DeepLatentClassifier": "deep_classifier",
    "DiscreteICA": "latent",
    "HiddenMarkovModel": "hidden_markov",
    "HiddenTreeModel": "hidden_tree_model",
    "LatentClassModel": "latent",
    "LatentClassifier": "classifiers",
    "LatentImputer": "imputer",
    "NaiveBayesClassifier": "naive_bayes_classifier",
}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first used: a command that needs one of them does not wait for the others."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
