"""Network files of other programs: their meaning, and errors with line numbers."""

from __future__ import annotations

import gzip
import pickle
import re
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import example

from fgrn import SISO, Network, Source, Variable
from fgrn.bayes.document import Document, WrittenTable
from fgrn.core.exceptions import FgrnError, NetworkFileError
from fgrn.files.formats import FORMATS, bif, net, read_document, read_evidence, uai, write_document, xdsl, xmlbif

MODULES: dict[str, Any] = {name: import_module(f"fgrn.files.formats.{name}") for name in FORMATS}

DOG = """
// the JavaBayes style: quoted names, no commas, no bar
network "Dog-Problem" { //5 variables and 5 probability distributions
    property "credal-set constant-density-bounded 1.1" ;
}
variable  "light-on" { //2 values
    type discrete[2] {  "true"  "false" };
    property "position = (218, 195)" ;
}
variable "family-out" { type discrete[2] { "true" "false" }; }
/* a longer
   comment */
probability (  "light-on"  "family-out" ) { //2 variable(s) and 4 values
    table 0.6 0.05 0.4 0.95 ;
}
probability (  "family-out" ) { table 1.5e-1 .85 ; }
"""

ASIA = """network unknown {
}
variable a {
  type discrete [ 2 ] { yes, no };
}
variable b {
  type discrete [ 3 ] { 0-4, x<1, 3-6_pct };
}
variable c {
  type discrete [ 2 ] { very low, P(x) };
}
probability ( a ) {
  table 0.01, 0.99;
}
probability ( c | a, b ) {
  default 0.5, 0.5;
  (yes, x<1) 0.1, 0.9;
  ( no, 3-6_pct ) 0.2, 0.8;
}
probability ( b | c ) {
  (very low) 0.1, 0.2, 0.7;
  (P(x)) 0.3, 0.3, 0.4;
}
"""


def table_of(document: Document, child: str) -> WrittenTable:
    return next(factor for factor in document.factors if factor.scope[-1] == child)


# BIF


def test_bif_of_the_first_style() -> None:
    document = bif.parse(DOG, "dog.bif")
    assert document.name == "Dog-Problem"
    assert document.states == {"light-on": ("true", "false"), "family-out": ("true", "false")}
    light = table_of(document, "light-on")
    assert light.scope == ("family-out", "light-on")
    assert light.values.tolist() == [[0.6, 0.4], [0.05, 0.95]]  # written with the child slowest
    assert table_of(document, "family-out").values.tolist() == [0.15, 0.85]
    assert document.properties["light-on"] == {"position": "(218, 195)"}
    assert document.properties[""] == {"credal-set": "constant-density-bounded 1.1"}


def test_bif_with_rows_and_a_default() -> None:
    acyclic = ASIA.replace("( b | c )", "( b )").replace("(very low) 0.1, 0.2, 0.7;", "table 0.1, 0.2, 0.7;")
    document = bif.parse(acyclic.replace("  (P(x)) 0.3, 0.3, 0.4;\n", ""), "asia.bif")
    assert document.name == ""
    assert document.states["b"] == ("0-4", "x<1", "3-6_pct")
    assert document.states["c"] == ("very low", "P(x)")
    c = table_of(document, "c")
    assert c.scope == ("a", "b", "c")
    assert c.values[0, 1].tolist() == [0.1, 0.9]
    assert c.values[1, 2].tolist() == [0.2, 0.8]
    assert c.values[0, 0].tolist() == c.values[1, 1].tolist() == [0.5, 0.5]


def test_rows_of_labels_with_parentheses_and_quotes() -> None:
    text = """variable a { type discrete [ 3 ] { P(x), "a, b", "" }; }
    variable "b c" { type discrete [ 2 ] { "}", ";" }; }
    probability ( a ) { table 0.25 0.25 0.5; }
    probability ( "b c" | a ) { ("") 1, 0; (P(x)) 0, 1; ( "a, b" ) 0.5, 0.5; }"""
    document = bif.parse(text, "file")
    assert table_of(document, "b c").values.tolist() == [[0, 1], [0.5, 0.5], [1, 0]]


def test_a_slash_in_a_name_or_an_address_begins_no_comment() -> None:
    text = """network n { property url = http://a.b/c; }
    variable a/b { type discrete [ 2 ] { x//y, z }; } // a comment
    probability ( a/b ) { table 0.5,/* two */0.5;// three
    }"""
    document = bif.parse(text, "file")
    assert document.states == {"a/b": ("x//y", "z")}
    assert document.properties == {"": {"url": "http://a.b/c"}}


@pytest.mark.parametrize(
    "comment", ["/* c */", "/**/", "/* a\n b */", "// c\n", "//c\n", '// "c"\n', "// {;\n", "//\n"]
)
def test_a_comment_may_be_glued_to_any_word(comment: str) -> None:
    text = """network s {}
    variable a { type discrete [ 2 ] { yes, no}; property url = http://x.y/z; }
    variable b { type discrete [ 3 ] { x , y, z }; property p = "//"; }
    probability ( a ) { table 0.5, 0.5; }
    probability ( b | a ) { ( yes) 0.5, 0.25, 0.25; ( no ) 0.25, 0.5, 0.25; }"""
    document = bif.parse(text, "plain")
    assert document.properties == {"a": {"url": "http://x.y/z"}, "b": {"p": '"//"'}}
    ends = [match.end() for match in re.finditer(r"property[^;]*;|[a-z0-9.]+|[^\sa-z0-9.]", text)]
    for end in ends:
        assert bif.parse(text[:end] + comment + text[end:], "commented") == document, text[:end]


