"""Rows of tables that do not sum to one: kept if rounded, divided by their sum, or refused."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import fgrn
from fgrn.bayes.document import Document
from fgrn.cli import main
from fgrn.core.exceptions import FgrnError, NetworkFileError
from fgrn.files.formats import read_document

ROWS = {
    "bif": "variable a { type discrete [ 3 ] { x, y, z }; }\nprobability ( a ) { table %s, %s, %s; }\n",
    "xmlbif": "<BIF><NETWORK><VARIABLE><NAME>a</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME><OUTCOME>z</OUTCOME>"
    "</VARIABLE>\n<DEFINITION><FOR>a</FOR><TABLE>%s %s %s</TABLE></DEFINITION></NETWORK></BIF>",
    "net": 'node a { states = ("x" "y" "z"); }\npotential ( a ) { data = ( %s %s %s ); }\n',
    "xdsl": '<smile><nodes><cpt id="a"><state id="x"/><state id="y"/><state id="z"/>\n'
    "<probabilities>%s %s %s</probabilities></cpt></nodes></smile>",
    "uai": "BAYES 1 3 1 1 0\n3 %s %s %s\n",
    "dsc": 'node a { type: discrete [3] = { "x", "y", "z" }; }\nprobability ( a ) { %s, %s, %s; }\n',
    "dne": "bnet n { node a { states = (x, y, z);\nprobs = (%s, %s, %s); }; };",
}
"""A network of one variable in each format, with its table in line 2."""


def written(folder: Path, format: str, *row: object) -> Path:
    path = folder / f"file.{format}"
    path.write_text(ROWS[format] % row, encoding="utf-8")
    return path


def values(document: Document) -> list[float]:
    found: list[float] = document.factors[0].values.tolist()
    return found


@pytest.mark.parametrize("format", ROWS)
def test_a_row_that_was_rounded_is_kept_and_says_nothing(format: str, tmp_path: Path) -> None:
    path = written(tmp_path, format, 0.33333, 0.33333, 0.33333)
    assert values(read_document(path, format)) == [0.33333] * 3
    assert values(read_document(path, format, rescale=False)) == [0.33333] * 3
    model = fgrn.read(path, format)
    assert values(model.to_document()) == [0.33333] * 3
    assert model.propagate().marginal(model.names[0])[0] == pytest.approx([1 / 3] * 3, abs=1e-15)


@pytest.mark.parametrize("format", ROWS)
@pytest.mark.parametrize("row", [(0.333, 0.333, 0.333), (0.3, 0.3002, 0.4), (0.29, 0.3, 0.4), (0.31, 0.3, 0.4)])
def test_a_row_near_one_is_divided_by_its_sum_with_a_warning(
    format: str, row: tuple[float, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, format, *row)
    said = rf"line 2: the table of '\w+' summed to {sum(row):.9g}"
    with pytest.warns(fgrn.RescaledTableWarning, match=said) as caught:
        document = read_document(path, format)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert values(document) == pytest.approx(np.array(row) / sum(row), abs=1e-16)
    assert not document.factors[0].values.flags.writeable
    with pytest.raises(NetworkFileError, match=r"not to 1\..*rescale=True") as refused:
        read_document(path, format, rescale=False)
    assert refused.value.line == 2
    with pytest.warns(fgrn.RescaledTableWarning, match="summed to"):
        assert values(fgrn.read(path, format).to_document()) == values(document)


@pytest.mark.parametrize("format", ROWS)
def test_counts_are_divided_by_their_sum_if_asked_for(format: str, tmp_path: Path) -> None:
    path = written(tmp_path, format, 10, 90, 0)
    with pytest.raises(NetworkFileError, match=r"sums to 100, not to 1.*rescale=True"):
        read_document(path, format)
    for rescale in (True, 99, np.float64(1e9)):
        with pytest.warns(fgrn.RescaledTableWarning, match="summed to 100"):
            assert values(read_document(path, format, rescale=rescale)) == [0.1, 0.9, 0.0]
    with pytest.raises(NetworkFileError, match="sums to 100"):
        read_document(path, format, rescale=98)


@pytest.mark.parametrize("format", ROWS)
def test_a_number_just_below_zero_is_read_as_zero(format: str, tmp_path: Path) -> None:
    with pytest.warns(fgrn.RescaledTableWarning, match=r"line 2: value 1 of the table of '\w+' was -1.2e-07"):
        document = read_document(written(tmp_path, format, -1.2e-7, 0.4, 0.6), format)
    assert values(document) == [0.0, 0.4, 0.6]
    with pytest.raises(NetworkFileError, match=r"is -0\.1"):
        read_document(written(tmp_path, format, -0.1, 0.5, 0.6), format, rescale=True)


@pytest.mark.parametrize("format", [one for one in ROWS if one != "uai"])
@pytest.mark.parametrize("row", [(0, 0, 0), (1e308, 1e308, 0)])
def test_rows_without_a_sum_are_refused_always(format: str, row: tuple[float, ...], tmp_path: Path) -> None:
    with pytest.raises(NetworkFileError, match=r"sums to (0|inf), not to 1\. Correct its numbers\.$"):
        read_document(written(tmp_path, format, *row), format, rescale=True)


@pytest.mark.parametrize("wrong", [-1, "yes", float("nan"), float("inf"), None])
def test_a_bound_is_a_number(wrong: object, tmp_path: Path) -> None:
    with pytest.raises(FgrnError, match="'rescale' must be finite and not negative"):
        read_document(written(tmp_path, "bif", 1, 0, 0), rescale=wrong)  # type: ignore[arg-type]


MANY = "".join(f"variable {name} {{ type discrete [ 2 ] {{ x, y }}; }}\n" for name in "abcde") + "".join(
    f"probability ( {name} | {other} ) {{ (x) 0.1, 0.899; (y) 0.2, 0.801; }}\n" for other, name in pairwise("abcde")
)


def test_one_warning_names_the_first_tables_and_counts_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "file.bif"
    path.write_text(MANY + "probability ( a ) { table 0.5, 0.5; }\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        document = read_document(path)
    assert [str(one.message) for one in caught] == [
        "file.bif: rows that do not sum to 1 were divided by their sum. line 6: the table of 'b' for a=x summed to "
        "0.999, and 1 more of its rows; line 7: the table of 'c' for b=x summed to 0.999, and 1 more of its rows; "
        "line 8: the table of 'd' for c=x summed to 0.999, and 1 more of its rows; and 1 more tables."
    ]
    for factor in document.factors:
        assert factor.values.sum(axis=-1) == pytest.approx(1, abs=1e-15)


def test_the_command_divides_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "net", 10, 90, 0)
    target = tmp_path / "out.bif"
    calls = [
        ["query", str(path), "--target", "a", "--json"],
        ["inspect", str(path)],
        ["convert", str(path), str(target)],
        ["draw", str(path), "-o", str(tmp_path / "a.svg")],
    ]
    for call in calls:
        assert main(call) == 1
        assert "with --rescale." in capsys.readouterr().err
        assert main([*call, "--rescale"]) == 0
        assert "line 2: the table of 'a' summed to 100." in capsys.readouterr().err
    assert values(read_document(target)) == [0.1, 0.9, 0.0]
    assert main(["query", str(written(tmp_path, "net", 0.3, 0.3, 0.399)), "--json"]) == 0
    assert "summed to 0.999" in capsys.readouterr().err
