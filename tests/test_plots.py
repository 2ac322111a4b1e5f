"""Pictures show the right values: bars are beliefs, steps add up, and texts fit without overlap."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import HOSTILE as NAMES
from figures import assert_legible, drawn, named, names_of, shares, sides, texts
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from matplotlib import rcParams
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text
from models import chest
from strategies import SmallNetwork, loopy_networks, networks

import fgrn
from fgrn import SISO, Diverter, FgrnError, Network, Source, Variable, plots
from fgrn.core.exceptions import FgrnWarning
from fgrn.flow.em import History
from fgrn.learning.criteria import Candidate, ClassCandidate, ClassSelection, Selection
from fgrn.plots.folding import Widths, network_layers
from fgrn.plots.placement import blocks_to_draw, place_in_order, place_nodes
from fgrn.plots.style import AGAINST, GREY, INK, cut_to_width, percent, readable, width_of, wrap_to_width
from fgrn.queries.explanation import CERTAIN, Explanation
from fgrn.statistics.fit import BivariateResiduals, PairResidual

LEVELS = ("", "$a_b$", "c" * 90)


# Networks to look at


def asbestos() -> Network:
    one, two, cancer = Variable("asbestos", 2), Variable("smoking", 2), Variable("cancer", ["no", "yes"])
    both = Variable("asbestos,smoking", 4)
    table = [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]]
    sources = [Source(one, [0.8, 0.2]), Source(two, [0.7, 0.3], learn=False)]
    return Network([*sources, Diverter([one, two], [both]), SISO(both, cancer, table)])


def taught(net: Network, seed: int = 0) -> Network:
    rows = net.sample(30, seed=seed)
    net.learn(rows, epochs=2, seed=seed, smoothing=0.1)
    return net


def circle() -> Network:
    a, b, c, d = (Variable(name, 2) for name in "abcd")
    both = Variable("c,d", 4)
    table = [[0.8, 0.2], [0.3, 0.7]]
    joint = [[0.5, 0.5], [0.2, 0.8], [0.3, 0.7], [0.9, 0.1]]
    return Network([SISO(a, b, table), SISO(b, c, table), Source(d), Diverter([c, d], [both]), SISO(both, a, joint)])


LABELLED = {"fever": ["none", "low", "high"], "cough": ["no", "yes"], "age": ["child", "adult"], "flu": 2}

KINDS: dict[str, Callable[[], Network]] = {
    "product": asbestos,
    "lvm": lambda: taught(fgrn.lvm(LABELLED, hidden=3)),
    "lvm of many states": lambda: taught(fgrn.lvm({"Y": 300, "Z": 2}, hidden=20)),
    "naive bayes": lambda: taught(fgrn.naive_bayes(LABELLED, "flu")),
    "dica": lambda: taught(fgrn.dica(LABELLED, hidden=[3, 2])),
    "stack": lambda: taught(fgrn.stack({f"Y{i}": 2 for i in range(7)}, [3, 4], groups=3, class_variable="Y6")),
    "wide stack": lambda: fgrn.stack({f"Y{i}": 2 for i in range(27)}, [3, 4, 2], groups=3),
    "hmm": lambda: taught(fgrn.hmm({"Y": ["a", "b"]}, hidden=2, length=4)),
    "folded": lambda: taught(fgrn.lvm({f"question {i}": 2 for i in range(23)}, hidden=2)),
    "folded copies": lambda: Network([Diverter([Variable("S", 2)], [Variable(f"S{i}", 2) for i in range(14)])]),
    "hostile names": lambda: fgrn.lvm(dict.fromkeys(NAMES, LEVELS), hidden=2),
    "one state": lambda: fgrn.lvm({"Y": 1, "Z": ["only"]}, hidden=1),
    "one wire": lambda: Network([Source(Variable("S", 2))]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_evidence", [False, True])
def test_the_bars_of_a_network_are_its_beliefs_and_messages(kind: str, with_evidence: bool) -> None:
    net = KINDS[kind]()
    evidence = {net.observed[0]: [None, 0], net.observed[-1]: [0, 0]}
    evidence = evidence if with_evidence and kind != "one wire" else None
    row = 1 if evidence else 0
    figure = plots.network(net, evidence, row=row)
    seen = net.propagate(evidence)
    beliefs = names_of(figure, "belief")
    assert set(map(readable, net.observed)) <= set(beliefs)
    assert {readable(block.variable.name) for block in net.blocks if isinstance(block, Source)} <= set(beliefs)
    for variable in net.variables:
        name = readable(variable.name)
        if name in beliefs and variable.cardinality <= 48:
            lengths = sides(figure, f"belief {name}")
            belief = seen.marginal(variable.name)[row]
            across = np.ptp(lengths[:, 1]) < 1e-9 and not np.ptp(belief) < 1e-9
            fits = [np.allclose(shares(lengths[:, side]), belief, atol=1e-9) for side in (0, 1)]
            assert fits[0] if across else any(fits)
        for way in ("forward", "backward"):
            if evidence is None:
                assert name not in names_of(figure, way)
            elif variable.cardinality <= 48:
                message = getattr(seen, way)(variable.name)[row]
                np.testing.assert_allclose(shares(sides(figure, f"{way} {name}")[:, 1]), message, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_a_network_is_legible(kind: str) -> None:
    net = KINDS[kind]()
    for evidence in (None, {net.observed[0]: [0]}) if kind != "one wire" else (None,):
        figure = plots.network(net, evidence)
        assert_legible(figure)
        assert_not_covered(figure)
        assert smallest_text(figure) >= 7.5


def smallest_text(figure: Figure) -> float:
    """Return the smallest text in pixels, if a page shows the picture 900 pixels wide at most."""
    pixels = min(figure.get_figwidth() * 100, 900) / figure.get_figwidth()
    return min(text.get_fontsize() / 72 * pixels for text in figure.findobj(Text) if text.get_text().strip())


def assert_not_covered(figure: Figure) -> None:
    """Assert that only their own texts lie on bars and headings."""
    dark = [box.get_window_extent() for box in figure.findobj(FancyBboxPatch) if to_hex(box.get_facecolor()) == INK]
    for text in figure.findobj(Text):
        if text.get_text().strip() and to_hex(text.get_color()) != "#ffffff":
            box = text.get_window_extent()
            covers = [(min(box.x1, b.x1) - max(box.x0, b.x0), min(box.y1, b.y1) - max(box.y0, b.y0)) for b in dark]
            assert all(across <= 1 or along <= 3 for across, along in covers), text.get_text()


def spots(figure: Figure, names: list[str]) -> np.ndarray:
    """Where the beliefs of variables are, in inches from the upper left corner: (names, 2)."""
    return np.array([named(figure, f"belief {name}").get_paths()[0].vertices.min(axis=0) for name in names])


@pytest.mark.parametrize(("steps", "columns"), [(3, 1), (6, 2), (13, 1)])
def test_time_runs_sideways_in_lines(steps: int, columns: int) -> None:
    net = fgrn.hmm({f"Y{i}": ["a", "b"] for i in range(columns)}, hidden=2, length=steps)
    for evidence in (None, {"Y0[0]": ["a"]}):
        figure = plots.network(net, evidence, most=80)
        places = spots(figure, [f"S[{step}]" for step in range(steps)])
        assert_legible(figure)
        assert_not_covered(figure)
        assert figure.get_figwidth() < 10
        lines = 0
        for one, other in pairwise(places):
            beside = abs(other[1] - one[1]) < 1e-6 and other[0] > one[0] + 0.5
            assert beside or (other[1] > one[1] + 1 and other[0] < places[:, 0].min() + 1)
            lines += not beside
        assert lines < steps / 2


def test_steps_that_fill_a_line_each_are_folded() -> None:
    net = fgrn.hmm({f"Y{i}": ["a", "b"] for i in range(14)}, hidden=2, length=3)
    figure = plots.network(net, {"Y0[0]": ["a"]}, most=80)
    assert (np.diff(spots(figure, ["S[0]", "S[1]", "S[2]"])[:, 1]) > 1).all()
    assert figure.get_figwidth() < 10.5
    assert_legible(figure)
    assert_not_covered(figure)


@pytest.mark.parametrize("columns", [7, 12, 13, 40])
def test_many_columns_are_rows_that_a_page_has_room_for(columns: int) -> None:
    net = fgrn.lvm({f"a column called {i}": 3 for i in range(columns)}, hidden=2)
    figure = plots.network(net, {"a column called 1": [0]})
    assert figure.get_figwidth() <= 9.2 and smallest_text(figure) >= 8
    assert_legible(figure)


def test_every_colour_of_a_message_is_in_the_key() -> None:
    net = fgrn.hmm({"Y": ["a", "b"]}, hidden=2, length=3)
    for evidence, uniform in (({"Y[0]": ["a"]}, {"forward", "backward"}), (None, set())):
        figure = plots.network(net, evidence)
        assert {way for way in ("forward", "backward") if f"uniform {way} message" in texts(figure)} == uniform
        key = {to_hex(box.get_facecolor()) for box in figure.findobj(FancyBboxPatch)}
        for bars in figure.findobj(lambda artist: str(artist.get_gid()).startswith(("forward ", "backward "))):
            (red, green, blue, alpha), *_ = bars.get_facecolor()
            assert to_hex([1 - alpha + alpha * part for part in (red, green, blue)]) in key


def test_a_network_names_blocks_sizes_and_states() -> None:
    figure = plots.network(asbestos(), {"cancer": ["yes"]})
    said = texts(figure)
    assert {"P(asbestos)", "2 states, fixed", "P(cancer |", "asbestos, smoking)", "4 × 2", "="} <= set(said)
    assert {"no", "yes", "100%", "0%"} <= set(said)
    assert said.count("2 → 4") == 2
    assert {"forward message", "backward message", "belief", "evidence"} <= set(said)
    likelihood = asbestos().propagate({"cancer": ["yes"]}).log_likelihood[0]
    assert f"Row 0: log-likelihood {likelihood:.4g}.".replace(" -", " −") in said
    ties = plots.network(fgrn.hmm({"Y": 2}, hidden=2, length=2))
    assert "2 × 2, tied" in texts(ties)


def test_evidence_is_marked() -> None:
    def headers(evidence: Any) -> Counter[str]:
        boxes = plots.network(taught(fgrn.lvm(LABELLED, hidden=2)), evidence).findobj(FancyBboxPatch)
        return Counter(to_hex(box.get_facecolor()) for box in boxes)

    nothing = headers({"cough": [None]})
    some = headers({"cough": ["yes"], "age": [[0.2, 0.8]], "flu": [None], "S->fever": [1]})
    assert some[INK] - nothing[INK] == 3  # two headings, and the key
    assert some[GREY] - nothing[GREY] == 2


def test_messages_can_be_left_out() -> None:
    evidence = {"cancer": ["yes"]}
    assert not names_of(plots.network(asbestos(), evidence, messages=False), "forward")
    assert names_of(plots.network(asbestos(), evidence), "forward")


def test_only_the_first_leaves_are_drawn_and_the_others_counted() -> None:
    net = fgrn.lvm({f"Y{i}": 2 for i in range(60)}, hidden=3)
    figure = plots.network(net, {"Y59": [1]})  # what is known is among them
    assert sorted(names_of(figure, "belief")) == sorted(["S", *(f"Y{i}" for i in range(39)), "Y59"])
    named = plots.network(net, {"Y59": [1]}, always=["Y58", "Y57", "S"], most=2)
    assert sorted(names_of(named, "belief")) == ["S", "Y57", "Y58"]
    assert any(text.startswith("58 of 60 observed variables are not drawn") for text in texts(named))
    with pytest.raises(fgrn.UnknownNameError, match="Y60"):
        plots.network(net, always=["Y60"])
    assert "20 more …" in texts(figure)
    assert any(text.startswith("20 of 60 observed variables are not drawn") for text in texts(figure))
    few = plots.network(fgrn.stack({f"Y{i}": 2 for i in range(9)}, [2, 3], groups=3), most=2)
    assert sorted(names_of(few, "belief")) == ["S1.1", "S2", "Y0", "Y1"]
    assert max(figure.get_size_inches()) < 25


def test_long_names_that_begin_and_end_alike_stay_apart() -> None:
    asked = ["the speed", "the price", "the people"]
    names = [f"How satisfied were you with {what} of our service in the last twelve months?" for what in asked]
    net = taught(fgrn.lvm(dict.fromkeys(names, 2), hidden=2))
    found = net.explain(dict.fromkeys(names, 1), "S")
    levels = {name: {"yes": 0.5, "no": 0.5} for name in names}
    pictures = {
        "network": plots.network(net),
        "explanation": plots.explanation(found),
        "prototypes": plots.prototypes({0: levels, 1: levels}),
        "missingness": plots.missingness({name: [None, 1] for name in names}),
    }
    for kind, figure in pictures.items():
        for word in ("spe", "pri", "peo"):
            assert any(word in text for text in texts(figure)), (kind, word)
        assert_legible(figure)


def test_what_is_left_out_of_the_picture_is_not_left_out_of_the_beliefs() -> None:
    net = taught(fgrn.lvm({f"Y{i}": 2 for i in range(5)}, hidden=3))
    belief = net.posterior({"Y4": [1]}, "S")[0]
    figure = plots.network(net, {"Y4": [1]}, most=1, always=["Y0"])
    assert sorted(names_of(figure, "belief")) == ["S", "Y0"]
    np.testing.assert_allclose(shares(sides(figure, "belief S")[:, 0]), belief)


def test_loops_are_drawn_and_called_approximate() -> None:
    figure = plots.network(circle(), {"d": [1]})
    assert sorted(names_of(figure, "forward")) == ["a", "b", "c", "c,d", "d"]
    assert any("loops" in text for text in texts(figure))
    assert_legible(figure)


def test_a_chain_is_drawn_at_one_of_its_rows() -> None:
    net = fgrn.hmm({"Y": ["a", "b"]}, hidden=2, sequence="log")
    net.learn({"Y": ["a", "b", "b", "a", "b"]}, epochs=3)
    rows = {"log": [1, 1, 2], "Y": ["a", "b", "a"]}
    for row in range(3):
        figure = plots.network(net, rows, row=row)
        np.testing.assert_allclose(shares(sides(figure, "belief S")[:, 0]), net.propagate(rows).marginal("S")[row])
    assert "A chain: S next is S of the next row." in texts(figure)


@pytest.mark.parametrize("rows", [{"cancer": []}, {"cancer": ["yes"]}])
def test_a_row_that_is_not_there_is_refused(rows: dict[str, list[str]]) -> None:
    with pytest.raises(FgrnError, match=f"no row 3 in this evidence: it has {len(rows['cancer'])}"):
        plots.network(asbestos(), rows, row=3)


@pytest.mark.parametrize("options", [{"row": -1}, {"most": 0}, {"row": 0.5}])
def test_settings_of_a_network_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(FgrnError, match=next(iter(options))):
        plots.network(asbestos(), **options)


def test_a_row_of_a_frame_is_drawn() -> None:
    import pandas as pd

    frame = pd.DataFrame({"cancer": ["no", "yes", None], "smoking": [0.0, None, 1.0]})
    net = asbestos()
    for row in range(3):
        lengths = sides(plots.network(net, frame, row=row), "belief asbestos")[:, 0]
        np.testing.assert_allclose(shares(lengths), net.posterior(frame, "asbestos")[row])


# Where things are


@given(network=st.one_of(networks(), loopy_networks()), data=st.data())
@settings(max_examples=40)
def test_placed_nodes_do_not_overlap_and_wires_lead_down(network: SmallNetwork, data: st.DataObject) -> None:
    room = Widths(data.draw(st.sampled_from([2.0, 4.0, 100.0])), 1.0, 0.5)
    layers = network_layers(network.blocks, set(), room)
    size = st.floats(0.1, 2)
    for node in (node for layer in layers for node in layer):
        node.width, node.height = data.draw(size), data.draw(size)
    least = data.draw(st.sampled_from([0.0, 3.0, 30.0]))
    wide, high = place_nodes(layers, least)
    assert wide >= least
    for layer in layers:
        for one, other in pairwise(layer):
            assert one.x + one.width / 2 <= other.x - other.width / 2 + 1e-6
            assert one.right <= other.left + 1e-6
    for upper, lower in pairwise(layers):
        assert max(node.top + node.height for node in upper) < min(node.top for node in lower)
        assert all(other in lower and node in other.above for node in upper for other in node.below)
    everything = [node for layer in layers for node in layer]
    assert all(node.left <= node.x <= node.right for node in everything)
    assert all(0 < node.x < wide and 0 < node.top < high for node in everything)
    found = {node.item.name for node in everything if isinstance(node.item, Variable)}
    assert found == set(network.variables)
    boxes = [node for node in everything if isinstance(node.item, (Source, SISO, Diverter)) and not node.follows]
    assert len(boxes) == len(network.blocks)


def narrow_wires_side_by_side() -> Network:
    """Copies without a belief, beside each other in a drawing of many variables."""
    wires = [Variable(f"V{number}", 2) for number in range(15)]
    root, one = Variable("root", 2), Variable("one", 1)
    joined = Diverter([*wires[:3], one], [Variable(f"joined {number}", 8) for number in range(2)])
    return Network([Source(root), Source(one), Diverter([root], wires), joined])


def inputs_from_beyond_a_bar() -> Network:
    """Diverters side by side, each with an input that is above the other one."""
    sizes = {"V1": 2, "V2": 2, "V6": 2, "V7": 2, "V14": 2, "V17": 2, "V3": 1, "V10": 1, "V11": 3, "V16": 3}
    sizes |= {"V0": 4, "V4": 4, "V5": 4, "V15": 4, "V8": 8, "V9": 8, "V12": 12}
    wires = {name: Variable(name, size) for name, size in sizes.items()}
    tables = ("V8", "V10"), ("V14", "V3"), ("V17", "V1"), ("V6", "V2"), ("V12", "V16")
    bars = (("V7 V4", "V8 V9"), ("V0", "V15"), ("V1 V2 V3", "V5 V0 V4"), ("V5 V11", "V12"))
    blocks = [SISO(wires[one], wires[other]) for one, other in tables]
    diverters = [Diverter(*([wires[name] for name in side.split()] for side in bar)) for bar in bars]
    return Network(
        [*blocks[:3], diverters[0], Source(wires["V6"]), Source(wires["V7"]), blocks[3], *diverters[1:], blocks[4]]
    )


@pytest.mark.parametrize("crowded", [narrow_wires_side_by_side, inputs_from_beyond_a_bar])
def test_what_is_crowded_is_legible(crowded: Callable[[], Network]) -> None:
    net = crowded()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.ConvergenceWarning)
        figure = plots.network(net, {net.observed[0]: [None]})
    assert_legible(figure)


@given(network=st.one_of(networks(), loopy_networks()))
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # to shrink a picture takes minutes
def test_any_network_is_legible(network: SmallNetwork) -> None:
    net = Network(network.blocks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.ConvergenceWarning)
        figure = plots.network(net, {net.observed[0]: [None]} if net.observed else None)
    assert_legible(figure)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 5), st.floats(0.1, 3)), min_size=1, max_size=9))
@settings(max_examples=40)
def test_what_is_spread_is_as_near_as_can_be(wanted: list[tuple[float, float, float]]) -> None:
    from scipy.optimize import minimize

    class Box:
        def __init__(self, width: float) -> None:
            self.width, self.x = width, 0.0

    boxes: list[Any] = [Box(width) for _, width, _ in wanted]
    places, weights = (
        np.array([place for place, _, _ in wanted]),
        np.array([weight for _, _, weight in wanted]),
    )
    place_in_order(boxes, places.tolist(), weights.tolist())
    found = np.array([box.x for box in boxes])
    gaps = np.array([(a.width + b.width) / 2 for a, b in pairwise(boxes)])
    assert (np.diff(found) >= gaps - 1e-9).all()

    def cost(at: np.ndarray) -> float:
        return float(weights @ (at - places) ** 2)

    rule = {"type": "ineq", "fun": lambda at: np.diff(at) - gaps}
    best = minimize(cost, found, constraints=[rule] if len(boxes) > 1 else [], method="SLSQP")
    assert cost(found) <= cost(best.x) + 1e-5 * (1 + cost(best.x))


def test_blocks_that_lead_only_to_what_is_left_out_are_left_out() -> None:
    net = fgrn.hmm({"Y": 2}, hidden=2, length=3000)
    blocks, gone = blocks_to_draw(net, 2)
    assert {block.variable.name for block in blocks if isinstance(block, Source)} == {"S[0]"}
    assert len(blocks) == 6  # a Source, two Diverters, tables to two Y and one S
    assert "S[1]" not in gone and "S[2]" in gone


# Text


@given(st.text(max_size=60), st.floats(0.2, 3), st.integers(1, 4))
@settings(max_examples=60)
def test_text_fits(name: str, width: float, most: int) -> None:
    lines = wrap_to_width(name, width, 8, most)
    assert 1 <= len(lines) <= most
    for line in [cut_to_width(name, width, 8), *lines]:
        assert line == "…" or width_of(line, 8) <= width
    if width_of(readable(name), 8) <= width:
        assert lines == [readable(name)] and cut_to_width(name, width, 8) == readable(name)


def test_shortened_names_keep_both_ends() -> None:
    short = cut_to_width("question 17 about the house", 0.9, 8)
    assert short.startswith("quest") and short.endswith("se") and "…" in short


@given(st.floats(0, 1))
def test_percentages_do_not_look_certain(share: float) -> None:
    assert (percent(share) == "0%") == (share <= 1e-12)
    assert (percent(share) == "100%") == (share >= 1 - 1e-12)


# Learning


def history(
    values: list[float], *, converged: bool = True, prior: float = 0.0, starts: tuple[float, ...] = ()
) -> History:
    array = np.array(values)
    return History(array, array + prior, 10.0, converged, 0, np.array(starts))


def test_convergence_shows_the_likelihood_of_every_epoch() -> None:
    figure = plots.convergence(history([-90, -50, -40], prior=-7, starts=(-47, -60)))
    np.testing.assert_allclose(named(figure, "history ").get_xydata(), [[1, -9], [2, -5], [3, -4]])
    np.testing.assert_allclose(named(figure, "objective").get_ydata(), [-9.7, -5.7, -4.7])
    np.testing.assert_allclose(named(figure, "starts").get_ydata(), [-4.7, -6])
    assert {"Learning converged after 3 epochs", "−4", "2 starts: −6 to −4.7"} <= set(texts(figure))
    assert_legible(figure)


def test_several_histories_are_named_at_their_ends() -> None:
    several = {name: history([-50, -40 - 0.01 * at], converged=at > 2) for at, name in enumerate(NAMES)}
    figure = plots.convergence(several)
    assert len(names_of(figure, "history")) == len(NAMES)
    assert "$x_1^2$" in texts(figure)
    assert_legible(figure)
    assert {"1", "2"} <= set(texts(plots.convergence(list(several.values())[:2])))


def test_learning_that_did_not_happen_is_drawn() -> None:
    assert "no epochs" in texts(plots.convergence(history([])))
    assert "no epochs" in texts(plots.convergence({}))
    assert "Learning did not converge in 1 epoch" in texts(plots.convergence(history([-3], converged=False)))
    drawn(plots.convergence(history([-np.inf, -3])))
    net = fgrn.lvm({"Y": 2, "Z": 3}, hidden=2)
    learnt = net.learn({"Y": [0, 1, 1], "Z": [2, 1, 0]}, epochs=4)
    np.testing.assert_allclose(named(plots.convergence(learnt), "history ").get_ydata(), learnt.per_row)


def test_the_first_epochs_do_not_squash_the_others() -> None:
    epochs = np.arange(50)
    values = -10 * (4 + 30 * np.exp(-epochs) + 0.3 * np.exp(-epochs / 20))
    figure = plots.convergence(history(values.tolist(), converged=False))
    low, high = figure.axes[0].get_ylim()
    later = values[5:] / 10
    assert low < later.min() and later.max() < high
    assert np.ptp(later) > 0.5 * (high - low)
    below = int((values / 10 < low).sum())
    assert f"Epochs 1 to {below} are below the axis; the lowest value is −34.3." in texts(figure)
    assert "Learning did not converge in 50 epochs" in texts(figure)
    assert_legible(figure)
    several = plots.convergence({"short": history([-90, -50]), "long": history(values.tolist())})
    assert several.axes[0].get_ylim()[0] < -5  # the end of every line is seen
    even = plots.convergence(history((-10 - epochs[::-1]).tolist()))
    assert even.axes[0].get_ylim()[0] < -5.9 and not any("below the axis" in text for text in texts(even))


# Selection


def selected(criterion: str, held_out: float = np.nan) -> Selection:
    tried = [
        Candidate(k, -100.0 - k, 3 * k, 210 + (k - 3) ** 2, 220 + (k - 2) ** 2, held_out + k, 1 / k, (1 / k,) * k)
        for k in (1, 2, 3, 4, 6)
    ]
    return Selection(criterion, tuple(tried))


@pytest.mark.parametrize(("criterion", "best"), [("aic", 3), ("bic", 2), ("held_out", 6)])
def test_selection_shows_every_criterion_and_marks_the_best(criterion: str, best: int) -> None:
    selection = selected(criterion, held_out=-9)
    figure = plots.selection(selection)
    for field in ("aic", "bic", "held_out", "relative_entropy"):
        line = [[one.n_hidden, getattr(one, field)] for one in selection.candidates]
        np.testing.assert_allclose(named(figure, field).get_xydata(), line)
    np.testing.assert_allclose(named(figure, "chosen").get_xydata(), [[best, getattr(selection.best, criterion)]])
    assert any(text.startswith(f"{best} hidden states, chosen by") for text in texts(figure))
    assert_legible(figure)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64), (5,), (2, 3), tuple(range(100, 131))])
def test_the_axes_of_a_selection_have_plain_numbers_and_the_sizes_that_were_tried(sizes: tuple[int, ...]) -> None:
    tried = [Candidate(k, -1.0, k, 2e6 + k, 2e6 + (k - 8) ** 2, np.nan, 0.5, (1 / k,) * k) for k in sizes]
    figure = drawn(plots.selection(Selection("bic", tuple(tried))))
    for axes in figure.axes:
        assert axes.yaxis.get_offset_text().get_text() == ""
        assert axes.get_xticks().tolist() == list(sizes) and not len(axes.get_xticks(minor=True))
    ticks = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert all(text in ("", str(size)) for text, size in zip(ticks, sizes, strict=True))
    assert str(min(tried, key=lambda one: one.bic).n_hidden) in ticks
    numbers = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert all("," in number and "e" not in number for number in numbers) and len(set(numbers)) == len(numbers)
    assert_legible(figure)


def test_selection_leaves_out_what_was_not_computed() -> None:
    figure = plots.selection(selected("bic"))
    assert len(figure.axes) == 2
    assert not figure.findobj(lambda artist: artist.get_gid() == "held_out")
    one = Selection("bic", selected("bic").candidates[:1])
    assert_legible(plots.selection(one))
    with pytest.raises(FgrnError, match="no number of hidden states"):
        plots.selection(Selection("bic"))


@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_classifiers_that_were_tried_are_drawn_with_their_standard_errors(count: int) -> None:
    """Of the strengths of a penalty only the best is drawn, and of many classifiers the best ones."""
    structures = ["per_class", "tan"]
    tried = [
        ClassCandidate(structures[k % 2], k + 1, 2 * k + 2, "fit" if k % 3 else "", strength, loss, 0.01, 100)
        for k in range(count)
        for strength, loss in ((1.0, 0.5 - 0.01 * k), (3.0, 0.6))
    ]
    selection = ClassSelection(tuple(tried))
    figure = plots.selection(selection)
    (chosen,) = (text for text in texts(figure) if "chosen by log-loss" in text)
    assert chosen.startswith(f"{selection.best.structure}, {selection.best.n_hidden} hidden states")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == min(count, 20) and len(set(labels)) == len(labels)
    assert labels[-1].startswith(f"{selection.best.structure}, {selection.best.n_hidden} states")
    assert any("20 worse ones are left out" in text for text in texts(figure)) == (count == 40)
    assert_legible(figure)
    with pytest.raises(FgrnError, match="no classifier was tried"):
        plots.selection(ClassSelection())


# Explanations


def steps(figure: Figure) -> list[tuple[float, float]]:
    """Where each bar of the waterfall begins and ends."""
    found = []
    for number in range(len(names_of(figure, "step"))):
        bar = named(figure, f"step {number}")
        assert isinstance(bar, Rectangle)
        found.append((bar.get_x(), bar.get_x() + bar.get_width()))
    return found


def explained(values: list[float], prior: float = -0.4) -> Explanation:
    total = prior + sum(values)
    names = [NAMES[at % len(NAMES)] + str(at) for at in range(len(values))]
    added = dict(zip(names, values, strict=True))
    return Explanation("class_$1$", "yes", 1 / (1 + np.exp(-total)), prior, added, dict.fromkeys(names, "$v$"), total)


@given(st.lists(st.floats(-20, 20), max_size=12), st.floats(-5, 5), st.integers(1, 8))
@settings(max_examples=30)
def test_the_steps_of_a_waterfall_join_and_add_up(values: list[float], prior: float, most: int) -> None:
    explanation = explained(values, prior)
    figure = plots.explanation(explanation, most=most)
    bars = steps(figure)
    assert len(bars) == min(len(values), most) + (len(values) > most) + 2
    assert bars[0] == (0, prior)
    for (_, end), (start, _) in pairwise(bars[:-1]):
        assert start == pytest.approx(end, abs=1e-9)
    assert bars[-1] == (0, pytest.approx(explanation.log_odds, abs=1e-9))
    assert bars[-2][1] == pytest.approx(explanation.log_odds, abs=1e-9)
    lengths = [end - start for start, end in bars[1:-1]]
    ranked = [value for _, value in explanation.ranked]
    np.testing.assert_allclose(lengths[:most], ranked[:most], atol=1e-9)
    if len(values) > most:
        assert lengths[-1] == pytest.approx(sum(ranked[most:]), abs=1e-9)


@pytest.mark.parametrize("values", [[], [0.0], [2.0, -1.5, 1.0, -0.2, 0.1, 0.05], [-300.0, 310.0], [-2.0, -3.0]])
def test_an_explanation_is_legible(values: list[float]) -> None:
    figure = plots.explanation(explained(values), most=4)
    assert_legible(figure)
    assert any(text.startswith("class_$1$ = yes") for text in texts(figure))
    if len(values) > 4:
        assert "2 others" in texts(figure)


def test_the_numbers_of_an_explanation_are_not_on_the_line_at_zero() -> None:
    figure = drawn(plots.explanation(explained([2.0, -1.5, 1.0, -0.2, 0.1, 0.05])))
    (axes,) = [axes for axes in figure.axes if axes.texts]
    line = next(line for line in axes.lines if set(line.get_xdata()) == {0})
    numbers = [text for text in axes.texts if text.get_text()[0] in "+−"]
    crossing = [text.get_window_extent() for text in numbers]
    zero = axes.transData.transform((0, 0))[0]
    assert any(box.x0 < zero < box.x1 for box in crossing)  # else this test says nothing
    for text in numbers:
        patch = text.get_bbox_patch()
        assert patch is not None and to_hex(patch.get_facecolor()) == "#ffffff"
        assert text.get_zorder() > line.get_zorder()


@pytest.mark.parametrize("share", [1.0, 0.5, -1.0])
def test_what_is_certain_is_drawn_beside_what_is_not(share: float) -> None:
    prior, small = -0.4, [0.9, -0.3]
    values = {"a": share * CERTAIN - prior - sum(small), "b": small[0], "c": small[1]}
    certain = {"a": share}
    if abs(share) < 1:
        values["d"], certain["d"] = share * CERTAIN, share
    total = prior + sum(values.values())
    found = Explanation("kind", "yes", float(share > 0), prior, values, dict.fromkeys(values, "v"), total, certain)
    figure = plots.explanation(found)
    bars, word = steps(figure), "certain" if share > 0 else "ruled out"
    assert max(abs(end) for bar in bars for end in bar) < 60
    for (_, end), (start, _) in pairwise(bars[:-1]):
        assert start == pytest.approx(end, abs=1e-9)
    assert bars[-1][1] == pytest.approx(bars[-2][1])
    lengths = sorted(end - start for start, end in bars[1:-1])
    assert set(np.round(small, 9)) <= set(np.round(lengths, 9))
    assert texts(figure).count(word) == (2 if abs(share) == 1 else 1)
    assert texts(figure).count(f"{word} (50%)") == (0 if abs(share) == 1 else 2)
    assert_legible(figure)


def test_an_explanation_of_a_network_is_drawn() -> None:
    net = taught(fgrn.lvm(LABELLED, hidden=2))
    found = net.explain({"fever": "high", "cough": "yes"}, "flu")
    figure = plots.explanation(found)
    assert steps(figure)[-1][1] == pytest.approx(found.log_odds)
    assert {"fever = high", "cough = yes", "baseline", "total: this row"} <= set(texts(figure))


# Confusion


def test_confusion_counts_pairs() -> None:
    draw = np.random.default_rng(0)
    truth, guess = draw.integers(0, 3, 200), draw.integers(0, 3, 200)
    figure = plots.confusion(truth, guess)
    count = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    cells = np.asarray(named(figure, "confusion").get_array())
    for (row, column), share in np.ndenumerate(cells):
        assert share == pytest.approx(count[row, column] / (truth == row).sum())
        assert not share or f"{count[row, column]}\n{percent(share)}" in texts(figure)
    assert f"{np.mean(truth == guess):.1%} of 200 rows are right" in texts(figure)
    plain = np.asarray(named(plots.confusion(truth, guess, normalise=False), "confusion").get_array())
    np.testing.assert_allclose(plain, [[count[r, c] / max(count.values()) for c in range(3)] for r in range(3)])
    assert_legible(figure)


def test_confusion_keeps_the_order_of_labels_and_leaves_out_the_unknown() -> None:
    import pandas as pd

    truth = pd.Series(["b", "a", None, "c", "a"])
    figure = plots.confusion(truth, ["b", "b", "a", "c", "a"], labels=["b", "a"])
    cells = np.asarray(named(figure, "confusion").get_array())
    np.testing.assert_allclose(cells, [[1, 0], [0.5, 0.5]])
    assert any(text.startswith("2 rows with unknown or other labels") for text in texts(figure))


@pytest.mark.parametrize(
    "labels", [list(NAMES), list(range(40)), [1, "1", 2.5, True], [f"long name {i}" for i in range(10)]]
)
def test_confusion_is_legible(labels: list[Any]) -> None:
    assert_legible(plots.confusion(labels, labels[::-1]))


@pytest.mark.parametrize(("labels", "rows"), [(4, 40), (19, 400), (19, 50_000), (30, 400), (60, 4000), (100, 4000)])
def test_confusion_writes_what_is_not_zero(labels: int, rows: int) -> None:
    draw = np.random.default_rng(0)
    truth = draw.integers(0, labels, rows)
    guess = np.where(draw.random(rows) < 0.9, truth, draw.integers(0, labels, rows))
    figure = plots.confusion([f"class {one}" for one in truth], [f"class {one}" for one in guess])
    (axes,), pairs = figure.axes, Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    cells = [text.get_text() for text in axes.texts]
    assert not any(cell.startswith("0") for cell in cells)
    if labels <= 60:
        assert sorted(cell.split("\n")[0] for cell in cells) == sorted(f"{count:,}" for count in pairs.values())
        assert all(("%" in cell) == (labels <= 20) for cell in cells)
    else:
        assert not cells and any("most frequent mistakes" in text for text in texts(figure))
        assert max(figure.get_size_inches()) < 11
    assert_legible(figure)


def test_confusion_writes_no_numbers_where_an_axes_has_no_room() -> None:
    figure = Figure(figsize=(3, 3), layout="constrained")
    plots.confusion(list(range(30)), list(range(30)), ax=figure.subplots())
    assert not figure.axes[0].texts
    assert any("no room for numbers" in text for text in texts(figure))


def test_confusion_of_nothing_and_of_nonsense() -> None:
    assert "No rows" in texts(drawn(plots.confusion([], [])))
    assert_legible(plots.confusion(["only"], ["only"]))
    with pytest.raises(FgrnError, match="2 true labels and 1 predicted"):
        plots.confusion([1, 2], [1])
    for wrong in (5, "text", None, [[1], [2]]):
        with pytest.raises(FgrnError, match="list or a column of labels"):
            plots.confusion(wrong, [1, 2])


# Unknown values


TABLE = {
    "a": [1, None, 3, None, 5, 6],
    "b": np.array([1.0, np.nan, 2.0, np.nan, np.nan, 1.0]),
    "c": ["x"] * 6,
    "$d_1$": [None] * 6,
}


def test_missingness_counts_each_column() -> None:
    figure = plots.missingness(TABLE)
    bars = figure.findobj(lambda artist: isinstance(artist, Rectangle) and artist.get_gid() == "shares")
    assert [bar.get_width() for bar in bars] == pytest.approx([1, 0.5, 1 / 3, 0])
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["$d_1$", "b", "a", "c"]
    unknown = [[True] * 6, np.isnan(TABLE["b"]), [value is None for value in TABLE["a"]], [False] * 6]
    np.testing.assert_array_equal(np.asarray(named(figure, "rows").get_array()) > 0.5, unknown)
    assert f"{11 / 24:.1%} of all values are missing" in texts(figure)
    assert_legible(figure)


def test_missingness_shows_what_is_unknown_together() -> None:
    figure = plots.missingness(TABLE)
    together = [named(figure, f"pattern {at}").get_ydata().tolist() for at in range(3)]
    assert together == [[0], [0, 1, 2], [0, 1]]
    assert [label.get_text() for label in figure.axes[2].get_xticklabels()] == ["3", "2", "1"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_missingness_of_frames(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"a": [1, None, 3], "b": ["x", None, None]}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    bars = plots.missingness(frame).findobj(lambda artist: artist.get_gid() == "shares")
    assert [bar.get_width() for bar in bars] == pytest.approx([2 / 3, 1 / 3])


def test_missingness_of_many_rows_and_columns_says_what_is_left_out() -> None:
    draw = np.random.default_rng(0)
    table = {f"column {i}": np.where(draw.random(5000) < 0.01 * i, np.nan, 1.0) for i in range(60)}
    figure = plots.missingness(table, most_rows=100)
    assert len(figure.axes[0].get_yticklabels()) == 40
    said = " ".join(texts(figure))
    assert "100 rows, evenly spaced, are drawn." in said
    assert "20 more columns" in said
    assert_legible(figure)


def test_missingness_of_next_to_nothing() -> None:
    assert "No rows" in texts(drawn(plots.missingness({"a": [], "b": np.zeros(0)})))
    assert_legible(plots.missingness({"a": [1]}))
    assert_legible(plots.missingness(dict.fromkeys(NAMES, (None, 1))))
    drawn(plots.missingness({"a": np.array([[np.nan, np.nan], [0.5, 0.5]]), "b": None}))
    with pytest.raises(FgrnError, match="no column"):
        plots.missingness({})


def test_missingness_of_the_votes(shared_data: Path) -> None:
    lines = (shared_data / "tables" / "house-votes-84.data").read_text().split()
    rows = [line.split(",") for line in lines]
    table = {f"vote {at}": [None if row[at] == "?" else row[at] for row in rows] for at in range(17)}
    figure = plots.missingness(table)
    bars = figure.findobj(lambda artist: isinstance(artist, Rectangle) and artist.get_gid() == "shares")
    counts = sorted((sum(row[at] == "?" for row in rows) for at in range(17)), reverse=True)
    assert [bar.get_width() * len(rows) for bar in bars] == pytest.approx(counts)
    assert_legible(figure)


# Figures and files


RESIDUALS = BivariateResiduals(("a", "b"), (PairResidual("a", "b", 4.2, 1, 100.0),))

PICTURES: list[Callable[..., Figure]] = [
    lambda **options: plots.network(asbestos(), {"cancer": ["yes"]}, **options),
    lambda **options: plots.graph(chest(), {"xray": ["yes"]}, **options),
    lambda **options: plots.prototypes({0: {"Y": [0.2, 0.8]}, 1: {"Y": [0.7, 0.3]}}, shares=[1, 3], **options),
    lambda **options: plots.convergence(history([-9, -5]), **options),
    lambda **options: plots.selection(selected("bic", -9), **options),
    lambda **options: plots.explanation(explained([1.0, -2.0]), **options),
    lambda **options: plots.confusion([0, 1], [0, 1], **options),
    lambda **options: plots.missingness(TABLE, **options),
    lambda **options: plots.residuals(RESIDUALS, **options),
    lambda **options: plots.tornado(chest().sensitivities(("lung", "yes"), {"xray": "yes"}), **options),
]


def test_all_pictures_are_promised() -> None:
    assert len(PICTURES) == len(plots.__all__) - 1
    assert all(getattr(plots, name).__doc__ for name in plots.__all__)


@pytest.mark.parametrize("where", ["subplot", "subfigure", "axes"])
@pytest.mark.parametrize("draw", PICTURES)
def test_pictures_are_drawn_in_given_axes(where: str, draw: Callable[..., Figure]) -> None:
    figure = Figure(figsize=(16, 9), layout=None if where == "axes" else "constrained")
    if where == "subfigure":
        axes = figure.subfigures(1, 2)[1].subplots()
    else:
        axes = figure.add_subplot(121) if where == "subplot" else figure.add_axes((0.3, 0.2, 0.4, 0.6))
    assert draw(ax=axes) is figure
    assert_legible(figure)


def test_no_setting_of_matplotlib_is_changed_or_taken_over() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = dict(rcParams)
        rcParams.update({"text.color": "white", "figure.facecolor": "black", "font.size": 30})
        try:
            figures = [draw() for draw in PICTURES]
        finally:
            rcParams.update(before)
        assert dict(rcParams) == before
    for figure in figures:
        assert to_hex(figure.get_facecolor()) == "#ffffff"
        assert max(text.get_fontsize() for text in figure.findobj(Text)) <= 12
        assert not any(text.get_color() == "white" for text in figure.findobj(Text) if text.get_text())


def test_pyplot_is_not_needed_and_matplotlib_only_when_drawing() -> None:
    code = (
        "import sys, fgrn.plots; assert 'matplotlib' not in sys.modules\n"
        "fgrn.plots.confusion([0], [0]); assert 'matplotlib' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("draw", PICTURES)
def test_notebooks_show_pictures_without_a_magic(draw: Callable[..., Figure]) -> None:
    """That a kernel takes it so is in test_notebooks.py; this runs where there is none."""
    figure: Any = draw()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FgrnError, match="pip install matplotlib"):
        plots.confusion([0], [0])


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_pictures_are_saved_the_same_every_time(tmp_path: Path, suffix: str, begins: bytes) -> None:
    net = asbestos()
    paths = [plots.save(plots.network(net), tmp_path / f"{number}{suffix}") for number in range(2)]
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first.startswith(begins)
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_hostile_names_are_saved(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    figure = plots.network(KINDS["hostile names"](), {NAMES[0]: [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FgrnWarning)  # letters that no font has
        for suffix in (".svg", ".png", ".pdf"):
            plots.save(figure, tmp_path / f"hostile{suffix}", dpi=60)
    ElementTree.parse(tmp_path / "hostile.svg")


def test_letters_that_no_font_has_are_named_once(tmp_path: Path) -> None:
    figure = plots.confusion(["\U0001fae0", "b"], ["\U0001fae0", "\U0001fae0"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plots.save(figure, tmp_path / "letters.png")
    assert len(caught) <= 1  # none where a font has it
    assert all(warning.category is FgrnWarning and "\U0001fae0" in str(warning.message) for warning in caught)


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    figure = plots.confusion([0], [0])
    with pytest.raises(FgrnError, match=r"its suffix is '.gif'. Choose .svg, .png or .pdf"):
        plots.save(figure, tmp_path / "picture.gif")
    with pytest.raises(FgrnError, match="there is no folder"):
        plots.save(figure, tmp_path / "nowhere" / "picture.png")
    with pytest.raises(FgrnError, match="a figure of matplotlib is wanted"):
        plots.save("figure", tmp_path / "picture.png")  # type: ignore[arg-type]
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(FgrnError, match="not a file"):
        plots.save(figure, tmp_path / "folder.png")
    old = tmp_path / "old.png"
    old.write_bytes(b"old")
    with pytest.raises(FgrnError, match="lower dpi"):
        plots.save(figure, old, dpi=1e6)
    assert old.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png", "old.png"]


def test_a_huge_network_is_still_an_image() -> None:
    wires = [Variable(f"V{number}", 2) for number in range(200)]
    net = Network([Source(wires[0]), *(SISO(a, b) for a, b in pairwise(wires))])
    assert max(plots.network(net).get_size_inches()) <= 200


def test_colours_say_for_and_against() -> None:
    figure = plots.explanation(explained([2.0, -1.0]))
    assert to_hex(named(figure, "step 2").get_facecolor()).upper() == AGAINST


def test_numbers_of_bins_are_not_cut() -> None:
    """ "1980…830" reads as another number."""
    assert cut_to_width("1980 to 2830", 5.0, 8) == "1980 to 2830"
    assert cut_to_width("1980 to 2830", width_of("1980–2830", 8), 8) == "1980–2830"
    assert cut_to_width("1980 to 2830", width_of("1980–28", 8), 8) == "1980–…"
    near = ["123456.788999999 to 123456.78899999963", "123456.78899999963 to 123456.78900000005"]
    short = [cut_to_width(label, 0.6, 8) for label in near]  # longer than that, even without the second number
    assert all(width_of(one, 8) <= 0.6 for one in short)
    assert short[0] != short[1]
    assert all(one.endswith("–…") for one in short)