def test_two_slashes_in_a_label_at_the_end_of_a_line_begin_no_comment() -> None:
    """Read as a comment they would remove the comma, and the rest would be valid."""
    end = "}; }\nprobability ( a ) { table 0.5, 0.5; }"
    for states, labels in (
        ("p//q,\n r", ("p//q", "r")),
        ("p//q ,\r\n r", ("p//q", "r")),
        ("p// q,\n r", ("p", "r")),
        ("p, //q,\n r", ("p", "r")),
        ("p//q\n r", ("p", "r")),
        ("p//q, r,\n s", ("p", "s")),
    ):
        found = bif.parse(f"variable a {{ type discrete [ 2 ] {{ {states} {end}", "file")
        assert found.states == {"a": labels}, states
    text = f"variable a {{ type discrete [ 2 ] {{ p, r {end}".replace("0.5, ", "0.5//half,\n")
    assert bif.parse(text, "file").states == {"a": ("p", "r")}


def test_the_error_of_a_file_with_comments_is_that_of_the_reading_that_came_further() -> None:
    text = "variable a { type discrete [ 2 ] { x//y, z }; }\nprobability ( a ) { table 0.5, 0.4; }"
    with pytest.raises(NetworkFileError, match=r"line 2: the table of 'a' sums to 0\.9"):
        bif.parse(text, "file")
    text = "variable a { type discrete [ 2 ] { x//y\n, z }; }\nprobability ( a ) { table 0.5, 0.4; }"
    with pytest.raises(NetworkFileError, match=r"line 3: the table of 'a' sums to 0\.9"):
        bif.parse(text, "file")


def test_labels_and_names_may_have_blanks_without_quotation_marks() -> None:
    text = """variable has PMF { type discrete [ 2 ] { No PMF, PMF }; }
    variable "x" { type discrete [ 3 ] { "a b", c d, e }; }
    variable one { type discrete [ 1 ] { the only one }; }
    probability ( has PMF ) { table 0.5, 0.5; }
    probability ( one | has PMF ) { (No PMF) 1; ( PMF ) 1; }
    probability ( x | has PMF, one ) { (No PMF, the only one) 0.41, 0.09, 0.5; (PMF, the only one) 0.5 0.25 0.25; }"""
    document = bif.parse(text, "file")
    assert document.states == {"has PMF": ("No PMF", "PMF"), "x": ("a b", "c d", "e"), "one": ("the only one",)}
    assert table_of(document, "x").scope == ("has PMF", "one", "x")
    assert table_of(document, "x").values.tolist() == [[[0.41, 0.09, 0.5]], [[0.5, 0.25, 0.25]]]
    assert bif.parse(bif.serialise(document), "again") == document
    with pytest.raises(NetworkFileError, match="'No PMFs' is not a state of 'has PMF'"):
        bif.parse(text.replace("(No PMF) 1", "(No PMFs) 1"), "file")


def test_names_are_quoted_only_where_they_must_be() -> None:
    text = bif.serialise(example())
    assert '"' not in text
    assert "( yes, c ) 0.3, 0.7;" in text
    states = {"a b": ("x,y", "z"), "unknown": ("0-4",)}
    factors = (WrittenTable(("a b",), np.array([0.5, 0.5])), WrittenTable(("a b", "unknown"), np.ones((2, 1))))
    text = bif.serialise(Document(states, factors, True, "unknown"))
    assert 'network "unknown"' in text
    assert 'variable "a b"' in text
    assert "variable unknown" in text
    assert '"x,y", z' in text


# XMLBIF, NET, XDSL


