"""Truncated, altered or made-up network files give an error with a line or a document, and never take long."""

from __future__ import annotations

import gzip
import random
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import TEXTS, documents, example
from hypothesis import given
from hypothesis import strategies as st

from fgrn.bayes.document import Document, WrittenTable
from fgrn.core.exceptions import NetworkFileError
from fgrn.files import formats
from fgrn.files.formats import FORMATS, READ_ONLY, builder, read_document, uai

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::fgrn.RescaledTableWarning"),
]  # a changed digit, and a sum

MODULES: dict[str, Any] = {name: import_module(f"fgrn.files.formats.{name}") for name in (*FORMATS, *READ_ONLY)}
EXAMPLES = {name: MODULES[name].serialise(example()) for name in FORMATS} | TEXTS


def survives(format: str, text: str) -> Document | None:
    """Return the document in a text, or None if it is refused with a line."""
    begin = time.thread_time()
    try:
        document: Document | None = MODULES[format].parse(text, "file")
    except NetworkFileError as error:
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + 1, str(error)
        assert f"line {error.line}" in str(error)
        document = None
    assert time.thread_time() - begin < 5
    return document


@pytest.mark.parametrize("format", EXAMPLES)
def test_a_file_that_was_cut_anywhere(format: str) -> None:
    text = EXAMPLES[format]
    whole = survives(format, text)
    assert whole is not None
    for end in range(len(text)):
        found = survives(format, text[:end])
        if found is not None:  # only an end that says nothing, or the last digits, can be missing
            assert list(found.states) == list(whole.states)


@pytest.mark.parametrize("name", ["alarm", "child", "water", "hepar2"])
def test_a_network_of_the_repository_that_was_cut(name: str, shared_data: Path) -> None:
    text = (shared_data / "bif" / f"{name}.bif").read_text(encoding="utf-8")
    random.seed(name)
    for _ in range(25):
        survives("bif", text[: random.randrange(len(text))])


@pytest.mark.parametrize("name", ["Grids_12", "CSP_12", "Promedus_24", "merlin_small_no_solution/ChestClinic"])
def test_a_problem_of_the_competition_that_was_cut(name: str, shared_data: Path) -> None:
    text = (shared_data / "uai" / f"{name}.uai").read_text(encoding="utf-8")
    random.seed(name)
    for _ in range(40):
        survives("uai", text[: random.randrange(len(text))])


