"""Tables for estimators: kinds, names, missing values, and impossible rows."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn import LatentClassifier, LatentClassModel, LatentImputer, NaiveBayesClassifier, Schema
from fgrn.learning.criteria import Candidate, Fit, aic, bic, relative_entropy
from fgrn.tables import frames
from fgrn.tables.missing import is_missing_value
from fgrn.tables.one_row import values_of_few_rows

QUICK: dict[str, Any] = {"n_epochs": 10, "random_state": 0, "engine": "reference"}
WORDS = {"colour": ["red", "blue", None, "red", "green"] * 8, "size": [1, 2, 2, None, 1] * 8}
ANSWER = ["no", "yes", "yes", "no", "perhaps"] * 8


def every_kind() -> dict[str, Any]:
    """One table, in all kinds."""
    frame, other, arrow = pd.DataFrame(WORDS), pl.DataFrame(WORDS), pa.table(WORDS)
    return {
        "mapping": WORDS,
        "pandas": frame,
        "pandas of objects": frame.astype(object),
        "pandas of categories": frame.astype({"colour": "category"}),
        "pandas of its own integers": frame.astype({"size": "Int64"}),
        "pandas of Arrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "mapping of series": {"colour": frame["colour"], "size": other["size"]},
        "polars": other,
        "polars of categories": other.cast({"colour": pl.Categorical}),
        "polars, lazy": other.lazy(),
        "arrow": arrow,
        "arrow in chunks": pa.concat_tables([arrow.slice(0, 7), arrow.slice(7)]),
        "arrow of dictionaries": pa.concat_tables(  # two chunks, each with a dictionary of its own
            pa.table({"colour": part["colour"].combine_chunks().dictionary_encode(), "size": part["size"]})
            for part in (arrow.slice(0, 7), arrow.slice(7))
        ),
        "arrow, a batch": pa.RecordBatch.from_pydict(WORDS),
        "structured array": np.array(
            list(zip(WORDS["colour"], [np.nan if v is None else v for v in WORDS["size"]], strict=True)),
            dtype=[("colour", object), ("size", float)],
        ),
    }


@pytest.mark.parametrize("kind", every_kind())
def test_a_table_is_the_same_in_any_kind(kind: str) -> None:
    table = every_kind()[kind]
    model = LatentClassifier(n_hidden=2, **QUICK).fit(table, ANSWER)
    expected = LatentClassifier(n_hidden=2, **QUICK).fit(WORDS, ANSWER)
    assert list(model.feature_names_in_) == ["colour", "size"]
    assert model.schema_.states == expected.schema_.states == {"colour": ["blue", "green", "red"], "size": [1, 2]}
    np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(WORDS))
    filled = model.complete(table)
    assert type(filled) is type(table)
    columns = frames.columns(filled)
    assert not any(is_missing_value(value) for column in columns.values() for value in frames.as_list(column))


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "1"]), st.integers(0, 3), st.booleans(), st.floats())))
def test_a_column_by_its_values_is_the_column(values: list[Any]) -> None:
    column = frames.dictionary_encoded(values)
    assert isinstance(column, frames.DictionaryColumn)
    as_given = frames.columns({"x": values}, by_value=True)["x"]
    assert as_given is values if len(values) < frames.SHORT else isinstance(as_given, frames.DictionaryColumn)
    for back, value in zip(column.tolist(), values, strict=True):
        assert (is_missing_value(back) and is_missing_value(value)) or back == value
    assert column.counts.sum() == len(values)
    assert frames.as_list(frames.select_rows(column, np.arange(len(values))[::2])) == column.tolist()[::2]


SERIES = {
    "words": pd.Series(["a", None, "b"]),
    "objects": pd.Series(["a", None, 2.5, pd.NA, True, 1], dtype=object),
    "lists": pd.Series([[0.2, 0.8], [1, 0], None]),
    "whole numbers": pd.Series([3, 1, 2]),
    "nullable": pd.Series([3, None, 2], dtype="Int64"),
    "numbers": pd.Series([3.5, None, 2]),
    "truth": pd.Series([True, False, True]),
    "nullable truth": pd.Series([True, None, False], dtype="boolean"),
    "categories": pd.Series(["a", None, "b"], dtype="category"),
    "ordered": pd.Series(pd.Categorical(["a", None, "b"], categories=["b", "a"], ordered=True)),
    "dates": pd.Series(pd.to_datetime(["2020-01-01", None, "2021-01-01"])),
    "arrow": pd.Series(["a", None, "b"], dtype=pd.ArrowDtype(pa.string())),
    "arrow dictionary": pd.Series(["a", None, "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
}


@pytest.mark.parametrize("by_value", [True, False])
@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_few_rows_of_pandas_are_read_as_many_are(
    series: pd.Series, by_value: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> tuple[list[Any], list[bool], type]:
        (column,) = frames.columns(pd.DataFrame({"x": series}), by_value=by_value).values()
        values = frames.as_list(column)
        return (
            [(type(one), one) for one in values if not is_missing_value(one)],
            [*map(is_missing_value, values)],
            type(frames.dictionary_encoded(column) if by_value else column),
        )

    few = read()
    monkeypatch.setattr(frames, "FEW_ROWS_OF_PANDAS", 0)
    assert read() == few


@pytest.mark.parametrize("rows", [1, 2, 6])
@pytest.mark.parametrize("beside", [[0.5] * 6, [2**53 + 1] * 6, ["a"] * 6], ids=["float", "large", "word"])
@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_values_of_few_rows_of_pandas_are_those_of_its_columns(series: pd.Series, beside: list[Any], rows: int) -> None:
    frame = pd.DataFrame({"x": series, "y": beside[: len(series)]})[:rows]
    found = values_of_few_rows(frame)
    if found is None:  # read by column
        return
    for name, column in frames.columns(frame).items():
        values = frames.as_list(column)
        assert [*map(is_missing_value, found[name])] == [*map(is_missing_value, values)]
        assert [value for value in found[name] if not is_missing_value(value)] == [
            value for value in values if not is_missing_value(value)
        ]


def test_values_of_few_rows_of_pandas_are_read_at_once() -> None:
    frame = pd.DataFrame({"a": ["x", None] * 20, "b": [1, 2] * 20, "c": [0.5, math.nan] * 20})
    found = values_of_few_rows(frame[:2])
    assert found is not None
    assert found["b"] == [1, 2]
    assert values_of_few_rows(frame) is None  # many are read by column
    assert values_of_few_rows(frame[:0]) is None
    assert values_of_few_rows(frame.to_dict("list")) is None
    for other in (True, pd.Timestamp(0), 2**53, [0.5, 0.5]):
        assert values_of_few_rows(pd.DataFrame({"a": ["x", "y"], "b": [other, other]})) is None


def rows_of_all_kinds(rows: int) -> dict[str, list[Any]]:
    """Words, numbers in bins, numbers as levels, words for numbers, missing values of all kinds, and unseen ones."""
    rng = np.random.default_rng(0)

    def some(values: list[Any]) -> list[Any]:
        return [values[k] for k in rng.integers(0, len(values), rows)]

    return {
        "word": some(["a", "b", "c", None, "?", "new"]),
        "number": [*rng.normal(size=rows - 4).round(3).tolist(), None, math.nan, 7, np.float64(0.25)],
        "level": some([1, 2, 3.0, "2", np.int64(3), None]),
        "text": some(["1", "2", 1, 2.0, "x"]),
        "truth": some([True, False, "true", None]),
        "code": some([0.5, 1.5, -9, 2.5, *rng.random(20).tolist()]),
    }


def test_one_row_is_read_as_it_is_in_a_table() -> None:
    table = rows_of_all_kinds(60)
    columns = {"word": "abc", "level": [1, 2, 3], "text": ["1", "2"], "truth": [False, True]}
    schema = fgrn.Schema([
        *(fgrn.Column(name, tuple(levels), missing_words=True) for name, levels in columns.items()),
        fgrn.Column("number", ("low", "middle", "high"), edges=(-0.5, 0.25)),
        fgrn.Column("code", ("low", "high"), edges=(0.5,), missing=(-9,)),
    ])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.UnseenLevelWarning)
        many = schema.codes(table)
        for row in range(60):
            one = {name: [column[row]] for name, column in table.items()}
            for given in (one, {name: np.array(value) for name, value in one.items()}):
                found = schema.codes(given)
                assert {name: column.codes.tolist() for name, column in found.items()} == {
                    name: [column.codes[row]] for name, column in many.items()
                }


def test_one_row_of_a_frame_a_mapping_and_an_array_is_answered_as_in_a_table() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "number": rng.normal(size=200), "word": rng.choice(["a", "b", None], 200), "level": rng.integers(0, 4, 200),
        "category": pd.Categorical(rng.choice(["x", "y"], 200)), "truth": rng.random(200) < 0.5,
        "nullable": pd.array(np.where(rng.random(200) < 0.3, None, 1), dtype="Int64"),
    })  # fmt: skip
    model = LatentClassifier(n_hidden=2, **QUICK).fit(frame, np.where(frame["number"] > 0, "yes", "no"))
    many = model.predict_proba(frame)
    for row in range(0, 200, 20):
        one = frame.iloc[[row]]
        np.testing.assert_allclose(model.predict_proba(one)[0], many[row], rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(one.to_dict("list"))[0], many[row], rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(one.iloc[0].to_dict())[0], many[row], rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(frame.iloc[[0], ::-1])
    numbers = frame[["number", "level"]].to_numpy()
    plain = LatentClassifier(n_hidden=2, **QUICK).fit(numbers, np.where(frame["number"] > 0, 1, 0))
    np.testing.assert_allclose(plain.predict_proba(numbers[:1])[0], plain.predict_proba(numbers)[0], rtol=1e-12)
    for wrong in (numbers[:1, :1], np.array([[np.inf, 1.0]]), numbers[:0]):
        with pytest.raises(ValueError, match=r"features|infinity|minimum"):
            plain.predict_proba(wrong)


@pytest.mark.parametrize("structure", ["shared", "per_class", "tan"])
@pytest.mark.filterwarnings("ignore::fgrn.UnseenLevelWarning")
def test_a_few_rows_with_missing_values_and_unseen_levels_are_answered_as_many_are(structure: str) -> None:
    rng = np.random.default_rng(1)
    number = rng.normal(size=200)
    frame = pd.DataFrame({
        "number": np.where(rng.random(200) < 0.2, np.nan, number), "word": rng.choice(["a", "b", None], 200),
        "level": np.where(number > 0.3, 2, rng.integers(0, 4, 200)),
        "category": pd.Categorical(np.where(number > 0.2, "x", rng.choice(["x", "y"], 200))),
    })  # fmt: skip
    options: dict[str, Any] = {"n_hidden": 2} if structure == "shared" else {"n_hidden": 1, "refine": 0.1}
    model = LatentClassifier(structure=structure, **options, **QUICK)
    model.fit(frame, np.where(number > 0, "yes", "no"))
    assert hasattr(model, "decision_weight_") == (structure != "shared")
    frame.loc[::7, "word"] = "new"
    many = model.predict_proba(frame)
    for first, rows in ((0, 1), (1, 1), (7, 2), (13, 10), (20, 31), (60, 32), (100, 40)):
        some = frame[first : first + rows]
        for table in (some, some.to_dict("list")):
            np.testing.assert_allclose(model.predict_proba(table), many[first : first + rows], rtol=1e-12)


def test_words_are_looked_at_once_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns with codes are read by their codes, not value by value."""
    rng = np.random.default_rng(0)
    codes = {f"x{k}": rng.integers(0, 4, 500) for k in range(3)}
    words = ["alpha", "beta", "gamma", "delta"]
    frame = pd.DataFrame({name: pd.Categorical.from_codes(column, words) for name, column in codes.items()})
    for kind, method in itertools.product((pd.Series, pd.Categorical), ("__iter__", "tolist", "__array__")):
        monkeypatch.setattr(kind, method, only_numbers(getattr(kind, method)))
    with pytest.raises(RuntimeError, match="by value"):
        frame["x0"].tolist()
    schema = Schema.infer(frame)
    found = schema.codes(frame)
    for name, column in codes.items():
        np.testing.assert_array_equal(found[name].codes, column)