def test_xmlbif() -> None:
    text = """<?xml version="1.0"?>
    <!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> <!ATTLIST BIF VERSION CDATA #REQUIRED> ]>
    <BIF VERSION="0.3"><NETWORK><NAME>Dog &amp; Co</NAME>
    <VARIABLE TYPE="nature"><NAME> a </NAME><OUTCOME>x</OUTCOME><OUTCOME>&lt;1</OUTCOME>
      <PROPERTY>position = (1,2)</PROPERTY></VARIABLE>
    <VARIABLE TYPE="nature"><NAME>b</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME><OUTCOME>w</OUTCOME></VARIABLE>
    <DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN>
      <TABLE>0.1<!-- a=x -->0.2 0.7 <!-- 0.4 --> 0.3 0.3 4e-1</TABLE></DEFINITION>
    <DEFINITION><FOR>a</FOR><TABLE>1 0</TABLE></DEFINITION>
    </NETWORK></BIF>"""
    document = xmlbif.parse(text, "dog.xml")
    assert document.name == "Dog & Co"
    assert document.states == {"a": ("x", "<1"), "b": ("u", "v", "w")}
    assert table_of(document, "b").values.tolist() == [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    assert document.properties == {"a": {"position": "(1,2)"}}


def test_net() -> None:
    text = r"""% a comment; with } signs
    net { name = "N \"1\""; node_size = (80 40); }
    node A { label = "100 % sure; really"; position = (25 275); states = ("a" "b"); HR_Notes = ("x" "y"); }
    discrete node B { states = (u v w); }
    node C { states = ("p" "q"); }
    potential (A) { }
    potential ( B | A ) { data = (( .1 .2 .7 )  % A=a; this one
                                  ( 0.3 0.3 4e-1)); experience = (1 2); }
    potential ( C | A B ) { model_nodes = (); data = (((1 0)(0.5 0.5)(0 1))((0.1 0.9)(0.2 0.8)(0.3 0.7))); }
    """
    document = net.parse(text, "n.net")
    assert document.name == 'N "1"'
    assert document.states == {"A": ("a", "b"), "B": ("u", "v", "w"), "C": ("p", "q")}
    assert table_of(document, "A").values.tolist() == [0.5, 0.5]
    assert table_of(document, "B").values.tolist() == [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    assert table_of(document, "C").values[1, 2].tolist() == [0.3, 0.7]
    assert document.properties[""] == {"node_size": "(80 40)"}
    assert document.properties["A"] == {
        "label": "100 % sure; really",
        "position": "(25 275)",
        "HR_Notes": '("x" "y")',
    }
    assert net.parse(net.serialise(document), "again") == document


def test_slashes_begin_a_comment_in_net() -> None:
    text = """/// written by hand
    // twice
    net { } // here
    node A { states = ("a//b" "c"); // and here
      label = "x // y"; url = http://x.y; }
    potential (A) { data = // there
      ( 0.25// first
        0.75 ); }//"""
    document = net.parse(text, "n.net")
    assert document.states == {"A": ("a//b", "c")}
    assert document.properties == {"A": {"label": "x // y", "url": "http://x.y"}}
    assert table_of(document, "A").values.tolist() == [0.25, 0.75]


OOBN = """class Flat
{
    inputs = ();
    outputs = (B);
    node_size = (80 40);
    node A { states = ("a" "b"); }
    node B { states = ("u" "v" "w"); }
    potential (A) { data = (0.25 0.75); }
    potential (B | A) { data = ((0.1 0.2 0.7)(0.3 0.3 0.4)); }
}
"""


def test_a_class_without_instances_is_read_as_a_network(tmp_path: Path) -> None:
    path = tmp_path / "flat.oobn"
    path.write_text(OOBN)
    document = read_document(path)
    assert document.name == "Flat"
    assert document.states == {"A": ("a", "b"), "B": ("u", "v", "w")}
    assert table_of(document, "B").values.tolist() == [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    assert document.properties[""] == {"inputs": "()", "outputs": "(B)", "node_size": "(80 40)"}
    path.rename(tmp_path / "file")
    assert read_document(tmp_path / "file") == document
    with pytest.raises(NetworkFileError, match=r"\.oobn can be read but not written"):
        write_document(document, tmp_path / "new.oobn")


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("}\n", 11, "more follows the class"),
        ("class Other { }\n", 11, "more follows the class"),
        ("}", None, "more follows the class"),
    ],
)
def test_more_than_one_class_is_refused(more: str, line: int | None, said: str) -> None:
    with pytest.raises(NetworkFileError, match=said):
        net.parse(OOBN + more, "n.oobn")
    for block, what in (("instance I : Other (A) { }", "an instance"), ("temporal T : A { }", "a temporal clone")):
        with pytest.raises(NetworkFileError, match=f"line 6: here is {what}"):
            net.parse(OOBN.replace("    node A", f"    {block}\n    node A"), "n.oobn")
    with pytest.raises(NetworkFileError, match="the file ends"):
        net.parse(OOBN.rstrip()[:-1], "n.oobn")


XDSL = """<?xml version="1.0" encoding="ISO-8859-1"?>
<smile version="1.0" id="Net1"><nodes>
<cpt id="A"><state id="a"/><state id="b"/><probabilities>0.3 0.7</probabilities></cpt>
<cpt id="B"><state id="u"/><state id="v"/><state id="w"/><parents>A</parents><property id="unit">mg</property>
 <probabilities>0.1 0.2 0.7 0.3 0.3 0.4</probabilities></cpt>
{more}
</nodes><extensions><genie version="1.0" name="My net"><submodel id="S"><node id="B"><name>The B</name>
<position>1 2
 3 4</position></node></submodel><node id="A"><name>A</name></node></genie></extensions></smile>"""


def test_xdsl() -> None:
    more = """<deterministic id="D"><state id="no"/><state id="yes"/><parents>B A</parents>
    <resultingstates>no yes yes yes no no</resultingstates></deterministic>"""
    document = xdsl.parse(XDSL.replace("{more}", more), "n.xdsl")
    assert document.name == "My net"
    assert document.states == {"A": ("a", "b"), "B": ("u", "v", "w"), "D": ("no", "yes")}
    assert table_of(document, "B").values.tolist() == [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    d = table_of(document, "D")
    assert d.scope == ("B", "A", "D")
    assert d.values[..., 1].tolist() == [[0, 1], [1, 1], [0, 0]]
    assert document.properties == {"B": {"unit": "mg", "label": "The B", "position": "1 2 3 4"}}
    assert xdsl.parse(xdsl.serialise(document), "again") == document


@pytest.mark.parametrize("orders", ["0 1 0 1 2", "1 0 2 1 0", "1 0 1 0 2"])
def test_noisy_max_is_the_largest_of_independent_effects(orders: str) -> None:
    rng = np.random.default_rng(0)
    columns = rng.dirichlet(np.ones(3), size=6)
    columns[1] = columns[4] = [0, 0, 1]  # no effect
    words = " ".join(map(repr, columns.ravel().tolist()))
    more = f"""<noisymax id="Y"><state id="high"/><state id="low"/><state id="none"/><parents>A B</parents>
    <strengths>{orders}</strengths><parameters>{words}</parameters></noisymax>"""
    table = table_of(xdsl.parse(XDSL.replace("{more}", more), "n.xdsl"), "Y").values
    order = [int(word) for word in orders.split()]
    for a, b in product(range(2), range(3)):
        expected = np.zeros(3)
        effects = (columns[order[a]], columns[2 + order[2 + b]], columns[5])
        for states in product(range(3), repeat=3):  # the first state is the largest
            expected[min(states)] += np.prod([effect[state] for effect, state in zip(effects, states, strict=True)])
        assert table[a, b] == pytest.approx(expected, abs=1e-12)


def test_a_noisy_max_in_an_order_that_can_be_read_two_ways_is_refused() -> None:
    more = """<noisymax id="Y"><state id="a"/><state id="b"/><parents>B</parents>
    <strengths>1 2 0</strengths><parameters>1 0 1 0 0 1 0 1</parameters></noisymax>"""
    with pytest.raises(NetworkFileError, match=r"line 6: node 'Y' is a noisy-MAX.*General") as caught:
        xdsl.parse(XDSL.replace("{more}", more), "n.xdsl")
    assert caught.value.line == 6


@pytest.mark.parametrize("kind", ["equation", "demorgan"])
def test_nodes_that_are_no_chance_nodes_are_refused_by_name(kind: str) -> None:
    with pytest.raises(NetworkFileError, match=f"line 6: node 'U' is a <{kind}>; only cpt"):
        xdsl.parse(XDSL.replace("{more}", f'<{kind} id="U"/>'), "n.xdsl")
    if kind in ("utility", "decision"):
        with pytest.raises(NetworkFileError, match=f"line 2: here is a {kind}"):
            net.parse(f"net {{ }}\n{kind} U {{ }}", "n.net")
        text = f"<BIF><NETWORK>\n<VARIABLE TYPE='{kind}'><NAME>U</NAME></VARIABLE></NETWORK></BIF>"
        with pytest.raises(NetworkFileError, match=f"line 2: variable 'U' is of the type '{kind}'"):
            xmlbif.parse(text, "n.xml")


# UAI


def test_uai_factors_have_their_first_variable_slowest() -> None:
    text = "MARKOV\n3\n2 2 3\n3\n2 0 1\n2 1 2\n0\n\n4\n 1 2\n 3 4\n6 .1 .2 .3 .4 .5 .6\n1 7.5\n"
    document = uai.parse(text, "p.uai")
    assert not document.directed
    assert document.states == {"x0": ("0", "1"), "x1": ("0", "1"), "x2": ("0", "1", "2")}
    assert [factor.scope for factor in document.factors] == [("x0", "x1"), ("x1", "x2"), ()]
    assert document.factors[0].values.tolist() == [[1, 2], [3, 4]]
    assert document.factors[1].values[1].tolist() == [0.4, 0.5, 0.6]
    assert document.factors[2].values.shape == ()
    assert uai.parse(uai.serialise(document), "again") == document


def test_uai_tables_have_their_child_last() -> None:
    text = "BAYES 2 2 3 2 # a comment\n2 1 0\n1 1 # another\n 6 .1 .9 .2 .8 .3 .7\n 3 .2 .3 .5"
    document = uai.parse(text, "p.uai")
    assert document.directed
    assert [factor.scope for factor in document.factors] == [("x1", "x0"), ("x1",)]
    assert document.factors[0].values.tolist() == [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]


@pytest.mark.parametrize("word", [".5,", "1,0", "0_5", "half"])
def test_uai_numbers_are_separated_by_blanks(word: str) -> None:
    with pytest.raises(NetworkFileError, match=f"line 3: '{word}' is not a number"):
        uai.parse(f"BAYES 1 2 1\n1 0\n2 {word} .5", "p.uai")


def test_a_bayes_file_with_evidence_in_its_tables_is_a_product_of_factors() -> None:
    text = "BAYES 2 {} 2 2\n1 0\n2 0 1\n{}\n"
    assert not uai.parse(text.format(2, "2 .5 .5 4 0 0 .2 .8"), "pedigree.uai").directed
    assert not uai.parse(text.format(1, "1 .3 2 .2 .8"), "pedigree.uai").directed
    assert uai.parse(text.format(1, "1 1 2 .2 .8"), "pedigree.uai").directed
    for wrong in ((2, "2 .5 .4 4 .1 .9 .2 .8"), (2, "2 .5 .5 4 0 0 .3 .8"), (1, "1 1 2 .3 .8")):
        with pytest.raises(NetworkFileError, match="sums to"):
            uai.parse(text.format(*wrong), "pedigree.uai")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("0", {}),
        ("0\n2 0\n", {}),  # switched off, as programs of the field read it
        ("1 6 0\n", {"x6": 0}),
        ("1\n1 0\n\n", {"x1": 0}),
        ("2 3 1 7 0", {"x3": 1, "x7": 0}),
        ("1\n2 3 1 7 0", {"x3": 1, "x7": 0}),
        ("1\n0\n", {}),
        ("2\n2 3 1 7 0\n1 3 2\n", {"x3": [1, 2], "x7": [0, None]}),
        ("3\n1 10 1\n0\n1 9 1", {"x9": [None, None, 1], "x10": [1, None, None]}),
        ("2\n0 1\n3 1\n", {"x0": 1, "x3": 1}),  # fits both styles; the lines decide
        ("2\n0\n1 3 1\n", {"x3": [None, 1]}),
    ],
)
def test_evidence(text: str, expected: Mapping[str, object], tmp_path: Path) -> None:
    path = tmp_path / "p.uai.evid"
    path.write_text(text)
    assert read_evidence(path) == expected
    packed = tmp_path / "p.uai.evid.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_evidence(packed) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2 3 1", "line 1: 2 variables or samples are promised|line 1: the number of observed variables of sample 1"),
        ("1\n3 -1", "line 2: '-1' is not a whole number"),
        ("1000000000\n", "1,000,000,000 variables or samples are promised, but only 0 numbers follow"),
        ("2 3 1 3 0", "x3 is observed twice, in states 1 and 0"),
        ("1 1 0 5 6 7", "numbers too many"),
        ("yes", "line 1: 'yes' is not a whole number"),
    ],
)
def test_evidence_that_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.uai.evid"
    path.write_text(text)
    with pytest.raises(NetworkFileError, match=said):
        read_evidence(path)


