"""Commands that query a model: `predict`, `explain`, `draw`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import click
import numpy as np

from ..core.exceptions import FgrnError, FgrnWarning, ImpossibleEvidence, shortened, unknown_name
from ..core.labels import shown_number
from ..tables.missing import MISSING
from ..tables.writer import table_writer
from . import input_files, model_rows, output_files, shared_options, terminal
from .given import parted_by_name
from .new_columns import NewColumns
from .terminal import print_message, print_text
from .without_effect import READING, refuse_without_effect

output_option = click.option("-o", "--output", default="-", show_default=True, metavar="FILE",
                             help="CSV, TSV or Parquet by its name; - is standard output, as CSV.")  # fmt: skip


@click.command(epilog="\b\nExample\n  fgrn predict people.fgrn new.csv -o answers.csv")
@click.argument("model")
@click.argument("data")
@output_option
@click.option("--proba/--no-proba", default=True, show_default=True, help="Also write the probability of each class.")
@click.option("--keep/--no-keep", default=True, show_default=True, help="Also write the columns of DATA.")
@shared_options.unseen_option
@shared_options.reading
@shared_options.json_option
def predict(
    model: str, data: str, output: str, proba: bool, keep: bool, unseen: str | None, as_json: bool, **options: Any
) -> None:
    """Predict the class, or the cluster, of each row of a table.

    MODEL is a file written by `fgrn fit`; DATA a CSV, TSV or Parquet file, a folder or a 'glob*' of such, or - for
    standard input. Rows are read and written in batches, in their order, so that they need not fit into memory.
    """
    refuse_without_effect(("keep", not (as_json and keep), "tables, not JSON"))
    output_files.check_table(output, as_json)
    output_files.check_other(output, {"DATA": data, "MODEL": model})
    estimator = input_files.estimator(model, unseen)
    if not (hasattr(estimator, "predict") and hasattr(estimator, "predict_proba")):  # an imputer has the second alone
        raise FgrnError(
            f"{model!r} is a {type(estimator).__name__}, which has no classes to predict.",
            remedies="use `fgrn complete`, which fills in any column",
        )
    if hasattr(estimator, "forecast"):
        _predict_sequences(estimator, input_files.read_for(estimator, data, **options), output, proba, keep, as_json)
        return
    classes = estimator.classes_ if hasattr(estimator, "classes_") else np.arange(estimator.n_hidden_)
    if as_json:
        found = estimator.predict_proba(
            model_rows.matching(estimator, input_files.read_for(estimator, data, **options))
        )
        _print_predictions(classes[found.argmax(axis=1)], map(str, classes), found if proba else None)
        return
    word = estimator._y_name if hasattr(estimator, "classes_") else "cluster"
    written, beside = 0, NewColumns()
    with table_writer(output) as out:
        for table, known in model_rows.matched(estimator, input_files.stream_for(estimator, data, **options)):
            beliefs = estimator.predict_proba(known)
            columns = {name: table[name] for name in table.column_names} if keep else {}
            new: dict[str, Any] = {
                beside.unused_name(f"predicted {word}", columns): classes[beliefs.argmax(axis=1)].tolist()
            }
            if proba:
                for position, label in enumerate(classes):
                    new[beside.unused_name(f"P({word} = {label})", columns)] = beliefs[:, position]
            out.write({**columns, **new})
            written += table.num_rows
    beside.print_renamed()
    output_files.confirm(output, written)


def _print_predictions(predicted: np.ndarray, labels: Iterable[str], beliefs: np.ndarray | None) -> None:
    """Print the class or state of each row as JSON, with the probability of each if there are some."""
    names, rows = list(labels), [{"predicted": one} for one in predicted.tolist()]
    if beliefs is not None:
        for row, shares in zip(rows, beliefs.tolist(), strict=True):
            row["probabilities"] = dict(zip(names, shares, strict=True))
    terminal.print_json(rows)


def _predict_sequences(estimator: Any, table: Any, output: str, proba: bool, keep: bool, as_json: bool) -> None:
    """Write the state of each row of sequences: the Viterbi path, and the probability of each state."""
    known = model_rows.matching(estimator, table)
    along = sequence_and_time(estimator, table)
    states = estimator.predict(known, **along)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FgrnWarning)  # the same as before, of the same rows
        beliefs = estimator.predict_proba(known, **along)
    if as_json:
        _print_predictions(states, map(str, estimator.states_), beliefs if proba else None)
        return
    columns = {name: table[name] for name in table.column_names} if keep else {}
    beside = NewColumns()
    new: dict[str, Any] = {beside.unused_name("predicted state", columns): states.tolist()}
    if proba:
        for position, label in enumerate(estimator.states_):
            new[beside.unused_name(f"P(state = {label})", columns)] = beliefs[:, position]
    with table_writer(output) as out:
        out.write({**columns, **new})
    output_files.confirm(output, table.num_rows)


def sequence_and_time(estimator: Any, table: Any) -> dict[str, list[Any]]:
    """Return the sequence and the time of each row, where the table has their columns."""
    names = zip(("sequence", "time"), estimator.beside_, strict=True)
    return {key: table[name].to_pylist() for key, name in names if name in table.column_names}


@click.command(epilog="\b\nExamples\n  fgrn explain people.fgrn new.csv --row 17\n"
               "  fgrn explain people.fgrn --set age=31 --set colour=red --class yes")  # fmt: skip
@click.argument("model")
@click.argument("data", required=False)
@click.option("--row", type=click.IntRange(0), default=0, show_default=True, help="Which row of DATA, counted from 0.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="A value; may be repeated. Instead of DATA, or on top of it.",
)
@click.option("--class", "target", help="The class or cluster to explain. [the most probable one]")
@click.option("--picture", metavar="FILE", help="Also draw it, to this file (.svg, .png, .pdf).")
@shared_options.unseen_option
@shared_options.reading
@shared_options.json_option
def explain(model: str, data: str | None, row: int, given: tuple[str, ...], target: str | None, picture: str | None,
            unseen: str | None, as_json: bool, **options: Any) -> None:  # fmt: skip
    """Explain the class of a row: what each value adds to the log-odds.

    MODEL is a file written by `fgrn fit`. The contributions sum to the log-odds of the row.
    """
    refuse_without_effect((f"row {READING}", data is not None, "DATA"))
    output_files.check_picture(picture)
    estimator = input_files.estimator(model, unseen)
    if not hasattr(estimator, "explain"):
        raise FgrnError(f"{model!r} is a {type(estimator).__name__}, which has no classes to explain.")
    values: dict[str, Any] = {}
    if data is not None:
        table = model_rows.matching(estimator, input_files.read_for(estimator, data, **options))
        if not 0 <= row < table.num_rows:
            raise FgrnError(f"There is no row {row}; {data!r} has {table.num_rows:,}, counted from 0.")
        values = {name: table[name][row].as_py() for name in table.column_names}
    names = [*estimator.schema_, *_class_column(estimator)]
    for name, value in parted_by_name(given, names, "--set", "COLUMN=VALUE").items():
        if name not in estimator.schema_:
            raise click.UsageError(f"{name!r} is what is explained; choose the class with --class {value}.")
        values[name] = _value(estimator.schema_[name], value, "--set")
    if not values:
        raise click.UsageError("Give DATA and --row, or --set COLUMN=VALUE.")
    try:
        found = estimator.explain(values, None if target is None else _class_of(estimator, target))
    except ImpossibleEvidence as error:
        raise error.changed(rows=[] if data is None else [row]) from error
    if picture:
        from .. import plots

        plots.save(plots.explanation(found), picture)
        output_files.confirm(picture)
    if as_json:
        terminal.print_json({name: value for name, value in vars(found).items() if name != "levels"})
    else:
        print_text(str(found))


def _class_column(estimator: Any) -> list[str]:
    """Return the name of the class column of a classifier; nothing for another estimator."""
    return [estimator._y_name] if hasattr(estimator, "classes_") else []


def _value(column: Any, text: str, option: str) -> Any:
    """Return a value of a column as written for an option: a level, None if missing, or a number.

    A value that was not seen in training is an error: unlike one in a table it has just been typed.
    """
    for level in column.levels:
        if str(level) == text:
            return level
    if text.strip() in MISSING or text in column.missing:
        return None
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    where = f"{option} {column.name}={text}"
    if (column.is_binned or column.continuous) and not (isinstance(value, float) and isfinite(value)):
        usual = shown_number(column.centers[len(column.centers) // 2]) if column.centers else "1.5"
        raise FgrnError(
            f"the values of {column.name!r} are numbers, and {text!r} is none.",
            file=where,
            value=text,
            remedies=f"give a number, such as {option} {column.name}={usual}",
        )
    if column.levels and column.codes([value])[1]:
        raise unknown_name(f"level of {column.name!r} called", text, column.levels).changed(file=where)
    return value


def _class_of(estimator: Any, text: str) -> Any:
    classes = list(getattr(estimator, "classes_", range(getattr(estimator, "n_hidden_", 0))))
    for one in classes:
        if str(one) == text or (isinstance(one, (bool, np.bool_)) and str(one).lower() == text.lower()):
            return one
    raise FgrnError(f"There is no class {text!r}. Known: {', '.join(map(str, classes))}.")


@click.command(epilog="\b\nExamples\n  fgrn draw people.fgrn -o people.svg --given age=31\n"
               "  fgrn draw alarm.bif -o alarm.svg --given HR=LOW --given 'BP!=HIGH'")  # fmt: skip
@click.argument("model")
@click.option("-o", "--output", required=True, metavar="FILE", help="The picture: .svg, .png or .pdf.")
@click.option("--given", "--set", "given", multiple=True, metavar="NAME=VALUE",
              help="What is known; may be repeated. Of a network also NAME!=STATE or NAME=[W,W,...].")  # fmt: skip
@click.option("--detail", type=click.Choice(["auto", "full", "compact", "names"]), default="auto", show_default=True,
              help="How much to show of each variable of a network.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME", help="A variable to draw, of a network; may be repeated.")
@click.option("--method", type=click.Choice(["exact", "loopy"]), default="exact", show_default=True,
              help="loopy: an approximation, for networks too large for exact inference.")  # fmt: skip
@shared_options.rescale_option
@shared_options.json_option
def draw(
    model: str, output: str, given: tuple[str, ...], detail: str, only: tuple[str, ...], method: str, rescale: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Draw a model as a factor graph, with beliefs, and both messages on each wire where evidence is given.

    MODEL is a file written by `fgrn fit` or `Network.save`; or a network: BIF, XMLBIF, NET, XDSL, UAI, DSC or DNE,
    which is drawn as a directed graph with a card for each variable. No other program is needed.
    """
    from . import networks

    output_files.check_picture(output)
    if networks.is_network(model, slices=True):
        networks.draw_graph(
            model, output, given, as_json, rescale, method=method, detail=detail, variables=only or None
        )
    elif only or detail != "auto" or method != "exact" or rescale:
        raise click.UsageError("--only, --detail, --method and --rescale are for Bayesian networks and factor graphs.")
    else:
        _draw_network(model, output, given, as_json)
    if not as_json:
        output_files.confirm(output)


