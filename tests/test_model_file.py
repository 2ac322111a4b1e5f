"""Model files: models are restored bit for bit, malicious files are refused, and a failure keeps the old file."""

from __future__ import annotations

import errno
import gzip
import json
import os
import pickle
import subprocess
import sys
import textwrap
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import chest
from safetensors import numpy as safetensors
from strategies import SmallNetwork, loopy_networks, networks

from fgrn import SISO, Diverter, FgrnError, ModelFileError, Network, Source, Variable
from fgrn.files import container as container_file
from fgrn.files import model_file, records

KEPT = Path(__file__).parent / "data" / "version-1.fgrn"

Json = Any


# Files to play with


def small_network() -> Network:
    """Return a network with labels, a start, a support, a frozen prior, and an undrawn table."""
    top, left, right = (Variable(name, 2) for name in ("S", "A", "B"))
    return Network(
        [
            Source(top, [0.25, 0.75], learn=False),
            Diverter([top], [left, right]),
            SISO(left, Variable("Y", ["no", "yes"]), [[0.5, 0.5], [0.125, 0.875]]),
            SISO(right, Variable("Z", 2), support=[[True, False], [True, True]]),
        ]
    )


def hidden_network() -> Network:
    """A hidden variable over three leaves, nothing given."""
    top = Variable("S", 3)
    legs = [Variable(f"S{number}", 3) for number in range(3)]
    leaves = [SISO(leg, Variable(f"Y{number}", 2 + number)) for number, leg in enumerate(legs)]
    return Network([Source(top), Diverter([top], legs), *leaves])


