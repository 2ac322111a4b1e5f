"""Commands that learn: `inspect`, `fit`, `compare`."""

from __future__ import annotations

import re
from typing import Any

import click
import numpy as np

from .. import printing
from ..checkpoints import EVERY, Checkpoint
from ..exceptions import SchemaError, shortened
from ..io.batches import is_many
from . import common
from .rows import matched
from .wording import spoken

MOST_CELLS = 48
"""How wide the levels of a column are shown."""

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")

MODELS = ("latent", "naive-bayes", "deep", "clusters", "ica")


@click.command(epilog="\b\nExamples\n  fgrn inspect people.csv --drop id\n  fgrn inspect alarm.bif")
@click.argument("data")
@common.schema
@common.reading
@common.json_option
def inspect(data: str, bins: int, max_levels: int, as_json: bool, **options: Any) -> None:
    """What is in a table: columns, levels, holes, and what looks odd; or in a Bayesian network.

    DATA is a CSV, TSV or Parquet file, or - for standard input; or a network: BIF, XMLBIF, NET, XDSL or UAI.
    """
    from . import networks

    if networks.is_network(data) and options["format_"] is None:
        networks.summary(data, as_json)
        return
    from .. import frames
    from ..schema import Schema

    table = common.read(data, **options)
    rows = table.num_rows
    found: list[dict[str, Any]] = []
    for name in table.column_names:
        values = frames.columns(table.select([name]))[name]
        known = [value for value in frames.listed(values) if not frames.is_unknown(value)]
        holes, distinct = rows - len(known), len(set(map(str, known)))
        record: dict[str, Any] = {"column": name, "distinct": distinct, "missing": holes, "missing_share": holes / rows}
        try:
            column = Schema.infer({name: values}, bins=bins, max_levels=max_levels)[name]
            record |= {"kind": "bins" if column.is_binned else "levels", "levels": list(column.levels)}
        except SchemaError as problem:
            record |= {"kind": "unfit", "levels": [], "problem": spoken(problem)}
        record["remarks"] = _remarks(record, known, rows)
        found.append(record)
    if as_json:
        common.as_json({"rows": rows, "columns": found})
        return
    click.echo(f"{rows:,} {'row' if rows == 1 else 'rows'}, {len(found)} {'column' if len(found) == 1 else 'columns'}")
    lines = [
        [
            record["column"],
            record["kind"],
            _levels(record["levels"]),
            f"{record['distinct']:,}",
            f"{record['missing_share']:.1%}" if record["missing"] else "",
        ]
        for record in found
    ]
    click.echo(common.aligned(["column", "kind", "levels", "distinct", "missing"], lines, left=3))
    remarks = [f"  {record['column']}: {remark}" for record in found for remark in record["remarks"]]
    if remarks:
        click.echo("\nLook at\n" + "\n".join(remarks))


def _is_measured(value: Any) -> bool:
    """Whether a value is a number that is not whole, as no identifier is."""
    return isinstance(value, (float, np.floating)) and not float(value).is_integer()


def _levels(levels: list[Any]) -> str:
    """As many of the levels as there is room for."""
    texts = (shortened(levels, most) for most in range(5, 0, -1))
    return next(
        (text for text in texts if len(text) <= MOST_CELLS), printing.fitted([shortened(levels, 1)], MOST_CELLS)[0]
    )


