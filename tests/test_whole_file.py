"""Files are written completely or not at all, by one mechanism; killed processes leave nothing for long."""

from __future__ import annotations

import ast
import errno
import gzip
import io
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import cli, plots
from fgrn.core import whole_file
from fgrn.tables import table_file
from fgrn.tables import writer as table_writer

fcntl = pytest.importorskip("fcntl")

ROOT = Path(fgrn.__file__).parent
NET = fgrn.lvm({"Y1": 2, "Y2": 2}, hidden=2)
BAYES = fgrn.BayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]})
TABLE = {"a": ["x", "y"] * 50, "b": ["u", "v", "v", "u"] * 25}


def in_batches(path: Path) -> None:
    with table_writer.table_writer(path) as out:
        for _ in range(3):
            out.write(TABLE)


def picture(path: Path) -> None:
    from matplotlib.figure import Figure

    plots.save(Figure(figsize=(1, 1)), path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "m.fgrn": NET.save,
    "run.ckpt": lambda path: NET.copy().learn(TABLES, epochs=1, checkpoint=path) and None,
    "t.csv": lambda path: table_file.write(TABLE, path),
    "t.csv.gz": lambda path: table_file.write(TABLE, path),
    "batches.csv": in_batches,
    "batches.tsv.gz": in_batches,
    "batches.parquet": in_batches,
    "net.bif": lambda path: fgrn.write(BAYES, path),
    "net.uai.gz": lambda path: fgrn.write(BAYES, path),
    "p.svg": picture,
}
"""Everything that writes a file, by a name it would give it."""
TABLES = {"Y1": [0, 1, 1], "Y2": [1, 1, 0]}

every_writer = pytest.mark.parametrize("name", WRITERS)
posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and signals as POSIX has them")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_nothing_else_in_the_package_opens_files_to_write() -> None:
    """One mechanism: no other module replaces files, or opens them to be written.

    Engines know nothing of the package but its errors, and keep their compiled kernels by themselves.
    """
    for path in ROOT.rglob("*.py"):
        if path.name in ("whole_file.py", "kernel_files.py") or path.parent.name == "kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                assert called not in ("write_text", "write_bytes", "rename", "fsync"), f"{path}:{node.lineno}"
                if called == "open":
                    words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                    assert not any(set(word) & set("wxa+") for word in words if len(word) < 4), f"{path}:{node.lineno}"


# Complete or not at all


