"""What `fgrn fit` reports of a model that was learnt: rows, epochs, accuracy, candidates; as text or as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.exceptions import counted
from ..tables.missing import is_missing_value
from . import input_files, shared_options, terminal
from .model_rows import matched
from .schema_text import schema_text
from .signals import CHOICE_CUT_SHORT
from .terminal import print_message, print_text

ON_HELD_OUT_ROWS = "_on_rows_kept_back"
"""The ending of the keys of `--json` that are about held-out rows; it stays as scripts know it."""


def show_fit(estimator: Any, report: dict[str, Any], as_json: bool, missing: bool) -> None:
    """Print the learnt model, as text or as JSON; a classifier of one class is reported on standard error.

    `missing`: whether a value is missing, so that it is told what is taken as such.
    """
    classes = getattr(estimator, "classes_", [])
    if len(classes) == 1:
        print_message(
            f"All rows with a class have the same one, {str(classes[0])!r}: the model can predict no other, and its "
            "accuracy says nothing. Add rows of other classes, or choose another --target."
        )
    if as_json:
        terminal.print_json(report)
    else:
        print_text(_report_text(estimator, report, missing))


def fit_report(
    estimator: Any,
    table: Any,
    classes: Any,
    is_held_out: np.ndarray,
    output: str,
    interrupted: bool,
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return the summary of a fit on a table in memory; `is_held_out` marks its held-out rows."""
    report = _learnt(estimator, int((~is_held_out).sum()), int(is_held_out.sum()), output, interrupted)
    if classes is not None:
        known = np.array([not is_missing_value(value) for value in classes])
        for name, rows in (("accuracy", ~is_held_out & known), (f"accuracy{ON_HELD_OUT_ROWS}", is_held_out & known)):
            if rows.any():
                found = estimator.predict(table.filter(rows)) == classes[rows]
                report[name] = float(np.mean(found))
                kind = is_held_out if name != "accuracy" else ~is_held_out
                report[name.replace("accuracy", "rows_with_class")] = int(rows.sum())
                report[name.replace("accuracy", "rows_without_class")] = int((kind & ~known).sum())
                _, counts = np.unique(classes[rows].astype(str), return_counts=True)
                report[name.replace("accuracy", "largest_class")] = float(counts.max() / counts.sum())
    elif is_held_out.any():
        chosen = None if weights is None else weights[is_held_out]
        report |= _held_out_likelihood(estimator, table.filter(is_held_out), chosen)
    report |= _tried(estimator)
    return report


def _held_out_likelihood(estimator: Any, rows: Any, weights: np.ndarray | None) -> dict[str, Any]:
    """Return the mean log-likelihood of held-out rows, and how many of them are impossible under the model."""
    counts = np.ones(rows.num_rows) if weights is None else weights
    if not counts.any():
        return {}
    scores = estimator.score_samples(rows)[counts > 0]
    return {
        f"log_likelihood_per_row{ON_HELD_OUT_ROWS}": float(np.average(scores, weights=counts[counts > 0])),
        "impossible_rows_kept_back": int(np.isneginf(scores).sum()),
    }


def _learnt(estimator: Any, rows: int, held_out: int, output: str, interrupted: bool) -> dict[str, Any]:
    """Return a summary of a fit: rows, epochs, convergence, log-likelihood."""
    history = estimator.history_
    return {
        "model": type(estimator).__name__,
        "file": output,
        "rows": rows,
        "rows_kept_back": held_out,
        "epochs": history.epochs,
        "converged": history.converged,
        "interrupted": interrupted,
        "log_likelihood_per_row": float(history.per_row[-1]),
        "n_hidden": getattr(estimator, "n_hidden_", None),
        "parameters": getattr(estimator.network_, "free_parameters", None),
        "not_estimated": {name: list(rows) for name, rows in history.not_estimated.items()},
    }


def _tried(estimator: Any) -> dict[str, Any]:
    """Return the candidates of the choice of a model, and the structures of which not all were tried."""
    if not hasattr(estimator, "selection_"):
        return {}
    unfinished = getattr(estimator.selection_, "unfinished", None)
    return {"tried": estimator.selection_.as_dicts()} | shared_options.those_given(unfinished=unfinished)


