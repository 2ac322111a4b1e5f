"""Commands that describe a table: `inspect`, and `compare` for the number of hidden states."""

from __future__ import annotations

import re
import warnings
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..core import printing
from ..core.exceptions import (
    FgrnError,
    FgrnWarning,
    SchemaError,
    counted,
    shortened,
    visible,
)
from ..core.labels import shown_number
from ..tables import frames, table_file
from ..tables.stream_source import is_many
from ..tables.table_warnings import count_values, identifier_warning, names_are_values, words_among_numbers
from ..tables.text_reader import bad_row_error, infinite
from . import input_files, output_files, shared_options, terminal
from .signals import CHOICE_CUT_SHORT, stoppable
from .terminal import print_text
from .without_effect import READING, refuse_without_effect
from .wording import spoken

if TYPE_CHECKING:
    from ..tables.columns import Column

CODES = (-9, -99, -999, -9999)
"""Numbers that often mean "missing" where all others are not negative."""

NINES = re.compile(r"-?99+")
"""Whole numbers that often mean "missing" where all others are far away."""


@click.command(epilog="\b\nExamples\n  fgrn inspect people.csv --drop id\n  fgrn inspect alarm.bif")
@click.argument("data")
@shared_options.schema
@shared_options.reading
@shared_options.rescale_option
@shared_options.json_option
def inspect(data: str, bins: int, max_levels: int, rescale: bool, as_json: bool, **options: Any) -> None:
    """Describe a table: columns, levels, missing values, and possible problems; or a Bayesian network.

    DATA is a CSV, TSV or Parquet file, or - for standard input; a network: BIF, XMLBIF, NET, XDSL, UAI, DSC or DNE; or
    a model file (.fgrn).
    """
    if options["format_"] is None and table_file.format_by_name(data) is None:
        from . import networks  # which takes time to import, and is of no use for a table

        if networks.is_network(data):
            refuse_without_effect((f"bins max_levels {READING}", False, "tables"))
            networks.summary(data, as_json, rescale)
            return

    is_table = not data.endswith(".fgrn") or options["format_"] is not None
    refuse_without_effect(
        (f"bins max_levels {READING}", is_table, "tables"), ("rescale", False, "networks of other programs")
    )
    if not is_table:
        from ..files.model_file import load

        model = load(data)
        if input_files.use_of(data, model) is not None:
            networks.print_description(data, model, as_json)
            return
        _describe_estimator(data, model, as_json)
        return
    table = input_files.read(data, **options)
    rows = table.num_rows
    codes = tuple(options["missing"]) or None
    looked = [
        _looked_at(name, values, rows, codes, bins, max_levels)
        for name, values in frames.columns(table, by_value=True).items()
    ]
    found = [record for record, _ in looked]
    doubt = names_are_values(column for _, column in looked if column is not None) and not options["no_header"]
    if as_json:
        terminal.print_json({"rows": rows, "columns": found, "names_look_like_a_row": doubt})
        return
    print_text(f"{counted(rows, 'row')}, {counted(len(found), 'column')}")
    lines = [
        [
            record["column"],
            record["kind"],
            printing.listed(record["levels"]),
            f"{record['distinct']:,}",
            f"{record['missing_share']:.1%}" if record["missing"] else "",
        ]
        for record in found
    ]
    print_text(terminal.aligned(["column", "kind", "levels", "distinct", "missing"], lines, left=3))
    if any(record["missing"] for record in found):
        print_text("\n" + input_files.missing_codes_line(codes))
    remarks = [visible(f"  {record['column']}: {remark}") for record in found for remark in record["remarks"]]
    if doubt:
        names = visible(shortened([record["column"] for record in found], 4))
        remarks.insert(
            0,
            f"  the first line: each name is a value of its own column ({names}). If it is data, add --no-header",
        )
    if remarks:
        print_text("\nLook at\n" + "\n".join(remarks))


def _describe_estimator(path: str, model: Any, as_json: bool) -> None:
    """Print the description of an estimator: its type, its classes or clusters, and its columns."""
    columns = [
        {"column": name, "kind": column.kind, "levels": list(column.levels)} for name, column in model.schema_.items()
    ]
    classes = [str(label) for label in getattr(model, "classes_", ())]
    hidden = getattr(model, "n_hidden_", None)
    if as_json:
        terminal.print_json(
            {
                "file": path,
                "kind": type(model).__name__,
                "classes": classes,
                "hidden_states": hidden,
                "columns": columns,
            }
        )
        return
    parts = [counted(len(columns), "column")]
    parts += [f"{counted(len(classes), 'class', 'classes')} ({printing.listed(classes)})"] if classes else []
    parts += [counted(hidden, "hidden state")] if isinstance(hidden, int) else []
    print_text(visible(f"{type(model).__name__}, learnt from a table: {', '.join(parts)}"))
    lines = [[one["column"], one["kind"], printing.listed(one["levels"])] for one in columns]
    print_text(terminal.aligned(["column", "kind", "levels"], lines, left=3))
    print_text(f"\n{_commands_for(model)}")