def _remarks(record: dict[str, Any], known: list[Any], rows: int) -> list[str]:
    """What looks odd in a column."""
    if not known:
        return ["no value is known; leave it out with --drop"]
    out = []
    if record["kind"] == "unfit":
        out.append(record["problem"].removeprefix(f"Column {record['column']!r}: "))
    elif record["distinct"] > 0.9 * len(known) and rows > 20 and not any(map(_is_measured, known)):
        which = "every value is" if record["distinct"] == len(known) else "nearly every value is"
        out.append(f"{which} different: an identifier? leave it out with --drop")
    if all(isinstance(value, str) and DECIMAL_COMMA.fullmatch(value) for value in known):
        out.append(f"numbers such as {known[0]!r}, taken for words: say --decimal ,")
    if record["distinct"] == 1:
        out.append(f"always {known[0]!r}: says nothing")
    elif record["kind"] == "levels":
        most = max(known.count(level) for level in record["levels"]) if len(record["levels"]) <= 60 else 0
        if most > 0.98 * len(known):
            out.append(f"one level has {most / len(known):.1%} of all values")
    if record["missing_share"] > 0.5:
        out.append(f"{record['missing_share']:.0%} are missing")
    return out


def estimator_of(model: str, hidden: str, settings: dict[str, Any]) -> Any:
    """The estimator for the options of a command."""
    from .. import estimators

    if model == "naive-bayes":
        for name in ("cycles", "n_init"):
            settings.pop(name)
        return estimators.NaiveBayesClassifier(**settings)
    if model in ("deep", "ica"):
        if hidden == "auto":
            raise click.UsageError(
                f"--model {model} takes numbers with commas, such as --hidden 4,8; 'auto' it cannot."
            )
        sizes = [_whole(part) for part in hidden.split(",")]
        kind = estimators.DeepLatentClassifier if model == "deep" else estimators.DiscreteICA
        return kind(n_hidden=sizes, **settings)
    if "," in hidden:
        raise click.UsageError(
            f"--hidden {hidden} is for --model deep or ica; --model {model} takes one number, or 'auto'."
        )
    kind = estimators.LatentClassifier if model == "latent" else estimators.LatentClassModel
    return kind(n_hidden="auto" if hidden == "auto" else _whole(hidden), **settings)


