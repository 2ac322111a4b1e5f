"""The reader of text tables: the same result in memory and in batches of any size, and clear errors for damage.

The oracle of what a text says is the csv module of Python, which reads the whole of it at once.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fgrn
from fgrn import Stream
from fgrn.tables import table_file, text_reader, text_records, text_source
from fgrn.tables.text_records import RecordScanner, record_blocks, record_ends

PIECES = st.sampled_from(
    [
        *(
            b'"',
            b'""',
            b",",
            b";",
            b"\t",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b" ",
            b"a",
            b"b c",
            b"1",
            b"-2",
            b"2.5",
            b"007",
        ),
        *(
            b"NA",
            b"?",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\xc3",
            "é".encode(),
            b'"x,\n y"',
            b"1,2\n",
            b"p,q\r\n",
            b"\x0b",
            b"\x85",
        ),
    ]
)
RAW = st.lists(PIECES, max_size=24).map(b"".join)
ROWS = st.lists(
    st.sampled_from([b"1,a", b"2,b", b',""', b'"3","x\ny"', b"", b"4", b"5,6,7", b'8" ,z', b"\xff,1"]), max_size=12
)
BLANK_LINES = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b" \n", b"\t\r", b" "]), max_size=8).map(b"".join)
TEXTS = st.one_of(
    RAW,
    st.tuples(BLANK_LINES, st.sampled_from([b"1", b"1,2", b"p\n"]), BLANK_LINES, RAW).map(b"".join),
    st.tuples(st.sampled_from([b"p,q", b"\n\n p,q", b'"p\r\n",q', b"p"]), RAW).map(b"\n".join),
    st.tuples(ROWS, st.sampled_from([b"\n", b"\r", b"\r\n"])).map(lambda case: case[1].join([b"p,q", *case[0]])),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("text") / "a.csv"


def outcome(make: Any) -> Any:
    """What is made, as plain values and types, or what is wrong, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            tables = list(make())
            schema = [(field.name, str(field.type)) for field in tables[0].schema] if tables else []
            found: Any = schema, [row for table in tables for row in table.to_pylist()]
        except fgrn.FgrnError as error:
            found = type(error), str(error)
    return found, sorted({str(one.message) for one in told})


def walked(stream: Stream) -> Any:
    """The tables of a stream, and then what it warns of."""
    yield from stream
    stream.issue_warnings()


def in_memory(place: Path, **options: Any) -> Any:
    found, told = outcome(lambda: [table_file.read(place, **options)])
    return (([], []) if "holds no rows" in str(found[1]) else found), told


@pytest.mark.parametrize("header", [True, False])
@given(text=TEXTS, block=st.integers(1, 40), rows=st.integers(1, 5))
@example(text=b"p\n1\n\n2\n\n\n", block=1, rows=1)  # empty lines of a table of one column are rows
@example(text=b"p,q\n1,2\n\n\r\n3,4\n", block=4, rows=1)
@example(text=b"p,q\r1,2\r\r3,4\r", block=4, rows=2)
@example(text=b"\r\r\n\n\r\n1\n", block=1, rows=2)
@example(text=b"p,q\n1,2\n \t\n3,4\n  ", block=3, rows=2)
@example(text=b'"p\nq",r\n1,2\n', block=3, rows=1)
@example(text=b"\n\r\n \np,q\n1,2\n", block=2, rows=1)
@example(text=b"p,q\n\xef\xbb\xbf1,2\n\xef\xbb\xbf1,2\n", block=4, rows=1)
@example(text=b'p,q\n1,"2\n3,4\n', block=4, rows=1)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_the_same_table_or_the_same_error_in_blocks_of_any_size(
    text: bytes, block: int, rows: int, header: bool, place: Path
) -> None:
    place.write_bytes(text)
    expected = in_memory(place, header=header)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_reader, "PARSED_BYTES", block)
        assert in_memory(place, header=header) == expected
        assert outcome(lambda: walked(Stream(place, rows=rows, header=header))) == expected
        left_out = [Stream(place, rows=rows, header=header, on_bad="skip") for _ in range(2)]
        some = outcome(lambda: left_out[0])
    assert outcome(lambda: left_out[1]) == some
    assert left_out[0].left_out == left_out[1].left_out


def by_python(text: bytes, delimiter: str = ",") -> list[list[bytes]]:
    """Return the records of a text as the csv module reads them; an empty line has no values."""
    lines = io.StringIO(text.decode("latin-1"), newline="")
    return [[value.encode("latin-1") for value in row] for row in csv.reader(lines, delimiter=delimiter)]