def _commands_for(model: Any) -> str:
    """Print the commands that show a model of this kind, and those that query it."""
    has = {
        "prototypes": getattr(model, "prototypes_", None) is not None,
        "draw": True,
        "report": hasattr(model, "report"),
        "predict": hasattr(model, "predict") and hasattr(model, "predict_proba"),
        "complete": hasattr(model, "complete"),
        "forecast": hasattr(model, "forecast"),
    }
    show, ask = (
        _enumerated([f"`fgrn {name}`" for name in names if has[name]])
        for names in (("prototypes", "report", "draw"), ("predict", "complete", "forecast"))
    )
    return f"To see what it has learnt: {show}. To ask it: {ask}."


def _enumerated(items: list[str]) -> str:
    """Return items as text: "a", "a and b", "a, b and c"."""
    return " and ".join([*([", ".join(items[:-1])] if items[1:] else []), *items[-1:]])


def _looked_at(
    name: str, values: Any, rows: int, codes: tuple[str, ...] | None, bins: int, max_levels: int
) -> tuple[dict[str, Any], Column | None]:
    """Return the record of a column for the output, and its `Column`, None if it cannot have one."""
    from ..tables.schema import Schema

    counts, column, weights = count_values(values), None, None
    kind: dict[str, Any] = {"kind": "unfit", "levels": []}
    if frames.is_numbers(values) and values.dtype.kind != "b" and all(map(isfinite, counts)):  # told apart already
        values, weights = np.array(list(counts), dtype=values.dtype), np.array(list(counts.values()))
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", FgrnWarning)
            schema = Schema.infer(
                {name: values}, missing=codes, bins=bins, max_levels=max_levels, weights=weights, keep_empty=True
            )
        column = schema[name]
        kind = {"kind": column.kind, "levels": list(column.levels)}
        of_column = [one.message for one in told if isinstance(one.message, FgrnWarning) and one.message.column == name]
        if of_column:  # the share of missing values, of which others warn, is shown
            kind["problem"] = spoken(of_column[0].changed(column=None))
        counts = {value: count for value, count in counts.items() if not column.is_missing(value)}
    except SchemaError as error:
        problem: FgrnError = error
        if error.value == (name,):  # no value is known, which `fit` warns of
            kind["kind"], counts = "empty", {}
        if error.row is not None and error.value in (inf, -inf):  # as `fit` tells it
            problem = bad_row_error(name, infinite(error.row, name, error.value)).changed(file=None)
        kind["problem"] = spoken(problem.changed(column=None))
    holes = rows - sum(counts.values())
    record = {"column": name, "distinct": len(counts), "missing": holes, "missing_share": holes / rows, **kind}
    return {**record, "remarks": _remarks(record, counts, rows)}, column


def _codes_and_spellings(counts: dict[Any, int]) -> list[str]:
    """Return remarks on a number that may mean "missing", and on words that differ in case or blanks alone."""
    if all(isinstance(value, (int, float)) for value in counts):
        least = min(counts)
        if least in CODES and len(counts) > 1 and all(value >= 0 for value in counts if value != least):
            return [f"{least:g} is the only number below 0: if it means missing, add --missing {least:g} --missing ''"]
        return [
            f"{code:.0f} occurs {often:,} times, far from all other numbers ({shown_number(low)} to "
            f"{shown_number(high)}): if it means missing, add --missing {code:.0f} --missing ''"
            for code, often, low, high in _far_codes(counts)
        ]
    alike: dict[str, list[str]] = {}
    for value in counts:
        alike.setdefault(str(value).strip().casefold(), []).append(str(value))
    same = [" and ".join(map(repr, words)) for words in alike.values() if len(words) > 1]
    return [f"{shortened(same, 2)} differ in upper and lower case alone"] if same else []


def _far_codes(counts: dict[Any, int]) -> list[tuple[float, int, float, float]]:
    """Return numbers such as 999 that repeat, and are farther from all others than these are apart.

    Each with how often it occurs, and the least and the largest of the others.
    """
    found = []
    for code in {min(counts), max(counts)} if len(counts) > 2 else ():
        others = [value for value in counts if value != code]
        low, high = min(others), max(others)
        is_far = min(abs(code - low), abs(code - high)) > high - low
        if counts[code] > 1 and is_far and NINES.fullmatch(f"{code:.0f}") and code == round(code):
            found.append((code, counts[code], low, high))
    return sorted(found)