def only_numbers(method: Any) -> Any:
    """A method that must not be called on many words."""

    def checked(column: Any, *arguments: Any, **settings: Any) -> Any:
        if len(column) > 10 and column.dtype.kind not in "iufb":
            raise RuntimeError("by value")
        return method(column, *arguments, **settings)

    return checked


def test_truth_is_no_number_in_a_column_of_both() -> None:
    net = fgrn.lvm({"x": ["a", "b"]}, hidden=2)
    for column in ([1, True], pd.Series([1, True], dtype=object), np.array([0, 1, False], dtype=object)):
        with pytest.raises(fgrn.EvidenceError, match=r"(True|False) is not one of its states"):
            net.propagate({"x": column})
    assert net.propagate({"x": [1, "b", None]}).marginal("x")[:, 1].tolist() == [1, 1, 0.5]


@pytest.mark.parametrize("read", [fgrn.states, Schema.infer, fgrn.search])
def test_truth_and_number_that_count_as_one_state_are_told(read: Any) -> None:
    for values, told in (([True, 1, 0], "True and 1"), ([2, 0, False, "0"], "False and 0")):
        for column in (values, pd.Series(values, dtype=object)):
            with pytest.warns(fgrn.TableWarning, match=f"Column 'a': {told} are equal, and count as one state"):
                read({"a": column, "b": ["u", "v", "u", "v"][: len(values)]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in ([True, False, 2], [True, False, None], [1, 0, 1.0], ["1", 1, "True"]):
            read({"a": values, "b": ["u", "v", "u"]})


@pytest.mark.parametrize("read", [Schema.infer, fgrn.search])
def test_truth_and_number_in_different_batches_of_a_stream_are_told(read: Any) -> None:
    words = {"b": ["u", "v"]}
    with pytest.warns(fgrn.TableWarning, match="Column 'a': True and 1 are equal, and count as one state"):
        read(fgrn.Stream(lambda: iter([{"a": [True, False], **words}, {"a": [1, 2], **words}])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(fgrn.Stream(lambda: iter([{"a": [True, False], **words}, {"a": [2, 3], **words}])))


@pytest.mark.parametrize("kind", every_kind())
def test_a_network_reads_any_kind_alike(kind: str) -> None:
    table = every_kind()[kind]
    assert fgrn.states(table) == {"colour": ["blue", "green", "red"], "size": [1, 2]}
    net = fgrn.lvm(fgrn.states(table), hidden=2)
    expected = fgrn.lvm(fgrn.states(WORDS), hidden=2)
    net.learn(table, epochs=5, engine="reference")
    expected.learn(WORDS, epochs=5, engine="reference")
    assert net.table("colour").tolist() == expected.table("colour").tolist()
    filled = net.complete(table)
    assert type(filled) is type(table)
    full = {name: frames.as_list(column) for name, column in frames.columns(filled).items()}
    assert full == expected.complete(WORDS)
    with pytest.raises(fgrn.EvidenceError, match=r"Row 4, 'colour': 'green' is not one of its states"):
        fgrn.lvm({"colour": ["blue", "red"], "size": [1, 2]}, hidden=2).propagate(table)


def test_categories_have_an_order_only_where_they_say_so() -> None:
    levels = ["low", "middle", "high"]
    tables = {
        False: [
            pd.DataFrame({"x": pd.Categorical(["high", "low"], levels)}),
            {"x": pd.Series(["high", "low"], dtype=pd.CategoricalDtype(levels))},
        ],
        True: [
            pd.DataFrame({"x": pd.Categorical(["high", "low"], levels, ordered=True)}),
            pl.DataFrame({"x": pl.Series(["high", "low"], dtype=pl.Enum(levels))}),
            pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(levels), ordered=True)}),
        ],
    }
    for ordered, given_tables in tables.items():
        for table in given_tables:
            column = Schema.infer(table)["x"]
            assert column.levels == tuple(levels)
            assert column.ordered is ordered
    unordered = pa.table({"x": pa.array(["low", "high"]).dictionary_encode()})
    assert Schema.infer(unordered)["x"].levels == ("high", "low")  # in the order in which they came: it says nothing
    assert fgrn.states(pd.DataFrame({"x": pd.Categorical(["high", "low"], levels)})) == {"x": ["low", "high"]}


def test_categories_may_be_too_many_like_words() -> None:
    codes = pd.Categorical([f"{k:05}" for k in range(99)])
    with pytest.raises(fgrn.SchemaError, match=r"'zip': 99 categories in 99 rows.*max_levels=99"):
        Schema.infer(pd.DataFrame({"zip": codes}))
    with pytest.raises(
        fgrn.SchemaError, match=r"99 categories in 3 rows.*no row has, or allow so many levels with max_levels=99"
    ):
        Schema.infer(pd.DataFrame({"zip": codes[:3]}))
    assert len(Schema.infer(pd.DataFrame({"zip": codes}), max_levels=99)["zip"].levels) == 99


# Columns that are not those of training


def test_a_mapping_may_have_its_columns_in_any_order_and_not_all() -> None:
    model = NaiveBayesClassifier(**QUICK).fit(WORDS, {"answer": ANSWER})
    one = model.predict_proba({"colour": ["red", "blue"], "size": [1, 2]})
    np.testing.assert_array_equal(one, model.predict_proba({"size": [1, 2], "colour": ["red", "blue"]}))
    np.testing.assert_array_equal(
        model.predict_proba({"colour": ["red"]}), model.predict_proba({"colour": ["red"], "size": [None]})
    )
    np.testing.assert_array_equal(one[:1], model.predict_proba({"colour": "red", "size": 1}))
    np.testing.assert_array_equal(
        model.predict_proba({"colour": "red", "size": [1, 2]}),
        model.predict_proba({"colour": ["red"] * 2, "size": [1, 2]}),
    )
    np.testing.assert_array_equal(
        one, model.predict_proba({"colour": ["red", "blue"], "size": [1, 2], "answer": ["no", "no"]})
    )
    assert model.complete({"colour": [None]}) == {"colour": ["red"]}


def test_a_column_that_was_not_there_in_training_is_told() -> None:
    model = LatentClassifier(n_hidden=2, **QUICK).fit(WORDS, ANSWER)
    with pytest.warns(fgrn.UnseenLevelWarning, match=r"'colr'.*Did you mean 'colour'.*Ignored") as caught:
        found = model.predict_proba({"colr": ["red"], "size": [1]})
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(found, model.predict_proba({"size": [1]}))
    with pytest.raises(fgrn.SchemaError, match=r"'colr'.*Did you mean 'colour'"):
        model.set_params(unseen="error").predict({"colr": ["red"], "size": [1]})
    with pytest.raises(fgrn.SchemaError, match="'q'"):
        model.set_params(unseen="unknown").predict({"q": [1]})
    frame = pd.DataFrame(WORDS)
    for other, word in [
        (frame[["size"]], "colour"),
        (frame.assign(more=1), "more"),
        (frame[["size", "colour"]], "order"),
    ]:
        with pytest.raises(ValueError, match=word):  # as scikit-learn has it
            model.predict(other)


def test_columns_of_one_name_are_refused_in_our_words() -> None:
    frame = pd.DataFrame(WORDS)
    twice = pd.concat([frame, frame[["size"]]], axis=1)
    with pytest.raises(fgrn.EvidenceError, match=r"several columns called 'size'\. Rename"):
        LatentClassifier(n_hidden=2, **QUICK).fit(twice, ANSWER)
    with pytest.raises(fgrn.EvidenceError, match="several columns called 'size'"):
        LatentClassifier(n_hidden=2, **QUICK).fit(frame, ANSWER).predict(twice)
    arrow = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["a", "a"])
    with pytest.raises(fgrn.EvidenceError, match="several columns called 'a'"):
        frames.columns(arrow)


