"""Rows that are not in memory, for estimators: one pass finds the levels of columns and classes, another encodes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.exceptions import LearningError, Remedy, TableFileError, unknown_name
from ..core.progress import ProgressReporter, ReadingProgress
from ..learning.encoding import (
    CodedBatch,
    Coding,
    WeightedBatch,
    check_rows,
    checked_weight_name,
    coded,
    distinct_of_batches,
    rows_of_source,
    weighted_batches,
)
from ..learning.schema_coding import BySchema
from ..tables.columns import Column
from ..tables.encoded import EncodedTable, Evidence
from ..tables.frames import Coded
from ..tables.missing import is_missing_word
from ..tables.schema import Schema
from ..tables.stream import stream_of

if TYPE_CHECKING:
    from ._base import LatentEstimator


def encoded_stream(model: LatentEstimator, X: Any, sample_weight: Any, target: Any, executor: Any) -> EncodedTable:
    """Return the codes of rows that are not in memory; sets the columns and classes of the model.

    Args:
        model: the estimator.
        X: the stream, or what can be made one.
        sample_weight: the name of the column of weights, or None.
        target: the name of the column that is the class, or None.
        executor: the client of a cluster, or None.
    """
    if executor is not None and getattr(model, "n_hidden", None) == "auto":
        raise LearningError(
            "The number of hidden states cannot be chosen on a cluster.",
            remedies=Remedy("compare numbers of states on some of the rows, and continue", n_hidden=...),
        )
    with ReadingProgress(model.verbose) as reporter:
        return _encoded_stream(model, X, sample_weight, target, executor, reporter)


def _encoded_stream(
    model: LatentEstimator, X: Any, sample_weight: Any, target: Any, executor: Any, reporter: ProgressReporter
) -> EncodedTable:
    look_first = model.schema is None or target is not None
    weights = checked_weight_name(sample_weight)
    rows = rows_of_source(X, executor, look_first, reporter, model._missing_codes())
    found: dict[str, Any] = dict(rows.distinct(weights)) if look_first else {}
    _take_classes(model, found, target)
    coders: list[BySchema] = []

    def coding_for(names: Sequence[str]) -> Coding:
        _take_columns(model, names, found, target)
        coding, coder = _coding(model, target)
        coders.append(coder)
        return coding

    table = rows.encoded(weights, coding_for, without_zero=True)
    coders[0].issue_warnings()
    model._take_units(table)
    return table


def _take_classes(model: LatentEstimator, found: dict[str, Any], target: Any, classes: Any = None) -> None:
    """Set the classes of the model: those given, or found in a column, which is removed from the features."""
    if target is None:
        return
    if target not in found:
        raise unknown_name("column", target, found)
    values = found.pop(target).values
    if model._missing_codes() is None:  # how many rows have such a word is told when all have been read
        values = [value for value in values if not is_missing_word(value)]
    if not values and classes is None:
        raise ValueError(f"The class of no row is known: column {target!r} is empty.")
    model._set_classes(model._classes({target: values if classes is None else list(classes)}, classes))


def _take_columns(model: LatentEstimator, names: Sequence[str], found: dict[str, Any], target: str | None) -> None:
    """Set the columns of the model and their schema; `found` may be empty if a schema is given."""
    features = [name for name in names if name != target]
    model.n_features_in_ = len(features)
    model.feature_names_in_ = np.array(features, dtype=object)
    model.schema_ = model._read_schema(found or dict.fromkeys(features), None)


def _coding(model: LatentEstimator, target: str | None, strict: bool = False) -> tuple[Coding, BySchema]:
    """Return the encoding of the columns and the class, with a counter of values that are not levels.

    `strict`: there is no other class.
    """
    columns = [column for column in model.schema_.values() if column.levels]
    counted: list[str] = []
    kept = {column.name: column.name for column in columns}
    if target is not None:
        classes = model._class_labels()
        codes = model._missing_codes()
        words = tuple(word for word in codes or () if word not in classes)
        columns.append(Column(target, tuple(classes), missing=words, missing_words=codes is None))
        kept[target] = model._class_name()
        counted = [target] if codes is None else []
    continuous = model.schema_.continuous
    known = Schema([*columns, *(model.schema_[name] for name in continuous)])
    coder = BySchema(known, model.unseen, [target] if strict and target is not None else [], counted)
    return Coding(kept, {column.name: len(column.levels) for column in columns}, coder, continuous), coder


def online_batches(
    model: LatentEstimator, X: Any, sample_weight: Any, target: Any, classes: Any
) -> Generator[Evidence, None, None]:
    """Yield codes and weights of rows that are read once, in batches at least as large as the stream's.

    The first of them decides what the columns are of a model that has not learnt anything, and its classes, unless
    these are given.
    """
    stream, weights = stream_of(X, model._missing_codes()), checked_weight_name(sample_weight)
    rows = weighted_batches(stream.once(), stream, weights, without_zero=True)
    head: list[WeightedBatch] = []
    count = 0
    for batch in rows:
        head.append(batch)
        count += len(batch.batch.numbers)
        if count >= stream.rows:
            break
    check_rows(stream.called, len(head), len(head), weights)
    if not hasattr(model, "network_"):
        left_out = stream.left_out.copy()  # these rows are looked at once more
        look_first = model.schema is None or target is not None
        found = dict(distinct_of_batches(stream, head)) if look_first else {}
        stream.left_out = left_out
        _take_classes(model, found, target, classes)
        _take_columns(model, list(head[0].columns), found, target)
    coding, coder = _coding(model, target, strict=classes is not None)
    ready: list[CodedBatch] = []
    count = total = 0
    try:
        for batch in chain(head, rows):
            ready.append(coded(stream, _matched(model, batch, target), coding))
            count += len(ready[-1].codes)
            if count >= stream.rows:
                yield _joined_batches(model, ready, coding)
                ready, count, total = [], 0, total + count
        if count:
            yield _joined_batches(model, ready, coding)
        elif not total:
            raise TableFileError("it holds no rows to learn from.", file=stream.called)
    finally:  # also if the iteration is abandoned
        coder.issue_warnings()
        stream.issue_warnings()


def _matched(model: LatentEstimator, rows: WeightedBatch, target: str | None) -> WeightedBatch:
    """Return the columns of the model, and the class."""
    features = {name: column for name, column in rows.columns.items() if name != target}
    columns = model._mapping(features, reset=False)
    if target is not None:
        if target not in rows.columns:
            raise unknown_name("column", target, rows.columns)
        columns[target] = rows.columns[target]
    return rows._replace(columns=columns)


def _joined_batches(model: LatentEstimator, batches: Sequence[CodedBatch], coding: Coding) -> Evidence:
    codes = np.concatenate([one.codes for one in batches])
    given = [one.weights for one in batches if one.weights is not None]
    numbers = np.concatenate([one.continuous for one in batches])
    data: dict[str, Any] = {name: Coded(codes[:, position]) for position, name in enumerate(coding.kept.values())}
    data |= {name: numbers[:, position] for position, name in enumerate(coding.continuous)}
    return model._encoded(data, np.concatenate(given) if given else None)
