"""Multiple imputation: completed tables that carry their uncertainty, and results that are pooled."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn.cli import main
from fgrn.tables import table_file


def frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.random(rows) < 0.4
    table = pd.DataFrame(
        {
            "a": np.where(rng.random(rows) < np.where(kind, 0.9, 0.2), "yes", "no"),
            "b": np.where(rng.random(rows) < np.where(kind, 0.8, 0.1), "yes", "no"),
            "c": np.where(rng.random(rows) < np.where(kind, 0.7, 0.3), "yes", "no"),
            "age": np.round(rng.normal(np.where(kind, 60, 30), 6)),
        }
    )
    for column in ("b", "age"):
        table.loc[rng.random(rows) < 0.3, column] = None
    return table


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return frame()


@pytest.fixture(scope="module")
def imputer(table: pd.DataFrame) -> fgrn.LatentImputer:
    return fgrn.LatentImputer(2, random_state=0).fit(table)


def test_draws_keep_what_is_known_and_differ_elsewhere(table: pd.DataFrame, imputer: fgrn.LatentImputer) -> None:
    tables = imputer.draws(table, m=5)
    assert len(tables) == 5
    for one in tables:
        assert not one.isna().to_numpy().any()
        known = table.notna()
        assert (one.where(known) == table.where(known)).to_numpy()[known.to_numpy()].all()
        assert set(one["age"]) <= set(table["age"].dropna())
    assert not tables[0].equals(tables[1])
    again = imputer.draws(table, m=5)
    assert all(one.equals(other) for one, other in zip(tables, again, strict=True))


def test_drawn_values_have_the_posterior_distribution(table: pd.DataFrame, imputer: fgrn.LatentImputer) -> None:
    open_rows = table["b"].isna().to_numpy()
    belief = imputer.predict_proba(table, "b")
    levels = [str(level) for level in imputer.schema_["b"].levels]
    drawn = imputer.draws(table, m=60, uncertainty=False)
    share = np.mean([(one["b"] == "yes").to_numpy() for one in drawn], axis=0)
    np.testing.assert_allclose(share[open_rows].mean(), belief[open_rows, levels.index("yes")].mean(), atol=0.02)
    assert np.corrcoef(share[open_rows], belief[open_rows, levels.index("yes")])[0, 1] > 0.95
    known = ~open_rows
    assert (belief[known].max(axis=1) > 1 - 1e-12).all()
    assert imputer.predict_proba(table).shape == (400, sum(len(c.levels) for c in imputer.schema_.values()))
    with pytest.raises(fgrn.UnknownNameError, match="Did you mean"):
        imputer.predict_proba(table, "agee")


def test_parameters_are_uncertain_too() -> None:
    """Of 200 values 20 are known: their share is as uncertain as that of 20, and not as that of 180 draws."""
    table = {"a": ["x", "y"] * 100, "b": ["yes", "no"] * 10 + [None] * 180}
    imputer = fgrn.LatentImputer(1, smoothing=0, random_state=0).fit(table)

    def spread(uncertainty: bool) -> float:
        drawn = imputer.draws(table, m=40, uncertainty=uncertainty)
        return float(np.var([one["b"].count("yes") / 200 for one in drawn]))

    assert spread(False) == pytest.approx(0.25 * 180 / 200**2, rel=0.6)
    assert spread(True) == pytest.approx(0.25 * 180 / 200**2 + 0.9**2 * 0.25 / 20, rel=0.6)


@pytest.mark.parametrize("kind", ["dict", "array", "polars"])
def test_tables_are_of_the_kind_they_came_as(table: pd.DataFrame, kind: str) -> None:
    made: Any = {name: table[name].tolist() for name in table}
    if kind == "array":
        made = table.to_numpy(dtype=object)
    elif kind == "polars":
        made = pytest.importorskip("polars").from_pandas(table)
    drawn = fgrn.LatentImputer(2, random_state=0).fit(made).draws(made, m=2)
    assert type(drawn[1]) is type(made)


def test_a_saved_model_draws_from_the_table(
    table: pd.DataFrame, tmp_path: Path, imputer: fgrn.LatentImputer, capsys: Any
) -> None:
    imputer.save(tmp_path / "m.fgrn")
    loaded = fgrn.load(tmp_path / "m.fgrn")
    assert not loaded.draws(table, m=2)[1].isna().to_numpy().any()
    with pytest.raises(fgrn.LearningError, match="too few"):
        loaded.draws(table[:3], m=2)
    few = str(tmp_path / "few.csv")
    table[:3].to_csv(few, index=False)
    command = ["complete", str(tmp_path / "m.fgrn"), few, "--draws", "2"]
    assert main(command) == 1
    assert "draw from the estimate with --no-uncertainty" in capsys.readouterr().err
    assert main([*command, "--no-uncertainty"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert main([*command[:3], "--no-uncertainty"]) == 2
    assert len(loaded.draws(table[:3], m=2, uncertainty=False)[0]) == 3


def test_the_command_writes_the_tables_below_each_other(table: pd.DataFrame, tmp_path: Path, capsys: Any) -> None:
    rows, model = tmp_path / "rows.csv", tmp_path / "m.fgrn"
    table.to_csv(rows, index=False)
    assert main(["fit", str(rows), "-o", str(model), "--hidden", "2"]) == 0
    assert main(["complete", str(model), str(rows), "--draws", "3", "-o", str(tmp_path / "full.csv")]) == 0
    full = table_file.read(tmp_path / "full.csv").to_pandas()
    assert full["draw"].value_counts().to_dict() == {1: 400, 2: 400, 3: 400}
    assert not full.isna().to_numpy().any()
    capsys.readouterr()
    assert main(["complete", str(model), str(rows), "--draws", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert main(["complete", str(model), str(rows), "--draws", "2", "--proba"]) == 2


# Pooling


def test_results_are_pooled_by_hand() -> None:
    values, squares = np.array([1.0, 1.4, 0.9]), np.array([0.04, 0.05, 0.03])
    found = fgrn.pool(values, squares, df=50)
    between = np.var(values, ddof=1)
    total = 0.04 + 4 / 3 * between
    assert found.estimates[0] == pytest.approx(1.1)
    assert found.errors[0] == pytest.approx(np.sqrt(total))
    share = 4 / 3 * between / total
    observed = 51 / 53 * 50 * (1 - share)
    assert found.df[0] == pytest.approx(1 / (share**2 / 2 + 1 / observed))
    assert found.low[0] < 1.1 < found.high[0]
    assert 0 < found.missing_information[0] < 1
    assert "pooled over 3 tables" in str(found)


def test_results_of_statsmodels_are_pooled_by_their_names() -> None:
    results = [
        SimpleNamespace(params=pd.Series({"const": 1.0 + k, "x": 2.0}), bse=pd.Series({"const": 0.1, "x": 0.2}))
        for k in (0.0, 0.2, 0.4)
    ]
    found = fgrn.pool(results)
    assert found.names == ("const", "x")
    np.testing.assert_allclose(found.estimates, [1.2, 2.0])
    assert found.errors[1] == pytest.approx(0.2)  # nothing differs: nothing is missing
    assert found.missing_information[1] == 0
    assert not found.to_frame().isna().to_numpy().any()
    both = fgrn.pool([{"a": 1, "b": 2}, {"a": 2, "b": 2}], [{"a": 1, "b": 1}] * 2)
    assert both.names == ("a", "b")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("smoothing", [0, 0.1])
def test_a_level_that_few_rows_have_can_be_missing_among_drawn_rows(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    table = {"a": ["rare", *rng.choice(["x", "y"], 29)], "b": [None, *rng.choice(["u", "v"], 29)]}
    schema = fgrn.Schema.infer(table).with_column("a", levels=["x", "y", "rare", "never"])
    model = fgrn.LatentImputer(2, random_state=0, smoothing=smoothing, schema=schema).fit(table)
    tables = model.draws({"a": [None, *table["a"]], "b": ["u", *table["b"]]}, 12)
    assert {one["b"][1] for one in tables} == {"u", "v"}
    assert smoothing or all(one["a"][0] != "never" for one in tables)


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_variances_belong_to_the_estimates_of_their_name(kind: Any) -> None:
    estimates = [kind({"a": 1.0, "b": 5.0}), kind({"b": 7.0, "a": 1.0})]
    found = fgrn.pool(estimates, [kind({"b": 100.0, "a": 0.01})] * 2)
    assert found.names == ("a", "b")
    np.testing.assert_allclose(found.estimates, [1, 6])
    np.testing.assert_allclose(found.within, [0.01, 100])
    np.testing.assert_allclose(fgrn.pool(estimates, [[0.01, 100.0]] * 2).within, [0.01, 100])
    results = [SimpleNamespace(params=one, bse=kind({"b": 10.0, "a": 0.1})) for one in estimates]
    np.testing.assert_allclose(fgrn.pool(results).within, [0.01, 100])
    with pytest.raises(fgrn.LearningError, match="same names"):
        fgrn.pool(estimates, [kind({"a": 1.0, "c": 1.0})] * 2)
    with pytest.raises(fgrn.LearningError, match="same names"):
        fgrn.pool([kind({"a": 1.0}), kind({"c": 1.0})], [[1.0]] * 2)


@pytest.mark.parametrize(
    ("estimates", "variances", "told"),
    [
        ([1.0], [1.0], "two imputed tables"),
        ([1.0, 2.0], None, "Variances are needed"),
        ([1.0, 2.0], [1.0, -1.0], "not negative"),
        ([[1.0, 2.0], [1.0]], [1.0, 1.0], "the same number"),
        ([1.0, np.nan], [1.0, 1.0], "finite"),
        ([1.0, "x"], [1.0, 1.0], "numbers"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], "one each"),
    ],
)
def test_what_cannot_be_pooled_is_told(estimates: Any, variances: Any, told: str) -> None:
    with pytest.raises(fgrn.LearningError, match=told):
        fgrn.pool(estimates, variances)


@pytest.mark.filterwarnings("ignore:The names of the columns are not text")
@pytest.mark.parametrize("kind", [fgrn.LatentClassModel, fgrn.LatentImputer])
def test_a_frame_whose_columns_are_numbers_is_completed(kind: Any) -> None:
    frame = pd.DataFrame({3: ["a", "b", None] * 8, 0: ["u", "v", "u"] * 8}, index=range(5, 29))
    model = kind(2, n_epochs=5, n_init=1, random_state=0).fit(frame)
    for full in [model.complete(frame), *model.draws(frame, m=1, uncertainty=False)]:
        pd.testing.assert_frame_equal(full.drop(columns=3), frame.drop(columns=3))
        assert full.columns.tolist() == [3, 0]
        assert full[3].isin(["a", "b"]).all()
        assert full[3][frame[3].notna()].equals(frame[3].dropna())
    assert frame[3].isna().sum() == 8