@pytest.mark.parametrize(
    "bare", [["red", 1], "red", 1, pd.Series(["red"]), pl.Series([1]), np.array(["red", 1.0]), None]
)
def test_what_is_no_table_is_told(bare: Any) -> None:
    model = LatentClassifier(n_hidden=2, **QUICK).fit(WORDS, ANSWER)
    for ask in (model.predict, lambda X: LatentClassifier().fit(X, ANSWER)):
        if ask != model.predict and isinstance(bare, str):
            continue  # the name of a file
        with pytest.raises(ValueError, match=r"Expected 2D array.*Reshape"):
            ask(bare)
    with pytest.raises(ValueError, match="2D table, got a list of mappings"):
        model.predict([{"colour": "red", "size": 1}])


# Holes


@pytest.mark.parametrize("code", ["?", ["?"], ("?", -9), np.array(["?"], dtype=object)])
def test_one_code_for_missing_values_needs_no_list(code: Any) -> None:
    table = {"colour": ["red", "?", "blue", "?"] * 5, "size": [1, 2, -9, 1] * 5}
    model = LatentClassModel(n_hidden=2, n_init=1, missing_values=code, **QUICK).fit(table)
    assert model.schema_["colour"].levels == ("blue", "red")
    number = LatentClassModel(n_hidden=2, n_init=1, missing_values=-9, **QUICK).fit(table)
    assert number.schema_["size"].levels == (1, 2)
    assert number.schema_["colour"].levels == ("?", "blue", "red")


