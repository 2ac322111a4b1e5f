"""Variables, blocks and their wiring: error messages, and networks as values."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Evidence, SmallNetwork, loopy_networks, networks, networks_with_evidence

import fgrn
from fgrn import SISO, Diverter, Network, Source, TableError, UnknownNameError, Variable, WiringError

A, B, C, D, S = (Variable(name, 2) for name in "ABCDS")
THREE = Variable("Three", 3)
TABLE = [[0.75, 0.25], [0.1, 0.9]]
NAN, INFINITY = float("nan"), float("inf")

Make = Callable[[], object]


def small() -> Network:
    """One Source, one Diverter, a free table and a frozen, tied one."""
    Y1, Y2 = Variable("Y1", ["no", "yes"]), Variable("Y2", 3)
    return Network(
        [Source(S, [0.3, 0.7]), Diverter([S], [A, B]), SISO(A, Y1, TABLE),
         SISO(B, Y2, [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], learn=False, tie="shared")]
    )  # fmt: skip


def two_layers() -> Network:
    """A root over two Diverters, each over two leaves."""
    names = ["T", "T1", "T2", "H1", "H2", "H1a", "H1b", "H2a", "H2b", "Ya", "Yb", "Yc", "Yd"]
    T, T1, T2, H1, H2, H1a, H1b, H2a, H2b, Ya, Yb, Yc, Yd = (Variable(name, 2) for name in names)
    return Network(
        [Source(T), Diverter([T], [T1, T2]), SISO(T1, H1), SISO(T2, H2), Diverter([H1], [H1a, H1b]),
         Diverter([H2], [H2a, H2b]), SISO(H1a, Ya), SISO(H1b, Yb), SISO(H2a, Yc), SISO(H2b, Yd)]
    )  # fmt: skip


# Variables


@pytest.mark.parametrize("name", [None, "", "  ", "\t\n", 3, b"Y", ["Y"], NAN])
def test_a_variable_needs_a_name_that_is_a_string_and_not_blank(name: Any) -> None:
    with pytest.raises(WiringError, match="needs a name, a string that is not blank") as raised:
        Variable(name, 2)
    assert repr(name) in str(raised.value)


def test_a_variable_cannot_be_made_without_a_name() -> None:
    with pytest.raises(TypeError):
        Variable(states=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("states", [True, np.True_, None, "abc", 2.5, 2.0, NAN, INFINITY, object])
def test_states_are_a_number_or_a_list_of_labels(states: Any) -> None:
    with pytest.raises(WiringError, match=r"Variable 'X': the states are a number or a list of labels. Got "):
        Variable("X", states)


@pytest.mark.parametrize("states", [0, -3, np.int64(0), [], (), np.array([])])
def test_a_variable_needs_a_state(states: Any) -> None:
    with pytest.raises(WiringError, match=r"Variable 'X' needs at least one state. Got "):
        Variable("X", states)


@pytest.mark.parametrize("label", [None, NAN, np.nan, np.float64("nan"), ["a"], ("a",), b"a", 1j, object()])
def test_a_label_is_a_string_a_number_or_a_boolean(label: Any) -> None:
    with pytest.raises(WiringError, match="Variable 'X': a label is a string, a number or a boolean;"):
        Variable("X", ["a", label])


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (["a", "b", "a"], ": a."),
        ([1, 2, 2, 1], ": 1, 2."),
        ([1, True], ": 1, True."),
        ([0.0, 1.0, 1], ": 1, 1.0."),
        (np.array(["a", "a"]), ": a."),
    ],
)
def test_labels_are_all_different(labels: Any, named: str) -> None:
    with pytest.raises(WiringError, match="Variable 'X' has states with the same label") as raised:
        Variable("X", labels)
    assert str(raised.value).endswith(named)


def test_many_labels_that_are_there_twice_are_refused_at_once() -> None:
    """Comparing all pairs would take hours."""
    with pytest.raises(WiringError, match=r"same label: .*more"):
        Variable("X", [f"level {number % 200_000}" for number in range(400_000)])


def test_labels_that_have_no_order_are_refused() -> None:
    """The order of a set of strings differs between processes."""
    with pytest.raises(WiringError, match="order"):
        Variable("X", {"no", "yes"})


def test_labels_from_zero_on_are_the_same_as_their_number() -> None:
    for states in ([0, 1, 2], (0, 1, 2), range(3), np.arange(3), np.int8(3), iter([0, 1, 2])):
        assert Variable("X", states) == Variable("X", 3)
        assert hash(Variable("X", [0, 1, 2])) == hash(Variable("X", 3))
    numbered = Variable("X", [0, 1, 2])
    assert not numbered.is_labelled
    assert numbered.cardinality == 3
    assert repr(numbered) == "Variable('X', 3)"


@pytest.mark.parametrize("labels", [[1, 2, 3], ["0", "1", "2"], [0, 1, 3], [2, 1, 0], [0.0, 1.0, 2.0]])
def test_other_labels_are_not_the_same_as_their_number(labels: list[Any]) -> None:
    variable = Variable("X", labels)
    assert variable != Variable("X", 3)
    assert variable.is_labelled
    assert repr(variable) == f"Variable('X', {labels!r})"


def test_a_number_stands_for_a_label_only_where_nothing_else_can_be_meant() -> None:
    assert [Variable("X", ["a", "b"]).code(state) for state in ("b", 1)] == [1, 1]
    assert [Variable("X", ["0", "1", "more"]).code(state) for state in ("1", 1, 2)] == [1, 1, 2]
    for labels in (["1", "2"], ["1", "0"], ["0", "2"], ["0.0", "1"]):
        with pytest.raises(UnknownNameError):
            Variable("X", labels).code(1)


def test_labels_of_numpy_become_plain_ones() -> None:
    variable = Variable("X", [np.str_("a"), np.int64(3), np.float64(0.5), np.True_])
    assert variable == Variable("X", ["a", 3, 0.5, True])
    assert [type(label) for label in variable.labels] == [str, int, float, bool]


def test_a_variable_is_its_name_and_its_states() -> None:
    assert Variable("X", ["a", "b"]) == Variable("X", ("a", "b"))
    assert Variable("X", 2) != Variable("Y", 2)
    assert Variable("X", 2) != Variable("X", 3)
    assert Variable("X", ["a", "b"]) != Variable("X", ["b", "a"])
    assert len({Variable("X", 2), Variable("X", [0, 1]), Variable("X", 3)}) == 2
    assert eval(repr(Variable("X", ["a", 7, 0.5]))) == Variable("X", ["a", 7, 0.5])


def test_a_variable_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.name = "B"  # type: ignore[misc]


def test_a_state_is_found_by_its_label_or_where_labels_are_not_numbers_by_its_position() -> None:
    words = Variable("Y", ["no", "yes"])
    assert [words.code(state) for state in ("no", "yes", 0, 1, np.int64(1), np.str_("yes"))] == [0, 1, 0, 1, 1, 1]
    numbers = Variable("W", [2, 4])
    assert [numbers.code(state) for state in (2, 4, 4.0, np.int8(4))] == [0, 1, 1, 1]
    assert Variable("Z", 3).code(2) == 2


@pytest.mark.parametrize("state", [0, 1, 3, -1, "4", None, NAN, [4], np.array([2, 4]), 2.5])
def test_a_state_that_is_not_there_is_named_with_those_that_are(state: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"There is no state of 'W' called .* here") as raised:
        Variable("W", [2, 4]).code(state)
    assert "2, 4" in str(raised.value) or "Did you mean" in str(raised.value)


@pytest.mark.parametrize("state", [2, -1, "maybe", 0.5])
def test_a_position_that_is_not_there_is_named_too(state: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"There is no state of 'Y' called .* Known: no, yes"):
        Variable("Y", ["no", "yes"]).code(state)


# Blocks


@pytest.mark.parametrize(
    ("make", "block"),
    [
        (lambda: Source("A"), "Source"),
        (lambda: Source(None), "Source"),
        (lambda: SISO(A, "B"), "SISO"),
        (lambda: SISO(2, B), "SISO"),
        (lambda: Diverter([A], ["B"]), "Diverter"),
        (lambda: Diverter("AB", [B]), "Diverter"),
        (lambda: Diverter([A, None], [B]), "Diverter"),
        (lambda: Diverter([Source(A)], [B]), "Diverter"),
    ],
)
def test_blocks_join_variables(make: Make, block: str) -> None:
    with pytest.raises(WiringError, match=f"A {block} joins Variables. Got .* instead"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Diverter(A, [B]),
        lambda: Diverter([A], B),
        lambda: Diverter(None, [B]),
        lambda: Diverter([A], None),
        lambda: Diverter([A], 2),
    ],
)
def test_a_diverter_takes_two_lists(make: Make) -> None:
    with pytest.raises(WiringError, match="two lists of variables"):
        make()


@pytest.mark.parametrize("make", [lambda: Diverter([], [A]), lambda: Diverter([A], []), lambda: Diverter([], [])])
def test_a_diverter_needs_an_input_and_an_output(make: Make) -> None:
    with pytest.raises(WiringError, match="at least one input and one output"):
        make()


@pytest.mark.parametrize(
    ("make", "twice"),
    [
        (lambda: Diverter([A], [A, B]), "'A'"),
        (lambda: Diverter([A], [B, C, B]), "'B'"),
        (lambda: Diverter([A, A], [Variable("P", 4)]), "'A'"),
    ],
)
def test_a_variable_is_on_a_diverter_once(make: Make, twice: str) -> None:
    with pytest.raises(WiringError, match=f"Diverter .*: {twice} is on it more than once"):
        make()


def test_a_siso_does_not_lead_to_its_own_input() -> None:
    with pytest.raises(WiringError, match="SISO 'A' -> 'A': input and output are the same variable"):
        SISO(A, A)
    with pytest.raises(WiringError, match="SISO 'A' -> 'A': input and output are the same variable"):
        SISO(A, Variable("A", 3))


def test_outputs_of_a_diverter_have_as_many_states_as_its_input() -> None:
    with pytest.raises(
        WiringError, match=r"\[A\] -> \[B, Three\]: output 'Three' has 3 states; it needs 2, as 'A' has"
    ):
        Diverter([A], [B, THREE])


def test_outputs_of_several_inputs_have_as_many_states_as_the_product_space() -> None:
    with pytest.raises(WiringError, match="output 'P' has 5 states; it needs 2 x 3 = 6"):
        Diverter([A, THREE], [Variable("P", 5)])
    assert Diverter([A, THREE], [Variable("P", 6)]).size == 6


def test_labels_need_not_be_the_same_on_both_sides_of_a_diverter() -> None:
    assert Diverter([Variable("X", ["a", "b"])], [Variable("Y", ["c", "d"])]).size == 2


@pytest.mark.parametrize(
    ("inputs", "size"),
    [
        ([10**12], "1,000,000,000,000"),
        ([2**13, 2**14], "8192 x 16384 = 134,217,728"),
        ([10**6, 10**6, 10**6], "1,000,000,000,000,000,000"),
        ([10] * 30, "1" + ",000" * 10),
    ],
)
def test_a_product_space_beyond_the_limit_is_refused_with_its_size(inputs: list[int], size: str) -> None:
    variables = [Variable(f"V{number}", states) for number, states in enumerate(inputs)]
    with pytest.raises(WiringError, match=f"{size} states; the limit is 67,108,864") as raised:
        Diverter(variables, [A])
    assert "V0" in str(raised.value)


def test_a_product_space_at_the_limit_is_fine() -> None:
    assert Diverter([Variable("V", 2**26)], [Variable("W", 2**26)]).size == fgrn.graph.blocks.PRODUCT_SPACE_LIMIT


HUGE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
import fgrn
from fgrn import Diverter, Network, SISO, Source, Variable
try:
    {code}
except fgrn.FgrnError as error:
    print(type(error).__name__, error)
"""