def random_rows(network: Network, rows: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(7)
    return {name: rng.integers(network.variable(name).cardinality, size=rows).tolist() for name in network.observed}


def saved(network: Network, path: Path) -> bytes:
    model_file.save(network, path)
    return path.read_bytes()


def header_of(data: bytes) -> dict[str, Json]:
    header: dict[str, Json] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def taken_apart(data: bytes) -> tuple[dict[str, Json], dict[str, np.ndarray]]:
    """The document and the tensors of a file, without the checksum."""
    tensors = safetensors.load(data)
    del tensors["sha256"]
    return json.loads(header_of(data)["__metadata__"]["fgrn"]), tensors


def forged(document: Json, tensors: dict[str, np.ndarray]) -> bytes:
    """A file with the right checksum, whatever is in it."""
    text = document if isinstance(document, str) else json.dumps(document)
    names = {np.dtype(np.float64): "F64", np.dtype(bool): "BOOL", np.dtype(np.int64): "I64", np.dtype(np.uint8): "U8"}
    digests = {
        name: (names.get(array.dtype, "F32"), array.shape, sha256(array.tobytes()).digest())
        for name, array in tensors.items()
    }
    checksum = np.frombuffer(container_file.checksum(text, digests), dtype=np.uint8)
    return safetensors.save({**tensors, "sha256": checksum}, {"fgrn": text})


def container(header: dict[str, Json] | bytes, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Check that a file is refused with a good message, in little time and memory; returns the message."""

    def check(content: bytes | Path, *words: str, seconds: float = 10, megabytes: float = 4) -> str:
        path = tmp_path / "hostile.fgrn" if isinstance(content, bytes) else content
        if isinstance(content, bytes):
            path.write_bytes(content)
        tracemalloc.start()
        begin = time.thread_time()
        try:
            with pytest.raises(ModelFileError) as caught:
                model_file.load(path)
            taken, (_, peak) = time.thread_time() - begin, tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        message = str(caught.value)
        assert isinstance(caught.value, OSError)
        assert repr(str(path)) in message
        for word in words:
            assert word in message
        assert len(message) < 1500
        assert message.endswith(".")
        assert taken < seconds
        assert peak < megabytes * 1e6
        return message

    return check


@pytest.fixture
def good(tmp_path: Path) -> bytes:
    return saved(small_network(), tmp_path / "good.fgrn")


# There and back


def assert_same(one: Network, other: Network) -> None:
    assert one == other
    assert one._parameters.values.tobytes() == other._parameters.values.tobytes()
    assert [type(label) for v in one.variables for label in v.labels] == [
        type(label) for v in other.variables for label in v.labels
    ]
    for mine, theirs in zip(one.blocks, other.blocks, strict=True):
        for name in ("prior", "table", "support"):
            a, b = getattr(mine, name, None), getattr(theirs, name, None)
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert a.dtype == b.dtype
                assert a.tobytes() == b.tobytes()
                assert not b.flags.writeable


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(small=st.one_of(networks(), loopy_networks()), blank=st.integers(0, 3))
def test_random_networks_come_back(tmp_path: Path, small: SmallNetwork, blank: int) -> None:
    blocks = [
        without_start(block) if blank and number % blank == 0 else block for number, block in enumerate(small.blocks)
    ]
    try:
        network = Network(blocks)
    except FgrnError:  # only some of the tied blocks lost their start
        network = Network(small.blocks)
    data = saved(network, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert_same(network, back)
    assert saved(back, tmp_path / "again") == data


@pytest.mark.parametrize("method", ["exact", "loopy"])
def test_the_networks_of_a_bayesian_network_come_back(tmp_path: Path, method: str) -> None:
    network = chest().to_network(method)
    saved(network, tmp_path / "m")
    assert_same(network, model_file.load(tmp_path / "m"))


def without_start(block: Source | SISO | Diverter) -> Source | SISO | Diverter:
    if isinstance(block, Source):
        return Source(block.variable, None, block.learn)
    if isinstance(block, SISO):
        return SISO(block.input, block.output, None, block.learn, tie=block.tie, support=block.support)
    return block


def test_what_was_learnt_comes_back_and_learning_goes_on(tmp_path: Path) -> None:
    network = hidden_network()
    data = random_rows(network, 50)
    network.learn(data, epochs=5, seed=3)
    network.save(tmp_path / "m.fgrn")
    back = model_file.load(str(tmp_path / "m.fgrn"))
    assert_same(network, back)
    assert back._parameters.undrawn_tables == frozenset()
    for one in (network, back):
        one.learn(data, epochs=5)
    assert_same(network, back)
    back.reset()
    assert back == hidden_network()


def test_what_waits_for_a_random_start_still_does(tmp_path: Path) -> None:
    network = hidden_network()
    data = random_rows(network, 50)
    network.learn(data, epochs=1, only=["Y1"], seed=1)
    model_file.save(network, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert back._parameters.undrawn_tables == {0, 2}
    assert back._parameters.undrawn_priors == {0}
    for one in (network, back):
        one.learn(data, epochs=3, seed=2)
    assert_same(network, back)


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", ""],
        [3, -4, 2**63],
        [0.1, -0.0, 5e-324, 1.7976931348623157e308],
        [1.0, 2.0],
        [float("inf"), float("-inf"), 0],
        [True, False],
        [True, "True", 2, 2.5, "2"],
        [False, 1.0, "1"],
        ["é", "\u2028", "\ud800", "\x00", '"\\', "🙂", "{[,"],
        [1, 0],
        ["one"],
    ],
    ids=repr,
)
def test_labels_keep_their_types(tmp_path: Path, labels: list[Any]) -> None:
    network = Network([Source(Variable("ünïcode \x00 \ud800 💡 name", labels))])
    model_file.save(network, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert_same(network, back)
    assert [repr(label) for label in back.variables[0].labels] == [repr(label) for label in labels]


def test_numbered_states_stay_numbered(tmp_path: Path) -> None:
    network = Network([Source(Variable("A", [0, 1, 2]))])
    model_file.save(network, tmp_path / "m")
    assert not model_file.load(tmp_path / "m").variables[0].is_labelled


def test_ties_supports_and_frozen_tables(tmp_path: Path) -> None:
    hidden = [Variable(f"S{number}", 2) for number in range(3)]
    step: dict[str, Any] = {"table": [[0.3, 0.7], [0, 1]], "support": [[1, 1], [0, 1]], "tie": "step", "learn": False}
    seen: dict[str, Any] = {"tie": "output Y", "support": [[1, 0, 1], [0, 1, 1]]}
    legs = [(Variable(f"A{number}", 2), Variable(f"B{number}", 2)) for number in range(2)]
    network = Network(
        [
            Source(hidden[0]),
            Diverter([hidden[0]], legs[0]),
            SISO(legs[0][0], hidden[1], **step),
            Diverter([hidden[1]], legs[1]),
            SISO(legs[1][0], hidden[2], **step),
            *(SISO(leg[1], Variable(f"Y{number}", 3), **seen) for number, leg in enumerate(legs)),
        ]
    )
    model_file.save(network, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert_same(network, back)
    for one in (network, back):
        one.learn({"Y0": [0, 2, 1], "Y1": [2, 0, None]}, epochs=4, smoothing=0.5)
    assert_same(network, back)
    assert back.table("Y0")[0, 1] == 0
    model_file.save(back, tmp_path / "m")
    assert_same(model_file.load(tmp_path / "m"), network)


def test_a_start_is_not_divided_by_its_sum_again(tmp_path: Path) -> None:
    """Strided rows are summed in another order, which may change the last digits."""
    rows, columns = Variable("A", 300), Variable("B", 700)
    table = np.asfortranarray(np.random.default_rng(0).random((300, 700)))
    block = SISO(rows, columns, table / table.sum(axis=1, keepdims=True))
    assert block.table is not None
    assert block != SISO(rows, columns, np.ascontiguousarray(block.table)), "otherwise this test shows nothing"
    network = Network([block])
    model_file.save(network, tmp_path / "m")
    assert_same(network, model_file.load(tmp_path / "m"))


def test_arrays_that_lie_column_by_column(tmp_path: Path) -> None:
    """safetensors would write the memory as it is, and mix up rows and columns."""
    table = np.asfortranarray([[0.5, 0.5], [0.25, 0.75], [1, 0]])
    support = np.asfortranarray([[True, True], [True, True], [True, False]])
    network = Network([SISO(Variable("A", 3), Variable("B", 2), table, support=support)])
    model_file.save(network, tmp_path / "m")
    assert_same(network, model_file.load(tmp_path / "m"))


def test_a_network_without_any_number(tmp_path: Path) -> None:
    network = Network([Diverter([Variable("A", 2), Variable("B", 3)], [Variable("C", 6)])])
    model_file.save(network, tmp_path / "m")
    assert_same(network, model_file.load(tmp_path / "m"))


def test_safetensors_reads_the_same_tensors(tmp_path: Path) -> None:
    network = small_network()
    model_file.save(network, tmp_path / "m")
    tensors = safetensors.load_file(tmp_path / "m")
    assert sorted(tensors) == ["prior/0", "sha256", "start/0", "start/2", "support/3", "table/0", "table/1"]
    assert np.array_equal(tensors["table/0"], network.table("Y"))
    assert np.array_equal(tensors["table/1"], network.table("Z"))
    assert np.array_equal(tensors["prior/0"], network.prior("S"))


def test_a_network_that_crossed_a_process_has_the_same_bytes(tmp_path: Path, good: bytes) -> None:
    model_file.save(pickle.loads(pickle.dumps(small_network())), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == good


def test_many_blocks(tmp_path: Path) -> None:
    top = Variable("S", 2)
    legs = [Variable(f"S{number}", 2) for number in range(3000)]
    network = Network(
        [Source(top), Diverter([top], legs), *(SISO(leg, Variable(f"Y{n}", 3)) for n, leg in enumerate(legs))]
    )
    model_file.save(network, tmp_path / "m")
    assert_same(network, model_file.load(tmp_path / "m"))


# Version 1, for ever


def test_the_file_kept_from_version_1_is_still_read() -> None:
    """The file was written by the first version and must not be replaced."""
    network = model_file.load(KEPT)
    assert [variable.name for variable in network.variables] == ["S", "A", "B", "C", "D", "Y", "Z", "V", "W"]
    assert network.variable("Y").labels == ("no", "yes")
    assert [repr(label) for label in network.variable("Z").labels] == ["True", "2", "2.5", "'many'", "inf"]
    assert network.prior("S").tolist() == [0.25, 0.75]
    assert network.table("Y").tolist() == [[0.5, 0.5], [0.125, 0.875]]
    assert network.table("Z").tolist() == [[0.25, 0.25, 0.25, 0.25, 0], [0.5, 0, 0.5, 0, 0]]
    assert network.table("V").tolist() == network.table("W").tolist() == [[1, 0], [0.5, 0.5]]
    table, support = np.full((2, 2), 0.5), [[True, False], [True, True]]
    S, A, B, C, D, Y, Z, V, W = network.variables
    assert network.blocks == (
        Source(S, [0.25, 0.75], learn=False),
        Diverter([S], [A, B, C, D]),
        SISO(A, Y, table),
        SISO(B, Z),
        SISO(C, V, tie="shared", support=support),
        SISO(D, W, tie="shared", support=support),
    )
    assert network._parameters.undrawn_tables == {2}
    assert network._parameters.undrawn_priors == frozenset()
    # P(Y = yes) = 0.25 * 0.5 + 0.75 * 0.875, and the posterior of S is the two terms over their sum
    seen = network.propagate({"Y": ["yes"]})
    assert np.allclose(np.exp(seen.log_likelihood), 0.78125, rtol=1e-12)
    assert np.allclose(seen.marginal("S"), [[0.16, 0.84]], rtol=1e-12)
    # P(Y = yes, Z = True) = 0.25 * 0.5 * 0.25 + 0.75 * 0.875 * 0.5
    seen = network.propagate({"Y": ["yes"], "Z": [True]})
    assert np.allclose(np.exp(seen.log_likelihood), 0.359375, rtol=1e-12)


def test_version_1_can_grow(good: bytes, tmp_path: Path) -> None:
    document, tensors = taken_apart(good)
    document["remarks"] = {"epochs": 20}
    document["variables"][0]["unit"] = "cm"
    document["blocks"][0]["colour"] = None
    document["tables"][0]["note"] = [1, 2, {"a": []}]
    tensors["bins"] = np.arange(12).reshape(2, 3, 2)
    (tmp_path / "m").write_bytes(forged(document, tensors))
    assert model_file.load(tmp_path / "m") == small_network()


@pytest.mark.parametrize(
    ("writer", "words"),
    [
        ("3.1.0", ["fgrn 3.1.0", "'fgrn>=3.1.0'"]),
        ("1.0rc1.dev3", ["'fgrn>=1.0rc1.dev3'"]),
        ("1; rm -rf ~", ["--upgrade 'fgrn'"]),
        (7, ["--upgrade 'fgrn'"]),
    ],
)
def test_a_newer_format_says_which_fgrn_is_needed(refused: Any, writer: object, words: list[str]) -> None:
    document = {"version": 3, "fgrn": writer, "something": "else"}
    message = refused(forged(document, {}), "format 3", "up to 2", *words)
    assert "rm -rf" not in message


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None, [1]])
def test_an_impossible_version_is_refused(refused: Any, good: bytes, version: object) -> None:
    document, tensors = taken_apart(good)
    refused(forged({**document, "version": version}, tensors), "damaged")


# Files that are not model files


def test_what_is_not_a_file(refused: Any, tmp_path: Path) -> None:
    refused(tmp_path, "folder")
    refused(tmp_path / "nowhere.fgrn", "There is no model file")
    refused(tmp_path / "no" / "folder.fgrn", "There is no model file")
    refused(tmp_path / ("x" * 300), "name too long")
    with pytest.raises(ModelFileError, match="null"):
        model_file.load("a\x00b")
    (tmp_path / "file").write_bytes(b"x")
    refused(tmp_path / "file" / "inside", "irectory")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    refused(tmp_path / "circle", "Check")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_does_not_block(refused: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "pipe or a device")
    refused(Path("/dev/zero"), "pipe or a device")


def test_no_permission(refused: Any, tmp_path: Path, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.fgrn"
    path.write_bytes(good)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)  # a real one would not stop the super-user
    refused(path, "permission denied", "Check")


def test_foreign_files(refused: Any, tmp_path: Path) -> None:
    refused(b"", "empty")
    refused(b"{", "text")
    refused(b"\x01\x02\x03", "cut short")
    refused(b"name,age\nAda,36\n", "text file", "written by save")
    refused(b'{"format": "not ours", "nodes": []}', "text file")
    refused(b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG")
    refused(gzip.compress(b"text"), "gzip")
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("a", "b")
    refused((tmp_path / "z").read_bytes(), "zip")
    np.save(tmp_path / "a.npy", np.eye(3))
    refused((tmp_path / "a.npy").read_bytes(), "NumPy")
    refused(safetensors.save({"weight": np.eye(2)}), "safetensors file, but not of a network")
    refused(safetensors.save({"weight": np.eye(2)}, {"format": "pt"}), "safetensors file, but not of a network")
    refused(np.random.default_rng(1).bytes(5000))
    refused(bytes(5000), "does not begin")
    refused(container(b"\xef\xbb\xbf{}"), "does not begin")


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_never_runs(refused: Any, tmp_path: Path, protocol: int) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"), protocol)
    assert "pickle" in refused(bomb) or protocol < 2
    assert not (tmp_path / "exploded").exists()
    for module in (container_file, model_file):
        source = Path(module.__file__).read_text()
        assert not any(word in source for word in ("import pickle", "eval(", "exec(", "import_module"))


# Files that an enemy wrote


def test_lengths_that_lie(refused: Any, good: bytes) -> None:
    for length in (2**63, 2**64 - 1, 2**40, len(good), len(good) - 7):
        refused(length.to_bytes(8, "little") + good[8:], "cut short", "damaged")
    refused(good[:8] + good[8:].replace(b'"data_offsets":[0,', b'"data_offsets":[8,', 1), "does not fill")
    refused(good + b"\x00", "something was appended")
    refused(good[:-1], "cut short")


def test_a_length_that_begins_like_a_pickle(refused: Any) -> None:
    """1,152 is 80 04 in bytes, which is how a pickle begins."""
    whole = container(b"{" + b" " * 1150 + b"}")
    assert whole.startswith(b"\x80\x04")
    refused(whole, "not of a network")
    refused(whole[:1000], "cut short")


def test_files_that_are_too_large(refused: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.fgrn"
    with path.open("wb") as file:
        file.truncate(container_file.FILE_LIMIT + 1)
    refused(path, "4,294,967,297 bytes", "FILE_LIMIT")
    with path.open("wb") as file:
        file.write((2**30).to_bytes(8, "little") + b"{")
        file.truncate(2**31)
    refused(path, "1,073,741,824 bytes", "limit")
    path.unlink()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory in the Linux way")
def test_a_sparse_file_takes_no_memory(tmp_path: Path) -> None:
    """2 GiB of zeros with a valid header, which take no space on disk."""
    rows, columns = 2**24, 16  # as many cells as a table may have
    document = {
        "version": 1,
        "variables": [{"name": "A", "states": rows}, {"name": "B", "states": columns}],
        "blocks": [{"kind": "siso", "input": "A", "output": "B"}],
        "tables": [{"tensor": "t", "names": ["B"]}],
        "priors": [],
    }
    size = rows * columns * 8
    header = {
        "__metadata__": {"fgrn": json.dumps(document)},
        "t": {"dtype": "F64", "shape": [rows, columns], "data_offsets": [0, size]},
        "sha256": {"dtype": "U8", "shape": [32], "data_offsets": [size, size + 32]},
    }
    path = tmp_path / "holes.fgrn"
    with path.open("wb") as file:
        start = container(header)
        file.write(start)
        file.truncate(len(start) + size + 32)
    code = """
        import resource, sys, time
        from fgrn.files import model_file, records
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.thread_time()
        try:
            model_file.load(sys.argv[1])
        except model_file.ModelFileError as error:
            message = str(error)
        taken = time.thread_time() - begin
        print(taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, message)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True)
    path.unlink()
    assert not done.returncode, done.stderr
    seconds, megabytes, message = done.stdout.split(" ", 2)
    assert "sums to 0 in row 0" in message
    assert float(seconds) < 10
    assert float(megabytes) < 20


def test_json_bombs(refused: Any, good: bytes) -> None:
    deep = 100_000
    refused(container(b'{"a":' * deep + b"1" + b"}" * deep), "nested too deeply", megabytes=5)
    refused(container(b'{"a":' + b"[" * deep), "nested too deeply", megabytes=5)
    refused(forged('{"version":1,"a":' + "[" * deep + "]" * deep + "}", {}), "nested too deeply", megabytes=5)
    wide = b'{"a":[' + b"[]," * 3_000_000 + b"1]}"
    refused(container(wide), "more than 2,097,152 values", megabytes=3 * len(wide) / 1e6)
    hidden = b'{"__metadata__":{"fgrn":"' + b"\\u005b" * 2_500_000 + b'"}}'
    refused(container(hidden), "more than 2,097,152 values", megabytes=3 * len(hidden) / 1e6)
    wider = b'{"a":"' + b"x" * container_file.HEADER_LIMIT + b'"}'
    refused(container(wider), "limit", megabytes=1)
    refused(container(b'{"a":' + b"9" * 100_000 + b"}"), "64 bits", megabytes=5)
    refused(container(b'{"a":1,"a":2}'), "there twice in [('a', 1), ('a', 2)]")
    refused(container(b"{'a':1}"), "not JSON")
    refused(container(b"{}garbage"), "not JSON")
    refused(container(b'{"__metadata__":{"fgrn":"\\ud83d\\ude00"}}'), "ASCII")
    refused(container({"__metadata__": {"fgrn": {"version": 1}}}), "header")
    for text in ("", "[]", "1", "null", "{", '{"version":1', "{}", '{"version":1}'):
        refused(forged(text, {}), "description")


NUMBERS = [10**18, 2**63, 10**19, -1, 0, 2**24 + 1]


@pytest.mark.parametrize(
    "states",
    [
        *NUMBERS,
        1.5,
        True,
        None,
        "2",
        {},
        [{"float": "nan"}],
        [{"float": [1]}],
        [],
        [[]],
        [None],
        ["a", "a"],
        [1, True],
        [1, 1.0],
    ],
)
def test_impossible_states(refused: Any, good: bytes, states: object) -> None:
    document, tensors = taken_apart(good)
    document["variables"][1]["states"] = states
    refused(forged(document, tensors), "'A'", "damaged")


@pytest.mark.parametrize("states", [np.nan, np.inf, [np.nan], [-np.inf]])
def test_numbers_that_are_not_finite(refused: Any, good: bytes, states: object) -> None:
    document, tensors = taken_apart(good)
    document["variables"][1]["states"] = states
    refused(forged(document, tensors), "is not finite", "damaged")


def test_many_labels_that_are_the_same(refused: Any, good: bytes) -> None:
    document, tensors = taken_apart(good)
    document["variables"][1]["states"] = ["same"] * 200_000
    refused(forged(document, tensors), "same label", megabytes=30)
    document["variables"][1]["states"] = [2**61 - 1 for _ in range(10)]
    refused(forged(document, tensors), "same label")
    document["variables"][1]["states"] = [k * (2**61 - 1) for k in range(40, 100_000)]
    refused(forged(document, tensors), "64 bits", megabytes=30)


def test_a_diverter_of_many_wide_inputs(refused: Any) -> None:
    names = [f"V{number}" for number in range(20_000)]
    document: Json = {
        "version": 1,
        "variables": [{"name": name, "states": 2**26} for name in names],
        "blocks": [{"kind": "diverter", "inputs": names[1:], "outputs": names[:1]}],
        "tables": [],
        "priors": [],
    }
    refused(forged(document, {}), "more than 67,108,864 states", megabytes=40)
    document["blocks"][0]["inputs"] = names[:1] * 20_000
    refused(forged(document, {}), "more than once", megabytes=40)


@pytest.mark.parametrize(
    ("states", "missing", "small"),
    [
        (2**14, ["is missing"], ["F64 (16384, 16384)", "(1, 1)"]),
        (2**24, ["would have 281,474,976,710,656 cells; the limit is"], ["cells; the limit is"]),
    ],
)
def test_tables_that_are_claimed_and_not_there(refused: Any, states: int, missing: list[str], small: list[str]) -> None:
    """Many tables of 2 ** 28 or 2 ** 48 cells: no array is created before they are found missing."""
    count = 500
    document: Json = {
        "version": 1,
        "variables": [{"name": f"V{number}", "states": states} for number in range(count + 1)],
        "blocks": [{"kind": "siso", "input": f"V{n}", "output": f"V{n + 1}"} for n in range(count)],
        "tables": [{"tensor": f"table/{n}", "names": [f"V{n + 1}"]} for n in range(count)],
        "priors": [],
    }
    refused(forged(document, {}), *missing)
    tensors = {f"table/{n}": np.ones((1, 1)) for n in range(count)}
    refused(forged(document, tensors), *small)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "F32"}, "does not fill"),
        ({"dtype": "X99"}, "does not fill"),
        ({"dtype": 5}, "5 as its 'dtype'"),
        ({"shape": [2, 2, 10**18]}, "does not fill"),
        ({"shape": [-2, -2]}, "as its shape"),
        ({"shape": [True, 4]}, "as its shape"),
        ({"shape": [2.0, 2]}, "as its shape"),
        ({"shape": [1] * 1000}, "as its shape"),
        ({"shape": [10**18] * 8}, "does not fill"),
        ({"shape": "22"}, "'22' as its 'shape'"),
        ({"shape": [4]}, "must be F64 (2, 2); the tensor 'table/0' is F64 (4,)"),
        ({"data_offsets": [0, 10**18]}, "does not fill"),
        ({"data_offsets": [10**18, 10**18 + 32]}, "begins at byte"),
        ({"data_offsets": [-32, 0]}, "as its shape"),
        ({"data_offsets": [32, 0]}, "does not fill"),
        ({"data_offsets": [0]}, "as its shape"),
        ({"data_offsets": [0, 32]}, "begins at byte"),
        ({"data_offsets": None}, "None as its 'data_offsets'"),
    ],
)
def test_a_tensor_that_lies(refused: Any, good: bytes, change: dict[str, Json], words: str) -> None:
    header = header_of(good)
    data = good[8 + int.from_bytes(good[:8], "little") :]
    header["table/0"] |= change
    refused(container(header, data), words)


