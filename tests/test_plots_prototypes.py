"""Charts of class profiles, and the baseline weighted by the shares of the states."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import HOSTILE, assert_legible, texts
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

import fgrn
from fgrn import FgrnError, plots
from fgrn.cli import main
from fgrn.plots.style import in_order_of_numbers, percent


def distributions(states: int, columns: dict[str, int], seed: int = 0) -> dict[Any, dict[str, dict[Any, float]]]:
    draw = np.random.default_rng(seed)
    return {
        state: {name: dict(enumerate(draw.dirichlet(np.ones(size)).tolist())) for name, size in columns.items()}
        for state in range(states)
    }


def cells(figure: Figure, kind: str = "lift") -> dict[str, np.ndarray]:
    meshes = [mesh for mesh in figure.findobj(QuadMesh) if str(mesh.get_gid()).startswith(f"{kind} ")]
    return {mesh.get_gid().removeprefix(f"{kind} "): np.asarray(mesh.get_array()) for mesh in meshes}


def baselines(figure: Figure) -> list[str]:
    """The numbers in the last column, from the top."""
    axes = figure.axes[0]
    edge = axes.get_xlim()[1] - 1
    shown = [text for text in axes.texts if text.get_position()[0] > edge and text.get_text().endswith("%")]
    return [text.get_text() for text in sorted(shown, key=lambda text: text.get_position()[1])]


@pytest.fixture(scope="module")
def cars() -> fgrn.NaiveBayesClassifier:
    """Nine in ten cars are not acceptable, all that carry two are among these."""
    persons = ["2"] * 60 + ["4"] * 60 + ["more"] * 60
    safety = ["low", "high", "high"] * 60
    good = ["yes" if who != "2" and at % 6 == 1 else "no" for at, who in enumerate(persons)]
    return fgrn.NaiveBayesClassifier(smoothing=0.01).fit({"persons": persons, "safety": safety}, good)


def test_prototypes_are_a_dict_that_knows_shares_and_baseline(cars: fgrn.NaiveBayesClassifier) -> None:
    found = cars.prototypes_
    assert found == dict(found) and isinstance(found, dict)
    assert repr(found) == str(found) and repr(found).startswith("no  (")
    net = cars.network_
    belief = net.propagate(None)
    np.testing.assert_allclose(list(found.shares.values()), belief.marginal(cars._class_name())[0])
    for name in ("persons", "safety"):
        np.testing.assert_allclose(list(found.baseline[name].values()), belief.marginal(name)[0])
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert (other, other.shares, other.baseline) == (found, found.shares, found.baseline)


def test_prototypes_of_clusters_know_their_shares() -> None:
    rows = {"a": [0] * 50 + [1] * 10, "b": [0] * 48 + [1] * 12}
    model = fgrn.LatentClassModel(2, random_state=0).fit(rows)
    np.testing.assert_allclose(list(model.prototypes_.shares.values()), model.weights_)
    for name in rows:
        np.testing.assert_allclose(
            list(model.prototypes_.baseline[name].values()), model.network_.propagate(None).marginal(name)[0]
        )


@pytest.mark.parametrize("how", ["model", "mapping", "shares", "counts", "base"])
def test_the_baseline_is_weighted_by_the_shares(cars: fgrn.NaiveBayesClassifier, how: str) -> None:
    found = cars.prototypes_
    figure = {
        "model": lambda: plots.prototypes(cars),
        "mapping": lambda: plots.prototypes(found),
        "shares": lambda: plots.prototypes(dict(found), shares=found.shares),
        "counts": lambda: plots.prototypes(dict(found), shares=[180 * share for share in found.shares.values()]),
        "base": lambda: plots.prototypes(dict(found), base=found.baseline),
    }[how]()
    truth = {name: cars.network_.propagate(None).marginal(name)[0] for name in ("persons", "safety")}
    assert baselines(figure) == [percent(share) for name in truth for share in truth[name]]
    assert baselines(figure)[0] == "33%"
    for name, lift in cells(figure).items():
        profile = np.array([list(found[state][name].values()) for state in found]).T
        np.testing.assert_allclose(lift, np.log2(profile / truth[name][:, None]))
    assert ("baseline" in texts(figure)) and (how == "base" or "no\n89%" in texts(figure))
    assert_legible(figure)


def test_without_shares_there_is_no_baseline_and_the_picture_says_so(cars: fgrn.NaiveBayesClassifier) -> None:
    figure = plots.prototypes(dict(cars.prototypes_))
    assert not cells(figure) and "baseline" not in texts(figure)
    for name, shown in cells(figure, "probability").items():
        profile = np.array([list(one[name].values()) for one in cars.prototypes_.values()]).T
        np.testing.assert_allclose(shown, profile)
    assert any("the shares of the states are not known" in text.replace("\n", " ") for text in texts(figure))
    assert_legible(figure)


def test_states_that_are_taken_away_leave_the_baseline(cars: fgrn.NaiveBayesClassifier) -> None:
    some = cars.prototypes_
    del some["yes"]
    assert baselines(plots.prototypes(some)) == baselines(plots.prototypes(cars))


@pytest.mark.parametrize("shares", [[1], [0, 0], [1, -1], {"no": 1}, 3, [1, None], [1, np.nan]])
def test_shares_are_checked(cars: fgrn.NaiveBayesClassifier, shares: Any) -> None:
    with pytest.raises(FgrnError, match="one number for each of the 2 states"):
        plots.prototypes(dict(cars.prototypes_), shares=shares)


def test_a_baseline_of_some_columns_is_refused(cars: fgrn.NaiveBayesClassifier) -> None:
    with pytest.raises(FgrnError, match="base has no distribution of the column 'safety'"):
        plots.prototypes(cars, base={"persons": cars.prototypes_.baseline["persons"]})


def test_the_command_draws_and_prints_the_same_baseline(
    cars: fgrn.NaiveBayesClassifier, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cars.save(tmp_path / "cars.fgrn")
    seen: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: seen.append(figure))
    assert main(["prototypes", str(tmp_path / "cars.fgrn"), "--picture", str(tmp_path / "cars.svg")]) == 0
    assert baselines(seen[0])[0] == "33%"
    profile = cars.prototypes_["no"]["persons"]["2"]
    ratio = profile / cars.network_.propagate(None).marginal("persons")[0][0]
    line = next(line for line in capsys.readouterr().out.splitlines() if "persons = 2" in line)
    assert line.split()[-2:] == [f"{profile:.1%}", f"{ratio:.2f}"]


def test_prototypes_show_probabilities_and_lift() -> None:
    given = distributions(4, {f"column {i}": 2 + i % 3 for i in range(8)})
    figure = plots.prototypes(given, shares=[1, 1, 1, 1])
    found = cells(figure)
    assert list(found) == [f"column {i}" for i in range(8)]
    for name, lift in found.items():
        table = np.array([list(given[state][name].values()) for state in given]).T
        np.testing.assert_allclose(lift, np.log2(table / table.mean(axis=1, keepdims=True)))
        for value in table.ravel():
            assert percent(value) in texts(figure)
    assert_legible(figure)


def test_levels_that_are_absent_have_no_probability() -> None:
    given = {"a": {"Y": {"no": 0.5, "yes": 0.5}}, "b": {"Y": {"no": 1.0}}}
    lift = cells(plots.prototypes(given, base={"Y": {"no": 0.25, "yes": 0.75}}))["Y"]
    np.testing.assert_allclose(lift, [[1, 2], [np.log2(0.5 / 0.75), -2]])


def test_numbers_in_names_are_in_order_and_an_order_that_was_chosen_is_kept() -> None:
    groups = ["group 1", "group 10", "group 2"]
    assert in_order_of_numbers(groups) == ["group 1", "group 2", "group 10"]
    for chosen in (["low", "high"], ["0.25", "0.5", "10"], [1, 10, 2], ["", "1"]):
        assert in_order_of_numbers(chosen) == chosen
    profiles = {state: {"item": {"no": 0.5, "yes": 0.5}} for state in groups}
    figure = plots.prototypes(profiles, shares=[1, 1, 2])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()[:3]] == [
        "group 1\n25%", "group 2\n50%", "group 10\n25%",
    ]  # fmt: skip
    assert any("of each class" in text for text in texts(figure))


def test_the_most_telling_columns_are_kept() -> None:
    given = distributions(3, {f"Y{i}": 2 for i in range(30)})
    for state in given:
        given[state] |= {f"Y{i}": {0: 0.5, 1: 0.5} for i in range(0, 30, 2)}
    for options in ({}, {"shares": [1, 2, 3]}):
        figure = plots.prototypes(given, most_columns=15, **options)
        assert list(cells(figure, "lift" if options else "probability")) == [f"Y{i}" for i in range(1, 30, 2)]
        left = "15 columns in which they differ less are left out: Y0, Y2"
        assert any(text.startswith(left) for text in texts(figure))


def test_many_levels_are_pooled_and_still_sum_to_one() -> None:
    given = distributions(2, {"zip": 40, "Y": 2})
    figure = plots.prototypes(given, shares=[1, 1])
    assert len(cells(figure)["zip"]) == 8
    assert "33 others" in texts(figure)
    assert_legible(figure)


@pytest.mark.parametrize("shares", [True, False])
def test_hostile_names_and_one_state_are_legible(shares: bool) -> None:
    column = dict.fromkeys(["", "$a_b$", "c" * 90], 1 / 3)
    given = {name: dict.fromkeys(HOSTILE, column) for name in HOSTILE[:4]}
    for some in (given, {"only": {"Y": {"level": 1.0}}}):
        assert_legible(plots.prototypes(some, shares=[1] * len(some) if shares else None))


@pytest.mark.parametrize(("nothing", "why"), [({}, "no prototypes"), ({0: {}}, "no prototypes"), (5, "Got int")])
def test_what_is_no_prototype_is_refused(nothing: Any, why: str) -> None:
    with pytest.raises(FgrnError, match=why):
        plots.prototypes(nothing)


def test_a_value_that_no_row_of_a_class_has_is_not_coloured_as_frequent() -> None:
    colours = ["red"] * 60 + ["blue"] * 58 + [None] * 2
    sizes = ["small", "large"] * 59 + ["large"] * 2
    classes = ["a"] * 60 + ["b"] * 58 + ["rare"] * 2
    model = fgrn.NaiveBayesClassifier(smoothing=0.5).fit({"colour": colours, "size": sizes}, classes)
    found = model.prototypes_
    assert found["rare"]["colour"]["blue"] > found.baseline["colour"]["blue"]
    assert not found.is_seen("rare", "colour", "blue") and found.is_seen("rare", "size", "large")
    figure = plots.prototypes(model)
    lift, rare = cells(figure), list(found).index("rare")
    assert lift["colour"][0, rare] == 0 and lift["colour"][:, rare].max() <= 0
    assert lift["size"][:, rare].max() > 0
    assert any("no row of a class has" in text for text in texts(figure))
    frame = found.to_frame().set_index(["state", "column", "level"])
    assert not frame.loc[("rare", "colour", "blue"), "seen"] and frame.loc[("b", "colour", "blue"), "seen"]
    assert "too few rows" not in str(found)
    few = fgrn.NaiveBayesClassifier(smoothing=0.5).fit({"colour": colours}, classes).prototypes_
    assert "too few rows" in str(few) and "too few rows" in few._repr_html_()