@pytest.mark.parametrize("states", [3, ("0", "1", "2")])
def test_evidence_goes_into_propagate(states: Any, tmp_path: Path) -> None:
    """For models whose states are numbers, and for those whose states are words."""
    path = tmp_path / "p.uai.evid"
    path.write_text("2\n1 1 2\n0\n")
    x0, x1 = Variable("x0", states), Variable("x1", states)
    table = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0]])
    network = Network([Source(x0, [0.2, 0.3, 0.5]), SISO(x0, x1, table)])
    seen = network.propagate(read_evidence(path)).marginal("x0")
    assert seen[0] == pytest.approx(np.array([0.14, 0.12, 0]) / 0.26)
    assert seen[1] == pytest.approx([0.2, 0.3, 0.5])
    path.write_text("1 1 2")
    assert network.propagate(read_evidence(path)).marginal("x0")[0] == pytest.approx(seen[0])
    path.write_text("0")
    assert network.propagate(read_evidence(path)).marginal("x0")[0] == pytest.approx(seen[1])


# Mistakes

VARIABLES = "variable a { type discrete [ 2 ] { x, y }; }\nvariable b { type discrete [ 2 ] { x, y }; }\n"
TABLES = "probability ( a ) { table 0.5, 0.5; }\nprobability ( b | a ) { (x) 0.1, 0.9; (y) 0.2, 0.8; }\n"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("variable b", "variable a", 2, "variable 'a' is there twice, first in line 1"),
        ("{ x, y }; }\nvariable b", "{ x, x }; }\nvariable b", 1, "variable 'a' has the state 'x' twice"),
        ("[ 2 ] { x, y }; }\nvariable b", "[ 3 ] { x, y }; }\nvariable b", 1, "should have 3 states, but 2 are named"),
        ("discrete [ 2 ] { x, y }; }\nvariable b", "real [ 2 ] { x, y }; }\nvariable b", 1, "is 'real'; only discrete"),
        ("probability ( a ) { table 0.5, 0.5; }\n", "", 1, "variable 'a' has no table"),
        ("( b | a )", "( bb | a )", 4, "names 'bb', which is not declared.*Did you mean 'b'"),
        ("( b | a )", "( b | A )", 4, "names 'A', which is not declared.*Did you mean 'a'"),
        ("( b | a )", "( b | b )", 4, "names 'b' twice"),
        ("( b | a )", "( b | a | a )", 4, "there is one bar"),
        ("( a )", "( )", 3, "must say whose it is"),
        ("table 0.5, 0.5", "table 0.5, 0.25, 0.25", 3, "3 values instead of 2.*2 of 'a'"),
        ("(x) 0.1, 0.9", "(x) 0.1, 0.8", 4, "'b' for a=x sums to 0.9, not to 1"),
        ("(x) 0.1, 0.9", "(x) 0.1, 0.8, 0.1", 4, "a row has 3 numbers, but there are 2 states"),
        ("(x) 0.1, 0.9", "(z) 0.1, 0.9", 4, "'z' is not a state of 'a'.*'x', 'y'"),
        ("(x) 0.1, 0.9", "(y) 0.1, 0.9", 4, r"two rows for \(y\)"),
        ("(x) 0.1, 0.9", "(x, y) 0.1, 0.9", 4, "are 2 states, but there are 1 parents"),
        ("(x) 0.1, 0.9;", "", 4, "1 rows of 2; there is none for a=x"),
        ("(x) 0.1, 0.9;", "(x) 0.1, 0.9; table 1 1 0 0;", 4, "more than one table"),
        ("table 0.5, 0.5;", "", 3, "no numbers"),
        ("0.1, 0.9", "-0.1, 1.1", 4, "value 1 of the table of 'b' is -0.1"),
        ("0.1, 0.9", "nan, 0.9", 4, "value 1 of the table of 'b' is nan"),
        ("0.1, 0.9", "0.1, 1e999", 4, "value 2 of the table of 'b' is inf"),
        ("0.1, 0.9", "0.1, 0_9", 4, "'0_9' is not a number"),
        ("0.1, 0.9", "0.1, nine", 4, "'nine' is not a number"),
        ("( a ) { table 0.5, 0.5; }", "( a | b ) { table 1 1 0 0; }", 4, "cycle: '[ab]' -> '[ab]' -> '[ab]'"),
        (TABLES, TABLES + TABLES, 5, "the table of 'a' is there twice, first in line 3"),
        ("(y) 0.2, 0.8;", "(y) 0.2, 0.8", 4, "found .* where .*'table' or .*A statement ends with ';'"),
        ("variable b {", "variable b", 2, "found 'type.*where '{' was expected"),
        ("probability ( a )", "/* probability ( a )", 3, "a comment begins here and has no end"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int, said: str) -> None:
    text = VARIABLES + TABLES
    assert text.count(old) >= 1
    with pytest.raises(NetworkFileError, match=said) as caught:
        bif.parse(text.replace(old, new, 1), "net.bif")
    assert str(caught.value).startswith(f"net.bif, line {line}: ")
    assert caught.value.line == line
    assert isinstance(caught.value, FgrnError)
    assert isinstance(caught.value, OSError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line) == (str(caught.value), line)