@pytest.mark.parametrize("empty", [None, np.nan, "?"])
def test_a_column_of_which_nothing_is_known_is_ignored(empty: Any, tmp_path: Any) -> None:
    frame = pd.DataFrame(WORDS).assign(nothing=empty)[["nothing", "colour", "size"]]
    settings = {"missing_values": "?", **QUICK}
    for model in (LatentClassifier(n_hidden=2, **settings), NaiveBayesClassifier(**settings)):
        with pytest.warns(fgrn.EmptyColumnWarning, match="'nothing' has no known value") as caught:
            model.fit(frame, ANSWER)
        assert [one.category for one in caught].count(fgrn.EmptyColumnWarning) == 1
        expected = type(model)(**model.get_params()).fit(WORDS, ANSWER)
        np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(WORDS))
        other = frame.assign(nothing="something")
        np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))
        assert list(model.prototypes_["no"]) == ["colour", "size"]
        assert set(model.explain(other.iloc[[0]]).contributions) == {"colour", "size"}
        model.save(tmp_path / "m.fgrn")
        again = fgrn.load(tmp_path / "m.fgrn")
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(fgrn.SchemaError, match="no known value"):
        LatentClassifier(**settings).fit(frame[["nothing"]], ANSWER)


def test_filling_leaves_a_column_of_which_nothing_is_known() -> None:
    frame = pd.DataFrame(WORDS).assign(nothing=None)[["nothing", "colour", "size"]]
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK)
    with pytest.warns(fgrn.EmptyColumnWarning):
        model.fit(frame)
    filled, sure = model.complete(frame, return_proba=True)
    assert filled["nothing"].isna().all()
    assert not filled[["colour", "size"]].isna().any().any()
    np.testing.assert_array_equal(sure < 1, frame.isna() & [False, True, True])
    drawn, _ = model.sample(3)
    assert list(drawn) == list(frame)
    assert drawn["nothing"].isna().all()
    with pytest.warns(fgrn.EmptyColumnWarning):
        array = LatentImputer(n_hidden=2, n_init=1, **QUICK).fit_transform(frame.to_numpy(dtype=object))
    assert array.shape == frame.shape


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_an_imputer_keeps_the_types_of_columns(output: str) -> None:
    frame = pd.DataFrame(
        {
            "word": ["a", None, "b"] * 4,
            "category": pd.Categorical(["p", "q", None] * 4, ["q", "p"]),
            "whole": [1, 2, 1] * 4,
            "nullable": pd.array([1, None, 2] * 4, dtype="Int64"),
            "number": [0.5, np.nan, 1.5] * 4,
            "truth": [True, False, True] * 4,
        }
    )
    table = frame if output == "pandas" else pl.from_pandas(frame)
    model = LatentImputer(n_hidden=2, n_init=1, **QUICK).set_output(transform=output)
    filled = model.fit(table).transform(table)
    assert type(filled) is type(table)
    assert list(filled.dtypes) == list(table.dtypes)
    columns = {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame}
    for other in (columns, pa.table(columns)):  # of another kind: as types are found
        found = model.fit(other).transform(other)
        assert list(found["word"]) == list(filled["word"])
        assert str(found["whole"].dtype).lower() == "int64"
        assert str(found["word"].dtype).lower().startswith(("str", "object"))  # "object" before pandas 3
    plain = model.set_output(transform="default").transform(other)
    assert isinstance(plain, np.ndarray)


