"""Ready-made networks: `lvm`, `naive_bayes`, `class_mixture`, `dica`, `stack`, `hmm`; wiring only.

`observed` is always a mapping from names to states, a number or a list of labels. The copy of a hidden variable that a
Diverter sends to variable Y is called "S->Y".

The meaning of a hidden state results from learning, from a random start: its number, or its label, is arbitrary, and
may differ with another seed. `tables` gives initial tables for all starts, and so gives the labels their meaning:

    lvm({"Y": ["no", "yes"]}, hidden=["well", "ill"], tables={"Y": [[0.8, 0.2], [0.3, 0.7]]})

starts P(Y | S) with these rows, one for each state of S in order. Rough numbers are enough, and one table may be
enough. A hidden variable without parents may be given its prior in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..core import settings
from ..core.exceptions import WiringError, counted, shortened, unknown_name
from ..core.labels import Label
from ..core.variable import Variable
from ..flow.gaussian_leaves import GaussianLeaves
from .blocks import SISO, Block, Diverter, Source
from .chain import Chain
from .network import Network

States: TypeAlias = int | Iterable[Label]

MOST_PRODUCT_LABELS = 10_000
"""The states of a larger product space are numbered instead of labelled."""


def lvm(
    observed: Mapping[str, States],
    hidden: States,
    *,
    name: str = "S",
    prior: Any = None,
    learn_prior: bool = True,
    tables: Mapping[str, Any] | None = None,
    leaves: GaussianLeaves | None = None,
) -> Network:
    """Return a Latent Variable Model: one hidden variable over all observed ones, any of which may be the class.

    Args:
        observed: the observed variables and their states.
        hidden: the states of the hidden variable: a number or labels, which are arbitrary names unless `tables` says
            what they mean.
        name: the name of the hidden variable.
        prior: the prior of the hidden variable; uniform unless given.
        learn_prior: whether it is learnt.
        tables: initial tables by the name of their variable: P(variable | hidden), a row for each hidden state;
            random unless given.
        leaves: continuous columns, if there are any: then there may be no other observed variable.
    """
    cause = Variable(name, hidden)
    outputs = _variables(observed) if observed or leaves is None else []
    blocks = [Source(cause, prior, learn_prior), *(_children([cause], outputs) if outputs else [])]
    return _checked_network(observed, blocks, tables, leaves)


def naive_bayes(
    observed: Mapping[str, States], class_variable: str, *, name: str = "S", tables: Mapping[str, Any] | None = None
) -> Network:
    """Return a naive Bayes classifier: the hidden variable is the class, through a table fixed to be diagonal.

    Args:
        observed: the variables and their states, the class among them.
        class_variable: which of them is the class.
        name: the name of the hidden copy of the class.
        tables: initial tables by the name of their variable: P(variable | class), a row for each class; random unless
            given.
    """
    label = _class_among(observed, class_variable)
    return _tied_to_class(observed, label, Variable(name, label.labels), np.eye(label.cardinality), tables)


def class_mixture(
    observed: Mapping[str, States],
    class_variable: str,
    hidden: int | Sequence[int],
    *,
    name: str = "S",
    tables: Mapping[str, Any] | None = None,
) -> Network:
    """Return a mixture for each class: every class has hidden states of its own, which determine it.

    It is the Latent Variable Model with a table from the hidden variable to the class that stays block-diagonal: every
    row has one 1, and none of them is learnt. With one state for each class it is naive Bayes.

    Args:
        observed: the variables and their states, the class among them.
        class_variable: which of them is the class.
        hidden: how many states each class has: a number for all, or a list with one for each class in order. The states
            of a class "a" are called "a.1", "a.2", ...
        name: the name of the hidden variable.
        tables: initial tables by the name of their variable: P(variable | hidden), a row for each hidden state;
            random unless given.
    """
    label = _class_among(observed, class_variable)
    labels, support = states_of_classes(observed, class_variable, hidden)
    return _tied_to_class(observed, label, Variable(name, labels), support, tables)


def states_of_classes(
    observed: Mapping[str, States], class_variable: str, hidden: int | Sequence[int]
) -> tuple[list[str], np.ndarray]:
    """Return the names "a.1", "a.2", ... of the hidden states of every class, and the table from them to the class."""
    label = _class_among(observed, class_variable)
    sizes = [hidden] * label.cardinality if isinstance(hidden, int) else list(hidden)
    for size in sizes:
        settings.whole("hidden", size, 1, WiringError)
    if len(sizes) != label.cardinality:
        raise WiringError(f"'hidden' is one number for each of the {label.cardinality} classes. Got {len(sizes)}.")
    labels = [f"{state}.{number}" for state, size in zip(label.labels, sizes, strict=True) for number in _up_to(size)]
    return labels, np.repeat(np.eye(label.cardinality), sizes, axis=0)


def _up_to(size: int) -> range:
    return range(1, size + 1)


def _class_among(observed: Mapping[str, States], class_variable: str) -> Variable:
    """Return the class among the observed variables."""
    variables, name = _variables(observed), settings.name_of(class_variable)
    if name not in observed:
        raise unknown_name("variable", name, observed)
    return next(variable for variable in variables if variable.name == name)


def _tied_to_class(
    observed: Mapping[str, States],
    label: Variable,
    cause: Variable,
    support: np.ndarray,
    tables: Mapping[str, Any] | None,
) -> Network:
    """Return a network with one hidden variable, whose states determine the class by `support`."""
    blocks: list[Block] = [Source(cause)]
    for block in _children([cause], _variables(observed)):
        if isinstance(block, SISO) and block.output == label:
            block = SISO(block.input, block.output, support, support=support)
        blocks.append(block)
    return _checked_network(observed, blocks, tables)


def dica(
    observed: Mapping[str, States],
    hidden: Sequence[States],
    *,
    name: str = "S",
    tables: Mapping[str, Any] | None = None,
) -> Network:
    """Return a Discrete Independent Component Analysis: independent hidden variables that jointly explain the observed.

    Args:
        observed: the observed variables and their states.
        hidden: the states of each hidden variable: numbers or labels, which are arbitrary names unless `tables` says
            what they mean.
        name: the prefix of their names; their number from 1 follows.
        tables: initial tables by the name of their variable: P(variable | all hidden ones), a row for each combination
            of their states, the last one changing fastest; random unless given.
    """
    if isinstance(hidden, (int, str)) or not hidden:
        raise WiringError(f"'hidden' lists the states of each hidden variable, such as [3, 2]. Got {hidden!r} instead.")
    causes = [Variable(f"{name}{number}", states) for number, states in enumerate(hidden, start=1)]
    return _checked_network(observed, [*map(Source, causes), *_children(causes, _variables(observed))], tables)


def stack(
    observed: Mapping[str, States],
    hidden: Sequence[States],
    *,
    groups: int | Sequence[int | Sequence[Sequence[str]]] = 2,
    class_variable: str | None = None,
    name: str = "S",
    tables: Mapping[str, Any] | None = None,
) -> Network:
    """Return a network of layers: hidden variables over groups of observed ones, others over these, one on top.

    Train it layer by layer with `net.learn_by_layer(data)`.

    Args:
        observed: the observed variables and their states.
        hidden: the states of the hidden variables of each layer, the lowest first; the last is the top one. Labels are
            arbitrary names unless `tables` says what they mean.
        groups: how many variables share a hidden one above them: a number for every layer, or for each layer but the
            top one a number or the groups themselves, as lists of names.
        class_variable: an observed variable that depends on the top one.
        name: the prefix of hidden variables; the number of the layer and that in it follow ("S1.2"); the top one
            by this and the number of the layer ("S2").
        tables: initial tables by the name of their variable: P(variable | hidden variable above it), a row for each
            state of that; random unless given.
    """
    if isinstance(hidden, (int, str)) or len(hidden) < 2:
        raise WiringError(f"'hidden' lists the states of two or more layers, the lowest first. Got {hidden!r} instead.")
    variables = {variable.name: variable for variable in _variables(observed)}
    class_variable = settings.name_of(class_variable)
    if class_variable is not None and class_variable not in variables:
        raise unknown_name("variable", class_variable, variables)
    below = [variable for variable in variables.values() if variable.name != class_variable]
    if isinstance(groups, (str, bool)) or not isinstance(groups, (int, Sequence)):
        raise WiringError(f"'groups' is a number, or a list with one entry for each layer. Got {groups!r} instead.")
    per_layer = [groups] * (len(hidden) - 1) if isinstance(groups, int) else list(groups)
    if len(per_layer) != len(hidden) - 1:
        raise WiringError(
            f"'groups' has one entry for each layer below the top, here {len(hidden) - 1}: a number, or the list of "
            f"its groups. Got {len(per_layer)} entries instead. Two groups of one layer are "
            "groups=[[['a', 'b'], ['c', 'd']]]."
        )
    blocks: list[Block] = []
    for layer, (states, grouping) in enumerate(zip(hidden[:-1], per_layer, strict=True), start=1):
        above = []
        for number, members in enumerate(_grouped(below, grouping), start=1):
            cause = Variable(f"{name}{layer}.{number}", states)
            blocks += _children([cause], members)
            above.append(cause)
        below = above
    top = Variable(f"{name}{len(hidden)}", hidden[-1])
    if class_variable is not None:
        below = [*below, variables[class_variable]]
    return _checked_network(observed, [Source(top), *_children([top], below), *blocks], tables)


def hmm(
    observed: Mapping[str, States],
    hidden: States,
    length: int | None = None,
    *,
    name: str = "S",
    sequence: str = "sequence",
    tables: Mapping[str, Any] | None = None,
    leaves: GaussianLeaves | None = None,
) -> Network:
    """Return a hidden Markov model: a `Chain`, where a row is one step; or unrolled, where a row is a whole sequence.

    A chain takes sequences of any length, one after the other in one table, identified by a column; every epoch is
    one iteration of Baum and Welch. It has the hidden variable "S", and "S next" for that of the next row.

    With a `length` the steps are unrolled into one network with tied tables, to be inspected or changed. Step t has the
    hidden variable "S[t]" and the observed ones "Y[t]"; `fgrn.sequences` makes such rows of sequences of any lengths up
    to `length`, in which steps after the end of a sequence are missing. Learn it with holes="ignore", so that these
    are not counted.

    Args:
        observed: the variables observed at every step, and their states.
        hidden: the states of the hidden variable: a number or labels, which are arbitrary names unless `tables` says
            what they mean.
        length: the number of steps, if they are to be unrolled.
        name: the name of the hidden variable.
        sequence: the column that identifies sequences; without it in a table all rows are one sequence.
        tables: initial tables: P(variable | hidden), a row for each hidden state, by the name of the variable;
            P(hidden of the next row | hidden) as "S next", and the prior of the first row as "S". Random unless given.
            The names are the same if the steps are unrolled.
        leaves: continuous columns of a chain, if there are any: then there may be no other observed variable.
    """
    outputs = _variables(observed) if observed or leaves is None else []
    if length is None:
        if f"{name} next" in observed:
            raise WiringError(
                f"The hidden variable of the next row is called '{name} next'. Name the observed one differently."
            )
        state, following = Variable(name, hidden), Variable(f"{name} next", hidden)
        blocks = [Source(state), *_children([state], [*outputs, following])]
        net = _checked_network(observed, blocks, tables)  # checks the names
        return Chain(net.blocks, (following.name, state.name), sequence, leaves=leaves)
    if leaves is not None:
        raise WiringError("Continuous columns are those of a chain: leave out 'length'.")
    settings.whole("length", length, 1, WiringError)
    state = Variable(name, hidden)
    steps = [Variable(f"{name}[{t}]", state.labels) for t in range(length)]
    blocks = [Source(steps[0])]
    for t, here in enumerate(steps):
        seen = [Variable(f"{variable.name}[{t}]", variable.labels) for variable in outputs]
        children = _children([here], [*seen, *steps[t + 1 : t + 2]])
        ties = [*(variable.name for variable in outputs), f"{name} to {name}"]
        blocks.append(children[0])
        for block, tie in zip(children[1:], ties, strict=False):
            blocks.append(SISO(block.input, block.output, tie=tie) if isinstance(block, SISO) else block)
    return Network(_started(blocks, tables, {f"{name}[0]": name, f"{name} to {name}": f"{name} next"}))


def sequences(rows: Iterable[Mapping[str, Sequence[Any]]], length: int | None = None) -> dict[str, list[Any]]:
    """Return rows for `hmm` from sequences, each a mapping from names to the values of its steps, of any length.

    Steps after the end of a sequence are missing. `length` is that of the longest sequence unless given.
    """
    rows = list(rows)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise WiringError(
                f"Sequence {number} is a mapping from names to the values of its steps, such as {{'Y': [0, 1]}}. "
                f"Got {row!r} instead."
            )
    names = dict.fromkeys(name for row in rows for name in row)
    lengths = [max((len(values) for values in row.values()), default=0) for row in rows]
    steps = max(lengths, default=0) if length is None else length
    for number, count in enumerate(lengths):
        if count > steps:
            raise WiringError(f"Sequence {number} has {counted(count, 'step')}; the network has {steps}.")
    table: dict[str, list[Any]] = {f"{name}[{t}]": [] for t in range(steps) for name in names}
    for row in rows:
        for name in names:
            values = list(row.get(name, ()))
            for t in range(steps):
                table[f"{name}[{t}]"].append(values[t] if t < len(values) else None)
    return table


def _checked_network(
    observed: Mapping[str, States],
    blocks: list[Block],
    tables: Mapping[str, Any] | None,
    leaves: GaussianLeaves | None = None,
) -> Network:
    """Return the network of these blocks; an error if an observed variable has the name of a hidden one."""
    outputs = [block.output.name for block in blocks if isinstance(block, SISO)]
    made = {v.name for block in blocks for v in (*block.reads, *block.drives)}
    hidden = {v.name for block in blocks for v in block.reads} | {name for name in made if name not in outputs}
    for name in observed:
        if name in hidden:
            raise WiringError(f"{name!r} is the name of a hidden variable here; choose another with name=.")
    return Network(_started(blocks, tables, {}), leaves=leaves)


def _started(blocks: list[Block], tables: Mapping[str, Any] | None, called: Mapping[str, str]) -> list[Block]:
    """Return the blocks with given initial tables and priors; `called` maps their names to those in errors."""
    if tables is None:
        return blocks
    if not isinstance(tables, Mapping):
        raise WiringError(
            "'tables' is a mapping from names to the tables that learning starts from, such as "
            f"{{'Y': [[0.8, 0.2], [0.3, 0.7]]}}. Got {tables!r} instead."
        )
    tables = settings.by_name(tables)
    out, known = [], set()
    for block in blocks:
        if isinstance(block, (Source, SISO)):
            name = block.variable.name if isinstance(block, Source) else block.tie or block.output.name
            known.add(name := called.get(name, name))
            if name in tables:
                block = _starting(block, tables[name])
        out.append(block)
    for name in tables:
        if name not in known:
            raise unknown_name("table", name, sorted(known))
    return out


def _starting(block: Source | SISO, start: Any) -> Source | SISO:
    if isinstance(block, SISO):
        return SISO(block.input, block.output, start, block.learn, tie=block.tie, support=block.support)
    if block.prior is not None:
        raise WiringError(f"The prior of {block.variable.name!r} is given twice: as 'prior', and in 'tables'.")
    return Source(block.variable, start, block.learn)


def _variables(observed: Mapping[str, States]) -> list[Variable]:
    if not isinstance(observed, Mapping) or not observed:
        raise WiringError(
            "The observed variables are a mapping from names to states, such as {'Y1': 2, 'Y2': ['a', 'b']}."
        )
    return [Variable(name, states) for name, states in observed.items()]


def _children(causes: Sequence[Variable], effects: Sequence[Variable]) -> list[Block]:
    """Return a Diverter below the causes, and a SISO block from their (product) space to every effect."""
    joint = ",".join(cause.name for cause in causes)
    labels = _product_labels(causes)
    legs = [Variable(f"{joint}->{effect.name}", labels) for effect in effects]
    tables = [SISO(leg, effect) for leg, effect in zip(legs, effects, strict=True)]
    return [Diverter(causes, legs), *tables]


def _product_labels(causes: Sequence[Variable]) -> States:
    """Return labels of the product space, the first cause slowest, such as "a,x"; numbers if no cause has labels."""
    if len(causes) == 1:
        return causes[0].labels
    size = prod(cause.cardinality for cause in causes)
    if size > MOST_PRODUCT_LABELS or not any(cause.is_labelled for cause in causes):
        return size
    return [",".join(map(str, states)) for states in product(*(cause.labels for cause in causes))]


def _grouped(variables: Sequence[Variable], grouping: int | Sequence[Sequence[str]]) -> list[list[Variable]]:
    if isinstance(grouping, int):
        if grouping < 1:
            raise WiringError(f"A group holds at least one variable. Got {grouping} instead.")
        return [list(variables[at : at + grouping]) for at in range(0, len(variables), grouping)]
    by_name = {variable.name: variable for variable in variables}
    groups = [settings.variable_names("groups", group, WiringError) for group in grouping]
    listed = [name for group in groups for name in group]
    for name in listed:
        if name not in by_name:
            raise unknown_name("variable", name, by_name)
    left_out = [name for name in by_name if name not in listed]
    if left_out or len(set(listed)) != len(listed):
        what = f"leave out {shortened(left_out)}" if left_out else "name a variable twice"
        raise WiringError(f"The groups of a layer hold each of its variables once; these {what}.")
    return [[by_name[name] for name in group] for group in groups]