def with_two_gigabytes(code: str) -> str:
    """What the code prints in a process of its own that may not have more than 2 GiB."""
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", HUGE.format(code=code)],
        capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_huge_variable_takes_no_memory_and_is_as_good_as_a_small_one() -> None:
    code = "v = Variable('X', 10**12); print(v, v.cardinality, v == Variable('X', 10**12), Source(v), v.code(10**11))"
    shown = "Variable('X', 1000000000000)"
    assert with_two_gigabytes(code) == f"{shown} 1000000000000 True Source({shown}) 100000000000"


def test_an_unknown_state_of_a_huge_variable_is_an_error_at_once() -> None:
    assert with_two_gigabytes("Variable('X', 10**12).code('a')").startswith("UnknownNameError There is no state of")


def test_a_variable_with_more_states_than_can_be_counted_is_refused_or_works() -> None:
    out = with_two_gigabytes("print(Variable('X', 10**30).cardinality)")
    assert out == str(10**30) or out.startswith("WiringError Variable 'X'")


@pytest.mark.parametrize(
    "blocks",
    [
        "[Source(Variable('X', 10**12))]",
        "[SISO(Variable('X', 10**6), Variable('Y', 10**6))]",
        "[SISO(Variable('X', 3 * 10**9), Variable('Y', 4 * 10**9))]",
    ],
)
def test_a_network_with_a_table_no_computer_holds_is_refused_with_its_size(blocks: str) -> None:
    out = with_two_gigabytes(f"Network({blocks})")
    assert out.startswith("WiringError")
    assert "'X'" in out or "'Y'" in out
    assert "1,000,000,000,000" in out or "12,000,000,000,000,000,000" in out


