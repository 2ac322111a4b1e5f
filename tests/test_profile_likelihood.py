"""Confidence intervals from the profile likelihood, beside maxima that are found in another way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fgrn
from fgrn.cli import main
from fgrn.statistics.profile_likelihood import _Profile


@pytest.fixture(scope="module")
def model() -> fgrn.LatentClassModel:
    """Four items of two classes; nobody of class 0 says yes to the first."""
    rng = np.random.default_rng(1)
    second = (rng.random(200) < 0.4).astype(int)
    chance = np.array([[0.0, 0.2, 0.3, 0.25], [0.7, 0.8, 0.9, 0.75]])
    table = {f"q{item}": (rng.random(200) < chance[second, item]).astype(int) for item in range(4)}
    return fgrn.LatentClassModel(2, smoothing=0, random_state=0, tol=1e-12).fit(table).relabel(("q3", 0))


def largest(model: fgrn.LatentClassModel, place: int, held: float) -> float:
    """The largest log-likelihood with one of nine probabilities held: size of class 1, q0 to q3 in classes 0 and 1."""
    from scipy.optimize import minimize

    estimates, rows = model._analysed(None, None)
    start = np.concatenate([estimates.prior[1:], estimates.cells[:, 1::2].ravel()]).clip(0.002, 0.998)
    others = np.arange(9) != place

    def loss(logits: np.ndarray) -> float:
        chance = np.full(9, held)
        chance[others] = 1 / (1 + np.exp(-logits))
        yes = chance[1:].reshape(2, 4)
        joint = np.array([1 - chance[0], chance[0]])
        given = [np.prod(np.where(rows.codes == 1, one, 1 - one), axis=1) for one in yes]
        return -float(rows.weights @ np.log(joint[0] * given[0] + joint[1] * given[1]))

    found = minimize(loss, np.log(start / (1 - start))[others], method="BFGS")
    return -float(found.fun)


def test_limits_are_where_the_likelihood_has_fallen_by_half_the_quantile(model: fgrn.LatentClassModel) -> None:
    best = model.report().log_likelihood
    boundary = model.profile_intervals()
    assert [(one.item, one.number, one.level) for one in boundary.intervals] == [("q0", 0, 0), ("q0", 0, 1)]
    certain, never = boundary.intervals
    assert (never.low, certain.high) == (0.0, 1.0)
    assert never.high == pytest.approx(1 - certain.low, abs=1e-4)
    inside = model.profile_intervals([("q1", 1, 1)], level=0.9).intervals[0]
    size = model.profile_intervals("class sizes").intervals[1]
    for place, limit, quantile in (
        (1, never.high, 3.8415), (6, inside.low, 2.7055), (6, inside.high, 2.7055), (0, size.low, 3.8415),
    ):  # fmt: skip
        assert 2 * (best - largest(model, place, limit)) == pytest.approx(quantile, abs=5e-3)
    wald = model.standard_errors()
    assert size.low == pytest.approx(wald.low[1], abs=0.01)
    assert never.high > wald.high[3]  # not all rows are surely of the class
    assert "profile likelihood" in str(boundary)
    assert len(boundary.to_frame()) == 2


def test_fits_do_not_start_from_one_where_a_probability_is_0() -> None:
    rng = np.random.default_rng(4)
    chance = np.where(rng.integers(0, 2, 200), 0.85, 0.25)
    table = {f"q{item}": (rng.random(200) < chance).astype(int) for item in range(4)}
    model = fgrn.LatentClassModel(2, smoothing=0, random_state=0, n_init=1).fit(table)
    found = model.profile_intervals([("q0", 0, 1)]).intervals[0]
    assert (found.low, found.high) == pytest.approx((1 - 0.2612, 1 - 0.0714), abs=2e-4)  # those of level 0


def test_classes_that_change_places_are_no_fit_of_a_held_probability() -> None:
    rng = np.random.default_rng(4)
    chance = np.where(rng.integers(0, 2, 200), 0.85, 0.25)
    table = {f"q{item}": (rng.random(200) < chance).astype(int) for item in range(4)}
    model = fgrn.LatentClassModel(2, random_state=0).fit(table | {"same": table["q0"]})
    found = model.profile_intervals([("same", 0, 1)]).intervals[0]
    rows = table["q0"].sum()  # all of class 0
    assert (found.low, found.high) == pytest.approx((np.exp(-1.9207 / rows), 1), abs=1e-4)


def test_what_is_given_has_no_width() -> None:
    table = {"a": [0, 1, 1, 0, 2] * 9, "b": [0, 1, 0, 0, 1] * 9, "c": [1, 1, 0, 0, 0] * 9}
    held = [("fixed", "b", 0, 1, 0.2), ("fixed", "a", 0, 2, 0.3)]
    model = fgrn.LatentClassModel(2, random_state=0, n_init=1, constraints=held).fit(table)
    found = {(one.item, one.level): one for one in model.profile_intervals([("b", 0, 0), ("b", 0, 1)]).intervals}
    assert (found["b", 1].low, found["b", 1].high) == (0.2, 0.2)
    assert found["b", 0].low == found["b", 0].high == pytest.approx(0.8)
    beside = model.profile_intervals([("a", 0, 1)]).intervals[0]
    assert 0 <= beside.low < beside.high <= 0.7
    with pytest.raises(fgrn.LearningError, match="the one class is 1"):
        fgrn.LatentClassModel(1).fit(table).profile_intervals("class sizes")
    with pytest.raises(fgrn.LearningError, match="empty list"):
        model.profile_intervals([])


def test_a_likelihood_that_jumps_is_told(monkeypatch: pytest.MonkeyPatch, model: fgrn.LatentClassModel) -> None:
    monkeypatch.setattr(_Profile, "root", lambda self, held: 5.0 if held > 0.9 else 1.0)
    with pytest.raises(fgrn.LearningError, match=r"P\(q1 = 1 \| class 1\) is held at 0.9000"):
        model.profile_intervals([("q1", 1, 1)])


def test_the_command_line_shows_those_on_the_boundary(
    model: fgrn.LatentClassModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, place = model._kept, tmp_path / "table.csv"
    assert kept is not None
    lines = [",".join(kept.columns), *(",".join(map(str, row)) for row in kept.codes.tolist())]
    place.write_text("\n".join(lines) + "\n")
    model.save(tmp_path / "model.fgrn")
    assert main(["report", str(tmp_path / "model.fgrn"), str(place), "--profile"]) == 0
    assert "Estimates on the boundary\nitem" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "model.fgrn"), "--profile"]) == 2
    assert "--profile needs DATA" in capsys.readouterr().err


def test_what_is_asked_for_must_be_there(model: fgrn.LatentClassModel) -> None:
    for wrong in ("q9", [("q1", 5, 1)], [("q1", 1)]):
        with pytest.raises(fgrn.FgrnError):
            model.profile_intervals(wrong)
    with pytest.raises(fgrn.LearningError, match="between 0 and 1"):
        model.profile_intervals(level=95)
    with pytest.raises(fgrn.LearningError, match="class size"):
        fgrn.LatentClassModel(2, constraints=[("fixed", "S", None, 0, 0.3)]).fit({"a": [0, 1], "b": [1, 0]})
    smooth = fgrn.LatentClassModel(2, random_state=0, n_init=1).fit({"a": [0, 1, 1, 0] * 9, "b": [0, 1, 0, 0] * 9})
    assert isinstance(str(smooth.profile_intervals()), str)