# Classes


def test_long_classes_are_not_cut_where_some_are_unknown() -> None:
    model = LatentClassifier(n_hidden=2, **QUICK).fit(WORDS, [None if v == "yes" else v for v in ANSWER])
    assert model.classes_.tolist() == ["no", "perhaps"]


def test_a_later_batch_may_have_no_class() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 400)
    X = np.stack([np.where(rng.random(400) < 0.9, kind, 1 - kind) for _ in range(4)], axis=1)
    model = LatentClassifier(n_hidden=2, n_epochs=30, random_state=0, engine="reference")
    model.partial_fit(X[:40], kind[:40], classes=[0, 1])
    before = model.score_samples(X).mean()
    for y in ([None] * 120, np.full(120, np.nan), [None] * 60 + kind[60:120].tolist()):
        model.partial_fit(X[40:160], y)
    assert model.weight_ == 400
    assert model.score(X, kind) > 0.85
    assert model.score_samples(X).mean() > before - 0.05
    with pytest.raises(ValueError, match="class of no row"):
        LatentClassifier().partial_fit(X, [None] * 400, classes=[0, 1])


# Rows that cannot be


@pytest.fixture(scope="module")
def strict() -> NaiveBayesClassifier:
    """Without smoothing: red goes with 1 and "no" alone, blue with 2 and "yes"; "no" is three times as frequent."""
    table = {"colour": ["red"] * 6 + ["blue"] * 2, "size": [1] * 6 + [2] * 2}
    return NaiveBayesClassifier(smoothing=0, n_epochs=1, engine="reference").fit(table, ["no"] * 6 + ["yes"] * 2)