def test_tensors_of_the_wrong_shape_and_place(refused: Any, good: bytes) -> None:
    header = header_of(good)
    data = good[8 + int.from_bytes(good[:8], "little") :]
    for value in (None, [], 3, "x", {}):
        refused(container({**header, "table/0": value}, data), "table/0")
    twice = json.dumps(header).encode()[:-1] + b', "table/0": ' + json.dumps(header["table/0"]).encode() + b"}"
    refused(container(twice, data), "a name is there twice")
    far = len(data)
    beyond = {**header, "more": {"dtype": "F64", "shape": [10**15], "data_offsets": [far, far + 8 * 10**15]}}
    refused(container(beyond, data), "cut short")
    gap = {name: value for name, value in header.items() if name != "start/0"}
    refused(container(gap, data), "begins at byte")


NO_TABLES = [
    ([[np.nan, 1], [0, 1]], "nan in row 0"),
    ([[0.5, 0.5], [-0.5, 1.5]], "-0.5 in row 1"),
    ([[0.5, 0.5], [np.inf, 0]], "inf in row 1"),
    ([[0.5, 0.5], [1e308, 1e308]], "1e+308 in row 1"),
    ([[0.5, 0.5], [0.5, 0.4]], "sums to 0.9 in row 1"),
    ([[0, 0], [0, 1]], "sums to 0 in row 0"),
    ([[1, 0.5], [0, 0.5]], "sums to 1.5 in row 0"),
]


