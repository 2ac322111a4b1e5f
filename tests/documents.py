"""Hypothesis strategies for Documents: small networks with ordinary or difficult names."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fgrn.bayes.document import Document, WrittenTable

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
    """Draw a network of one to five variables, listed in any order."""
    variables = draw(st.lists(names.filter(str.strip), min_size=1, max_size=5, unique=True))
    states = {name: tuple(draw(st.lists(labels, min_size=1, max_size=4, unique=True))) for name in variables}
    order = draw(st.permutations(variables))
    factors = {}
    for place, child in enumerate(order):
        parents = draw(st.lists(st.sampled_from(order[:place]), max_size=3, unique=True)) if place else []
        scope = (*parents, child)
        factors[child] = WrittenTable(scope, table(draw, [len(states[name]) for name in scope], directed))
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
    """Return a small network that has all features of a document."""
    tables = {
        ("smoke",): [0.5, 0.5],
        ("smoke", "lung"): [[0.1, 0.2, 0.7], [0.01, 0.09, 0.9]],
        ("smoke", "lung", "xray"): [[[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]], [[0.4, 0.6], [0.5, 0.5], [1.0, 0.0]]],
    }
    factors = []
    for scope, values in tables.items():
        array = np.array(values)
        array.setflags(write=False)
        factors.append(WrittenTable(scope, array))
    states = {"smoke": ("yes", "no"), "lung": ("a", "b", "c"), "xray": ("bad", "good")}
    properties = {"smoke": {"position": "(25 275)", "label": "Smokes?"}, "": {"author": "somebody"}}
    return Document(states, tuple(factors), True, "chest", properties)


DSC = """// as MSBN writes it
belief network "chest"
properties { creator is "somebody", { a }; }
node smoke
{
    name: "Smokes?";
    type: discrete[2] = { "yes", "no" };
    position: (25, 275);
    category: "habit";
}
node lung { name: "lung"; type : discrete [ 3 ] = { "a", "b", "c", }; }   /* no more */
node xray { type: discrete[2] = { bad, "good; {really}" }; }
probability ( xray | smoke, lung )
{
    (1, 2): 1.0, 0.0;
    default: 0.5, 0.5;
    (0, 0) : 0.1, 0.9; // first
    (0, 1) : 0.2, 0.8; (0, 2) : 0.3, 0.7; (1, 0) : 0.4,
      0.6;
}
probability(smoke) { 0.5, 0.5; }
probability(lung | smoke) { (0): 0.1, 0.2, 0.7; (1): 0.01, 0.09, 0.9; }
"""

DNE = r"""// ~->[DNET-1]->~

// File created by hand.
bnet chest {
autoupdate = TRUE;
title = "A chest";
visual V1 { nodefont = font {shape= "Arial"; size= 9;}; windowposn = (25, 25, 1220, 502);
    NodeSet Node {BuiltIn = 1; Color = 0x00E1E1E1;}; };
node smoke {
    kind = NATURE;
    discrete = TRUE;
    chance = CHANCE;
    states = (yes, no);
    parents = ();
    probs =
        // yes    no
          (0.5,   0.5);
    title = "Smokes?";
    comment = "he said \"never\", \
        and\tcoughed;";
    visual V1 { center = (25, 275); link 1 { path = ((1, 2), (3, 4)); }; };
    };
node lung {
    states = (a, b, c); parents = (smoke); title = "lung";
    probs =
        // a     b     c       // smoke
        ((0.1,   0.2,  0.7),   // yes ;
         (0.01,  0.09, 0.9));  // no  ;
    };
node xray {
    discrete = TRUE; states = (bad, good); parents = (smoke, lung);
    probs = (0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6, 0.5, 0.5, 1, 0); /* flat */
    };
node Note { kind = CONSTANT; discrete = FALSE; levels = (0, 1, 2); parents = (); value = 1; };
ElimOrder = (xray, lung, smoke);
};
"""

TEXTS = {"dsc": DSC, "dne": DNE}
"""The same network in formats that are read and not written."""
