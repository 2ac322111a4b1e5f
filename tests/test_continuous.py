"""Continuous columns (Gaussian leaves): against mixtures of scikit-learn, hmmlearn, and densities written out."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

import fgrn
from fgrn import Network, Source, Variable
from fgrn.cli import main
from fgrn.core.exceptions import FgrnWarning
from fgrn.estimators import _kept_rows
from fgrn.flow import gaussian_leaves, leaf_estep
from fgrn.flow.gaussian_leaves import GaussianLeaves, Moments
from fgrn.queries.forecasts import Forecast
from fgrn.statistics.bootstrap import drawn_from_model
from fgrn.statistics.fisher_information import information

NAMES = ("a", "b", "c")


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Three classes that differ in three numbers of different units and in two questions; some values are missing."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, 3, rows)
    means = np.array([[0, 0, 0], [4, 1, 0], [-3, 2, 3]])
    values = 100 + 10 * (means[number] + rng.normal(size=(rows, 3)) * [1, 2, 0.5])
    values *= [1, 0.01, 100]
    values[rng.random(values.shape) < 0.1] = np.nan
    table = pd.DataFrame(values, columns=NAMES)
    table["smokes"] = np.where(rng.random(rows) < np.array([0.1, 0.5, 0.9])[number], "yes", "no")
    table["region"] = rng.integers(0, 2, rows) + number
    table.loc[rng.random(rows) < 0.1, "smokes"] = None
    return table


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(3, continuous=NAMES, random_state=0, n_init=3).fit(table)


def log_joint(model: Any, table: pd.DataFrame) -> np.ndarray:
    """log P(row, class), value by value."""
    out = np.tile(np.log(model.weights_), (len(table), 1))
    for place, name in enumerate(model.continuous_):
        values = table[name].to_numpy()[:, None]
        dense = norm.logpdf(values, model.means_[:, place], np.sqrt(model.variances_[:, place]))
        out += np.where(np.isnan(values), 0.0, dense)
    for name, levels in model.schema_.states.items():
        for level, column in zip(levels, model.network_.table(name).T, strict=True):
            out += np.where((table[name] == level).to_numpy()[:, None], np.log(column), 0.0)
    return out


def test_likelihood_and_memberships_are_those_of_the_densities(model: Any, table: pd.DataFrame) -> None:
    joint = log_joint(model, table)
    np.testing.assert_allclose(model.score_samples(table), logsumexp(joint, axis=1), rtol=1e-10)
    memberships = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(table), memberships, atol=1e-10)
    assert model.history_.log_likelihood[-1] == pytest.approx(model.score_samples(table).sum(), rel=1e-7)


@pytest.mark.parametrize("covariance", ["diagonal", "spherical", "tied"])
def test_an_update_is_the_weighted_moments(covariance: str, table: pd.DataFrame) -> None:
    model = fgrn.LatentClassModel(
        3, continuous=NAMES, covariance=covariance, n_epochs=4, tol=0, random_state=1, n_init=1
    )
    before = model.fit(table).network_.copy()
    weight = np.arange(1.0, len(table) + 1) % 3
    after = before.copy()
    columns = model.schema_.codes({name: table[name] for name in table})
    after.learn(columns, epochs=1, weights=weight, smoothing=0.01)
    share = model.predict_proba(table) * weight[:, None]
    values = table[list(NAMES)].to_numpy()
    known = ~np.isnan(values)
    total = share.T @ known
    means = share.T @ np.where(known, values, 0) / total
    away = np.where(known[None], values[None] - means[:, None], 0.0)  # (classes, rows, columns)
    squares = (share.T[:, :, None] * away**2).sum(axis=1)
    axis: Any = {"diagonal": (), "spherical": (1,), "tied": (0,)}[covariance]
    variances = squares.sum(axis=axis, keepdims=True) / total.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(after.moments.means, means, rtol=1e-9)
    np.testing.assert_allclose(after.moments.variances, np.broadcast_to(variances, means.shape), rtol=1e-9)
    states = 3 * 3 + {"diagonal": 9, "spherical": 3, "tied": 3}[covariance]
    assert before.free_parameters == 2 + 3 * (1 + 3) + states


@pytest.mark.parametrize(("covariance", "theirs"), [("diagonal", "diag"), ("spherical", "spherical")])
def test_mixtures_of_scikit_learn_have_the_same_maximum(covariance: str, theirs: str, table: pd.DataFrame) -> None:
    values = table[list(NAMES)].dropna().to_numpy()
    peer = GaussianMixture(3, covariance_type=theirs, tol=1e-10, max_iter=2000, reg_covar=0.0, random_state=0).fit(
        values
    )
    leaves = GaussianLeaves.of("S", 3, NAMES, covariance, values, np.ones(len(values)))
    net = Network([Source(Variable("S", 3), peer.weights_)], leaves=leaves)
    variances = peer.covariances_ if theirs == "diag" else np.repeat(peer.covariances_[:, None], 3, axis=1)
    rest = leaves.parameters_of(Moments(peer.means_, variances))
    net._parameters = type(net._parameters)(np.concatenate([net._tables, rest]))
    table_of_numbers = dict(zip(NAMES, values.T, strict=True))
    found = net.propagate(table_of_numbers)
    assert found.log_likelihood.mean() == pytest.approx(peer.score(values), abs=1e-9)
    np.testing.assert_allclose(found.marginal("S"), peer.predict_proba(values), atol=1e-9)
    net.learn(table_of_numbers, epochs=300, tolerance=1e-13, accelerate=True)
    assert net.propagate(table_of_numbers).log_likelihood.mean() == pytest.approx(peer.score(values), abs=1e-6)
    np.testing.assert_allclose(net.moments.means, peer.means_, rtol=1e-3)


def test_em_never_lowers_the_likelihood_not_even_at_the_limit_of_variances() -> None:
    rng = np.random.default_rng(3)
    table = {"x": np.concatenate([np.full(30, 5.0), rng.normal(size=70)]), "y": rng.normal(size=100)}
    with pytest.warns(fgrn.FgrnWarning, match="at its limit"):
        model = fgrn.LatentClassModel(2, continuous=["x"], n_epochs=200, random_state=0, tol=1e-10).fit(table)
    assert (np.diff(model.history_.objective) >= -1e-8).all()
    whole = np.var(table["x"])
    assert model.variances_.min() == pytest.approx(1e-6 * whole)


def test_auto_takes_the_columns_that_would_have_bins(table: pd.DataFrame) -> None:
    model = fgrn.LatentClassModel(2, continuous="auto", n_epochs=3, tol=0, n_init=1, random_state=0).fit(table)
    assert model.continuous_ == NAMES
    assert "numbers" in repr(model.schema_)
    binned = fgrn.LatentClassModel(2, n_epochs=3, tol=0, n_init=1, random_state=0).fit(table)
    assert binned.continuous_ == ()
    array = table[["a", "region"]].dropna().to_numpy()
    named = fgrn.LatentClassModel(2, continuous=[0], n_epochs=3, tol=0, n_init=1, random_state=0).fit(array)
    assert named.continuous_ == ("x0",)


def test_weights_are_repeated_rows(table: pd.DataFrame) -> None:
    weight = np.arange(len(table)) % 3
    settings: dict[str, Any] = {"continuous": NAMES, "n_epochs": 20, "tol": 0, "n_init": 1, "random_state": 0}
    one = fgrn.LatentClassModel(2, **settings).fit(table, sample_weight=weight)
    other = fgrn.LatentClassModel(2, **settings).fit(table.loc[np.repeat(table.index, weight)])
    np.testing.assert_allclose(one.means_, other.means_, rtol=1e-9)


def test_missing_numbers_become_expected_ones(model: Any, table: pd.DataFrame) -> None:
    done, sure = model.complete(table, return_proba=True)
    assert not done.isna().any().any()
    gone = table["b"].isna().to_numpy()
    expected = model.predict_proba(table) @ model.means_[:, 1]
    np.testing.assert_allclose(done["b"][gone], expected[gone], rtol=1e-12)
    assert (done["b"][~gone] == table["b"][~gone]).all()
    assert (sure[gone, 1] == 0).all()
    assert (sure[~gone, 1] == 1).all()


def test_samples_have_the_moments_of_their_class(model: Any) -> None:
    rows, classes = model.sample(4000)
    for k in range(3):
        mine = rows[list(NAMES)][classes == k].to_numpy(dtype=float)
        spread = np.sqrt(model.variances_[k])
        np.testing.assert_allclose(mine.mean(axis=0), model.means_[k], atol=5 * spread.max() / np.sqrt(len(mine)))
        np.testing.assert_allclose(mine.std(axis=0) / spread, 1, atol=0.1)


def test_contributions_of_numbers_sum_to_the_log_odds(model: Any, table: pd.DataFrame) -> None:
    found = model.explain(table.iloc[3].dropna().to_dict())
    assert set(found.contributions) >= set(NAMES) & set(table.iloc[3].dropna().index)
    assert found.prior + sum(found.contributions.values()) == pytest.approx(found.log_odds)


def test_a_model_file_has_means_and_variances(model: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.network_ == model.network_
    assert (again.score_samples(table) == model.score_samples(table)).all()
    assert again.continuous_ == NAMES
    assert str(again.report()) == str(model.report())
    order = [2, 0, 1]
    moved = again.relabel(order).report()
    assert [one.error for one in moved.errors.of("mean", "a")] == [
        model.report().errors.of("mean", "a")[k].error for k in order
    ]
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.variances_ == model.variances_).all()


def test_a_checkpoint_goes_on_to_the_same_bits(table: pd.DataFrame, tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    settings: dict[str, Any] = {"continuous": NAMES, "tol": 0, "n_init": 2, "random_state": 0, "engine": "cpu"}
    fgrn.LatentClassModel(2, n_epochs=4, checkpoint=place, **settings).fit(table)
    resumed = fgrn.Checkpoint(place, resume=True)
    one = fgrn.LatentClassModel(2, n_epochs=8, checkpoint=resumed, **settings).fit(table)
    assert one.network_ == fgrn.LatentClassModel(2, n_epochs=8, **settings).fit(table).network_


def test_classes_in_another_order_take_their_means_along(table: pd.DataFrame) -> None:
    model = fgrn.LatentClassModel(3, continuous=NAMES, n_epochs=5, tol=0, n_init=1, random_state=0).fit(table)
    means, score = model.means_.copy(), model.score(table)
    model.relabel([2, 0, 1])
    np.testing.assert_array_equal(model.means_, means[[2, 0, 1]])
    assert model.score(table) == pytest.approx(score)


def test_a_row_without_any_known_value_says_nothing(model: Any, table: pd.DataFrame) -> None:
    nothing = table.iloc[:1].copy()
    nothing.loc[:, list(NAMES)] = np.nan
    nothing["smokes"], nothing["region"] = None, np.nan
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.weights_)
    assert model.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-12)


def test_far_numbers_leave_no_class_without_probability(model: Any, table: pd.DataFrame) -> None:
    far = table.iloc[:1].copy()
    far["a"] = 1e6
    found = model.predict_proba(far)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1.0)
    assert np.isfinite(model.score_samples(far)).all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"a": 3.0}, "all its known numbers are equal"),
        ({"a": "word"}, "it holds words, such as 'word', and no numbers. Leave out continuous='a'"),
        ({"a": ["word", *range(399)]}, "it holds numbers, and 'word' is not a number"),
        ({"a": None}, "it has no known number"),
        ({"a": np.inf}, "is not a finite number"),
    ],
)
def test_columns_that_cannot_be_continuous_are_refused(change: dict[str, Any], told: str, table: pd.DataFrame) -> None:
    with pytest.raises(fgrn.FgrnError, match=told):
        fgrn.LatentClassModel(2, continuous=NAMES).fit(table.assign(**change))


@pytest.mark.parametrize("continuous", ["auto", ["a"], None])
def test_infinity_is_no_number_whether_there_are_bins_or_not(continuous: Any, table: pd.DataFrame) -> None:
    with pytest.raises(fgrn.SchemaError, match=r"Row 3, 'a': inf is not a finite number\. Replace it"):
        fgrn.LatentClassModel(2, continuous=continuous).fit(table.assign(a=[*table["a"][:3], np.inf, *table["a"][4:]]))


def test_columns_of_an_earlier_fit_are_forgotten(table: pd.DataFrame) -> None:
    found = fgrn.LatentClassModel(2, continuous="auto", n_epochs=3, random_state=0).fit(table)
    assert found.continuous_
    assert found.fit(table[["smokes", "region"]]).continuous_ == ()
    found.set_params(continuous=["a"]).fit(table)
    assert found.set_params(continuous=None).fit(table).continuous_ == ()


@pytest.mark.parametrize("accelerate", [False, True])
def test_means_are_learnt_only_where_they_are_named(model: Any, table: pd.DataFrame, accelerate: bool) -> None:
    net, before = model.network_.copy(), model.network_.moments
    shifted = table.assign(a=table["a"] + 5, b=table["b"] + 5)
    net.learn(shifted, epochs=4, starts=2, accelerate=accelerate, only=["smokes"])
    np.testing.assert_array_equal(net.moments, before)
    net.learn(shifted, epochs=4, starts=2, accelerate=accelerate, only=["a"])
    moved = (np.array(net.moments) != before).any(axis=(0, 1))
    assert moved.tolist() == [True, False, False]
    net.learn(table[["smokes", "region"]], epochs=1)  # without any of the columns: their numbers are missing
    assert np.isfinite(net.moments).all()


def test_one_variance_of_all_columns_is_learnt_from_all(table: pd.DataFrame) -> None:
    found = fgrn.LatentClassModel(2, continuous=NAMES, covariance="spherical", n_epochs=2, random_state=0).fit(table)
    with pytest.raises(fgrn.LearningError, match="spherical"):
        found.network_.learn(table, epochs=1, only=["a"])


def test_numbers_whose_powers_overflow_are_refused(model: Any, table: pd.DataFrame) -> None:
    large = table.assign(a=table["a"].where(table.index > 0, 1e160))
    named = fgrn.LatentClassModel(2, continuous=["a"])
    for act in (model.predict_proba, model.report, model.network_.learn, named.fit):
        with pytest.raises(fgrn.FgrnError, match=r"beyond 1e[+]50"):
            act(large)


def test_batches_of_numbers_give_the_model_of_all_rows(tmp_path: Path) -> None:
    rows = people(3000, seed=4)
    settings: dict[str, Any] = {"continuous": NAMES, "n_init": 2, "random_state": 0}
    whole = fgrn.LatentClassModel(3, **settings).fit(rows)
    online = fgrn.LatentClassModel(3, **settings)
    for first in range(0, 3000, 300):
        online.partial_fit(rows.iloc[first : first + 300])
    assert online.score(rows) == pytest.approx(whole.score(rows), abs=0.01)
    online.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn").partial_fit(rows.iloc[:300])
    np.testing.assert_allclose(again.means_, online.partial_fit(rows.iloc[:300]).means_, rtol=1e-12)
    rows.assign(w=1.0).to_csv(tmp_path / "rows.csv", index=False)
    read = fgrn.LatentClassModel(3, **settings).fit(tmp_path / "rows.csv", sample_weight="w")
    np.testing.assert_allclose(read.means_, whole.means_, rtol=1e-6)
    batches = fgrn.Stream(tmp_path / "rows.csv", rows=500)
    streamed = fgrn.LatentClassModel(3, **settings).partial_fit(batches, sample_weight="w")
    assert streamed.score(rows) == pytest.approx(whole.score(rows), abs=0.02)
    more = whole.partial_fit(rows.iloc[:100])  # after fit: the rows so far stand for what the model expects
    np.testing.assert_allclose(more.means_, read.means_, rtol=0.05)


@pytest.mark.parametrize("covariance", ["diagonal", "spherical", "tied"])
def test_rows_in_files_give_the_same_bits_and_stay_on_disk(tmp_path: Path, monkeypatch: Any, covariance: str) -> None:
    monkeypatch.setattr(leaf_estep, "ROWS_OF_PART", 256)
    monkeypatch.setattr(gaussian_leaves, "UNITS_AT_ONCE", 256)
    rows = people(1100, seed=5).round(3)
    rows["w"] = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], len(rows))
    rows.loc[::17, "a"] = np.nan
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for part in range(2):
        rows.iloc[part * 550 : part * 550 + 550].to_parquet(tmp_path / f"rows{part}.parquet")
    settings: dict[str, Any] = {"continuous": NAMES, "n_init": 2, "random_state": 0, "covariance": covariance}
    whole = fgrn.LatentClassModel(3, **settings).fit(rows.drop(columns="w"), sample_weight=rows["w"])
    seen: list[Any] = []
    learn = Network.learn

    def watched(net: Network, data: Any, **options: Any) -> Any:
        seen.append(data)
        return learn(net, data, **options)

    monkeypatch.setattr(Network, "learn", watched)
    for source in ("rows.csv", "rows*.parquet"):
        stream = fgrn.Stream(tmp_path / source, rows=90)
        read = fgrn.LatentClassModel(3, **settings).fit(stream, sample_weight="w")
        assert seen[-1].place == "disk"
        assert not seen[-1].numbers.flags.owndata
        assert read.network_ == whole.network_
        assert np.array_equal(read.network_._parameters.values, whole.network_._parameters.values)
        assert np.array_equal(read.history_.log_likelihood, whole.history_.log_likelihood)
    compared = fgrn.LatentClassModel(**settings | {"continuous": "auto"})
    sizes = [
        [(one.n_hidden, one.bic) for one in compared.compare(source, [1, 2]).candidates]
        for source in (rows.drop(columns="w"), fgrn.Stream(tmp_path / "rows.csv", drop=["w"], rows=90))
    ]
    assert sizes[0] == sizes[1]
    again = whole.network_.copy()
    again.learn(fgrn.Stream(tmp_path / "rows.csv", rows=90), weights="w", epochs=3)
    here = whole.network_.copy()
    here.learn(rows.drop(columns="w").astype(object).where(rows.notna(), None), weights=rows["w"], epochs=3)
    assert np.array_equal(again._parameters.values, here._parameters.values)


@pytest.mark.parametrize("names", [NAMES, (*NAMES, "smokes")])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_a_small_file_are_kept_for_analyses(tmp_path: Path, kind: str, names: tuple[str, ...]) -> None:
    rows, place = people(500, seed=6)[list(names)].round(3), tmp_path / f"rows.{kind}"
    rows.to_csv(place, index=False) if kind == "csv" else rows.to_parquet(place)
    settings: dict[str, Any] = {"continuous": NAMES, "n_init": 1, "random_state": 0}
    here, read = (fgrn.LatentClassModel(2, **settings).fit(source) for source in (rows, place))
    assert read._kept is not None
    assert read._kept.in_memory and read._kept.numbers.flags.owndata
    place.unlink()
    assert str(read.report()) == str(here.report())
    pd.testing.assert_frame_equal(read.standard_errors().to_frame(), here.standard_errors().to_frame())
    assert str(read.bootstrap_lrt(n_bootstrap=2)) == str(here.bootstrap_lrt(n_bootstrap=2))


def test_the_command_reports_on_numbers_read_in_batches(tmp_path: Path, capsys: Any) -> None:
    place, saved = tmp_path / "k.csv", str(tmp_path / "k.fgrn")
    people(200)[["a", "smokes"]].to_csv(place, index=False)
    fit = ["fit", str(place), "--model", "clusters", "--hidden", "2", "--continuous", "a", "--seed", "0", "-o", saved]
    reports = []
    for how in ([], ["--stream"]):
        assert main([*fit, *how]) == 0
        capsys.readouterr()
        assert main(["report", saved]) == 0
        reports.append(capsys.readouterr().out)
    assert "mean" in reports[0]
    assert reports[0] == reports[1]


@pytest.mark.parametrize("on_disk", [False, True])
def test_numbers_count_among_the_cells_that_are_kept(tmp_path: Path, monkeypatch: Any, on_disk: bool) -> None:
    rows, place = people(50)[list(NAMES)], tmp_path / "rows.csv"
    rows.to_csv(place, index=False)
    for most, is_kept in ((150, True), (149, False)):
        monkeypatch.setattr(_kept_rows, "MOST_KEPT_CELLS", most)
        found = fgrn.LatentClassModel(2, continuous=NAMES, n_init=1).fit(place if on_disk else rows)
        assert (found._kept is not None) == is_kept


@pytest.mark.parametrize("shuffled", [False, True])
def test_sequences_in_files_give_the_same_bits(tmp_path: Path, shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    log = pd.DataFrame({"machine": np.repeat(["m", "n", "o"], 60), "hour": np.tile(np.arange(60), 3)})
    log["heat"] = rng.normal(size=180).round(3) + np.repeat([0, 3, 0], 60)
    log["state"] = rng.choice(["on", "off"], 180)
    log.loc[::7, "heat"] = np.nan
    log = log.sample(frac=1, random_state=0) if shuffled else log
    log.to_csv(tmp_path / "log.csv", index=False)
    settings: dict[str, Any] = {"continuous": ["heat"], "random_state": 0, "n_init": 2}
    fitted = [
        fgrn.HiddenMarkovModel(2, **settings).fit(source, sequence="machine", time="hour")
        for source in (log, fgrn.Stream(tmp_path / "log.csv", rows=50))
    ]
    assert np.array_equal(*(one.network_._parameters.values for one in fitted))
    assert fitted[1].n_rows_ == 180


def test_numbers_that_cannot_be_read_from_files_are_told(tmp_path: Path) -> None:
    people(60).assign(a="word").to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(fgrn.SchemaError, match="holds words") as caught:
        fgrn.LatentClassModel(2, continuous=["a"]).fit(tmp_path / "words.csv")
    assert caught.value.column == "a"
    people(60).assign(a=np.nan).to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(fgrn.SchemaError, match="no known number"):
        fgrn.LatentClassModel(2, continuous=["a"]).fit(tmp_path / "empty.csv")
    with pytest.raises(fgrn.LearningError, match="'cycles' must be 1: continuous columns are updated once an epoch"):
        fgrn.LatentClassModel(2, continuous=["b"], cycles=2).fit(fgrn.Stream(tmp_path / "empty.csv", drop=["a"]))
    rows = people(60)
    rows.loc[7, "a"] = 1e60
    rows.to_csv(tmp_path / "large.csv", index=False)
    with pytest.raises(fgrn.FgrnError, match="powers overflow"):
        fgrn.LatentClassModel(2, continuous=["a"]).fit(tmp_path / "large.csv")


@pytest.mark.parametrize("continuous", [["a"], [0], "auto"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_infinite_numbers_in_files_are_told_as_in_memory(
    tmp_path: Path, kind: str, method: str, continuous: Any
) -> None:
    rows, place = people(60)[["a", "smokes"]], tmp_path / f"rows.{kind}"
    rows.loc[3, "a"] = np.inf
    rows.to_csv(place, index=False) if kind == "csv" else rows.to_parquet(place)
    settings: dict[str, Any] = {"continuous": continuous, "n_epochs": 2, "n_init": 1}
    with pytest.raises(fgrn.TableFileError, match=r"row 3, column 'a': inf is not a finite number\. Rows are"):
        getattr(fgrn.LatentClassModel(2, **settings), method)(place)
    with pytest.warns(FgrnWarning, match=r"1 row was left out: 1 \(not a finite number, column 'a'\)"):
        getattr(fgrn.LatentClassModel(2, **settings), method)(fgrn.Stream(place, on_bad="skip"))
    with pytest.raises(fgrn.TableFileError, match=r"column 'a': inf is not a finite number"):
        schema = fgrn.Schema.infer(people(60)[["a", "smokes"]], continuous=["a"])
        getattr(fgrn.LatentClassModel(2, schema=schema, n_init=1), method)(place)


def test_numbers_that_a_network_cannot_take_are_left_out(model: Any, tmp_path: Path) -> None:
    rows = people(60)
    rows.loc[3, "a"], rows.loc[4, "b"] = -np.inf, 1e60
    rows.to_csv(tmp_path / "rows.csv", index=False)
    told = r"2 rows were left out: 1 \(not a finite number, column 'a'\).* 1 \(too large a number, column 'b'\)"
    with pytest.warns(FgrnWarning, match=told):
        model.network_.copy().learn(fgrn.Stream(tmp_path / "rows.csv", on_bad="skip"), epochs=1)


def test_the_command_tells_of_infinite_numbers_without_bins(model: Any, tmp_path: Path, capsys: Any) -> None:
    place, saved = str(tmp_path / "rows.csv"), str(tmp_path / "m.fgrn")
    rows = people(60)
    rows.loc[3, "a"] = np.inf
    rows.to_csv(place, index=False)
    model.save(saved)
    fit = ["fit", place, "--hidden", "2", "--starts", "1", "--epochs", "2", "-o", str(tmp_path / "o.fgrn")]
    commands = [[*fit, "--continuous", name, *how] for name in ("a", "auto") for how in ([], ["--stream"])]
    for command in [*commands, ["predict", saved, place], ["report", saved, place]]:
        assert main(command) != 0
        assert "row 3, column 'a': inf is not a finite number. Rows are" in capsys.readouterr().err
        main([*command, "--on-bad", "skip"])
        assert "1 row was left out: 1 (not a finite number, column 'a')" in capsys.readouterr().err


def test_impossible_rows_of_later_parts_keep_their_numbers(monkeypatch: Any) -> None:
    monkeypatch.setattr(leaf_estep, "ROWS_OF_PART", 16)
    rows = people(64).drop(columns=["region"])
    net = fgrn.LatentClassModel(2, continuous=NAMES, random_state=0, n_init=1).fit(rows).network_
    told = [[1.0, 1.0]] * 64
    told[50] = [0.0, 0.0]
    data = {name: rows[name].tolist() for name in NAMES} | {"S": told}
    with pytest.raises(fgrn.ImpossibleEvidence) as caught:
        net.learn(data, epochs=1)
    assert list(caught.value.rows) == [50]


def test_what_needs_levels_is_refused_in_words(model: Any, table: pd.DataFrame) -> None:
    with pytest.raises(fgrn.FgrnError, match="column 'z'"):
        fgrn.LatentClassModel(2, continuous=["z"]).fit(table)
    with pytest.raises(fgrn.LearningError, match="'cycles' must be 1: continuous columns are updated once") as caught:
        fgrn.LatentClassModel(2, continuous=NAMES, cycles=2).fit(table)
    assert (caught.value.setting, caught.value.value) == ("cycles", 2)
    with pytest.raises(fgrn.FgrnError, match="continuous columns"):
        model.goodness_of_fit()


def test_residuals_of_pairs_of_items_beside_numbers() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.random(300) < 0.4
    columns = {name: np.where(rng.random(300) < np.where(hidden, 0.8, 0.3), "a", "b") for name in ("p", "q")}
    rows = pd.DataFrame({**columns, "z": rng.normal(3.0 * hidden)})
    model = fgrn.LatentClassModel(2, continuous=["z"], random_state=0, n_init=1).fit(rows)
    (pair,) = model.bivariate_residuals().pairs
    counts = pd.crosstab(rows["p"], rows["q"]).to_numpy()
    tables = [model.network_.table(name) for name in ("p", "q")]
    expected = 300 * np.einsum("k,ka,kb->ab", model.weights_, *tables)
    assert pair.residual == pytest.approx(((counts - expected) ** 2 / expected).sum())
    with pytest.raises(fgrn.FgrnError, match="continuous columns"):
        fgrn.LatentClassModel(2, continuous=["z"], random_state=0, n_init=1).fit(rows[["p", "z"]]).bivariate_residuals()


# Standard errors


@pytest.mark.parametrize("covariance", ["diagonal", "spherical", "tied"])
def test_the_information_is_minus_the_second_derivatives(covariance: str, table: pd.DataFrame) -> None:
    units = table.assign(b=table["b"] * 100, c=table["c"] / 100)
    model = fgrn.LatentClassModel(2, continuous=NAMES, covariance=covariance, n_init=1, random_state=0).fit(units)
    classes, rows = model._analysed(None, None)
    known = information(classes, rows)
    exact = known.information

    def objective(away: np.ndarray) -> float:
        every = away[known.parameter]  # of each free logit of the prior and the tables, and each free mean and variance
        cells = known.cells.moved(every[: len(known.cells.free)])
        other = replace(classes.with_cells(cells[2:].reshape(2, -1)), prior=cells[:2])
        step = np.zeros(len(known.moments.boundary))
        step[known.moments.free] = every[len(known.cells.free) :]
        other = replace(other, numbers=classes.numbers.moved(step))
        smoothing = other.smoothing * np.log(other.cells).sum()
        return float((rows.weights * other.posterior(rows)[1]).sum() + smoothing)

    free, step = len(exact), 2e-3
    scale = step / np.sqrt(np.diag(exact) / len(table))  # of each parameter, by how sharp the likelihood is in it
    for i in range(free):
        j = (i + 3) % free
        one, other = scale[i] * np.eye(free)[i], scale[j] * np.eye(free)[j]
        corners = [objective(a * one + b * other) * a * b for a in (1, -1) for b in (1, -1)]
        found = -sum(corners) / (4 * scale[i] * scale[j])
        assert found == pytest.approx(exact[i, j], abs=1e-4 * np.sqrt(exact[i, i] * exact[j, j]))


def test_the_report_has_means_and_variances_with_standard_errors(model: Any, table: pd.DataFrame) -> None:
    report = model.report()
    assert report.log_likelihood == pytest.approx(model.score_samples(table).sum())
    assert report.criteria["BIC"] == pytest.approx(model.bic(table))
    text = str(report)
    assert "Means and variances (standard errors)" in text
    assert "smokes" in text
    frame = report.frames["estimates"]
    means = frame[(frame["what"] == "mean") & (frame["item"] == "a")]
    np.testing.assert_allclose(means["estimate"], model.means_[:, 0])
    sizes = model.predict_proba(table).T @ table["a"].notna()
    plain = np.sqrt(model.variances_[:, 0] / sizes)  # if the classes were known
    ratio = means["standard_error"].to_numpy() / plain
    assert (ratio > 1).all()
    assert (ratio < 2).all()
    for kind in ("robust", "outer"):
        other = model.standard_errors(kind=kind).of("mean", "a")
        np.testing.assert_allclose([one.error for one in other], means["standard_error"], rtol=0.3)
    assert report._repr_html_().startswith("<div><table>")
    assert not any(isinstance(v, float) and np.isnan(v) for one in report.as_dict()["estimates"] for v in one.values())


def test_memberships_of_numbers_are_regressed_and_have_outcomes(model: Any, table: pd.DataFrame) -> None:
    found = model.distal_outcome(table["a"], table)
    np.testing.assert_allclose(found.means, model.means_[:, 0], atol=3)
    regression = model.membership_regression({"r": np.arange(len(table)) % 5})
    assert regression.rows == len(table)
    assert np.isfinite(regression.coefficients).all()
    weight = (np.arange(len(table)) % 2).astype(float)
    half = fgrn.LatentClassModel(2, continuous=NAMES, n_init=1, n_epochs=9, tol=0, random_state=0)
    half.fit(table, sample_weight=weight)
    one, other = half.distal_outcome(table["region"]), half.distal_outcome(table["region"], table, weight)
    np.testing.assert_allclose(one.means, other.means)


def test_a_report_tells_of_variances_at_their_limit() -> None:
    rng = np.random.default_rng(3)
    table = {"x": np.concatenate([np.full(30, 5.0), rng.normal(size=70)])}
    with pytest.warns(fgrn.FgrnWarning, match="at its limit"):
        model = fgrn.LatentClassModel(2, continuous=["x"], random_state=0).fit(table)
    report = model.report()
    assert any("at the limit" in one for one in report.warnings)
    fixed = [one for one in report.errors.of("variance") if one.boundary]
    assert len(fixed) == 1
    assert fixed[0].error == 0


# Analyses of latent profiles


@pytest.fixture(scope="module")
def replicates(model: Any) -> Any:
    return model.bootstrap(n_bootstrap=40, n_init=1)


def test_a_bootstrap_has_the_errors_of_the_information(model: Any, replicates: Any) -> None:
    frame, exact = replicates.to_frame(), model.standard_errors().to_frame()
    assert (frame[["item", "what", "class", "level"]] == exact[["item", "what", "class", "level"]]).all().all()
    np.testing.assert_allclose(frame["estimate"], exact["estimate"], rtol=1e-12)
    inner = (exact["what"] == "mean").to_numpy()
    ratio = (frame["standard_error"] / exact["standard_error"])[inner]
    assert 0.8 < ratio.mean() < 1.25
    assert (replicates.low <= replicates.high).all()
    assert "mean" in str(replicates)


def test_rows_drawn_from_the_model_have_its_moments_and_its_missing_values(model: Any) -> None:
    classes, rows = model._analysed(None, None)
    drawn = drawn_from_model(classes, rows, np.random.default_rng(0))
    assert (np.isnan(drawn.numbers) == np.isnan(rows.numbers)).all()
    expected = classes.prior @ classes.numbers.means
    spread = np.sqrt(classes.prior @ (classes.numbers.variances + (classes.numbers.means - expected) ** 2))
    np.testing.assert_array_less(
        np.abs(np.nanmean(drawn.numbers, axis=0) - expected), 5 * spread / np.sqrt(len(rows.codes))
    )


def test_tests_of_one_class_more_with_numbers(table: pd.DataFrame) -> None:
    small = table.iloc[:150]
    one = fgrn.LatentClassModel(1, continuous=NAMES, random_state=0, n_init=1).fit(small)
    found = one.bootstrap_lrt(n_bootstrap=19, n_init=1)
    two = fgrn.LatentClassModel(2, continuous=NAMES, random_state=0, n_init=4, tol=1e-10).fit(small)
    values = [float(m.score_samples(small).sum()) for m in (one, two)]
    assert found.ratio == pytest.approx(2 * (values[1] - values[0]), rel=1e-3)
    assert found.p == pytest.approx(0.05)
    quick = one.vuong_lrt()
    assert quick.ratio == pytest.approx(found.ratio, rel=1e-3)
    assert quick.p < 0.05


def test_drawn_tables_keep_what_is_known_and_draw_numbers(model: Any, table: pd.DataFrame) -> None:
    done = model.draws(table, 3)
    gone = table["b"].isna().to_numpy()
    for one in done:
        assert not one.isna().any().any()
        assert (one["b"][~gone] == table["b"][~gone]).all()
    assert (done[0]["b"][gone] != done[1]["b"][gone]).all()
    spread = np.std([one["b"][gone] for one in done], axis=0).mean()
    assert spread == pytest.approx(np.sqrt(model.variances_[:, 1]).mean(), rel=0.5)


def test_errors_of_a_survey_with_numbers(model: Any, table: pd.DataFrame) -> None:
    twice = pd.concat([table, table], ignore_index=True)
    number = np.tile(np.arange(len(table)), 2)
    robust = model.standard_errors(table, kind="robust").of("mean")
    clustered = model.standard_errors(twice, clusters=number).of("mean")
    for one, other in zip(robust, clustered, strict=True):  # two equal rows of a cluster say no more than one
        assert other.error == pytest.approx(one.error * np.sqrt(len(table) / (len(table) - 1)), rel=1e-6)
    weights = np.full(len(table), 7.0)
    sampling = model.standard_errors(table, weights, weights="sampling").of("variance")
    plain = model.standard_errors(table, kind="robust").of("variance")
    np.testing.assert_allclose([one.error for one in sampling], [one.error for one in plain], rtol=0.02)


def test_two_solutions_with_numbers_are_compared(model: Any, table: pd.DataFrame) -> None:
    other = fgrn.LatentClassModel(2, continuous=NAMES, n_init=1, n_epochs=20, tol=0, random_state=0).fit(table)
    found = model.agreement(other)
    pairs = pd.crosstab(model.predict(table), other.predict(table)).to_numpy()
    np.testing.assert_array_equal(found.table[found.table.sum(axis=1) > 0], pairs)
    with pytest.raises(fgrn.FgrnError, match="same columns"):
        model.agreement(fgrn.LatentClassModel(2, n_epochs=2, tol=0, random_state=0).fit(table))


CONSTRAINTS = [
    ("fixed", "a", 0, "mean", 100.0),
    ("equal", ("a", 1, "mean"), ("a", 2, "mean")),
    ("equal", ("c", 0, "variance"), ("c", 1, "variance")),
    ("fixed", "b", 2, "variance", 0.05),
    ("fixed", "smokes", 1, "yes", 0.9),
]


@pytest.fixture(scope="module")
def held(table: pd.DataFrame) -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(
        3, continuous=NAMES, constraints=CONSTRAINTS, random_state=0, n_init=3, tol=1e-12, n_epochs=5000
    ).fit(table)


def test_means_and_variances_under_constraints(held: Any, table: pd.DataFrame) -> None:
    assert held.means_[0, 0] == pytest.approx(100)
    assert held.means_[1, 0] == pytest.approx(held.means_[2, 0], rel=1e-12)
    assert held.variances_[0, 2] == pytest.approx(held.variances_[1, 2], rel=1e-12)
    assert held.variances_[2, 1] == pytest.approx(0.05)
    assert held.network_.table("smokes")[1, 1] == pytest.approx(0.9)
    assert (np.diff(held.history_.objective) >= -1e-8).all()
    report = held.report()
    assert report.n_parameters == held.network_.free_parameters - 5
    assert report.errors.n_free <= report.n_parameters
    assert "100 (fixed)" in str(report)
    classes, rows = held._analysed(None, None)
    known = information(classes, rows)
    gradient = rows.weights @ known.scores
    tables = known.cells.free >= 3  # the prior is not smoothed
    gradient[: len(tables)] += np.where(tables, known.cells.smoothing_gradient(classes.smoothing), 0.0)
    size = np.sqrt(np.diag(known.information))
    np.testing.assert_allclose(gradient / size, 0, atol=1e-3)  # a maximum under the constraints


def test_constraints_hold_in_bootstraps_and_files(held: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    found = held.bootstrap(n_bootstrap=3, n_init=1).to_frame()
    fixed = found[(found["item"] == "a") & (found["what"] == "mean") & (found["class"] == 0)]
    assert fixed["standard_error"].iloc[0] < 1e-9
    held.save(tmp_path / "m.fgrn")
    assert str(fgrn.load(tmp_path / "m.fgrn").report()) == str(held.report())


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (("fixed", "a", 3, "mean", 1.0), "number of a class; these are 0 to 1"),
        (("fixed", "a", 0, "variance", -1.0), "positive number"),
        (("fixed", "a", 0, "median", 1.0), "not one of them"),
        (("equal", ("a", 0, "mean"), ("b", 0, "mean")), "different columns"),
        (("zero", "a", 0, "mean"), "not one of them"),
    ],
)
def test_constraints_of_numbers_that_cannot_be_are_refused(entry: Any, told: str, table: pd.DataFrame) -> None:
    with pytest.raises(fgrn.LearningError, match=told):
        fgrn.LatentClassModel(2, continuous=NAMES, constraints=[entry], n_epochs=2).fit(table)


def test_an_imputer_takes_continuous_columns(table: pd.DataFrame) -> None:
    imputer = fgrn.LatentImputer(3, continuous=NAMES, random_state=0).set_output(transform="pandas")
    done = imputer.fit_transform(table)
    assert not done.isna().any().any()
    rng = np.random.default_rng(0)
    hidden = table.copy()
    hidden.loc[rng.random(len(table)) < 0.2, "a"] = np.nan
    gone = hidden["a"].isna() & table["a"].notna()
    found = imputer.transform(hidden)["a"][gone] - table["a"][gone]
    plain = table["a"].mean() - table["a"][gone]
    assert (found**2).mean() < 0.5 * (plain**2).mean()
    drawn = imputer.draws(table, 2)
    assert not any(one.isna().any().any() for one in drawn)
    with pytest.raises(fgrn.FgrnError, match="density"):
        imputer.predict_proba(table, "a")


def test_groups_may_differ_in_means() -> None:
    rng = np.random.default_rng(2)
    number, group = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    table = pd.DataFrame({"a": 4 * number + rng.normal(size=400), "b": 3 * number + group + rng.normal(size=400)})
    table["q"] = (rng.random(400) < 0.2 + 0.6 * number).astype(int)
    table.loc[rng.random(400) < 0.1, "a"] = np.nan
    model = fgrn.LatentClassModel(2, continuous=["a", "b"], n_init=2, random_state=0).fit(table)
    found = model.compare_groups(group, n_init=1)
    assert found.test("b").p < 1e-6
    assert found.test("a").p > 0.01
    assert found.test("q").p > 0.01
    assert [found.test(name).df for name in ("a", "b", "q", "measurement")] == [4, 4, 2, 10]
    frame = found.frames["items"]
    means = frame[(frame["item"] == "b") & (frame["level"] == "mean")]
    apart = means[means["group"] == "1"]["free"].to_numpy() - means[means["group"] == "0"]["free"].to_numpy()
    np.testing.assert_allclose(apart, 1, atol=0.6)
    # where all is free, groups are models of their own
    settings: dict[str, Any] = {"continuous": ["a", "b"], "n_init": 3, "random_state": 0, "tol": 1e-10}
    alone = [fgrn.LatentClassModel(2, **settings).fit(table[group == g]) for g in range(2)]
    total = sum(m.score_samples(table[group == g]).sum() for g, m in enumerate(alone))
    assert found.models[2].log_likelihood == pytest.approx(total, abs=0.01)


@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_covariates_of_profiles_in_one_step_and_two(covariance: str) -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(size=500)
    number = (rng.random(500) < 1 / (1 + np.exp(-(0.3 + z)))).astype(int)
    table = pd.DataFrame({"a": 3 * number + rng.normal(size=500), "b": 2 * number + rng.normal(size=500)})
    table.loc[rng.random(500) < 0.1, "a"] = np.nan
    table["q"] = (rng.random(500) < 0.2 + 0.5 * number).astype(int)
    model = fgrn.LatentClassModel(2, continuous=["a", "b"], covariance=covariance, random_state=0).fit(table)
    model.relabel([int(k) for k in np.argsort(model.means_[:, 0])])
    one, two = (model.membership_regression({"z": z}, steps=steps) for steps in (1, 2))
    for found in (one, two):
        np.testing.assert_allclose(found.coefficients[1], [0.3, 1.0], atol=4 * found.errors[1].max())
        np.testing.assert_allclose(found.errors, one.errors, rtol=0.1)
    again = one.profiles.of("mean", "a")
    np.testing.assert_allclose([e.value for e in again], [0, 3], atol=0.3)
    joint = np.log(one.predict_proba({"z": z}))
    for k in range(2):
        for name in ("a", "b"):
            mean, variance = (one.profiles.of(what, name)[k].value for what in ("mean", "variance"))
            dense = norm.logpdf(table[name], mean, np.sqrt(variance))
            joint[:, k] += np.where(np.isnan(dense), 0.0, dense)
        shares = {e.level: e.value for e in one.profiles.of("probability", "q") if e.number == k}
        joint[:, k] += np.log(table["q"].map(shares))
    assert one.log_likelihood == pytest.approx(logsumexp(joint, axis=1).sum(), abs=1e-6)
    assert one.log_likelihood >= two.log_likelihood - 1e-6
    assert one.n_parameters == 2 + 2 + {"diagonal": 8, "tied": 6}[covariance]


def test_analyses_of_numbers_alone_also_of_a_class_of_one_row() -> None:
    x = np.random.default_rng(0).normal(size=30)
    with pytest.warns(fgrn.FgrnWarning, match="at its limit"):
        model = fgrn.LatentClassModel(2, continuous=["x"], random_state=0).fit({"x": x})
    assert np.isfinite(model.distal_outcome(x**2, steps=1).means).all()
    with pytest.raises(fgrn.FgrnError, match="separates"):
        model.membership_regression({"z": x}, steps=1)
    wide = np.concatenate([x, x + 5])
    plain = fgrn.LatentClassModel(2, continuous=["x"], random_state=0).fit({"x": wide})
    found = plain.membership_regression({"z": np.random.default_rng(1).normal(size=60)}, steps=1)
    assert np.isfinite(found.errors).all()
    assert found.n_parameters == 2 + 4
    for made in (model, plain):
        told = [str(made.report()), str(made.bootstrap(n_bootstrap=3, n_init=1)), str(made.vuong_lrt())]
        assert "nan" not in " ".join(told)


# Sequences


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Six machines whose temperature and noise depend on a state that moves on; some values are missing."""
    rng = np.random.default_rng(1)
    parts = []
    for number in range(6):
        state = np.cumsum(rng.random(60) < 0.08) % 2
        heat, noise = 20 + 15 * state + 3 * rng.normal(size=60), state + 0.5 * rng.normal(size=60)
        alarm = np.where(rng.random(60) < np.where(state, 0.6, 0.1), "on", "off")
        parts.append(pd.DataFrame({"machine": number, "hour": range(60), "heat": heat, "noise": noise, "alarm": alarm}))
    table = pd.concat(parts, ignore_index=True)
    table.loc[rng.random(len(table)) < 0.1, "heat"] = np.nan
    return table