@given(text=TEXTS, cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=300, deadline=None)
def test_records_end_where_those_of_the_csv_module_do(text: bytes, cuts: list[int]) -> None:
    scanner = RecordScanner(",")
    borders = sorted({min(cut, len(text)) for cut in [0, *cuts, len(text)]})
    if not text:
        return
    ends = record_ends(text, ",").tolist()
    records = [text[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    assert [row for record in records for row in by_python(record)] == by_python(text)
    found: list[int] = []
    for begin, end in pairwise(borders):
        piece = text[begin:end]
        drop = scanner.is_after_return and piece.startswith(b"\n")
        if drop:
            found[-1] += 1
            begin, piece = begin + 1, piece[1:]
        if not piece:
            scanner = RecordScanner(",")
            continue
        found += [begin + int(place) for place in scanner.ends(piece)]
    assert found == ends[: len(found)]
    assert len(ends) - len(found) <= 1


class Pieces:
    """A source that gives its bytes in small pieces."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


@given(text=TEXTS, block=st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_blocks_are_the_whole_text_and_know_their_lines(text: bytes, block: int) -> None:
    try:
        blocks = list(record_blocks(Pieces(text), "it", ",", block))
    except fgrn.TableFileError as error:
        assert "not closed" in str(error)
        return
    parts = [re.sub(rb"\r\Z", b"\r\n", one.data) for one in blocks]  # a return that ends a block ends a line there
    assert by_python(b"".join(parts).replace(b"\r\n", b"\r")) == by_python(text.replace(b"\r\n", b"\r"))
    for number, block_ in enumerate(blocks):
        before = b"".join(parts[:number])
        assert block_.line == 1 + len(io.StringIO(before.decode("latin-1"), newline="").readlines())


@pytest.mark.parametrize("text", [b"p\n\n\n2\n", b"p\r\n\r\n1\r\n", b"p\r1\r\r"])
def test_empty_lines_are_rows_of_one_column_and_nothing_in_several(text: bytes, place: Path) -> None:
    place.write_bytes(text)
    values = [row[0] if row else None for row in by_python(text)[1:]]
    assert table_file.read(place).to_pydict() == {"p": [None if value is None else int(value) for value in values]}
    place.write_bytes(text.replace(b"p", b"p,q").replace(b"1", b"1,1").replace(b"2", b"2,2"))
    assert table_file.read(place).num_rows == 1
    assert [table.num_rows for table in Stream(place)] == [1]


def test_without_names_empty_lines_before_the_first_value_are_rows_too(place: Path) -> None:
    place.write_bytes(b"\n\n3\n")
    assert table_file.read(place, header=False).to_pydict() == {"x0": [None, None, 3]}
    assert [table.to_pydict() for table in Stream(place, header=False)] == [{"x0": [None, None, 3]}]


def test_empty_lines_before_the_first_value_are_counted_whatever_ends_them(place: Path) -> None:
    place.write_bytes(b"\r\r\n\n\r\n1\n")
    for block in (1, 2, 3, 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_reader, "PARSED_BYTES", block)
            assert table_file.read(place, header=False)["x0"].to_pylist() == [None] * 4 + [1], block


@pytest.mark.parametrize("blank", [b"", b" ", b" \t ", b"   "])
def test_a_line_of_blanks_is_an_empty_line(blank: bytes, place: Path) -> None:
    place.write_bytes(b"p,q\n1,2\n%s\n%s\r\n3,4\n%s" % (blank, blank, blank))
    stream = Stream(place, on_bad="skip")
    assert table_file.read(place).to_pylist() == next(iter(stream)).to_pylist() == [{"p": 1, "q": 2}, {"p": 3, "q": 4}]
    assert not stream.left_out
    place.write_bytes(b"p\n1\n%s\n2\n" % blank)
    assert table_file.read(place)["p"].to_pylist() == [1, None, 2]
    place.write_bytes(b"p,q\n1,2\n%s\n3\n" % blank)
    with pytest.raises(fgrn.TableFileError, match="row 1, line 4"):
        table_file.read(place)


def test_blanks_between_values_that_blanks_separate_are_values(place: Path) -> None:
    place.write_bytes(b"p q\n1 2\n \n3 4\n")
    assert table_file.read(place, delimiter=" ")["p"].to_pylist() == [1, None, 3]


def test_a_wide_header_and_long_names_are_read(place: Path) -> None:
    names = [f"column {number:05} " + "n" * 900 for number in range(1_200)]
    place.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert place.stat().st_size > 2**20
    assert table_file.read(place).column_names == names
    assert next(iter(Stream(place))).column_names == names


def messages(place: Path) -> Iterator[str]:
    for use in (table_file.read, lambda place: list(Stream(place)), lambda place: list(Stream(place).once())):
        with pytest.raises(fgrn.TableFileError) as caught:
            use(place)
        yield str(caught.value)


@pytest.mark.parametrize("head", ["p,", "p,q\n1,", "p,q\n", ""])
def test_a_value_that_is_too_long_is_an_error(head: str, place: Path) -> None:
    place.write_text(head + "x" * 140_000 + "\n1,2\n")
    found = set(messages(place))
    assert len(found) == 1
    assert "more than 65,536 bytes" in found.pop() or head == "p,q\n"


@pytest.mark.parametrize("text", [b"x" * 5_000, b"p,q\n1," + b"yx" * 5_000, b'p,q\n1,"' + b"2\n" * 5_000 + b'"\n'])
def test_a_row_without_an_end_is_an_error_before_all_of_it_is_read(
    text: bytes, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_records, "LONGEST_ROW", 2_000)
    place.write_bytes(text)
    found = set(messages(place))
    for block in (64, 100_000):
        monkeypatch.setattr(text_reader, "PARSED_BYTES", block)
        found |= set(messages(place))
    assert len(found) == 1
    assert f"line {1 + text.startswith(b'p')}: a row of more than 2,000 bytes" in found.pop()
    source = Pieces(text * 100)
    with pytest.raises(fgrn.TableFileError, match="more than 2,000"):
        list(record_blocks(source, "it", ",", 64))
    assert source.at < 3_000


def test_a_small_gzip_file_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"p,q\n" + b"1,2\n" * 100_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    monkeypatch.setattr(text_source, "UNPACKED_LIMIT", 100_000)
    with pytest.raises(fgrn.TableFileError, match=r"unpacks to more than 100,\d+ bytes, the limit.*fgrn\.Stream"):
        table_file.read(tmp_path / "a.csv.gz")
    assert sum(table.num_rows for table in Stream(tmp_path / "a.csv.gz")) == 100_000
    monkeypatch.setattr(text_source, "UNPACKED_RATIO", 2_000)
    assert table_file.read(tmp_path / "a.csv.gz").num_rows == 100_000
    data = io.BytesIO()
    parquet.write_table(pa.table({"p": np.zeros(100_000)}), data, compression="none", use_dictionary=False)
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress(data.getvalue()))
    monkeypatch.setattr(text_source, "UNPACKED_RATIO", 10)
    for use in (table_file.read, lambda place: list(Stream(place))):
        with pytest.raises(fgrn.TableFileError, match="unpacks to more than"):
            use(tmp_path / "b.parquet.gz")


@pytest.mark.parametrize("encoding", ["ascii", "utf-16-le", "gb18030", "cp1252"])
@pytest.mark.parametrize("block", [1, 7, 2**22])
def test_bytes_that_are_not_in_the_encoding_are_an_error_after_what_comes_before(
    encoding: str, block: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_reader, "PARSED_BYTES", block)
    bad = {"ascii": b"\xe9", "utf-16-le": b"\x00\xdc", "gb18030": b"\xff", "cp1252": b"\x81"}[encoding]
    place.write_bytes("p,q\r\n1,2\r\n".encode(encoding) + bad + ",3\r\n".encode(encoding))
    for use in (table_file.read, Stream):
        with pytest.raises(fgrn.TableFileError, match=r"a\.csv', line 3: this is not"):
            list(use(place, encoding=encoding))
    place.write_bytes("p,q\n1,2\n3\n".encode(encoding) + bad)
    for use in (table_file.read, Stream):
        with pytest.raises(fgrn.TableFileError, match=r"row 1, line 3: 1 value"):
            list(use(place, encoding=encoding))


@pytest.mark.parametrize("encoding", ["hex", "rot13", "a\0b", "undefined", "klingon"])
def test_what_is_no_encoding_is_told(encoding: str, place: Path) -> None:
    place.write_bytes(b"p,q\n1,2\n")
    for use in (table_file.read, Stream):
        with pytest.raises(fgrn.TableFileError, match="encoding"):
            list(use(place, encoding=encoding))


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return the bytes with some changed, removed, repeated or cut off."""
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(out))
        match draw.randrange(5):
            case 0:
                out[place] = draw.randrange(256)
            case 1:
                out[place] = draw.choice(b'",;\n\r\t\x00\xff')
            case 2:
                del out[place : place + draw.randint(1, 9)]
            case 3:
                out[place:place] = out[place : place + draw.randint(1, 30)]
            case _:
                del out[max(place, 1) :]
        if not out:
            break
    return bytes(out)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "parquet.gz"])
def test_damaged_files_are_tables_or_errors_of_ours(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    table = pa.table({"word": ["red", 'a "b", c', None] * 9, "n": [1, None, 3] * 9, "x": [0.5, 2.0, -1e9] * 9})
    place = tmp_path / f"a.{kind}"
    table_file.write(table, place)
    whole = place.read_bytes()
    read = 0
    for _ in range(60):
        place.write_bytes(damaged(whole, draw))
        ours, theirs = in_memory(place), outcome(lambda: walked(Stream(place)))
        read += isinstance(theirs[0][0], list)
        if "parquet" not in kind:
            assert ours == theirs
        outcome(lambda: [batch.frame for batch in Stream(place, on_bad="skip").once()])
    assert read or kind not in ("csv", "tsv")
