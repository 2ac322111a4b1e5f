"""Learning from streams gives the result of tables in memory, for every kind of source; errors in streams."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrn
import fgrn.cli
from fgrn import Schema, Stream
from fgrn.engines import installed_engines
from fgrn.estimators import _kept_rows
from fgrn.tables import table_file
from fgrn.tables.disk import Disk
from fgrn.tables.distinct_values import Distinct
from fgrn.tables.missing import MISSING

ENGINES = installed_engines()


pytestmark = pytest.mark.slow

ROWS = 700


def table(rows: int = ROWS, seed: int = 0, holes: float = 0.1) -> pd.DataFrame:
    """Words, few numbers, many numbers, truth values, and holes."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "word": np.where(rng.random(rows) < 0.2 + 0.5 * group, "red", rng.choice(["blue", "green"], rows)),
            "few": rng.integers(0, 4, rows) + group,
            "many": np.round(rng.normal(3.0 * group, 1.0), 3),
            "mixed": rng.choice(["1", "2", "x"], rows),
            "code": rng.choice(["007", "010"], rows),
        }
    ).astype(object)
    return frame.mask(rng.random(frame.shape) < holes)


def plain(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    return table(rows, seed)[["word", "mixed"]].assign(few=np.random.default_rng(seed).integers(0, 4, rows))


def as_csv(frame: pd.DataFrame, place: Path) -> Path:
    frame.to_csv(place, index=False)
    return place


def read(place: Path) -> Any:
    return table_file.read(place)


def in_pieces(frame: pd.DataFrame, size: int) -> Iterator[pd.DataFrame]:
    return (frame[first : first + size] for first in range(0, len(frame), size))


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Return the same rows as every kind of source, by name."""
    as_csv(frame, folder / "all.csv")
    typed = read(folder / "all.csv")
    pa.parquet.write_table(typed, folder / "all.parquet", row_group_size=130)
    for kind in ("parts", "texts"):
        (folder / kind).mkdir()
    for number, first in enumerate(range(0, len(frame), 256)):
        pa.parquet.write_table(typed.slice(first, 256), folder / "parts" / f"{number:03}.parquet")
        as_csv(frame[first : first + 256], folder / "texts" / f"{number:03}.csv")
    (folder / "all.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes()))
    return {
        "csv": folder / "all.csv",
        "csv in small batches": Stream(folder / "all.csv", rows=37),
        "gzipped": str(folder / "all.csv.gz"),
        "parquet": str(folder / "all.parquet"),
        "rows one by one": Stream(folder / "all.parquet", rows=1),
        "glob of parquet": str(folder / "parts" / "*.parquet"),
        "glob of text": str(folder / "texts" / "*.csv"),
        "folder": folder / "texts",
        "list": Stream(sorted((folder / "parts").iterdir())),
        "dataset": pa.dataset.dataset(folder / "parts"),
        "iterator": (typed.slice(first, 99) for first in range(0, len(frame), 99)),
        "function": lambda: (typed.slice(first, 99) for first in range(0, len(frame), 99)),
        "batches of arrow": pa.RecordBatchReader.from_batches(typed.schema, typed.to_batches(50)),
        "larger batches than wanted": Stream(iter([typed]), rows=64),
        "pandas": lambda: (part.to_pandas() for part in [typed.slice(0, 300), typed.slice(300)]),
        "mappings": lambda: iter([typed.slice(0, 300).to_pydict(), typed.slice(300).to_pydict()]),
    }


KINDS = (
    "csv", "csv in small batches", "gzipped", "parquet", "rows one by one", "glob of parquet", "glob of text", "folder",
    "list", "dataset", "iterator", "function", "batches of arrow", "larger batches than wanted", "pandas", "mappings",
)  # fmt: skip


def network() -> fgrn.Network:
    return fgrn.lvm({"word": ["blue", "green", "red"], "mixed": ["1", "2", "x"], "few": 4}, hidden=3)


# The same as in memory


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_learns_the_same_bits_as_from_memory(kind: str, engine: str, tmp_path: Path) -> None:
    frame = plain()
    source = sources(frame, tmp_path)[kind]
    ours, theirs = network(), network()
    options: dict[str, Any] = {"epochs": 4, "smoothing": 0.1, "starts": 2, "engine": engine}
    seen = ours.learn(source, **options)
    expected = theirs.learn(read(tmp_path / "all.csv"), merge=False, **options)
    assert ours == theirs
    assert np.array_equal(seen.log_likelihood, expected.log_likelihood)
    assert ours.trained == theirs.trained


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_the_same_as_from_memory(kind: str, tmp_path: Path) -> None:
    source = sources(table(), tmp_path)[kind]
    assert Schema.infer(source) == Schema.infer(read(tmp_path / "all.csv"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["csv", "glob of parquet", "iterator"])
def test_an_estimator_learns_the_same_as_from_memory(kind: str, seed: int, tmp_path: Path) -> None:
    frame = table(seed=seed, holes=0.1 * seed)
    source = sources(frame, tmp_path)[kind]
    ours, theirs = (fgrn.LatentClassModel(3, n_epochs=5, n_init=2, random_state=seed) for _ in range(2))
    ours.fit(source)
    theirs.fit(read(tmp_path / "all.csv"))
    assert ours.schema_ == theirs.schema_
    for name in theirs.schema_:
        np.testing.assert_allclose(ours.network_.table(name), theirs.network_.table(name), rtol=1e-9)
    np.testing.assert_allclose(ours.history_.log_likelihood, theirs.history_.log_likelihood, rtol=1e-9)
    assert (ours.n_rows_, list(ours.feature_names_in_)) == (theirs.n_rows_, list(theirs.feature_names_in_))
    assert np.array_equal(ours.predict(read(tmp_path / "all.csv")), theirs.predict(read(tmp_path / "all.csv")))


@pytest.mark.parametrize(
    "model",
    [
        fgrn.LatentClassifier(3, n_epochs=5, random_state=0),
        fgrn.NaiveBayesClassifier(random_state=0),
        fgrn.DeepLatentClassifier([2, 2], n_epochs=3, random_state=0),
    ],
)
def test_classes_and_weights_are_columns(model: Any, tmp_path: Path) -> None:
    from sklearn.base import clone

    frame = table().assign(weight=np.random.default_rng(1).integers(0, 3, ROWS))
    as_csv(frame, tmp_path / "all.csv")
    whole = read(tmp_path / "all.csv")
    theirs = clone(model).fit(
        whole.drop_columns(["mixed", "weight"]), {"mixed": whole["mixed"].to_pylist()}, whole["weight"].to_numpy()
    )
    ours = clone(model).fit(Stream(tmp_path / "all.csv", rows=101), "mixed", "weight")
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert ours.schema_ == theirs.schema_
    assert ours.weight_ == theirs.weight_
    asked = whole.drop_columns(["mixed", "weight"])
    np.testing.assert_allclose(ours.predict_proba(asked), theirs.predict_proba(asked), rtol=1e-8)
    ours.save(tmp_path / "m.fgrn")
    assert np.array_equal(fgrn.load(tmp_path / "m.fgrn").predict(asked), ours.predict(asked))


def test_other_estimators_take_streams(tmp_path: Path) -> None:
    place = as_csv(table(), tmp_path / "all.csv")
    whole = read(place)
    for model in (
        fgrn.LatentImputer(2, n_epochs=3, random_state=0, engine="reference"),
        fgrn.HiddenTreeModel(
            2, n_trees=2, n_epochs=3, batch_size=None, validation=None, random_state=0, engine="reference"
        ),
        fgrn.DiscreteICA((2, 2), n_epochs=3, random_state=0, engine="reference"),
    ):
        parts = np.concatenate([np.asarray(model.fit(place).transform(batch)) for batch in Stream(place, rows=100)])
        expected = np.asarray(model.transform(whole))
        if parts.dtype == np.float64:  # engines, chosen by the work there is, differ in the last digits
            np.testing.assert_allclose(parts, expected, rtol=1e-9)
        else:
            assert np.array_equal(parts.astype(str), expected.astype(str))


@pytest.mark.parametrize("options", [{"cycles": 3}, {"holes": "ignore"}, {"threads": 1}, {"tolerance": 1e-3}])
def test_every_way_of_learning_is_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    place = as_csv(plain(), tmp_path / "all.csv")
    ours, theirs = network(), network()
    ours.learn(place, epochs=4, **options)
    theirs.learn(read(place), epochs=4, merge=False, hold=False, **options)
    assert ours == theirs


@pytest.mark.parametrize("shape", ["star", "layers"])
def test_many_blocks_on_any_number_of_threads_are_the_same(shape: str) -> None:
    rng = np.random.default_rng(0)
    columns = {f"Y{k}": rng.integers(-1, 3, 120_000) for k in range(6)}
    rows = {name: np.where(column < 0, np.nan, column) for name, column in columns.items()}
    states = dict.fromkeys(rows, 3)

    def taught(data: Any, **options: Any) -> fgrn.Network:
        net = fgrn.lvm(states, hidden=8) if shape == "star" else fgrn.stack(states, [3, 3])
        net.learn(data, epochs=2, engine="cpu", **options)
        return net

    def batches() -> Iterator[Any]:
        for first in range(0, 120_000, 30_001):
            yield {name: column[first : first + 30_001] for name, column in rows.items()}

    expected = taught(rows, merge=False)
    for threads in (1, 2, 3):
        assert taught(batches, threads=threads) == expected


def test_layers_read_the_rows_once(tmp_path: Path) -> None:
    typed = read(as_csv(plain(), tmp_path / "all.csv"))
    states = {"word": ["blue", "green", "red"], "mixed": ["1", "2", "x"], "few": 4}
    ours, theirs = (fgrn.stack(states, [2, 2]) for _ in range(2))
    ours.learn_by_layer(iter(typed.to_batches(90)), together=2, epochs=3)
    theirs.learn_by_layer(typed, together=2, epochs=3, merge=False)
    assert ours == theirs


def test_weights_of_a_network_are_a_column(tmp_path: Path) -> None:
    weight = np.random.default_rng(3).random(ROWS)
    place = as_csv(plain().assign(w=weight), tmp_path / "all.csv")
    ours, theirs = network(), network()
    ours.learn(Stream(place, rows=64), epochs=3, weights="w")
    whole = read(place)
    theirs.learn(whole.drop_columns("w"), epochs=3, weights=whole["w"].to_numpy(), merge=False)
    assert ours == theirs
    with pytest.raises(fgrn.LearningError, match="pass its name"):
        network().learn(place, weights=weight)
    with pytest.raises(fgrn.UnknownNameError, match="'v'"):
        network().learn(place, weights="v")


def test_walking_through_a_stream_keeps_the_order(tmp_path: Path) -> None:
    for kind, source in sources(table(), tmp_path).items():
        stream = source if isinstance(source, Stream) else Stream(source, rows=50)
        parts = [part if isinstance(part, pa.Table) else pa.table(dict(part)) for part in stream.again()]
        assert len(parts) > 1, kind
        assert (
            pa.concat_tables(parts, promote_options="permissive").to_pylist() == read(tmp_path / "all.csv").to_pylist()
        )


WORDS = st.sampled_from(["a", "b", "?", "", "1", "2", "2.0", "-3", "007", "1e3", "x y", "true", "NA", ' "q', "é"])
CELLS = st.one_of(WORDS, st.integers(-5, 5).map(str), st.floats(-9, 9).map(lambda value: f"{value:.3f}"))


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, int]:
    """The text of a table, and the rows of a batch."""
    width, rows = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    kinds = [draw(st.sampled_from([WORDS, CELLS, st.integers(0, 3).map(str)])) for _ in range(width)]
    lines = [[draw(kind) for kind in kinds] for _ in range(rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f"c{place}" for place in range(width)])
    writer.writerows(lines)
    return out.getvalue(), draw(st.integers(1, rows))


def outcome(make: Any) -> Any:
    """What is made, or what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return make()
        except fgrn.FgrnError as error:
            return type(error), str(error)


@given(case=texts(), block=st.sampled_from([64, 2**22]))
@settings(deadline=None)
def test_any_text_means_the_same_in_batches(
    case: tuple[str, int], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, rows = case
    place = tmp_path_factory.mktemp("text") / "a.csv"
    place.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fgrn.tables.text_reader, "PARSED_BYTES", block)
        expected = outcome(lambda: table_file.read(place))
        found = outcome(lambda: pa.concat_tables(Stream(place, rows=rows)))
        if not isinstance(expected, pa.Table):
            assert not isinstance(found, pa.Table)
            return
        assert found.to_pydict() == expected.to_pydict()
        assert [column.type for column in found.columns] == [column.type for column in expected.columns]
        ours, theirs = outcome(lambda: Schema.infer(Stream(place, rows=rows))), outcome(lambda: Schema.infer(expected))
        assert ours == theirs
        if isinstance(theirs, Schema):
            options: dict[str, Any] = {"n_epochs": 2, "n_init": 1, "random_state": 0, "engine": "reference"}
            one, other = (fgrn.LatentClassModel(2, **options) for _ in range(2))
            learnt = outcome(lambda: other.fit(expected).network_)  # with warnings of what looks like an identifier
            assert outcome(lambda: one.fit(Stream(place, rows=rows, missing=MISSING)).network_) == learnt
            assert isinstance(learnt, fgrn.Network)


# What may be odd about files


def test_columns_are_found_by_name_and_empty_files_do_no_harm(tmp_path: Path) -> None:
    frame = plain()
    as_csv(frame[:300], tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("")
    as_csv(frame[:0], tmp_path / "c.csv")
    as_csv(frame[300:][["few", "word", "mixed"]], tmp_path / "d.csv")
    ours, theirs = network(), network()
    ours.learn(tmp_path / "*.csv", epochs=3)
    theirs.learn(read(as_csv(frame, tmp_path / "all.txt")), epochs=3, merge=False)
    assert ours == theirs


def test_a_column_that_a_file_lacks_is_unknown_there(tmp_path: Path) -> None:
    frame = plain()
    as_csv(frame[:300], tmp_path / "a.csv")
    as_csv(frame[300:].drop(columns="word"), tmp_path / "b.csv")
    ours, theirs = network(), network()
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match=r"b\.csv' has no column 'word': unknown in its rows"):
        ours.learn(tmp_path, epochs=3)
    frame.loc[300:, "word"] = None
    theirs.learn(read(as_csv(frame, tmp_path / "all.txt")), epochs=3, merge=False)
    assert ours == theirs


def test_a_column_that_comes_later_is_an_error_unless_columns_are_listed(tmp_path: Path) -> None:
    as_csv(plain(50).drop(columns="few"), tmp_path / "a.csv")
    as_csv(plain(50), tmp_path / "b.csv")
    with pytest.raises(fgrn.TableFileError, match=r"b\.csv', column 'few': .*columns=.*drop="):
        network().learn(tmp_path)
    network().learn(Stream(tmp_path, drop=["few"]), epochs=1)
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match=r"a\.csv' has no column 'few'"):
        network().learn(Stream(tmp_path, columns=["word", "few"]), epochs=1)


