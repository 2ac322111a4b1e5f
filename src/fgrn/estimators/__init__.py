"""scikit-learn estimators for tables of any kind: classifiers, clustering, embeddings, imputation.

Validation and names are here; everything computed is asked of a `Network` (`network_` of a fitted estimator).
"""

from __future__ import annotations

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