BAD_ROWS: list[tuple[Any, str]] = [
    ([[0.5, 0.4], [0.5, 0.5]], "must sum to 1, but row 0 sums to 0.9"),
    ([[0.5, 0.5], [0.5, 0.501]], "must sum to 1, but row 1 sums to 1.001"),
    ([[5, 5], [1, 9]], r"must sum to 1, but row 0 sums to 10 \(2 rows are wrong\)"),
    ([[0, 0], [1, 0]], "must sum to 1, but row 0 sums to 0"),
    ([[-0.5, 1.5], [0.5, 0.5]], "holds -0.5 in row 0; probabilities are finite and not negative"),
    ([[1, 0], [NAN, 1]], "holds nan in row 1; probabilities are finite"),
    ([[1, 0], [None, 1]], "holds nan in row 1; probabilities are finite"),
    ([[1, 0], [INFINITY, 1]], "holds inf in row 1; probabilities are finite"),
    ([[1, 0], [-INFINITY, 1]], "holds -inf in row 1; probabilities are finite"),
    ([[0.5, 0.1], [0.5, 0.9]], "must sum to 1, .* Its columns do: is it transposed?"),
    ([[0.5, 0.5]], r"must have the shape \(2, 2\): 2 states of 'A' by 2 of 'B'. Got \(1, 2\) instead"),
    ([0.5, 0.5], r"must have the shape \(2, 2\).* Got \(2,\) instead"),
    (np.full((1, 2, 2), 0.5), r"Got \(1, 2, 2\) instead"),
    (1.0, r"Got \(\) instead"),
    ([], r"Got \(0,\) instead"),
    ([[0.5, 0.5], [1.0]], "is not a rectangular array of numbers"),
    ([["a", "b"], ["c", "d"]], "is not a rectangular array of numbers"),
    ([["0.5", "0.5"], ["0.1", "0.9"]], "is not a rectangular array of numbers"),
    (np.array([["0.5", "0.5"], ["0.1", "0.9"]]), "is not a rectangular array of numbers"),
    ("uniform", "is not a rectangular array of numbers"),
    ({"no": [0.5, 0.5]}, "is not a rectangular array of numbers"),
    (np.array(TABLE, dtype=complex), "is not a rectangular array of numbers"),
]


@pytest.mark.parametrize(("table", "words"), BAD_ROWS)
def test_a_table_is_row_stochastic_and_of_the_right_shape(table: Any, words: str) -> None:
    with pytest.raises(TableError, match=f"^The table of 'B' .*{words}"):
        SISO(A, B, table)


def test_a_table_of_the_transposed_shape_looks_transposed() -> None:
    with pytest.raises(TableError, match=r"\(2, 3\): 2 states of 'A' by 3 of 'Three'. Got \(3, 2\) .*looks transposed"):
        SISO(A, THREE, np.full((3, 2), 0.5))