def test_a_long_cycle_is_named_in_the_direction_of_its_arrows() -> None:
    names = "abcde"
    text = "".join(f"variable {name} {{ type discrete [ 1 ] {{ x }}; }}\n" for name in names)
    arrows = {"a": "", "b": "| a, e", "c": "| b", "d": "| c, a", "e": "| d"}
    text += "".join(f"probability ( {name} {above} ) {{ default 1; }}\n" for name, above in arrows.items())
    with pytest.raises(NetworkFileError) as caught:
        bif.parse(text, "cycle.bif")
    cycle = re.findall(r"'(\w)'", str(caught.value))
    assert sorted(cycle[:-1]) == ["b", "c", "d", "e"]
    assert cycle[0] == cycle[-1]
    assert all(parent in arrows[child] for parent, child in pairwise(cycle))


def test_a_chain_of_many_variables_is_no_cycle_and_no_recursion() -> None:
    count = 4_000
    text = f"BAYES {count} {'2 ' * count}\n{count}\n1 0\n"
    text += "\n".join(f"2 {n} {n + 1}" for n in range(count - 1)) + "\n2 .5 .5\n" + "4 .1 .9 .8 .2\n" * (count - 1)
    document = uai.parse(text, "chain.uai")
    assert len(document.factors) == count
    states = {f"v{n}": ("a", "b") for n in reversed(range(count))}
    factors = [
        WrittenTable((*([f"v{n - 1}"] if n else []), f"v{n}"), one.values) for n, one in enumerate(document.factors)
    ]
    chain = Document(states, tuple(reversed(factors)), True)
    assert xdsl.parse(xdsl.serialise(chain), "chain") == chain


