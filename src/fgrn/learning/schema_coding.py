"""Columns read in batches as codes by their schema; what is no level of them is counted, and told once at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.exceptions import SchemaError, UnseenLevelWarning, warn
from ..tables import table_warnings
from ..tables.columns import STOP_AT_UNSEEN

if TYPE_CHECKING:
    from ..tables.schema import Schema


class BySchema:
    """Encodes columns by their schema, and counts values that are not levels, for one warning at the end.

    They are an error where `unseen` says so, in the `strict` columns, and if they are words among numbers. In the
    columns of `classes` words that are taken as missing values are counted and warned of, too.
    """

    def __init__(self, schema: Schema, unseen: str, strict: Iterable[str] = (), classes: Iterable[str] = ()) -> None:
        self.schema, self.unseen = schema, unseen
        self.strict, self.classes = frozenset(strict), frozenset(classes)
        self.strange: dict[str, Counter[Any]] = {}

    def fresh(self) -> BySchema:
        """Return a copy with all counts at zero."""
        return BySchema(self.schema, self.unseen, self.strict, self.classes)

    def __call__(self, name: str, values: Any) -> np.ndarray:
        """See `Coder`."""
        if self.schema[name].continuous:
            return self.schema[name].numbers(values)
        codes, found = self.schema[name].codes(values)
        if found and (self.unseen == "error" or name in self.strict or self.schema[name].is_binned):
            raise SchemaError(**self.schema.unseen_parts({name: found}))
        if name in self.classes:
            found = {**found, **table_warnings.count_missing_words(values, self.schema[name])}
        if found:
            self.strange.setdefault(name, Counter()).update(found)
        return codes

    def issue_warnings(self) -> None:
        """Warn of values that are not levels, and of classes that were taken as missing values."""
        unseen: dict[str, dict[Any, int]] = {}
        for name, found in self.strange.items():
            missing = {value: count for value, count in found.items() if self.schema[name].is_missing(value)}
            if missing:
                table_warnings.warn_of_missing_classes(name, missing)
            if len(missing) < len(found):
                unseen[name] = {value: count for value, count in found.items() if value not in missing}
        if unseen:
            parts = self.schema.unseen_parts(unseen)
            parts["message"] += " Treated as unknown."
            warn(kind=UnseenLevelWarning, remedies=STOP_AT_UNSEEN, **parts)