def _whole(text: str, option: str = "--hidden") -> int:
    """A number of states."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise click.UsageError(f"{option}: a number of states is a whole number from 1 on. Got {text!r}.")


@click.command(epilog="\b\nExamples\n  fgrn fit people.csv --target buys -o people.fgrn\n"
               "  fgrn fit answers.csv --hidden auto -o types.fgrn      (no target: clusters)\n"
               "  fgrn fit 'logs/*.parquet' --hidden 8 -o logs.fgrn       (more than memory holds)")  # fmt: skip
@click.argument("data")
@click.option("--target", help="The column that is the class; without it rows are clustered.")
@click.option("-o", "--output", required=True, metavar="MODEL", help="The model file to write (.fgrn).")
@click.option("--model", type=click.Choice(MODELS), help="The kind of model; latent with a target, clusters without.")
@click.option("--hidden", help="States of the hidden variable: a number, 'auto', or 4,8 for layers. [8, or auto]")
@click.option("--epochs", type=click.IntRange(1), default=100, show_default=True, help="The most epochs of learning.")
@click.option(
    "--cycles",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Updates of a table per epoch; more than 1 is batch learning.",
)
@click.option(
    "--smoothing",
    type=click.FloatRange(0),
    help="Count added to every cell of every table. [0.5, or 0.01 for clusters]",
)
@click.option("--starts", type=click.IntRange(1), default=3, show_default=True, help="Random starts; the best is kept.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=1e-5,
    show_default=True,
    help="Stop when an epoch gains less per row.",
)
@click.option("--test", type=click.FloatRange(0, 1, max_open=True), default=0.0, show_default=True,
              help="Share of the rows, drawn by the seed, kept back to test on.")  # fmt: skip
@click.option("--weights", metavar="COLUMN", help="The column with the weight of each row.")
@common.schema
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For random starts.")
@click.option("--checkpoint", metavar="FILE", help="Keep how far learning has come in this file.")
@click.option("--every", type=click.IntRange(1), default=EVERY, show_default=True,
              help="Epochs between two checkpoints.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on from --checkpoint, if it is there, as if nothing had happened.")
@click.option("--unseen", type=click.Choice(["unknown", "error"]), default="unknown", show_default=True,
              help="What a level is, in later tables, that was not seen in this one.")  # fmt: skip
@click.option("--stream", "streamed", is_flag=True,
              help="Read in batches, from disk in every epoch: for tables larger than memory.")  # fmt: skip
@common.reading
@common.json_option
def fit(data: str, target: str | None, output: str, model: str | None, hidden: str | None, epochs: int, cycles: int,
        smoothing: float | None, starts: int, tolerance: float, test: float, weights: str | None, bins: int,
        max_levels: int, seed: int, checkpoint: str | None, every: int, resume: bool, unseen: str, streamed: bool,
        as_json: bool, **options: Any) -> None:  # fmt: skip
    """Learn a model from a table.

    DATA is a CSV, TSV or Parquet file, or - for standard input. Columns are read as they are: words, numbers, holes.
    A folder or a 'glob*' of such files is read in batches, and need not fit into memory; so is a file with --stream.
    Ctrl-C ends learning after the epoch it is in and keeps what was learnt.
    """
    common.check_place(output)
    if checkpoint is not None:
        common.check_place(checkpoint, "a file, such as people.ckpt", "--checkpoint")
    elif resume:
        raise click.UsageError("--resume goes on from a file: name it with --checkpoint.")
    if weights is not None and weights == target:
        raise click.UsageError(f"{weights!r} cannot be --weights and --target at once.")
    kind = model or ("latent" if target else "clusters")
    if kind == "naive-bayes" and hidden is not None:
        raise click.UsageError("--model naive-bayes has no hidden states; leave out --hidden.")
    if (kind in ("latent", "naive-bayes", "deep")) != (target is not None):
        raise click.UsageError(f"--model {kind} {'needs' if target is None else 'takes no'} --target.")
    settings: dict[str, Any] = {
        "n_epochs": epochs, "cycles": cycles, "n_init": starts, "tol": tolerance, "n_bins": bins,
        "max_levels": max_levels, "random_state": seed, "unseen": unseen, "verbose": 0 if as_json else 1,
    }  # fmt: skip
    if smoothing is not None:
        settings["smoothing"] = smoothing
    if checkpoint is not None:
        settings["checkpoint"] = Checkpoint(checkpoint, every, resume)
    if options["missing"]:  # kept with the model, so that the next table is read in the same way
        settings["missing_values"] = list(options["missing"])
    streamed = streamed or is_many(data)
    sizes = hidden or {"deep": "4,8", "ica": "2,2", "latent": "8", "naive-bayes": "1"}.get(kind, "auto")
    if streamed and (test or sizes == "auto"):
        what = "--test keeps rows of a table in memory back" if test else "--hidden auto compares models in memory"
        raise click.UsageError(f"{what}: leave it out where rows are read in batches, and say --hidden NUMBER.")
    estimator = estimator_of(kind, sizes, settings)
    if streamed:
        rows = common.stream(data, **options)
        with common.stoppable() as stopped:
            estimator._stop = stopped
            estimator.fit(rows, *([] if target is None else [target]), sample_weight=weights)
            interrupted = stopped()
        estimator.save(output)
        _show(estimator, _streamed_report(estimator, rows, target, output, interrupted), as_json)
        return
    table = common.read(data, **options)
    table, weight = common.weighted(table, weights)
    table, classes = common.taken_out(table, target)
    if classes is not None:
        _check_classes(str(target), classes, max_levels)
    back = np.zeros(table.num_rows, dtype=bool)
    if test:
        count = round(test * table.num_rows)
        back[np.random.default_rng(seed).permutation(table.num_rows)[:count]] = True
        if not count or count == table.num_rows:
            raise click.UsageError(
                f"--test {test:g} of {table.num_rows:,} rows leaves nothing to test on or learn from."
            )
    learnt = table.filter(~back)
    with common.stoppable() as stopped:
        estimator._stop = stopped
        fit_options = {} if weight is None else {"sample_weight": weight[~back]}
        y = None if classes is None else np.array(classes, dtype=object)
        named = () if y is None else ({target: y[~back].tolist()},)
        estimator.fit(learnt, *named, **fit_options)
        interrupted = stopped()
    estimator.save(output)
    estimator.unseen = "unknown"  # what is an error in later tables is no reason to lose the report on this one
    _show(estimator, _report(estimator, table, y, back, output, interrupted), as_json)


def _show(estimator: Any, report: dict[str, Any], as_json: bool) -> None:
    """What was learnt, for people or programs."""
    if as_json:
        common.as_json(report)
    else:
        click.echo(_told(estimator, report))
    if report["interrupted"]:
        raise click.exceptions.Exit(130)


def _check_classes(name: str, classes: list[Any], most: int) -> None:
    """Refuse, with its name, a column that cannot be the class."""
    known = {value for value in classes if value is not None and value == value}
    where, otherwise = f"Column {name!r}, of --target", "or leave out --target, and `fgrn complete` fills it in"
    if not known:
        raise SchemaError(f"{where}: the class of no row is known. Choose another column.")
    odd = next((value for value in known if not isinstance(value, (str, int, float, bool))), None)
    if odd is not None:
        raise SchemaError(f"{where}: a class is a word, a number or a truth value. Got {odd!r}; turn it into a word.")
    broken = next((value for value in known if isinstance(value, float) and not value.is_integer()), None)
    if broken is not None:
        raise SchemaError(
            f"{where}: a class is one of a few names, and this column holds numbers such as {broken:g}. Put them into "
            f"groups and name these, {otherwise}."
        )
    if len(known) > most:
        raise SchemaError(
            f"{where}: {len(known):,} different values in {len(classes):,} rows are many classes. Choose another "
            f"column, allow them with --max-levels {len(known)}, {otherwise}."
        )


def _report(
    estimator: Any, table: Any, classes: Any, back: np.ndarray, output: str, interrupted: bool
) -> dict[str, Any]:
    report = _learnt(estimator, int((~back).sum()), int(back.sum()), output, interrupted)
    if classes is not None:
        known = np.array([value is not None for value in classes])
        for name, rows in (("accuracy", ~back & known), ("accuracy_on_rows_kept_back", back & known)):
            if rows.any():
                found = estimator.predict(table.filter(rows)) == classes[rows]
                report[name] = float(np.mean(found))
                _, counts = np.unique(classes[rows].astype(str), return_counts=True)
                report[name.replace("accuracy", "largest_class")] = float(counts.max() / counts.sum())
    if hasattr(estimator, "selection_"):
        report["tried"] = estimator.selection_.as_dicts()
    return report


def _learnt(estimator: Any, rows: int, kept_back: int, output: str, interrupted: bool) -> dict[str, Any]:
    """What happened in learning."""
    history = estimator.history_
    return {
        "model": type(estimator).__name__,
        "file": output,
        "rows": rows,
        "rows_kept_back": kept_back,
        "epochs": history.epochs,
        "converged": history.converged,
        "interrupted": interrupted,
        "log_likelihood_per_row": float(history.per_row[-1]),
        "n_hidden": getattr(estimator, "n_hidden_", None),
    }


def _streamed_report(estimator: Any, rows: Any, target: str | None, output: str, interrupted: bool) -> dict[str, Any]:
    """The same where rows came in batches: the accuracy in one more walk through them, unless that was interrupted."""
    report = _learnt(estimator, estimator.n_rows_, 0, output, interrupted)
    report["rows_left_out"] = dict(rows.left_out)
    if target is None or interrupted:
        return report
    right, counts = 0, dict.fromkeys(estimator.classes_.tolist(), 0)
    estimator.unseen = "unknown"
    for table, known in matched(estimator, rows, quiet=True):
        truth = table[target].to_pylist()
        found = estimator.predict(known).tolist()
        right += sum(one == other for one, other in zip(found, truth, strict=True) if other is not None)
        for value in truth:
            if value in counts:
                counts[value] += 1
    total = sum(counts.values())
    return report | {"accuracy": right / total, "largest_class": max(counts.values()) / total}


def _told(estimator: Any, report: dict[str, Any]) -> str:
    lines = [repr(estimator.schema_), ""]
    if hasattr(estimator, "selection_"):
        lines += [str(estimator.selection_), ""]
    how = "converged" if report["converged"] else "interrupted" if report["interrupted"] else "all of them"
    lines.append(f"{report['model']}: {report['rows']:,} rows, {report['epochs']} epochs ({how}), "
                 f"log-likelihood {report['log_likelihood_per_row']:.4f} a row")  # fmt: skip
    for name, what in (("", "learnt from"), ("_on_rows_kept_back", "kept back")):
        if f"accuracy{name}" in report:
            share, largest = report[f"accuracy{name}"], report[f"largest_class{name}"]
            rows = report["rows" if not name else "rows_kept_back"]
            lines.append(f"accuracy on {rows:,} rows {what}: {share:.1%} (always the largest class: {largest:.1%})")
    lines.append(f"written: {report['file']}")
    return "\n".join(lines)


@click.command(epilog="\b\nExample\n  fgrn compare answers.csv --sizes 1,2,3,4,5,6 --starts 4")
@click.argument("data")
@click.option("--sizes", help="Numbers of hidden states to try, with commas; else more and more until it gets worse.")
@click.option(
    "--criterion", type=click.Choice(["bic", "aic", "held_out"]), default="bic", show_default=True, help="What decides."
)
@click.option("--epochs", type=click.IntRange(1), default=200, show_default=True, help="The most epochs of learning.")
@click.option(
    "--smoothing",
    type=click.FloatRange(0),
    default=0.01,
    show_default=True,
    help="Count added to every cell of every table.",
)
@click.option(
    "--starts", type=click.IntRange(1), default=4, show_default=True, help="Random starts of each; the best is kept."
)
@common.schema
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For random starts.")
@click.option("--weights", metavar="COLUMN", help="The column with the weight of each row.")
@click.option("--picture", metavar="FILE", help="Draw it, too (.svg, .png, .pdf).")
@common.reading
@common.json_option
def compare(data: str, sizes: str | None, criterion: str, epochs: int, smoothing: float, starts: int, bins: int,
            max_levels: int, seed: int, weights: str | None, picture: str | None, as_json: bool,
            **options: Any) -> None:  # fmt: skip
    """How many hidden states a table asks for: likelihood, AIC, BIC, relative entropy, class sizes.

    DATA is a CSV, TSV or Parquet file, or - for standard input. Ctrl-C ends it and shows what was tried so far.
    """
    from ..estimators import LatentClassModel

    common.check_picture(picture)
    table, weight = common.weighted(common.read(data, **options), weights)
    tried = None if sizes is None else [_whole(part, "--sizes") for part in sizes.split(",")]
    model = LatentClassModel(
        n_epochs=epochs, smoothing=smoothing, n_init=starts, criterion=criterion, n_bins=bins, max_levels=max_levels,
        random_state=seed, verbose=0 if as_json else 1,
    )  # fmt: skip
    with common.stoppable() as stopped:
        model._stop = stopped
        found = model.compare(table, tried, weight)
        interrupted = stopped()
    if picture:
        from .. import plots

        plots.save(plots.selection(found), picture)
    if as_json:
        best = found.best.n_hidden
        common.as_json({"criterion": criterion, "best": best, "interrupted": interrupted, "tried": found.as_dicts()})
    else:
        click.echo(str(found))
    if interrupted:
        raise click.exceptions.Exit(130)