def batches_report(estimator: Any, rows: Any, output: str, interrupted: bool) -> dict[str, Any]:
    """Return the summary of a fit on rows that came in batches."""
    report = _learnt(estimator, estimator.n_rows_, 0, output, interrupted)
    report["rows_left_out"] = dict(rows.left_out)
    report |= _tried(estimator)
    if estimator._online is not None:
        report["batches"] = estimator._online.batches
    return report


def accuracy_report(estimator: Any, rows: Any, target: str | None) -> dict[str, Any]:
    """Return the accuracy, by reading the rows once more; nothing without a class."""
    if target is None:
        return {}
    right, seen, counts = 0, 0, dict.fromkeys(estimator.classes_.tolist(), 0)
    estimator.unseen = "unknown"
    for table, known in matched(estimator, rows, quiet=True):
        truth = table[target].to_pylist()
        seen += len(truth)
        found = estimator.predict(known).tolist()
        right += sum(one == other for one, other in zip(found, truth, strict=True) if other is not None)
        for value in truth:
            if value in counts:
                counts[value] += 1
    total = sum(counts.values())
    return {
        "accuracy": right / total,
        "rows_with_class": total,
        "rows_without_class": seen - total,
        "largest_class": max(counts.values()) / total,
    }


def _selection_lines(estimator: Any, interrupted: bool) -> list[str]:
    """Return the candidates as text, and whether an interruption, or a time limit that the user set, ended the choice.

    The choice of a classifier records which structures are `unfinished`; another one is the whole fit.
    """
    found = estimator.selection_
    names = getattr(found, "unfinished", None)
    if interrupted and (names is None or names):
        told = [CHOICE_CUT_SHORT]
    else:
        limited = bool(names) and estimator.max_seconds is not None
        told = [f"--max-seconds ended this before all of {' and '.join(names or ())} was tried"] * limited
    return [str(replace(found, unfinished=()) if names else found), *told]


def _report_text(estimator: Any, report: dict[str, Any], missing: bool) -> str:
    """Return the summary of a fit as text."""
    codes = None if estimator.missing_values is None else [str(code) for code in estimator.missing_values]
    lines = [schema_text(estimator.schema_), *([input_files.missing_codes_line(codes)] if missing else []), ""]
    if hasattr(estimator, "selection_"):
        lines += [*_selection_lines(estimator, report["interrupted"]), ""]
    how = "converged" if report["converged"] else "interrupted" if report["interrupted"] else "not converged"
    best = estimator.history_.best_epoch
    if best is not None and not report["interrupted"]:
        how = f"held-out likelihood best after {best + 1}, at {estimator.history_.validation[best]:.4f} per row"
    done, of_which = f"{counted(report['epochs'], 'epoch')} ({how})", "per row"
    if "batches" in report:
        count = report["batches"]
        done = f"read once in {count} {'batch' if count == 1 else 'batches'}"
        of_which = "per row of the last one"
    lines.append(f"{report['model']}: {counted(report['rows'], 'row')}, {done}, "
                 f"log-likelihood {report['log_likelihood_per_row']:.4f} {of_which}")  # fmt: skip
    for name, what in (("", "training row"), (ON_HELD_OUT_ROWS, "held-out row")):
        if f"accuracy{name}" in report:
            share, largest = report[f"accuracy{name}"], report[f"largest_class{name}"]
            rows, none = report[f"rows_with_class{name}"], report[f"rows_without_class{name}"]
            told = f"; {counted(none, 'row')} without a class" if none else ""
            lines.append(f"accuracy on {counted(rows, what)}: {share:.1%} "
                         f"(always the largest class: {largest:.1%}){told}")  # fmt: skip
    if "impossible_rows_kept_back" in report:
        impossible, rows = report["impossible_rows_kept_back"], counted(report["rows_kept_back"], "held-out row")
        told = f" ({impossible:,} of them impossible under the model)" if impossible else ""
        lines.append(
            f"log-likelihood of {rows}: {report['log_likelihood_per_row_on_rows_kept_back']:.4f} per row{told}"
        )
    if report["not_estimated"]:
        lines.append(estimator.history_.told_not_estimated)
    free = report["parameters"]
    if report["model"] == "LatentClassModel" and free is not None and free > report["rows"]:
        lines.append(f"{free:,} free parameters are more than the {counted(report['rows'], 'row')}: other "
                     "initialisations may find quite different classes. Fewer --hidden states need fewer.")  # fmt: skip
    lines.append(f"written: {report['file']}")
    return "\n".join(lines)