@pytest.fixture(scope="module")
def chain(log: pd.DataFrame) -> fgrn.HiddenMarkovModel:
    start = {"heat": [20, 40]}
    model = fgrn.HiddenMarkovModel(["cool", "hot"], continuous="auto", tables=start, n_init=1, random_state=0)
    return model.fit(log.sample(frac=1, random_state=0), sequence="machine", time="hour")


def test_sequences_of_numbers_are_those_of_hmmlearn(log: pd.DataFrame) -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    numbers = log[["machine", "hour", "noise"]].assign(heat=log["heat"].fillna(20.0))
    settings: dict[str, Any] = {"smoothing": 0, "tol": 1e-12, "n_init": 1, "random_state": 0}
    model = fgrn.HiddenMarkovModel(2, continuous="auto", **settings)
    model.fit(numbers, sequence="machine", time="hour")
    peer = hmm.GaussianHMM(2, init_params="", covars_prior=0, covars_weight=0, means_weight=0, min_covar=0, n_iter=20)
    peer.startprob_, peer.transmat_ = model.initial_, model.transitions_
    peer.means_, peer.covars_ = model.means_, model.variances_
    values, lengths = numbers[["noise", "heat"]].to_numpy(), [60] * 6
    assert model.score_samples(numbers).sum() == pytest.approx(peer.score(values, lengths), abs=1e-6)
    np.testing.assert_allclose(model.predict_proba(numbers), peer.predict_proba(values, lengths), atol=1e-9)
    assert (model.predict(numbers) == peer.predict(values, lengths)).all()
    peer.fit(values, lengths)
    assert peer.score(values, lengths) == pytest.approx(model.score_samples(numbers).sum(), abs=1e-6)


