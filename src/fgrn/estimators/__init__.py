"""scikit-learn estimators: tables as they are in, classes, clusters, embeddings and completed tables out.

Validation and names are here; everything computed is asked of a `Network` (`network_` of a fitted estimator).
"""

from __future__ import annotations

from .classifiers import DeepLatentClassifier, LatentClassifier, NaiveBayesClassifier
from .imputer import LatentImputer
from .latent import DiscreteICA, LatentClassModel
from .sequences import HiddenMarkovModel

__all__ = [
    "DeepLatentClassifier",
    "DiscreteICA",
    "HiddenMarkovModel",
    "LatentClassModel",
    "LatentClassifier",
    "LatentImputer",
    "NaiveBayesClassifier",
]
