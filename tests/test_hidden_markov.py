"""HiddenMarkovModel: sequences in tables as they are, against hmmlearn and against brute force."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fgrn
from fgrn.cli import main
from fgrn.tables import table_file
from fgrn.tables.time_order import TimeOrder

START = {"sound": [[0.9, 0.1], [0.1, 0.9]]}


def machines(count: int = 12, length: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(count):
        worn = np.zeros(length, dtype=bool)
        for step in range(1, length):
            worn[step] = worn[step - 1] if rng.random() < 0.9 else not worn[step - 1]
        sound = np.where(rng.random(length) < np.where(worn, 0.8, 0.1), "rattle", "hum")
        heat = np.where(rng.random(length) < np.where(worn, 0.7, 0.2), "hot", "cold")
        columns = {"machine": f"m{number}", "hour": np.arange(length), "sound": sound, "heat": heat, "worn": worn}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return machines()


@pytest.fixture(scope="module")
def model(log: pd.DataFrame) -> fgrn.HiddenMarkovModel:
    hidden = fgrn.HiddenMarkovModel(["well", "worn"], tables=START, random_state=0)
    return hidden.fit(log.drop(columns="worn"), sequence="machine", time="hour")


def test_labels_keep_their_meaning(model: fgrn.HiddenMarkovModel, log: pd.DataFrame) -> None:
    for seed in range(3):
        again = fgrn.HiddenMarkovModel(["well", "worn"], tables=START, random_state=seed)
        again.fit(log.drop(columns="worn"), sequence="machine", time="hour")
        assert again.network_.table("sound")[1, 1] > 0.6
    found = model.predict(log.drop(columns="worn"))
    assert set(found) == {"well", "worn"}
    assert ((found == "worn") == log["worn"]).mean() > 0.88
    marginal = model.predict(log.drop(columns="worn"), method="posterior")
    assert ((marginal == "worn") == log["worn"]).mean() > 0.88


def test_rows_may_come_in_any_order(model: fgrn.HiddenMarkovModel, log: pd.DataFrame) -> None:
    rows = log.drop(columns="worn")
    turned = rows.sample(frac=1, random_state=3)
    again = fgrn.HiddenMarkovModel(["well", "worn"], tables=START, random_state=0)
    again.fit(turned, sequence="machine", time="hour")
    np.testing.assert_allclose(again.transitions_, model.transitions_, atol=1e-9)
    expected = pd.DataFrame(model.predict_proba(rows), index=rows.index).loc[turned.index]
    np.testing.assert_allclose(model.predict_proba(turned), expected, atol=1e-12)
    by_value = model.predict(rows[["sound", "heat"]], sequence=rows["machine"], time=rows["hour"].tolist())
    np.testing.assert_array_equal(by_value, model.predict(rows))
    assert model.score(turned) == pytest.approx(model.score(rows))


def test_a_gap_in_time_is_a_step_without_values(model: fgrn.HiddenMarkovModel) -> None:
    gap = {"machine": ["a"] * 3, "hour": [0, 1, 4], "sound": ["hum", None, "rattle"], "heat": ["cold", "hot", None]}
    filled = {
        "machine": ["a"] * 5,
        "hour": [0, 1, 2, 3, 4],
        "sound": ["hum", None, None, None, "rattle"],
        "heat": ["cold", "hot", None, None, None],
    }
    np.testing.assert_allclose(model.predict_proba(gap), model.predict_proba(filled)[[0, 1, 4]], atol=1e-12)
    assert model.score_samples(gap).sum() == pytest.approx(model.score_samples(filled).sum())
    following = clone(model).set_params(step=None)
    following.__dict__.update({k: v for k, v in model.__dict__.items() if k.endswith("_")})
    assert abs(following.score_samples(gap).sum() - model.score_samples(gap).sum()) > 0.01


def test_the_likelihood_a_row_is_that_of_rows_of_the_table_where_times_have_gaps(
    log: pd.DataFrame, tmp_path: Path, capsys: Any
) -> None:
    rows, place = tmp_path / "log.csv", str(tmp_path / "m.fgrn")
    some = log[log["machine"].isin(["m0", "m1"]) & (log["hour"] % 5 != 3)].drop(columns="worn")
    some.to_csv(rows, index=False)
    command = ["fit", str(rows), "--model", "hmm", "--hidden", "1", "--sequence", "machine", "--time", "hour"]
    for more in ([], ["--stream"]):
        capsys.readouterr()
        assert main([*command, *more, "-o", place, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        fitted: Any = fgrn.load(place)
        assert found["rows"] == fitted.n_rows_ == len(some)
        assert found["log_likelihood_per_row"] == pytest.approx(fitted.score(some), abs=1e-4)
        assert fitted.history_.weight == fitted.weight_ == len(some)


def brute_force(model: fgrn.HiddenMarkovModel, rows: list[dict[str, Any]]) -> tuple[float, np.ndarray, list[int]]:
    """The likelihood, the posteriors and the best path of one sequence, over all paths."""
    prior, moves = model.initial_, model.transitions_
    states = range(len(prior))
    total, shares, best = 0.0, np.zeros((len(rows), len(prior))), (0.0, [0] * len(rows))
    for path in itertools.product(states, repeat=len(rows)):
        share = prior[path[0]] * np.prod([moves[a, b] for a, b in itertools.pairwise(path)])
        for state, row in zip(path, rows, strict=True):
            for name, value in row.items():
                if value is not None:
                    levels = list(model.schema_.states[name])
                    share *= model.network_.table(name)[state, levels.index(value)]
        total += share
        for step, state in enumerate(path):
            shares[step, state] += share
        best = max(best, (share, list(path)), key=lambda one: one[0])
    return float(np.log(total)), shares / total, best[1]


def test_answers_are_those_of_all_paths(model: fgrn.HiddenMarkovModel) -> None:
    rows = [
        {"sound": "hum", "heat": None},
        {"sound": "rattle", "heat": "hot"},
        {"sound": None, "heat": None},
        {"sound": "rattle", "heat": "cold"},
        {"sound": "hum", "heat": "cold"},
    ]
    table: dict[str, list[Any]] = {"machine": ["a"] * 5, "hour": [0, 1, 2, 3, 4]}
    table |= {name: [row[name] for row in rows] for name in ("sound", "heat")}
    likelihood, shares, path = brute_force(model, rows)
    assert model.score_samples(table).sum() == pytest.approx(likelihood)
    np.testing.assert_allclose(model.predict_proba(table), shares, atol=1e-10)
    assert model.predict(table).tolist() == [["well", "worn"][state] for state in path]
    ahead = model.forecast(table, steps=2)
    after = shares[-1] @ np.linalg.matrix_power(model.transitions_, 2)
    np.testing.assert_allclose(ahead.states[0, 1], after, atol=1e-10)
    np.testing.assert_allclose(ahead.columns["heat"][0, 1], after @ model.network_.table("heat"), atol=1e-10)
    assert ahead.to_frame().shape[0] == 2
    assert list(ahead.to_frame().columns[:2]) == ["machine", "step"]
    assert str(ahead).split()[0] == "machine"
    unnamed = {name: column for name, column in table.items() if name != "machine"}
    renamed = model.forecast(unnamed | {"step": table["machine"]}, sequence="step")
    assert list(renamed.as_dicts()[0])[:2] == ["sequence", "step"]
    full, sure = model.complete(table, return_proba=True)
    assert None not in full["sound"]
    assert sure.shape == (5, 2)


@pytest.mark.filterwarnings("ignore")
def test_hmmlearn_learns_the_same() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    log = machines(6, 40, seed=2)
    codes = (log["sound"] == "rattle").astype(int).to_numpy()
    start, moves = np.array([0.7, 0.3]), np.array([[0.8, 0.2], [0.3, 0.7]])
    emissions = np.array([[0.8, 0.2], [0.3, 0.7]])
    other = hmmlearn.CategoricalHMM(2, n_iter=2000, tol=1e-12, init_params="", random_state=0)
    other.startprob_, other.transmat_, other.emissionprob_ = start, moves, emissions
    other.fit(codes[:, None], [40] * 6)
    model = fgrn.HiddenMarkovModel(
        2, tables={"sound": emissions, "S next": moves, "S": start}, smoothing=0, n_init=1, tol=1e-14, n_epochs=5000
    ).fit({"sound": log["sound"].tolist()}, sequence=log["machine"].tolist())
    np.testing.assert_allclose(model.transitions_, other.transmat_, atol=1e-4)
    np.testing.assert_allclose(model.network_.table("sound"), other.emissionprob_, atol=1e-4)
    ids = log["machine"].tolist()
    total = model.score_samples({"sound": log["sound"].tolist()}, sequence=ids).sum()
    assert total == pytest.approx(other.score(codes[:, None], [40] * 6), abs=1e-5)
    mine = model.predict({"sound": log["sound"].tolist()}, sequence=ids)
    np.testing.assert_array_equal(mine, other.predict(codes[:, None], [40] * 6))


def test_the_number_of_states_is_chosen(log: pd.DataFrame) -> None:
    rows = log.drop(columns="worn")
    options = {"random_state": 0, "max_hidden": 3, "n_init": 2, "tol": 1e-4}
    chosen = fgrn.HiddenMarkovModel("auto", **options).fit(rows, sequence="machine", time="hour")
    assert chosen.n_hidden_ == 2
    held = fgrn.HiddenMarkovModel("auto", criterion="held_out", **options).fit(rows, sequence="machine", time="hour")
    assert held.selection_.best.held_out > held.selection_.candidates[0].held_out
    tried = held.compare(rows, sizes=[1, 2], sequence="machine", time="hour")
    assert len(tried.candidates) == 2
    with pytest.raises(fgrn.LearningError, match="at least 5"):
        fgrn.HiddenMarkovModel("auto", criterion="held_out").fit(rows[:60], sequence="machine")


def test_it_is_saved_and_samples(model: fgrn.HiddenMarkovModel, log: pd.DataFrame, tmp_path: Path) -> None:
    rows = log.drop(columns="worn")
    model.save(tmp_path / "m.fgrn")
    loaded = fgrn.load(tmp_path / "m.fgrn")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert loaded.get_params()["n_hidden"] == ["well", "worn"]
    table, states = loaded.sample(500)
    assert list(table.columns) == ["sound", "heat"]
    stays = (states[1:] == states[:-1]).mean()
    assert stays == pytest.approx(0.9, abs=0.06)
    assert sum(model.prototypes_.shares.values()) == pytest.approx(1)
    assert model.bic(rows) > model.aic(rows)


def test_the_command_learns_and_predicts(log: pd.DataFrame, tmp_path: Path, capsys: Any) -> None:
    rows, model = tmp_path / "log.csv", tmp_path / "m.fgrn"
    log.drop(columns="worn").sample(frac=1, random_state=0).to_csv(rows, index=False)
    learn = ["fit", str(rows), "--model", "hmm", "--hidden", "2", "-o", str(model)]
    assert main([*learn, "--sequence", "machine", "--time", "hour"]) == 0
    assert main(["predict", str(model), str(rows), "-o", str(tmp_path / "states.csv")]) == 0
    states = table_file.read(tmp_path / "states.csv").to_pandas()
    assert list(states.columns)[-3:] == ["predicted state", "P(state = 0)", "P(state = 1)"]
    capsys.readouterr()
    assert main(["predict", str(model), str(rows), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(log)
    assert main(["fit", str(rows), "--sequence", "machine", "-o", str(model)]) == 2
    assert main([*learn, "--test", "0.2"]) == 2
    assert main([*learn, "--sequence", "machine", "--time", "hour", "--stream", "--batch", "100"]) == 0
    again = ["predict", str(model), str(rows), "-o", str(tmp_path / "again.csv")]
    assert main(again) == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "states.csv").read_bytes()
    assert main([*learn, "--sequence", "machina"]) == 1
    assert "machine" in capsys.readouterr().err


def test_sequences_in_files_are_read_in_batches(log: pd.DataFrame, tmp_path: Path) -> None:
    rows = log.drop(columns="worn").sample(frac=1, random_state=0)
    rows.to_csv(tmp_path / "log.csv", index=False)
    for number, part in enumerate((rows[:90], rows[90:])):
        part.to_parquet(tmp_path / f"{number}.parquet", index=False)
    along: Any = {"sequence": "machine", "time": "hour"}
    settings: Any = {"n_init": 1, "random_state": 0}
    wanted = fgrn.HiddenMarkovModel(2, **settings).fit(rows, **along)
    sources = [
        fgrn.Stream(tmp_path / "log.csv", rows=50),
        str(tmp_path / "*.parquet"),
        iter([rows[:100], rows[100:]]),
    ]
    for number, source in enumerate(sources):
        model = fgrn.HiddenMarkovModel(2, checkpoint=tmp_path / f"{number}.ckpt", **settings).fit(source, **along)
        assert model.schema_ == wanted.schema_
        np.testing.assert_array_equal(model.transitions_, wanted.transitions_)
        np.testing.assert_array_equal(model.predict_proba(rows), wanted.predict_proba(rows))
    with pytest.raises(fgrn.UnknownNameError, match="machine"):
        fgrn.HiddenMarkovModel(2, **settings).fit(tmp_path / "log.csv", sequence="machina")


# The order of rows


def test_steps_are_inserted_where_time_has_gaps() -> None:
    order = TimeOrder.of(5, ["b", "a", "b", "a", "b"], [3, 20, 1, 10, 7])
    assert order.names == ("b", "a")
    assert order.rows.tolist() == [2, 0, -1, 4, 3, -1, -1, -1, -1, 1]
    assert order.begins.tolist() == [True, False, False, False, True, *[False] * 5]
    np.testing.assert_array_equal(order.restored(np.arange(10)), [1, 9, 0, 4, 3])
    assert order.ends.tolist() == [3, 9]
    days = TimeOrder.of(3, None, pd.to_datetime(["2024-01-05", "2024-01-01", "2024-01-02"]))
    assert days.rows.tolist() == [1, 2, -1, -1, 0]
    assert TimeOrder.of(2, None, [0.5, 0.1]).rows.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sequence": ["a"]}, "1 value, and the table has 3 rows"),
        ({"sequence": ["a", None, "b"]}, "not known which sequence"),
        ({"time": [1, None, 2]}, "time of this row is not known"),
        ({"time": [1, {}, 2]}, "Times are numbers"),
        ({"time": [1.0, 2.0, np.inf]}, "Row 2: the time of this row is infinite"),
        ({"time": [0, 1, 1000], "step": 1}, "steps are missing"),
        ({"time": [2, 1, 2]}, "same time as row 0.*sequence="),
        ({"time": [1, 2, 2], "sequence": [1, 2, 2]}, "same time as row 1.* Leave one of them out"),
    ],
)
def test_what_is_no_order_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(fgrn.EvidenceError, match=told):
        TimeOrder.of(3, **options)


def test_words_for_times_are_read_as_numbers_or_dates() -> None:
    numbers = TimeOrder.of(3, None, ["10", "2", "4"])
    assert numbers.rows.tolist() == [1, 2, -1, -1, 0]
    assert TimeOrder.of(2, None, ["1e1", "2.5"], step=2.5).rows.tolist() == [1, -1, -1, 0]
    dates = TimeOrder.of(3, None, ["2024-01-05", "2024-01-01", "2024-01-02"])
    assert dates.rows.tolist() == [1, 2, -1, -1, 0]
    zones = TimeOrder.of(2, None, ["2024-01-01T01:00:00+02:00", "2023-12-31T22:30:00Z"])
    assert zones.rows.tolist() == [1, 0]


@pytest.mark.filterwarnings("error")
def test_times_may_have_time_zones_or_be_lengths_of_time() -> None:
    hours = [0, 3, 1, 2]
    zone = timezone(timedelta(hours=2))
    dates = [datetime(2024, 3, 31, tzinfo=zone) + timedelta(hours=one) for one in hours]
    for times in (dates, pd.Series(dates), [timedelta(hours=one) for one in hours], pd.to_timedelta(hours, unit="h")):
        assert TimeOrder.of(4, time=times).rows.tolist() == [0, 2, 3, 1]
    with pytest.raises(fgrn.EvidenceError, match="all of one kind"):
        TimeOrder.of(2, time=[dates[0], timedelta(hours=1)])


def test_other_words_for_times_are_sorted_with_a_warning() -> None:
    hours = [f"{hour}:00" for hour in range(12)]
    with pytest.warns(fgrn.FgrnWarning, match="sorted as texts, letter by letter: '10:00' before '9:00'. Give numbers"):
        assert TimeOrder.of(12, None, hours).rows[:4].tolist() == [0, 10, 11, 1]
    with pytest.warns(fgrn.FgrnWarning, match="'01/02/2024' before '31/01/2024'"):
        TimeOrder.of(2, None, ["31/01/2024", "01/02/2024"])
    with pytest.warns(fgrn.FgrnWarning, match="sorted as texts"):
        assert TimeOrder.of(3, None, ["today", "10", "2"]).rows.tolist() == [1, 2, 0]
    with (
        pytest.warns(fgrn.FgrnWarning, match="such as 'Monday'"),
        pytest.raises(fgrn.EvidenceError, match="'step' is given, but the times are neither"),
    ):
        TimeOrder.of(2, None, ["Monday", "Tuesday"], step=1)


def test_irregular_times_only_order_rows() -> None:
    with pytest.warns(fgrn.FgrnWarning, match=r"no regular step.*HiddenMarkovModel\(step=\.\.\.\)"):
        assert TimeOrder.of(4, None, [0, 1001, 7, 450]).rows.tolist() == [0, 2, 3, 1]
    with pytest.warns(fgrn.FgrnWarning, match="no regular step"):
        assert TimeOrder.of(4, None, [0.3, 3.2, 1.1, 2.4]).rows.tolist() == [0, 2, 3, 1]
    assert TimeOrder.of(4, None, [0.1, 0.2, 0.3, 0.4]).rows.tolist() == [0, 1, 2, 3]


def test_a_gap_that_is_too_long_is_told_with_its_row() -> None:
    told = r"Row 1: a gap of 1,000 steps.*another sequence after the gap.*HiddenMarkovModel\(step=None\)"
    with pytest.warns(fgrn.FgrnWarning, match=told):
        order = TimeOrder.of(3, None, [0, 1001, 1])
    assert order.rows.tolist() == [0, 2, 1]
    days = pd.date_range("2024-01-01", periods=6).append(pd.DatetimeIndex(["2034-01-01"]))
    with pytest.warns(fgrn.FgrnWarning, match="Row 6: a gap of 3,648 steps"):
        TimeOrder.of(7, None, days)


def test_a_column_that_is_not_there_is_named(log: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(fgrn.UnknownNameError, match="machine"):
        fgrn.HiddenMarkovModel(2).fit(log, sequence="machin")
    path = tmp_path / "log.csv"
    log.to_csv(path, index=False)
    for table in (log, str(path)):
        with pytest.raises(fgrn.EvidenceError, match="'machine': is 'sequence' and 'time' at once"):
            fgrn.HiddenMarkovModel(2).fit(table, sequence="machine", time="machine")


def test_mixed_sequences_without_times_are_told(
    log: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = log.drop(columns="worn").sort_values(["hour", "machine"])
    match = r"'machine': rows of different .* mixed.* order of the table.*time="
    with pytest.warns(fgrn.TableWarning, match=match) as told:
        fgrn.HiddenMarkovModel(2, n_epochs=2).fit(mixed.drop(columns="hour"), sequence="machine")
    assert sum(isinstance(one.message, fgrn.TableWarning) for one in told) == 1
    path = tmp_path / "log.csv"
    mixed.drop(columns="hour").to_csv(path, index=False)
    learn = [
        "fit",
        str(path),
        "--model",
        "hmm",
        "--sequence",
        "machine",
        "--epochs",
        "2",
        "-o",
        str(tmp_path / "m.json"),
    ]
    assert main(learn) == 0
    assert "name it with --time COLUMN" in capsys.readouterr().err
    fgrn.HiddenMarkovModel(2, n_epochs=2).fit(mixed, sequence="machine", time="hour")


def test_a_remembered_column_that_is_absent_is_told(model: fgrn.HiddenMarkovModel, log: pd.DataFrame) -> None:
    """Without times the rows of all machines could be one sequence; with them two rows have the same time."""
    rows, told = log.drop(columns="worn"), "the model was learnt with this column as"
    for ask in (model.predict, model.predict_proba, model.score, model.forecast, model.complete):
        for absent in (["hour"], ["machine", "hour"]):
            with pytest.warns(fgrn.TableWarning, match=told) as found:
                ask(rows.drop(columns=absent))
            assert [one.message.column for one in found] == absent  # type: ignore[union-attr]
        with pytest.warns(fgrn.TableWarning, match=told), pytest.raises(fgrn.EvidenceError, match="same time"):
            ask(rows.drop(columns="machine"))
    given = model.predict(rows.drop(columns="machine"), sequence=log["machine"].to_numpy())
    np.testing.assert_array_equal(given, model.predict(rows))


@pytest.mark.parametrize("kind", [lambda table: table, lambda table: table.to_dict("list")])
def test_a_remembered_column_is_no_feature_where_values_are_given(
    model: fgrn.HiddenMarkovModel, log: pd.DataFrame, kind: Any
) -> None:
    table = log.drop(columns="worn")
    wanted = model.predict_proba(kind(table))
    given = {"sequence": table["machine"].to_numpy(), "time": table["hour"].to_numpy()}
    for some in ({"time": given["time"]}, {"sequence": given["sequence"]}, given):
        assert np.array_equal(model.predict_proba(kind(table), **some), wanted)
    other = table.assign(minute=60 * table["hour"])
    assert np.array_equal(model.predict_proba(kind(other), time="minute"), wanted)
    turned = table.rename(columns={"machine": "hour", "hour": "machine"})
    assert np.array_equal(model.predict_proba(kind(turned), sequence="hour", time="machine"), wanted)
    mixed = table.assign(machine=table["hour"])
    assert np.array_equal(model.predict_proba(kind(mixed), sequence=given["sequence"], time="machine"), wanted)


def test_the_command_takes_continuous_columns_and_imputes_sequences(
    log: pd.DataFrame, tmp_path: Path, capsys: Any
) -> None:
    rows, model, full = tmp_path / "log.csv", tmp_path / "m.fgrn", tmp_path / "full.csv"
    some = log[log["machine"].isin(["m0", "m1"])].drop(columns=["worn", "heat"])
    some["heat"] = np.where(log["worn"][some.index], 40.0, 20.0) + np.random.default_rng(0).normal(size=len(some))
    gone = np.arange(len(some)) % 7 == 3
    some.assign(heat=some["heat"].mask(gone), sound=some["sound"].mask(gone)).to_csv(rows, index=False)
    options = ["--model", "hmm", "--hidden", "2", "--continuous", "heat", "--sequence", "machine", "--time", "hour"]
    assert main(["fit", str(rows), *options, "--starts", "1", "-o", str(model)]) == 0
    assert fgrn.load(model).continuous_ == ("heat",)
    assert main(["complete", str(model), str(rows), "-o", str(full)]) == 0
    done = pd.read_csv(full)
    assert not done.isna().any().any()
    assert (done["heat"][gone] - some["heat"].to_numpy()[gone]).abs().median() < 5
    assert main(["forecast", str(model), str(rows), "--steps", "2", "-o", str(full)]) == 0
    expected = fgrn.load(model).forecast(pd.read_csv(rows), 2).to_frame()
    pd.testing.assert_frame_equal(pd.read_csv(full), expected, check_dtype=False)
    capsys.readouterr()
    assert main(["forecast", str(model), str(rows), "--json"]) == 0
    assert [one["step"] for one in json.loads(capsys.readouterr().out)] == [1, 1]
    assert main(["complete", str(model), str(rows), "--draws", "2", "-o", str(full)]) == 2
    capsys.readouterr()
    pd.read_csv(rows).drop(columns="machine").to_csv(rows, index=False)
    assert main(["predict", str(model), str(rows), "-o", str(full)]) in (0, 1)
    told = capsys.readouterr().err
    assert "sequence=" not in told
    assert "add the column" in told.lower()
    pd.read_csv(rows).drop(columns="hour").to_csv(rows, index=False)
    assert main(["predict", str(model), str(rows), "-o", str(full)]) == 0
    assert capsys.readouterr().err.count("as 'time'") == 1
    assert main(["fit", str(rows), "--model", "ica", "--hidden", "2,2", "--continuous", "heat", "-o", str(model)]) == 2


def test_a_step_may_be_a_timedelta(tmp_path: Path) -> None:
    days = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-04", "2024-01-06"])
    for step in (timedelta(days=1), np.timedelta64(1, "D"), pd.Timedelta(days=1)):
        assert TimeOrder.of(4, None, days, step=step).rows.tolist() == [0, -1, 1, 2, -1, 3]
    table = {"day": days, "sound": ["hum", "rattle", "hum", "hum"]}
    model = fgrn.HiddenMarkovModel(2, step=timedelta(days=1), n_epochs=3, tol=0, random_state=0).fit(table, time="day")
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.step == 86_400 * 10**9
    assert (again.score_samples(table) == model.score_samples(table)).all()


def test_columns_of_any_name_are_beside_the_state_and_the_step_of_a_forecast() -> None:
    rng = np.random.default_rng(0)
    names = ("state", "step", "sequence", "P(state)", "y")
    table = {name: rng.choice(["u", "v"], 40) for name in names} | {"id": np.repeat(["a", "b"], 20)}
    model = fgrn.HiddenMarkovModel(2, random_state=0).fit(table, sequence="id")
    forecast = model.forecast(table, 2)
    first = forecast.as_dicts()[0]
    assert {name: first[name] in ("u", "v") for name in names} == dict.fromkeys(names, True)
    assert first["id"] == "a" and first["step_"] == 1 and first["state_"] in model.states_
    assert first["P(state_)"] == pytest.approx(forecast.states[0, 0].max())
    assert first["P(state)_"] == pytest.approx(forecast.columns["state"][0, 0].max())
    assert str(forecast).splitlines()[0].split()[:3] == ["id", "step_", "state_"]


def test_batches_of_frames_are_asked_like_tables(model: fgrn.HiddenMarkovModel, log: pd.DataFrame) -> None:
    whole = log.drop(columns="worn")
    batches = [whole[:70], whole[70:]]
    assert model.predict(iter(batches)).tolist() == model.predict(whole).tolist()
    assert model.score(lambda: iter(batches)) == model.score(whole)
    with pytest.raises(fgrn.TableFileError, match="holds no rows"):
        model.predict(iter([]))


def test_files_are_asked_like_tables(model: fgrn.HiddenMarkovModel, log: pd.DataFrame, tmp_path: Path) -> None:
    """A path had advice to go batch by batch, which would cut sequences into pieces."""
    table_file.write(log.drop(columns="worn").to_dict("list"), tmp_path / "log.csv")
    whole = table_file.read(tmp_path / "log.csv")
    for source in (tmp_path / "log.csv", str(tmp_path / "*.csv"), fgrn.Stream(tmp_path / "log.csv", rows=50)):
        assert model.score(source) == model.score(whole)
        assert model.predict(source).tolist() == model.predict(whole).tolist()
        assert str(model.forecast(source, 2)) == str(model.forecast(whole, 2))
        assert model.complete(source).equals(model.complete(whole))