@pytest.mark.parametrize("order", [0, 1])
def test_a_column_of_numbers_here_and_words_there_is_one_of_words(order: int, tmp_path: Path) -> None:
    parts = [pa.table({"x": x, "y": list("abbab")}) for x in ([1, 2, 2, 1, 5], ["2", "b", "b", None, "1"])]
    for name, part in zip("ab", parts[:: 1 - 2 * order], strict=True):
        pa.parquet.write_table(part, tmp_path / f"{name}.parquet")
        pa.csv.write_csv(part, tmp_path / f"{name}.csv")
    for kind in ("parquet", "csv"):
        model = fgrn.LatentClassModel(2, n_epochs=2, random_state=0).fit(tmp_path / f"*.{kind}")
        assert model.schema_["x"].levels == ("1", "2", "5", "b")
        assert model.n_rows_ == 10
        counts = model.network_.propagate(None).marginal("x")[0]
        np.testing.assert_allclose(counts, np.array([3, 3, 1, 2]) / 9, atol=0.02)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(fgrn.TableFileError, match=r"There is no file 'nowhere\.csv'"):
        network().learn("nowhere.csv")
    with pytest.raises(fgrn.TableFileError, match=r"No file is called like '.*\*\.csv'"):
        network().learn(tmp_path / "*.csv")
    with pytest.raises(fgrn.TableFileError, match="has no table in it"):
        network().learn(tmp_path)
    (tmp_path / "empty.csv").write_text("word,few\n")
    with pytest.raises(fgrn.TableFileError, match="holds no rows"):
        network().learn(tmp_path / "empty.csv")
    with pytest.raises(fgrn.TableFileError, match="holds no rows"):
        fgrn.LatentClassModel().fit(tmp_path / "empty.csv")
    with pytest.raises(fgrn.TableFileError, match=r"cache folder '.*nowhere'.*no such folder"):
        network().learn(Stream(as_csv(plain(9), tmp_path / "a.csv"), cache=tmp_path / "nowhere"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(fgrn.TableFileError, match=r"bad\.parquet': it cannot be read as parquet"):
        network().learn(tmp_path / "bad.parquet")
    with pytest.raises(fgrn.TableFileError, match="text files and Parquet files"):
        network().learn(tmp_path)
    with pytest.raises(fgrn.TableFileError, match="path, a glob"):
        Stream(7)


def test_an_iterator_is_walked_through_once() -> None:
    source = iter([plain(50)])
    stream = Stream(source)
    network().learn(stream, epochs=1)
    with pytest.raises(fgrn.TableFileError, match="used up"):
        network().learn(stream, epochs=1)


@pytest.mark.parametrize("name", ["__index_level_0__", "__null_dask_index__"])
def test_the_index_of_a_frame_is_no_column(name: str, tmp_path: Path) -> None:
    place = tmp_path / "a.parquet"
    rows = plain(40)
    pa.parquet.write_table(pa.Table.from_pandas(rows.assign(**{name: range(40)}), preserve_index=False), place)
    for source in (place, pa.dataset.dataset(place)):
        assert Stream(source).names == tuple(rows)
    assert read(place).column_names == list(rows)
    ours, theirs = network(), network()
    ours.learn(place, epochs=2)
    theirs.learn(rows, epochs=2, merge=False)
    assert ours == theirs
    rows.set_index(pd.Index([f"p{k}" for k in range(40)], name="person")).to_parquet(place)
    assert "person" in Stream(place).names


class Trickle(io.RawIOBase):
    """Standard input that comes a few bytes at a time."""

    def __init__(self, data: bytes, most: int) -> None:
        self.rest, self.most, self.buffer = data, most, self

    def fileno(self) -> int:
        raise OSError("no file")

    def read(self, size: int = -1) -> bytes:
        part, self.rest = self.rest[: min(size, self.most)], self.rest[min(size, self.most) :]
        return part


@pytest.mark.parametrize("most", [1, 13, 400, 10**6])
@pytest.mark.parametrize("header", [True, False])
def test_a_pipe_is_read_as_a_file_is(most: int, header: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{k},word {k % 3}" for k in range(60)]
    lines[7], lines[20], lines[33], lines[59] = "7", '20,"two\nlines, ""quoted"""', "1,2,3", "59"
    text = ("number,what\n" if header else "") + "\n".join(lines) + "\n"
    place = tmp_path / "a.csv"
    place.write_text(text)
    monkeypatch.setattr(sys, "stdin", Trickle(text.encode(), most))
    expected = Stream(place, on_bad="skip", header=header)
    found = Stream("-", on_bad="skip", header=header)
    rows = [(batch, number) for batch in expected.batches() for number in batch.numbers]
    seen = [(batch, number) for batch in found.once() for number in batch.numbers]
    assert [number for _, number in seen] == [number for _, number in rows]
    assert found.left_out == expected.left_out == {"more or fewer values than others": 3}
    monkeypatch.setattr(sys, "stdin", Trickle(text.encode(), most))
    tables = [pa.table(batch.frame.to_pydict()) for batch in Stream("-", on_bad="skip", header=header).batches()]
    whole = [batch.frame.to_pydict() for batch in expected.batches()]
    assert pa.concat_tables(tables).to_pydict() == {k: [v for one in whole for v in one[k]] for k in whole[0]}


def test_rows_before_a_bad_one_are_handed_on_first(tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    place.write_text("a,b\n" + "1,2\n" * 40 + "1\n" + "1,2\n" * 40)
    seen = 0
    with pytest.raises(fgrn.TableFileError, match="row 40"):
        for batch in Stream(place, rows=7).once():
            seen += len(batch.numbers)
    assert seen == 40


def test_a_quotation_mark_that_is_not_closed_swallows_nothing_in_silence(tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    place.write_text("a,c\n" + "1,p\n2,q\n" * 500 + '1,"p\n' + "1,p\n2,q\n" * 20_000)
    for use in (read, lambda place: list(Stream(place, on_bad="skip"))):
        with pytest.raises(fgrn.TableFileError, match=r"line 1002: .*not closed"):
            use(place)


def test_names_alone_and_empty_lines_before_them_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("word,mixed,few")
    (tmp_path / "2.csv").write_text("\n\r\nword,mixed,few\nred,1,2\n")
    assert [table.to_pylist() for table in Stream(tmp_path)] == [[{"word": "red", "mixed": 1, "few": 2}]]


def test_an_error_in_a_long_file_lets_the_process_end(tmp_path: Path) -> None:
    """A thread that reads ahead must not block the end of the process."""
    (tmp_path / "a.csv").write_text("a,c\n1,p\n2,q\n")
    (tmp_path / "b.csv").write_text("a,c,d\n" + "1,p,x\n2,q,y\n" * 400_000)
    code = f"import fgrn; list(fgrn.Stream({str(tmp_path)!r}))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert "column 'd': what came before has no such column" in done.stderr


def test_folders_named_like_values_give_a_warning(tmp_path: Path) -> None:
    rows = pa.Table.from_pandas(plain(60).assign(part=["a", "b"] * 30), preserve_index=False)
    pa.dataset.write_dataset(
        rows, tmp_path / "hive", format="parquet", partitioning=["part"], partitioning_flavor="hive"
    )
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match="named like values of a column"):
        assert "part" not in Stream(tmp_path / "hive").names
    dataset = pa.dataset.dataset(tmp_path / "hive", partitioning="hive")
    assert "part" in Stream(dataset).names
    some = dataset.filter(pa.compute.field("part") == "a")
    assert sum(table.num_rows for table in Stream(some)) == 30


def test_rows_without_weight_do_not_move_the_borders_of_bins(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(1000.0), "w": [1.0, 0.0, 0.0, 2.0] * 250})
    frame.to_parquet(tmp_path / "a.parquet")
    there = Schema.infer(tmp_path / "a.parquet", weights="w")
    assert Schema.infer(frame[["x"]], weights=frame["w"]) == there


def test_predict_refuses_a_table_that_is_not_in_memory(tmp_path: Path) -> None:
    place = as_csv(plain(60), tmp_path / "a.csv")
    model = fgrn.LatentClassifier(2, n_epochs=2, n_init=1, random_state=0).fit(place, "word")
    for rows in (str(place), place, Stream(place)):
        with pytest.raises(ValueError, match=r"batch by batch: for rows in fgrn\.Stream"):
            model.predict(rows)
    with pytest.raises(ValueError, match=r"y='word' names a column of a table that is not in memory"):
        model.fit(plain(60), "word")
    as_csv(plain(60).assign(word=None), place)
    with pytest.raises(ValueError, match="The class of no row is known: column 'word' is empty"):
        model.fit(place, "word")


def test_the_numbers_of_rows_wait_on_disk_where_some_are_left_out(tmp_path: Path) -> None:
    from fgrn.learning.encoding import _by_variables, encode_stream

    frame = plain(900).assign(weight=np.tile([1.0, 0.0, 2.0], 300))
    as_csv(frame, tmp_path / "a.csv")
    net = network()
    table = encode_stream(
        Stream(tmp_path / "a.csv", rows=200), "weight", lambda names: _by_variables(net._plan(()), names), True
    )
    assert (table.rows, table.weight) == (600, 900)
    kept = [row for row in range(900) if row % 3 != 1]
    assert [table.origin_of(row).split()[1] for row in (0, 1, 2, 300, 599)] == [
        f"{kept[n]}" for n in (0, 1, 2, 300, 599)
    ]
    assert all(isinstance(numbers.base, memoryview) or not numbers.flags.owndata for _, _, numbers in table.origins)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_a_bayesian_network_is_made_of_arcs_and_a_file(holes: float, tmp_path: Path) -> None:
    frame = table(300, holes=holes)[["word", "mixed", "code"]]
    place = as_csv(frame, tmp_path / "a.csv")
    arcs = {"word": ["mixed"], "code": ["word"]}
    ours = fgrn.BayesianNetwork.from_data(arcs, place, smoothing=0.5, epochs=4)
    theirs = fgrn.BayesianNetwork.from_data(arcs, read(place), smoothing=0.5, epochs=4)
    assert ours.names == theirs.names
    for name in ours.names:
        assert ours.variable(name).labels == theirs.variable(name).labels
        assert np.allclose(ours.table(name), theirs.table(name), rtol=1e-9)
    sure = fgrn.BayesianNetwork({"word": ["blue", "green", "red"]}, {}, {"word": [1.0, 0.0, 0.0]})
    as_csv(table(30, holes=0.0)[["word"]].assign(word=["blue"] * 20 + ["red"] + ["blue"] * 9), tmp_path / "b.csv")
    with pytest.raises(fgrn.ImpossibleEvidence, match=r"Row 20 of all is row 20 of .*b\.csv"):
        sure.learn(tmp_path / "b.csv")


@pytest.mark.filterwarnings("ignore:The best number of hidden states")
@pytest.mark.parametrize("criterion", ["bic", "held_out"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_number_of_hidden_states_is_chosen_on_disk_as_in_memory(
    criterion: str, weighted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fgrn.estimators._state_count.ROWS_AT_ONCE", 64)
    monkeypatch.setattr("fgrn.tables.disk.AT_ONCE", 100)
    frame = table(400)
    if weighted:
        frame = frame.assign(weight=np.random.default_rng(1).integers(1, 4, 400))
    place = as_csv(frame, tmp_path / "a.csv")
    settings: dict[str, Any] = {"criterion": criterion, "max_hidden": 4, "n_epochs": 8, "random_state": 0}
    ours, theirs = (fgrn.LatentClassModel("auto", n_init=1, **settings) for _ in range(2))
    rows = read(place)
    weights = rows["weight"].to_numpy() if weighted else None
    rows = rows.drop_columns("weight") if weighted else rows
    ours.fit(place, sample_weight="weight" if weighted else None)
    theirs.fit(rows, sample_weight=weights)
    assert ours.n_hidden_ == theirs.n_hidden_
    assert np.allclose(ours.network_._parameters.values, theirs.network_._parameters.values, rtol=1e-9)
    for one, other in zip(ours.selection_.candidates, theirs.selection_.candidates, strict=True):
        for name in ("log_likelihood", "bic", "held_out", "relative_entropy", "class_sizes"):
            assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-8, equal_nan=True), name
    found = fgrn.LatentClassifier(n_epochs=5, n_init=1, random_state=0, criterion=criterion).compare(
        place, "word", [1, 2], sample_weight="weight" if weighted else None
    )
    assert [one.n_hidden for one in found.candidates] == [1, 2]


def test_some_things_need_memory(tmp_path: Path) -> None:
    place = as_csv(plain(50), tmp_path / "a.csv")
    with pytest.raises(fgrn.LearningError, match="merge"):
        network().learn(place, merge=True)
    with pytest.raises(fgrn.LearningError, match="must be in memory"):
        fgrn.hmm({"word": ["blue", "green", "red"]}, hidden=2).learn(place)
    soft = {"word": [[0.2, 0.3, 0.5]] * 3}
    with pytest.raises(fgrn.EvidenceError, match="in memory only"):
        network().learn(iter([soft]))


# Bad data


def test_a_bad_value_is_named_by_file_row_column_and_value(tmp_path: Path) -> None:
    frame = plain(300)
    for number, first in enumerate((0, 100, 200)):
        part = frame[first : first + 100].copy()
        if number == 1:
            part.loc[137, "word"] = "rde"
        pa.parquet.write_table(pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"{number}.parquet")
    with pytest.raises(
        fgrn.TableFileError, match=r"1\.parquet', row 37, column 'word': 'rde' is .*known: blue, green, red"
    ):
        network().learn(Stream(tmp_path, rows=30))
    ours, theirs = network(), network()
    with pytest.warns(
        fgrn.core.exceptions.FgrnWarning, match=r"1 row was left out: 1 \(no level of it, column 'word'\)"
    ):
        ours.learn(stream := Stream(tmp_path, rows=30, on_bad="skip"), epochs=3)
    assert sum(stream.left_out.values()) == 1
    theirs.learn(frame.drop(index=137), epochs=3, merge=False)
    assert ours == theirs


def test_ragged_lines_are_named_and_counted(tmp_path: Path) -> None:
    lines = ["word,few", *("red,1" for _ in range(2000))]
    for row in (17, 18, 1500):
        lines[row + 1] = "red,1,2" if row == 18 else "red"
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with pytest.raises(fgrn.TableFileError, match=r"a\.csv', row 17, line 19: 1 value, where the first line has 2"):
        network().learn(tmp_path / "a.csv")
    stream = Stream(tmp_path / "a.csv", on_bad="skip", rows=100)
    numbers = [number for batch in stream.batches() for number in batch.numbers]
    assert numbers == [row for row in range(2000) if row not in (17, 18, 1500)]
    assert stream.left_out == {"more or fewer values than others": 3}
    assert "3 rows were left out" in stream.report()


def test_bytes_that_are_no_text_are_named_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"word,few\nred,1\nbl\xfce,2\nred,0\n")
    with pytest.raises(fgrn.TableFileError, match=r"row 1, line 3, column 'word': b'bl\\xfce' is not UTF-8"):
        network().learn(tmp_path / "a.csv")
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match="1 row was left out"):
        network().learn(Stream(tmp_path / "a.csv", on_bad="skip"), epochs=1)
    assert next(iter(Stream(tmp_path / "a.csv", encoding="cp1252")))["word"].to_pylist() == ["red", "blüe", "red"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_read_in_batches(encoding: str, tmp_path: Path) -> None:
    words = ["grün", "blau"] * 40_000
    (tmp_path / "a.csv").write_text("wört\n" + "\n".join(words), encoding=encoding)
    given = "cp1252" if encoding == "cp1252" else None
    found = [one for batch in Stream(tmp_path / "a.csv", encoding=given) for one in batch["wört"].to_pylist()]
    assert found == words


def test_levels_of_a_given_schema_are_kept_to(tmp_path: Path) -> None:
    frame = table(400)
    schema = Schema.infer(read(as_csv(frame, tmp_path / "a.csv"))).with_column("word", levels=["blue", "red"])
    green = int((frame["word"] == "green").sum())
    strict = fgrn.LatentClassModel(2, schema=schema, unseen="error", n_epochs=2, random_state=0)
    with pytest.raises(fgrn.TableFileError, match=r"a\.csv', row \d+, column 'word': level 'green'"):
        strict.fit(tmp_path / "a.csv")
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match=f"{green} rows were left out"):
        strict.fit(Stream(tmp_path / "a.csv", on_bad="skip", rows=60))
    assert strict.n_rows_ == 400 - green
    loose = fgrn.LatentClassModel(2, schema=schema, n_epochs=2, random_state=0)
    with pytest.warns(fgrn.UnseenLevelWarning, match=f"'green' not seen in training.*in {green} rows"):
        loose.fit(Stream(tmp_path / "a.csv", rows=60))
    assert loose.n_rows_ == 400


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_a_small_file_are_kept_for_analyses(tmp_path: Path, kind: str, weights: str | None) -> None:
    frame = plain(300)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 2.0], 300) if weights else None
    given = frame if weight is None else frame.assign(w=weight)
    place = tmp_path / f"rows.{kind}"
    as_csv(given, place) if kind == "csv" else given.to_parquet(place)
    settings: dict[str, Any] = {"random_state": 0, "n_init": 1}
    here = fgrn.LatentClassModel(2, **settings).fit(frame, sample_weight=weight)
    read = fgrn.LatentClassModel(2, **settings).fit(Stream(place, rows=70), sample_weight=weights)
    kept = read._kept
    assert kept is not None
    assert kept.in_memory and kept.codes.flags.owndata and kept.is_weighted == (weights is not None)
    place.unlink()
    assert str(read.report()) == str(here.report())
    pd.testing.assert_frame_equal(read.standard_errors().to_frame(), here.standard_errors().to_frame())
    assert str(read.bootstrap_lrt(n_bootstrap=3)) == str(here.bootstrap_lrt(n_bootstrap=3))
    read.save(tmp_path / "model.fgrn")
    assert str(fgrn.load(tmp_path / "model.fgrn").report()) == str(here.report())


def test_rows_of_a_large_file_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = as_csv(plain(50), tmp_path / "rows.csv")
    for most, is_kept in ((150, True), (149, False)):
        monkeypatch.setattr(_kept_rows, "MOST_KEPT_CELLS", most)
        assert (fgrn.LatentClassModel(2, n_epochs=1, n_init=1).fit(place)._kept is not None) == is_kept


def test_bad_weights_and_infinite_numbers_are_named(tmp_path: Path) -> None:
    frame = plain(50).assign(w=1.0)
    frame.loc[20, "w"] = -1
    place = as_csv(frame, tmp_path / "a.csv")
    with pytest.raises(fgrn.TableFileError, match=r"row 20, column 'w': -1\.0 is not a weight"):
        network().learn(place, weights="w")
    with pytest.warns(fgrn.core.exceptions.FgrnWarning, match="1 row was left out"):
        network().learn(Stream(place, on_bad="skip"), weights="w", epochs=1)
    endless = as_csv(table(60).assign(many=[1.5, float("inf"), *np.arange(58) / 7]), tmp_path / "c.csv")
    with pytest.raises(fgrn.TableFileError, match=r"c\.csv', row 1, column 'many': inf is not a finite number"):
        fgrn.LatentClassModel().fit(endless)
    with pytest.warns(
        fgrn.core.exceptions.FgrnWarning, match=r"1 row was left out: 1 \(not a finite number, column 'many'\)"
    ):
        fgrn.LatentClassModel(2, n_epochs=1).fit(Stream(endless, on_bad="skip"))
    with pytest.raises(fgrn.EvidenceError, match="all of these weights"):
        network().learn(as_csv(frame.assign(w=0), tmp_path / "b.csv"), weights="w")


def test_an_impossible_row_is_named_by_its_file(tmp_path: Path) -> None:
    net = fgrn.Network(
        [
            fgrn.Source(hidden := fgrn.Variable("S", 2)),
            fgrn.SISO(hidden, fgrn.Variable("few", 4), table=[[0.5, 0.5, 0, 0], [0.5, 0.2, 0.3, 0]]),
        ]
    )
    for name, values in (("a", [0, 1, 2]), ("b", [1, 1, 3, 0])):
        as_csv(pd.DataFrame({"few": values}), tmp_path / f"{name}.csv")
    with pytest.raises(fgrn.ImpossibleEvidence, match=r"Row 5 of all is row 2 of '.*b\.csv'") as caught:
        net.learn(tmp_path)
    assert caught.value.rows == (5,)


@pytest.mark.parametrize("cut", [20, 300])
def test_a_file_that_is_cut_short_is_an_error(cut: int, tmp_path: Path) -> None:
    place = as_csv(plain(), tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(place.read_bytes())[:cut])
    with pytest.raises(fgrn.TableFileError, match=r"b\.csv\.gz': it cannot be read"):
        network().learn(tmp_path / "b.csv.gz")
    (tmp_path / "c.csv.gz").write_bytes(b"no gzip at all")
    with pytest.raises(fgrn.TableFileError, match=r"c\.csv\.gz': it cannot be read"):
        network().learn(tmp_path / "c.csv.gz")
    pa.parquet.write_table(read(place), tmp_path / "d.parquet")
    (tmp_path / "d.parquet").write_bytes((tmp_path / "d.parquet").read_bytes()[:-cut])
    with pytest.raises(fgrn.TableFileError, match=r"d\.parquet': it cannot be read as parquet"):
        network().learn(tmp_path / "d.parquet")


# Numbers without end


def test_many_numbers_keep_their_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fgrn.tables.distinct_values, "MOST_EXACT_NUMBERS", 2**10)
    values = np.random.default_rng(0).normal(size=200_000)
    found = Distinct("x")
    for part in np.split(values, 50):
        found.see(part, None)
    assert len(found.numbers) <= 2**10
    assert found.number_weights.sum() == len(values)
    column = Schema.infer({"x": found})["x"]
    exact = Schema.infer({"x": values})["x"]
    ranks = np.searchsorted(np.sort(values), column.edges) / len(values)
    np.testing.assert_allclose(ranks, np.arange(1, 5) / 5, atol=0.01)
    np.testing.assert_allclose(column.centers, exact.centers, atol=0.02)


