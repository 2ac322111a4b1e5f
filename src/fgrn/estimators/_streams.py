"""How rows that are not in memory go into the estimators: what columns and classes mean is found in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Column
from ..exceptions import LearningError, unknown_name
from ..frames import Recorded
from ..io.batches import stream_of
from ..schema import Schema
from ..streams import BySchema, checked_weight_name, distinct_values, record

if TYPE_CHECKING:
    from ._base import LatentEstimator


def recorded(model: LatentEstimator, X: Any, sample_weight: Any, target: Any) -> Recorded:
    """The codes of a stream, on disk; the columns and classes of the model are what they are from now on.

    Args:
        model: the estimator.
        X: the stream, or what can be made one.
        sample_weight: the name of the column of weights, or None.
        target: the name of the column that is the class, or None.
    """
    if getattr(model, "n_hidden", None) == "auto":
        raise LearningError(
            "The number of hidden states is chosen on rows in memory: call compare with some of them, and set n_hidden."
        )
    stream, weights = stream_of(X), checked_weight_name(sample_weight)
    found: dict[str, Any] = {}
    if model.schema is None or target is not None:
        found = dict(distinct_values(stream.again(), weights))
    if target is not None:
        if not isinstance(target, str) or target not in found:
            raise unknown_name("column", target, found)
        model._know(model._classes({target: found.pop(target).values}))
    schema: list[Schema] = []
    coders: list[BySchema] = []

    def choose(names: Sequence[str]) -> dict[str, str]:
        features = [name for name in names if name != target]
        model.n_features_in_ = len(features)
        model.feature_names_in_ = np.array(features, dtype=object)
        model.schema_ = model._read_schema(found or dict.fromkeys(features), None)
        columns = [column for column in model.schema_.values() if column.levels]
        kept = {column.name: column.name for column in columns}
        if target is not None:
            columns.append(Column(target, tuple(model._class_labels())))
            kept[target] = model._class_name()
        schema.append(Schema(columns))
        coders.append(BySchema(schema[0], model.unseen))
        return kept

    table = record(
        stream, weights, choose, lambda name, values: coders[0](name, values), lambda name: len(schema[0][name].levels),
        without_zero=True,
    )  # fmt: skip
    coders[0].tell()
    return table