def test_the_bad_row_of_a_table_is_named_by_its_label() -> None:
    with pytest.raises(TableError, match=r"row 'yes' sums to 0.9"):
        SISO(Variable("X", ["no", "yes"]), B, [[0.5, 0.5], [0.5, 0.4]])


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ([0.5, 0.4], "must sum to 1, but it sums to 0.9"),
        ([5, 5], "must sum to 1, but it sums to 10"),
        ([0, 0], "must sum to 1, but it sums to 0"),
        ([-0.5, 1.5], "holds -0.5; probabilities are finite and not negative"),
        ([NAN, 1], "holds nan; probabilities are finite"),
        ([None, 1], "holds nan; probabilities are finite"),
        ([INFINITY, 1], "holds inf; probabilities are finite"),
        ([0.5, 0.25, 0.25], r"must have the shape \(2,\). Got \(3,\) instead"),
        ([[0.5, 0.5]], r"Got \(1, 2\) instead"),
        ([[0.5], [0.5]], r"Got \(2, 1\) instead"),
        (1.0, r"Got \(\) instead"),
        ([[0.5], [0.5, 1]], "is not a rectangular array of numbers"),
        (["a", "b"], "is not a rectangular array of numbers"),
        (["0.5", "0.5"], "is not a rectangular array of numbers"),
        ("uniform", "is not a rectangular array of numbers"),
        (np.array([0.5, 0.5], dtype=complex), "is not a rectangular array of numbers"),
    ],
)
def test_a_prior_is_a_distribution_of_the_right_shape(prior: Any, words: str) -> None:
    with pytest.raises(TableError, match=f"^The prior of 'A' .*{words}"):
        Source(A, prior)


def test_a_table_rounded_to_seven_digits_is_taken_and_made_exact() -> None:
    table = np.round(np.random.default_rng(0).dirichlet(np.ones(3), 2), 7)
    taken = SISO(A, THREE, table).table
    assert taken is not None
    np.testing.assert_allclose(taken, table, atol=1e-6)
    np.testing.assert_allclose(taken.sum(axis=1), 1, rtol=0, atol=4e-16)
    assert SISO(A, B, TABLE).table.tolist() == TABLE  # what is exact already stays as it is, bit for bit


def test_a_block_does_not_share_memory_with_what_it_was_given() -> None:
    table, prior, support = np.array(TABLE), np.array([0.5, 0.5]), np.ones((2, 2), dtype=bool)
    siso, source = SISO(A, B, table, support=support), Source(A, prior)
    table[:], prior[:], support[:] = 0, 0, False
    assert siso.table.tolist() == TABLE
    assert source.prior.tolist() == [0.5, 0.5]
    assert siso.support.all()


def test_the_arrays_of_a_block_are_read_only_and_stay_so_in_a_copy() -> None:
    blocks = [SISO(A, B, TABLE, support=np.ones((2, 2))), Source(A, [0.5, 0.5])]
    for block in [*blocks, *pickle.loads(pickle.dumps(blocks)), *copy.deepcopy(blocks)]:
        arrays = [block.table, block.support] if isinstance(block, SISO) else [block.prior]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


@pytest.mark.parametrize(
    ("support", "words"),
    [
        ([[1, 1]], r"its 'support' must have the shape \(2, 2\). Got \(1, 2\) instead"),
        ([1, 1], r"its 'support' must have the shape \(2, 2\). Got \(2,\) instead"),
        (True, r"Got \(\) instead"),
        ([[1, 1], [0, 0]], "its 'support' leaves row 1 without any cell"),
        ([[True, True], [True]], "'support'"),
        ([["a", "b"], ["c", "d"]], "'support'"),
        ([[NAN, 1], [1, 1]], "'support'"),
        ("diagonal", "'support'"),
    ],
)
def test_a_support_is_a_mask_of_the_shape_of_the_table(support: Any, words: str) -> None:
    with pytest.raises(TableError, match=f"^The table of 'B'.*{words}"):
        SISO(A, B, support=support)


def test_a_table_is_zero_outside_its_support() -> None:
    with pytest.raises(TableError, match="The table of 'B' is not zero where its 'support' says it must be"):
        SISO(A, B, TABLE, support=np.eye(2))
    assert SISO(A, B, np.eye(2), support=np.eye(2)).support.tolist() == [[True, False], [False, True]]


def test_a_table_not_given_is_uniform_over_its_support() -> None:
    net = Network([SISO(A, THREE, support=[[1, 1, 0], [0, 0, 1]])])
    assert net.table("Three").tolist() == [[0.5, 0.5, 0], [0, 0, 1]]
    assert Network([Source(THREE)]).prior("Three").tolist() == [1 / 3] * 3


@pytest.mark.parametrize("tie", [3, "", True, ["t"], b"t"])
def test_a_tie_is_a_name(tie: Any) -> None:
    with pytest.raises(WiringError, match=r"SISO 'B': 'tie' is the name of a shared table. Got .* instead"):
        SISO(A, B, tie=tie)


@pytest.mark.parametrize("make", [lambda: SISO(A, B, learn="no"), lambda: Source(A, learn="no")])
def test_whether_to_learn_is_yes_or_no_and_not_a_word(make: Make) -> None:
    with pytest.raises(fgrn.FgrnError, match="'learn'"):
        make()


# Wiring


def test_a_variable_on_three_blocks_is_refused_with_their_names_and_the_way_out() -> None:
    with pytest.raises(
        WiringError,
        match=r"Variable 'A' is on 3 blocks \(Source\(A\) and SISO\(A -> B\) and SISO\(A -> C\)\); an edge has two "
        "ends. Replicate it with a Diverter",
    ):
        Network([Source(A), SISO(A, B), SISO(A, C)])
    with pytest.raises(WiringError, match="Variable 'A' is on 3 blocks"):
        Network([Diverter([A], [B]), Diverter([A], [C]), Diverter([A], [D])])
    with pytest.raises(WiringError, match="Variable 'A' is on 4 blocks"):
        Network([Source(A), SISO(A, B), SISO(A, C), SISO(A, D)])


