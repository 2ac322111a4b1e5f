"""Documents drawn by hypothesis: small networks with hostile names, and without."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fgrn.document import Document, Factor

HOSTILE = [
    "network", "variable", "probability", "table", "default", "type", "discrete", "property", "node", "net", "data",
    "potential", "a b", " a", "a ", "x,y", "{", "}", "a{", "[2]", "a|b", "|", "(1)", ")", "(", 'say "hi"', "'", "\\",
    "\\\\", 'a\\"b', "a;b", "//", "a//b", "/*", "*/", "5//", "http://x", "%", "50%", "#", "a#b", "<b>", "&amp;",
    "]]>", "<!--", "0", "-1", "1e5", "nan", "x<1", "0-4", "3-6_pct", ">=5", "é", "名", "Ä ö", "\u2028", "\u00a0", "😀",
    "x0", "=", "a=b", "unknown", "",
]  # fmt: skip
IDENTIFIERS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,6}", fullmatch=True)
WORDS = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=8)
RESERVED = {
    "net",
    "node",
    "discrete",
    "potential",
    "decision",
    "utility",
    "continuous",
    "function",
    "class",
    "temporal",
}
PLAIN = IDENTIFIERS.filter(lambda name: name not in RESERVED)


def table(draw: Any, sizes: list[int], directed: bool) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.random(sizes) ** 8 * (rng.random(sizes) > 0.2)
    if directed:
        values[..., 0] += 1e-9
        values /= values.sum(axis=-1, keepdims=True)
    values.setflags(write=False)
    return values


@st.composite
def documents(draw: Any, names: Any = WORDS, labels: Any = WORDS, directed: bool = True) -> Document:
    """A network of one to five variables, listed in any order."""
    variables = draw(st.lists(names.filter(str.strip), min_size=1, max_size=5, unique=True))
    states = {name: tuple(draw(st.lists(labels, min_size=1, max_size=4, unique=True))) for name in variables}
    order = draw(st.permutations(variables))
    factors = {}
    for place, child in enumerate(order):
        parents = draw(st.lists(st.sampled_from(order[:place]), max_size=3, unique=True)) if place else []
        scope = (*parents, child)
        factors[child] = Factor(scope, table(draw, [len(states[name]) for name in scope], directed))
    properties = draw(
        st.dictionaries(
            st.sampled_from(["", *variables]),
            st.dictionaries(names.filter(lambda key: key not in ("name", "states")), labels, min_size=1, max_size=2),
            max_size=2,
        )
    )
    title = draw(st.just("") | names)
    if not directed:
        return Document(states, tuple(factors.values()), False)
    return Document(states, tuple(factors[name] for name in variables), True, title, properties)


def example() -> Document:
    """A small network with everything in it."""
    tables = {
        ("smoke",): [0.5, 0.5],
        ("smoke", "lung"): [[0.1, 0.2, 0.7], [0.01, 0.09, 0.9]],
        ("smoke", "lung", "xray"): [[[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]], [[0.4, 0.6], [0.5, 0.5], [1.0, 0.0]]],
    }
    factors = []
    for scope, values in tables.items():
        array = np.array(values)
        array.setflags(write=False)
        factors.append(Factor(scope, array))
    states = {"smoke": ("yes", "no"), "lung": ("a", "b", "c"), "xray": ("bad", "good")}
    properties = {"smoke": {"position": "(25 275)", "label": "Smokes?"}, "": {"author": "somebody"}}
    return Document(states, tuple(factors), True, "chest", properties)
