"""Schemas of tables: inferred, printed, changed, and saved."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn import Column, ManyLevelsWarning, Schema, SchemaError


def test_kinds_of_columns() -> None:
    found = Schema.infer(
        {
            "word": ["b", "a", None, "b"],
            "truth": [True, False, True, None],
            "few": [3, 1, None, 3],
            "written as float": np.array([1.0, 2.0, np.nan, 1.0]),
            "mixed": ["a", 1, None, 2.5],
        }
    )
    assert found["word"].levels == ("a", "b")
    assert found["truth"].levels == (False, True)
    assert found["few"].levels == (1, 3)
    assert found["few"].ordered
    assert found["written as float"].levels == (1, 2)
    assert found["mixed"].levels == (1, 2.5, "a")
    assert "word" in repr(found)
    assert "<table>" in found._repr_html_()


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=14, max_size=80, unique=True),
    st.integers(2, 9),
)
def test_bins_hold_about_the_same_and_all_values(values: list[float], bins: int) -> None:
    column = Schema.infer({"x": values}, bins=bins)["x"]
    codes, unseen = column.codes(np.array(values))
    counts = np.bincount(codes, minlength=len(column.levels))
    assert not unseen
    assert len(column.levels) == bins
    assert counts.min() >= len(values) // bins - 1
    assert counts.max() <= -(-len(values) // bins) + 1
    for code in range(bins):
        inside = np.array(values)[codes == code]
        assert inside.min() <= column.centers[code] <= inside.max()
    assert len(set(column.levels)) == bins


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=5, max_size=60))
def test_weights_are_repeated_values(pairs: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in pairs], dtype=float)
    weights = np.array([weight for _, weight in pairs], dtype=float)
    repeated = np.repeat(values, weights.astype(int))
    if len(np.unique(repeated)) <= 12:
        return
    kept = weights > 0
    one = Schema.infer({"x": values[kept]}, weights=weights[kept])
    assert one["x"].edges == Schema.infer({"x": repeated})["x"].edges


def test_a_value_with_more_than_its_share_has_one_bin() -> None:
    column = Schema.infer({"x": [0.0] * 100 + [float(v) for v in range(1, 20)]}, bins=5)["x"]
    codes, _ = column.codes([0.0, 0.5, 19.0, None])
    assert codes[0] == 0
    assert codes[2] == len(column.levels) - 1
    assert codes[3] == -1


def test_codes_are_positions_and_unseen_ones_unknown() -> None:
    schema = Schema.infer({"x": ["a", "b"], "n": [1, 2], "y": [0.5 * k for k in range(2)]})
    with pytest.warns(fgrn.UnseenLevelWarning, match=r"Column 'x': level 'c'.*known: a, b.*Column 'n': level 7") as one:
        codes = schema.codes({"x": ["b", "c", None], "n": np.array([2, 7, 1])})
    assert len(one) == 1
    assert codes["x"].codes.tolist() == [1, -1, -1]
    assert codes["n"].codes.tolist() == [1, -1, 0]
    with pytest.raises(SchemaError, match="'c'"):
        schema.codes({"x": ["c"]}, unseen="error")
    with pytest.raises(fgrn.UnknownNameError, match="zip"):
        schema.codes({"zip": [1]})


def test_missing_codes() -> None:
    schema = Schema.infer({"x": ["a", "?", "b"], "n": [1, -9, 2]}, missing=["?", -9])
    assert schema["x"].levels == ("a", "b")
    assert schema["x"].missing == schema["n"].missing == ("?", -9)
    assert schema["n"].levels == (1, 2)
    assert schema.codes({"x": ["?"], "n": [-9]})["n"].codes.tolist() == [-1]
    numbers = Schema.infer({"n": [*range(30), -9]}, missing=[-9])
    assert numbers.codes({"n": [-9, 3]})["n"].codes.tolist() == [-1, 0]


def test_categories_keep_their_order_whatever_library() -> None:
    levels = ["low", "middle", "high"]
    for frame in (
        pd.DataFrame({"x": pd.Categorical(["high", "low"], levels, ordered=True)}),
        pl.DataFrame({"x": pl.Series(["high", "low"], dtype=pl.Enum(levels))}),
    ):
        found = Schema.infer(frame)
        assert found["x"].levels == tuple(levels)
        assert found.codes(frame)["x"].codes.tolist() == [2, 0]


def test_a_schema_is_changed_into_another() -> None:
    schema = Schema.infer({"age": [float(v) for v in range(100)], "id": [str(v) for v in range(3)]})
    changed = schema.with_column("age", edges=[30, 60]).without("id")
    assert changed["age"].levels == ("< 30", "30 to 60", ">= 60")
    assert changed.codes({"age": [29.9, 30, 60]})["age"].codes.tolist() == [0, 1, 2]
    assert list(schema) == ["age", "id"]
    named = changed.with_column("age", levels=["young", "middle", "old"])
    assert named.states == {"age": ["young", "middle", "old"]}
    assert Schema.from_dict(named.as_dict()) == named
    with pytest.raises(fgrn.UnknownNameError, match="edges"):
        schema.with_column("age", edge=[1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schema.infer({"zip": [f"{k:05}" for k in range(99)]}), ["'zip'", "99 distinct", "max_levels=99"]),
        (lambda: Schema.infer({"x": [None, None]}), ["'x'", "no known value"]),
        (lambda: Schema.infer({"x": [1.0, np.inf] * 10}), ["'x'", "not a finite number"]),
        (lambda: Schema.infer({"x": [pd.Timestamp("2020-01-01")]}), ["'x'", "Timestamp"]),
        (lambda: Schema.infer({"x": [pd.Timestamp("2020-01-01")]}, continuous=["x"]), ["'x'", "dt.month"]),
        (lambda: Schema.infer({"x": [pd.Timedelta("2h")]}), ["'x'", "Timedelta", "dt.total_seconds()"]),
        (lambda: Schema.infer({"x": [pd.Timedelta("2h")]}, continuous=["x"]), ["'x'", "dt.total_seconds()"]),
        (lambda: Schema.infer({}), ["no column"]),
        (lambda: Column("x", ("a", "a")), ["'a' twice"]),
        (lambda: Column("x", ("a",), missing=("a",)), ["'a'", "missing"]),
        (lambda: Column("x", ("a", "b"), edges=(1.0, 0.0)), ["ascend"]),
        (lambda: Column("x", ("a", "b"), edges=(1.0, 2.0)), ["3 bins", "2 levels"]),
        (lambda: Column("x", "ab"), ["'levels' is a list"]),
        (lambda: Schema([Column("x", ("a",)), Column("x", ("b",))]), ["two columns"]),
        (lambda: Schema(["x"]), ["Columns"]),  # type: ignore[list-item]
        (lambda: Schema.infer({"x": list(range(50))}).codes({"x": ["old"]}, "error"), ["'x'", "'old' is not a number"]),
        (lambda: Schema.infer({"x": list(range(50))}).codes({"x": [np.inf]}), ["Row 0", "'x'"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(make: object, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        make()  # type: ignore[operator]
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("edges", [[], ["a"], 5, [2, 1], [float("nan")]])
def test_edges_that_are_none(edges: object) -> None:
    with pytest.raises(SchemaError, match="ascend"):
        Schema.infer({"x": list(range(50))}).with_column("x", edges=edges)


def test_large_numbers_stay_distinct() -> None:
    big = 2**53
    schema = Schema.infer({"x": [big, big + 1] * 5})
    assert schema.codes({"x": np.array([big, big + 1])})["x"].codes.tolist() == [0, 1]
    wide = Schema.infer({"x": [1e308 * (k / 20) for k in range(21)]})["x"]
    assert np.isfinite(wide.edges).all()


def test_numbers_too_long_to_be_distinct_floats_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"'id'.*cannot be told apart"):
        Schema.infer({"id": [10**18 + k for k in range(40)]})
    with pytest.raises(SchemaError, match=r"'x'.*list"):
        Schema.infer({"x": [[1, 2], [3]]})


def test_rare_levels_are_one_level_where_there_are_many() -> None:
    """So that a table with a few more levels than are wanted is learnt from; identifiers are still refused."""
    words = [f"w{number}" for number in range(60) for _ in range(60 - number)]
    with pytest.warns(ManyLevelsWarning, match=r"'word': 60 levels are many. The 51 rarest.*'other'"):
        schema = Schema.infer({"word": words}, max_levels=10)
    column = schema["word"]
    assert set(column.levels) == {*(f"w{number}" for number in range(9)), "other"}
    assert column.other == "other"
    codes, unseen = column.codes(["w0", "w59", "never seen", None])
    assert [column.levels[code] if code >= 0 else None for code in codes] == ["w0", "other", "other", None]
    assert not unseen
    assert Schema.from_dict(schema.as_dict()) == schema
    with pytest.raises(SchemaError, match="looks like an identifier"):
        Schema.infer({"word": [f"w{number}" for number in range(60)]}, max_levels=10)
    with pytest.raises(SchemaError, match=r"60 distinct values in 60 rows are dates\. Make .* such as the year"):
        Schema.infer({"day": [f"2026-{1 + day // 28:02}-{1 + day % 28:02}" for day in range(60)]}, max_levels=10)


def test_all_unfit_columns_are_named_at_once() -> None:
    table = {
        "id": [f"i{row}" for row in range(60)],
        "x": ["a", "b"] * 30,
        "price": [f"{row},5" for row in range(60)],
        "code": [f"c{row % 55}" for row in range(60)],
    }
    with pytest.raises(SchemaError) as caught:
        Schema.infer(table)
    told = str(caught.value)
    assert "Column 'id': 60 distinct values in 60 rows looks like an identifier. Column 'code': 55 distinct" in told
    assert "Leave them out, or allow so many levels with max_levels=60. Column 'price': 60 distinct" in told
    assert told.endswith("Read the file with decimal=',', leave it out, or allow so many levels with max_levels=60.")
    assert [one.column for one in caught.value.others] == ["price"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == told
    with pytest.raises(SchemaError, match=r"The same holds for columns 'c3', 'c4'\. Leave them out"):
        Schema.infer({f"c{number}": table["id"] for number in range(5)})


def test_the_level_of_other_values_is_called_as_none_that_is_there() -> None:
    words = ["other"] * 30 + [f"w{number % 20}" for number in range(40)]
    with pytest.warns(ManyLevelsWarning, match="'other_'"):
        column = Schema.infer({"word": words}, max_levels=3)["word"]
    assert column.levels == ("other", "w0", "other_")
    with pytest.raises(SchemaError, match="not among its levels"):
        Column("a", ("x", "y"), other="z")


def test_rare_levels_weigh_what_their_rows_do() -> None:
    words, weights = [f"w{number}" for number in range(20)] * 3, np.tile(np.arange(20.0), 3)
    with pytest.warns(ManyLevelsWarning):
        column = Schema.infer({"word": words}, max_levels=3, weights=weights)["word"]
    assert column.levels == ("w18", "w19", "other")


def test_a_number_in_most_rows_has_a_bin_of_its_own_and_leaves_the_others() -> None:
    """Gains of capital: none in nine rows of ten, and the rest tell most."""
    rng = np.random.default_rng(0)
    gains = np.where(rng.random(2000) < 0.9, 0.0, rng.gamma(2.0, 1000.0, 2000))
    column = Schema.infer({"gain": gains}, bins=5)["gain"]
    codes, _ = column.codes(gains)
    counts = np.bincount(codes)
    assert len(counts) == 5
    assert counts[0] == (gains == 0).sum()
    assert counts[1:].min() > 0.8 * counts[1:].max()


def test_words_among_numbers_in_bins_are_unseen_values() -> None:
    schema = Schema.infer({"x": list(range(50))})
    given = {"x": [3, "old", None, "12.5", "young", "old"]}
    with pytest.warns(fgrn.UnseenLevelWarning, match="Column 'x': 'old', 'young' are not numbers, in 3 rows. Treated"):
        codes = schema.codes(given)["x"].codes
    known = schema.codes({"x": [3, 12.5]})["x"].codes
    assert codes.tolist() == [known[0], -1, -1, known[1], -1, -1]
    with pytest.raises(SchemaError, match="'old', 'young' are not numbers, in 3 rows"):
        schema.codes(given, learning=True)
    table = {"x": [*range(49), "old"], "y": ["a", "b"] * 25}
    model = fgrn.NaiveBayesClassifier(schema=Schema.infer({"x": list(range(50)), "y": ["a", "b"] * 25}))
    with pytest.raises(SchemaError, match="'old' is not a number, in 1 row"):
        model.fit(table, ["p", "q"] * 25)