@pytest.mark.parametrize(
    ("blocks", "titles"),
    [
        ([Source(A), Source(A)], r"Source\(A\) and Source\(A\)"),
        ([Source(A), SISO(B, A)], r"Source\(A\) and SISO\(B -> A\)"),
        ([SISO(B, A), SISO(C, A)], r"SISO\(B -> A\) and SISO\(C -> A\)"),
        ([Source(A), Diverter([B], [A])], r"Source\(A\) and Diverter \[B\] -> \[A\]"),
    ],
)
def test_two_drivers_of_one_variable_are_reversed_directions(blocks: list[Any], titles: str) -> None:
    with pytest.raises(WiringError, match=f"Variable 'A' has reversed directions: {titles} both point at it"):
        Network(blocks)


@pytest.mark.parametrize(
    ("blocks", "titles"),
    [
        ([SISO(A, B), SISO(A, C)], r"SISO\(A -> B\) and SISO\(A -> C\)"),
        ([SISO(A, B), Diverter([A], [C, D])], r"SISO\(A -> B\) and Diverter \[A\] -> \[C, D\]"),
    ],
)
def test_two_readers_of_one_variable_are_reversed_directions(blocks: list[Any], titles: str) -> None:
    with pytest.raises(WiringError, match=f"Variable 'A' has reversed directions: {titles} both read it.*Diverter"):
        Network(blocks)


def test_a_name_has_the_same_number_of_states_everywhere() -> None:
    with pytest.raises(WiringError, match="Variable 'A' has 3 states on one block and 2 on another"):
        Network([Source(Variable("A", 3)), SISO(A, B)])


def test_a_name_stands_for_one_variable() -> None:
    with pytest.raises(
        WiringError, match=r"Two different variables are called 'A': their states are x, y and 0, 1. A name stands"
    ):
        Network([Source(Variable("A", ["x", "y"])), SISO(A, B)])
    twin = Variable("A", 2)
    assert twin is not A
    assert Network([Source(twin), SISO(A, B)]).variable("A") == A  # an equal one is the same one


def tied(**settings: Any) -> Network:
    other = settings.pop("output", D)
    return Network([Source(S), Diverter([S], [A, B]), SISO(A, C, tie="t"), SISO(B, other, tie="t", **settings)])


@pytest.mark.parametrize(
    "settings",
    [{"learn": False}, {"table": TABLE}, {"support": np.ones((2, 2))}, {"output": Variable("D", 3)}],
    ids=["learn", "table", "support", "shape"],
)
def test_tied_blocks_share_everything(settings: dict[str, Any]) -> None:
    with pytest.raises(
        WiringError, match="The SISO blocks of 'C' and 'D' are tied as 't' but differ in shape, table, support or"
    ):
        tied(**settings)
    assert tied().table("C").shape == (2, 2)


def test_tied_blocks_have_one_table() -> None:
    net = tied()
    net.learn({"C": [0, 1, 1], "D": [1, 1, None]}, epochs=2)
    np.testing.assert_array_equal(net.table("C"), net.table("D"))


def test_a_network_does_not_fall_into_pieces() -> None:
    with pytest.raises(WiringError, match=r"The network falls into pieces: .*A, B.* not connected with C, D"):
        Network([Source(A), SISO(A, B), Source(C), SISO(C, D)])
    with pytest.raises(WiringError, match="falls into pieces"):
        Network([Source(A), Source(B)])


@pytest.mark.parametrize("blocks", [[], (), iter([])])
def test_a_network_needs_a_block(blocks: Any) -> None:
    with pytest.raises(WiringError, match="A Network needs at least one block"):
        Network(blocks)


@pytest.mark.parametrize("blocks", [[A], ["A"], [Source(A), None], [[Source(A)]], "Source", [Source]])
def test_a_network_is_made_of_blocks(blocks: Any) -> None:
    with pytest.raises(WiringError, match=r"A Network is made of Source, SISO and Diverter blocks. Got .* instead"):
        Network(blocks)


@pytest.mark.parametrize("blocks", [None, 3, Source(A), A], ids=repr)
def test_a_network_is_made_of_a_list_of_blocks(blocks: Any) -> None:
    with pytest.raises(WiringError, match=r"Got .* instead"):
        Network(blocks)


def test_blocks_may_come_from_anywhere() -> None:
    net = small()
    assert Network(iter(net.blocks)) == Network(list(net.blocks)) == net
    assert net.blocks == tuple(net.blocks)


def test_wiring_and_table_errors_are_value_errors_of_the_package() -> None:
    for error in (WiringError, TableError):
        assert issubclass(error, fgrn.FgrnError)
        assert issubclass(error, ValueError)
    assert issubclass(UnknownNameError, fgrn.FgrnError)
    assert issubclass(UnknownNameError, KeyError)