@pytest.mark.parametrize(
    ("format", "name", "label", "said"),
    [
        ("bif", 'a"', "x", "BIF cannot carry the name.*XDSL"),
        ("bif", "a", "x\ny", "BIF cannot carry .*, a state of 'a'"),
        ("xmlbif", " a", "x", r"XMLBIF cannot carry the name ' a'.*XDSL"),
        ("xmlbif", "a", "\x00", "XMLBIF cannot carry"),
        ("net", "a b", "x", "Hugin NET cannot carry the name 'a b'.*XDSL"),
        ("net", "node", "x", "Hugin NET cannot carry the name 'node'"),
    ],
)
def test_what_a_format_cannot_carry_is_refused(format: str, name: str, label: str, said: str) -> None:
    document = Document({name: (label, "z")}, (WrittenTable((name,), np.array([0.5, 0.5])),), True)
    with pytest.raises(NetworkFileError, match=said):
        MODULES[format].serialise(document)


# Files


@pytest.mark.parametrize("ending", ["bif", "xml", "xmlbif", "bifxml", "net", "hugin", "xdsl", "BIF"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_written_file_is_read_back_equal(ending: str, packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"file.{ending}{packed}"
    write_document(example(), path)
    assert path.read_bytes().startswith(b"\x1f\x8b") == bool(packed)
    assert read_document(path) == example()
    assert read_document(str(path)) == example()
    first = path.read_bytes()
    write_document(example(), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("format", FORMATS)
def test_the_format_is_seen_in_the_file(format: str, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_document(example(), path, format)
    assert read_document(path) == read_document(path, format)
    other = tmp_path / "other"
    other.write_bytes(gzip.compress(path.read_bytes()))
    assert read_document(other) == read_document(path)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


@pytest.mark.parametrize(
    "text", ["// a\n/* b */\n/**/network n { }", "% a\nnet { }", "\n markov\n1", "<?xml?>\n<smile/>"]
)
def test_comments_may_come_first(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(NetworkFileError, match=r"^file, line"):  # the parser of its format has seen it
        read_document(path)


@pytest.mark.parametrize("format", FORMATS)
def test_marks_and_line_ends_of_other_systems(format: str, tmp_path: Path) -> None:
    text = MODULES[format].serialise(example())
    path = tmp_path / f"file.{format}"
    for ends in ("\r\n", "\r"):
        path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", ends).encode())
        assert read_document(path, format) == MODULES[format].parse(text, "file")
    path.write_bytes(text.replace("UTF-8", "UTF-16").encode("utf-16"))
    assert read_document(path, format) == MODULES[format].parse(text, "file")


def test_other_encodings(tmp_path: Path) -> None:
    document = Document({"a": ("é", "x")}, (WrittenTable(("a",), np.array([0.5, 0.5])),), True)
    path = tmp_path / "file.net"
    path.write_bytes(net.serialise(document).encode("latin-1"))
    assert read_document(path) == document
    path = tmp_path / "file.xml"
    path.write_bytes(xmlbif.serialise(document).replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    assert read_document(path) == document
    for other in ("KLINGON", "punycode", "hex"):
        path.write_bytes(xmlbif.serialise(document).replace("UTF-8", other).encode())
        with pytest.raises(NetworkFileError, match=f"'{other}', which is not known"):
            read_document(path)
    path = tmp_path / "file.bif"
    path.write_bytes(bif.serialise(document).encode("latin-1"))
    with pytest.raises(NetworkFileError, match=r"line 4: the bytes there are not text in UTF-8\. Save") as caught:
        read_document(path)
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("file.bif", b"\x00\x01\x02", "not a text file"),
        ("file.bif", b"", "it is empty"),
        ("file.bif", b" \n", "it is empty"),
        ("file.bif.gz", b"network", "not gzipped"),
        ("file.bif.gz", b"", "it is empty"),
        ("file.bif.gz", b"\x1f\x8b\x08", "cut short"),
        ("file.bif.gz", b"\x1f\x8bxxxxxxxxx", "damaged gzip"),
        ("file.txt", b"hello", r"its format is not known. State it \(bif"),
        ("file.uai", b"GRAPH", "begins with 'GRAPH'; a UAI file begins with BAYES or MARKOV"),
        ("file.xml", b"<smile/>", "begins with <SMILE>, not with <BIF>"),
    ],
)
def test_files_that_are_no_networks(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(NetworkFileError, match=said):
        read_document(tmp_path / name)


def test_places_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(NetworkFileError, match="There is no file"):
        read_document(tmp_path / "nowhere.bif")
    with pytest.raises(NetworkFileError, match="it is a folder"):
        read_document(tmp_path)
    with pytest.raises(NetworkFileError, match="there is no folder"):
        write_document(example(), tmp_path / "nowhere" / "file.bif")
    with pytest.raises(NetworkFileError, match="given by the extension of the name"):
        write_document(example(), tmp_path / "file.doc")
    for call in (lambda: read_document("x", "docx"), lambda: write_document(example(), "x", "docx")):
        with pytest.raises(FgrnError, match="'format' must be one of 'bif'"):
            call()


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ([("a", "b"), [[0.5, 0.5], [1, 0]]], "variable 'a' has no table"),
        ([("a",), [0.5, 0.5], ("b",), [0.5, 0.6]], "'b' sums to 1.1, not to 1"),
        ([("a",), [0.5, 0.5], ("b",), [1.0]], r"has the shape \(1,\) instead of \(2,\)"),
        ([("a",), [0.5, 0.5], ("b", "c"), [1.0]], "names 'c', which is not declared"),
        ([("a",), [0.5, 0.5], ("a",), [0.5, 0.5]], "the table of 'a' is there twice. Remove"),
        ([("b", "a"), [[0.5, 0.5], [1, 0]], ("a", "b"), [[0.5, 0.5], [1, 0]]], "the network has a cycle"),
        ([("a",), [np.nan, 0.5]], "is nan"),
    ],
)
def test_what_is_no_network_is_not_written(factors: list[Any], said: str, tmp_path: Path) -> None:
    tables = tuple(
        WrittenTable(scope, np.array(values)) for scope, values in zip(factors[::2], factors[1::2], strict=True)
    )
    document = Document({"a": ("x", "y"), "b": ("x", "y")}, tables, True)
    for ending in ("bif", "xdsl", "uai"):
        with pytest.raises(NetworkFileError, match=f"this network: .*{said}"):
            write_document(document, tmp_path / f"file.{ending}")
    assert not list(tmp_path.iterdir())


def test_an_older_file_stays_when_writing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.net"
    path.write_text("old")
    with pytest.raises(NetworkFileError):
        write_document(Document({"a b": ("x",)}, (WrittenTable(("a b",), np.ones(1)),), True), path)
    assert path.read_text() == "old"


def test_documents_are_read_only_and_compare_by_value(tmp_path: Path) -> None:
    write_document(example(), tmp_path / "file.bif")
    document = read_document(tmp_path / "file.bif")
    for one in (document, pickle.loads(pickle.dumps(document))):
        with pytest.raises(ValueError, match="read-only"):
            one.factors[0].values[0] = 1
        assert one == example()
    states = dict(reversed(document.states.items()))
    assert Document(states, document.factors, True, document.name, document.properties) != document
    assert document != "a document"
    assert document.factors[0] != document.factors[1]


# The files beside the checkout


def test_the_networks_of_the_repository(shared_data: Path) -> None:
    counts = {"alarm": (37, 46), "andes": (223, 338), "asia": (8, 8), "cancer": (5, 4), "child": (20, 25)}
    counts |= {"hepar2": (70, 123), "insurance": (27, 52), "sachs": (11, 17), "survey": (6, 6), "water": (32, 66)}
    counts |= {"win95pts": (76, 112)}
    for path in sorted((shared_data / "bif").glob("*.bif")):
        document = read_document(path)
        arrows = sum(len(factor.scope) - 1 for factor in document.factors)
        assert counts.get(path.stem, (len(document.states), arrows)) == (len(document.states), arrows)
        for format in ("bif", "xmlbif", "net"):
            assert MODULES[format].parse(MODULES[format].serialise(document), "again") == document
        assert uai.parse(uai.serialise(document), "again").directed


def test_the_problems_of_the_competition(shared_data: Path) -> None:
    paths = sorted((shared_data / "uai").rglob("*.uai"))
    assert paths
    for path in paths:
        document = read_document(path)
        assert uai.parse(uai.serialise(document), "again") == document
        marginals = path.with_name(f"{path.name}.MAR")
        if marginals.is_file():
            sizes = iter(marginals.read_text().split()[1:])
            assert int(next(sizes)) == len(document.states)
            for labels in document.states.values():
                assert int(next(sizes)) == len(labels)
                for _ in labels:
                    next(sizes)


@pytest.mark.parametrize("name", ["Promedus_24", "Promedus_30"])
def test_a_problem_of_the_competition_is_understood(name: str, shared_data: Path) -> None:
    """The published partition function is reproduced, so the axes are in the right order."""
    path = shared_data / "uai" / f"{name}.uai"
    document, evidence = read_document(path), read_evidence(path.with_name(f"{name}.uai.evid"))
    tables = []
    for factor in document.factors:
        at = tuple(evidence.get(one, slice(None)) for one in factor.scope)
        tables.append((tuple(one for one in factor.scope if one not in evidence), factor.values[at]))
    logarithm = eliminated(tables, [one for one in document.states if one not in evidence])
    published = float(path.with_name(f"{name}.uai.PR").read_text().split()[-1])
    assert logarithm / np.log(10) == pytest.approx(published, abs=1e-4)


def eliminated(tables: list[tuple[tuple[str, ...], np.ndarray]], variables: list[str]) -> float:
    """Return the log of the sum of a product of tables, by variable elimination."""
    logarithm = 0.0
    while variables:
        around = {one: {other for scope, _ in tables if one in scope for other in scope} for one in variables}
        variable = min(variables, key=lambda one: len(around[one]))
        variables.remove(variable)
        scope = tuple(sorted(around[variable] - {variable}))
        number = {one: place for place, one in enumerate((*scope, variable))}
        used = [(one, values) for one, values in tables if variable in one]
        operands = [part for one, values in used for part in (values, [number[each] for each in one])]
        result = np.einsum(*operands, list(range(len(scope))))
        scale = result.max()
        logarithm += np.log(scale)
        tables = [table for table in tables if variable not in table[0]] + [(scope, result / scale)]
    return float(logarithm + sum(np.log(values) for _, values in tables))


def test_the_evidence_of_the_competition(shared_data: Path) -> None:
    for path in sorted((shared_data / "uai").rglob("*.evid")):
        found = read_evidence(path)
        states = read_document(path.with_name(path.name.removesuffix(".evid").removesuffix(".uai") + ".uai")).states
        assert all(0 <= value < len(states[name]) for name, value in found.items())
    assert read_evidence(shared_data / "uai" / "Promedus_24.uai.evid") == {"x63": 1, "x25": 1, "x66": 1, "x44": 1}


@pytest.mark.parametrize(
    ("cut", "line", "told"),
    [
        ("discrete [2", 3, r"ends within 'type discrete \[2', which begins in line 3, before the ';'"),
        ("variable b { type", 4, "ends within the word 'type'"),
        ("probability ( b |", 6, "ends within '\\( b |', which begins in line 6, before the '\\)'"),
        ("(x) 0.2,", 7, "ends within '\\(x\\) 0.2,', which begins in line 7, before the ';'"),
        ("proba", 5, "ends within the word 'proba'"),
    ],
)
def test_a_bif_file_that_is_cut_says_where_and_what_is_missing(cut: str, line: int, told: str) -> None:
    text = (
        "network n {}\nvariable a {\n  type discrete [2] { x, y }; }\nvariable b { type discrete [2] { u, v }; }\n"
        "probability ( a ) { table 0.5, 0.5; }\nprobability ( b | a ) {\n  (x) 0.2, 0.8;\n  (y) 0.3, 0.7; }\n"
    )
    with pytest.raises(NetworkFileError, match=told) as caught:
        bif.parse(text[: text.index(cut) + len(cut)], "cut.bif")
    assert caught.value.line == line
