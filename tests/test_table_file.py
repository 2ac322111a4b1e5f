"""Text tables of users: encodings, delimiters, ragged lines, lines without names."""

from __future__ import annotations

import codecs
import warnings
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn.core.exceptions import FgrnWarning
from fgrn.tables import table_file

TABLE = {"név": ["é", "中文", None], "n": [1, 2, 3]}


def text(delimiter: str = ",") -> str:
    return "".join(f"{a}{delimiter}{b}\n" for a, b in [("név", "n"), ("é", 1), ("中文", 2), ("", 3)])


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
)
def test_a_byte_order_mark_tells_the_encoding(bom: bytes, encoding: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", bom + text().encode(encoding))
    assert table_file.read(path).to_pydict() == TABLE


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "gb18030"])
def test_an_encoding_that_is_given_is_used(encoding: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", text().encode(encoding))
    assert table_file.read(path, encoding=encoding).to_pydict() == TABLE


def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "name,n\nanna,1\nandré,2\n".encode("latin-1"))
    with pytest.raises(fgrn.TableFileError, match=r"t\.csv', row 1, line 3, column 'name': .*UTF-8.*encoding="):
        table_file.read(path)
    assert table_file.read(path, encoding="latin-1").to_pydict() == {"name": ["anna", "andré"], "n": [1, 2]}
    with pytest.raises(fgrn.TableFileError, match=r"line 3: .*ASCII"):
        table_file.read(path, encoding="ascii")
    with pytest.raises(fgrn.TableFileError, match=r"'encoding' must name an encoding.* Got 'klingon'"):
        table_file.read(path, encoding="klingon")