def test_a_chain_of_rows_by_themselves_is_a_mixture(log: pd.DataFrame) -> None:
    numbers = log[["heat", "noise"]].to_numpy()
    start = ((20.0, 0.0), (30.0, 1.0))
    leaves = GaussianLeaves.of("S", 2, ("heat", "noise"), "diagonal", numbers, np.ones(len(log)), start)
    tables = {"alarm": [[0.5, 0.5], [0.2, 0.8]], "S": [0.5, 0.5]}
    states = {"alarm": ["off", "on"]}
    columns = {name: log[name].tolist() for name in ("alarm", "heat", "noise")}
    chain = fgrn.hmm(states, 2, tables=tables, leaves=leaves)
    mixture = fgrn.lvm(states, 2, tables={"alarm": tables["alarm"]}, prior=[0.5, 0.5], leaves=leaves)
    chain.learn({**columns, "sequence": list(range(len(log)))}, epochs=3)
    mixture.learn(columns, epochs=3)
    np.testing.assert_allclose(chain.moments.means, mixture.moments.means, rtol=1e-9)
    np.testing.assert_allclose(chain.moments.variances, mixture.moments.variances, rtol=1e-9)
    np.testing.assert_allclose(chain.table("alarm"), mixture.table("alarm"), rtol=1e-9)
    np.testing.assert_allclose(chain.prior("S"), mixture.prior("S"), rtol=1e-9)