@pytest.mark.parametrize("format", EXAMPLES)
@given(data=st.data())
def test_bytes_that_were_changed(format: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = bytearray(EXAMPLES[format].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("changed") / f"file.{format}"
    path.write_bytes(bytes(raw))
    try:
        document = read_document(path, format)
    except NetworkFileError as error:
        assert "file" in str(error)
    else:
        assert document.states


@pytest.mark.parametrize("format", EXAMPLES)
@given(data=st.data())
def test_control_characters_of_a_file_are_not_in_messages(format: str, data: st.DataObject) -> None:
    """No error message makes a terminal change its colours."""
    hostile = data.draw(
        st.sampled_from(["\x9b31m", "\u202e"] if format.startswith("x") else ["\x1b[31m", "\x07", "\x9b31m"])
    )
    text = EXAMPLES[format]
    for word in ("smoke", "yes", "lung", "bad"):
        text = text.replace(word, word + hostile) if data.draw(st.booleans()) else text
    place = data.draw(st.integers(0, len(text) - 1))
    text = text[:place] + data.draw(st.sampled_from(["", "9", hostile, "(", ";", "x"])) + text[place + 1 :]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            MODULES[format].parse(text, "file")
            said = ""
        except NetworkFileError as error:
            said = str(error)
    for one in (said, *(str(warning.message) for warning in caught)):
        assert one.isprintable(), repr(one)


@pytest.mark.parametrize("format", EXAMPLES)
@given(data=st.data())
def test_pieces_in_any_order(format: str, data: st.DataObject) -> None:
    text = MODULES[format].serialise(data.draw(documents(directed=False))) if format == "uai" else EXAMPLES[format]
    lines = text.split("\n")
    survives(format, "\n".join(data.draw(st.lists(st.sampled_from(lines), max_size=len(lines)))))
    survives(format, "\n".join(data.draw(st.permutations(lines))))


# What a file claims and does not hold

HUGE = "9" * 5000
BIF_HEAD = "network n { }\n" + "".join(
    f"variable v{n} {{ type discrete [ 4 ] {{ a, b, c, d }}; }}\n" for n in range(40)
)
MANY = ", ".join(f"v{n}" for n in range(1, 40))


@pytest.mark.parametrize(
    ("format", "text", "said"),
    [
        ("bif", "network n { }\nvariable v { type discrete [ 1000000000 ] { a, b }; }", "have 1000000000 states"),
        ("bif", f"network n {{ }}\nvariable v {{ type discrete [ {HUGE} ] {{ a, b }}; }}", "should have 9999"),
        ("bif", f"{BIF_HEAD}probability ( v0 | {MANY} ) {{ table 0.5, 0.5; }}", "2 values instead of more than 10^18"),
        ("bif", f"{BIF_HEAD}probability ( v0 | {MANY} ) {{ default 0.25, 0.25, 0.25, 0.25; }}", "does not hold"),
        ("bif", f"{BIF_HEAD}probability ( v0 | v1, v2 ) {{ ( a, a ) 0.25, 0.25, 0.25, 0.25; }}", "1 rows of 16"),
        ("uai", "MARKOV\n1000000000\n2 2\n1\n", "the number of variables is 1,000,000,000"),
        ("uai", f"MARKOV\n{HUGE}\n2 2\n1\n", "more than 10"),
        ("uai", "MARKOV\n2\n1000000000 2\n1\n1 0\n1000000000\n1 1\n", "too few numbers"),
        ("uai", "MARKOV\n2\n70000 2\n1\n1 1\n2\n1 1\n", "variable 0 has 70,000 states"),
        ("dne", f"bnet n {{ node a {{ numstates = {HUGE}; probs = (1); }}; }};", "has no states"),
        ("dne", "bnet n { node a { numstates = 99999999; probs = (1); }; };", "has no states"),
        ("dsc", f"node a {{ type: discrete[{HUGE}] = {{ x }}; }}", "but 1 are named"),
        ("dsc", "".join(f"node v{n} {{ type: discrete[4] = {{ a, b, c, d }}; }}\n" for n in range(40))
         + f"probability ( v0 | {MANY} ) {{ default: 0.25, 0.25, 0.25, 0.25; }}", "does not hold"),
        ("uai", "MARKOV\n2\n10000 10000\n1\n2 0 1\n100000000\n1 1\n", "only 2 follow"),
        ("uai", "MARKOV\n2\n2 2\n999999999\n1 0\n", "the number of factors is 999,999,999"),
        ("uai", "MARKOV\n2\n2 2\n1\n999999999 0\n", "the number of variables of factor 1 is 999,999,999"),
        ("net", "".join(f'node v{n} {{ states = ("a" "b" "c" "d"); }}\n' for n in range(40))
         + f"potential ( v0 | {MANY.replace(',', '')} ) {{ }}", "does not hold"),
        ("xdsl", "<smile><nodes>" + "".join(f'<cpt id="v{n}"><state id="a"/><state id="b"/></cpt>' for n in range(40))
         + f'<deterministic id="w"><state id="a"/><parents>{" ".join(f"v{n}" for n in range(40))}</parents>'
         "<resultingstates>a</resultingstates></deterministic></nodes></smile>", "has no <probabilities>"),
    ],
)  # fmt: skip
def test_a_large_claim_in_a_small_file_fails_quickly(format: str, text: str, said: str) -> None:
    begin = time.thread_time()
    with pytest.raises(NetworkFileError) as caught:
        MODULES[format].parse(text, "claim")
    assert said in str(caught.value)
    assert caught.value.line is not None
    assert time.thread_time() - begin < 1


def test_abbreviated_tables_share_one_limit() -> None:
    """Each table is within the limit, but not all together."""
    parents = ", ".join(f"v{n}" for n in range(1, 10))
    tables = [f"probability ( v{n} | {parents} ) {{ default 1, 0, 0, 0; }}\n" for n in range(10, 40)]
    with pytest.raises(NetworkFileError, match="all such tables together"):
        MODULES["bif"].parse(BIF_HEAD + "".join(tables), "claim")
    with pytest.raises(NetworkFileError, match="variable 'v0' has no table"):
        MODULES["bif"].parse(BIF_HEAD + tables[0], "claim")


@pytest.mark.parametrize("more", [0, 10_000, 10**6])
def test_what_a_file_may_leave_unwritten_grows_with_its_size(more: int) -> None:
    """A table of 2^21 values is refused from a file of two kilobytes, and read from a larger one."""
    head = "".join(f"variable v{n} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for n in range(21))
    head += "".join(f"probability ( v{n} ) {{ table 1, 0; }}\n" for n in range(20))
    text = f"{head}probability ( v20 | {', '.join(f'v{n}' for n in range(20))} ) {{ default 1, 0; }}" + " " * more
    room = min(builder.EXPANSION_BASE + builder.EXPANSION_SHARE * len(text), builder.EXPANSION_LIMIT)
    if room < 2**21:
        with pytest.raises(
            NetworkFileError, match=rf"2,097,152 values that the file does not hold.*may have {room:,}\."
        ):
            MODULES["bif"].parse(text, "claim")
    else:
        assert MODULES["bif"].parse(text, "claim").factors[-1].values.size == 2**21


def test_evidence_of_many_samples_is_bounded_by_the_size_of_the_file() -> None:
    count = 4000
    sparse = f"{count}\n" + "".join(f"1 {n} 0\n" for n in range(count))
    with pytest.raises(NetworkFileError, match=r"4,000 samples name 4,000 variables, a table of 16,000,000 cells"):
        uai.parse_evidence(sparse, "claim")
    few = uai.parse_evidence("1000\n" + "".join(f"1 {n} 0\n" for n in range(1000)), "few")
    assert len(few) == 1000
    rows = [f"20 {' '.join(f'{n} 0' for n in range(first, first + 20))}\n" for first in range(0, 300, 20)]
    dense = uai.parse_evidence(f"{count}\n" + "".join(rows[n % len(rows)] for n in range(count)), "dense")
    assert sum(state is not None for states in dense.values() for state in states) == 20 * count
    assert len(dense) * count > uai.CELLS_BASE


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("bif", "network n { " + "/* " * 200_000),
        ("bif", '"' * 400_000),
        ("bif", "( " * 200_000),
        ("bif", "network n { }\nprobability ( " + "a, " * 200_000),
        ("bif", "network n { property " + '"a" ' * 100_000),
        ("net", '"' + "\\" * 400_001),
        ("net", "net { a = " + "( " * 200_000),
        ("net", "%" * 400_000),
        ("net", 'node a { states = ("x"); } potential (a) { data = (' + "0.25 0.125\n" * 100_000 + "x); }"),
        ("xmlbif", "<BIF>" * 100_000),
        ("xmlbif", "<BIF><NETWORK>" + "<!-- " * 100_000),
        ("xdsl", "<smile>" + "<nodes/>" * 100_000),
        ("uai", "MARKOV\n" + "1 " * 400_000),
        (
            "xdsl",
            '<smile><nodes><cpt id="a"><property id="fgrn_states">'
            + "[" * 200_000
            + "</property></cpt></nodes></smile>",
        ),
        ("bif", "network n { " + "property " * 100_000),
        ("bif", "network n { " + "property / " * 50_000 + "/*"),
        ("bif", "x//y\n" * 100_000),
        ("bif", "probability ( " + "a | " * 200_000),
        ("bif", "probability ( " + '"a" ' * 100_000 + ") {}"),
        ("net", "/" * 400_000),
        ("net", "net { a = " + "/ " * 200_000),
        ("net", "class C { " + "a = 1; " * 50_000),
        ("dne", "bnet n " + "{ a " * 100_000),
        ("dne", "bnet n { a = " + "{ b = " * 100_000),
        ("dne", "bnet n { a = " + "/* " * 50_000),
        ("dne", "bnet n { a = b; c /*" + " /*" * 50_000),
        ("dne", "bnet n { a = " + '"' * 400_001),
        ("dne", "bnet n { " + "a " * 50_000),
        ("dsc", "node a " + "{ " * 50_000),
        ("dsc", "other " + "{ " * 50_000),
        ("dsc", "/* " * 50_000),
        ("dsc", "probability ( a | " + "a, " * 50_000),
        ("uai", "MARKOV 100000 " + "1 " * 400_000 + "x"),
    ],
)
def test_long_nonsense_is_refused_quickly(format: str, text: str) -> None:
    assert survives(format, text) is None


def test_names_nearly_like_the_missing_one_are_not_sought_for_ever() -> None:
    variables = "".join(f"variable {'a' * 3000}{n} {{ type discrete [ 1 ] {{ s }}; }}\n" for n in range(300))
    assert survives("bif", f"{variables}probability ( {'a' * 3000}x ) {{ table 1; }}") is None


def test_entities_are_refused() -> None:
    bomb = '<!DOCTYPE BIF [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><BIF><NETWORK><NAME>&b;</NAME></NETWORK></BIF>'
    for format in ("xmlbif", "xdsl"):
        with pytest.raises(NetworkFileError, match="declares an entity"):
            MODULES[format].parse(bomb, "bomb")


# Packed files


def test_a_packed_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    path = tmp_path / "bomb.bif.gz"
    path.write_bytes(gzip.compress(b" " * (formats.PLAIN_LIMIT + 2**21), 9))
    begin = time.thread_time()
    with pytest.raises(NetworkFileError, match="which is not a network"):
        read_document(path)
    assert time.thread_time() - begin < 2


def test_a_text_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "TEXT_LIMIT", 100)
    text = MODULES["bif"].serialise(example()).encode()
    for name, data in (("large.bif", text), ("large.bif.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(NetworkFileError, match=r"more than 100 bytes.*TEXT_LIMIT"):
            read_document(tmp_path / name)


def test_packed_files_that_were_cut_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "file.bif.gz"
    data = gzip.compress(MODULES["bif"].serialise(example()).encode())
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(NetworkFileError):
            read_document(path)
    rng = random.Random(0)
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(changed))
        try:
            assert read_document(path) == example()  # a change in the header says nothing
        except NetworkFileError as error:
            assert "file.bif.gz" in str(error)


def test_evidence_that_was_cut_or_changed() -> None:
    text = "2\n3 0 1 4 0 7 2\n1 5 1\n"
    for end in range(len(text)):
        try:
            uai.parse_evidence(text[:end], "evidence")
        except NetworkFileError as error:
            assert error.line is not None


def test_large_tables_are_read_in_a_second_or_two() -> None:
    """As large as the largest files of the repository: two megabytes, with rows of many numbers and of few."""
    rng = np.random.default_rng(0)
    states = {f"v{n}": tuple(f"s{k}" for k in range(5)) for n in range(400)}
    names = list(states)
    factors = []
    for place, name in enumerate(names):
        parents = names[max(0, place - 3) : place]
        values = rng.dirichlet(np.ones(5), size=(5,) * len(parents)).reshape((5,) * (len(parents) + 1))
        factors.append(WrittenTable((*parents, name), values))
    document = Document(states, tuple(factors), True)
    for format in FORMATS:
        text = MODULES[format].serialise(document)
        assert len(text) > 2e6
        begin = time.thread_time()
        MODULES[format].parse(text, "large")
        assert time.thread_time() - begin < 10  # about one; more would be more than slowness of the machine
