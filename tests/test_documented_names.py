"""Every name in `code` of the documentation exists."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import fgrn
from fgrn.flow.em import History
from fgrn.flow.messages import Messages, Round
from fgrn.flow.online import Online
from fgrn.learning.criteria import Candidate, Selection
from fgrn.queries.explanation import Explanation
from fgrn.queries.questions import MostProbable

ROOT = Path(__file__).parents[1]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.is_file() and "_pictures" not in path.parts
]
CLASSES = [one for one in (getattr(fgrn, name) for name in fgrn.__all__) if inspect.isclass(one)]
NETWORKS = [fgrn.Network, fgrn.Chain, fgrn.BayesianNetwork, fgrn.MarkovNetwork]
ESTIMATORS = [one for one in CLASSES if hasattr(one, "get_params")]
ANSWERS = [
    Messages,
    Round,
    History,
    Explanation,
    Selection,
    Candidate,
    MostProbable,
    Online,
    fgrn.paper.Sheet,
    fgrn.paper.Results,
]
ANYTHING = [*CLASSES, *ANSWERS]

RECEIVERS: dict[str, list[Any]] = {
    "fgrn": [fgrn],
    "plots": [fgrn.plots],
    "net": NETWORKS,
    "network_": [fgrn.Network],
    "model": [*NETWORKS, *ESTIMATORS],
    "seen": [Messages],
    "step": [Round],
    "history": [History],
    "schema": [fgrn.Schema],
    **{name: [getattr(fgrn, name)] for name in fgrn.__all__},
}
"""What a name before a dot is in the documentation."""

OTHERS = {"P", "map_query", *dir(builtins)}
"""Calls that are not ours: probabilities, what pgmpy has, and what Python has."""

TEXT = re.compile(r"\"[^\"]*\"|'[^']*'")
NAMED = re.compile(r"(?<![\w./\\-])([A-Za-z_]\w*)?((?:\.[A-Za-z_]\w*)+)(\()?")
CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\(")


def ours(text: str) -> Iterator[tuple[int, str]]:
    """The code in sentences, and in the columns of tables that are about us, with its line."""
    text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    heads: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = re.split(r"(?<!\\)\|", line.strip()[1:-1]) if line.startswith("|") else []
        if not cells:
            heads = []
        elif not heads:
            heads = [cell.strip() for cell in cells]
            continue
        mine = [cell for head, cell in zip(heads, cells, strict=False) if head in ("here", "write")]
        for part in (mine if "here" in heads or "write" in heads else cells) or [line]:
            for code in re.findall(r"`([^`\n]+)`", part):
                yield number, code


def part_of(module: Any, name: str) -> Any:
    return import_module(f"{module.__name__}.{name}") if not hasattr(module, name) else getattr(module, name)


@cache
def source(thing: Any) -> str:
    return inspect.getsource(thing) if inspect.isclass(thing) else ""


@cache
def has(thing: Any, name: str) -> bool:
    """Whether a class or module has an attribute, one of its instances included."""
    fields = {*getattr(thing, "__annotations__", {}), *getattr(thing, "__dataclass_fields__", {})}
    fields |= {key for base in getattr(thing, "__mro__", ()) for key in getattr(base, "__annotations__", {})}
    part = inspect.ismodule(thing) and hasattr(thing, "__path__") and find_spec(f"{thing.__name__}.{name}") is not None
    return hasattr(thing, name) or part or name in fields or f"self.{name}" in source(thing)


def missing_names(code: str) -> list[str]:
    """The names in a piece of code that are nowhere."""
    bare, out = TEXT.sub("''", code), []
    if bare.startswith(("fgrn ", "pip ", "python ", "make ", "-")):
        return []
    for found in NAMED.finditer(bare):
        receiver, names, call = found[1], found[2][1:].split("."), found[3]
        if receiver in RECEIVERS:
            whose = RECEIVERS[receiver]
        elif receiver is None and (call or bare[: found.start()].endswith(")")):
            whose = ANYTHING
        else:
            continue
        for name in names:
            if not any(has(one, name) for one in whose):
                out.append(f"{receiver or ''}.{name}")
                break
            whose = [part_of(one, name) for one in whose if inspect.ismodule(one)] or ANYTHING
    calls = [found[1] for found in CALLED.finditer(bare) if found[1] not in OTHERS]
    return out + [f"{name}(" for name in calls if not any(has(one, name) for one in (*ANYTHING, fgrn, fgrn.plots))]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    wrong = [
        f"{page}, line {line}: {name} in `{code}`"
        for line, code in ours((ROOT / page).read_text(encoding="utf-8"))
        for name in missing_names(code)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "net.centroid",
        "net.propagate(x).nothing",
        "fgrn.nothing",
        "fgrn.plots.nothing(net)",
        ".nothing(a)",
        "nothing(a)",
    ],
)
def test_a_name_that_is_not_there_is_found(code: str) -> None:
    assert missing_names(code)


@pytest.mark.parametrize(
    "code",
    [
        "net.propagate(evidence).forward('Y1')", "fgrn.plots.network", "Network.learn", "step.messages.marginal('Y1')",
        "fgrn fit a.csv", ".backward('Y1')", "model.schema_.codes(X)", "fgrn.load('m.fgrn')", "Diverter(a, b)",
    ],
)  # fmt: skip
def test_a_name_that_is_there_is_found_to_be(code: str) -> None:
    assert not missing_names(code)