# Names


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda net: net.table("Y11"), "There is no table 'Y11' here. Did you mean 'Y1'?"),
        (lambda net: net.table("S"), "There is no table 'S' here. Known: Y1, Y2."),
        (lambda net: net.table(None), "There is no table None here. Known: Y1, Y2."),
        (lambda net: net.table(["Y1"]), "There is no table ['Y1'] here."),
        (lambda net: net.prior("Y1"), "There is no prior 'Y1' here. Known: S."),
        (lambda net: net.prior(["S"]), "There is no prior ['S'] here."),
        (lambda net: net.variable("y1"), "There is no variable 'y1' here. Did you mean 'Y1'"),
        (lambda net: net.variable(["Y1"]), "There is no variable ['Y1'] here."),
        (lambda net: net.variable(0), "There is no variable 0 here."),
        (lambda net: net.propagate(keep=["Y12"]), "There is no variable 'Y12' here. Did you mean 'Y"),
        (lambda net: net.propagate(keep=[["Y1"]]), "There is no variable ['Y1'] here."),
        (lambda net: net.propagate(keep=["Y12"], schedule="rounds"), "There is no variable 'Y12' here."),
        (lambda net: net.propagate().marginal("Y12"), "There is no variable 'Y12' here. Did you mean 'Y"),
        (lambda net: net.propagate().forward("Q"), "There is no variable 'Q' here. Known: S, A, B, Y1, Y2."),
        (lambda net: net.propagate().backward(["Y1"]), "There is no variable ['Y1'] here."),
        (lambda net: net.propagate(keep=["S"]).marginal("Y1"), "There is no kept message on 'Y1' here. Known: S."),
        (lambda net: net.propagate(paused=["Y12"]), "There is no table 'Y12' here. Did you mean 'Y"),
        (lambda net: net.propagate(paused=["S"]), "There is no table 'S' here. Known: Y1, Y2."),
        (lambda net: net.propagate(paused=[["Y1"]]), "There is no table ['Y1'] here."),
        (lambda net: net.learn({"Y1": [0]}, paused=["A"]), "There is no table 'A' here."),
        (lambda net: net.learn({"Y1": [0]}, only=["Y11"]), "There is no table or prior 'Y11' here. Did you mean 'Y1'"),
        (lambda net: net.learn({"Y1": [0]}, only=["A"]), "There is no table or prior 'A' here."),
        (lambda net: net.posterior({}, "Y12"), "There is no variable 'Y12' here."),
        (lambda net: net.posterior({}, ["S"]), "There is no variable ['S'] here."),
        (lambda net: net.classify({}, "Y12"), "There is no variable 'Y12' here."),
        (lambda net: net.embed({}, "Y12"), "There is no variable 'Y12' here."),
        (lambda net: net.prototype("Y12", 0), "There is no variable 'Y12' here."),
        (lambda net: net.prototype("Y1", "maybe"), "There is no state of 'Y1' called 'maybe' here. Known: no, yes."),
    ],
)  # fmt: skip
def test_an_unknown_name_is_said_with_the_nearest_known_ones(ask: Callable[[Network], Any], words: str) -> None:
    net = small()
    with pytest.raises(UnknownNameError) as raised:
        ask(net)
    assert words in str(raised.value)
    assert net == small()


@pytest.mark.parametrize(
    "ask",
    [
        lambda net: net.propagate(keep="Y1"),
        lambda net: net.propagate(paused="Y1"),
        lambda net: net.learn({"Y1": [0]}, only="Y1"),
        lambda net: net.learn({"Y1": [0]}, paused="Y1"),
        lambda net: net.propagate(keep=5),
        lambda net: net.propagate(paused=None),
        lambda net: net.propagate(paused=5),
        lambda net: net.learn({"Y1": [0]}, only=5),
    ],
)
def test_a_string_is_refused_where_a_list_of_names_is_needed(ask: Callable[[Network], Any]) -> None:
    """Python would split a string into letters: net.propagate(keep="S1")."""
    with pytest.raises(fgrn.FgrnError, match=r"'(keep|paused|only)' is a list of names. Got .* instead"):
        ask(small())


@pytest.mark.parametrize("schedule", ["sweeps", "rounds"])
def test_only_the_kept_messages_are_kept_whatever_the_schedule(schedule: str) -> None:
    seen = small().propagate({"Y1": ["yes"]}, keep=["S", "Y2", "S"], schedule=schedule)
    assert seen.kept == ("S", "Y2")
    with pytest.raises(UnknownNameError, match=r"There is no kept message on 'Y1' here. Known: S, Y2"):
        seen.marginal("Y1")


# The shape of the graph


def test_a_network_knows_its_blocks_and_variables_in_order() -> None:
    net = small()
    assert [variable.name for variable in net.variables] == ["S", "A", "B", "Y1", "Y2"]
    assert net.variable("Y1") == Variable("Y1", ["no", "yes"])
    assert [type(block) for block in net.blocks] == [Source, Diverter, SISO, SISO]
    assert net.observed == ("Y1", "Y2")


def test_an_open_input_is_not_observed_but_the_end_of_a_graph_is() -> None:
    assert Network([SISO(A, B)]).observed == ("B",)
    assert Network([Source(A)]).observed == ("A",)
    assert Network([Diverter([A], [B, C]), SISO(B, D)]).observed == ("C", "D")


def test_layers_are_counted_from_the_leaves() -> None:
    assert [set(layer) for layer in two_layers().layers] == [{"Ya", "Yb", "Yc", "Yd"}, {"T", "H1", "H2"}]
    assert [set(layer) for layer in small().layers] == [{"S", "Y1", "Y2"}]
    assert Network([Source(A)]).layers == (("A",),)


def test_a_leaf_beside_a_deep_branch_is_in_the_layer_of_its_diverter() -> None:
    names = ["T", "T1", "T2", "H", "Ha", "Hb", "Ya", "Yb", "L"]
    T, T1, T2, H, Ha, Hb, Ya, Yb, L = (Variable(name, 2) for name in names)
    blocks = [
        Source(T), Diverter([T], [T1, T2]), SISO(T1, H), SISO(T2, L), Diverter([H], [Ha, Hb]), SISO(Ha, Ya),
        SISO(Hb, Yb),
    ]  # fmt: skip
    assert [set(layer) for layer in Network(blocks).layers] == [{"Ya", "Yb"}, {"T", "H", "L"}]


@given(network=st.one_of(networks(), loopy_networks()))
def test_layers_hold_every_table_and_prior_once(network: SmallNetwork) -> None:
    named = [name for layer in Network(network.blocks).layers for name in layer]
    assert sorted(named) == sorted([*network.tables, *network.priors])


def test_a_circle_of_arrows_has_no_layers_and_says_so() -> None:
    with pytest.raises(fgrn.FgrnError, match=r"circle|loop|cycle"):
        _ = Network([SISO(A, B), SISO(B, A)]).layers