def test_states_keep_the_meaning_of_the_means_they_start_from(chain: Any) -> None:
    assert chain.states_.tolist() == ["cool", "hot"]
    place = chain.continuous_.index("heat")
    assert chain.means_[0, place] == pytest.approx(20, abs=1)
    assert chain.means_[1, place] == pytest.approx(35, abs=1)


def test_forecasts_of_numbers_are_means_over_the_states(chain: Any, log: pd.DataFrame) -> None:
    found = chain.forecast(log, steps=3)
    expected, spread = found.numbers["heat"]
    place = chain.continuous_.index("heat")
    np.testing.assert_allclose(expected, found.states @ chain.means_[:, place])
    second = found.states @ (chain.variances_[:, place] + chain.means_[:, place] ** 2)
    np.testing.assert_allclose(spread**2, second - expected**2)
    assert "sd(heat)" in found.to_frame()
    assert "sd" in str(found)


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9])
def test_the_spread_of_a_forecast_does_not_depend_on_where_zero_is(far: float) -> None:
    means, variances = np.array([-1e-3, 1e-3]), np.array([1e-6, 4e-6])
    rates = np.full((2, 2), 0.5)
    scale = 1e3 if far == 1e9 else 1.0
    moments = {"x": Moments(far + scale * means, scale**2 * variances)}
    found = Forecast.of((0,), np.array([[1.0, 0.0]]), rates, 1, ("a", "b"), {}, {}, moments)
    assert found.numbers["x"][1][0, 0] == pytest.approx(scale * np.sqrt(3.5e-6), rel=1e-6)