def test_identifiers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fgrn.SchemaError, match="500 distinct values in 500 rows looks like an identifier"):
        Schema.infer(iter([{"id": [f"n{k}" for k in range(first, first + 100)]} for first in range(0, 500, 100)]))
    monkeypatch.setattr(fgrn.tables.distinct_values, "MOST_WORDS", 150)
    with pytest.raises(fgrn.SchemaError, match="more than 150 distinct values in the first 200 rows"):
        Schema.infer(iter([{"id": [f"n{k}" for k in range(first, first + 100)]} for first in range(0, 500, 100)]))


# Memory and disk


def test_arrays_on_disk_are_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fgrn.tables.disk, "SEGMENT", 2**14)
    disk = Disk(tmp_path)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 99, size).astype(kind) for size in (1, 5000, (3, 7), 0, 40_000) for kind in ("u2", "f8")]
    kept = [disk.stored(array) for array in arrays]
    for _ in range(2):
        for one, other in zip(arrays, kept, strict=True):
            assert np.array_equal(one, other)
            assert (one.dtype, one.shape, other.flags.c_contiguous) == (other.dtype, other.shape, True)
        disk.release()
    assert not list(tmp_path.iterdir())


def test_the_cache_is_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fgrn.tables.disk.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fgrn.tables.disk, "LARGE", str(tmp_path / "large"))
    assert fgrn.tables.disk.folder_for(None) == str(tmp_path)
    (tmp_path / "large").mkdir()
    assert fgrn.tables.disk.folder_for(None) == str(tmp_path / "large")
    assert fgrn.tables.disk.folder_for(tmp_path / "given") == str(tmp_path / "given")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert fgrn.tables.disk.folder_for(None) == str(tmp_path)


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    code = f"""
import resource, signal, sys
import fgrn
import fgrn.cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
net = fgrn.lvm({{"few": 4, "word": ["blue", "green", "red"]}}, hidden=2)
try:
    net.learn(fgrn.Stream({str(tmp_path / "a.parquet")!r}, cache={str(tmp_path)!r}), epochs=1)
except fgrn.TableFileError as error:
    print(error)
"""
    rows = {"few": np.tile([0, 1, 2, 3], 50_000), "word": ["red", "blue"] * 100_000}
    pa.parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert "cannot be written: file too large" in done.stdout
    assert "cache=" in done.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["a.parquet"]


