"""Learning on a cluster of worker processes gives the result of one machine; failures of workers."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from distributed import Client, Future, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from random_models import bayesian_network

import fgrn
from fgrn import LearningError, Stream, TableFileError, cli
from fgrn.engines import installed_engines
from fgrn.learning.remote.cluster import Cluster, RemoteRows
from fgrn.learning.remote.pieces import Piece, PieceEStep
from fgrn.tables import parquet as shares
from fgrn.tables.distinct_values import Distinct

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")]

ROWS = 900
STATES = {"word": ["blue", "green", "red"], "mixed": ["1", "2", "x"], "few": 4}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with (
        dask.config.set({"distributed.admin.low-level-log-length": 0}),
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0", memory_limit="1GiB") as found,
    ):
        yield found


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as found:
        yield found


class Replaceable:
    """Three workers that a test may kill. Dask starts others instead, but on a busy machine one may fail to come."""

    def __init__(self) -> None:
        self._opened: list[Client] = []

    def client(self) -> Client:
        """Return a client of three live workers: those of the last test, or of a new cluster where one is missing."""
        for _ in range(3):
            if not self._opened:
                cluster = LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0")
                self._opened.append(Client(cluster))
            try:
                self._opened[-1].wait_for_workers(3, timeout=30)
                return self._opened[-1]
            except TimeoutError:
                self.close()
        raise AssertionError("Dask did not start three workers in three attempts")

    def close(self) -> None:
        """Close all; what Dask itself raises about workers that were killed is no fault of what is tested."""
        while self._opened:
            client = self._opened.pop()
            for opened in (client, client.cluster):
                with suppress(Exception):
                    opened.close()


@pytest.fixture(scope="module")
def mortals() -> Iterator[Replaceable]:
    found = Replaceable()
    yield found
    found.close()


@pytest.fixture
def mortal(mortals: Replaceable) -> Client:
    """Three workers that may be killed."""
    return mortals.client()


def until(happens: Callable[[], bool]) -> None:
    """Wait for something, but not for ever."""
    give_up = monotonic() + 60
    while not happens():
        assert monotonic() < give_up
        sleep(0.02)


def table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Return columns of words, few numbers, many numbers and weights; all but the last with missing values."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "word": np.where(rng.random(rows) < 0.2 + 0.5 * group, "red", rng.choice(["blue", "green"], rows)),
            "few": (rng.integers(0, 3, rows) + group).astype(float),
            "many": np.round(rng.normal(3.0 * group, 1.0), 3),
            "mixed": rng.choice(["1", "2", "x"], rows),
            "class": np.where(group == 1, "yes", "no"),
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    return frame.assign(weight=rng.integers(0, 3, rows).astype(float))


def plain(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    return table(rows, seed)[["word", "mixed", "few"]]


def network() -> fgrn.Network:
    return fgrn.lvm(STATES, hidden=3)


def in_files(frame: pd.DataFrame, folder: Path, sizes: list[int], group: int = 97) -> Path:
    """Write the rows to files of the given sizes, the rest to the last."""
    folder.mkdir()
    cuts = [0, *np.cumsum(sizes).tolist(), len(frame)]
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = pa.Table.from_pandas(frame[first:last], preserve_index=False)
        pa.parquet.write_table(part, folder / f"{number:02}.parquet", row_group_size=group)
    return folder


def values(model: Any) -> np.ndarray:
    found: np.ndarray = getattr(model, "network_", model)._parameters.values
    return found


def assert_near(one: Any, other: Any) -> None:
    assert np.allclose(values(one), values(other), rtol=1e-9, atol=1e-14)


# The same as on one machine


@pytest.mark.parametrize("pieces", [1, 2, 7, 40])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_learns_the_same_from_a_dask_dataframe(pieces: int, engine: str, client: Client) -> None:
    options: dict[str, Any] = {"epochs": 6, "smoothing": 0.1, "starts": 2, "engine": engine}
    here, there = network(), network()
    expected = here.learn(plain(), **options)
    seen = there.learn(dd.from_pandas(plain(), npartitions=pieces), executor=client, **options)
    assert_near(there, here)
    assert np.allclose(seen.log_likelihood, expected.log_likelihood, rtol=1e-12)
    assert (seen.weight, seen.start, there.trained[-1]["rows"]) == (expected.weight, expected.start, ROWS)


@pytest.mark.parametrize(("sizes", "group"), [([], 1000), ([], 150), ([300, 1, 299], 100), ([10] * 9, 90)])
def test_a_network_learns_the_same_from_parquet_files(
    sizes: list[int], group: int, client: Client, tmp_path: Path
) -> None:
    here, there = network(), network()
    here.learn(plain(), epochs=5, smoothing=0.1)
    folder = in_files(plain(), tmp_path / "parts", sizes, group)
    for source in (str(folder), folder / "*.parquet", Stream(sorted(folder.iterdir()), rows=33)):
        there.reset()
        there.learn(source, epochs=5, smoothing=0.1, executor=client)
        assert_near(there, here)


@pytest.mark.parametrize(
    "options",
    [
        {"holes": "ignore"},
        {"cycles": 4},
        {"weights": "weight"},
        {"only": ["word", "S"]},
        {"tolerance": 1e-3, "epochs": 50},
    ],
    ids=str,
)
def test_settings_mean_the_same(options: dict[str, Any], client: Client) -> None:
    frame = table()[["word", "mixed", "few", "weight"]] if "weights" in options else plain()
    here, there = network(), network()
    local = options | ({"weights": frame["weight"]} if "weights" in options else {})
    here.learn(frame[list(STATES)], **{"epochs": 4, **local})
    there.learn(dd.from_pandas(frame, npartitions=5), executor=client, **{"epochs": 4, **options})
    assert_near(there, here)


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "clusters": lambda: fgrn.LatentClassModel(3, n_epochs=5, n_init=2, random_state=1),
    "ica": lambda: fgrn.DiscreteICA((2, 2), n_epochs=5, n_init=1, random_state=1),
    "latent": lambda: fgrn.LatentClassifier(3, n_epochs=5, n_init=2, random_state=1),
    "naive": lambda: fgrn.NaiveBayesClassifier(n_epochs=5, random_state=1),
    "deep": lambda: fgrn.DeepLatentClassifier((2, 3), n_epochs=4, random_state=1),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_learns_the_same(kind: str, client: Client, tmp_path: Path) -> None:
    frame = table()
    here, there, files = (ESTIMATORS[kind]() for _ in range(3))
    folder = in_files(
        frame if kind in ("latent", "naive", "deep") else frame.drop(columns="class"), tmp_path / "p", [200]
    )
    spread = dd.read_parquet(folder).repartition(npartitions=6)
    if kind in ("latent", "naive", "deep"):
        here.fit(frame.drop(columns=["class", "weight"]), frame["class"], sample_weight=frame["weight"])
        there.fit(spread, "class", sample_weight="weight", executor=client)
        files.fit(folder, "class", sample_weight="weight", executor=client)
        assert there.classes_.tolist() == here.classes_.tolist()
    else:
        here.fit(frame.drop(columns=["class", "weight"]), sample_weight=frame["weight"])
        there.fit(spread, sample_weight="weight", executor=client)
        files.fit(str(folder), sample_weight="weight", executor=client)
    for one in (there, files):
        assert one.schema_ == here.schema_
        assert (one.n_rows_, one.weight_) == (here.n_rows_, here.weight_)
        assert_near(one, here)
    rows = frame.drop(columns=["class", "weight"])
    assert np.array_equal(there.predict(rows), here.predict(rows))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_a_bayesian_network_learns_the_same(seed: int, holes: float, client: Client, tmp_path: Path) -> None:
    """Complete rows are counted, others need messages in a junction tree."""
    drawn = bayesian_network(seed + 3, zeros=False)
    rows = pd.DataFrame(drawn.sample(400, seed=seed))
    frame = rows.mask(np.random.default_rng(seed).random(rows.shape) < holes)
    folder = in_files(frame, tmp_path / "p", [100], 50)
    states = {name: drawn.variable(name).labels for name in drawn.names}
    here, streamed, *there = (
        fgrn.BayesianNetwork(states, {name: drawn.parents(name) for name in drawn.names}) for _ in range(4)
    )
    options: dict[str, Any] = {"epochs": 3, "smoothing": 0.5, "seed": seed}
    expected = here.learn(frame, **options)
    streamed.learn(folder, **options)
    assert_near(streamed, here)
    for net, source in zip(there, (dd.from_pandas(frame, npartitions=3), folder), strict=True):
        seen = net.learn(source, executor=client, **options)
        assert_near(net, here)
        assert np.allclose(seen.log_likelihood, expected.log_likelihood, rtol=1e-12)


def test_batches_that_are_seen_once_may_be_on_a_cluster(client: Client) -> None:
    here, there = network(), network()
    states = here.online(), there.online()
    for first in (0, 450):
        part = plain()[first : first + 450]
        here.learn(part, epochs=1, smoothing=0.1, online=states[0])
        there.learn(dd.from_pandas(part, npartitions=3), epochs=1, smoothing=0.1, online=states[1], executor=client)
    assert_near(there, here)
    assert states[0].weight == states[1].weight == ROWS


def test_the_number_of_workers_does_not_change_a_bit(client: Client, tmp_path: Path) -> None:
    folder = in_files(plain(), tmp_path / "p", [100, 500], 60)
    one, two = network(), network()
    two.learn(folder, epochs=5, executor=client)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as small,
        Client(small) as single,
    ):
        one.learn(folder, epochs=5, executor=single)
    assert one == two


@pytest.mark.parametrize("chunks", [1, 5])
def test_a_schema_is_found_by_the_workers(chunks: int, client: Client) -> None:
    frame = table().assign(size=pd.Categorical(["s", "m", "l"] * 300, ["s", "m", "l", "xl"], ordered=True))
    found = RemoteRows(dd.from_pandas(frame, npartitions=chunks), client).distinct("weight")
    weights = frame["weight"].to_numpy()
    known = frame[weights > 0].drop(columns="weight")
    assert fgrn.Schema.infer(found) == fgrn.Schema.infer(known, weights=weights[weights > 0])


# Workers that die


def die_in(count: int) -> None:
    """Kill the worker when it begins its `count`-th E-step from now on."""
    from fgrn.flow.counts import LocalEStep

    calls, plain = 0, LocalEStep.count

    def counting(*arguments: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*arguments, **settings)

    LocalEStep.count = counting  # type: ignore[method-assign]


def test_a_worker_that_is_killed_in_an_epoch_changes_nothing(client: Client, mortal: Client, tmp_path: Path) -> None:
    """The worker is killed in its E-step; others read its rows again."""
    folder = in_files(plain(2000), tmp_path / "p", [900, 1100], 100)
    for source, count in ((folder, 1), (dd.read_parquet(folder, split_row_groups=True), 3)):
        options: dict[str, Any] = {"epochs": 5, "smoothing": 0.1, "engine": "reference"}
        expected, net = network(), network()
        history = expected.learn(source, executor=client, **options)
        killed: list[str] = []

        def watch(_: int, epoch: int, __: float, killed: list[str] = killed, count: int = count) -> None:
            if epoch == 1:  # who has most of the rows counts that often in the epochs that are left
                killed.append(max(mortal.has_what().items(), key=lambda had: len(had[1]))[0])
                mortal.run(die_in, count, workers=killed)

        seen = net.learn(source, executor=mortal, watch=watch, **options)
        assert killed
        assert not set(killed) & set(mortal.scheduler_info(n_workers=-1)["workers"])
        assert net == expected
        assert np.array_equal(seen.log_likelihood, history.log_likelihood)


def test_a_worker_that_is_killed_while_it_reads_changes_nothing(mortal: Client, tmp_path: Path) -> None:
    folder = in_files(table(3000).drop(columns=["class", "weight"]), tmp_path / "p", [1000], 250)
    spread = dd.read_parquet(folder, split_row_groups=1)
    here, there = (fgrn.LatentClassModel(2, n_epochs=3, n_init=1, random_state=0) for _ in range(2))
    here.fit(folder)
    once = tmp_path / "killed"
    deadly = spread.map_partitions(dying_once, str(once), partition_info=None, meta=spread._meta)
    there.fit(deadly, executor=mortal)
    assert once.exists()
    assert there.schema_ == here.schema_
    assert_near(there, here)


def dying_once(frame: pd.DataFrame, once: str, partition_info: Any = None) -> pd.DataFrame:
    """Return the rows; the first worker that reads partition 2 is killed."""
    if partition_info and partition_info["number"] == 2 and not Path(once).exists():
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


def test_a_part_on_which_every_worker_dies_is_named(tmp_path: Path) -> None:
    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.admin.low-level-log-length": 0}
    frame = dd.from_pandas(plain(), npartitions=3)
    deadly = frame.map_partitions(dying, partition_info=None, meta=frame._meta)
    net = network()
    before = values(net).copy()
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as small,
        Client(small) as one,
        pytest.raises(LearningError, match=r"partition \d, or what was done beside it: every worker .* died"),
    ):
        net.learn(deadly, epochs=2, executor=one)
    assert np.array_equal(values(net), before)


def dying(frame: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    if partition_info and partition_info["number"] == 1:
        os._exit(1)
    return frame


def test_a_cluster_that_goes_away_is_an_error_and_the_network_is_as_it_was(tmp_path: Path) -> None:
    net, place = network(), tmp_path / "run.ckpt"
    before = values(net).copy()
    gone = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")

    def watch(_: int, epoch: int, __: float) -> None:
        if epoch == 2:
            gone.close()

    with gone, Client(gone) as lost, pytest.raises(LearningError, match="cluster"):
        net.learn(
            dd.from_pandas(plain(), npartitions=3), epochs=9, executor=lost, watch=watch, checkpoint=place, every=100
        )
    assert np.array_equal(values(net), before)
    assert fgrn.load(place).variables == net.variables


def test_a_result_that_is_lost_after_it_was_computed_is_computed_again(
    mortal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after the epoch, before the sum is fetched."""
    spread = dd.from_pandas(plain(), npartitions=4)
    expected, net = network(), network()
    expected.learn(spread, epochs=5, executor=mortal)
    waits: list[str] = []
    exception = Future.exception

    def waiting(total: Any, timeout: Any = None) -> Any:
        found = exception(total, timeout=timeout)
        waits.append(total.key)
        if len(waits) == 3:
            (holder, *_) = mortal.who_has([total])[total.key]
            os.kill(mortal.run(os.getpid)[holder], signal.SIGKILL)
            until(lambda: total.status != "finished")
        return found

    monkeypatch.setattr(Future, "exception", waiting)
    net.learn(spread, epochs=5, executor=mortal)
    assert len(waits) >= 5
    assert net == expected