@pytest.mark.parametrize("line", ["1", "1,2,3", '"x\ny",1,2'])
@pytest.mark.parametrize("before", [0, 3, 20_000])
def test_a_ragged_line_is_named(line: str, before: int, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ("a,b\n" + '"u\nv",w\n' * before + line + "\n1,2\n").encode())
    found = len(line.split(","))
    place = rf"row {before:,}, line {2 + 2 * before}"
    with pytest.raises(fgrn.TableFileError, match=rf"t\.csv', {place}: {found} value.* 2 "):
        table_file.read(path)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_seen_and_said(delimiter: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", text(delimiter).encode())
    with pytest.warns(FgrnWarning, match="t.csv.*separated by.*delimiter="):
        assert table_file.read(path).to_pydict() == TABLE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table_file.read(path, delimiter=delimiter).to_pydict() == TABLE


def test_commas_between_digits_are_no_delimiter(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b"1,5;2;x\n3;4;y\n")
    with pytest.warns(FgrnWarning, match="';'"):
        assert table_file.read(path, header=False).column_names == ["x0", "x1", "x2"]


@given(st.lists(st.text(alphabet="ab;|\t", min_size=1, max_size=4), min_size=2, max_size=5))
def test_a_table_with_commas_is_never_read_otherwise(values: list[str]) -> None:
    from fgrn.tables.text_header import delimiter_of

    lines = [",".join(f'"{value}"' for value in values)] * 3
    assert delimiter_of("\n".join(lines)) == ","


def test_one_column_is_one_column(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b"q\nyes; or so\nno\n")
    assert table_file.read(path).column_names == ["q"]


@pytest.mark.parametrize(
    "option",
    [
        *({"missing": bad} for bad in (..., [b"-9"], [["-9"]], b"-9", {"a": 1}, [date(2020, 1, 1)])),
        *({"delimiter": bad} for bad in (5, "\0", "", b",", [","])),
        *({"decimal": bad} for bad in (5, "", ".,", None, ["."])),
        *({"encoding": bad} for bad in (5, b"utf-8", ["utf-8"])),
        *({"header": bad} for bad in (0, None, "yes", [True])),
        *({"format": bad} for bad in ("xls", 5, ["csv"])),
    ],
    ids=str,
)
def test_options_that_cannot_be_meant_are_told(option: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    for make in (table_file.read, fgrn.Stream):
        with pytest.raises(fgrn.TableFileError, match=next(iter(option))) as caught:
            make(path, **option)
        assert "cannot be read" not in str(caught.value)


@pytest.mark.parametrize("missing", ["-9", -9, ["-9"], [-9], (-9.0,), np.int64(-9), np.array([-9, 3]), {"-9"}])
def test_codes_for_missing_values_may_be_words_or_numbers(missing: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n-9,x\n1,-\n9,?\n")
    expected = {"a": [None, 1, 9], "b": ["x", "-", "?"]}
    assert table_file.read(path, missing=missing).to_pydict() == expected
    assert next(iter(fgrn.Stream(path, missing=missing))).to_pydict() == expected
    assert fgrn.Schema.infer({"a": [-9, 1, 9]}, missing=missing)["a"].levels == (1, 9)


def test_no_codes_for_missing_values_are_the_usual_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\nx\n?\n")
    with pytest.warns(fgrn.TableWarning, match=r"column 'a': '\?' in 1 row\..*missing=\(\)"):
        assert table_file.read(path, missing=None)["a"].to_pylist() == ["x", None]
    assert table_file.read(path, missing=())["a"].to_pylist() == ["x", "?"]


@pytest.mark.parametrize("delimiter", ["", ",,", "\n", '"', "é"])
def test_a_delimiter_is_one_character(delimiter: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", text().encode())
    with pytest.raises(fgrn.TableFileError, match="delimiter"):
        table_file.read(path, delimiter=delimiter)


def test_a_column_without_a_name_gets_one(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b",a,x2,\n0,p,q,r\n1,p,q,r\n")
    with pytest.warns(FgrnWarning, match="'x0', 'x3'"):
        assert table_file.read(path).column_names == ["x0", "a", "x2", "x3"]


def test_names_that_came_from_nowhere_stay_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b",x0\n0,p\n1,q\n")
    with pytest.warns(FgrnWarning, match="'x0_'"):
        assert table_file.read(path).column_names == ["x0_", "x0"]


def test_decimal_commas(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b"a;b;c\n1,5;7;x,y\n-2,25;;z\n")
    found = table_file.read(path, delimiter=";", decimal=",").to_pydict()
    assert found == {"a": [1.5, -2.25], "b": [7, None], "c": ["x,y", "z"]}
    assert table_file.read(path, delimiter=";").to_pydict()["a"] == ["1,5", "-2,25"]
    with pytest.raises(fgrn.TableFileError, match="decimal"):
        table_file.read(path, delimiter=";", decimal="x")


def test_parquet_says_what_text_would(tmp_path: Path) -> None:
    table = pa.table(
        {
            "day": [date(2020, 1, 2), None],
            "time": [datetime(2020, 1, 2, 3, 4), None],
            "cost": [Decimal("1.50"), None],
            "kind": pa.array(["p", "q"]).dictionary_encode(),
            "long": pa.array([5, None], pa.duration("s")),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    found = table_file.read(tmp_path / "t.parquet").to_pydict()
    assert found["day"] == ["2020-01-02", None]
    assert found["time"][0].startswith("2020-01-02 03:04:00")
    assert found["cost"] == [1.5, None]
    assert found["kind"] == ["p", "q"]


@pytest.mark.parametrize(
    "words",
    [
        ["123456789012345678901", "123456789012345678902"],
        ["-9223372036854775809", "1"],
        ["+9223372036854775808", "1.5"],
        ["0x10", "0X1F"],
        ["-0x10", "1.5"],
        ["007", "1"],
    ],
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_words_of_digits_that_no_number_holds_stay_apart(words: list[str], decimal: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(["n", *words]).replace(".", decimal) + "\n")
    expected = [word.replace(".", decimal) for word in words]
    assert table_file.read(path, decimal=decimal)["n"].to_pylist() == expected
    assert [row["n"] for table in fgrn.Stream(path, rows=1, decimal=decimal) for row in table.to_pylist()] == expected


def test_large_numbers_that_are_no_words_of_digits_stay_numbers(tmp_path: Path) -> None:
    for words in (["1e19", "2e300"], ["12345678901234567890.5", "1"], ["9223372036854775807", "-9223372036854775808"]):
        path = tmp_path / "a.csv"
        path.write_text("\n".join(["n", *words]) + "\n")
        assert table_file.read(path)["n"].to_pylist() == [float(w) if "." in w or "e" in w else int(w) for w in words]
