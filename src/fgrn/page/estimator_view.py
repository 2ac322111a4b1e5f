"""What a page says of a fitted estimator: its class, and how the values of a table become states."""

from __future__ import annotations

from typing import Any

from ..tables.missing import MISSING


def estimator_text(model: Any) -> dict[str, Any]:
    """The variable that is predicted, a class or a cluster, None if there is none; and each column as a file has it."""
    target = model._class_name() if hasattr(model, "classes_") else None
    if target is None and hasattr(model, "predict_proba"):
        (target,) = model._hidden()
    columns = []
    for name, column in model.schema_.items():
        words = [word for word in MISSING if word not in column.levels] if column.missing_words else [""]
        columns.append({
            "name": name, "missing": [*map(str, column.missing), *words],
            **({"edges": list(column.edges)} if column.is_binned else {}),
        })  # fmt: skip
    return {"target": target, "columns": [one for one in columns if one["name"] in model.schema_.states]}
