"""Drawings of Bayesian and Markov networks: a card for each variable, an arrow for each arc, bars for beliefs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from documents import documents
from figures import assert_legible, names_of, shares, sides, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from models import chest, circle

import fgrn
from fgrn import BayesianNetwork, FgrnError, plots
from fgrn.plots.arcs import model_layers
from fgrn.plots.placement import place_nodes
from fgrn.plots.style import GREY, INK


def random_network(variables: int, parents: int = 3, states: int = 2, seed: int = 0) -> BayesianNetwork:
    rng = np.random.default_rng(seed)
    names = [f"variable {number}" for number in range(variables)]
    arcs = {
        name: rng.choice(names[max(0, at - 6) : at], rng.integers(0, min(parents, at) + 1), replace=False).tolist()
        for at, name in enumerate(names)
    }
    tables = {
        name: rng.dirichlet(np.ones(states), states ** len(arcs[name])) for name in names
    }  # fmt: skip
    return BayesianNetwork(dict.fromkeys(names, states), arcs, tables)


def arcs_of(figure: Figure) -> Counter[str]:
    return Counter(names_of(figure, "arc"))


def test_every_variable_has_its_beliefs_and_every_arc_an_arrow() -> None:
    model, evidence = chest(), {"xray": "yes", "smoke": [[0.3, 0.7]]}
    for known in (None, evidence):
        figure = plots.graph(model, known)
        seen = model.propagate(known)
        assert sorted(names_of(figure, "belief")) == sorted(model.names)
        for name in model.names:
            lengths = sides(figure, f"belief {name}")[:, 0]
            np.testing.assert_allclose(shares(lengths), seen.marginal(name)[0], atol=1e-9)
        assert arcs_of(figure) == Counter(f"{parent} -> {child}" for parent, child in model.arcs)
        assert_legible(figure)


def test_what_is_known_is_marked_and_its_probability_told() -> None:
    def headings(evidence: Any) -> Counter[str]:
        boxes = plots.graph(chest(), evidence).findobj(FancyBboxPatch)
        return Counter(to_hex(box.get_facecolor()) for box in boxes)

    some = headings({"xray": ["yes"], "smoke": [[0.3, 0.7]], "dysp": [None]})
    assert some[INK] == some[GREY] == 2  # the heading, and the key
    assert not headings(None)[INK]
    said = texts(plots.graph(chest(), {"xray": "yes"}))
    probability = np.exp(chest().propagate({"xray": "yes"}).log_likelihood[0])
    assert any(f"Probability of the evidence: {probability:.4g}" in text for text in said)
    assert not any("Probability" in text for text in texts(plots.graph(chest())))


def test_a_row_of_a_table_is_shown() -> None:
    rows = {"xray": ["yes", None, "no"], "dysp": [None, "yes", "yes"]}
    for row in range(3):
        figure = plots.graph(chest(), rows, row=row)
        belief = chest().propagate(rows).marginal("lung")[row]
        np.testing.assert_allclose(shares(sides(figure, "belief lung")[:, 0]), belief)
    with pytest.raises(FgrnError, match="no row 3 in this evidence"):
        plots.graph(chest(), rows, row=3)


def test_factors_are_squares_between_their_variables() -> None:
    model = circle()
    figure = plots.graph(model, {"a": 1})
    joined = {frozenset(arc.split(" -> ")) for arc in names_of(figure, "arc")}
    wanted = {
        frozenset((f"f{number}", name))
        for number, factor in enumerate(model.to_document().factors)
        for name in factor.scope
    }
    assert joined == wanted
    assert {f"f{number}" for number in range(7)} <= set(texts(figure))
    assert not figure.findobj(lambda artist: str(artist.get_gid() or "").startswith("probability"))
    assert_legible(figure)
    assert_legible(plots.graph(model, detail="names"))


@pytest.mark.parametrize("detail", ["full", "compact", "names"])
@pytest.mark.parametrize("size", [1, 12, 37])
def test_graphs_are_legible(detail: str, size: int) -> None:
    model = random_network(size)
    figure = plots.graph(model, {"variable 0": 1}, detail=detail)
    assert_legible(figure)
    assert len(names_of(figure, "arc")) == len(model.arcs)
    assert bool(names_of(figure, "belief")) == (detail != "names")
    if detail == "names":
        assert "= 1" in texts(figure)


def test_large_graphs_have_less_detail_and_huge_ones_are_refused() -> None:
    assert "0%" not in texts(plots.graph(random_network(41)))
    assert not names_of(plots.graph(random_network(81)), "belief")
    many = BayesianNetwork(dict.fromkeys(map(str, range(1001)), 2))
    with pytest.raises(FgrnError, match=r"1 to 1,000 variables .* Choose some \(0, 1, 2, .* variables="):
        plots.graph(many)
    some = plots.graph(many, {"1000": 1}, variables=["1", "2"])
    assert sorted(names_of(some, "belief")) == ["1", "2"]
    assert any(text.startswith("999 of 1,001 variables are not drawn") for text in texts(some))


def test_some_variables_are_drawn_with_the_arcs_between_them() -> None:
    figure = plots.graph(chest(), {"smoke": "yes"}, variables=["lung", "either", "xray"])
    assert set(arcs_of(figure)) == {"lung -> either", "either -> xray"}
    belief = chest().posterior({"smoke": "yes"}, "xray")[0]
    np.testing.assert_allclose(shares(sides(figure, "belief xray")[:, 0]), belief)
    with pytest.raises(fgrn.UnknownNameError, match="Did you mean 'lung'"):
        plots.graph(chest(), variables=["lungs"])


def test_loopy_beliefs_are_called_approximations() -> None:
    figure = plots.graph(chest(), {"xray": "yes"}, method="loopy")
    assert any("went round the loops" in text for text in texts(figure))
    assert any("an estimate" in text for text in texts(figure))


@pytest.mark.parametrize("options", [{"row": -1}, {"detail": "some"}, {"method": "magic"}, {"variables": []}])
def test_settings_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(FgrnError):
        plots.graph(chest(), **options)


def test_a_network_is_for_the_other_drawing() -> None:
    with pytest.raises(FgrnError, match=r"plots\.network draws a Network"):
        plots.graph(chest().to_network())  # type: ignore[arg-type]


@given(document=documents(), detail=st.sampled_from(["full", "compact", "names"]))
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::fgrn.core.exceptions.FgrnWarning")
def test_any_names_are_legible(document: Any, detail: str) -> None:
    model = BayesianNetwork.from_document(document)
    figure = plots.graph(model, detail=detail)
    assert_legible(figure)
    assert len(names_of(figure, "arc")) == len(model.arcs)


@given(st.integers(1, 30), st.integers(0, 4), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
@example(22, 4, 324)  # parts of which each has nodes on both sides of the other
def test_children_are_below_their_parents_and_nothing_overlaps(size: int, parents: int, seed: int) -> None:
    model = random_network(size, parents, seed=seed)
    layers = model_layers(model, model.names)
    for node in (node for layer in layers for node in layer):
        node.width, node.height = 1.0, 0.5
    place_nodes(layers, slope=0.2, columns=False)
    at = {node.item.name: node for layer in layers for node in layer if node.item is not None}  # type: ignore[union-attr]
    assert all(at[parent].top + 0.5 < at[child].top for parent, child in model.arcs)
    for layer in layers:
        assert all(one.x + 0.5 <= other.x - 0.5 + 1e-6 for one, other in pairwise(layer))


def test_a_graph_is_saved_and_drawn_into_an_axes(tmp_path: Any) -> None:
    for suffix in ("svg", "png", "pdf"):
        assert plots.save(plots.graph(chest()), tmp_path / f"chest.{suffix}").stat().st_size > 1000
    figure = Figure(figsize=(6, 6))
    assert plots.graph(chest(), ax=figure.subplots()) is figure
    assert_legible(figure)


@pytest.mark.parametrize("apart", [["a"], ["z"], ["a", "z"], ["a", "m", "z", "zz"]])
def test_variables_without_arcs_are_drawn_beside_the_others(apart: list[str]) -> None:
    """Sweeps that centre variables on their neighbours had moved all but these, by several metres."""
    arcs = [("h", "g"), ("g", "c"), ("g", "d"), ("g", "e"), ("g", "f"), ("g", "i"), ("c", "j"), ("d", "k"), ("g", "l"),
            ("k", "n"), ("l", "n")]  # fmt: skip
    linked = sorted({name for arc in arcs for name in arc})
    together = plots.graph(fgrn.BayesianNetwork(dict.fromkeys(linked, 3), arcs))
    wide = plots.graph(fgrn.BayesianNetwork(dict.fromkeys(sorted([*linked, *apart]), 3), arcs))
    assert wide.get_figwidth() <= together.get_figwidth() + 1.8 * len(apart)
    assert_legible(wide)
