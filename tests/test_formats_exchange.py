"""The formats against each other, and against pyAgrum."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import PLAIN, documents, example
from hypothesis import given
from hypothesis import strategies as st

from fgrn.bayes.document import Document, WrittenTable
from fgrn.core.exceptions import NetworkFileError
from fgrn.files.formats import FORMATS, read_document, write_document
from fgrn.files.formats.names import is_plain

pytestmark = pytest.mark.slow

NAMED = [name for name in FORMATS if name != "uai"]
MODULES: dict[str, Any] = {name: import_module(f"fgrn.files.formats.{name}") for name in FORMATS}


def is_part_of(some: Document, whole: Document) -> bool:
    """Whether all properties of a document are those of another."""
    return all(
        whole.properties.get(name, {}).get(key) == value
        for name, known in some.properties.items()
        for key, value in known.items()
    )


def without_properties(document: Document) -> Document:
    return Document(document.states, document.factors, document.directed, document.name)


@pytest.mark.parametrize("format", NAMED)
@given(document=documents())
def test_hostile_names_come_back_or_are_refused(format: str, document: Document) -> None:
    module = MODULES[format]
    try:
        text = module.serialise(document)
    except NetworkFileError as error:
        assert "cannot carry" in str(error)
        return
    again = module.parse(text, "file")
    assert without_properties(again) == without_properties(document)
    assert is_part_of(again, document)
    assert module.serialise(again) == text or again.properties != document.properties


@pytest.mark.parametrize("format", ["bif", "xmlbif", "net"])
@given(document=documents(PLAIN))
def test_labels_may_be_nearly_anything(format: str, document: Document) -> None:
    labels = [label for labels in document.states.values() for label in labels]
    module = MODULES[format]
    if format == "bif" and any('"' in label for label in labels):
        return
    if format == "xmlbif" and any(label != label.strip() for label in labels):
        return
    assert without_properties(module.parse(module.serialise(document), "file")) == without_properties(document)


ALIKE = [
    "a b",
    "a_b",
    "a-b",
    "a_b_2",
    "A b",
    "\u00e4 b",
    "0-4",
    "x0_4",
    "_",
    "",
    " ",
    "x",
    "\x00",
    "\x1f",
    "\n",
    "\ud800",
    "\ufffe",
    "\x85",
]
ANYTHING = st.sampled_from([*ALIKE, "y" * 200, "é" * 200]) | st.text(st.characters(exclude_categories=()), max_size=8)


@given(document=documents(ANYTHING, ANYTHING))
def test_xdsl_carries_any_name_and_any_label(document: Document) -> None:
    """Names that are not identifiers are written as identifiers, with a note of the originals."""
    if not is_plain(document.name):
        document = Document(document.states, document.factors, True, "", document.properties)
    text = MODULES["xdsl"].serialise(document)
    again = MODULES["xdsl"].parse(text, "file")
    assert without_properties(again) == without_properties(document)
    assert is_part_of(again, document)
    text.encode("utf-8")
    for found in re.findall(r'id="([^"]*)"', text):
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", found)


def test_a_state_that_was_renamed_elsewhere_keeps_its_new_name() -> None:
    values = np.array([0.25, 0.25, 0.5])
    document = Document({"my name": ("0-4", "5 +", "c")}, (WrittenTable(("my name",), values),), True)
    text = MODULES["xdsl"].serialise(document)
    assert MODULES["xdsl"].parse(text, "file") == document
    assert '<state id="x0_4" />' in text
    state = text.replace('<state id="x0_4" />', '<state id="few" />')
    assert MODULES["xdsl"].parse(state, "file").states == {"my name": ("few", "5 +", "c")}
    node = text.replace('id="my_name"', 'id="Mine"')
    assert MODULES["xdsl"].parse(node, "file").states == {"Mine": ("0-4", "5 +", "c")}
    twice = text.replace('"0-4"', '"5 +"')
    with pytest.raises(NetworkFileError, match=r"has the state '5 \+' twice"):
        MODULES["xdsl"].parse(twice, "file")


@pytest.mark.parametrize("note", ["", "low", "[1]", '{"x": 1}', "{", "[" * 5000, "9" * 5000, '{"a": ""}'])
def test_a_property_that_is_no_note_is_a_property(note: str) -> None:
    document = Document({"a": ("x", "y")}, (WrittenTable(("a",), np.array([0.5, 0.5])),), True)
    text = MODULES["xdsl"].serialise(document)
    for key in ("fgrn_name", "fgrn_states"):
        written = text.replace(
            "      <probabilities>", f'      <property id="{key}">{note}</property>\n      <probabilities>'
        )
        again = MODULES["xdsl"].parse(written, "file")
        assert without_properties(again) == without_properties(document)
        assert again.properties == ({} if note == '{"a": ""}' else {"a": {key: note}})


def test_labels_of_genie_stay_apart_from_names() -> None:
    """A label that is like the name, or like its identifier, is still a label."""
    values = np.array([1.0])
    for label in ("a b", "a_b", "A label", ""):
        document = Document({"a b": ("x",)}, (WrittenTable(("a b",), values),), True, "", {"a b": {"label": label}})
        assert MODULES["xdsl"].parse(MODULES["xdsl"].serialise(document), "file") == document


def test_the_networks_of_the_repository_come_back_from_xdsl(shared_data: Path, tmp_path: Path) -> None:
    for path in sorted((shared_data / "bif").glob("*.bif")):
        document = read_document(path)
        target = tmp_path / f"{path.stem}.xdsl"
        write_document(document, target)
        assert read_document(target) == document


@given(document=documents(PLAIN, PLAIN), path=st.lists(st.sampled_from(NAMED), min_size=1, max_size=4))
def test_any_way_through_the_formats_leads_back(document: Document, path: list[str]) -> None:
    again = document
    for format in path:
        again = MODULES[format].parse(MODULES[format].serialise(again), "file")
    assert again == document


@pytest.mark.parametrize("directed", [True, False])
@given(data=st.data())
def test_uai_keeps_numbers_and_positions(directed: bool, data: st.DataObject) -> None:
    document = data.draw(documents(directed=directed))
    again = MODULES["uai"].parse(MODULES["uai"].serialise(document), "file")
    places = {name: f"x{place}" for place, name in enumerate(document.states)}
    assert again.directed == directed
    assert list(again.states) == list(places.values())
    assert [len(labels) for labels in again.states.values()] == [len(labels) for labels in document.states.values()]
    expected = [WrittenTable(tuple(places[name] for name in one.scope), one.values) for one in document.factors]
    assert list(again.factors) == expected
    assert MODULES["uai"].parse(MODULES["uai"].serialise(again), "file") == again


@pytest.mark.parametrize("format", NAMED)
@given(document=documents(directed=False))
def test_factors_without_direction_go_into_uai_only(format: str, document: Document) -> None:
    with pytest.raises(NetworkFileError, match=r"UAI \(.uai\)"):
        MODULES[format].serialise(document)


@pytest.mark.parametrize("format", FORMATS)
def test_every_number_comes_back_bit_for_bit(format: str) -> None:
    rng = np.random.default_rng(0)
    values = np.array([1.0, 5e-324, 1e-17, 0.1 + 0.2, 1 / 3, np.nextafter(1, 0), 1e300, *rng.random(200)])
    values.setflags(write=False)
    if format != "uai":
        values = np.concatenate([values[1:6] / 8, values[7:] / 300])
        values = np.append(values, 1 - values.sum())
        values.setflags(write=False)
    states = {"x0": tuple(f"s{n}" for n in range(len(values)))}
    if format == "uai":
        states = {"x0": tuple(str(n) for n in range(len(values)))}
    document = Document(states, (WrittenTable(("x0",), values),), format != "uai")
    again = MODULES[format].parse(MODULES[format].serialise(document), "file")
    assert again.factors[0].values.tobytes() == values.tobytes()


def test_rows_that_were_rounded_stay_as_they_are() -> None:
    """Rows divided by their sums would not be written back equal."""
    values = np.array([0.333333, 0.333333, 0.333333])
    document = Document({"a": ("x", "y", "z")}, (WrittenTable(("a",), values),), True)
    for format in NAMED:
        again = MODULES[format].parse(MODULES[format].serialise(document), "file")
        assert again.factors[0].values.tolist() == values.tolist()


# pyAgrum

PYAGRUM = {"bif": "bif", "net": "net", "xmlbif": "bifxml", "xdsl": "xdsl", "uai": "uai"}
FIRST_PARENT_FASTEST = ("uai", "xdsl")
"""In these two pyAgrum takes the first parent as the fastest one; the formats say that it is the slowest."""


def assert_same_tables(document: Document, network: Any, format: str, tolerance: float) -> None:
    names = {name: str(place) if format == "uai" else name for place, name in enumerate(document.states)}
    assert sorted(map(str, network.names())) == sorted(names.values())
    for factor in document.factors:
        child = factor.scope[-1]
        cpt = network.cpt(names[child])
        sizes = factor.values.shape
        values = factor.values
        if format in FIRST_PARENT_FASTEST:
            values = values.reshape(*sizes[-2::-1], sizes[-1]).transpose(*range(len(sizes) - 2, -1, -1), len(sizes) - 1)
        assert {str(name) for name in cpt.names} == {names[name] for name in factor.scope}
        for place in product(*map(range, sizes)):
            at = {names[name]: code for name, code in zip(factor.scope, place, strict=True)}
            assert cpt[at] == pytest.approx(values[place], abs=tolerance)
        if format != "uai":
            assert tuple(network.variable(child).labels()) == document.states[child]


@pytest.mark.parametrize("format", PYAGRUM)
def test_pyagrum_reads_what_is_written(format: str, tmp_path: Path) -> None:
    pyagrum = pytest.importorskip("pyagrum")
    path = tmp_path / f"written.{PYAGRUM[format]}"
    document = example() if format != "xdsl" else without_properties(example())  # it takes a label for the name
    write_document(document, path)
    network = pyagrum.loadBN(str(path))
    assert_same_tables(example(), network, format, 1e-7)  # some of its readers take single precision


def test_pyagrum_reads_xdsl_with_names_that_are_no_identifiers(tmp_path: Path) -> None:
    pyagrum = pytest.importorskip("pyagrum")
    values = np.array([[0.25, 0.75], [0.5, 0.5]])
    states = {"my name": ("0-4", "x0_4"), "b": ("<1", "y")}
    document = Document(states, (WrittenTable(("my name",), values[1]), WrittenTable(("my name", "b"), values)), True)
    write_document(document, tmp_path / "file.xdsl")
    network = pyagrum.loadBN(str(tmp_path / "file.xdsl"))
    assert len(network.names()) == 2
    assert tuple(network.variable("b").labels()) == ("x1", "y")
    assert sorted(value for row in network.cpt("b").tolist() for value in row) == sorted(values.ravel())


@pytest.mark.parametrize("format", PYAGRUM)
@pytest.mark.parametrize("seed", range(3))
def test_what_pyagrum_writes_is_read(format: str, seed: int, tmp_path: Path) -> None:
    pyagrum = pytest.importorskip("pyagrum")
    pyagrum.initRandom(seed + 1)
    path = tmp_path / f"pyagrum.{PYAGRUM[format]}"
    network = pyagrum.fastBN("A{a|b|c}->B{x|y}<-C{r|s};C->D{p|q|t|u}<-A;D->E{yes|no}<-B<-F{k|l}->E")
    pyagrum.saveBN(network, str(path))
    document = read_document(path)
    if format == "uai":  # names are positions, which are those of its nodes
        names = [str(network.variable(node).name()) for node in sorted(network.nodes())]
        renamed = dict(zip(document.states, names, strict=True))
        factors = tuple(
            WrittenTable(tuple(renamed[one] for one in factor.scope), factor.values) for factor in document.factors
        )
        document = Document({renamed[name]: labels for name, labels in document.states.items()}, factors, True)
    for factor in document.factors:  # written to six digits in some formats
        cpt = network.cpt(factor.scope[-1])
        sizes, values = factor.values.shape, factor.values
        if format in FIRST_PARENT_FASTEST:
            values = values.reshape(*sizes[-2::-1], sizes[-1]).transpose(*range(len(sizes) - 2, -1, -1), len(sizes) - 1)
        for place in product(*map(range, sizes)):
            at = dict(zip(factor.scope, place, strict=True))
            assert cpt[at] == pytest.approx(values[place], abs=1e-6)


@pytest.mark.parametrize("name", ["alarm", "asia", "cancer", "hepar2", "insurance", "sachs", "survey", "win95pts"])
def test_repository_networks_are_read_as_pyagrum_reads_them(name: str, shared_data: Path) -> None:
    pyagrum = pytest.importorskip("pyagrum")
    path = shared_data / "bif" / f"{name}.bif"
    assert_same_tables(read_document(path), pyagrum.loadBN(str(path)), "bif", 1e-7)