@pytest.mark.parametrize("name", ["table/0", "table/1", "start/2"])
@pytest.mark.parametrize(("table", "words"), NO_TABLES)
def test_numbers_that_are_no_distribution(refused: Any, good: bytes, name: str, table: Json, words: str) -> None:
    document, tensors = taken_apart(good)
    tensors[name] = np.array(table, dtype=np.float64)
    refused(forged(document, tensors), words, "damaged")


@pytest.mark.parametrize("name", ["prior/0", "start/0"])
def test_a_prior_that_is_no_distribution(refused: Any, good: bytes, name: str) -> None:
    document, tensors = taken_apart(good)
    for values in ([0.5, 0.6], [np.nan, 1], [2.0, -1.0]):
        refused(forged(document, {**tensors, name: np.array(values)}), "'S'", "row 0")


def test_a_signalling_nan_is_just_a_nan(refused: Any, good: bytes) -> None:
    document, tensors = taken_apart(good)
    tensors["prior/0"] = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf0\x7f" * 2)
    refused(forged(document, tensors), "nan")


def test_tensors_of_the_wrong_kind(refused: Any, good: bytes) -> None:
    document, tensors = taken_apart(good)
    for name in tensors:
        refused(
            forged(document, {key: value for key, value in tensors.items() if key != name}), "is missing", repr(name)
        )
        refused(forged(document, {**tensors, name: tensors[name].astype(np.int64)}), "must be")
        refused(forged(document, {**tensors, name: tensors[name].reshape(1, 1, -1)}), "must be")
    refused(forged(document, {**tensors, "table/0": tensors["table/0"].astype(np.float32)}), "does not fill")
    refused(forged(document, {**tensors, "support/3": np.zeros((2, 2), dtype=bool)}), "support")
    refused(forged(document, {**tensors, "support/3": np.eye(2, dtype=bool)}), "not zero outside its support")
    refused(forged(document, {**tensors, "support/3": np.full((2, 2), 7, dtype=np.uint8).view(bool)}), "yes and no")
    data = safetensors.save(tensors, {"fgrn": json.dumps(document)})
    refused(data, "its checksum must be", "is missing")