@given(network=st.one_of(networks(), loopy_networks()))
def test_the_diameter_is_the_longest_of_all_shortest_ways(network: SmallNetwork) -> None:
    names = list(network.variables)
    distance = np.where(np.eye(len(names), dtype=bool), 0, np.inf)
    for block in network.blocks:
        on = [names.index(variable.name) for variable in (*block.reads, *block.drives)]
        for one in on:
            for other in on:
                distance[one, other] = min(distance[one, other], 1)
    for between in range(len(names)):  # Floyd and Warshall
        distance = np.minimum(distance, distance[:, [between]] + distance[[between], :])
    assert Network(network.blocks).diameter == distance.max()


@given(network=st.one_of(networks(), loopy_networks()))
def test_a_network_is_a_tree_if_removing_leaves_removes_everything(network: SmallNetwork) -> None:
    joints = {
        (number, variable.name)
        for number, block in enumerate(network.blocks)
        for variable in (*block.reads, *block.drives)
    }
    while True:
        ends = [end for joint in joints for end in joint]
        loose = {joint for joint in joints if any(ends.count(end) == 1 for end in joint)}
        if not loose:
            break
        joints -= loose
    assert Network(network.blocks).is_tree == (not joints)


@given(network=st.one_of(networks(), loopy_networks()))
def test_observed_variables_are_those_that_no_block_reads(network: SmallNetwork) -> None:
    read = {variable.name for block in network.blocks for variable in block.reads}
    net = Network(network.blocks)
    assert set(net.observed) == set(network.variables) - read
    assert [variable.name for variable in net.variables] == list(network.variables)


# Plain values


@given(network=st.one_of(networks(), loopy_networks()))
def test_blocks_are_plain_values(network: SmallNetwork) -> None:
    for block in network.blocks:
        for twin in (pickle.loads(pickle.dumps(block)), copy.copy(block), copy.deepcopy(block)):
            assert twin == block
            assert hash(twin) == hash(block)
            assert repr(twin) == repr(block)
    assert len({*network.blocks, *pickle.loads(pickle.dumps(network.blocks))}) == len(network.blocks)


def test_blocks_differ_if_any_of_their_parts_differs() -> None:
    eye, ones = np.eye(2), np.ones((2, 2))
    blocks = [
        Source(A), Source(B), Source(A, [0.5, 0.5]), Source(A, [0.4, 0.6]), Source(A, learn=False),
        Source(Variable("A", ["x", "y"])), SISO(A, B), SISO(B, A), SISO(A, C), SISO(A, B, TABLE), SISO(A, B, eye),
        SISO(A, B, learn=False), SISO(A, B, tie="t"), SISO(A, B, tie="u"), SISO(A, B, support=ones),
        SISO(A, B, support=eye), Diverter([A], [B]), Diverter([B], [A]), Diverter([A], [B, C]), Diverter([A], [C, B]),
    ]  # fmt: skip
    for one, block in enumerate(blocks):
        for other, twin in enumerate(copy.deepcopy(blocks)):
            assert (block == twin) == (one == other), (block, twin)
            assert (block != twin) == (one != other), (block, twin)
    assert Source(A) != A
    assert Source(A) != "Source"


@given(case=networks_with_evidence(networks(zeros=False)))
def test_a_network_is_the_same_after_a_round_trip_before_and_after_learning(
    case: tuple[SmallNetwork, Evidence],
) -> None:
    network, evidence = case
    net = Network(network.blocks)
    assert pickle.loads(pickle.dumps(net)) == copy.deepcopy(net) == copy.copy(net) == net.copy() == net
    if not any(block.learn for block in network.blocks if not isinstance(block, Diverter)):
        return
    before = net.copy()
    net.learn(evidence.columns, epochs=2)
    moved = any(not np.array_equal(net.table(name), before.table(name)) for name in network.tables)
    moved |= any(not np.array_equal(net.prior(name), before.prior(name)) for name in network.priors)
    assert (net != before) == moved
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(net, protocol=protocol))
        assert twin == net
        np.testing.assert_array_equal(
            twin.propagate(evidence.columns).log_likelihood, net.propagate(evidence.columns).log_likelihood
        )


def test_learning_makes_a_network_another_one_and_resetting_makes_it_the_same_again() -> None:
    net, untouched = small(), small()
    assert net == untouched
    net.learn({"Y1": ["no", "no", "yes"]}, epochs=2)
    assert net != untouched
    assert untouched == small()
    net.reset()
    assert net == untouched