def test_the_workers_may_be_of_another_client_than_the_current_one_of_dask(client: Client, mortal: Client) -> None:
    spread = dd.from_pandas(plain(), npartitions=4)
    expected, net = network(), network()
    expected.learn(spread, epochs=2, executor=client)
    with client.as_current():
        net.learn(spread, epochs=2, executor=mortal)
    assert_near(net, expected)


def test_a_cluster_whose_workers_are_all_gone_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgrn.learning.remote.cluster.LOOK", 0.2)
    monkeypatch.setattr("fgrn.learning.remote.cluster.PATIENCE", 1.0)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as small, Client(small) as client:

        def watch(_: int, epoch: int, __: float) -> None:
            if epoch == 1:
                small.scale(0)

        with pytest.raises(LearningError, match="has had no worker for 1 seconds"):
            network().learn(dd.from_pandas(plain(), npartitions=2), epochs=5, executor=client, watch=watch)


def test_workers_do_not_spill_rows_that_are_on_disk_already(tmp_path: Path) -> None:
    """The codes exceed the memory limit, but nothing is spilled or counted as memory."""
    rows = 60_000
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({f"x{k}": rng.integers(0, 3, rows).astype(np.int8) for k in range(60)})
    folder = in_files(wide, tmp_path / "p", [20_000], 5_000)
    net = fgrn.lvm(dict.fromkeys(wide, 3), hidden=2)
    managed: list[float] = []
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit="1GiB") as small,
        Client(small) as client,
    ):

        def watch(*_: Any) -> None:
            (worker,) = client.scheduler_info()["workers"].values()
            managed.append(worker["metrics"].get("spilled_bytes", {}).get("disk", 0))

        net.learn(folder, epochs=4, executor=client, watch=watch, engine="cpu")
        held = client.run(held_room)
    assert managed == [0] * 4
    assert max(held.values()) < 2**20


