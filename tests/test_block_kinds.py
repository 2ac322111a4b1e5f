"""Kinds of block are described in one table, `plan.block_kinds`, and in one table of each engine and of model files.

The sources are read with `ast`, so that a new place where kinds are told apart is noticed here.
"""

from __future__ import annotations

import ast
import typing
from functools import cache
from pathlib import Path

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable
from fgrn.engines import log_state, reference, tape, tracing
from fgrn.files.block_records import KINDS_OF_RECORD
from fgrn.graph.blocks import Block
from fgrn.plan import block_kinds
from fgrn.plan.block_kinds import BLOCK_KINDS, STEP_KINDS, Message

ROOT = Path(fgrn.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
CLASSES = {block.__name__ for block in typing.get_args(Block)}

NAMES_STEPS = {
    "plan/block_kinds.py": "the table of kinds",
    "plan/schedule.py": "posteriors of Diverters, and leaves that are gathered",
    "graph/blocks.py": "the class of each kind",
    "graph/supervisor.py": "the root is a Diverter",
    "engines/protocol.py": "the numbers again, since engines import nothing",
    "engines/log_state.py": "the table of the reference engine",
    "engines/tape.py": "the table of the CPU engine, and posteriors of Diverters",
    "engines/tracing.py": "the table of most_probable and sample",
}
"""The files that name kinds of step, and why."""

TELLS_ALL_APART = {
    "files/block_records.py": "the table of model files",
    "graph/supervisor.py": "the arrays of a plan, and its parameters",
    "graph/chain.py": "the shape of a chain: Source, Diverter, SISO",
    "page/factor_layout.py": "boxes of a page",
    "plots/drawing.py": "boxes of a picture",
    "bayes/tree_mixture.py": "the copy of a hidden tree, which it made itself",
}
"""The files that have a case for each class of block, and why."""


@cache
def syntax(file: str) -> ast.Module:
    return ast.parse(SOURCES[file])


def names_in(tree: ast.AST) -> set[str]:
    """All names and attributes in a part of a file, those that are imported included."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found | {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def classes_asked_for(tree: ast.AST) -> set[str]:
    """The classes of blocks that `isinstance` is asked about."""
    asked = (
        node.args[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    )
    return {name for classes in asked for name in names_in(classes)} & CLASSES


def test_steps_are_named_in_tables_only() -> None:
    """A step is looked up in a table of an engine; no other file tells kinds of step apart."""
    elsewhere = ("engines/kernels/", "engines/__init__.py", "plots/")  # operations of a tape, exports, colours
    steps = {step.name for step in STEP_KINDS.values()}
    maybe = {file for file, text in SOURCES.items() if not file.startswith(elsewhere) and any(map(text.count, steps))}
    found = {file for file in maybe if names_in(syntax(file)) & steps}
    assert found == set(NAMES_STEPS)


def test_classes_of_blocks_are_told_apart_in_few_files() -> None:
    """A file that has a case for a Diverter, a SISO and a Source would miss a new kind: it is listed, with a reason."""
    found = {
        file
        for file, text in SOURCES.items()
        if all(map(text.count, ("Source", "SISO", "Diverter", "isinstance")))
        for node in syntax(file).body
        if len(classes_asked_for(node) & {"Source", "SISO", "Diverter"}) == 3
    }
    assert found <= set(TELLS_ALL_APART)
    assert all(CLASSES & names_in(syntax(file)) for file in TELLS_ALL_APART)


def test_every_kind_of_block_has_its_parts() -> None:
    """Its class in the graph, its steps in plans, its functions in every table of the engines, its record in files."""
    assert {block.kind for block in typing.get_args(Block)} == set(BLOCK_KINDS)
    assert set(log_state.STEPS) == set(tape.STEPS) == set(STEP_KINDS)
    assert set(tracing.CHOICES) == set(BLOCK_KINDS)
    assert {kind.block for kind in KINDS_OF_RECORD.values()} == set(typing.get_args(Block))


def test_steps_compute_the_messages_of_their_blocks() -> None:
    S, Y = Variable("S", 2), Variable("Y", 2)
    copies = [Variable("A", 2), Variable("B", 2)]
    plan = Network([Source(S), Diverter([S], copies), SISO(copies[0], Y), SISO(copies[1], Variable("Z", 2))])._plan()
    emitted: set[int] = set()
    made: list[Message] = []
    for kind in BLOCK_KINDS.values():
        for block in range(kind.count(plan)):
            for outgoing in kind.outgoing(plan, block):
                steps = kind.steps(plan, block, [outgoing])
                emitted |= {step for step, *_ in steps}
                assert [m for step, number, legs in steps for m in plan.step_messages(step, number, legs)] == [outgoing]
                made.append(outgoing)
    assert emitted == set(STEP_KINDS)
    evidence = {Message(plan.edge(name), False) for name in ("Y", "Z")}  # messages of no block
    assert sorted(made) == sorted(plan.all_messages() - evidence)


def operations() -> set[str]:
    """The names of all operations on a tape, which are numbered in one place."""
    ranges = [
        [name.id for name in node.targets[0].elts if isinstance(name, ast.Name)]
        for node in syntax("engines/kernels/basics.py").body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Call)
    ]
    return {name for names in ranges if {"CONSTANT", "SCATTER"} & set(names) for name in names}


def kernel_of_each_operation() -> dict[str, str]:
    """The function that the kernels call for each operation: `if operation == NAME: function(...)`."""
    found = {}
    for node in ast.walk(syntax("engines/kernels/trees.py")):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
            name, then = node.test.comparators[0], node.body[0]
            if isinstance(name, ast.Name) and isinstance(then, ast.Expr) and isinstance(then.value, ast.Call):
                found[name.id] = ast.unparse(then.value.func)
    return found


def test_the_overview_of_kinds_steps_and_kernels_is_true() -> None:
    """Every step, every operation and the function of the kernels that runs it is in the overview, and nothing else."""
    lines = [line for line in (block_kinds.__doc__ or "").splitlines() if line.startswith("    ")][1:]
    kernels = kernel_of_each_operation()
    assert set(kernels) == operations()
    listed: dict[str, str] = {}
    for line in lines:
        block, step, by_reference, written, run = (
            line[start:end].strip() for start, end in ((4, 15), (15, 26), (26, 48), (48, 73), (73, None))
        )
        assert not block or block == "evidence" or block in {kind.name for kind in BLOCK_KINDS.values()}
        assert not step or step == "counts" or step in {one.name for one in STEP_KINDS.values()}
        assert by_reference.split(".")[-1] in {*vars(reference), *vars(log_state.State)}
        listed |= dict(zip(written.split(), run.split(), strict=True))
    assert listed == kernels
    assert {kind.name for kind in BLOCK_KINDS.values()} <= {line.split()[0] for line in lines}
    assert {one.name for one in STEP_KINDS.values()} <= {word for line in lines for word in line[:26].split()}


def test_engines_number_the_steps_as_plans_do() -> None:
    assert {getattr(fgrn.engines, step.name): step.name for step in STEP_KINDS.values()} == {
        number: step.name for number, step in STEP_KINDS.items()
    }
