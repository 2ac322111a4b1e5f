"""Bayesian networks and factor graphs at the command line: `query`, and their part of `inspect` and `draw`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np

from ..core import printing
from ..core.exceptions import FgrnError, WiringError, counted, shortened, visible
from ..files.formats import FORMATS, READ_ONLY, READABLE, RESCALE, UNREADABLE
from . import input_files, output_files, shared_options, terminal
from .answers import Answer
from .given import code_of, given_help, known_of, parted, parted_by_name, rows_of, with_evidence_added
from .terminal import print_text
from .without_effect import READING, refuse_without_effect
from .wording import spoken

if TYPE_CHECKING:
    from ..bayes.bayesian import BayesianNetwork
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram


def is_network(path: str, slices: bool = False) -> bool:
    """Return whether a file holds a Bayesian network or factor graph, by its name or, for a model file, by content.

    Args:
        path: the path of the file.
        slices: whether a dynamic network is one, too: that of its first slices.
    """
    if not path.endswith(".fgrn"):
        return ending(path) in READABLE or ending(path) in UNREADABLE
    try:
        return isinstance(_loaded(path, slices), _kinds())
    except FgrnError:
        return False  # reading the file reports the reason


def ending(path: str) -> str:
    """Return the extension of a file name, which indicates its format, without .gz."""
    return Path(path.removesuffix(".gz")).suffix.lower()


def _kinds() -> tuple[type, ...]:
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram

    return FactoredModel, InfluenceDiagram


def _loaded(path: str, slices: bool) -> Any:
    """Return the model of a model file; for a dynamic network with `slices`, its first slices."""
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..files.model_file import load

    model = load(path)
    return model.unrolled(model.order + 1) if slices and isinstance(model, DynamicBayesianNetwork) else model


def any_model_of(
    path: str, format: str | None = None, rescale: bool = False, slices: bool = False
) -> FactoredModel | InfluenceDiagram:
    """Return the network or influence diagram of a file; `rescale` divides each row of its tables by its sum.

    With `slices`, a dynamic network is that of its first slices.
    """
    from .. import read

    check_own_format(path, format, rescale)
    if not path.endswith(".fgrn"):
        return cast("FactoredModel | InfluenceDiagram", read(path, format, rescale=rescale or RESCALE))
    model = _loaded(path, slices)
    if isinstance(model, _kinds()):
        return cast("FactoredModel | InfluenceDiagram", model)
    use = input_files.use_of(path, model)
    if use is not None:
        raise FgrnError(
            f"{path!r} holds a model of the class {type(model).__name__}, and a Bayesian network or factor graph is "
            "wanted.",
            remedies=use,
        )
    raise FgrnError(
        f"{path!r} was learnt from a table by `fgrn fit` or an estimator, and a Bayesian network or factor graph is "
        "wanted.",
        remedies=(
            "ask it with `fgrn predict`, `fgrn complete` or `fgrn explain`",
            "set evidence on its page, which `fgrn explore` writes",
            "learn a Bayesian network from the table with `fgrn search`",
        ),
    )


def check_own_format(path: str, format: str | None, rescale: bool) -> None:
    """Raise an error if an option for files of other programs is given with a model file."""
    if path.endswith(".fgrn") and (format is not None or rescale):
        option = "--rescale" if format is None else "--from"
        raise click.UsageError(f"{option} is for files of other programs, and {path!r} is a model file: leave it out.")


def model_of(path: str, format: str | None = None, rescale: bool = False) -> FactoredModel:
    """Return the network of a file; an error if it has decisions."""
    from ..bayes.influence import InfluenceDiagram

    model = any_model_of(path, format, rescale)
    if isinstance(model, InfluenceDiagram):
        raise FgrnError(
            f"{path!r} has decisions or utilities. Solve it with `fgrn solve`, draw it with `fgrn draw`, or convert it."
        )
    return model


def format_option(
    name: str, which: str, known: tuple[str, ...]
) -> Callable[[shared_options.Command], shared_options.Command]:
    """Return the option for the format of a file."""
    told = f"Format of {which}. [by its name]"
    return click.option(f"--{name}", f"{name}_", type=click.Choice(known), help=told)


# inspect


def summary(path: str, as_json: bool, rescale: bool = False) -> None:
    """Print a summary of a network: variables, arcs, parameters, and the size of its junction tree."""
    from ..bayes.bayesian import BayesianNetwork
    from ..bayes.influence import InfluenceDiagram

    model = any_model_of(path, rescale=rescale)
    if isinstance(model, InfluenceDiagram):
        print_description(path, model, as_json)
        return
    found: dict[str, Any] = {"file": path, "name": model.name, "variables": len(model.variables)}
    states = [variable.cardinality for variable in model.variables]
    found |= {"states": sum(states), "most_states": max(states)}
    if isinstance(model, BayesianNetwork):
        parents = [len(model.parents(name)) for name in model.names]
        found |= {"kind": "bayesian", "arcs": len(model.arcs), "most_parents": max(parents)}
        found |= {"parameters": model.free_parameters, "roots": parents.count(0)}
        found["leaves"] = len(set(model.names) - {parent for parent, _ in model.arcs})
    else:
        factors = model.to_document().factors
        found |= {"kind": "markov", "factors": len(factors), "numbers": sum(one.values.size for one in factors)}
        found["largest_factor"] = max((len(one.scope) for one in factors), default=0)
    try:
        tree = model.tree
        largest = tree.cliques[tree.largest]
        found |= {"clusters": len(tree.cliques), "largest_cluster": list(largest)}
        found |= {"joint_states": tree.states[tree.largest], "joint_states_in_all": tree.total, "exact": True}
    except WiringError as error:
        found |= {"exact": False, "why": spoken(error)}
    beside, word = _neighbours(model), "parents" if "arcs" in found else "factors"
    if as_json:
        listed = [
            {"name": variable.name, "states": list(variable.labels), word: beside[variable.name]}
            for variable in model.variables
        ]
        terminal.print_json({**found, "listed": listed})
        return
    print_text("\n".join(map(visible, _summary_lines(found))) + "\n")
    heads = ["variable", "states", "", word]
    rows = [
        [
            variable.name,
            f"{variable.cardinality}",
            printing.listed(variable.labels),
            printing.listed(beside[variable.name], 6, 60),
        ]
        for variable in model.variables
    ]
    print_text(terminal.aligned(heads, rows, left=4))


def print_description(path: str, model: Any, as_json: bool) -> None:
    """Print the description of a model that is neither a Bayesian network nor an estimator, and its commands."""
    use = input_files.use_of(path, model)
    if as_json:
        terminal.print_json({"file": path, "kind": type(model).__name__, "description": repr(model)})
    else:
        print_text(visible(repr(model), lines=True))
        print_text(visible(f"\nWhat to do: {use}.", lines=True))


def _neighbours(model: FactoredModel) -> dict[str, list[str]]:
    """Return the parents of every variable, or the factors it is in."""
    from ..bayes.bayesian import BayesianNetwork

    if isinstance(model, BayesianNetwork):
        return {name: list(model.parents(name)) for name in model.names}
    found: dict[str, list[str]] = {name: [] for name in model.names}
    for number, factor in enumerate(model.to_document().factors):
        for name in factor.scope:
            found[name].append(f"f{number}")
    return found


def _summary_lines(found: Mapping[str, Any]) -> Iterator[str]:
    title = f" {found['name']!r}" if found["name"] else ""
    states = (
        f"{counted(found['variables'], 'variable')} with {counted(found['states'], 'state')}, "
        f"at most {found['most_states']:,} each"
    )
    if found["kind"] == "bayesian":
        yield f"Bayesian network{title}: {states}"
        yield (
            f"{counted(found['arcs'], 'arc')}, at most {counted(found['most_parents'], 'parent')}; "
            f"{found['roots']:,} without parents, "
            f"{found['leaves']:,} without children; {counted(found['parameters'], 'free parameter')}"
        )
    else:
        yield f"factors without direction{title}: {states}"
        yield (
            f"{counted(found['factors'], 'factor')} with {counted(found['numbers'], 'number')}, "
            f"of at most {counted(found['largest_factor'], 'variable')}"
        )
    if found["exact"]:
        names = shortened(found["largest_cluster"], 6)
        yield (
            f"exact inference: {counted(found['clusters'], 'clique')}, "
            f"{counted(found['joint_states_in_all'], 'joint state')}; "
            f"the largest has {found['joint_states']:,}, of {names}"
        )
    else:
        yield f"exact inference: none. {found['why']}"


# query


@click.command(
    epilog="\b\nExamples\n"
    "  fgrn query alarm.bif --given HR=LOW --given 'BP!=HIGH' --target LVFAILURE\n"
    "  fgrn query alarm.bif --given 'HR=[.7,.2,.1]' --most-probable\n"
    "  fgrn query alarm.bif --given HR=LOW --map LVFAILURE,HYPOVOLEMIA\n"
    "  fgrn query alarm.bif --do HR=HIGH --target BP      (set from outside)\n"
    "  fgrn query alarm.bif --given HR=LOW --voi LVFAILURE  (what to observe next)\n"
    "  fgrn query alarm.bif --given HR=LOW --sensitivity LVFAILURE=TRUE\n"
    "  fgrn query alarm.bif --evidence patients.csv --target LVFAILURE -o out.csv\n"
    "  fgrn query p.uai --evidence p.uai.evid --json"
)  # fmt: skip
@click.argument("network")
@click.option("--given", "given", multiple=True, metavar="NAME=STATE", help=given_help)
@click.option("--evidence", metavar="FILE", help="Rows of evidence: CSV, TSV or Parquet; or a UAI file, .evid.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="A variable to show; may be repeated. [all]")
@click.option(
    "--most-probable",
    is_flag=True,
    help="The most probable joint assignment of all variables; --target chooses which of them to show.",
)
@click.option(
    "--map",
    "map_of",
    metavar="A,B",
    help="The most probable states of some variables, summed over the others (marginal MAP).",
)
@click.option("--do", "set_to", multiple=True, metavar="NAME=STATE",
              help="Intervention: set a variable and cut the arcs to it. Repeatable.")  # fmt: skip
@click.option(
    "--voi", metavar="NAME", help="What to observe next to learn NAME: the value of each variable, or of --target."
)
@click.option("--cost", "costs", multiple=True, metavar="NAME=NUMBER",
              help="With --voi: what observing a variable costs, in nats. Repeatable.")  # fmt: skip
@click.option("--sensitivity", metavar="NAME=STATE",
              help="Sensitivity: the numbers of tables that the probability of a state depends on most.")  # fmt: skip
@click.option("--spread", type=shared_options.FiniteRange(0, 1, min_open=True), metavar="SHARE",
              help="With --sensitivity: the fraction by which each number is varied. [0.1]",
              )  # fmt: skip
@click.option("--picture", metavar="FILE", help="With --sensitivity: also draw it, to this file (.svg, .png, .pdf).")
@click.option("--joint", metavar="A,B", help="The joint distribution of some variables.")
@click.option("--sample", "drawn", type=click.IntRange(1), metavar="N", help="Draw rows, N for each row of evidence.")
@click.option("--samples", type=click.IntRange(2), metavar="N",
              help="With --method sampling: the number of samples for each row of evidence.")  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of --sample and --method sampling.",
)
@click.option("--method", type=click.Choice(["exact", "loopy", "sampling"]), default="exact", show_default=True,
              help="loopy and sampling are approximations for large networks; sampling gives standard "
                   "errors.")  # fmt: skip
@click.option("--interval", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="LEVEL",
              help="Show credible intervals of this probability, from the counts in a model file.")  # fmt: skip
@click.option("--learnt-from", metavar="TABLE",
              help="With --interval: the table that the network was learnt from, if values are missing in it.",
              )  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", help="Write a table: CSV, TSV or Parquet by its name; - is standard output."
)
@format_option("from", "NETWORK", (*FORMATS, *READ_ONLY))
@shared_options.rescale_option
@shared_options.reading
@shared_options.json_option
def query(
    network: str, given: tuple[str, ...], evidence: str | None, targets: tuple[str, ...], most_probable: bool,
    map_of: str | None, set_to: tuple[str, ...], voi: str | None, costs: tuple[str, ...], sensitivity: str | None,
    spread: float | None, picture: str | None, joint: str | None, drawn: int | None, samples: int | None, seed: int,
    method: str, interval: float | None, learnt_from: str | None, output: str | None, from_: str | None,
    rescale: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Query a network: the posterior distribution of its variables, and the probability of the evidence.

    NETWORK is a BIF, XMLBIF, NET, XDSL, UAI, DSC or DNE file, or a model file (.fgrn) with a Bayesian or Markov
    network, such as `fgrn search` writes. Models of `fgrn fit` are asked with `fgrn predict`, `complete` and `explain`.

    For one row of evidence a table with bars is shown, or written with -o (variable, state, probability). For
    --evidence each row has its answer in columns, empty for an impossible row; an empty cell is a missing value, and
    cells may also be weights, [.2,.8], or !=state. Words for missing values that are states of the network, such as
    None, are states. A number is put into its bin if all states of a variable are bins.
    """
    asked = [
        option
        for option, on in (
            ("--most-probable", most_probable),
            ("--map", map_of),
            ("--voi", voi),
            ("--sensitivity", sensitivity),
            ("--joint", joint),
            ("--sample", drawn),
            ("--interval", interval),
        )
        if on
    ]
    if targets and (map_of or joint or sensitivity):
        asked.append("--target")
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} are different questions. Ask one at a time.")
    if asked and method != "exact":
        raise click.UsageError(f"{asked[0]} needs --method exact.")
    if samples and method != "sampling":
        raise click.UsageError("--samples goes with --method sampling; rows are drawn by --sample.")
    if learnt_from and not interval:
        raise click.UsageError("--learnt-from goes with --interval.")
    if costs and not voi:
        raise click.UsageError("--cost goes with --voi.")
    if (spread or picture) and not sensitivity:
        raise click.UsageError(f"{'--spread' if spread else '--picture'} goes with --sensitivity.")
    refuse_without_effect(
        ("seed", bool(drawn) or method == "sampling", "--sample and --method sampling"),
        (READING, evidence is not None or learnt_from is not None, "the tables of --evidence and --learnt-from"),
    )
    output_files.check_picture(picture)
    if output:
        output_files.check_table(output, as_json)
        output_files.check_other(output, {"NETWORK": network, "--evidence": evidence, "--learnt-from": learnt_from})
    model = model_of(network, from_, rescale)
    states: dict[str, Any] = {}
    directed_only = [("--do", set_to), ("--voi", voi), ("--sensitivity", sensitivity), ("--interval", interval)]
    asked_of_arcs = [option for option, on in (*directed_only, ("--method sampling", method == "sampling")) if on]
    if asked_of_arcs:
        directed = _directed_model(model, asked_of_arcs[0])
        states = _set_states(directed, set_to)
        model = directed.do(states) if states else directed
    names = list(targets) or list(model.names)
    for name in names:
        model.variable(name)
    known = known_of(model, given)
    _check_given(model, known, states)
    if voi:  # what is set is known, and cannot be asked for
        known = {**states, **known}
    rows: int | None = None
    if evidence is not None:
        columns, rows = rows_of(model, evidence, **options)
        known = {**with_evidence_added(columns, known, rows)} if rows is not None else {**columns, **known}
    columns_ = {name: [value] for name, value in known.items()} if rows is None else known
    answer = Answer(model, columns_, rows, output, as_json)
    if most_probable:
        answer.most_probable(names)
    elif map_of:
        answer.map_states(_names(model, map_of))
    elif (voi or sensitivity) and rows is not None:
        raise click.UsageError(f"{asked[0]} is asked of one row: give it by --given, and leave out --evidence.")
    elif sensitivity:
        answer.sensitivities(_state(model, sensitivity, "--sensitivity"), spread or 0.1, picture)
    elif voi:
        answer.value_of_asking(model.variable(voi).name, costs_of(model, costs), list(targets) or None)
    elif joint:
        answer.joint(_names(model, joint))
    elif drawn:
        answer.sample(drawn, seed, names)
    elif interval:
        answer.intervals(names, interval, rows_of(model, learnt_from, **options)[0] if learnt_from else None)
    elif method == "sampling":
        answer.sampled(names, samples, seed)
    else:
        answer.posterior(names, method)