def _remarks(record: dict[str, Any], counts: dict[Any, int], rows: int) -> list[str]:
    """Return remarks on possible problems of a column."""
    if not counts:
        return ["no value is known: nothing is learnt of it; leave it out with --drop"]
    out = []
    known, first = sum(counts.values()), next(iter(counts))
    if "problem" in record:
        out.append(record["problem"])
    elif (found := identifier_warning(record["column"], counts, rows)) is not None:
        out.append(spoken(found.changed(column=None)))
    odd = words_among_numbers(counts)
    if odd and record["kind"] != "unfit":
        told = shortened([repr(word) for word in odd], 4)
        out.append(f"{told} {'is not a number' if len(odd) == 1 else 'are not numbers'}, and all other values are")
    out += _codes_and_spellings(counts)
    if len(counts) == 1:
        out.append(f"always {first!r}: says nothing")
    elif record["kind"] in ("levels", "ordered"):
        most = max(counts.values()) / known
        if most > 0.98:
            out.append(f"one level has {'more than 99.9%' if most > 0.999 else f'{most:.1%}'} of all values")
    if record["missing_share"] > 0.5:
        out.append(f"{record['missing_share']:.0%} are missing")
    return out


@click.command(epilog="\b\nExample\n  fgrn compare answers.csv --sizes 1,2,3,4,5,6 --starts 4")
@click.argument("data")
@click.option(
    "--sizes", help="Numbers of hidden states to try, separated by commas. [1, 2, ... until the criterion gets worse]"
)
@click.option(
    "--criterion", type=click.Choice(["bic", "aic", "held_out"]), default="bic", show_default=True, help="What decides."
)
@click.option("--epochs", type=click.IntRange(1), help="The limit of epochs of learning. [1000]")
@click.option("--smoothing", type=shared_options.FiniteRange(0, shared_options.MOST_SMOOTHING),
              help="Count added to every cell of every table. [0.01]")  # fmt: skip
@click.option(
    "--starts", type=click.IntRange(1), help="Random initialisations for each number of states; the best is kept. [4]"
)
@shared_options.schema
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--weights", metavar="COLUMN", help="The column with the weight of each row: how many equal rows it stands for."
)
@click.option("--picture", metavar="FILE", help="Also draw it, to this file (.svg, .png, .pdf).")
@shared_options.stream_option
@shared_options.reading
@shared_options.json_option
def compare(data: str, sizes: str | None, criterion: str, epochs: int | None, smoothing: float | None,
            starts: int | None, bins: int, max_levels: int, seed: int, weights: str | None, picture: str | None,
            streamed: bool, as_json: bool, **options: Any) -> None:  # fmt: skip
    """Compare numbers of hidden states: likelihood, AIC, BIC, CAIC, SABIC, relative entropy, class sizes.

    DATA is a CSV, TSV or Parquet file, or - for standard input; a folder or a 'glob*' of files is read in batches, and
    so is one with --stream. Ctrl-C ends it and shows what was tried so far.
    """
    from ..estimators import LatentClassModel

    output_files.check_picture(picture)
    tried = None if sizes is None else [shared_options.state_count_of(part, "--sizes") for part in sizes.split(",")]
    table: Any
    weight: Any = weights
    if streamed or is_many(data):
        table = input_files.stream(data, **options)
    else:
        table, weight = input_files.weighted(input_files.read(data, **options), weights)
        input_files.check_finite(table, data)
    model = LatentClassModel(
        criterion=criterion, n_bins=bins, max_levels=max_levels, random_state=seed, verbose=0 if as_json else 1,
        **shared_options.those_given(n_epochs=epochs, smoothing=smoothing, n_init=starts),
    )  # fmt: skip
    with stoppable() as stopped:
        model._stop = stopped
        found = model.compare(table, tried, weight)
        interrupted = stopped()
    if picture:
        from .. import plots

        plots.save(plots.selection(found), picture)
        output_files.confirm(picture)
    if as_json:
        best = found.best.n_hidden
        terminal.print_json(
            {"criterion": criterion, "best": best, "interrupted": interrupted, "tried": found.as_dicts()}
        )
    else:
        print_text(str(found))
        if interrupted:
            print_text(CHOICE_CUT_SHORT)
        if tried is not None and found.best.n_hidden == max(tried) > 1 and not interrupted:
            print_text("The best is the largest number that was tried: larger ones may be better still.")
    stopped.end()