@every_writer
@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
def test_a_full_disk_names_the_file_and_leaves_the_old_one(
    name: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr(os, "fdopen", lambda number, *_: Full(number))
        else:
            patched.setattr(os, step, full)
        with pytest.raises(fgrn.FgrnError, match=rf"{name}' *.*no space left on device"):
            WRITERS[name](path)
        assert not names_in(tmp_path)
    path.write_bytes(b"old")
    if name == "run.ckpt":
        return
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(fgrn.FgrnError, match="no space left"):
        WRITERS[name](path)
    assert (names_in(tmp_path), path.read_bytes()) == ([name], b"old")


class Full(io.BufferedWriter):
    """A file on a disk that is full."""

    def __init__(self, number: int) -> None:
        super().__init__(io.FileIO(number, "wb"))

    def write(self, data: Any) -> int:
        return int(full())


def test_errors_of_the_caller_are_not_those_of_the_file(tmp_path: Path) -> None:
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        for error in (OSError(5, "Input/output error"), ValueError("a"), KeyboardInterrupt(), fgrn.SchemaError("s")):
            with pytest.raises(type(error)) as caught, table_writer.table_writer(tmp_path / name) as out:
                out.write(TABLE)
                raise error
            assert caught.value is error
    assert not names_in(tmp_path)


def test_a_table_in_batches_on_a_full_disk_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed data are written when the file is closed."""
    monkeypatch.setattr(gzip.GzipFile, "close", full)
    with pytest.raises(fgrn.TableFileError, match=r"t\.csv\.gz' cannot be written: no space left on device"):
        in_batches(tmp_path / "t.csv.gz")
    assert not names_in(tmp_path)


# Permissions and links


@posix
@every_writer
def test_permissions_are_those_of_the_old_file_or_of_any_new_one(name: str, tmp_path: Path) -> None:
    if name == "run.ckpt":
        return
    path, usual = tmp_path / name, tmp_path / "usual"
    usual.touch()
    WRITERS[name](path)
    assert mode(path) == mode(usual)
    for some in (0o600, 0o640, 0o666, 0o755):
        path.chmod(some)
        WRITERS[name](path)
        assert mode(path) == some


@posix
def test_what_replaces_a_private_file_is_private_at_once(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for some in (0o600, 0o666, 0o604):
        path.write_bytes(b"old")
        path.chmod(some)
        with whole_file.replacing(path):
            (part,) = set(tmp_path.iterdir()) - {path}
            assert mode(part) == some


@posix
def test_links_are_followed_as_open_does(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    real, link = tmp_path / "there" / "m", tmp_path / "here" / "link"
    link.symlink_to(Path("..", "there", "m"))
    for data in (b"made", b"replaced"):  # the first time it leads nowhere yet
        with whole_file.replacing(link) as file:
            assert names_in(link.parent) == ["link"]  # beside the file the link stands for
            file.write(data)
        assert link.is_symlink()
        assert real.read_bytes() == data
        assert names_in(real.parent) == ["m"]
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to(tmp_path / "no folder" / "m")
    with pytest.raises(fgrn.FgrnError, match=r"there is no folder '.*no folder'"):
        NET.save(nowhere)
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(fgrn.FgrnError, match="symbolic links"):
        NET.save(circle)
    chained = tmp_path / "chained"
    chained.symlink_to(link)
    whole_file.write_whole(chained, b"through two")
    assert real.read_bytes() == b"through two"


@posix
def test_a_link_the_system_does_not_follow_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shared folder, a link of another user may lead to a file of mine."""
    target, link = tmp_path / "mine", tmp_path / "theirs"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    plain = Path.stat

    def refusing(path: Path, **how: Any) -> os.stat_result:
        if path == link and how.get("follow_symlinks", True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return plain(path, **how)

    monkeypatch.setattr(Path, "stat", refusing)
    with pytest.raises(fgrn.FgrnError, match="permission denied"):
        table_file.write_file(str(link), b"other")
    assert target.read_bytes() == b"mine"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    places = [tmp_path, *(Path(name) for name in ("/dev/full", "/dev/null") if Path(name).exists())]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        places.append(tmp_path / "pipe")
    for place in places:
        with pytest.raises(fgrn.TableFileError, match=f"{place.name}.*something that is not a file"):
            table_file.write_file(str(place), b"data")


# What killed writers leave


KILLED = """
import os, signal, sys
from pathlib import Path
import fgrn
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
fgrn.lvm({"a": 2, "b": 2}, hidden=2).save(sys.argv[1])
"""


@posix
def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "m.fgrn")], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    table_file.write_file(str(tmp_path / "other"), b"data")
    assert names_in(tmp_path) == ["other"]


@posix
def test_what_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    with whole_file.replacing(tmp_path / "slow") as slow:
        (part,) = tmp_path.iterdir()
        os.utime(part, (0, 0))  # however long ago
        whole_file.write_whole(tmp_path / "quick", b"data")
        slow.write(b"slow")
    assert names_in(tmp_path) == ["quick", "slow"]