def _directed_model(model: FactoredModel, option: str) -> BayesianNetwork:
    """Return a model if it is a Bayesian network; an error otherwise."""
    from ..bayes.bayesian import BayesianNetwork

    if isinstance(model, BayesianNetwork):
        return model
    raise FgrnError(f"{option} is asked of a Bayesian network, and these are factors without direction.")


def _set_states(model: BayesianNetwork, set_to: tuple[str, ...]) -> dict[str, Any]:
    """Return the state of each variable of the interventions NAME=STATE."""
    states: dict[str, Any] = {}
    for text in set_to:
        name, state = _state(model, text, "--do")
        if name in states:
            raise click.UsageError(f"--do sets {name!r} twice. Leave one of them out.")
        states[name] = state
    return states


def _check_given(model: FactoredModel, known: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Raise an error if evidence contradicts the state that a variable is set to."""
    for name, state in states.items():
        value = known.get(name, state)
        possible = value[model.variable(name).code(state)] > 0 if isinstance(value, np.ndarray) else value == state
        if not possible:
            raise click.UsageError(
                f"--do sets {name!r} to {state}, and --given says something else. Leave one of them out."
            )


def _state(model: FactoredModel, text: str, option: str) -> tuple[str, Any]:
    """Return the variable and the state of NAME=STATE."""
    name, value = parted(text, model.names, option)
    try:
        return name, model.variable(name).labels[code_of(model.variable(name), value)]
    except FgrnError as error:
        raise error.changed(file=f"{option} {text}") from None


def costs_of(model: FactoredModel | InfluenceDiagram, costs: tuple[str, ...]) -> dict[str, float]:
    """Return the cost of each variable of NAME=NUMBER."""
    found = {}
    for name, value in parted_by_name(costs, model.names, "--cost").items():
        try:
            found[name] = float(value)
        except ValueError:
            raise click.UsageError(f"--cost is NAME=NUMBER. Got {f'{name}={value}'!r}.") from None
    return found


def _names(model: FactoredModel, text: str) -> list[str]:
    """Return the names of a comma-separated list; a name that contains a comma must be the only one."""
    names = [text] if text in model.names else [part.strip() for part in text.split(",")]
    for name in names:
        model.variable(name)
    return names


# draw


def draw_graph(
    path: str, output: str, given: tuple[str, ...], as_json: bool, rescale: bool, method: str, **options: Any
) -> None:
    """Draw the graph of a network with the distribution of each variable, or an influence diagram without."""
    from .. import plots
    from ..bayes.influence import InfluenceDiagram

    model = any_model_of(path, rescale=rescale, slices=True)
    if isinstance(model, InfluenceDiagram):
        if given:
            raise click.UsageError("An influence diagram is drawn without evidence: leave out --given.")
        plots.save(plots.graph(model), output)
        if as_json:
            terminal.print_json({"file": output})
        return
    known = {name: [value] for name, value in known_of(model, given).items()}
    plots.save(plots.graph(model, known or None, method=method, **options), output)
    if as_json:
        seen = model.propagate(known or None, method=method)
        beliefs = {name: seen.belief(name) for name in model.names}
        terminal.print_json({"file": output, "log_likelihood": float(seen.log_likelihood[0]), "beliefs": beliefs})