def changed(document: Json, *path: Any, to: Json) -> Json:
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["variables", 1, "name"], "S", "there twice"),
        (["variables", 1, "name"], " ", "name"),
        (["variables", 1, "name"], 7, "7 as its 'name'"),
        (["variables", 1], None, "None is among its variables"),
        (["variables"], [], "not there"),
        (["variables"], {}, "{} as its 'variables'"),
        (["blocks"], [], "at least one block"),
        (["blocks", 0], [], "[] is among its blocks"),
        (["blocks", 0, "kind"], "oracle", "'oracle'"),
        (["blocks", 0, "kind"], ["source"], "as its 'kind'"),
        (["blocks", 0, "variable"], "nobody", "'nobody', which is not there"),
        (["blocks", 0, "variable"], ["S"], "which is not there"),
        (["blocks", 0, "learn"], "no", "'no' as its 'learn'"),
        (["blocks", 0, "start"], "start/2", "are one tensor"),
        (["blocks", 0, "start"], "sha256", "are one tensor"),
        (["blocks", 0, "start"], 0, "0 as its 'start'"),
        (["blocks", 1, "inputs"], "S", "as its 'inputs'"),
        (["blocks", 1, "inputs"], ["S", "S"], "more than once"),
        (["blocks", 1, "inputs"], [], "at least one input"),
        (["blocks", 1, "outputs"], ["A", "Y"], "damaged"),
        (["blocks", 2, "output"], "A", "same variable"),
        (["blocks", 2, "output"], "Z", "reversed directions"),
        (["blocks", 2, "tie"], 5, "5 as its 'tie'"),
        (["blocks", 2, "tie"], "", "'tie'"),
        (["tables"], [], "is not among its tables"),
        (["tables", 0, "names"], ["Z"], "there twice"),
        (["tables", 0, "names"], [["Z"]], "not known"),
        (["tables", 0, "names"], [], "not known"),
        (["tables", 0, "names"], ["Y", "Z"], "not known"),
        (["tables", 0, "tensor"], "table/1", "are one tensor"),
        (["tables", 0, "undrawn"], 1, "1 as its 'undrawn'"),
        (["priors", 0, "names"], ["A"], "not known"),
        (["priors"], None, "None as its 'priors'"),
    ],
)
def test_descriptions_that_lie(refused: Any, good: bytes, path: list[Any], value: Json, words: str) -> None:
    document, tensors = taken_apart(good)
    refused(forged(changed(document, *path, to=value), tensors), words)


