"""Compiled kernels on disk: a kernel runs whatever the state of the disk."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numba
import pytest

import fgrn
from fgrn.engines.kernels import cache, versions
from fgrn.engines.kernels.basics import kernel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The one folder for compiled kernels, in a process that has not warned yet."""
    place = tmp_path / "kernels"
    monkeypatch.setattr(cache, "folders", lambda: [place])
    monkeypatch.setattr(cache._Said, "already", False)
    yield place


def twice(x):  # type: ignore[no-untyped-def]  # as every kernel
    return 2 * x


def compiled() -> Any:
    """Return a kernel as in a new process: not in memory, maybe on disk."""
    return kernel(twice)


def hits(found: Any) -> int:
    return sum(found.stats.cache_hits.values())


def test_a_kernel_is_kept_for_the_next_process(folder: Path) -> None:
    first, second = compiled(), compiled()
    assert first(4) == 8 and hits(first) == 0 and len(list(folder.iterdir())) == 1
    assert second(4) == 8 and hits(second) == 1
    assert second.stats.cache_path == str(folder)
    assert second(0.5) == 1.0 and len(list(folder.iterdir())) == 2  # another signature is another file


def test_kernels_of_one_name_are_kept_apart(folder: Path) -> None:
    def other(x):  # type: ignore[no-untyped-def]
        return 3 * x

    other.__name__ = twice.__name__
    places = {cache.KernelCache(one)._file_name("signature", Codegen()) for one in (twice, other)}
    other.__qualname__, other.__module__ = twice.__qualname__, "fgrn.engines.kernels.elsewhere"
    places.add(cache.KernelCache(other)._file_name("signature", Codegen()))
    assert len(places) == 3


class Codegen:
    """What compiles, as far as the names of files depend on it."""

    def magic_tuple(self) -> tuple[str, ...]:
        return ("machine",)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[: len(data) // 2],
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
        lambda data: b"not a kernel" * 100,
    ],
    ids=["empty", "a few bytes", "half of it", "one bit", "other"],
)
def test_a_damaged_file_is_made_again(damage: Callable[[bytes], bytes], folder: Path) -> None:
    compiled()(4)
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    again, after = compiled(), compiled()
    assert again(4) == 8 and hits(again) == 0
    assert after(4) == 8 and hits(after) == 1
    assert list(folder.iterdir()) == [file]


def test_what_cannot_be_rebuilt_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()(4)
    monkeypatch.setattr(cache.pickle, "loads", lambda data: ("of", "another", "shape"))
    assert compiled()(4) == 8


def test_a_kernel_of_other_sources_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()(4)
    origin = cache.origin()
    monkeypatch.setattr(cache, "origin", lambda: origin[::-1])
    found = compiled()
    assert found(4) == 8 and hits(found) == 0


def test_the_cache_key_covers_every_source_file() -> None:
    """A change in any of these files must recompile the kernels."""
    names = {file.name for file in cache.files("fgrn.engines.kernels").iterdir() if file.name.endswith(".py")}
    assert {"__init__.py", "basics.py", "products.py", "vectors.py", "llvm.py"} <= names


def no_space(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_once_and_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.warns(fgrn.KernelCacheWarning, match=r"No space left on device.* NUMBA_CACHE_DIR") as caught:
        assert compiled()(4) == 8
    assert caught[0].filename == __file__
    assert list(folder.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled()(0.5) == 1.0


def test_a_folder_that_cannot_be_written_to_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()(4)
    monkeypatch.setattr(Path, "write_bytes", no_space)
    found = compiled()
    assert found(4) == 8 and hits(found) == 1


def test_the_next_folder_is_written_to_if_the_first_cannot_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "file").write_text("in the way")
    monkeypatch.setattr(cache, "folders", lambda: [folder.parent / "file" / "below", folder])
    found = compiled()
    assert found(4) == 8 and found.stats.cache_path == str(folder)


def test_the_environment_names_the_only_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    assert [place.parent for place in cache.folders()] == [tmp_path]
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    assert cache.folders()[0] == Path(cache.__file__).parent / "__pycache__"


def test_many_may_write_the_same_file_at_once(folder: Path) -> None:
    """A reader sees a complete file, whoever writes it."""
    contents = [bytes([number]) * 100_000 for number in range(8)]
    cache.write_kernel(folder / "one", contents[0])

    def writing(content: bytes) -> None:
        for _ in range(20):
            cache.write_kernel(folder / "one", content)

    writers = [Thread(target=writing, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert (folder / "one").read_bytes() in contents
    for writer in writers:
        writer.join()
    assert [file.name for file in folder.iterdir()] == ["one"]


@pytest.mark.slow
def test_everything_works_without_a_folder_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file" / "below")}
    done = subprocess.run(
        [sys.executable, "-m", "fgrn", "doctor", "--json"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert found["kernels"]["fine"] and "right" in found["kernels"]["says"]
    assert "NUMBA_CACHE_DIR" in found["kernel cache"]["advice"]
    assert "Traceback" not in done.stderr


# Versions of numba


@pytest.mark.parametrize("version", ["0.60.0", "0.69.0", "1.0.0", "main"])
def test_an_untested_numba_is_told(version: str) -> None:
    with pytest.warns(fgrn.FgrnWarning, match=f'this is numba {version}.*engine="reference"'):
        versions.check_numba(version)


def test_the_numba_that_is_installed_is_tested(recwarn: pytest.WarningsRecorder) -> None:
    versions.check_numba(numba.__version__)
    assert not recwarn.list


def test_the_requirements_are_the_versions_that_are_tested() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("an installed wheel has no pyproject.toml")
    found = re.findall(r'"numba>=0\.(\d+),<0\.(\d+)', pyproject.read_text(encoding="utf-8"))
    assert {int(most) - 1 for _, most in found} == {versions.NEWEST[1]}
    assert min(int(least) for least, _ in found) == versions.OLDEST[1]
