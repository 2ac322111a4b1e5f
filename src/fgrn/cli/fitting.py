"""The command `fit`: learns from a table in memory, in batches, read once, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..core.exceptions import Remedy, SchemaError, counted
from ..core.learning_defaults import EPOCHS_PER_CHECKPOINT
from ..learning.checkpoints import Checkpoint
from ..tables.missing import is_missing_value
from ..tables.stream import BATCH
from ..tables.stream_source import is_many
from ..tables.text_source import no_file
from . import input_files, output_files, shared_options
from .choosing import STRUCTURES, BinCount, Refining, check_choice
from .compiling import compile_for_table
from .constraining import constraints_of
from .fit_report import accuracy_report, batches_report, fit_report, show_fit
from .schema_text import has_missing
from .signals import stoppable
from .terminal import print_message
from .without_effect import refuse_without_effect

MODELS = ("latent", "tan", "naive-bayes", "deep", "clusters", "ica", "tree", "hmm")

BINS_OF_FIT = (
    ", or 'auto', with --target: 10, or 5 for fewer than 100 rows, unless another of 5, 10 and 20 is clearly better. "
    "[auto with --target and --model latent, tan or tree, else 5]"
)
"""The end of the help of --bins."""

CLASSIFIERS = (*STRUCTURES, "naive-bayes", "deep")


def estimator_of(model: str, hidden: str, settings: dict[str, Any]) -> Any:
    """Return the estimator for the options of a command."""
    from .. import estimators

    if model == "naive-bayes":
        for name in ("cycles", "n_init"):
            settings.pop(name, None)
        return estimators.NaiveBayesClassifier(**settings)
    if model in ("deep", "ica"):
        if hidden == "auto":
            raise click.UsageError(f"--model {model} takes numbers with commas, such as --hidden 4,8, and not 'auto'.")
        sizes = [shared_options.state_count_of(part) for part in hidden.split(",")]
        kind = estimators.DeepLatentClassifier if model == "deep" else estimators.DiscreteICA
        return kind(n_hidden=sizes, **settings)
    if "," in hidden:
        raise click.UsageError(
            f"--hidden {hidden} is for --model deep or ica; --model {model} takes one number, or 'auto'."
        )
    states = "auto" if hidden == "auto" else shared_options.state_count_of(hidden)
    if model == "clusters":
        return estimators.LatentClassModel(states, **settings)
    if model == "hmm":
        settings = {name: value for name, value in settings.items() if name not in ("cycles", "effective_size")}
        return estimators.HiddenMarkovModel(states, **settings)
    if model == "tree":
        for name, option in (("n_init", "--starts"), ("tol", "--tolerance")):
            if name in settings:
                raise click.UsageError(f"--model tree has one start and stops by held-out rows; leave out {option}.")
        if settings.pop("cycles", 1) > 1:
            raise click.UsageError("--model tree is learnt in batches of rows; leave out --cycles.")
        return estimators.HiddenTreeModel(states, **settings)
    if STRUCTURES[model] == "tree" and "n_init" in settings:
        raise click.UsageError("--model tree has one start; leave out --starts.")
    return estimators.LatentClassifier(states, structure=STRUCTURES[model], **settings)


@click.command(epilog="\b\nExamples\n  fgrn fit people.csv --target buys -o people.fgrn\n"
               "  fgrn fit answers.csv --hidden auto -o types.fgrn      (no target: clusters)\n"
               "  fgrn fit log.csv --model hmm --sequence machine --time hour -o machines.fgrn\n"
               "  fgrn fit 'logs/*.parquet' --hidden 8 -o logs.fgrn  (larger than memory)\n"
               "  zcat log.csv.gz | fgrn fit - --online -o log.fgrn  (every row read once)")  # fmt: skip
@click.argument("data")
@click.option("--target", help="The class column; without it, rows are clustered.")
@click.option("-o", "--output", required=True, metavar="MODEL", help="The model file to write (.fgrn).")
@click.option(
    "--model",
    type=click.Choice(MODELS),
    help="The kind of model. [latent with --target, else clusters] tree: for wide tables, with or without --target.",
)
@click.option("--hidden", help="Number of states of the hidden variable: a number, 'auto', or 4,8 for layers. [auto]")
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Learning ends after this many epochs at most. "
    "[1000 for clusters, 30 for tree without --target, else at most 500]",
)
@click.option(
    "--cycles",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Updates of a table per epoch; more than 1 is batch learning.",
)
@click.option(
    "--smoothing",
    type=shared_options.FiniteRange(0, shared_options.MOST_SMOOTHING),
    help="Count added to every cell of every table. [1 / levels of the column; 0.01 for clusters]",
)
@click.option("--starts", type=click.IntRange(1),
              help="Random initialisations; the best is kept. [3, or 4 for clusters]")  # fmt: skip
@click.option("--tolerance", type=shared_options.FiniteRange(0),
              help="Learning ends when three epochs raise the log-likelihood per row by less than this. "
              "[1e-8 for clusters, else 1e-5]")  # fmt: skip
@click.option("--max-seconds", type=shared_options.FiniteRange(0, min_open=True),
              help="With --target, and --hidden auto or --model tan or tree: after this time no other model is tried, "
              "and the best one so far is learnt. "
              "[a fixed amount of work: up to 3 s for a few hundred rows, 7 s for 10000]",
              )  # fmt: skip
@click.option("--refine", type=Refining(), metavar="auto|yes|no|NUMBER",
              help="With --target, and --hidden auto or --model tan or tree: whether tables are refined to predict "
              "the class; auto: if that helps; a number: the strength of the penalty on the refinement. [auto]",
              )  # fmt: skip
@click.option("--test", type=shared_options.FiniteRange(0, 1, max_open=True), default=0.0, show_default=True,
              help="Share of the rows, drawn with the seed, held out as test rows.")  # fmt: skip
@click.option(
    "--weights", metavar="COLUMN", help="The column with the weight of each row: how many equal rows it stands for."
)
@click.option("--sequence", metavar="COLUMN", help="With --model hmm: the column that identifies sequences.")
@click.option("--time", metavar="COLUMN", help="With --model hmm: the column by which rows of a sequence are ordered.")
@click.option("--continuous", metavar="COLUMN", multiple=True,
              help="With --model clusters or hmm: a numeric column that is normally distributed in each state, without "
              "bins; may be repeated. 'auto': all columns with many different numbers.")  # fmt: skip
@click.option("--constraints", "constraint", metavar="TEXT|FILE", multiple=True,
              help="With --model clusters: fix item-response probabilities or make them equal, such as 'equal q1 q2', "
              "'equal q1:0 q1:1' (classes 0 and 1), 'fixed q1 0 yes 0.9' (column, class, level, probability), "
              "'zero q1 0 yes'; and means and variances of continuous columns, such as 'fixed x 0 mean 2.5', "
              "'equal x:0:variance x:1:variance'; may be repeated. Or a JSON file with a list of them.")  # fmt: skip
@partial(shared_options.schema, bins=BinCount(), more=BINS_OF_FIT)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--checkpoint", metavar="FILE", help="Save the progress of learning in this file.")
@click.option("--every", type=click.IntRange(1), default=EPOCHS_PER_CHECKPOINT, show_default=True,
              help="Epochs between two checkpoints.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue from the file of --checkpoint, if it exists.")
@click.option("--unseen", type=click.Choice(["unknown", "error"]), default="unknown", show_default=True,
              help="Treat a level of later tables that is not in this one as unknown or as an error.")  # fmt: skip
@shared_options.stream_option
@click.option(
    "--online", is_flag=True, help="Online learning: read every row once, and learn from each batch as it arrives."
)
@click.option("--batch", type=click.IntRange(1), metavar="ROWS", help="Rows of a batch, with --online or --stream; "
              f"with --online the first batch determines the schema. [{BATCH}]")  # fmt: skip
@click.option("--effective-size", type=shared_options.FiniteRange(0, min_open=True), metavar="ROWS",
              help="With --online: all earlier rows together count as at most this many, so that the model follows "
              "data that change with time. [no limit]")  # fmt: skip
@click.option("--dask", metavar="ADDRESS", help="Learn on the workers of this cluster, such as tcp://host:8786.")
@shared_options.reading
@shared_options.json_option
def fit(data: str, target: str | None, output: str, model: str | None, hidden: str | None, epochs: int | None,
        cycles: int, smoothing: float | None, starts: int | None, tolerance: float | None, max_seconds: float | None,
        refine: Any, test: float, weights: str | None, sequence: str | None, time: str | None,
        continuous: tuple[str, ...], constraint: tuple[str, ...], bins: int | str, max_levels: int, seed: int,
        checkpoint: str | None, every: int,
        resume: bool, unseen: str, streamed: bool, online: bool, batch: int | None, effective_size: float | None,
        dask: str | None, as_json: bool, **options: Any) -> None:  # fmt: skip
    """Learn a model from a table.

    DATA is a CSV, TSV or Parquet file, or - for standard input. Columns may hold words, numbers and missing values.
    A folder or a 'glob*' of such files is read in batches, and need not fit into memory; so is a file with --stream.
    With --online every row is read once, and nothing is kept of it but what was learnt. With --dask the workers of a
    cluster read Parquet files. Ctrl-C ends learning after the epoch it is in, --online at once, and keeps what was
    learnt.
    """
    output_files.check_place(output)
    output_files.check_other(output, {"DATA": data})
    if checkpoint is not None:
        output_files.check_place(checkpoint, "a file, such as people.ckpt", "--checkpoint")
        output_files.check_other(checkpoint, {"DATA": data, "-o": output}, "--checkpoint")
    elif resume:
        raise click.UsageError("--resume continues from a file: name it with --checkpoint.")
    refuse_without_effect(("every", checkpoint is not None, "--checkpoint"))
    if online and (checkpoint or streamed or dask or test or cycles > 1):
        raise click.UsageError(
            "--online reads rows once, and keeps none: leave out --checkpoint, --stream, --dask, --test and --cycles."
        )
    if effective_size is not None and not online:
        raise click.UsageError("--effective-size is for rows that are read once: add --online.")
    if batch is not None and not (online or streamed or is_many(data) or dask):
        raise click.UsageError("--batch is for rows that are read in batches: add --online or --stream.")
    if weights is not None and weights == target:
        raise click.UsageError(f"{weights!r} cannot be --weights and --target at once.")
    if target is not None and target in options["drop"]:
        raise click.UsageError(f"{target!r} cannot be --target and --drop at once.")
    kind = model or ("latent" if target else "clusters")
    kind = "tree with a target" if kind == "tree" and target else kind
    if kind == "naive-bayes" and hidden is not None:
        raise click.UsageError("--model naive-bayes has no hidden states; leave out --hidden.")
    refuse_without_effect(("starts cycles", kind != "naive-bayes", "models with hidden states"))
    if (kind in CLASSIFIERS) != (target is not None):
        raise click.UsageError(f"--model {kind} {'needs' if target is None else 'takes no'} --target.")
    along = shared_options.those_given(sequence=sequence, time=time)
    if along and kind != "hmm":
        raise click.UsageError("--sequence and --time are for sequences of rows: add --model hmm.")
    if continuous and kind not in ("clusters", "hmm"):
        raise click.UsageError("--continuous is for --model clusters or hmm; others put numbers into bins.")
    if constraint and kind != "clusters":
        raise click.UsageError("--constraints is for --model clusters, whose classes it names by number.")
    if kind == "hmm" and (online or dask or test or weights or cycles > 1):
        raise click.UsageError(
            "--model hmm learns from all rows of a sequence together, on one machine: leave out --online, --dask, "
            "--test, --weights and --cycles."
        )
    settings: dict[str, Any] = {
        "cycles": cycles, "max_levels": max_levels, "random_state": seed, "unseen": unseen,
        "verbose": 0 if as_json else 1,
    }  # fmt: skip
    if bins == "auto" and kind not in STRUCTURES:
        raise click.UsageError("--bins auto is for --target, with --model latent, tan or tree: else say a number.")
    if kind not in STRUCTURES or shared_options.is_given("bins"):  # a classifier finds out how many it wants
        settings["n_bins"] = bins
    settings |= shared_options.those_given(
        n_epochs=epochs,
        n_init=starts,
        tol=tolerance,
        smoothing=smoothing,
        effective_size=effective_size,
        max_seconds=max_seconds,
        refine=refine,
    )
    if continuous:
        settings["continuous"] = "auto" if continuous == ("auto",) else list(continuous)
    if constraint:
        settings["constraints"] = constraints_of(constraint)
    if checkpoint is not None:
        settings["checkpoint"] = Checkpoint(checkpoint, every, resume)
    if options["missing"]:  # kept with the model, so that the next table is read in the same way
        settings["missing_values"] = list(options["missing"])
    streamed = streamed or dask is not None or (is_many(data) and not online)
    sizes = hidden or {"deep": "4,8", "ica": "2,2", "latent": "8" if dask else "auto", "naive-bayes": "1"}.get(
        kind, "auto"
    )
    check_choice(kind, sizes, refine, max_seconds, online)
    if streamed and test:
        raise click.UsageError("--test holds out rows of a table in memory: leave it out where rows are in batches.")
    if dask is not None and kind == "tree":
        raise click.UsageError("--model tree reads its rows on one machine; leave out --dask.")
    if dask is not None and sizes == "auto":
        raise click.UsageError("--hidden auto compares models on one machine: with --dask say --hidden NUMBER.")
    if not (online or streamed or data == "-" or Path(data).exists()):
        raise no_file(data)  # before what takes a second to import
    if kind in ("latent", "clusters") and not online and dask is None:
        compile_for_table(data, "stars")
    estimator = estimator_of(kind, sizes, settings)
    if online:
        rows = input_files.stream(data, batch=batch, **options)
        with _kept_on_failure(estimator, output):
            estimator.partial_fit(rows, *([] if target is None else [target]), sample_weight=weights)
        estimator.save(output)
        show_fit(estimator, batches_report(estimator, rows, output, False), as_json, rows.has_missing)
        return
    if streamed:
        rows = input_files.stream(data, batch=batch, **options)
        with _workers(dask) as executor, stoppable() as stopped:
            estimator._stop = stopped
            fit_options = along if kind == "hmm" else {"sample_weight": weights, "executor": executor}
            estimator.fit(rows, *([] if target is None else [target]), **fit_options)
            interrupted = stopped()
        estimator.save(output)
        again = target if executor is None and not interrupted else None
        missing = rows.has_missing
        report = batches_report(estimator, rows, output, interrupted) | accuracy_report(estimator, rows, again)
        show_fit(estimator, report, as_json, missing)
        stopped.end()
        return
    table = input_files.read(data, **options)
    table, weight = input_files.weighted(table, weights)
    table, classes = input_files.taken_out(table, target)
    if classes is not None:
        _check_classes(str(target), classes, max_levels)
    input_files.check_finite(table, data)
    is_held_out = np.zeros(table.num_rows, dtype=bool)
    if test:
        count = round(test * table.num_rows)
        is_held_out[np.random.default_rng(seed).permutation(table.num_rows)[:count]] = True
        if not count or count == table.num_rows:
            raise click.UsageError(
                f"--test {test:g} of {counted(table.num_rows, 'row')} leaves nothing to test on or learn from."
            )
    learnt = table.filter(~is_held_out)
    with stoppable() as stopped:
        estimator._stop = stopped
        fit_options = along if weight is None else {"sample_weight": weight[~is_held_out]}
        y = None if classes is None else np.array(classes, dtype=object)
        labels = () if y is None else ({target: y[~is_held_out].tolist()},)
        estimator.fit(learnt, *labels, **fit_options)
        interrupted = stopped()
    estimator.save(output)
    estimator.unseen = "unknown"  # what is an error in later tables is no reason to lose the report on this one
    if continuous == ("auto",) and not estimator.schema_.continuous:
        print_message("--continuous auto: no column has many different numbers, so that none is continuous.")
    missing = has_missing(estimator.schema_, learnt) or (y is not None and any(map(is_missing_value, y[~is_held_out])))
    report = fit_report(estimator, table, y, is_held_out, output, interrupted, weight)
    show_fit(estimator, report, as_json, missing)
    stopped.end()


@contextmanager
def _kept_on_failure(estimator: Any, output: str) -> Iterator[None]:
    """Save the model learnt so far if a later batch cannot be read."""
    try:
        yield
    except BaseException:
        if hasattr(estimator, "network_"):
            estimator.save(output)
            print_message(f"{output!r} holds what was learnt from {counted(estimator.n_rows_, 'row')} before this:")
        raise


def _workers(address: str | None) -> Any:
    """Return the client of the cluster at an address as a context; without an address, an empty one."""
    if address is None:
        return nullcontext()
    from ..learning.remote.cluster import connected

    return connected(address)


def _check_classes(name: str, classes: list[Any], most: int) -> None:
    """Raise an error that names the column if it cannot be the class."""
    known = {value for value in classes if value is not None and value == value}
    otherwise = "leave out --target, and `fgrn complete` imputes it"
    if not known:
        raise SchemaError("the class of no row is known.", column=name, remedies="choose another column")
    odd = next((value for value in known if not isinstance(value, (str, int, float, bool))), None)
    if odd is not None:
        text = f"a class is a word, a number or a truth value. Got {odd!r}."
        raise SchemaError(text, column=name, value=odd, remedies="turn it into a word")
    broken = next((value for value in known if isinstance(value, float) and not value.is_integer()), None)
    if broken is not None:
        raise SchemaError(
            f"a class is one of a few names, and this column holds numbers such as {broken:g}.",
            column=name,
            value=broken,
            remedies=("put them into groups and name these", otherwise),
        )
    if len(known) > most:
        raise SchemaError(
            f"{len(known):,} different values in {counted(len(classes), 'row')} are many classes.",
            column=name,
            remedies=("choose another column", Remedy("allow them", max_levels=len(known)), otherwise),
        )