def test_an_impossible_row_is_answered_as_if_nothing_were_known(strict: NaiveBayesClassifier) -> None:
    rows = {"colour": ["red", "red", "blue", None], "size": [1, 2, None, None]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = strict.score_samples(rows)
    np.testing.assert_allclose(np.exp(scores), [0.75, 0, 0.25, 1])
    assert scores[1] == -np.inf
    with pytest.warns(fgrn.ImpossibleRowWarning, match=r"Row 1: .*'colour' = red cannot go with 'size' = 2") as caught:
        found = strict.predict_proba(rows)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_allclose(found, [[1, 0], [0.75, 0.25], [0, 1], [0.75, 0.25]])
    with pytest.warns(fgrn.ImpossibleRowWarning):
        assert strict.predict(rows).tolist() == ["no", "no", "yes", "no"]
    with pytest.raises(fgrn.ImpossibleEvidence, match="cannot go with"):
        strict.explain({"colour": "red", "size": 2})


def test_impossible_rows_of_models_without_a_class() -> None:
    table = {"a": ["x", "y"] * 20, "b": ["p", "q"] * 20, "c": ["u", "u"] * 20}
    model = LatentClassModel(n_hidden=2, n_init=1, smoothing=0, n_epochs=300, tol=0, random_state=0).fit(table)
    model.network_ = fgrn.lvm(model.schema_.states, hidden=2)
    model.network_.learn({**table, "S": [0, 1] * 20}, epochs=1)
    rows = {"a": ["x", "x"], "b": ["p", "q"], "c": [None, None]}
    assert np.isneginf(model.score_samples(rows)).tolist() == [False, True]
    for ask in (model.predict_proba, model.transform):
        with pytest.warns(fgrn.ImpossibleRowWarning, match="Row 1"):
            np.testing.assert_allclose(ask(rows)[1], [0.5, 0.5])
    with pytest.warns(fgrn.ImpossibleRowWarning, match="Row 1"):
        assert model.complete(rows)["c"] == ["u", "u"]


# What is asked of a model


def test_criteria_count_weights_like_repeated_rows() -> None:
    frame = pd.DataFrame(WORDS)
    times = np.random.default_rng(0).integers(0, 4, len(frame))
    repeated = frame.iloc[np.repeat(np.arange(len(frame)), times)]
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(frame)
    for ask in (model.aic, model.bic, model.relative_entropy):
        assert ask(frame, sample_weight=times) == pytest.approx(ask(repeated))


def test_a_candidate_is_what_its_rows_say() -> None:
    rng = np.random.default_rng(0)
    scores, posterior, weights = -rng.random(30), rng.dirichlet([1, 1, 1], 30), rng.random(30)
    one = Candidate.of(Fit.of(scores, posterior, weights), 7)
    assert one.n_hidden == 3
    assert one.aic == pytest.approx(aic(weights @ scores, 7))
    assert one.bic == pytest.approx(bic(weights @ scores, 7, weights.sum()))
    assert one.relative_entropy == pytest.approx(relative_entropy(posterior, weights))
    assert sum(one.class_sizes) == pytest.approx(1)
    assert np.isnan(one.held_out)


def test_every_model_with_one_hidden_variable_compares_and_embeds() -> None:
    settings = {"n_init": 1, **QUICK}
    classifier = LatentClassifier(n_hidden=2, **settings).fit(WORDS, ANSWER)
    found = classifier.compare(WORDS, ANSWER, [1, 3])
    assert [one.n_hidden for one in found.candidates] == [1, 3]
    assert classifier.n_hidden_ == 2
    assert [one.n_hidden for one in LatentImputer(**settings).compare(WORDS, [1, 2]).candidates] == [1, 2]
    clusters = LatentClassModel(n_hidden=2, **settings).fit(WORDS)
    np.testing.assert_array_equal(clusters.embed(WORDS), clusters.transform(WORDS))
    assert classifier.embed(WORDS).shape == (40, 2)
    assert set(classifier.prototypes_) == set(ANSWER)


def test_a_number_as_random_state_draws_the_same_rows_again() -> None:
    model = LatentClassModel(n_hidden=2, n_init=1, **QUICK).fit(WORDS)
    assert model.sample(20)[0] == model.sample(20)[0]
    model.random_state = np.random.RandomState(0)
    assert model.sample(20)[0] != model.sample(20)[0]