def _draw_network(model: str, output: str, given: tuple[str, ...], as_json: bool) -> None:
    from .. import plots
    from ..bayes.tree_mixture import TreeMixture
    from ..files.model_file import load
    from ..graph.blocks import Source
    from ..graph.network import Network
    from ..page.estimator_view import fitted_network

    found: Any = load(model)
    found = found.as_network() if isinstance(found, TreeMixture) else found
    net = found if isinstance(found, Network) else fitted_network(found)
    evidence: dict[str, Any] = {}
    names = [one.name for one in net.variables] if found is net else [*found.schema_, *_class_column(found)]
    for name, value in parted_by_name(given, names, "--given", "COLUMN=VALUE").items():
        evidence |= _evidence_of(found, name, value)
    always = [found._class_name()] if not isinstance(found, Network) and hasattr(found, "classes_") else []
    plots.save(plots.network(net, evidence or None, always=always), output)
    schema = getattr(found, "schema_", {})
    absent = [name for name in schema if name not in net.observed]
    for what, is_continuous in (("continuous", True), ("without values", False)):
        if some := [name for name in absent if schema[name].continuous == is_continuous]:
            print_message(
                f"The picture leaves out {shortened(some)}: {what}, and only variables with states are drawn."
            )
    predicted = _predicted_apart(found, evidence)
    for name, chances in predicted.items() if not as_json else ():
        likeliest = max(chances, key=lambda label: chances[label])
        print_message(
            f"The picture is of the network of all columns. fgrn predict uses tables refined for {name!r}, which "
            f"predict {str(likeliest)!r} ({chances[likeliest]:.1%})."
        )
    if as_json:
        names = [block.variable.name for block in net.blocks if isinstance(block, Source)]
        seen = net.propagate(evidence or None, keep=[*names, *net.observed])
        beliefs = {name: seen.belief(name) for name in dict.fromkeys([*names, *net.observed])}
        report = {"file": output, "log_likelihood": float(seen.log_likelihood[0]), "beliefs": beliefs}
        terminal.print_json(report | ({"predicted": predicted} if predicted else {}))


def _predicted_apart(model: Any, evidence: Mapping[str, Any]) -> dict[str, dict[Any, float]]:
    """Return the class and the distribution that `predict` tells; empty if a network that is drawn tells the same."""
    if not evidence or not hasattr(model, "decision_network_") or model._class_name() in evidence:
        return {}
    name = model._class_name()
    chances = model._decision.pool.messages(dict(evidence), [name], engine=model.engine)[name][0]
    return {model._y_name or name: dict(zip(model.classes_.tolist(), chances.tolist(), strict=True))}


def _evidence_of(model: Any, name: str, text: str) -> dict[str, Any]:
    """Return the evidence NAME=VALUE as a column of the network of a model."""
    from ..graph.network import Network

    if isinstance(model, Network):
        labels = {str(label): label for label in model.variable(name).labels}
        return {name: [labels.get(text, text)]}
    if hasattr(model, "classes_") and name == model._y_name:
        return {model._class_name(): [model._class_labels()[list(model.classes_).index(_class_of(model, text))]]}
    codes: dict[str, Any] = model.schema_.codes({name: [_value(model.schema_[name], text, "--given")]})
    return codes
