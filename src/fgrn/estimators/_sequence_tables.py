"""Tables of sequences for estimators: the columns that identify sequences and times, and rows sorted by them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import Remedy, TableWarning, unknown_name, warn
from ..learning.encoding import table_of_source, without_columns
from ..tables import frames
from ..tables.encoded import Evidence
from ..tables.time_order import TimeOrder, check_two_columns
from ._continuous import ContinuousColumns
from ._streams import encoded_stream
from ._tables import is_array


class SequenceTables(ContinuousColumns):
    """Base class of estimators whose rows are steps of sequences."""

    beside_: tuple[str | None, ...]  # the names of the columns of sequences and times, as given to `fit`

    def _in_order(self, X: Any, sequence: Any, time: Any) -> Evidence:
        """Return an encoded table to learn from, sorted by sequence and time; sets the columns of the model."""
        check_two_columns(sequence, time)
        if frames.is_source(X):
            beside = [one for one in (sequence, time) if isinstance(one, str)]
            features, kept = without_columns(X, beside, self._missing_codes())
            table = encoded_stream(self, features, None, None, None).local_rows()
            found = {name: frames.as_column(kept.column(name), name) for name in beside}
            ids, times = (found[one] if isinstance(one, str) else one for one in (sequence, time))
        else:
            features, ids, times = self._parted(X, sequence, time)
            table = self._learnable(features, None, None)
        order = TimeOrder.of(table.rows, ids, times, self.step)
        if times is None and not order.as_given:
            warn(
                "rows of different sequences come mixed, and no times are given: the rows of each sequence are taken "
                "in the order of the table, which is wrong if the table was shuffled.",
                TableWarning,
                column=sequence if isinstance(sequence, str) else None,
                remedies=Remedy("if a column tells the order, name it", "time=...", time_column=...),
            )
        return order.evidence(table)

    def _parted(self, X: Any, sequence: Any, time: Any) -> tuple[Any, Any, Any]:
        """Return the table without the columns of sequences and times, and these columns."""
        found = []
        named = [self.beside_[k] if one is None else one for k, one in enumerate((sequence, time))]
        for setting, given, one in zip(("sequence", "time"), (sequence, time), named, strict=True):
            if not isinstance(one, str):
                found.append(one)
            elif not is_array(X) and frames.has_column(X, one):
                found.append(frames.column(X, one))
                X = frames.without_column(X, one)
            elif given is None:
                taken = (
                    "all rows are taken for one sequence" if setting == "sequence" else "rows are taken as they follow"
                )
                warn(
                    f"the model was learnt with this column as {setting!r}, and the table does not have it: {taken}.",
                    TableWarning,
                    column=one,
                    remedies=("add the column", Remedy("give one value per row", None, **{setting: ...})),
                )
                found.append(None)
            else:
                raise unknown_name("column", one, () if is_array(X) else frames.columns(X))
        for remembered in self.beside_:  # given by value or by another name, and still there: no feature
            if remembered is not None and not is_array(X) and frames.has_column(X, remembered):
                X = frames.without_column(X, remembered)
        return X, found[0], found[1]

    def _in_memory(self, X: Any) -> Any:
        """Return a table, or the rows of files or batches as one: a sequence may continue from batch to batch."""
        return table_of_source(X, self._missing_codes()) if frames.is_source(X) else X

    def _ordered(self, X: Any, sequence: Any, time: Any) -> tuple[Evidence, TimeOrder, Any]:
        """Return a table for prediction, sorted by time, and as given, without sequences and times."""
        if "network_" not in self.__dict__:
            check_is_fitted(self)
        check_two_columns(sequence, time)
        features, ids, times = self._parted(self._in_memory(X), sequence, time)
        table = self._encoded(self._coded(features), None)
        order = TimeOrder.of(table.rows, ids, times, self.step)
        return order.evidence(table), order, features