@posix
def test_of_which_a_lock_tells_nothing_is_left_over_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(left: str, ago: float) -> list[str]:
        (tmp_path / left).write_bytes(b"half")
        now = (tmp_path / left).stat().st_mtime
        os.utime(tmp_path / left, (now - ago, now - ago))
        whole_file.write_whole(tmp_path / "m", b"data")
        return names_in(tmp_path)

    mine, others = f".fgrn-{whole_file.MACHINE}-1-ab.part", ".fgrn-00000000-1-ab.part"
    older = ".fgrn-0123456789abcdef.part"
    day = whole_file.DAY
    for left in (others, older, ".run.ckpt.fgrn-lock"):
        assert written(left, 0.5 * day) == [left, "m"]
        assert written(left, 1.5 * day) == ["m"]
    assert written(mine, 0) == ["m"]
    (tmp_path / "precious.part").touch()
    (tmp_path / ".fgrn-mine.part").symlink_to("precious.part")
    (tmp_path / f".fgrn-{whole_file.MACHINE}-1-cd.part").mkdir()
    assert len(written(mine, 9 * day)) == 4  # what is no file of ours stays
    (tmp_path / f".fgrn-{whole_file.MACHINE}-1-cd.part").rmdir()
    monkeypatch.setattr(fcntl, "flock", without_locks)
    assert mine in written(mine, 0)
    assert mine not in written(mine, 1.5 * day)