def test_a_copy_learns_without_its_original() -> None:
    net = small()
    for twin in (net.copy(), copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        twin.learn({"Y1": ["no", "no", "yes"]}, epochs=2)
        assert twin != net
        assert net == small()


def test_a_copy_after_learning_knows_what_was_learnt_and_what_is_still_to_be_drawn() -> None:
    data = {"C": [0, 0, 1], "D": [1, 0, 1]}
    net = Network([Source(S), Diverter([S], [A, B]), SISO(A, C), SISO(B, D)])
    net.learn(data, epochs=2, only=["C"])
    twins = [net.copy(), copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    net.learn(data, epochs=3, seed=7)
    for twin in twins:
        assert twin != net
        twin.learn(data, epochs=3, seed=7)
        assert twin == net


def test_networks_differ_in_blocks_and_parameters_and_from_anything_else() -> None:
    assert small() == small()
    assert small() != two_layers()
    assert Network([Source(A)]) != Network([Source(A, learn=False)])
    assert Network([Source(A)]) != Network([Source(A, [0.5, 0.5])])  # one waits for a random start, one does not
    assert small() != "Network"
    with pytest.raises(TypeError, match="unhashable"):
        hash(small())


def test_tables_and_priors_are_read_only_in_every_copy() -> None:
    net = small()
    learnt = net.copy()
    learnt.learn({"Y1": ["no", "no", "yes"]}, epochs=2)
    for twin in (net, learnt, learnt.copy(), copy.copy(learnt), copy.deepcopy(learnt), pickle.loads(pickle.dumps(net))):
        for array in (twin.table("Y1"), twin.table("Y2"), twin.prior("S")):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_the_repr_of_blocks_says_what_is_in_them() -> None:
    assert repr(Source(A)) == "Source(Variable('A', 2))"
    assert repr(Source(A, [0.5, 0.5], learn=False)) == "Source(Variable('A', 2), prior=..., learn=False)"
    assert repr(SISO(A, B)) == "SISO(Variable('A', 2), Variable('B', 2))"
    full = repr(SISO(A, B, TABLE, learn=False, tie="t", support=np.ones((2, 2))))
    assert full.startswith("SISO(Variable('A', 2), Variable('B', 2), table=...")
    for part in ("learn=False", "tie='t'", "support=..."):
        assert part in full
    assert repr(Diverter([A, B], [Variable("P", 4)])) == (
        "Diverter([Variable('A', 2), Variable('B', 2)], [Variable('P', 4)])"
    )
    plain = Diverter([A], [Variable("X", ["a", "b"])])
    assert eval(repr(plain)) == plain


def test_the_repr_of_a_network_shows_every_block() -> None:
    lines = repr(small()).splitlines()
    assert lines[0] == "Network of 5 variables and 4 blocks, tree of diameter 3"
    assert [line.split()[0] for line in lines[1:]] == ["Source", "Diverter", "SISO", "SISO"]
    for part in ("S (2 states)", "S -> A, B", "A -> Y1 (2 x 2)", "B -> Y2 (2 x 3, fixed, tied as 'shared')"):
        assert part in repr(small())
    assert "S (2 states, fixed)" in repr(Network([Source(S, learn=False)]))
    assert "A x B -> P" in repr(Network([Diverter([A, B], [Variable("P", 4)])]))
    assert "support" in repr(Network([SISO(A, B, support=np.eye(2))]))


def test_the_repr_of_a_large_network_is_short_and_counts_the_rest() -> None:
    legs = [Variable(f"S{number}", 2) for number in range(500)]
    leaves = [SISO(leg, Variable(f"Y{number}", 2)) for number, leg in enumerate(legs)]
    text = repr(Network([Source(S), Diverter([S], legs), *leaves]))
    assert "1,001 variables and 502 blocks" in text
    assert "S -> S0, S1, S2, S3, S4, S5, ... (494 more)" in text
    assert len(text.splitlines()) < 60
    shown = len(text.splitlines()) - 2
    assert text.endswith(f"... {502 - shown} more blocks")


def test_the_repr_of_a_loop_says_that_it_is_one() -> None:
    a, a1, a2, b, c = (Variable(name, 2) for name in ("a", "a1", "a2", "b", "c"))
    blocks = [Source(a), Diverter([a], [a1, a2]), SISO(a1, b), SISO(a2, c), Diverter([b, c], [Variable("bc", 4)])]
    assert "with loops" in repr(Network(blocks))


# Across processes

CHILD = """
import pickle, sys
net, blocks, data = pickle.load(sys.stdin.buffer)
seen = net.propagate(data, engine='reference')
found = {name: (seen.forward(name), seen.backward(name), seen.marginal(name)) for name in seen.kept}
known = [block in set(net.blocks) for block in blocks]
learner = net.copy()
history = learner.learn(data, epochs=3, seed=5)
out = net, seen.log_likelihood, found, known, learner, history.log_likelihood, repr(net), net.layers
pickle.dump(out, sys.stdout.buffer)
"""


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_everything_crosses_processes(hash_seed: str) -> None:
    """Another process, where strings have other hashes, sees the same messages and learns the same tables."""
    net = two_layers()
    data = {"Ya": [0, 1, None, 1], "Yb": [[0.2, 0.8], 0, 1, 1], "Yd": [None, 0, 1, 0]}
    net.learn(data, epochs=2, seed=1)
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=pickle.dumps((net, net.blocks, data)), capture_output=True, timeout=120,
        env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    back, log_likelihood, found, known, learner, history, text, layers = pickle.loads(done.stdout)
    assert back == net
    assert all(known)
    assert text == repr(net)
    assert layers == net.layers
    seen = net.propagate(data, engine="reference")
    np.testing.assert_array_equal(log_likelihood, seen.log_likelihood)
    assert tuple(found) == seen.kept
    for name, parts in found.items():
        for got, expected in zip(parts, (seen.forward(name), seen.backward(name), seen.marginal(name)), strict=True):
            np.testing.assert_array_equal(got, expected)
    mine = net.copy()
    np.testing.assert_array_equal(mine.learn(data, epochs=3, seed=5).log_likelihood, history)
    assert learner == mine


def test_errors_cross_processes() -> None:
    with pytest.raises(fgrn.ImpossibleEvidence) as raised:
        small().propagate({"Y1": ["no", [0, 0], [0, 0]]})
    back = pickle.loads(pickle.dumps(raised.value))
    assert type(back) is fgrn.ImpossibleEvidence
    assert back.rows == (1, 2)
    assert str(back) == str(raised.value)
    for error in (WiringError("a 'word'"), TableError("a 'word'"), UnknownNameError("a 'word'")):
        assert str(pickle.loads(pickle.dumps(error))) == "a 'word'"


def test_messages_and_histories_cross_processes() -> None:
    net = small()
    seen = net.propagate({"Y1": ["no", "yes"]})
    back = pickle.loads(pickle.dumps(seen))
    for name in seen.kept:
        np.testing.assert_array_equal(back.marginal(name), seen.marginal(name))
    history = net.learn({"Y1": ["no", "yes"]}, epochs=2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(history)).log_likelihood, history.log_likelihood)