def test_ties_that_differ(refused: Any, good: bytes) -> None:
    document, tensors = taken_apart(good)
    for number in (2, 3):
        document = changed(document, "blocks", number, "tie", to="t")
    document["tables"] = [{"tensor": "table/0", "names": ["Y", "Z"]}]
    refused(forged(document, tensors), "tied as 't'")


def test_a_long_name_does_not_flood_the_message(refused: Any, good: bytes) -> None:
    document, tensors = taken_apart(good)
    refused(forged(changed(document, "variables", 1, "name", to="x" * 300_000), tensors), megabytes=10)
    refused(forged(changed(document, "blocks", 1, "inputs", to=["x" * 300_000]), tensors), megabytes=10)
    document = json.loads(json.dumps(document).replace('"A"', json.dumps("x" * 100_000)))
    refused(forged(changed(document, "blocks", 3, "input", to="x" * 100_000), tensors), "Variable 'xxx", megabytes=10)


# Damage


def test_a_file_cut_anywhere(refused: Any, good: bytes) -> None:
    for length in range(len(good)):
        refused(good[:length])


def test_a_bit_flipped_anywhere(good: bytes, tmp_path: Path) -> None:
    network, path = small_network(), tmp_path / "m"
    for place in range(len(good)):
        for flip in {1 << place % 8, 255}:  # every bit of the file's kinds of bytes, and all of them at once
            path.write_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
            try:
                back = model_file.load(path)
            except ModelFileError:
                continue
            assert back == network, f"byte {place} with {flip}"