def without_locks(*_: Any) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@posix
def test_a_part_that_was_taken_for_a_leftover_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may remove it between its creation and its lock."""
    plain, seen = whole_file._try_lock, []

    def late(number: int) -> bool | None:
        if not seen:
            seen.append(number)
            for path in tmp_path.iterdir():
                path.unlink()
        return plain(number)

    monkeypatch.setattr(whole_file, "_try_lock", late)
    whole_file.write_whole(tmp_path / "m", b"data")
    assert seen
    assert (tmp_path / "m").read_bytes() == b"data"
    assert names_in(tmp_path) == ["m"]


def test_a_file_system_that_does_not_know_files_again_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    monkeypatch.setattr(whole_file, "LOCK_PATIENCE", 0.0)
    with whole_file.locked(tmp_path / "m"):
        whole_file.write_whole(tmp_path / "m", b"data")
    assert (tmp_path / "m").read_bytes() == b"data"
    assert [name for name in names_in(tmp_path) if name.endswith(".part")] == []


# One run at a time


@contextmanager
def holding(place: Path) -> Iterator[int]:
    """Start another process that holds the lock of a file; yields its id."""
    code = """if True:
        import os, sys
        from pathlib import Path
        from fgrn.core.whole_file import locked
        with locked(Path(sys.argv[1])):
            print("locked", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", code, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        process.kill()


def learn(place: Path, **options: Any) -> None:
    NET.copy().learn(TABLES, epochs=2, checkpoint=place, **options)


@posix
def test_two_processes_on_one_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second gets an error that names the first; when that is killed, the lock is free."""
    monkeypatch.setattr(whole_file, "LOCK_PATIENCE", 0)
    place, link = tmp_path / "run.ckpt", tmp_path / "link"
    link.symlink_to(place)
    with holding(place) as process:
        for one in (place, link):
            with pytest.raises(fgrn.CheckpointError, match=rf"'.*' is being written by process {process}\. Wait.*name"):
                learn(one, resume=True)
        learn(tmp_path / "other.ckpt")
    assert ".run.ckpt.fgrn-lock" in names_in(tmp_path)  # it was killed
    learn(place)
    assert names_in(tmp_path) == ["link", "other.ckpt", "run.ckpt"]


@posix
def test_two_runs_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_file, "LOCK_PATIENCE", 0)
    place = tmp_path / "run.ckpt"

    def watch(*_: Any) -> None:
        with pytest.raises(fgrn.CheckpointError, match="written by another run of this process"):
            learn(place, resume=True)

    learn(place, watch=watch)
    lock = tmp_path / ".run.ckpt.fgrn-lock"
    number = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(number, fcntl.LOCK_EX)
    for text, told in ((b"17 elsewhere", "process 17 on 'elsewhere'"), (b"", "another process")):
        lock.write_bytes(text)
        with pytest.raises(fgrn.CheckpointError, match=f"written by {told}"):
            learn(place, resume=True)
    os.close(number)


@posix
def test_a_lock_that_is_looked_at_for_an_instant_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run.ckpt"
    answers = iter([False, False])
    plain = whole_file._try_lock
    monkeypatch.setattr(whole_file, "_try_lock", lambda number: next(answers, None) is not False and plain(number))
    with whole_file.locked(place):
        assert names_in(tmp_path) == [".run.ckpt.fgrn-lock"]
    assert not names_in(tmp_path)


@posix
def test_where_there_are_no_locks_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", without_locks)
    learn(tmp_path / "run.ckpt")
    long = tmp_path / f"{'n' * 250}.ckpt"[:255]
    learn(long)
    assert names_in(tmp_path) == sorted(["run.ckpt", long.name])


# SIGTERM at the command line


@pytest.fixture
def people(tmp_path: Path) -> Path:
    table_file.write(TABLE, tmp_path / "people.csv")
    return tmp_path / "people.csv"


def signalling(number: int, method: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A function that sends this process a signal when it is called for the `at`-th time."""
    calls = 0

    def called(*arguments: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            signal.raise_signal(number)
        return method(*arguments, **settings)

    return called


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(params=SIGNALS, ids=lambda number: number.name)
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A signal that is handled as at the start of a program, whatever these tests were started with."""
    before = [signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)]
    yield request.param
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


def test_a_signal_while_writing_leaves_nothing(
    number: int, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    output = tmp_path / "filled.csv"
    NB = ["fit", str(people), "--target", "b", "--model", "naive-bayes", "-o", str(tmp_path / "m.fgrn")]
    assert cli.main(NB) == 0
    monkeypatch.setattr(os, "fsync", signalling(number, os.fsync, 1))
    assert cli.main(["complete", str(tmp_path / "m.fgrn"), str(people), "-o", str(output)]) == SIGNALS[number]
    assert names_in(tmp_path) == ["m.fgrn", "people.csv"]
    assert capsys.readouterr().err.endswith({130: "interrupted\n", 143: "terminated\n"}[SIGNALS[number]])


def test_a_signal_while_learning_keeps_what_was_learnt(
    number: int, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    output, place = tmp_path / "m.fgrn", tmp_path / "run.ckpt"
    command = ["fit", str(people), "--hidden", "2", "--tolerance", "0", "--epochs", "1000000", "--starts", "1"]
    command += ["-o", str(output), "--checkpoint", str(place), "--every", "1000", "--json"]
    with monkeypatch.context() as patched:
        patched.setattr(fgrn.flow.em, "_epoch", signalling(number, fgrn.flow.em._epoch, 3))
        assert cli.main(command) == SIGNALS[number]
    out, err = capsys.readouterr()
    assert '"interrupted": true' in out
    assert "stopping after this epoch" in err
    assert fgrn.load(output).history_.epochs == 3
    assert np.array_equal(fgrn.load(place)._parameters.values, fgrn.load(output).network_._parameters.values)
    output.unlink()
    twice = signalling(number, signalling(number, fgrn.flow.em._epoch, 1), 1)
    monkeypatch.setattr(fgrn.flow.em, "_epoch", twice)
    assert cli.main([*command, "--resume"]) == SIGNALS[number]
    kept = ["m.fgrn"] if number == signal.SIGINT else []  # Ctrl-C keeps the model so far, however often it comes
    assert names_in(tmp_path) == [*kept, "people.csv", "run.ckpt"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_stays_ignored_for_who_started_it_so(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        monkeypatch.setattr(os, "fsync", signalling(signal.SIGTERM, os.fsync, 1))
        assert cli.main(["fit", str(people), "--hidden", "2", "--epochs", "2", "-o", str(tmp_path / "m.fgrn")]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
