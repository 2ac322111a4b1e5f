"""Every kind of table gives the same evidence; invalid evidence gives clear errors; completion keeps the kind."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from strategies import Evidence, SmallNetwork, networks_with_evidence

import fgrn
from fgrn import SISO, Diverter, EvidenceError, ImpossibleEvidence, Network, Source, Variable
from fgrn.core.labels import bin_of
from fgrn.flow.evidence import encode
from fgrn.tables import encoded

pytestmark = pytest.mark.slow

NAN = float("nan")
LABELS: dict[str, Any] = {"Y": ["no", "yes"], "Z": 3, "W": [2, 4], "F": [False, True], "M": ["a", 3, 0.5]}
ROWS: dict[str, list[Any]] = {
    "Y": ["yes", "no", None, "yes"],
    "Z": [2, None, 0, 1],
    "W": [4, 2, 4, None],
    "F": [True, None, False, True],
    "M": ["a", 3, 0.5, None],
}
"""The plain table: lists of labels, None where nothing is known."""


def make_network() -> Network:
    """One hidden variable of three states over a leaf of each kind: words, numbers, booleans, a mixture."""
    rng = np.random.default_rng(3)
    root = Variable("S", 3)
    legs = [Variable(f"S{number}", 3) for number in range(len(LABELS))]
    leaves = []
    for leg, (name, states) in zip(legs, LABELS.items(), strict=True):
        leaf = Variable(name, states)
        leaves.append(SISO(leg, leaf, rng.dirichlet(np.ones(leaf.cardinality), 3)))
    return Network([Source(root, [0.5, 0.3, 0.2]), Diverter([root], legs), *leaves])


NET = make_network()


def assert_same_messages(data: Any, plain: Mapping[str, list[Any]], engine: str = "reference") -> None:
    got, expected = NET.propagate(data, engine=engine), NET.propagate(plain, engine="reference")
    np.testing.assert_allclose(got.log_likelihood, expected.log_likelihood, rtol=1e-12, atol=1e-13)
    for name in expected.kept:
        for part in ("forward", "backward", "marginal"):
            np.testing.assert_allclose(
                getattr(got, part)(name), getattr(expected, part)(name), rtol=1e-12, atol=1e-13, err_msg=name
            )


# One column, written in many ways


def filled(values: list[Any], unknown: Any) -> list[Any]:
    return [unknown if value is None else value for value in values]


WORDS = ROWS["Y"]
CODES = [1, 0, None, 1]
ONE_HOT = [[0, 1], [1, 0], None, [0, 1]]
HOLES = np.array([False, False, True, False])
MASKED = np.ma.masked

WAYS_TO_WRITE_WORDS: dict[str, Callable[[], Any]] = {
    "labels": lambda: WORDS,
    "tuple": lambda: tuple(WORDS),
    "codes": lambda: CODES,
    "labels and codes": lambda: ["yes", 0, None, 1],
    "floats": lambda: [1.0, 0.0, NAN, 1.0],
    "numpy scalars": lambda: [np.str_("yes"), np.int8(0), np.float64("nan"), np.uint16(1)],
    "generator": lambda: (value for value in WORDS),
    "object array": lambda: np.array(WORDS, dtype=object),
    "object array of codes": lambda: np.array(CODES, dtype=object),
    "float array": lambda: np.array([1, 0, NAN, 1]),
    "float32 array": lambda: np.array([1, 0, NAN, 1], dtype=np.float32),
    "masked strings": lambda: np.ma.array(["yes", "no", "?", "yes"], mask=HOLES),
    "masked codes": lambda: np.ma.array([1, 0, 99, 1], mask=HOLES),
    "masked floats": lambda: np.ma.array([1.0, 0.0, 0.0, 1.0], mask=HOLES),
    "masked objects": lambda: np.ma.array(WORDS, mask=HOLES, dtype=object),
    "pandas series": lambda: pd.Series(WORDS),
    "pandas object series": lambda: pd.Series(filled(WORDS, NAN), dtype=object),
    "pandas string series": lambda: pd.Series(WORDS, dtype="string"),
    "pandas category series": lambda: pd.Series(WORDS, dtype="category"),
    "pandas ordered categories": lambda: pd.Series(pd.Categorical(WORDS, ["yes", "never", "no"], ordered=True)),
    "pandas Int64 series": lambda: pd.Series(CODES, dtype="Int64"),
    "pandas Float64 series": lambda: pd.Series(CODES, dtype="Float64"),
    "pandas float series": lambda: pd.Series(CODES, dtype=float),
    "pandas series of another index": lambda: pd.Series(WORDS, index=[3, 2, 1, 0]),
    "pandas series of one index": lambda: pd.Series(WORDS, index=[7, 7, 7, 7]),
    "pandas arrow series": lambda: pd.Series(pd.array(WORDS, dtype=pd.ArrowDtype(pa.string()))),
    "pandas categorical": lambda: pd.Categorical(WORDS),
    "pandas index": lambda: pd.Index(WORDS),
    "pandas array": lambda: pd.array(CODES, dtype="Int64"),
    "polars strings": lambda: pl.Series(WORDS),
    "polars categories": lambda: pl.Series(WORDS, dtype=pl.Categorical),
    "polars enum": lambda: pl.Series(WORDS, dtype=pl.Enum(["yes", "no", "never"])),
    "polars small integers": lambda: pl.Series(CODES, dtype=pl.Int8),
    "polars floats": lambda: pl.Series([1.0, 0.0, NAN, 1.0]),
    "polars floats with null": lambda: pl.Series([1.0, 0.0, None, 1.0]),
    "arrow array": lambda: pa.array(WORDS),
    "arrow large strings": lambda: pa.array(WORDS, pa.large_string()),
    "arrow chunks": lambda: pa.chunked_array([WORDS[:1], WORDS[1:]]),
    "arrow dictionary": lambda: pa.array(WORDS).dictionary_encode(),
    "arrow integers": lambda: pa.array(CODES),
    "lists of weights": lambda: ONE_HOT,
    "tuples of weights": lambda: [(0, 1), (1, 0), None, (0, 1)],
    "arrays of weights": lambda: [np.array([0, 1]), np.array([1.0, 0.0]), None, np.array([False, True])],
    "two dimensions": lambda: np.array([[0, 1], [1, 0], [NAN, NAN], [0, 1]]),
    "two dimensions, masked": lambda: np.ma.array(
        [[0, 1], [1, 0], [9, 9], [0, 1]], mask=[[0, 0], [0, 0], [1, 1], [0, 0]]
    ),
    "object array of weights": lambda: pd.Series(ONE_HOT, dtype=object).to_numpy(),
    "pandas series of weights": lambda: pd.Series(ONE_HOT),
    "polars lists": lambda: pl.Series(ONE_HOT),
    "polars lists of floats": lambda: pl.Series(ONE_HOT, dtype=pl.List(pl.Float32)),
    "polars arrays": lambda: pl.Series(ONE_HOT, dtype=pl.Array(pl.Float64, 2)),
    "arrow lists": lambda: pa.array(ONE_HOT),
    "arrow fixed size lists": lambda: pa.array(ONE_HOT, pa.list_(pa.float64(), 2)),
    "everything at once": lambda: ["yes", [1, 0], None, np.int64(1)],
    "everything at once, as a tuple": lambda: ("yes", (1, 0), NAN, 1.0),
    "everything at once, in pandas": lambda: pd.Series(["yes", [1, 0], NAN, np.array([0, 1])], dtype=object),
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE_WORDS)
def test_a_column_may_be_written_in_many_ways(way: str) -> None:
    for engine in ("reference", "cpu"):
        assert_same_messages({**ROWS, "Y": WAYS_TO_WRITE_WORDS[way]()}, ROWS, engine)
    alone = WAYS_TO_WRITE_WORDS[way]()
    assert_same_messages({"Y": alone}, {"Y": WORDS})


@pytest.mark.parametrize("way", [way for way in WAYS_TO_WRITE_WORDS if way != "generator"])
def test_the_same_is_learnt_from_every_way_to_write_a_column(way: str) -> None:
    one, other = NET.copy(), NET.copy()
    one.learn({**ROWS, "Y": WAYS_TO_WRITE_WORDS[way]()}, epochs=2)
    other.learn(ROWS, epochs=2)
    np.testing.assert_allclose(one._parameters.values, other._parameters.values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        NAN,
        np.nan,
        np.float32("nan"),
        pd.NA,
        pd.NaT,
        MASKED,
        np.datetime64("NaT", "s"),
        np.timedelta64("NaT", "s"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ROWS)
def test_all_kinds_of_missing_values_are_recognised(unknown: Any, name: str) -> None:
    column = filled(ROWS[name], unknown)
    array = np.empty(len(column), dtype=object)
    array[:] = column
    for written in (column, array, pd.Series(array, dtype=object)):
        assert_same_messages({name: written}, {name: ROWS[name]})
    assert_same_messages({"Z": [0, 1], name: unknown} if name != "Z" else {"Z": unknown, "W": [2, 4]},
                         {"Z": [0, 1]} if name != "Z" else {"W": [2, 4]})  # fmt: skip


def test_columns_that_are_all_unknown_say_nothing() -> None:
    nothing = {"Y": [None, None]}
    for column in (
        [None, None], [NAN, NAN], np.array([NAN, NAN]), np.array([None, None]), pd.Series([None, None]),
        pd.Series([pd.NaT, pd.NaT]), np.array(["NaT", "NaT"], dtype="datetime64[s]"), pl.Series([None, None]),
        pa.nulls(2), np.full((2, 2), NAN), np.ma.masked_all(2), np.ma.masked_all((2, 2)), [[NAN, NAN], [None, None]],
    ):  # fmt: skip
        assert_same_messages({"Y": column}, nothing)
    np.testing.assert_allclose(NET.propagate(nothing).marginal("S"), [[0.5, 0.3, 0.2]] * 2)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "O", "?"])
def test_every_type_of_number_is_a_code(dtype: str) -> None:
    codes = [1, 0, 1, 0] if dtype == "?" else [1, 0, 2, 1]
    assert_same_messages({"Z": np.array(codes, dtype=dtype)}, {"Z": codes})
    if dtype == "?":
        with pytest.raises(fgrn.EvidenceError, match="True is not one of its states"):
            NET.propagate({"Y": np.array([True, False])})
        return
    assert_same_messages({"Y": np.array([1, 0, 0, 1], dtype=dtype)}, {"Y": ["yes", "no", "no", "yes"]})


def test_arrays_of_strings_are_labels() -> None:
    words = ["yes", "no", "no"]
    for column in (
        np.array(words), np.array(words, dtype="U50"), np.array(words, dtype=object),
        np.array(words, dtype=np.dtypes.StringDType()), np.array(words)[::-1][::-1],
    ):  # fmt: skip
        assert_same_messages({"Y": column}, {"Y": words})


def test_booleans_are_labels_where_labels_are_booleans() -> None:
    plain = {"F": [True, False, None, True]}
    for column in (
        [1, 0, None, 1], [np.True_, np.False_, None, np.True_], np.array([True, False, None, True], dtype=object),
        pd.Series([True, False, None, True], dtype="boolean"), pl.Series([True, False, None, True]),
        pa.array([True, False, None, True]), np.ma.array([True, False, False, True], mask=HOLES), [1.0, 0.0, NAN, 1.0],
    ):  # fmt: skip
        assert_same_messages({"F": column}, plain)
    assert_same_messages({"F": np.array([True, False])}, {"F": [True, False]})


def test_one_value_stands_for_every_row() -> None:
    plain = {"Y": ["yes", "yes"], "Z": [1, 2]}
    for value in ("yes", 1, 1.0, np.int64(1), np.str_("yes"), np.array("yes"), np.array(1)):
        assert_same_messages({"Y": value, "Z": [1, 2]}, plain)
        assert_same_messages({"Y": value}, {"Y": ["yes"]})
    for value in (None, NAN, pd.NA, pd.NaT, MASKED, np.array(NAN), np.array(None)):
        assert_same_messages({"Y": value, "Z": [1, 2]}, {"Z": [1, 2]})
    assert len(NET.propagate({"Y": "yes", "Z": []}).log_likelihood) == 0


def test_a_range_is_a_column() -> None:
    assert_same_messages({"Z": range(3)}, {"Z": [0, 1, 2]})


# Tables, of many kinds

TABLES: dict[str, Callable[[], Any]] = {
    "dict": lambda: ROWS,
    "dict in another order": lambda: dict(reversed(ROWS.items())),
    "mapping proxy": lambda: MappingProxyType(ROWS),
    "user dict": lambda: UserDict(ROWS),
    "dict of tuples": lambda: {name: tuple(column) for name, column in ROWS.items()},
    "dict of object arrays": lambda: {name: np.array(column, dtype=object) for name, column in ROWS.items()},
    "dict of pandas series": lambda: {name: pd.Series(column) for name, column in ROWS.items()},
    "dict of polars series": lambda: {name: pl.Series(column, strict=False) for name, column in WITHOUT_M.items()},
    "dict of arrow arrays": lambda: {name: pa.array(column) for name, column in WITHOUT_M.items()},
    "dict of everything": lambda: {
        "Y": pd.Series(ROWS["Y"]), "Z": pl.Series(ROWS["Z"]), "W": pa.array(ROWS["W"]), "F": tuple(ROWS["F"]),
        "M": np.array(ROWS["M"], dtype=object),
    },
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, objects": lambda: pd.DataFrame(ROWS, dtype=object),
    "pandas, best types": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas, categories": lambda: pd.DataFrame(ROWS).astype("category"),
    "pandas, an index of words": lambda: pd.DataFrame(ROWS, index=list("dcba")),
    "pandas, an index backwards": lambda: pd.DataFrame(ROWS, index=[3, 2, 1, 0]),
    "pandas, one index": lambda: pd.DataFrame(ROWS, index=[1, 1, 1, 1]),
    "pandas, two indices": lambda: pd.DataFrame(
        ROWS, index=pd.MultiIndex.from_product([["a", "b"], [0, 1]], names=["one", "two"])
    ),
    "pandas, a slice": lambda: pd.concat([pd.DataFrame(ROWS)] * 2).iloc[4:],
    "polars": lambda: pl.DataFrame(WITHOUT_M),
    "polars, categories": lambda: pl.DataFrame(WITHOUT_M).with_columns(pl.col("Y").cast(pl.Categorical)),
    "polars, enum": lambda: pl.DataFrame(WITHOUT_M).with_columns(pl.col("Y").cast(pl.Enum(["yes", "no"]))),
    "polars, lists": lambda: pl.DataFrame(WITHOUT_M).with_columns(pl.Series("Y", ONE_HOT)),
    "polars, lazy": lambda: pl.LazyFrame(WITHOUT_M),
    "arrow": lambda: pa.table(WITHOUT_M),
    "arrow, in chunks": lambda: pa.concat_tables([pa.table(WITHOUT_M).slice(0, 1), pa.table(WITHOUT_M).slice(1)]),
    "structured array": lambda: np.array(
        list(zip(*ROWS.values(), strict=True)), dtype=[(name, object) for name in ROWS]
    ),
    "structured array of codes": lambda: np.array(
        [(1, 2), (0, NAN), (NAN, 0), (1, 1)], dtype=[("Y", "f8"), ("Z", "f4")]
    ),
    "structured array of weights": lambda: np.array(
        [([0, 1], 2), ([1, 0], NAN), ([NAN, NAN], 0), ([0, 1], 1)], dtype=[("Y", "f8", 2), ("Z", "f4")]
    ),
    "record array": lambda: np.rec.fromrecords([(1.0, 2.0), (0.0, NAN), (NAN, 0.0), (1.0, 1.0)], names="Y,Z"),
    "masked structured array": lambda: np.ma.array(
        [("yes", 2), ("no", 9), ("?", 0), ("yes", 1)], dtype=[("Y", "U3"), ("Z", "i4")],
        mask=[(False, False), (False, True), (True, False), (False, False)],
    ),
}  # fmt: skip
WITHOUT_M = {name: column for name, column in ROWS.items() if name != "M"}  # a column of one type each


def names_in(table: Any) -> list[str]:
    if isinstance(table, np.ndarray):
        return list(table.dtype.names or ())
    if isinstance(table, pa.Table):
        return list(table.column_names)
    if isinstance(table, (pl.DataFrame, pl.LazyFrame)):
        return table.collect_schema().names()
    return list(table)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_may_be_of_many_kinds(kind: str) -> None:
    table = TABLES[kind]()
    plain = {name: ROWS[name] for name in names_in(table)}
    assert len(plain) >= 2
    assert_same_messages(table, plain)
    one, other = NET.copy(), NET.copy()
    one.learn(table, epochs=2)
    other.learn(plain, epochs=2)
    np.testing.assert_allclose(one._parameters.values, other._parameters.values, rtol=1e-10, atol=1e-12)


def test_a_batch_of_arrow_is_a_table_or_is_refused_in_words() -> None:
    try:
        assert_same_messages(pa.RecordBatch.from_pydict(WITHOUT_M), WITHOUT_M)
    except EvidenceError as error:
        assert "RecordBatch" in str(error)


def test_unused_categories_do_not_matter() -> None:
    levels = ["never", "yes", "no"]
    assert_same_messages({"Y": pd.Series(pd.Categorical(WORDS, levels))}, {"Y": WORDS})
    with pytest.raises(EvidenceError, match="Row 1, 'Y': 'never' is not one of its states"):
        NET.propagate(pd.DataFrame({"Y": pd.Categorical(["yes", "never"], levels)}))


@pytest.mark.parametrize("nothing", [None, {}, pd.DataFrame(), pl.DataFrame()], ids=["None", "{}", "pandas", "polars"])
def test_no_evidence_at_all_gives_the_priors_or_no_rows(nothing: Any) -> None:
    rows = len(nothing) if isinstance(nothing, (pd.DataFrame, pl.DataFrame)) else 1
    seen = NET.propagate(nothing)
    assert seen.log_likelihood.shape == (rows,)
    np.testing.assert_allclose(seen.log_likelihood, np.zeros(rows), atol=1e-13)
    np.testing.assert_allclose(seen.marginal("S"), [[0.5, 0.3, 0.2]] * rows if rows else np.zeros((0, 3)))


def test_without_an_argument_there_is_one_row_of_priors() -> None:
    seen = NET.propagate()
    np.testing.assert_allclose(seen.marginal("S"), [[0.5, 0.3, 0.2]])
    np.testing.assert_allclose(seen.marginal("Y"), [np.array([0.5, 0.3, 0.2]) @ NET.table("Y")])
    np.testing.assert_allclose(seen.backward("S"), [[1 / 3] * 3])


def test_a_frame_without_columns_has_as_many_rows_as_its_index() -> None:
    assert NET.propagate(pd.DataFrame(index=range(5))).marginal("S").shape == (5, 3)


EMPTY: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"Y": [], "Z": []},
    "tuples": lambda: {"Y": (), "Z": ()},
    "arrays": lambda: {"Y": np.array([], dtype="U3"), "Z": np.array([], dtype=int)},
    "weights": lambda: {"Y": np.zeros((0, 2)), "Z": np.array([], dtype=int)},
    "with one value for all": lambda: {"Y": [], "Z": 1},
    "pandas": lambda: pd.DataFrame({"Y": [], "Z": []}),
    "pandas, categories": lambda: pd.DataFrame({"Y": ["yes"], "Z": [1]}).astype({"Y": "category"}).iloc[:0],
    "polars": lambda: pl.DataFrame({"Y": ["yes"], "Z": [1]}).clear(),
    "polars, nulls": lambda: pl.DataFrame({"Y": [], "Z": []}),
    "arrow": lambda: pa.table({"Y": pa.array([], pa.string()), "Z": pa.array([], pa.int8())}),
    "structured array": lambda: np.zeros(0, dtype=[("Y", "U3"), ("Z", int)]),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_table_gives_messages_of_no_rows(kind: str) -> None:
    for settings in ({}, {"engine": "cpu"}, {"schedule": "rounds"}, {"keep": ["S", "Y"]}):
        seen = NET.propagate(EMPTY[kind](), **settings)
        assert seen.log_likelihood.shape == (0,)
        assert seen.forward("S").shape == seen.backward("S").shape == seen.marginal("S").shape == (0, 3)
        assert seen.marginal("Y").shape == (0, 2)
        assert seen.impossible.shape == seen.converged.shape == (0,)
    net = NET.copy()
    with pytest.raises(fgrn.LearningError, match="There are no rows to learn from"):
        net.learn(EMPTY[kind]())
    assert net == NET


# Distributions


def softened(column: list[Any], factors: list[float]) -> list[Any]:
    return [
        [weight * factor for weight in value] if isinstance(value, list) else value
        for value, factor in zip(column, factors, strict=True)
    ]


@given(case=networks_with_evidence(), data=st.data())
def test_the_scale_of_a_distribution_moves_the_likelihood_and_no_belief(
    case: tuple[SmallNetwork, Evidence], data: st.DataObject
) -> None:
    network, evidence = case
    net = Network(network.blocks)
    expected = net.propagate(evidence.columns)
    shift = np.zeros(evidence.rows)
    columns = {}
    for name, column in evidence.columns.items():
        factors = data.draw(st.lists(st.floats(-250, 250), min_size=evidence.rows, max_size=evidence.rows), label=name)
        columns[name] = softened(column, [10.0**factor for factor in factors])
        shift += [f * np.log(10) if isinstance(v, list) else 0 for f, v in zip(factors, column, strict=True)]
    got = net.propagate(columns)
    np.testing.assert_allclose(got.log_likelihood, expected.log_likelihood + shift, rtol=1e-9, atol=1e-9)
    for name in expected.kept:
        for part in ("forward", "backward", "marginal"):
            np.testing.assert_allclose(
                getattr(got, part)(name), getattr(expected, part)(name), rtol=1e-9, atol=1e-12, err_msg=name
            )


@pytest.mark.parametrize("scale", [1e308, 1.7e308, 1e-300, 1e-310])
def test_weights_at_the_ends_of_floating_point_are_weights_like_any_other(scale: float) -> None:
    for column in ([[scale, scale], None], np.array([[scale, scale], [NAN, NAN]])):
        seen = NET.propagate({"Y": column})
        np.testing.assert_allclose(seen.marginal("S"), [[0.5, 0.3, 0.2]] * 2)
        np.testing.assert_allclose(seen.log_likelihood, [np.log(scale), 0], rtol=1e-9)
    history = NET.copy().learn({"Y": [[scale, scale], "no"]}, epochs=1)
    assert np.isfinite(history.log_likelihood).all()


def test_a_distribution_is_mixed_from_the_hard_values() -> None:
    weights = [0.2, 0.7, 0.4]
    hard = NET.propagate({"Z": [0, 1, 2], "Y": "yes"})
    soft = NET.propagate({"Z": [weights], "Y": "yes"})
    joint = np.exp(hard.log_likelihood) * weights
    np.testing.assert_allclose(np.exp(soft.log_likelihood), joint.sum())
    np.testing.assert_allclose(soft.marginal("Z"), [joint / joint.sum()])


def test_all_weights_equal_say_as_little_as_unknown_does() -> None:
    assert_same_messages({"Z": [[1, 1, 1]], "Y": ["no"]}, {"Y": ["no"]})


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (["yes", [0, 0]], 1),
        ([[0.0, 0.0], None], 0),
        (np.array([[1, 1], [0, 0]]), 1),
        (pl.Series([[1, 1], [0, 0]]), 1),
    ],
)
def test_a_distribution_of_zeros_is_impossible_and_its_row_named(column: Any, row: int) -> None:
    with pytest.raises(ImpossibleEvidence, match=f"^Row {row}: this evidence has probability zero") as raised:
        NET.propagate({"Y": column})
    assert raised.value.rows == (row,)
    with pytest.raises(ImpossibleEvidence, match=f"^Row {row}: ") as raised:
        NET.copy().learn({"Y": column})
    assert raised.value.rows == (row,)
    seen = NET.propagate({"Y": column}, impossible="mark")
    assert np.flatnonzero(seen.impossible).tolist() == [row]
    with pytest.raises(ImpossibleEvidence, match=f"^Row {row}: "):
        NET.complete({"Y": column})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.1, 0.2, 0.7], r"a distribution of 3 weights, but it has 2 states \(no, yes\)"),
        ([0.5], "a distribution of 1 weight, but it has 2 states"),
        ([], "a distribution of 0 weights, but it has 2 states"),
        ((1, 0, 0), "a distribution of 3 weights, but it has 2 states"),
        ([-0.1, 1.1], r"finite and not negative. Got \[-0.1, 1.1\]"),
        ([NAN, 1], "finite and not negative"),
        ([None, 1], "finite and not negative"),
        ([float("inf"), 1], "finite and not negative"),
        (["a", "b"], r"\['a', 'b'\] is not a list of numbers"),
        (["0.5", "0.5"], r"\['0.5', '0.5'\] is not a list of numbers"),
        (["yes", "no"], r"\['yes', 'no'\] is not a list of numbers"),
        ([[0.5, 0.5], [0.5, 0.5]], r"\(2, 2\)|two dimensions|2 dimensions|not a list of numbers"),
        ([[0.5], [0.5, 0.5]], "is not a list of numbers"),
        ([1j, 1], "is not a list of numbers"),
        (np.array([1j, 1]), "is not a list of numbers"),
        (np.ones((2, 2)), ""),
    ],
    ids=repr,
)
def test_a_distribution_has_a_weight_for_every_state_finite_and_not_negative(value: Any, words: str) -> None:
    for column in (["yes", None, value], ("yes", "no", value), pd.Series(["yes", "no", value], dtype=object)):
        with pytest.raises(EvidenceError, match=f"^Row 2, 'Y'.*{words}"):
            NET.propagate({"Y": column})


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((2, 3)), r"Column 'Y': its distributions have 3 weights; it has 2 states \(no, yes\)"),
        (np.ones((2, 1)), "Column 'Y': its distributions have 1 weight; it has 2 states"),
        (np.ones((2, 0)), "Column 'Y': its distributions have 0 weights; it has 2 states"),
        (np.array([[1, 1], [-1, 2]]), "Row 1, 'Y': .*finite and not negative"),
        (np.array([[1, 1], [NAN, 2]]), "Row 1, 'Y': .*finite and not negative"),
        (np.array([[1, 1], [np.inf, 2]]), "Row 1, 'Y': .*finite and not negative"),
        (np.array([["a", "b"], ["c", "d"]]), "Row 0, 'Y': .*is not a list of numbers"),
        (np.array([["0.5", "0.5"]]), "Row 0, 'Y': .*is not a list of numbers"),
        (np.array([[1, 1], [None, 2]], dtype=object), "Row 1, 'Y': .*finite and not negative"),
        (np.ma.array([[1, 1], [1, 2]], mask=[[0, 0], [1, 0]]), "Row 1, 'Y': .*finite and not negative"),
        (np.array([[1j, 1]]), "Row 0, 'Y': .*is not a list of numbers"),
    ],
)
def test_distributions_in_an_array_are_checked_alike(array: Any, words: str) -> None:
    with pytest.raises(EvidenceError, match=words):
        NET.propagate({"Y": array})


def test_the_first_of_several_bad_distributions_is_named() -> None:
    with pytest.raises(EvidenceError, match="Row 1, "):
        NET.propagate({"Z": np.array([[1, 1, 1], [0, -1, 1], [1, 1, 1], [NAN, 1, 1]])})


# Labels that are numbers


def test_an_integer_label_is_never_taken_for_a_code() -> None:
    plain = {"W": [4, 2, None]}
    for column in (
        np.array([4.0, 2.0, NAN]), [4.0, 2.0, None], [np.int64(4), np.float32(2), None],
        pd.Series([4, 2, None], dtype="Int64"), pl.Series([4, 2, None], dtype=pl.UInt8), [[0, 1], [1, 0], None],
    ):  # fmt: skip
        assert_same_messages({"W": column}, plain)
    seen = NET.propagate({"W": [2, 4]})
    np.testing.assert_allclose(seen.marginal("W"), [[1, 0], [0, 1]])
    for column in ([4, 0], np.array([4, 0]), np.array([4.0, 0.0]), pd.Series([4, 0]), pl.Series([4, 0]), (2, 1)):
        with pytest.raises(EvidenceError, match=r"^Row 1, 'W': [01](\.0)? is not one of its states \(known: 2, 4\)"):
            NET.propagate({"W": column})
    with pytest.raises(EvidenceError, match="'W': 0 is not one of its states"):
        NET.propagate({"W": 0})


def test_a_mixture_of_labels_is_never_taken_for_codes_either() -> None:
    for column in ([3, 0], np.array([3, 0]), np.array([0.5, 0.0]), ["a", 2]):
        with pytest.raises(EvidenceError, match=r"^Row 1, 'M': .* is not one of its states \(known: a, 3, 0.5\)"):
            NET.propagate({"M": column})


# Values that are refused


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [
        (["yes", "maybe"], 1, "'maybe'"),
        (["Yes"], 0, "'Yes'"),
        (np.array(["no", "yes", "maybe"]), 2, "'maybe'"),
        (np.array([None, "maybe"], dtype=object), 1, "'maybe'"),
        (pd.Series(["maybe", "no"], index=[5, 6]), 0, "'maybe'"),
        (pd.Series(["no", "maybe"], dtype="category"), 1, "'maybe'"),
        (pd.Series(["no", "maybe"], dtype="string", index=[0, 0]), 1, "'maybe'"),
        (pl.Series(["no", "maybe"]), 1, "'maybe'"),
        (pl.Series(["no", "maybe"], dtype=pl.Enum(["no", "maybe"])), 1, "'maybe'"),
        (pa.array(["no", None, "maybe"]), 2, "'maybe'"),
        ("maybe", 0, "'maybe'"),
        ([0, 2], 1, "2"),
        (np.array([0, 2]), 1, "2"),
        (pd.Series([0, 2, None], dtype="Int64"), 1, "2"),
        ([-1], 0, "-1"),
        (np.array([0, -1]), 1, "-1"),
        (np.array([-1.0]), 0, "-1.0"),
        ([0.5], 0, "0.5"),
        (np.array([1, 0.5]), 1, "0.5"),
        ([float("inf")], 0, "inf"),
        (np.array([0, np.inf]), 1, "inf"),
        (np.array([-np.inf]), 0, "-inf"),
        ([10**30], 0, str(10**30)),
        ([""], 0, "''"),
        ([b"yes"], 0, "b'yes'"),
        (np.array([b"yes"]), 0, "b'yes'"),
        ([1j], 0, "1j"),
        ([{"yes": 1}], 0, "{'yes': 1}"),
        ([{"yes"}], 0, "{'yes'}"),
        ([object], 0, "<class 'object'>"),
        (pl.Series([{"yes": 1}]), 0, "{'yes': 1}"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), 0, ""),
    ],
    ids=lambda value: type(value).__name__ if " at 0x" in repr(value) else repr(value),
)
def test_a_bad_label_is_said_with_its_row_column_value_and_the_known_states(column: Any, row: int, value: str) -> None:
    with pytest.raises(EvidenceError) as raised:
        NET.propagate({"Y": column, "Z": None})
    assert str(raised.value).startswith(f"Row {row}, 'Y': {value}")
    assert "is not one of its states (known: no, yes)" in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("value", [3, -1, 1.5, 0.5, float("inf"), 2**31, 2**32, 2**62, "0", "a", 1e300])
def test_a_code_is_a_whole_number_within_the_states(value: Any) -> None:
    columns: list[Any] = [[0, value], (0, value), pd.Series([0, value], dtype=object)]
    if not isinstance(value, str):
        columns += [np.array([0, value]), pd.Series([0, value]), pl.Series([0, value], strict=False)]
    for column in columns:
        with pytest.raises(EvidenceError, match=r"^Row 1, 'Z': .* is not one of its states \(known: 0, 1, 2\)"):
            NET.propagate({"Z": column})


def test_all_rows_with_a_bad_code_are_counted() -> None:
    with pytest.raises(EvidenceError, match=r"^Row 1, 'Z': 7 is not .* \(3 rows have such a value.\)"):
        NET.propagate({"Z": np.array([0, 7, 8, 1, -1])})


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"Y": ["yes "]}, "without blanks"),
        ({"W": ["4"]}, "as another type"),
        ({"Z": ["1"]}, "as another type"),
        ({"Y": [0.3, 0.7]}, r"Write a distribution in one row as \[\[...\]\], a list of rows"),
        ({"Z": (0.1, 0.2, 0.7)}, r"Write a distribution in one row as \[\[...\]\], a list of rows"),
    ],
)
def test_a_common_mistake_gets_a_hint(data: Any, hint: str) -> None:
    with pytest.raises(EvidenceError, match=hint):
        NET.propagate(data)


# Tables that are refused


@pytest.mark.parametrize(
    ("name", "hint"),
    [("YY", "Did you mean 'Y'"), ("S00", "Did you mean 'S0'"), ("y", "Did you mean 'Y'"), ("age", "Known: S, S0, S1")],
)
def test_an_unknown_column_is_said_with_the_nearest_variable(name: str, hint: str) -> None:
    tables = [{"Z": [0], name: ["yes"]}, pd.DataFrame({name: ["yes"]}), pl.DataFrame({name: ["yes"]})]
    for table in [*tables, pa.table({name: ["yes"]}), np.array([(1,)], dtype=[(name, int)])]:
        for use in (NET.propagate, NET.copy().learn, NET.complete):
            with pytest.raises(
                EvidenceError, match=f"Column '{name}': this is not a variable of this network"
            ) as raised:
                use(table)
            assert hint in str(raised.value)


def test_columns_have_equally_many_rows() -> None:
    for table in (
        {"Y": ["yes"], "Z": [0, 1]}, {"Y": np.array([1]), "Z": pd.Series([0, 1])}, {"Y": [[0.5, 0.5]], "Z": (0, 1)},
    ):  # fmt: skip
        for use in (NET.propagate, NET.copy().learn, NET.complete):
            with pytest.raises(EvidenceError, match="equally many rows, but 'Y' has 1 and 'Z' has 2"):
                use(table)
    with pytest.raises(EvidenceError, match="'Y' has 0 and 'Z' has 1"):
        NET.propagate({"Y": [], "Z": [0]})


@pytest.mark.parametrize(
    "data",
    [
        np.array([0, 1]), np.array([[0, 1]]), "Y", b"Y", 3, 0.5, True, ["yes"], [{"Y": "yes"}], [["yes"]], ("Y", "yes"),
        pd.Series(["yes"], name="Y"), pl.Series("Y", ["yes"]), pa.array(["yes"]), {"Y"}, iter([{"Y": "yes"}]), object(),
        pd.Index(["Y"]),
    ],
    ids=lambda data: type(data).__name__,
)  # fmt: skip
def test_data_is_a_mapping_of_columns_or_a_dataframe(data: Any) -> None:
    for use in (NET.propagate, NET.copy().learn, NET.complete):
        if use.__name__ == "learn" and fgrn.tables.frames.is_source(data):
            continue  # the name of a file, and batches of rows, are learnt from
        with pytest.raises(EvidenceError, match=r"Data is a mapping of columns or a dataframe. Got .* instead"):
            use(data)


def test_an_array_as_data_is_told_how_to_name_its_columns() -> None:
    with pytest.raises(EvidenceError, match=r"dict\(zip\(names, array.T\)\)"):
        NET.propagate(np.zeros((4, 2), dtype=int))
    named = dict(zip(["Y", "Z"], np.zeros((4, 2), dtype=int).T, strict=True))
    assert_same_messages(named, {"Y": ["no"] * 4, "Z": [0] * 4})


@pytest.mark.parametrize(
    "data",
    [
        {0: ["yes"]}, {None: ["yes"]}, {("Y",): ["yes"]}, {b"Y": ["yes"]}, pd.DataFrame([["yes"]]),
        pd.DataFrame([["yes"]], columns=pd.MultiIndex.from_tuples([("Y", "a")])), {"Y": ["yes"], 1: [0]},
    ],
    ids=repr,
)  # fmt: skip
def test_columns_are_found_by_name(data: Any) -> None:
    with pytest.raises(EvidenceError, match=r"Columns are found by name, and .* is not a string"):
        NET.propagate(data)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(EvidenceError, match="'Y'"):
        NET.propagate(pd.DataFrame([["yes", "no"]], columns=["Y", "Y"]))
    with pytest.raises(EvidenceError, match="'Y'"):
        NET.propagate(pa.Table.from_arrays([pa.array(["yes"]), pa.array(["no"])], names=["Y", "Y"]))


def test_a_column_of_three_dimensions_is_refused() -> None:
    with pytest.raises(EvidenceError, match="Column 'Y': it has 3 dimensions; it may have one or two"):
        NET.propagate({"Y": np.zeros((2, 2, 2))})
    with pytest.raises(EvidenceError, match="Row 0, 'Y': "):
        NET.propagate({"Y": [[[0.5, 0.5]]]})


def test_a_column_is_not_a_mapping() -> None:
    """DataFrame.to_dict() makes {column: {index: value}}: its keys would pass for codes."""
    with pytest.raises(EvidenceError, match="'Y'"):
        NET.propagate(pd.DataFrame({"Y": ["yes", "no"]}).to_dict())


def test_a_column_has_an_order() -> None:
    with pytest.raises(EvidenceError, match="'Y'"):
        NET.propagate({"Y": {"yes", "no"}})


def test_a_column_of_columns_is_refused() -> None:
    for column in (pd.DataFrame({"a": ["yes"]}), pl.DataFrame({"a": ["yes"]}), pa.table({"a": ["yes"]}), object()):
        with pytest.raises(EvidenceError, match="'Y'"):
            NET.propagate({"Y": column})


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 1, 1], r"one number per row, 4 of them. Got \(3,\) instead"),
        (2.0, r"one number per row, 4 of them. Got \(\) instead"),
        (np.ones((4, 1)), r"Got \(4, 1\) instead"),
        ([1, -1, 1, 1], "Row 1: a weight is finite and not negative. Got -1.0 instead"),
        ([1, 1, NAN, 1], "Row 2: a weight is finite"),
        ([1, 1, None, 1], "Row 2: a weight is finite"),
        ([1, 1, 1, np.inf], "Row 3: a weight is finite"),
        ([0, 0, 0, 0], "All weights are zero"),
        (["a"] * 4, "The weights must be numbers, one per row"),
        (["1"] * 4, "The weights must be numbers, one per row"),
        ([[1], [1, 2], 1, 1], "The weights must be numbers, one per row"),
        (np.ones(4, dtype=complex), "The weights must be numbers, one per row"),
        ({"a": 1}, "The weights must be"),
    ],
)
def test_weights_are_one_number_per_row(weights: Any, words: str) -> None:
    net = NET.copy()
    with pytest.raises(EvidenceError, match=words):
        net.learn(ROWS, weights=weights)
    assert net == NET


def test_weights_may_be_of_many_kinds() -> None:
    plain = [1.0, 2.0, 0.0, 0.5]
    expected = NET.copy()
    expected.learn(ROWS, epochs=1, weights=plain)
    for weights in (
        tuple(plain), np.array(plain), pd.Series(plain, index=list("dcba")), pl.Series(plain), pa.array(plain),
        pd.Series(plain, dtype="Float64"), (weight for weight in plain), np.ma.array(plain),
    ):  # fmt: skip
        net = NET.copy()
        net.learn(ROWS, epochs=1, weights=weights)
        assert net == expected


# Complete


def likeliest(table: Any) -> dict[str, list[Any]]:
    seen = NET.propagate(table)
    return {
        variable.name: [variable.labels[code] for code in seen.marginal(variable.name).argmax(axis=1)]
        for variable in NET.variables
    }


def listed(column: Any) -> list[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def code_of(name: str, value: Any) -> int:
    """The code of a value, which may be a whole number in floating point."""
    labels = NET.variable(name).labels
    return labels.index(value) if value in labels else int(value)


def seen_from_outside(column: Any) -> tuple[Any, ...]:
    """Return all that can be observed of a column, except memory addresses."""
    if isinstance(column, str) or not hasattr(column, "__len__") or getattr(column, "shape", None) == ():
        return type(column), repr(column)
    kind = getattr(column, "dtype", getattr(column, "type", None))
    index = column.index.tolist() if isinstance(column, pd.Series) else None
    return type(column), kind, index, repr(listed(column))


COMPLETED = {
    name: [new if old is None else old for old, new in zip(ROWS[name], likeliest(ROWS)[name], strict=True)]
    for name in ROWS
}


def test_the_unknown_values_of_the_plain_table_are_filled() -> None:
    found = NET.complete(ROWS)
    assert found == COMPLETED
    assert list(found) == list(ROWS)
    assert [[type(value) for value in column] for column in found.values()] == [
        [str] * 4, [int] * 4, [int] * 4, [bool] * 4, [str, int, float, type(COMPLETED["M"][3])],
    ]  # fmt: skip


SAME_MESSAGES_ONLY = ("structured array of codes", "structured array of weights", "record array")


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_comes_back_as_the_same_kind_with_the_same_columns(kind: str) -> None:
    table, before = TABLES[kind](), TABLES[kind]()
    found = NET.complete(table)
    if isinstance(table, Mapping) and not isinstance(table, dict):
        assert isinstance(found, Mapping)
    else:
        assert type(found) is type(table) or (np.ma.isMaskedArray(table) and isinstance(found, np.ndarray))
    assert names_in(found) == names_in(table)
    if isinstance(found, pl.LazyFrame):
        found = found.collect()
    for name in names_in(table):
        values = listed(found[name])
        if kind not in SAME_MESSAGES_ONLY:
            assert values == COMPLETED[name], name
        assert [code_of(name, v) for v in values] == [code_of(name, v) for v in COMPLETED[name]], name
    assert_unchanged(table, before)


def assert_unchanged(table: Any, before: Any) -> None:
    if isinstance(table, pd.DataFrame):
        pd.testing.assert_frame_equal(table, before)
    elif isinstance(table, (pl.DataFrame, pl.LazyFrame)):
        assert_frame_equal(table, before)
    elif isinstance(table, pa.Table):
        assert table.equals(before)
    elif isinstance(table, np.ndarray):
        assert repr(table) == repr(before)
        assert table.dtype == before.dtype
    else:
        assert list(table) == list(before)
        for name in table:
            assert seen_from_outside(table[name]) == seen_from_outside(before[name])


@pytest.mark.parametrize("way", [way for way in WAYS_TO_WRITE_WORDS if way != "generator"])
def test_a_column_in_any_writing_is_completed(way: str) -> None:
    column, before = WAYS_TO_WRITE_WORDS[way](), WAYS_TO_WRITE_WORDS[way]()
    values = listed(NET.complete({"Z": ROWS["Z"], "Y": column})["Y"])
    expected = likeliest({"Z": ROWS["Z"], "Y": WORDS})["Y"]
    assert [code_of("Y", value) for value in values] == [code_of("Y", value) for value in expected]
    assert seen_from_outside(column) == seen_from_outside(before)


def test_a_generator_is_used_up_once_and_completed() -> None:
    assert (
        NET.complete({"Y": (value for value in WORDS), "Z": ROWS["Z"]})["Y"]
        == (NET.complete({"Y": WORDS, "Z": ROWS["Z"]})["Y"])
    )


@pytest.mark.parametrize(
    "column",
    [
        ("yes", None), pd.Series(["yes", None], index=["b", "a"], name="answer"),
        pd.Series(["yes", None], index=[3, 3]), pl.Series("answer", ["yes", None]), pa.array(["yes", None]),
        pa.chunked_array([["yes"], [None]]),
        np.array(["yes", None], dtype=object),
    ],
    ids=lambda column: type(column).__name__,
)  # fmt: skip
def test_a_column_of_a_mapping_comes_back_as_the_same_kind(column: Any) -> None:
    found = NET.complete({"Y": column})["Y"]
    assert type(found) is type(column)
    assert listed(found) == ["yes", likeliest({"Y": ["yes", None]})["Y"][1]]
    if isinstance(column, pd.Series):
        assert found.index.equals(column.index)
        assert found.name == column.name
    if isinstance(column, pl.Series):
        assert found.name == column.name
    if isinstance(column, np.ndarray):
        assert found.dtype == column.dtype


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("Z", np.array([2, NAN])),
        ("Z", np.array([2, NAN], dtype=np.float32)),
        ("Y", np.array([1, NAN])),
        ("Y", np.array([1, None], dtype=object)),
        ("Y", np.array(["yes", None], dtype=object)),
        ("W", np.array([4, NAN])),
    ],
)
def test_an_array_keeps_its_type(name: str, column: np.ndarray) -> None:
    found = NET.complete({name: column})[name]
    assert found.dtype == column.dtype
    assert found[0] == column[0]
    assert code_of(name, found[1]) == code_of(name, likeliest({name: column})[name][1])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Y", "category"), ("Y", "string"), ("Y", object), ("Y", "str"),
        ("Y", pd.CategoricalDtype(["yes", "no"], True)), ("Z", "Int64"), ("Z", "Int8"), ("Z", "Float64"),
        ("Z", float), ("Z", object), ("W", "Int16"), ("W", "float32"),
        ("W", "category"), ("F", "boolean"), ("F", object), ("Y", pd.ArrowDtype(pa.string())),
        ("Z", pd.ArrowDtype(pa.int8())),
    ],
)  # fmt: skip
def test_a_column_of_pandas_keeps_its_type_its_index_and_what_was_known(name: str, dtype: Any) -> None:
    index = pd.Index(["d", "c", "d", "a"], name="key")
    frame = pd.DataFrame({name: pd.Series(ROWS[name], dtype=dtype)}).set_index(index)
    before = frame.copy(deep=True)
    found = NET.complete(frame)
    assert found[name].dtype == frame[name].dtype
    pd.testing.assert_index_equal(found.index, index)
    known = frame[name].notna().to_numpy()
    assert found[name][known].tolist() == frame[name][known].tolist()
    assert found[name].tolist() == likeliest({name: ROWS[name]})[name]
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Y", pl.String), ("Y", pl.Categorical), ("Y", pl.Enum(["yes", "no"])), ("Z", pl.Int8), ("Z", pl.UInt16),
        ("Z", pl.Int64), ("Z", pl.Float32), ("Z", pl.Float64), ("W", pl.Int32), ("W", pl.Float64), ("F", pl.Boolean),
    ],
)  # fmt: skip
def test_a_column_of_polars_keeps_its_type_and_what_was_known(name: str, dtype: Any) -> None:
    for column in (ROWS[name], ROWS[name][::-1]):
        frame = pl.DataFrame({"S": [None] * 4, name: pl.Series(column, dtype=dtype, strict=False)})
        before = frame.clone()
        found = NET.complete(frame)
        assert found.schema[name] == frame.schema[name]
        assert found[name].to_list() == likeliest({name: column})[name]
        assert found.columns == ["S", name]
        assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Y", pa.string()), ("Y", pa.large_string()), ("Y", pa.dictionary(pa.int32(), pa.string())), ("Z", pa.int8()),
        ("Z", pa.float64()), ("W", pa.int64()), ("F", pa.bool_()),
    ],
)  # fmt: skip
def test_a_column_of_arrow_keeps_its_type_and_what_was_known(name: str, kind: pa.DataType) -> None:
    for column in (ROWS[name], ROWS[name][::-1]):
        table = pa.table({name: pa.array(column).cast(kind)})
        found = NET.complete(table)
        assert found.schema.field(name).type == kind
        assert found[name].to_pylist() == likeliest({name: column})[name]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"Y": pd.Series([1, None], dtype="Int64")}), pd.DataFrame({"Y": [1.0, NAN]}),
        pl.DataFrame({"Y": [1, None]}), pl.DataFrame({"Y": [None, 1]}), pa.table({"Y": [1, None]}),
    ],
    ids=["pandas", "pandas floats", "polars", "polars backwards", "arrow"],
)  # fmt: skip
def test_a_numeric_column_of_codes_is_completed_with_codes(table: Any) -> None:
    """With a label it could not stay a numeric column."""
    values = listed(NET.complete(table)["Y"])
    assert values == [code_of("Y", label) for label in likeliest(table)["Y"]]


def test_codes_in_a_list_stay_as_they_are() -> None:
    found = NET.complete({"Y": [1, None, 0, "no"]})["Y"]
    assert [found[0], *found[2:]] == [1, 0, "no"]
    assert NET.variable("Y").code(found[1]) == NET.variable("Y").code(likeliest({"Y": [None]})["Y"][0])
    assert type(found[0]) is int


def test_soft_values_are_replaced_by_the_likeliest_label() -> None:
    table = {"Y": ["no", [0.01, 0.99], [0.99, 0.01], None, "yes"], "Z": np.array([[0.1, 0.1, 5.0]] * 5)}
    before = copy.deepcopy(table)
    found = NET.complete(table)
    assert found["Y"] == likeliest(table)["Y"]
    assert found["Y"][:3] == ["no", "yes", "no"]
    assert found["Z"].tolist() == likeliest(table)["Z"]
    assert found["Z"].shape == (5,)
    assert repr(table) == repr(before)
    frames = [pd.DataFrame({"Y": [[0.01, 0.99], "no", None]}), pl.DataFrame({"Y": [[0.01, 0.99], [0.99, 0.01], None]})]
    for frame in frames:
        assert listed(NET.complete(frame)["Y"]) == ["yes", "no", likeliest({"Y": [None]})["Y"][0]]


@given(case=networks_with_evidence())
def test_what_is_filled_in_is_as_likely_as_anything(case: tuple[SmallNetwork, Evidence]) -> None:
    network, evidence = case
    net = Network(network.blocks)
    before = copy.deepcopy(evidence.columns)
    found = net.complete(evidence.columns)
    assert evidence.columns == before
    assert list(found) == list(evidence.columns)
    oracle = network.oracle(evidence)
    for name, column in found.items():
        marginal = oracle.marginal(name)
        for row, value in enumerate(column):
            if isinstance(evidence.columns[name][row], int):
                assert value == evidence.columns[name][row]
            assert marginal[row, value] >= marginal[row].max() - 1e-9


def test_where_nothing_is_unknown_nothing_changes() -> None:
    full = {"Y": ["yes", 0], "Z": (0, 2), "W": np.array([4, 2], dtype=np.int8), "F": True, "M": pd.Series(["a", 3])}
    found = NET.complete(full)
    assert list(found) == list(full)
    for name in full:
        assert seen_from_outside(found[name]) == seen_from_outside(full[name])
    frame = pd.DataFrame({"Y": ["yes", "no"], "Z": [2, 0]}, index=[1, 1]).astype({"Y": "category", "Z": "int8"})
    pd.testing.assert_frame_equal(NET.complete(frame), frame)
    other = pl.DataFrame({"Y": ["yes", "no"], "Z": [2, 0]}, schema_overrides={"Y": pl.Categorical, "Z": pl.Int8})
    assert_frame_equal(NET.complete(other), other)
    table = pa.table({"Y": pa.array(["yes", "no"]).dictionary_encode(), "Z": pa.array([2, 0], pa.int8())})
    assert NET.complete(table).equals(table)


def test_a_completed_frame_does_not_share_its_memory() -> None:
    frame = pd.DataFrame({"Y": ["yes", None], "Z": [2, 0]})
    found = NET.complete(frame)
    found.loc[0, "Z"] = 1
    assert frame["Z"].tolist() == [2, 0]


def test_one_unknown_value_for_all_rows_becomes_a_column() -> None:
    found = NET.complete({"Y": None, "Z": [0, 1, 2], "W": 4, "F": np.array(True)})
    assert list(found) == ["Y", "Z", "W", "F"]
    assert found["Y"] == likeliest({"Z": [0, 1, 2], "W": 4, "F": True})["Y"]
    assert found["W"] == 4
    assert found["F"] == np.array(True)


def test_hidden_variables_are_completed_when_they_are_asked_for() -> None:
    found = NET.complete({**ROWS, "S": [None] * 4})
    assert found["S"] == likeliest(ROWS)["S"]


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_table_is_complete(kind: str) -> None:
    table = EMPTY[kind]()
    found = NET.complete(table)
    assert type(found) is type(table)
    assert names_in(found) == names_in(table)
    assert len(found["Y"]) == 0


def test_nothing_is_complete() -> None:
    assert NET.complete({}) == {}


def test_an_impossible_row_cannot_be_completed() -> None:
    X, Y = Variable("X", 2), Variable("Y", 2)
    net = Network([Source(X, [1, 0]), SISO(X, Y, [[1, 0], [0, 1]])])
    with pytest.raises(ImpossibleEvidence, match="Row 1: ") as raised:
        net.complete({"X": [None, None], "Y": [0, 1]})
    assert raised.value.rows == (1,)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int64, np.uint8, np.uint64])
def test_integers_that_are_labels_are_looked_up_in_any_width(kind: type) -> None:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    near = [int(low), int(low) + 1] if kind in (np.int64, np.uint64) else [int(low), int(high)]
    net = Network([Source(Variable("X", [*near, "other"]))])
    plan = net._plan(())
    encoded = encode(plan, {"X": np.array([near[1], near[0], near[1]], dtype=kind)})
    assert encoded.codes[:, 0].tolist() == [1, 0, 1]
    with pytest.raises(EvidenceError, match=r"Row 2, 'X': .* is not one of its states"):
        encode(plan, {"X": np.array([near[0], near[0], near[0] + 2], dtype=kind)})


def test_codes_take_as_few_bytes_as_will_do() -> None:
    for states, kind in ((2, np.int8), (128, np.int8), (129, np.int16), (40_000, np.int32)):
        plan = Network([Source(Variable("X", states))])._plan(())
        encoded = encode(plan, {"X": np.array([states - 1, np.nan])})
        assert encoded.codes.dtype == kind
        assert encoded.codes[:, 0].tolist() == [states - 1, -1]


# Tables that are encoded


def test_an_encoded_table_says_the_same_of_another_network() -> None:
    """Its columns are found by name, with their distributions, their weights and the order of its rows."""
    data = {"Y": ["a", None, "b"], "X": [[0.2, 0.3, 0.5], [1, 0, 0], 2], "Z": [1, 0, None]}
    first = fgrn.lvm({"X": 3, "Y": ["a", "b"], "Z": 2}, hidden=2)
    other = fgrn.naive_bayes({"Z": 2, "W": 2, "Y": ["a", "b"], "X": 3}, class_variable="W")
    table = encode(first._plan(), data, [1, 2, 0.5])
    moved, direct = table.numbered_by(other._plan()), encode(other._plan(), data, [1, 2, 0.5])
    assert moved.digests() == direct.digests()
    assert moved.weight == table.weight == 3.5
    assert moved.soft_edges() == {other._plan().edge("X")}
    for name in other._plan().names:
        edge = other._plan().edge(name)
        states = len(other._plan().labels[edge])
        assert np.array_equal(moved.weights(edge, states), direct.weights(edge, states))
    with pytest.raises(fgrn.EvidenceError, match="Column 'Z': this is not a variable of this network"):
        table.numbered_by(fgrn.lvm({"X": 3, "Y": ["a", "b"]}, hidden=2)._plan())


def test_rows_that_are_numbered_by_equal_names_already_stay_as_they_are() -> None:
    """The mark of it is lost where arrays are replaced, as those that it depends on may be."""
    plan = fgrn.lvm({"X": 3, "Y": 2}, hidden=2)._plan()
    equal, other = fgrn.lvm({"X": 3, "Y": 2}, hidden=4)._plan(), fgrn.lvm({"Y": 2, "X": 3}, hidden=2)._plan()
    for rows in ({"Y": [1, None], "X": [0, 2]}, {"Y": [1] * 40, "X": [2] * 40}):
        table = encode(plan, rows).numbered_by(plan)
        assert table.numbered_by(plan) is table.numbered_by(equal) is table
        assert table.numbered_by(other).digests() == encode(other, rows).digests()
        assert table.numbered_by(other).numbered_by(plan).digests() == table.digests()
        swapped = replace(table, codes=table.codes[:, ::-1], columns=("X", "Y"))
        for one in (swapped, table.with_arrays(codes=table.codes[:, ::-1], columns=("X", "Y"))):
            for edge, states in ((plan.edge("X"), 3), (plan.edge("Y"), 2)):
                assert np.array_equal(one.numbered_by(plan).weights(edge, states), table.weights(edge, states))


def test_weights_go_with_an_encoded_table() -> None:
    data, weights = {"X": [0, 1, 2, 0], "Y": [1, 0, None, 1]}, [1, 2, 0.5, 0]
    nets = [fgrn.lvm({"X": 3, "Y": 2}, hidden=2) for _ in range(2)]
    table = encode(nets[0]._plan(), data, weights)
    assert (table.place, table.rows, table.is_weighted) == ("memory", 4, True)
    nets[0].learn(table, epochs=3)
    nets[1].learn(data, epochs=3, weights=weights)
    assert nets[0] == nets[1]
    assert nets[0].trained == nets[1].trained
    assert np.array_equal(table.take(np.array([3, 1])).row_weights, [0, 2])
    assert not encode(nets[0]._plan(), data).is_weighted


def test_a_number_is_told_its_bin() -> None:
    net = fgrn.BayesianNetwork({"age": ["< 28.5", "28.5 to 40.5", ">= 40.5"]})
    for number, bin in ((31.0, "28.5 to 40.5"), (28.5, "28.5 to 40.5"), (2, "< 28.5"), (99, ">= 40.5")):
        if isinstance(number, float):
            with pytest.raises(fgrn.EvidenceError, match=f"the bin that holds it, '{bin}'"):
                net.propagate({"age": [number]})
        assert bin_of(net.variable("age").labels, number) == net.variable("age").code(bin)
    assert bin_of(("< 1", "other", ">= 2"), 1.5) is None
    assert bin_of(("< 1", ">= 1"), np.inf) is None
    assert bin_of(("no", "yes"), 1.5) is None


def test_one_row_of_single_values_is_encoded_as_a_table_of_one_row() -> None:
    labels = {"word": ["no", "yes"], "number": 3, "age": [1.5, 2.5]}
    net = fgrn.BayesianNetwork(labels, [("word", "number")])
    rows: list[dict[str, Any]] = [
        {}, {"word": "yes", "number": True}, {"word": 1, "number": 2}, {"number": np.int64(1), "word": np.str_("no")},
        {"age": 2.5, "word": None}, {"age": np.float64(1.5), "number": float("nan")}, {"number": 2.0},
    ]  # fmt: skip
    for row in rows:
        one, table = encode(net, row), encode(net, {name: [value] for name, value in row.items()})
        assert one.columns == tuple(row)
        for name in ("codes", "slot", "soft", "soft_offset", "log_scale", "row_weights", "numbers"):
            np.testing.assert_array_equal(getattr(one, name), getattr(table, name))
    for wrong in ({"word": "maybe"}, {"number": 3}, {"age": 1}, {"other": 1}, {"word": 2}):
        with pytest.raises(fgrn.EvidenceError):
            encode(net, wrong)


def test_arrays_of_other_rows_or_names_are_refused() -> None:
    rows = encoded.Evidence.of_codes(("a",), np.zeros((5, 1), dtype=np.int8))
    assert rows.numbers.shape == (5, 0)
    assert rows.with_arrays(numbers=np.zeros((5, 2))).numbers.shape == (5, 2)
    for wrong in (np.zeros((4, 2)), np.zeros((0, 2)), np.zeros((4, 0))):
        with pytest.raises(ValueError, match=f"There are 5 rows, and numbers of {len(wrong)}"):
            rows.with_arrays(numbers=wrong)
    with pytest.raises(TypeError, match="no array 'weights'"):
        rows.with_arrays(weights=np.ones(5), slot=rows.slot)