def test_missing_numbers_of_sequences_are_expected_given_all_rows(chain: Any, log: pd.DataFrame) -> None:
    gone = log["heat"].isna().to_numpy()
    done = chain.complete(log)
    expected = chain.predict_proba(log) @ chain.means_[:, chain.continuous_.index("heat")]
    np.testing.assert_allclose(done["heat"][gone], expected[gone])
    assert (done["heat"][~gone] == log["heat"][~gone]).all()


def test_a_chain_with_numbers_is_saved_and_drawn_from(chain: Any, log: pd.DataFrame, tmp_path: Path) -> None:
    chain.save(tmp_path / "c.fgrn")
    again = fgrn.load(tmp_path / "c.fgrn")
    assert (again.score_samples(log) == chain.score_samples(log)).all()
    rows, states = chain.sample(2000)
    hot = rows["heat"][states == "hot"]
    assert hot.mean() == pytest.approx(chain.means_[1, chain.continuous_.index("heat")], abs=1)


def test_steps_that_were_inserted_do_not_count_in_the_criterion(log: pd.DataFrame) -> None:
    some = log[(log["hour"] % 5 != 3) & (log["machine"] < 2)]
    model = fgrn.HiddenMarkovModel("auto", max_hidden=2, n_init=1, n_epochs=2, tol=0, random_state=0)
    model.fit(some[["machine", "hour", "alarm"]], sequence="machine", time="hour")
    assert model.selection_.best.bic == pytest.approx(model.bic(some[["machine", "hour", "alarm"]]))