def held_room() -> int:
    """Bytes of count buffers that pieces keep between epochs."""
    import gc

    from fgrn.engines.cpu import Prepared

    return sum(array.nbytes for one in gc.get_objects() if isinstance(one, Prepared) for array in one.spare)


def test_tasks_that_are_no_longer_needed_are_cancelled(client: Client) -> None:
    frame = dd.from_pandas(plain(), npartitions=30)
    bad = frame.map_partitions(slow_but_for_the_first, partition_info=None, meta=frame._meta)
    with pytest.raises(TableFileError, match="partition 0 cannot be read"):
        network().learn(bad, executor=client)
    until(lambda: not any(client.processing().values()))


def slow_but_for_the_first(frame: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    if partition_info and partition_info["number"] == 0:
        raise RuntimeError("bad")
    sleep(0.1)
    return frame


def test_threads_of_one_process_may_be_a_cluster() -> None:
    net, here = network(), network()
    here.learn(plain(), epochs=4)
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0") as small,
        Client(small) as client,
    ):
        net.learn(dd.from_pandas(plain(), npartitions=9), epochs=4, executor=client)
    assert_near(net, here)


def test_the_command_learns_on_a_cluster(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = in_files(table().drop(columns=["many", "weight"]), tmp_path / "p", [300])
    options = ["--target", "class", "--hidden", "3", "--epochs", "5", "--json"]
    address = cluster.scheduler_address
    assert cli.main(["fit", str(folder), "--dask", address, *options, "-o", str(tmp_path / "m.fgrn")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["model"]) == (ROWS, "LatentClassifier")
    assert cli.main(["fit", str(folder), *options, "-o", str(tmp_path / "n.fgrn")]) == 0
    capsys.readouterr()
    assert_near(fgrn.load(tmp_path / "m.fgrn"), fgrn.load(tmp_path / "n.fgrn"))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert (
        cli.main(["fit", str(tmp_path / "a.csv"), "--dask", address, "--hidden", "2", "-o", str(tmp_path / "x")]) == 1
    )
    assert "Turn it into Parquet" in capsys.readouterr().err


# What is wrong with rows


def failing(frame: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    if partition_info and partition_info["number"] == 2:
        raise RuntimeError("the disk is gone\nand so is the rest")
    return frame


def test_a_partition_that_cannot_be_made_is_named_and_the_model_is_kept(client: Client) -> None:
    good = dd.from_pandas(plain(), npartitions=4)
    bad = good.map_partitions(failing, partition_info=None, meta=good._meta)
    model = fgrn.LatentClassModel(3, n_epochs=3, n_init=1, random_state=0).fit(good, executor=client)
    before, history = values(model).copy(), model.history_
    with pytest.raises(TableFileError, match=r"^partition 2 cannot be read: RuntimeError: the disk is gone$"):
        model.fit(bad, executor=client)
    assert np.array_equal(values(model), before)
    assert model.history_ is history
    assert len(model.predict(plain())) == ROWS


def test_a_value_that_is_no_state_is_named(client: Client) -> None:
    frame = plain().astype({"word": object})
    frame.loc[frame.index[500], "word"] = "rad"
    net = network()
    net.learn(plain(), epochs=2)
    before = net.copy()
    said = r"partition 1, row 50, column 'word': 'rad' is .*Did you mean 'red'\?"
    spread = dd.concat([dd.from_pandas(frame[:450], npartitions=1), dd.from_pandas(frame[450:], npartitions=1)])
    with pytest.raises(TableFileError, match=said):
        net.learn(spread, epochs=2, executor=client)
    assert net == before


def test_a_value_in_a_file_is_named_with_its_row_in_that_file(client: Client, tmp_path: Path) -> None:
    frame = plain()
    frame.loc[frame.index[333], "few"] = 9.0
    folder = in_files(frame, tmp_path / "p", [300], 20)
    with pytest.raises(TableFileError, match=r"01\.parquet', row 33, column 'few': "):
        network().learn(folder, executor=client)
    rows = Stream(folder, on_bad="skip")
    net = network()
    with pytest.warns(
        fgrn.core.exceptions.FgrnWarning, match=r"1 row was left out: 1 \(no level of it, column 'few'\)"
    ):
        net.learn(rows, epochs=2, executor=client)
    assert rows.left_out == {"no level of it, column 'few'": 1}
    assert net.trained[-1]["rows"] == ROWS - 1


def test_a_relative_path_is_relative_to_the_folder_of_the_caller(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to that of the workers."""
    in_files(plain(), tmp_path / "here", [300])
    monkeypatch.chdir(tmp_path)
    for source in ("here", "here/*.parquet", Stream(["here/00.parquet", "here/01.parquet"])):
        net = network()
        net.learn(source, epochs=1, executor=client)
        assert net.trained[-1]["rows"] == ROWS


def test_a_damaged_file_is_named(client: Client, tmp_path: Path) -> None:
    folder = in_files(plain(), tmp_path / "p", [300, 300])
    place = folder / "01.parquet"
    whole = place.read_bytes()
    place.write_bytes(whole[:100])
    with pytest.raises(TableFileError, match=r"01\.parquet': it cannot be read as parquet"):
        network().learn(folder, executor=client)
    place.write_bytes(whole[:50] + bytes(len(whole[50:900])) + whole[900:])  # its end is fine
    with pytest.raises(TableFileError, match=r"01\.parquet"):
        network().learn(folder, executor=client)


def test_a_file_that_goes_bad_while_learning_is_named_and_the_last_epoch_is_kept(
    mortal: Client, tmp_path: Path
) -> None:
    """Its rows are lost with a worker, and cannot be read again."""
    folder = in_files(plain(), tmp_path / "p", [100] * 8, 100)
    net, place = network(), tmp_path / "run.ckpt"
    before = values(net).copy()

    def watch(_: int, epoch: int, __: float) -> None:
        if epoch == 3:
            for file in folder.iterdir():
                file.write_bytes(b"no Parquet any more")
            holder = max(mortal.has_what().items(), key=lambda had: len(had[1]))[0]
            os.kill(mortal.run(os.getpid)[holder], signal.SIGKILL)

    with pytest.raises(TableFileError, match=r"\d\d\.parquet': it cannot be read as parquet"):
        net.learn(folder, epochs=50, checkpoint=place, every=100, executor=mortal, watch=watch)
    assert np.array_equal(values(net), before)
    kept = fgrn.load(place)
    expected = network()
    expected.learn(plain(), epochs=4)
    assert np.allclose(values(kept), values(expected), rtol=1e-9)


def test_an_impossible_row_is_named(client: Client) -> None:
    A, B = fgrn.Variable("A", 2), fgrn.Variable("B", 2)
    net = fgrn.Network([fgrn.Source(A, [1.0, 0.0], learn=False), fgrn.SISO(A, B, [[1.0, 0.0], [0.0, 1.0]])])
    frame = pd.DataFrame({"B": [0] * 50 + [1] + [0] * 9})
    with pytest.raises(fgrn.ImpossibleEvidence, match=r"Row 10 of this piece is row 10 of partition 2\.") as caught:
        net.learn(dd.from_pandas(frame, npartitions=3), executor=client)
    assert caught.value.rows == (10,)


def test_columns_of_files_are_found_by_name(client: Client, tmp_path: Path) -> None:
    frame = plain()
    folder = tmp_path / "p"
    folder.mkdir()
    frame[:300].to_parquet(folder / "a.parquet")
    frame[300:600][["few", "word"]].to_parquet(folder / "b.parquet")
    frame[600:].to_parquet(folder / "c.parquet")
    here, there = network(), network()
    gone = frame.copy()
    gone.loc[gone.index[300:600], "mixed"] = None
    here.learn(gone, epochs=3)
    with pytest.warns(
        fgrn.core.exceptions.FgrnWarning, match=r"b\.parquet' has no column 'mixed': unknown in its rows"
    ):
        there.learn(folder, epochs=3, executor=client)
    assert_near(there, here)
    frame[600:].assign(more=1).to_parquet(folder / "c.parquet")
    with pytest.raises(TableFileError, match=r"c\.parquet', column 'more': "):
        there.learn(Stream(folder), epochs=3, executor=client)
    with pytest.warns(fgrn.core.exceptions.FgrnWarning):
        there.learn(Stream(folder, columns=["word", "few", "mixed"]), epochs=3, executor=client)


def test_levels_that_a_schema_does_not_know_are_told_once(client: Client) -> None:
    schema = fgrn.Schema.infer(plain()).with_column("word", levels=["blue", "green"])
    model = fgrn.LatentClassModel(2, n_epochs=2, tol=0.0, n_init=1, schema=schema, random_state=0)
    with pytest.warns(fgrn.UnseenLevelWarning) as told:
        model.fit(dd.from_pandas(plain(), npartitions=5), executor=client)
    (only,) = told
    count = int((plain()["word"] == "red").sum())
    assert f"level 'red' not seen in training (known: blue, green), in {count} rows" in str(only.message)


def test_partitions_without_rows_do_no_harm(client: Client) -> None:
    frame = plain()
    spread = dd.from_pandas(frame, npartitions=4)
    some = spread[spread["word"].isin(["red"])].map_partitions(half_empty, partition_info=None, meta=spread._meta)
    net = network()
    net.learn(some, epochs=2, executor=client)
    assert 0 < net.trained[-1]["rows"] < ROWS
    nothing = spread[spread["few"] > 100]
    with pytest.raises(TableFileError, match=r"This Dask dataframe: it holds no rows to learn from\."):
        net.learn(nothing, executor=client)
    with pytest.raises(TableFileError, match=r"holds no rows"):
        fgrn.LatentClassModel(2).fit(nothing, executor=client)


def half_empty(frame: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    return frame[:0] if partition_info and partition_info["number"] % 2 else frame


# What is asked for in a way that cannot be


def test_what_is_no_cluster_or_no_table_of_one_is_refused(client: Client, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    spread = dd.from_pandas(plain(), npartitions=2)
    net = network()
    with ThreadPoolExecutor() as pool, pytest.raises(LearningError, match="Got ThreadPoolExecutor instead"):
        net.learn(spread, executor=pool)
    with pytest.raises(LearningError, match=r"Got DataFrame instead; dask\.dataframe\.from_pandas"):
        net.learn(plain(), executor=client)
    with pytest.raises(LearningError, match="Got Stream instead"):
        net.learn(Stream(iter([plain()])), executor=client)
    plain().to_csv(tmp_path / "a.csv", index=False)
    text = Stream(tmp_path / "a.csv")
    for rows in (tmp_path / "a.csv", text, text.again()):
        assert len(list(text)) == 1  # it is in the cache of this process now
        with pytest.raises(TableFileError, match=r"a\.csv': this is a text file.*read_csv"):
            net.learn(rows, executor=client)
    (tmp_path / "a.parquet.gz").write_bytes(b"")
    with pytest.raises(TableFileError, match=r"a\.parquet\.gz': it is packed.*Unpack it"):
        net.learn(tmp_path / "a.parquet.gz", executor=client)
    with pytest.raises(ValueError, match=r"y='name'\. Got None"):
        fgrn.LatentClassifier(2).fit(spread, None, executor=client)
    with pytest.raises(
        TableFileError, match=r"There is no file '.*none\.parquet'.*Reported by a worker of the cluster"
    ):
        net.learn(tmp_path / "none.parquet", executor=client)
    with pytest.raises(fgrn.UnknownNameError, match="There is no column 'wight' here"):
        net.learn(spread, weights="wight", executor=client)
    with pytest.raises(LearningError, match="are one of their columns: pass its name"):
        net.learn(spread, weights=np.ones(ROWS), executor=client)
    with pytest.raises(LearningError, match="leave out merge=True"):
        net.learn(spread, merge=True, executor=client)
    with pytest.raises(LearningError, match="continue with n_hidden"):
        fgrn.LatentClassModel("auto").fit(spread, executor=client)
    with pytest.raises(LearningError, match="in memory"):
        fgrn.hmm({"y": 2}, 2).learn(spread, executor=client)
    with pytest.raises(fgrn.EvidenceError, match=r"Column 'many': this is not a variable of this network"):
        net.learn(dd.from_pandas(table(), npartitions=2), executor=client)
    weightless = dd.from_pandas(plain().assign(w=0.0), npartitions=2)
    with pytest.raises(fgrn.EvidenceError, match="Column 'w': all of these weights are zero"):
        net.learn(weightless, weights="w", executor=client)


def test_a_cluster_without_workers_or_that_is_closed_is_refused() -> None:
    spread = dd.from_pandas(plain(), npartitions=2)
    with LocalCluster(n_workers=0, dashboard_address=":0") as none, Client(none) as alone:
        with pytest.raises(LearningError, match=r"no worker.*wait_for_workers"):
            network().learn(spread, executor=alone)
        alone.close()
        with pytest.raises(LearningError, match="closed"):
            network().learn(spread, executor=alone)


def test_workers_with_another_version_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgrn.learning.remote.cluster.__version__", "99.0")
    with pytest.raises(LearningError, match=r"Worker tcp://\S+ has fgrn \S+, and here it is 99\.0"):
        Cluster(client)


def test_without_dask_an_executor_is_an_error_that_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['distributed'] = None; sys.modules['dask'] = None\n"
        "import fgrn\n"
        "try: fgrn.lvm({'a': 2}, hidden=2).learn('x.parquet', executor=object())\n"
        "except fgrn.LearningError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'fgrn[dask]'" in done.stdout


# Checkpoints, progress, pieces


def test_an_interrupted_run_is_resumed_on_the_cluster_bit_for_bit(client: Client, tmp_path: Path) -> None:
    folder = in_files(plain(), tmp_path / "p", [300], 100)
    whole, net, place = network(), network(), tmp_path / "run.ckpt"
    options: dict[str, Any] = {"epochs": 7, "starts": 2, "smoothing": 0.1, "executor": client}
    history = whole.learn(folder, **options)

    def stop(start: int, epoch: int, _: float) -> None:
        if (start, epoch) == (1, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.learn(folder, checkpoint=place, every=1, watch=stop, **options)
    seen = net.learn(folder, checkpoint=place, resume=True, **options)
    assert net == whole
    assert np.array_equal(seen.log_likelihood, history.log_likelihood)
    more = {**options, "epochs": 9}
    with pytest.raises(LearningError, match="the values of the table differ"):
        net.learn(in_files(plain(seed=1), tmp_path / "q", [300], 100), checkpoint=place, resume=True, **more)
    here = {"executor": None, "merge": False}
    for source, changed in ((in_files(plain(), tmp_path / "r", [450], 100), {}), (plain(), here)):
        with pytest.raises(LearningError, match=r"another run: the rows are split differently on a cluster[^;]*\. Res"):
            net.learn(source, checkpoint=place, resume=True, **(more | changed))


def test_progress_tells_where_the_dashboard_is(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    model = fgrn.LatentClassModel(2, n_epochs=2, n_init=1, random_state=0, verbose=1)
    model.fit(dd.from_pandas(plain(), npartitions=2), executor=client)
    said = capsys.readouterr().err
    assert said == f"A cluster of 2 workers; dashboard: {client.dashboard_link}\n"
    told: list[tuple[str, int, int]] = []

    class Teller:
        def note(self, text: str) -> None:
            told.append((text, 0, 0))

        def __call__(self, what: str, done: int, total: int) -> None:
            told.append((what, done, total))

    RemoteRows(dd.from_pandas(plain(), npartitions=3), client, Teller()).distinct(None)
    done = [number for what, number, total in told[1:] if (what, total) == ("looking at columns", 3)]
    assert done == sorted(set(done))
    assert done[-1] == 3


def test_pieces_can_be_moved(client: Client) -> None:
    """Workers may send them to others, or spill them when memory is short."""
    net = network()
    found = RemoteRows(dd.from_pandas(table()[["word", "few", "mixed", "weight"]], npartitions=2), client)
    from fgrn.learning.encoding import _by_variables

    spread = found.encoded("weight", lambda names: _by_variables(net._plan(()), names)).numbered_by(net._plan(()))
    piece: Piece = spread.futures[0].result()
    again: Piece = pickle.loads(pickle.dumps(piece))
    assert np.array_equal(again.table.codes, piece.table.codes)
    assert again.table.codes.flags.f_contiguous
    assert np.array_equal(again.table.row_weights, piece.table.row_weights)
    assert again.table.origin_of(3) == "row 3 of partition 0"
    made: PieceEStep = spread.estep(_over_rows(net)).esteps[0].result()
    moved: PieceEStep = pickle.loads(pickle.dumps(made))
    expected = made.estep.count(net._parameters.values)
    assert np.array_equal(moved.estep.count(net._parameters.values).values, expected.values)


def _over_rows(net: fgrn.Network) -> Any:
    from fgrn.engines import get
    from fgrn.flow.evidence import encode
    from fgrn.learning.learn import estep_over

    plan = net._plan(())
    programs = net._programs_for(plan, (), encode(plan, plain()[:5]))
    make = net._estep(get("cpu"), plan, programs, expect=True, hold=False, merge=False)
    return partial(estep_over, make, None)


@given(
    rows=st.lists(st.one_of(st.sampled_from(["a", "b", None]), st.integers(0, 5), st.floats(0, 3)), min_size=1),
    cuts=st.lists(st.integers(0, 100), max_size=4),
)
def test_distinct_values_of_parts_joined_are_those_of_all_rows(rows: list[Any], cuts: list[int]) -> None:
    """For any mixture of words and numbers, also if a part has numbers only."""
    whole, joined = Distinct("x"), Distinct("x")
    ends = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for first, last in pairwise(ends):
        part = Distinct("x")
        column = fgrn.tables.frames.columns({"x": rows[first:last]}, by_value=True)["x"]
        part.see(column, None)
        whole.see(column, None)
        joined.join(pickle.loads(pickle.dumps(part)))
    assert joined.rows == whole.rows
    assert joined.values == whole.values
    assert np.allclose(joined.column[1], whole.column[1])


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=5), min_size=1, max_size=6))
def test_parts_have_every_row_once_and_in_order(files: list[list[int]]) -> None:
    every = []
    for number, groups in enumerate(files):
        first = 0
        for group, rows in enumerate(groups):
            every.append(shares.RowGroups(f"{number}", (group,), first, rows))
            first += rows
    parts = list(shares.parts_of(every))
    again = [(share.file, group) for part in parts for share in part for group in share.groups]
    assert again == [(share.file, share.groups[0]) for share in every]
    assert sum(share.rows for part in parts for share in part) == sum(map(sum, files))
    assert len(parts) <= 2 * shares.FEWEST_PARTS
    for part in parts:
        for share in part:
            assert share.first == sum(files[int(share.file)][: share.groups[0]])


def test_large_tables_have_large_parts_and_small_ones_enough_for_all() -> None:
    """Rows of a part, and how many parts there are."""
    sizes = {rows: shares.rows_of_a_part(rows) for rows in (1, 10**3, 10**6, 10**8, 10**9, 10**11)}
    assert [-(-rows // size) for rows, size in sizes.items()] == [1, 16, 16, 96, 256, 2981]
    assert sizes[10**11] == 2**25