PEAK = """
import os, sys, signal
import numpy as np
import fgrn
import fgrn.cli
rows, cache, die = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "die"
def batches():
    rng = np.random.default_rng(0)
    for _ in range(rows // 2**16):
        yield {f"Y{k}": rng.integers(0, 4, 2**16, dtype=np.int8) for k in range(20)}
def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(kind))) / 1024
net = fgrn.lvm({f"Y{k}": 4 for k in range(20)}, hidden=4)
net.learn(next(batches()), epochs=1, engine="cpu", merge=False)
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
def watch(start, epoch, likelihood):
    if die and epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)
net.learn(fgrn.Stream(batches, cache=cache), epochs=3, engine="cpu", watch=watch)
print(memory("VmHWM") - before)
"""


def run_peak(rows: int, cache: Path, how: str = "live") -> subprocess.CompletedProcess[str]:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is watched in the Linux way")
    return subprocess.run(
        [sys.executable, "-c", PEAK, str(rows), str(cache), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_memory_is_set_by_the_batch_and_not_by_the_table(tmp_path: Path) -> None:
    small, large = (float(run_peak(rows, tmp_path).stdout) for rows in (2**22, 2**23))
    codes = 20 * 2**23 / 2**20  # 160 MiB, and as much again for what engines keep
    assert large < codes / 2, f"{large:.0f} MiB at the peak for {codes:.0f} MiB of codes"
    # Held rows would add half of the codes, 80 MiB; batches read ahead move a peak by up to 25 MiB from run to run
    assert large - small < codes / 4, f"{small:.0f} and {large:.0f} MiB at the peak"
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_behind_by_a_process_that_is_killed(tmp_path: Path) -> None:
    assert run_peak(2**18, tmp_path, "die").returncode == -9
    assert not list(tmp_path.iterdir())


def test_an_error_or_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    place = as_csv(plain(), tmp_path / "a.csv")
    with pytest.raises(KeyboardInterrupt):
        network().learn(Stream(place, cache=cache), watch=interrupted)
    assert not list(cache.iterdir())


def test_sources_are_told_from_tables() -> None:
    from fgrn.tables.frames import is_source

    tables: list[Any] = [{"a": [1]}, pd.DataFrame({"a": [1]}), pa.table({"a": [1]}), np.zeros((2, 2)), [[1]], None]
    assert not any(map(is_source, tables))
    others: list[Any] = ["a.csv", Path("a.csv"), iter([]), lambda: iter([]), Stream("a.csv")]
    assert all(map(is_source, others))


def test_warnings_do_not_repeat(tmp_path: Path) -> None:
    as_csv(plain(300), tmp_path / "a.csv")
    as_csv(plain(300).drop(columns="few"), tmp_path / "b.csv")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network().learn(Stream(tmp_path, rows=20), epochs=1)
    assert len(caught) == 1


# At the command line


def said(capsys: Any, *arguments: Any, status: int = 0) -> tuple[str, str]:
    found = fgrn.cli.main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    assert found == status, err
    return out, err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    place = tmp_path / "m.fgrn"
    fgrn.LatentClassifier(2, n_epochs=5, random_state=0).fit(
        read(as_csv(table(), tmp_path / "learnt.csv")).drop_columns("mixed"),
        {"mixed": read(tmp_path / "learnt.csv")["mixed"].to_pylist()},
    ).save(place)
    return place


@pytest.mark.parametrize("command", ["predict", "complete"])
@pytest.mark.parametrize("given", ["csv", "parquet", "glob", "pipe", "pipe of parquet"])
@pytest.mark.parametrize("wanted", ["csv", "parquet", "csv.gz"])
def test_answers_in_batches_are_those_of_the_whole(
    command: str, given: str, wanted: str, model: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read(as_csv(table(500, seed=5).assign(age=np.arange(500) // 7 * 10), tmp_path / "asked.csv"))
    pa.parquet.write_table(rows, tmp_path / "asked.parquet")
    for number in range(5):
        pa.parquet.write_table(rows.slice(100 * number, 100), tmp_path / f"part{number}.parquet")
    place = {"csv": "asked.csv", "parquet": "asked.parquet", "glob": "part*.parquet"}.get(given, "-")
    data = [place if place == "-" else tmp_path / place, *(["--format", "parquet"] if "of" in given else [])]
    piped = (tmp_path / ("asked.parquet" if "of" in given else "asked.csv")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    whole, parts = tmp_path / f"whole.{wanted}", tmp_path / f"parts.{wanted}"
    said(capsys, command, model, tmp_path / "asked.csv", "-o", whole, "--proba")
    monkeypatch.setitem(Stream.__init__.__kwdefaults__, "rows", 64)  # type: ignore[arg-type]
    said(capsys, command, model, *data, "-o", parts, "--proba")
    found, expected = read(parts), read(whole)
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        if pa.types.is_floating(expected[name].type):  # engines may add up a few rows in another order than many
            np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-9)
        else:
            assert found[name].to_pylist() == expected[name].to_pylist()
    assert read(parts)["age"].to_pylist() == rows["age"].to_pylist()  # the order is kept


def test_a_failure_half_way_leaves_the_old_answers(model: Path, tmp_path: Path, capsys: Any) -> None:
    lines = (tmp_path / "learnt.csv").read_text().splitlines()
    (tmp_path / "asked.csv").write_text("\n".join([*lines, "too,few"]))
    (tmp_path / "answers.csv").write_text("old")
    for command in ("predict", "complete"):
        _, err = said(capsys, command, model, tmp_path / "asked.csv", "-o", tmp_path / "answers.csv", status=1)
        assert f"asked.csv', row {len(lines) - 1}, line {len(lines) + 1}: 2 values, where the first line has 5" in err
        assert "--on-bad skip" in err
        assert (tmp_path / "answers.csv").read_text() == "old"
    _, err = said(capsys, "predict", model, tmp_path / "asked.csv", "-o", tmp_path / "answers.csv", "--on-bad", "skip")
    assert "1 row was left out: 1 (more or fewer values than others)" in err
    assert read(tmp_path / "answers.csv").num_rows == len(lines) - 1
    assert not list(tmp_path.glob(".fgrn*"))


def test_fit_reads_folders_and_globs_and_large_files(tmp_path: Path, capsys: Any) -> None:
    frame = table(900)
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(3):
        as_csv(frame[300 * number : 300 * (number + 1)], parts / f"{number}.csv")
    as_csv(frame, tmp_path / "all.csv")
    options = ["--target", "mixed", "--hidden", "3", "--epochs", "5", "--json"]
    expected = json.loads(said(capsys, "fit", tmp_path / "all.csv", "-o", tmp_path / "all.fgrn", *options)[0])
    for data in ([parts], [parts / "*.csv"], [tmp_path / "all.csv", "--stream"]):
        found = json.loads(said(capsys, "fit", *data, "-o", tmp_path / "some.fgrn", *options)[0])
        assert found["rows"] == 900
        for name in ("accuracy", "largest_class", "log_likelihood_per_row"):
            assert found[name] == pytest.approx(expected[name], rel=1e-9)
    (parts / "1.csv").write_text((parts / "1.csv").read_text() + "one,two\n")
    assert "1.csv', row 300" in said(capsys, "fit", parts, "-o", tmp_path / "x.fgrn", *options, status=1)[1]
    out, err = said(capsys, "fit", parts, "-o", tmp_path / "x.fgrn", *options, "--on-bad", "skip")
    assert json.loads(out)["rows_left_out"] == {"more or fewer values than others": 1}
    assert "1 row was left out" in err
    said(capsys, "fit", parts, "-o", tmp_path / "x.fgrn", "--hidden", "2", "--test", "0.2", status=2)
    (parts / "1.csv").unlink()
    out, _ = said(capsys, "fit", parts, "-o", tmp_path / "x.fgrn", "--hidden", "auto", "--epochs", "3", "--starts", "1")
    assert "<- best" in out
    out, _ = said(capsys, "fit", parts, "-o", tmp_path / "x.fgrn", "--hidden", "2", "--epochs", "3", "--drop", "many")
    assert "600 rows" in out


def test_prediction_takes_no_more_memory_for_more_rows(model: Path, tmp_path: Path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is watched in the Linux way")
    rows = read(tmp_path / "learnt.csv").drop_columns("mixed")
    code = """
import sys
from fgrn.cli import main
from fgrn.tables.missing import MISSING
def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(kind))) / 1024
small, large = sys.argv[2:4]
main(["predict", sys.argv[1], small, "-o", sys.argv[4]])
before = memory("VmHWM")
main(["predict", sys.argv[1], large, "-o", sys.argv[4]])
print(memory("VmHWM") - before)
"""
    places = []
    for times in (300, 1500):
        places.append(tmp_path / f"{times}.parquet")
        with pa.parquet.ParquetWriter(places[-1], rows.schema) as writer:
            for _ in range(times // 100):
                writer.write_table(pa.concat_tables([rows] * 100))
    command = [sys.executable, "-c", code, *map(str, [model, *places, tmp_path / "out.parquet"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    answers = pa.parquet.read_metadata(tmp_path / "out.parquet")
    assert answers.num_rows == 1500 * ROWS
    whole = 1500 * ROWS * (len(rows.column_names) + 4) * 8 / 2**20  # what the answers alone would take
    assert float(done.stdout) < whole / 3, f"{done.stdout} MiB more for five times the rows, of {whole:.0f} MiB"
