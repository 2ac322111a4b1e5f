"""The estimators in scikit-learn, and with tables of users."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import fgrn
from fgrn.estimators import (
    DeepLatentClassifier,
    DiscreteICA,
    HiddenTreeModel,
    LatentClassifier,
    LatentClassModel,
    LatentImputer,
    NaiveBayesClassifier,
)

QUICK = {"n_epochs": 10, "random_state": 0, "engine": "reference"}
ESTIMATORS = [
    LatentClassifier(n_hidden=3, **QUICK),
    NaiveBayesClassifier(**QUICK),
    DeepLatentClassifier(random_state=0, engine="reference"),
    LatentClassModel(n_hidden=2, n_init=1, **QUICK),
    DiscreteICA(n_hidden=(2, 2), n_init=1, **QUICK),
    LatentImputer(n_hidden=2, n_init=1, **QUICK),
    HiddenTreeModel(n_hidden=2, n_trees=2, **QUICK),
]
CLASSIFIERS = ESTIMATORS[:3]
TRANSFORMERS = ESTIMATORS[3:]


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


MORE_CHECKS = [
    "check_dataframe_column_names_consistency",
    "check_n_features_in_after_fitting",
    "check_param_validation",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_inplace_ensure_writeable",
]


@pytest.mark.parametrize("check", MORE_CHECKS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_further_checks_of_scikit_learn(estimator: Any, check: str) -> None:
    if ("output" in check or "names_out" in check) and estimator in CLASSIFIERS:
        pytest.skip("for transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unseen levels, and arrays after frames
        getattr(estimator_checks, check)(name_of(estimator), clone(estimator))


def survey(rows: int = 300, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return the answers of two groups of people, with missing values."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "colour": np.where(rng.random(rows) < 0.2 + 0.6 * kind, "red", "blue").astype(object),
            "size": pd.Categorical.from_codes(
                np.minimum(rng.integers(0, 2, rows) + kind, 2), ["small", "medium", "large"], ordered=True
            ),
            "works": rng.random(rows) < 0.8 - 0.6 * kind,
            "age": rng.normal(30 + 25 * kind, 6),
            "children": rng.poisson(0.5 + 1.5 * kind),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "colour"] = None
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    answer = pd.Series(np.where(rng.random(rows) < 0.1, 1 - kind, kind), name="buys").map({0: "no", 1: "yes"})
    return frame, answer


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_every_kind_of_table_gives_the_same_result(estimator: Any) -> None:
    frame, answer = survey()
    plain = frame.astype({"size": object})
    mapping = {name: [None if pd.isna(v) else v for v in plain[name]] for name in plain}
    tables = {
        "pandas": plain,
        "polars": pl.DataFrame(mapping, strict=False),
        "arrow": pa.table(mapping),
        "mapping": mapping,
    }
    ask = "predict_proba" if hasattr(estimator, "predict_proba") else "score_samples"
    answers = {kind: getattr(clone(estimator).fit(table, answer), ask)(table) for kind, table in tables.items()}
    for kind, found in answers.items():
        np.testing.assert_allclose(found, answers["pandas"], rtol=1e-9, err_msg=kind)


def test_the_order_of_categories_is_kept() -> None:
    frame, answer = survey()
    model = LatentClassifier(n_hidden=2, **QUICK).fit(frame, answer)
    assert model.schema_["size"].levels == ("small", "medium", "large")
    assert model.schema_["size"].ordered
    assert model.schema_["works"].levels == (False, True)
    assert model.schema_["age"].is_binned
    assert not model.schema_["children"].is_binned


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_classifiers_learn_what_there_is(estimator: Any) -> None:
    frame, answer = survey(600)
    model = clone(estimator).set_params(n_epochs=40).fit(frame[:400], answer[:400])
    assert model.score(frame[400:], answer[400:]) > 0.8
    assert set(model.classes_) == {"no", "yes"}
    assert cross_val_score(estimator, frame, answer, cv=3).mean() > 0.7


def test_naive_bayes_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 4, (200, 5)), rng.integers(0, 3, 200)
    ours = NaiveBayesClassifier(smoothing=1.0, n_epochs=2, tol=0.0, engine="reference").fit(X, y)
    theirs = CategoricalNB(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)


def test_rows_whose_class_is_unknown_help() -> None:
    frame, answer = survey(800, seed=3)
    known = answer.astype(object).copy()
    known[20:] = None
    few = LatentClassifier(n_hidden=4, smoothing=0.5, n_epochs=60, random_state=0).fit(frame[:20], answer[:20])
    with_others = LatentClassifier(n_hidden=4, smoothing=0.5, n_epochs=60, random_state=0).fit(frame, known)
    test, truth = survey(500, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.UnseenLevelWarning)
        assert with_others.score(test, truth) > few.score(test, truth)


def test_an_unseen_level_is_unknown_with_one_warning() -> None:
    frame, answer = survey()
    model = LatentClassifier(n_hidden=2, **QUICK).fit(frame, answer)
    other = frame.assign(colour="green")
    with pytest.warns(fgrn.UnseenLevelWarning, match="'colour'.*'green'.*blue, red") as caught:
        found = model.predict_proba(other)
    assert len(caught) == 1
    np.testing.assert_allclose(found, model.predict_proba(frame.assign(colour=None)))
    with pytest.raises(fgrn.SchemaError, match="green"):
        model.set_params(unseen="error").predict(other)


def test_weights_are_repeated_rows() -> None:
    frame, answer = survey(80)
    times = np.random.default_rng(0).integers(0, 4, len(frame))
    repeated = frame.iloc[np.repeat(np.arange(len(frame)), times)]
    settings = {"n_hidden": 2, "n_epochs": 15, "random_state": 0, "engine": "reference"}
    one = LatentClassifier(**settings).fit(frame, answer, sample_weight=times)
    other = LatentClassifier(**settings).fit(repeated, answer.loc[repeated.index])
    assert one.schema_ == other.schema_
    np.testing.assert_allclose(one.predict_proba(frame), other.predict_proba(frame), rtol=1e-6)


def test_grid_search_pipelines_and_pickles() -> None:
    frame, answer = survey(200)
    frame = frame.drop(columns="children")  # a number that one fold has not seen would be warned about
    search = GridSearchCV(LatentClassifier(**QUICK), {"n_hidden": [1, 3], "smoothing": [0.1, 1.0]}, cv=2)
    search.fit(frame, answer)
    assert search.best_params_["n_hidden"] in (1, 3)
    words = frame[["colour", "size"]]
    pipe = make_pipeline(LatentImputer(n_hidden=2, n_init=1, **QUICK), OneHotEncoder(), LogisticRegression())
    assert pipe.fit(words, answer).score(words, answer) > 0.6
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(frame), search.best_estimator_.predict_proba(frame))


def test_read_only_memory(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (100, 4)).astype(float), rng.integers(0, 2, 100)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for estimator in ESTIMATORS:
        model = clone(estimator).fit(mapped, y)
        model.score_samples(mapped)
        model.complete(mapped)


def test_not_fitted() -> None:
    for estimator in ESTIMATORS:
        with pytest.raises(NotFittedError):
            clone(estimator).score_samples([[1]])


def test_contributions_sum_to_the_log_odds() -> None:
    frame, answer = survey()
    for estimator in [*CLASSIFIERS, ESTIMATORS[3]]:
        model = clone(estimator).fit(frame, answer)
        proba = model.predict_proba(frame[:20])
        for row in range(20):
            for code, target in enumerate(getattr(model, "classes_", range(2))):
                found = model.explain(frame.iloc[[row]], target)
                odds = np.log(proba[row, code]) - np.log(np.delete(proba[row], code).sum())
                assert found.log_odds == pytest.approx(odds, rel=1e-9, abs=1e-9)
                total = found.prior + sum(found.contributions.values())
                assert total == pytest.approx(odds, rel=1e-9, abs=1e-9)
                assert set(found.contributions) == {name for name in frame if not pd.isna(frame[name].iloc[row])}


def test_naive_bayes_contributions_are_ratios_of_its_tables() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 3, (100, 4)), rng.integers(0, 2, 100)
    model = NaiveBayesClassifier(engine="reference", n_epochs=1).fit(X, y)
    found = model.explain([0, 1, 2, 0], 1)
    theirs = CategoricalNB(alpha=1.0).fit(X, y)
    for column, value in enumerate([0, 1, 2, 0]):
        table = theirs.feature_log_prob_[column]
        assert found.contributions[f"x{column}"] == pytest.approx(table[1, value] - table[0, value])


def test_completion_keeps_what_is_known_and_its_kind() -> None:
    frame, _ = survey()
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(frame)
    filled, sure = model.complete(frame, return_proba=True)
    assert not filled.isna().any().any()
    known = frame.notna()
    for name in frame:
        assert (filled[name][known[name]] == frame[name][known[name]]).all()
        assert filled[name].dtype == frame[name].dtype
    assert (sure[known.to_numpy()] == 1).all()
    assert (sure[~known.to_numpy()] < 1).all()
    array = frame[["age"]].to_numpy()
    other = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(array).complete(array)
    assert isinstance(other, np.ndarray)
    assert other.dtype == np.float64
    assert not np.isnan(other).any()
    polars = pl.DataFrame({"colour": [None if pd.isna(v) else v for v in frame["colour"]]})
    assert isinstance(LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(polars).complete(polars), pl.DataFrame)


def test_criteria_of_a_latent_class_model() -> None:
    frame, _ = survey()
    model = LatentClassModel(n_hidden=3, n_init=1, **QUICK).fit(frame)
    levels = [len(column.levels) for column in model.schema_.values()]
    free = 2 + 3 * sum(n - 1 for n in levels)
    assert model.network_.free_parameters == free
    total = model.score_samples(frame).sum()
    assert model.aic(frame) == pytest.approx(2 * free - 2 * total)
    assert model.bic(frame) == pytest.approx(free * np.log(len(frame)) - 2 * total)
    assert model.score(frame) == pytest.approx(total / len(frame))
    proba = model.predict_proba(frame)
    entropy = -(proba * np.log(proba)).sum() / (len(frame) * np.log(3))
    assert model.relative_entropy(frame) == pytest.approx(1 - entropy)
    np.testing.assert_array_equal(model.predict(frame), proba.argmax(axis=1))


def test_the_number_of_hidden_states_is_found() -> None:
    frame, _ = survey(1500, seed=5)
    for criterion in ("bic", "held_out"):
        model = LatentClassModel(n_hidden="auto", criterion=criterion, n_init=2, random_state=0).fit(frame)
        assert model.n_hidden_ == 2 or criterion == "held_out"
        assert model.selection_.best.n_hidden == model.n_hidden_
        assert [one.n_hidden for one in model.selection_.candidates][:3] == [1, 2, 3]
        assert f"<- best {'BIC' if criterion == 'bic' else 'held out'}\n" in str(model.selection_)
    assert [one.n_hidden for one in model.compare(frame, [2, 5]).candidates] == [2, 5]


def test_samples_look_like_what_was_learnt() -> None:
    frame, _ = survey(1000)
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(frame)
    drawn, clusters = model.sample(4000)
    assert isinstance(drawn, pd.DataFrame)
    assert list(drawn) == list(frame)
    share = (drawn["colour"] == "red").mean()
    assert share == pytest.approx((frame["colour"] == "red").sum() / frame["colour"].notna().sum(), abs=0.04)
    assert np.mean(clusters == 1) == pytest.approx(model.weights_[1], abs=0.04)


def test_online_learning_reaches_the_result_of_the_whole_table() -> None:
    frame, answer = survey(4000, seed=7)
    frame = frame.drop(columns="children")
    whole = LatentClassifier(n_hidden=2, n_epochs=100, random_state=0).fit(frame, answer)
    batches = LatentClassifier(n_hidden=2, n_epochs=30, random_state=0, schema=whole.schema_)
    for first in range(0, 4000, 200):
        batches.partial_fit(frame[first : first + 200], answer[first : first + 200], classes=["no", "yes"])
    assert batches.weight_ == 4000
    gap = whole.score_samples(frame).mean() - batches.score_samples(frame).mean()
    assert -0.01 < gap < 0.03
    with pytest.raises(ValueError, match="classes="):
        LatentClassifier().partial_fit(frame, answer)
    with pytest.raises(ValueError, match="'maybe'"):
        batches.partial_fit(frame[:1], ["maybe"])


def test_a_saved_estimator_is_the_same(tmp_path: Any) -> None:
    frame, answer = survey()
    path = tmp_path / "model.fgrn"
    for estimator in ESTIMATORS:
        model = clone(estimator).fit(frame, answer)
        model.save(path)
        again = fgrn.load(path)
        assert type(again) is type(model)
        assert again.schema_ == model.schema_
        assert again.network_ == model.network_
        assert again.network_.trained == model.network_.trained
        assert again.get_params()["n_epochs"] == model.n_epochs
        np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
        if hasattr(model, "classes_"):
            np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
            assert again.classes_.dtype == model.classes_.dtype
        again.partial_fit(frame, answer)


def test_names_that_hidden_variables_would_have() -> None:
    frame = pd.DataFrame({"S": ["a", "b"] * 10, "class": ["x", "y"] * 10, "S1": [0, 1] * 10})
    for estimator in ESTIMATORS:
        model = clone(estimator).fit(frame, ["p", "q"] * 10)
        model.score_samples(frame)


def test_a_later_batch_may_call_the_class_differently_or_not_at_all() -> None:
    frame, answer = survey(100)
    model = LatentClassifier(n_hidden=2, **QUICK)
    model.partial_fit(frame, answer, classes=["no", "yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.UnseenLevelWarning)
        model.partial_fit(frame, answer.to_numpy())
    before = model.predict_proba(frame)
    with pytest.raises(ValueError, match="inconsistent"):
        clone(model).fit(frame[:3], answer)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(frame[:3], [1, 2, 3, 4])
    np.testing.assert_array_equal(model.predict_proba(frame), before)


def test_stopping_keeps_the_best_that_was_learnt() -> None:
    frame, _ = survey(300)
    model = LatentClassModel(n_hidden="auto", n_init=1, n_epochs=30, tol=0.0, random_state=0, engine="reference")
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 75  # in the middle of the third size

    model._stop = stop
    model.fit(frame)
    assert [one.n_hidden for one in model.selection_.candidates] == [1, 2]  # the third has not learnt as much
    assert model.history_.epochs == 30
    assert model.n_hidden_ == 2


@pytest.mark.filterwarnings("ignore:The best number of hidden states")
def test_a_selection_does_not_outlive_its_fit() -> None:
    frame, _ = survey(100)
    model = LatentClassModel(n_hidden="auto", max_hidden=2, n_init=1, **QUICK).fit(frame)
    assert hasattr(model, "selection_")
    assert not hasattr(model.set_params(n_hidden=2).fit(frame), "selection_")


def test_comparing_leaves_rows_of_weight_zero_out() -> None:
    frame, _ = survey(100)
    weights = np.ones(100)
    weights[4::5] = 0
    model = LatentClassModel(criterion="held_out", n_init=1, **QUICK)
    one = model.compare(frame, [1, 2], sample_weight=weights)
    other = model.compare(frame[weights > 0], [1, 2])
    assert one.candidates[1].held_out == pytest.approx(other.candidates[1].held_out)
    with pytest.raises(ValueError, match="at least 5"):
        model.compare(frame[:4], [1, 2])


def test_expected_numbers_are_not_cut_to_integers() -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 80, (200, 2))
    ages[::7, 0] = -9
    model = LatentClassModel(n_hidden=2, n_init=1, missing_values=[-9], **QUICK).fit(ages)
    filled = model.complete(ages)
    assert filled.dtype == np.float64
    assert (filled[::7, 0] != np.floor(filled[::7, 0])).any()
    mapping = {"a": ages[:, 0], "b": ages[:, 1]}
    other = LatentClassModel(n_hidden=2, n_init=1, missing_values=[-9], **QUICK).fit(mapping).complete(mapping)
    np.testing.assert_allclose(other["a"], filled[:, 0])


def test_parameters_come_back_from_a_file(tmp_path: Any) -> None:
    frame, answer = survey(60)
    given = LatentClassifier(n_hidden=2, missing_values=[np.nan, "?"], smoothing=0.3, unseen="error", **QUICK)
    given.fit(frame, answer).save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert str(again.get_params()) == str(given.get_params())
    again.fit(frame, answer)
    with pytest.raises(ValueError, match="dates"):
        LatentClassifier().fit(frame[:2], np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"))


@pytest.mark.parametrize(
    "unknown",
    [
        lambda y: [None if k % 2 else v for k, v in enumerate(y)],
        lambda y: [float("nan") if k % 2 else v for k, v in enumerate(y)],
        lambda y: y.where(y.index % 2 == 0),
        lambda y: y.astype(object).where(y.index % 2 == 0, np.nan),
        lambda y: y.astype("category").where(y.index % 2 == 0),
        lambda y: pd.DataFrame({"buys": y.where(y.index % 2 == 0)}),
        lambda y: y.map({"no": 0, "yes": 1}).astype("Int64").where(y.index % 2 == 0),
        lambda y: y.map({"no": 0.0, "yes": 1.0}).where(y.index % 2 == 0).to_numpy(),
        lambda y: pl.Series([None if k % 2 else v for k, v in enumerate(y)]),
    ],
)
@pytest.mark.parametrize("estimator", CLASSIFIERS[:2], ids=name_of)
def test_a_class_that_is_missing_is_unknown(estimator: Any, unknown: Any) -> None:
    frame, answer = survey(60)
    model = clone(estimator).fit(frame, unknown(answer))
    assert len(model.classes_) == 2
    assert "nan" not in [str(one) for one in model.classes_]


def test_values_are_the_same_however_they_are_written() -> None:
    table = {"persons": ["2", "4", "more"] * 20, "open": [True, False, True] * 20, "n": [1, 2, 3] * 20}
    model = LatentClassifier(n_hidden=3, **QUICK).fit(table, ["a", "b", "c"] * 20)
    one = model.predict_proba({"persons": ["2", "4"], "open": [True, False], "n": [1, 2]})
    other = model.predict_proba({"persons": [2, 4.0], "open": ["true", "False"], "n": ["1", "2.0"]})
    np.testing.assert_array_equal(one, other)
    with pytest.warns(fgrn.UnseenLevelWarning, match="level 5 "):
        model.predict_proba({"persons": [2, 5], "open": [True, True], "n": [1, 1]})


def test_completing_leaves_values_that_are_not_known_to_the_model() -> None:
    frame, _ = survey(60)
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(frame)
    other = frame.copy()
    other["colour"] = ["green", None] * 30
    with pytest.warns(fgrn.UnseenLevelWarning, match="green"):
        filled = model.complete(other)
    assert (filled["colour"][::2] == "green").all()
    assert set(filled["colour"][1::2]) <= {"red", "blue"}


def test_batches_of_naive_bayes_add_up_to_the_whole_table() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 3, (240, 5)), rng.integers(0, 2, 240)
    whole = NaiveBayesClassifier(n_epochs=1, engine="reference").fit(X, y)
    batches = NaiveBayesClassifier(n_epochs=1, engine="reference")
    for first in range(0, 240, 40):
        batches.partial_fit(X[first : first + 40], y[first : first + 40], classes=[0, 1])
    np.testing.assert_allclose(batches.predict_proba(X), whole.predict_proba(X), rtol=1e-9)


def test_the_seed_matters_little_by_default(shared_data: Any) -> None:
    """Single initialisations of some seeds end far below others; the best of several does not."""
    folder = shared_data / "tables"
    if not folder.is_dir():
        pytest.skip("the larger tables are not among the shared data")
    read = {"header": None, "skipinitialspace": True, "na_values": "?", "comment": "|"}
    train, test = (pd.read_csv(folder / f"adult.{part}.gz", **read) for part in ("data", "test"))
    words = [column for column in train if train[column].dtype == test[column].dtype == train[1].dtype][:-1]
    names = {column: f"x{column}" for column in words}
    X, Z = train[words].rename(columns=names), test[words].rename(columns=names)
    y, truth = train[14], test[14].str.rstrip(".")
    scores = [LatentClassifier(8, random_state=seed).fit(X, y).score(Z, truth) for seed in range(6)]
    assert max(scores) - min(scores) < 0.02


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_a_fit_that_fails_leaves_the_model_as_it_was(estimator: Any) -> None:
    """If the table cannot be read or learning fails, in memory and from disk."""
    frame, answer = survey(60)
    model = clone(estimator).fit(frame, answer)
    before, tables = dict(vars(model)), model.network_._parameters

    def stop() -> bool:
        raise KeyboardInterrupt

    for attempt, error in [
        (lambda: model.fit(frame.assign(id=[f"p{n}" for n in range(60)]), answer), fgrn.SchemaError),
        (lambda: model.fit(iter([frame.assign(id=[f"p{n}" for n in range(60)])]), frame.columns[0]), fgrn.SchemaError),
        (lambda: model.fit("no such file.csv", frame.columns[0]), fgrn.TableFileError),
    ]:
        with pytest.raises(error):
            attempt()
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is value for name, value in before.items())
        assert model.network_._parameters is tables
    model._stop = stop
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame, answer)
    assert model.network_._parameters is tables


# Learning to the end


def answers() -> tuple[dict[str, list[int]], list[int]]:
    """Four questions answered by 216 people in 16 ways, and how many answered so (Stouffer and Toby, 1951)."""
    people = [42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20]
    return {name: [number >> place & 1 for number in range(16)] for place, name in enumerate("dcba")}, people


def test_default_settings_reach_the_maximum() -> None:
    rows, people = answers()
    found = []
    for seed in range(3):
        model = fgrn.LatentClassModel(2, smoothing=0.0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(rows, sample_weight=people)
        assert model.history_.converged
        assert model.history_.log_likelihood[-1] == pytest.approx(-504.46767, abs=2e-4)  # as poLCA reports it
        found.append(np.sort(model.weights_))
    np.testing.assert_allclose(found, [[0.2792, 0.7208]] * 3, atol=2e-3)


def test_epochs_that_are_used_up_are_told_as_scikit_learn_does() -> None:
    from sklearn.exceptions import ConvergenceWarning

    rows, people = answers()
    with pytest.warns(
        ConvergenceWarning, match=r"last 2 epochs still gained .* more than 1e-08. Allow more epochs with n_epochs=6"
    ) as told:
        fgrn.LatentClassModel(2, n_epochs=3, random_state=0).fit(rows, sample_weight=people)
    assert issubclass(told[0].category, fgrn.ConvergenceWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who wants all epochs is not told
        fgrn.LatentClassModel(2, n_epochs=3, tol=0.0, random_state=0).fit(rows, sample_weight=people)


def test_names_of_columns_that_are_no_text_are_told() -> None:
    table = pd.DataFrame({2001: ["a", "b"] * 5, 2002: ["u", "v"] * 5})
    with pytest.warns(fgrn.TableWarning, match=r"not text \(2001, 2002\): in the model they are x0, x1") as told:
        fgrn.NaiveBayesClassifier().fit(table, [0, 1] * 5)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fgrn.NaiveBayesClassifier().fit(table.set_axis(range(2), axis=1), [0, 1] * 5)


@pytest.mark.parametrize(
    ("model", "states", "remedies"),
    [
        (fgrn.LatentClassModel(50, n_epochs=1), 50, ["n_hidden=8", "n_hidden='auto'"]),
        (fgrn.LatentClassifier(50, n_epochs=1), 50, ["n_hidden=8", "n_hidden='auto'"]),
        (fgrn.LatentImputer(50, n_epochs=1), 50, ["n_hidden=8", "n_hidden='auto'"]),
        (fgrn.HiddenMarkovModel([f"s{k}" for k in range(50)], n_epochs=1), 50, ["n_hidden=...", "n_hidden='auto'"]),
        (fgrn.DeepLatentClassifier((50, 2), n_epochs=1), 50, ["n_hidden=..."]),
        (fgrn.DiscreteICA([10, 5], n_epochs=1), 50, ["n_hidden=..."]),
    ],
)
def test_more_hidden_states_than_rows_are_warned_of_before_learning(
    model: Any, states: int, remedies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"a": ["x", "y"] * 20, "b": ["u", "v", "v", "v"] * 10}
    labels = (["p", "q"] * 20,) if isinstance(model, (fgrn.LatentClassifier, fgrn.DeepLatentClassifier)) else ()

    def train(self: Any, table: Any) -> None:
        raise RuntimeError("learning begins")

    with pytest.warns(fgrn.FgrnWarning, match=rf"asks for {states} hidden states, more than the 40 rows") as told:
        monkeypatch.setattr(type(model), "_train", train)
        monkeypatch.setattr(type(model), "_train_within", lambda self, budget, table: train(self, table), raising=False)
        with pytest.raises(RuntimeError, match="learning begins"):
            model.fit(rows, *labels)
    (one,) = [warning.message for warning in told]
    assert isinstance(one, fgrn.FgrnWarning)
    assert all(remedy in str(one) for remedy in remedies)
    assert ("'auto'" in str(one)) == ("n_hidden='auto'" in remedies)


def test_as_many_hidden_states_as_rows_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", fgrn.ConvergenceWarning)
        fgrn.LatentClassModel(4, n_epochs=1).fit({"a": ["x", "y", "x", "y"], "b": ["u", "v", "v", "v"]})