def test_damage_is_noticed_even_where_the_numbers_are_possible(refused: Any, good: bytes) -> None:
    swapped = good.replace(np.array([0.25, 0.75]).tobytes(), np.array([0.75, 0.25]).tobytes(), 1)
    assert swapped != good
    refused(swapped, "checksum is wrong")
    refused(good.replace(b'\\"no\\"', b'\\"No\\"'), "checksum is wrong")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["S", "Y", "table/0"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["names", "kind", "a"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
@given(data=st.data())
def test_any_description_is_read_or_refused(good: bytes, tmp_path: Path, data: st.DataObject) -> None:
    document, tensors = taken_apart(good)
    for _ in range(data.draw(st.integers(1, 3))):
        inner: Json = {"document": document}
        key: Any = "document"
        while isinstance(inner[key], (dict, list)) and inner[key] and data.draw(st.integers(0, 5)):
            inner = inner[key]
            key = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        if data.draw(st.booleans()) and inner is not None and key != "document":
            del inner[key]
        else:
            inner[key] = data.draw(JSON)
        if key == "document":
            document = inner[key]
            break
    path = tmp_path / "m"
    path.write_bytes(forged(json.dumps(document), tensors))
    try:
        network = model_file.load(path)
    except ModelFileError as error:
        assert repr(str(path)) in str(error)
    else:
        model_file.save(network, path)
        assert model_file.load(path) == network


# Writing


def test_the_name_is_taken_as_it_is(tmp_path: Path) -> None:
    model_file.save(small_network(), str(tmp_path / "plain"))
    small_network().save(tmp_path / "other.model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.model", "plain"]


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "m.fgrn"
    model_file.save(hidden_network(), path)
    path.chmod(0o640)
    model_file.save(small_network(), path)
    assert model_file.load(path) == small_network()
    assert [one.name for one in tmp_path.iterdir()] == ["m.fgrn"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    model_file.save(small_network(), tmp_path / "m")
    (tmp_path / "usual").touch()
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    model_file.save(hidden_network(), tmp_path / "m")
    (tmp_path / "link").symlink_to("m")
    model_file.save(small_network(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert model_file.load(tmp_path / "m") == small_network()


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "interrupt"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "m.fgrn"
    before = saved(hidden_network(), path)
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt if step == "interrupt" else full

    with monkeypatch.context() as patch:
        patch.setattr(os, {"interrupt": "fsync"}.get(step, step), fail)
        if step == "interrupt":
            with pytest.raises(KeyboardInterrupt):
                model_file.save(small_network(), path)
        else:
            with pytest.raises(ModelFileError, match=r"m\.fgrn.*no space left") as caught:
                model_file.save(small_network(), path)
            assert caught.value.__cause__ is full
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["m.fgrn"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files in the Linux way")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The system itself refuses to write more than 1,000 bytes."""
    path = tmp_path / "m.fgrn"
    before = saved(small_network(), path)
    assert len(before) > 1000
    code = """
        import resource, sys
        from fgrn import ModelFileError
        from fgrn.files import model_file, records
        network = model_file.load(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            network.save(sys.argv[1])
        except ModelFileError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True)
    assert "cannot be saved" in done.stdout, done.stderr
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["m.fgrn"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    network = small_network()
    for place, words in (
        (tmp_path, "not a file"),
        (tmp_path / "no" / "m.fgrn", "no folder"),
        (tmp_path / ("x" * 300), "too long"),
        (Path("/dev/null"), "not a file"),
    ):
        with pytest.raises(ModelFileError, match=words):
            model_file.save(network, place)
    with pytest.raises(ModelFileError, match="null"):
        model_file.save(network, f"{tmp_path}/a\x00b")
    (tmp_path / "file").touch()
    with pytest.raises(ModelFileError, match="irectory"):
        model_file.save(network, tmp_path / "file" / "m.fgrn")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ModelFileError):
        model_file.save(network, tmp_path / "circle")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["circle", "file"]


def test_write_protected_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.fgrn"
    before = saved(small_network(), path)

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)  # a real one would not stop the super-user
    with pytest.raises(ModelFileError, match="write-protected"):
        model_file.save(hidden_network(), path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(ModelFileError, match="ermission"):
            model_file.save(hidden_network(), path)
        tmp_path.chmod(0o700)
        assert path.read_bytes() == before


def test_what_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.fgrn"
    before = saved(small_network(), path)
    broken = small_network()
    values = broken._parameters.values.copy()
    values[0] = np.nan
    broken._parameters = type(broken._parameters)(values)
    with pytest.raises(ModelFileError, match=r"m\.fgrn.*the table of 'Y' holds nan in row 0"):
        model_file.save(broken, path)
    for large in (10**30, -(10**30), 10**5000):
        with pytest.raises(ModelFileError, match="more than 64 bits"):
            model_file.save(Network([Source(Variable("A", [1, large]))]), path)
    for limit in ("FILE_LIMIT", "HEADER_LIMIT", "ITEM_LIMIT", "PRODUCT_SPACE_LIMIT"):
        with monkeypatch.context() as patch:
            patch.setattr(records if limit == "PRODUCT_SPACE_LIMIT" else container_file, limit, 1)
            with pytest.raises(ModelFileError, match=r"limit is 1\b|more than 1 values"):
                model_file.save(small_network(), path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["m.fgrn"]
