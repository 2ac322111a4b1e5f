"""Online learning: how close one pass comes to many epochs, forgetting, and endless streams."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn import LearningError, Stream, TableFileError, cli
from fgrn.flow.online import Online

pytestmark = pytest.mark.slow

COLUMNS, LEVELS, CLASSES = 12, 4, 4
STATES = {f"x{k}": LEVELS for k in range(COLUMNS)}

GAP = 0.002
"""Nats of log-likelihood per row that one pass in batches of 8,000 rows may lack to the end of learning."""


def rows(count: int, seed: int, spread: float) -> dict[str, np.ndarray]:
    """Of a few classes that are more or less alike; a small spread makes them differ."""
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.full(LEVELS, spread), (COLUMNS, CLASSES))
    classes = rng.integers(0, CLASSES, count)
    drawn = rng.random((COLUMNS, count))
    steps = np.cumsum(tables, axis=2)[:, :, :-1]
    return {name: (drawn[k][:, None] > steps[k][classes]).sum(axis=1) for k, name in enumerate(STATES)}


def frame(count: int = 600, seed: int = 0) -> pd.DataFrame:
    some = pd.DataFrame(rows(count, seed, 0.5)).iloc[:, :4]
    words = np.array(["red", "green", "blue", "grey"])
    some = some.assign(word=words[some["x0"]], answer=np.where(some["x1"] > 1, "yes", "no"))
    return some.mask(np.random.default_rng(seed).random(some.shape) < 0.05)


def in_batches(table: Any, size: int) -> Iterator[Any]:
    total = len(table) if isinstance(table, pd.DataFrame) else len(next(iter(table.values())))
    for first in range(0, total, size):
        part = slice(first, first + size)
        yield table[part] if isinstance(table, pd.DataFrame) else {k: v[part] for k, v in table.items()}


def model(hidden: int = 3, **settings: Any) -> Any:
    return fgrn.LatentClassModel(hidden, **{"n_epochs": 15, "n_init": 2, "random_state": 0, **settings})


# How near one pass comes


@pytest.mark.parametrize("spread", [0.7, 2.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_pass_lands_within_a_small_gap_of_all_epochs(spread: float, seed: int) -> None:
    data = rows(120_000, seed, spread)
    options: dict[str, Any] = {"n_epochs": 200, "n_init": 3, "engine": "cpu"}
    full = model(CLASSES, tol=1e-7, **options).fit(data)
    once = model(CLASSES, **options).partial_fit(Stream(in_batches(data, 8_000), rows=8_000))
    assert once.n_rows_ == 120_000
    first = model(CLASSES, **options).fit({name: column[:8_000] for name, column in data.items()})
    gap = full.score(data) - once.score(data)
    assert gap < GAP
    assert once.score(data) > first.score(data)


# What fades


@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=30), st.floats(0.5, 1), st.floats(1, 500))
def test_the_step_falls_to_what_the_effective_size_allows(weights: list[float], power: float, size: float) -> None:
    plain, faded = Online(power), Online(power, size)
    for weight in weights:
        assert plain.step(weight) == pytest.approx((weight / (plain.weight + weight)) ** power)
        assert faded.step(weight) == max(plain.step(weight), weight / (size + weight))
        assert faded.stands_for(weight) == min(plain.stands_for(weight), size + weight)
        for one in (plain, faded):
            one.close_batch(np.zeros(0), weight)


def test_the_total_weight_of_past_rows_approaches_the_effective_size() -> None:
    """The weights of batches, relative to the latest, sum to the size and a batch."""
    online, shares = Online(1.0, 40.0), np.zeros(0)
    for _ in range(400):
        step = online.step(10.0)
        shares = np.append(shares * (1 - step), step)
        online.close_batch(np.zeros(0), 10.0)
    assert shares.sum() == pytest.approx(1)
    assert 10.0 * (shares / shares[-1]).sum() == pytest.approx(50.0)
    assert shares[-1 - round(0.7 * 40 / 10)] / shares[-1] == pytest.approx(0.5, abs=0.03)


def test_a_changing_distribution_is_followed_only_with_an_effective_size() -> None:
    before, after = rows(40_000, 0, 1.0), rows(40_000, 9, 1.0)
    both = {name: np.concatenate([before[name], after[name]]) for name in STATES}
    test = rows(4_000, 9, 1.0)
    best = model(CLASSES, engine="cpu").fit(after).score(test)
    kept, faded = (
        model(CLASSES, engine="cpu", effective_size=size).partial_fit(Stream(in_batches(both, 2_000), rows=2_000))
        for size in (None, 2_000)
    )
    assert best - kept.score(test) > 0.5
    assert best - faded.score(test) < 0.03


@pytest.mark.parametrize("wrong", [0, -1.0, "many", float("nan")])
def test_an_effective_size_is_a_number_of_rows(wrong: Any) -> None:
    with pytest.raises(LearningError, match="effective_size"):
        fgrn.lvm(STATES, hidden=2).online(effective_size=wrong)
    with pytest.raises(ValueError, match="effective_size"):
        model(effective_size=wrong).partial_fit(frame())


def test_smoothing_does_not_fade_beside_rows_that_do() -> None:
    net = fgrn.lvm({"x": 2}, hidden=1)
    state = net.online(power=1.0, effective_size=10.0)
    for _ in range(50):
        net.learn({"x": [0] * 10}, epochs=1, smoothing=1.0, online=state)
    assert net.table("x")[0, 1] == pytest.approx(1 / 22)


# Streams that are read once


def test_a_stream_is_learnt_as_its_batches_are() -> None:
    table = frame()
    one, other = model(), model()
    for part in in_batches(table, 150):
        one.partial_fit(part)
    other.partial_fit(Stream(in_batches(table, 150), rows=150))
    assert one.schema_ == other.schema_
    assert np.allclose(one.network_._parameters.values, other.network_._parameters.values, rtol=1e-12)
    assert (
        (one.n_rows_, one.weight_, one.n_iter_)
        == (other.n_rows_, other.weight_, other.n_iter_)
        == (600, 600, other.n_iter_)
    )


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "function", "folder"])
def test_any_source_is_read_once(kind: str, tmp_path: Path) -> None:
    table = frame().drop(columns="answer")
    expected = model().partial_fit(Stream(in_batches(table, 200), rows=200))
    source: Any = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        table.to_parquet(source, row_group_size=60)
    elif kind == "folder":
        source.mkdir()
        for number, part in enumerate(in_batches(table, 100)):
            part.to_csv(source / f"{number}.csv", index=False)
    elif kind == "function":
        source = lambda: in_batches(table, 50)  # noqa: E731
    else:
        table.to_csv(source, index=False)
    found = model().partial_fit(Stream(source, rows=200))
    assert found.schema_ == expected.schema_
    assert found._online.batches == 3
    assert np.allclose(found.network_._parameters.values, expected.network_._parameters.values, rtol=1e-9)


def test_rows_are_learnt_before_the_next_are_read() -> None:
    """Learning does not wait for the end of a stream, and stops when asked to."""
    given: list[int] = []
    once = model(n_epochs=2, n_init=1)

    def endless() -> Iterator[pd.DataFrame]:
        for number in range(10**9):
            given.append(number)
            yield frame(100, number)

    once._stop = lambda: hasattr(once, "_online") and once._online is not None and once._online.batches >= 4
    once.partial_fit(Stream(endless(), rows=100))
    assert once.n_rows_ == 400
    assert len(given) <= 5


def test_small_batches_are_taken_together() -> None:
    table = frame(500)
    found = model().partial_fit(Stream(in_batches(table, 7), rows=120))
    assert (found._online.batches, found.n_rows_) == (4, 500)
    assert found.schema_ == model().partial_fit(table[:126]).schema_


def test_a_classifier_takes_the_class_and_the_weights_from_columns() -> None:
    table = frame().assign(weight=np.random.default_rng(0).integers(0, 3, 600).astype(float))
    found = fgrn.LatentClassifier(3, n_epochs=10, random_state=0)
    # rows without weight are left out, and what is left of a frame is more than 120 rows
    found.partial_fit(Stream(in_batches(table, 200), rows=120), "answer", sample_weight="weight")
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.weight_ == table["weight"].sum()
    assert found.n_rows_ == int((table["weight"] > 0).sum())
    features = table.drop(columns=["answer", "weight"])
    other = fgrn.LatentClassifier(3, n_epochs=10, random_state=0)
    for part in in_batches(table, 200):
        some = part[part["weight"] > 0]
        known = some.drop(columns=["answer", "weight"])
        other.partial_fit(known, some["answer"], classes=["no", "yes"], sample_weight=some["weight"])
    assert np.allclose(found.predict_proba(features), other.predict_proba(features), rtol=1e-9)
    found.partial_fit(iter([table[:100]]), "answer", sample_weight="weight")
    assert found.weight_ == table["weight"].sum() + table["weight"][:100].sum()


def test_classes_that_come_later_can_be_named() -> None:
    table = frame().sort_values("answer", na_position="first")
    late = fgrn.LatentClassifier(2, n_epochs=3, random_state=0)
    with pytest.warns(fgrn.UnseenLevelWarning, match=r"'answer': level 'yes' not seen in training"):
        late.partial_fit(Stream(in_batches(table, 150), rows=150), "answer")
    assert late.classes_.tolist() == ["no"]
    named = fgrn.LatentClassifier(2, n_epochs=3, random_state=0)
    named.partial_fit(Stream(in_batches(table, 150), rows=150), "answer", classes=["yes", "no"])
    assert named.classes_.tolist() == ["no", "yes"]


def test_levels_that_come_later_are_told_at_the_end() -> None:
    table = frame().assign(late=["a"] * 400 + ["b"] * 200)
    found = model()
    with pytest.warns(fgrn.UnseenLevelWarning) as told:
        found.partial_fit(Stream(in_batches(table, 200), rows=200))
    assert [("'late': level 'b'" in str(one.message), "in 200 rows" in str(one.message)) for one in told] == [
        (True, True)
    ]
    with pytest.raises(TableFileError, match=r"batch 2, row 0, column 'late': level 'b'"):
        model(unseen="error").partial_fit(Stream(in_batches(table, 200), rows=200))


def test_what_was_learnt_before_a_bad_row_stays() -> None:
    table = frame().astype({"x2": object})
    edges = fgrn.Schema.infer(frame()).with_column("x2", edges=[0.5, 1.5])
    table.loc[table.index[450], "x2"] = "rubbish"
    found = model(schema=edges)
    with pytest.raises(TableFileError, match=r"batch 2, row 50, column 'x2': .*'rubbish' is not a number"):
        found.partial_fit(Stream(in_batches(table, 200), rows=200))
    assert found.n_rows_ == 400
    assert len(found.predict(frame())) == 600
    again = model(schema=edges)
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match=r"1 row was left out"):
        again.partial_fit(Stream(in_batches(table, 200), rows=200, on_bad="skip"))
    assert again.n_rows_ == 599


def test_a_first_batch_that_fails_leaves_the_model_as_it_was() -> None:
    found = model()
    before = dict(vars(found))
    with pytest.raises(fgrn.SchemaError, match="identifier"):
        found.partial_fit(iter([frame().assign(id=[f"p{n}" for n in range(600)])]))
    assert vars(found) == before
    with pytest.raises(TableFileError, match="holds no rows"):
        found.partial_fit(iter([]))
    assert vars(found) == before


def test_a_model_goes_on_with_other_columns_than_it_knows() -> None:
    found = model().partial_fit(Stream(in_batches(frame(), 300), rows=300))
    with pytest.warns(fgrn.UnseenLevelWarning, match="There is no column 'more' here"):
        found.partial_fit(iter([frame(100, 1).drop(columns="word").assign(more=1)]))
    assert found.n_rows_ == 700


def test_a_saved_model_goes_on(tmp_path: Path) -> None:
    found = model(effective_size=1000).partial_fit(Stream(in_batches(frame(), 300), rows=300))
    found.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.effective_size == 1000
    again.partial_fit(iter([frame(300, 1)]))
    assert (again.n_rows_, again.weight_) == (900, 900)


def test_rows_that_are_left_out_are_counted_once() -> None:
    table = frame(400).assign(much=np.linspace(0, 1, 400))
    table.loc[table.index[[3, 50, 350]], "much"] = np.inf
    stream = Stream(in_batches(table, 100), rows=100, on_bad="skip")
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match="3 rows were left out"):
        found = model().partial_fit(stream)
    assert (sum(stream.left_out.values()), found.n_rows_) == (3, 397)


def test_rows_without_weight_are_not_counted() -> None:
    weights = np.r_[np.zeros(40), np.ones(60)]
    table = frame(100)
    with_column = iter([table.assign(w=weights)])
    found = model().fit(table, sample_weight=weights), model().partial_fit(table, sample_weight=weights)
    streamed = model().partial_fit(with_column, sample_weight="w")
    assert [one.n_rows_ for one in (*found, streamed)] == [60, 60, 60]


def test_many_small_frames_take_no_longer_than_their_rows() -> None:
    """Each frame is read once, not once for every later one."""
    table = pd.DataFrame(rows(800, 0, 0.5)).iloc[:, :2]
    looked = [0]

    def one_by_one() -> Iterator[pd.DataFrame]:
        for first in range(800):
            looked[0] += 1
            yield table[first : first + 1]

    found = model(n_epochs=1, n_init=1).partial_fit(Stream(one_by_one(), rows=400))
    assert (found.n_rows_, found._online.batches, looked[0]) == (800, 2, 800)


@pytest.mark.parametrize("kind", ["fit", "partial_fit"])
def test_the_class_of_a_stream_is_the_name_of_a_column(kind: str) -> None:
    for wrong in (None, 3, ["a", "b"]):
        found = fgrn.LatentClassifier(2, n_epochs=2, random_state=0)
        with pytest.raises(ValueError, match=r"is one of their columns: y='name'"):
            getattr(found, kind)(iter([frame()]), wrong)
        assert not hasattr(found, "network_")
    with pytest.raises(fgrn.UnknownNameError, match=r"There is no column 'ansver' here\. Did you mean 'answer'"):
        getattr(fgrn.LatentClassifier(2), kind)(iter([frame()]), "ansver")


def test_classes_are_checked_as_in_memory() -> None:
    found = fgrn.LatentClassifier(2, n_epochs=2, random_state=0).partial_fit(iter([frame()]), "answer")
    with pytest.raises(ValueError, match="not those of the first call"):
        found.partial_fit(iter([frame()]), "answer", classes=["maybe", "no"])
    with pytest.raises(ValueError, match="y='name'"):
        found.partial_fit(iter([frame()]), None)
    assert found.n_rows_ == 600
    fresh = fgrn.LatentClassifier(2, n_epochs=2, random_state=0)
    with pytest.raises(ValueError, match=r"1d|1D|shape"):
        fresh.partial_fit(iter([frame()]), "answer", classes="yes")
    with pytest.raises(TableFileError, match=r"column 'answer': level 'yes'"):
        fresh.partial_fit(iter([frame()]), "answer", classes=["maybe", "no"])


def test_layers_that_fail_leave_what_was_counted_in_batches() -> None:
    net = fgrn.stack({f"x{k}": 2 for k in range(4)}, hidden=[2, 2], groups=2)
    data = {f"x{k}": np.arange(12) // (k + 1) % 2 for k in range(4)}
    net.learn(data, epochs=1, smoothing=0.1, online=net.online())
    before, trained = net.online_state, net.trained
    epochs = iter(range(3))

    def watch(*_: Any) -> None:
        if next(epochs) == 2:  # in the second layer
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.learn_by_layer(data, epochs=2, smoothing=0.1, watch=watch)
    assert before is not None
    assert net.online_state is not None
    assert net.trained == trained
    np.testing.assert_array_equal(net.online_state.running, before.running)
    assert net.online_state.weight == before.weight


def test_an_interruption_before_the_first_step_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fgrn.estimators._base.LatentEstimator._step", stopped)
    for source in (frame(), iter([frame()])):
        found = model()
        with pytest.raises(KeyboardInterrupt):
            found.partial_fit(source)
        assert not hasattr(found, "network_")


# At the command line


def test_the_command_reads_a_table_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame().to_csv(tmp_path / "a.csv", index=False)
    options = ["--online", "--hidden", "3", "--batch", "200", "--json", "-o", str(tmp_path / "m.fgrn")]
    assert run("fit", tmp_path / "a.csv", *options, "--effective-size", "500", "--target", "answer") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["batches"], found["model"]) == (600, 3, "LatentClassifier")
    kept = fgrn.load(tmp_path / "m.fgrn")
    assert (kept.effective_size, kept.n_rows_) == (500, 600)
    assert run("fit", tmp_path / "a.csv", *options[:-3], "-o", tmp_path / "n.fgrn") == 0
    assert "600 rows, read once in 3 batches, log-likelihood" in capsys.readouterr().out


def run(*arguments: Any) -> int:
    return cli.main([str(one) for one in arguments])


@pytest.mark.parametrize(
    "more", [["--stream"], ["--test", "0.2"], ["--checkpoint", "run.ckpt"], ["--cycles", "2"], ["--dask", "tcp://a:1"]]
)
def test_what_does_not_go_with_rows_that_are_read_once_is_refused(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame().to_csv("a.csv", index=False)
    assert run("fit", "a.csv", "--online", "-o", "m.fgrn", *more) == 2
    assert "--online reads rows once" in capsys.readouterr().err
    assert run("fit", "a.csv", "--effective-size", "10", "-o", "m.fgrn") == 2
    assert "add --online" in capsys.readouterr().err
    assert run("fit", "a.csv", "--batch", "10", "-o", "m.fgrn") == 2
    assert "add --online or --stream" in capsys.readouterr().err
    assert not (tmp_path / "m.fgrn").exists()


def test_standard_input_is_learnt_as_it_comes(tmp_path: Path) -> None:
    text = io.StringIO()
    frame().to_csv(text, index=False)
    command = [sys.executable, "-m", "fgrn", "fit", "-", "--online", "--hidden", "2", "--batch", "100", "--json"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "m.fgrn")], input=text.getvalue(), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["batches"] == 6


def test_what_was_learnt_before_a_bad_row_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = io.StringIO()
    frame(900).drop(columns="answer").to_csv(text, index=False)
    lines = text.getvalue().splitlines()
    lines[1 + 750] = "1,2"
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    found = model()
    with pytest.raises(TableFileError, match="row 750"):
        found.partial_fit(Stream(tmp_path / "a.csv", rows=100))
    assert found.n_rows_ == 700
    place = tmp_path / "m.fgrn"
    assert run("fit", tmp_path / "a.csv", "--online", "--hidden", "2", "--batch", "100", "-o", place) == 1
    said = capsys.readouterr().err
    assert "holds what was learnt from 700 rows before this" in said
    assert "row 750" in said
    assert fgrn.load(place).n_rows_ == 700


TELLING = """
import signal, sys
from fgrn.cli import main
from fgrn.estimators._base import LatentEstimator

signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
plain = LatentEstimator._step
def told(self, *rows):
    found = plain(self, *rows)
    print(self.n_rows_, flush=True)
    return found
LatentEstimator._step = told
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_rows_of_a_silent_pipe_are_learnt_and_it_can_be_interrupted(tmp_path: Path) -> None:
    """All rows so far are learnt while the pipe is open, and Ctrl-C keeps them."""
    place = tmp_path / "m.fgrn"
    command = [sys.executable, "-c", TELLING, "fit", "-", "--online", "--hidden", "2", "--batch", "100", "-o", place]
    with subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        frame().to_csv(process.stdin, index=False)
        process.stdin.flush()
        assert "600\n" in iter(process.stdout.readline, "")  # it waits for more now, or will soon
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert fgrn.load(place).n_rows_ == 600


def test_a_class_that_was_announced_may_come_later() -> None:
    found = fgrn.NaiveBayesClassifier(smoothing=1.0)
    first, second = {"a": ["u", "v"] * 20}, {"a": ["u", "v", "v"] * 10}
    found.partial_fit(first, ["p", "q"] * 20, classes=["p", "q", "r"])
    found.partial_fit(second, ["r", "q", "p"] * 10)
    whole = fgrn.NaiveBayesClassifier(smoothing=1.0).fit(
        {"a": first["a"] + second["a"]}, ["p", "q"] * 20 + ["r", "q", "p"] * 10
    )
    assert np.allclose(found.predict_proba(first), whole.predict_proba(first), rtol=1e-12)