def test_sequences_come_from_files_too_and_continue_from_checkpoints(log: pd.DataFrame, tmp_path: Path) -> None:
    some = log[log["machine"] < 2]
    some.to_csv(tmp_path / "log.csv", index=False)
    settings: dict[str, Any] = {"continuous": ["heat"], "n_init": 1, "tol": 0, "random_state": 0, "engine": "cpu"}
    table = fgrn.HiddenMarkovModel(2, n_epochs=4, **settings).fit(some, sequence="machine", time="hour")
    place = tmp_path / "run.ckpt"
    model = fgrn.HiddenMarkovModel(2, n_epochs=2, checkpoint=place, **settings)
    model.fit(tmp_path / "log.csv", sequence="machine", time="hour")
    model.set_params(n_epochs=4, checkpoint=fgrn.Checkpoint(place, resume=True))
    model.fit(fgrn.Stream(tmp_path / "log.csv", rows=50), sequence="machine", time="hour")
    np.testing.assert_allclose(model.means_, table.means_, rtol=1e-9)
    np.testing.assert_allclose(model.transitions_, table.transitions_, rtol=1e-9)


def test_the_command_shows_continuous_columns_and_words_what_it_cannot(tmp_path: Path, capsys: Any) -> None:
    rows, model = str(tmp_path / "people.csv"), str(tmp_path / "m.fgrn")
    people(60)[["a", "smokes"]].to_csv(rows, index=False)
    options = ["--hidden", "2", "--continuous", "a", "--starts", "1", "--epochs", "20", "-o", model]
    assert main(["fit", rows, *options]) == 0
    fitted = fgrn.load(model)
    mean, spread = fitted.means_[1, 0], np.sqrt(fitted.variances_[1, 0])
    assert fitted.prototypes_.numbers[1]["a"] == (mean, spread)
    line = f"a: mean {mean:.4g}, standard deviation {spread:.3g}"
    assert line in str(fitted.prototypes_)
    assert line in fitted.prototypes_._repr_html_()
    capsys.readouterr()
    assert main(["prototypes", model]) == 0
    assert f"\n  {line}\n\n" in capsys.readouterr().out
    assert main(["prototypes", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["1"]["a"] == {"mean": mean, "sd": spread}
    assert main(["report", model]) == 0
    told = capsys.readouterr().out
    assert main(["report", model, rows]) == 0
    assert capsys.readouterr().out == told
    assert main(["complete", model, rows, "--draws", "2", "-o", str(tmp_path / "drawn.csv")]) == 0
    drawn = pd.read_csv(tmp_path / "drawn.csv")
    assert len(drawn) == 120
    assert not drawn.isna().any().any()
    assert main(["fit", rows, *options, "--stream"]) == 0


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_distribution_on_the_hidden_variable_is_in_the_likelihood_of_numbers(engine: str) -> None:
    rng = np.random.default_rng(0)
    state = rng.integers(0, 2, 200)
    y, known = rng.normal(2.0 * state, 1.0), np.where(state[:, None] == np.arange(2), 0.8, 0.2)
    leaves = GaussianLeaves.of("S", 2, ("y",), "diagonal", y[:, None], np.ones(200), ((0.0,), (1.0,)))
    net = fgrn.lvm({}, 2, prior=[0.5, 0.5], learn_prior=False, leaves=leaves)
    history = net.learn({"S": known, "y": y}, epochs=30, engine=engine)
    means, variances = (part[:, 0] for part in net.moments)
    dense = np.exp(-0.5 * (y[:, None] - means) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
    wanted = float(np.log((0.5 * known * dense).sum(axis=1)).sum())
    assert history.log_likelihood[-1] == pytest.approx(wanted, rel=1e-4)
    assert np.all(np.diff(history.log_likelihood) > -1e-9)
    found = net.propagate({"S": known, "y": y}, engine=engine)
    assert float(found.log_likelihood.sum()) == pytest.approx(wanted)
