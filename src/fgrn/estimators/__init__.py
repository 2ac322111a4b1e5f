"""scikit-learn estimators: tables as they are in, classes, clusters, embeddings and completed tables out.

Validation and names are here; everything computed is asked of a `Network` (`network_` of a fitted estimator).
"""

from __future__ import annotations

from .classifiers import DeepLatentClassifier, LatentClassifier, NaiveBayesClassifier
from .imputer import LatentImputer
from .latent import DiscreteICA, LatentClassModel
from .trees import HiddenTreeModel

__all__ = [
    "DeepLatentClassifier",
    "DiscreteICA",
    "HiddenTreeModel",
    "LatentClassModel",
    "LatentClassifier",
    "LatentImputer",
    "NaiveBayesClassifier",
]
