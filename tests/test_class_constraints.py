"""Latent class models with item-response probabilities that are held or equal, against numerical derivatives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.cli import main
from fgrn.statistics.alignment import in_order_of
from fgrn.statistics.latent_classes import LatentClasses

ROWS = 600
CONSTRAINTS = [
    ("equal", "q0", "q1"),  # parallel items
    ("equal", ("q2", 0), ("q2", 1)),  # q2 does not tell the classes apart
    ("fixed", "q3", 0, "b", 0.2),
    ("zero", "q4", 1, "no"),
]


def drawn() -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    second = rng.random(ROWS) < 0.4
    chance = {"q0": (0.8, 0.3), "q1": (0.8, 0.3), "q2": (0.6, 0.6), "q4": (0.5, 1.0), "q5": (0.2, 0.9)}
    table: dict[str, list[Any]] = {
        name: np.where(rng.random(ROWS) < np.where(second, high, low), "yes", "no").tolist()
        for name, (low, high) in chance.items()
    }
    table["q3"] = ["abc"[rng.choice(3, p=(0.1, 0.6, 0.3) if is_second else (0.5, 0.2, 0.3))] for is_second in second]
    for row in range(0, ROWS, 11):
        table["q5"][row] = None
    return dict(sorted(table.items()))


TABLE = drawn()
CODES = np.array(
    [[{None: -1, "no": 0, "yes": 1, "a": 0, "b": 1, "c": 2}[value] for value in column] for column in TABLE.values()]
).T


@pytest.fixture(scope="module")
def model() -> fgrn.LatentClassModel:
    return fgrn.LatentClassModel(2, smoothing=0, tol=1e-13, constraints=CONSTRAINTS, random_state=0).fit(TABLE)


def log_likelihood(at: np.ndarray) -> float:
    """Of free probabilities: size, q0 = q1 in both classes, q2, q3 = a in class 0, q3 = a, b in class 1, q4, q5, q5."""
    size, first, second, third, a0, a1, b1, fourth, fifth, fifth_second = at
    tables = [
        np.array([[1 - first, first], [1 - second, second]]),
        np.array([[1 - first, first], [1 - second, second]]),
        np.array([[1 - third, third]] * 2),
        np.array([[a0, 0.2, 0.8 - a0], [a1, b1, 1 - a1 - b1]]),
        np.array([[1 - fourth, fourth], [0, 1]]),
        np.array([[1 - fifth, fifth], [1 - fifth_second, fifth_second]]),
    ]
    joint = np.tile([size, 1 - size], (ROWS, 1))
    for item, table in enumerate(tables):
        known = CODES[:, item] >= 0
        joint[known] *= table[:, CODES[known, item]].T
    return float(np.log(joint.sum(axis=1)).sum())


def test_the_estimate_is_the_maximum_under_the_constraints(model: fgrn.LatentClassModel) -> None:
    net = model.network_
    np.testing.assert_allclose(net.table("q0"), net.table("q1"), atol=1e-12)
    np.testing.assert_allclose(net.table("q2")[0], net.table("q2")[1], atol=1e-12)
    assert net.table("q3")[0, 1] == 0.2
    assert net.table("q4")[1, 0] == 0
    at = np.array(
        [
            model.weights_[0], net.table("q0")[0, 1], net.table("q0")[1, 1], net.table("q2")[0, 1],
            net.table("q3")[0, 0], *net.table("q3")[1, :2], net.table("q4")[0, 1], *net.table("q5")[:, 1],
        ]
    )  # fmt: skip
    assert log_likelihood(at) == pytest.approx(model.score_samples(TABLE).sum())
    step = np.eye(len(at)) * 1e-4
    gradient = np.array([(log_likelihood(at + one) - log_likelihood(at - one)) / 2e-4 for one in step])
    second = np.array(
        [
            [sum(s * t * log_likelihood(at + s * a + t * b) for s in (1, -1) for t in (1, -1)) / 4e-8 for a in step]
            for b in step
        ]
    )
    spread = np.linalg.inv(-second)
    assert np.abs(spread @ gradient / np.sqrt(np.diag(spread))).max() < 1e-4
    errors = model.standard_errors()
    assert errors.rank == errors.n_free == len(at)
    found = [
        errors.of_sizes[0], errors.of_item("q0")[0, 1], errors.of_item("q1")[1, 1], errors.of_item("q2")[1, 1],
        errors.of_item("q3")[0, 0], *errors.of_item("q3")[1, :2], errors.of_item("q4")[0, 1],
        *errors.of_item("q5")[:, 1],
    ]  # fmt: skip
    np.testing.assert_allclose(found, np.sqrt(np.diag(spread)), rtol=1e-4)
    assert errors.of_item("q3")[0, 1] == errors.of_item("q4")[1, 0] == 0
    assert errors.of_item("q3")[0, 2] == pytest.approx(errors.of_item("q3")[0, 0])


def test_parameters_criteria_and_tests_know_the_constraints(model: fgrn.LatentClassModel) -> None:
    free = fgrn.LatentClassModel(2, smoothing=0, random_state=0).fit(TABLE)
    report, whole = model.report(), free.report()
    assert (report.n_parameters, whole.n_parameters) == (10, 15)
    assert report.df == whole.df + 5
    assert report.log_likelihood < whole.log_likelihood
    assert model.bic(TABLE) == pytest.approx(report.criteria["BIC"])
    assert not [one for one in report.warnings if "boundary" in one]
    assert "0.200 (fixed)" in str(report)
    replicates = model.bootstrap(n_bootstrap=3, n_init=1).replicates
    assert (replicates[:, model.standard_errors().held] == [0.2, 0.0, 1.0]).all()


def test_smoothing_leaves_what_is_held_alone() -> None:
    smoothed = fgrn.LatentClassModel(2, smoothing=0.5, constraints=CONSTRAINTS, random_state=0).fit(TABLE)
    assert np.isfinite(smoothed.history_.starts).all()
    assert smoothed.network_.table("q4")[1, 0] == 0
    errors = smoothed.standard_errors()
    assert errors.rank == errors.n_free == 10
    assert errors.concave


def test_a_cell_is_held_where_the_others_of_its_row_are_0() -> None:
    start = {"a": [[0, 0, 1], [0.2, 0.3, 0.5]], "b": [[0.3, 0.7], [0.6, 0.4]]}
    net = fgrn.lvm({"a": ["x", "y", "z"], "b": ["no", "yes"]}, 2, tables=start)
    held = [("fixed", "a", 0, "z", 0.9)]
    net.learn({"a": ["z", "x", "z", "y"] * 5, "b": ["no", "yes", "no", "yes"] * 5}, epochs=1, constraints=held)
    before = net.table("a")[0]
    assert before[2] == 0.9
    assert before.min() > 0.04
    net.learn({"a": ["z"] * 9, "b": ["no", "yes", "no"] * 3}, epochs=2, constraints=held)  # no counts of the others
    np.testing.assert_allclose(net.table("a")[0], before)


def test_a_model_file_keeps_them(model: fgrn.LatentClassModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.fgrn")
    loaded = fgrn.load(tmp_path / "m.fgrn")
    assert str(loaded.report()) == str(model.report())
    assert loaded.report(TABLE).n_parameters == 10
    assert loaded.fit(TABLE).network_.table("q3")[0, 1] == 0.2


@pytest.mark.parametrize(
    "wrong",
    [
        ("equal", "q0", "q3"), ("equal", ("q0", 0), ("q0", 5)), ("fixed", "q0", 0, "yes", 1.5),
        ("zero", "q9", 0, "yes"), ("zero", "q0", 0, "perhaps"), ("about", "q0"), "q0", ("equal", "q0"),
        ("equal", ("q0", 0), "q1"),
    ],
)  # fmt: skip
def test_wrong_constraints_are_told(wrong: Any) -> None:
    with pytest.raises(fgrn.FgrnError):
        fgrn.LatentClassModel(2, constraints=[wrong], random_state=0).fit(TABLE)


def test_constraints_that_exclude_each_other_are_told(model: fgrn.LatentClassModel) -> None:
    for wrong in (
        [("fixed", "q0", 0, "no", 0.6), ("fixed", "q0", 0, "yes", 0.6)],
        [("equal", "q0", "q1"), ("zero", "q0", 0, "no"), ("fixed", "q1", 0, "no", 0.5)],
    ):
        with pytest.raises(fgrn.LearningError):
            fgrn.LatentClassModel(2, constraints=wrong, random_state=0).fit(TABLE)
    with pytest.raises(fgrn.LearningError, match="n_hidden"):
        fgrn.LatentClassModel("auto", constraints=CONSTRAINTS).fit(TABLE)
    for act in (
        model.relabel,
        lambda: model.compare_groups(TABLE["q0"]),
        lambda: model.partial_fit(TABLE),
    ):
        with pytest.raises(fgrn.LearningError, match="constraints"):
            act()


def test_regressions_in_one_step_and_two_meet_constraints() -> None:
    rows = {name: values[:300] for name, values in TABLE.items()}
    z = {"z": np.random.default_rng(1).normal(size=300) + [value == "yes" for value in rows["q0"]]}
    settings: dict[str, Any] = {"smoothing": 0, "tol": 1e-12, "random_state": 0, "n_init": 1}
    free = fgrn.LatentClassModel(2, **settings).fit(rows).membership_regression(z, steps=1, n_init=1)
    table = free.profiles.to_frame().query("item == 'q0' and level == 'yes'")["estimate"]
    rules = [("fixed", "q0", 0, "yes", float(table.iloc[0]))]  # where the estimate without constraints is
    held = fgrn.LatentClassModel(2, constraints=rules, **settings).fit(rows)
    found: Any = held.membership_regression(z, steps=1, n_init=1)
    np.testing.assert_allclose(found.coefficients, free.coefficients, atol=1e-5)
    assert found.log_likelihood == pytest.approx(free.log_likelihood, abs=1e-6)
    assert found.n_parameters == free.n_parameters - 1
    assert found.profiles.held.sum() == 2
    equal = fgrn.LatentClassModel(2, constraints=[("equal", "q0", "q1")], **settings).fit(rows)
    both: Any = equal.membership_regression(z, steps=1, n_init=1)
    np.testing.assert_allclose(*(both.profiles._table(both.profiles.estimates, name) for name in ("q0", "q1")))
    assert both.log_likelihood < free.log_likelihood
    two, three = (equal.membership_regression(z, steps=steps) for steps in (2, 3))
    np.testing.assert_allclose(two.coefficients, three.coefficients, atol=0.5)
    assert np.isfinite(two.errors).all()


HELD = [("fixed", "q0", 0, "yes", 0.5)]


def test_replicates_keep_what_is_held_in_its_class() -> None:
    few = {name: values[:200] for name, values in TABLE.items()}
    held = fgrn.LatentClassModel(2, n_epochs=20, constraints=HELD, random_state=0).fit(few)
    found = held.bootstrap(n_bootstrap=6, n_init=3).to_frame()
    own = found[(found["item"] == "q0") & (found["class"] == 0)]
    np.testing.assert_allclose(own[["low", "high"]], 0.5, atol=1e-12)
    assert held.vuong_lrt(n_init=1).ratio > 0  # one class more has cells of its own


def test_only_orders_that_meet_the_constraints_are_tried() -> None:
    tables = (np.array([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]),)
    held = np.array([[True, True], [False, False], [False, False]])
    model = LatentClasses(
        ("q",), (("a", "b"),), np.full(3, 1 / 3), tables, held=held, leader=np.arange(6).reshape(3, 2)
    )
    other = replace(model, tables=(np.array([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]]),))
    np.testing.assert_array_equal(in_order_of(other, model).cells, [[0.5, 0.5], [0.6, 0.4], [0.2, 0.8]])
    leader = np.array([[0, 1], [0, 1], [4, 5]])
    equal = replace(model, held=None, leader=leader, tables=(np.array([[0.1, 0.9], [0.1, 0.9], [0.5, 0.5]]),))
    assert in_order_of(equal, model) is equal


def test_rows_that_are_held_whole_have_no_free_parameter() -> None:
    every = [("fixed", "q3", 0, level, value) for level, value in (("a", 0.33), ("b", 0.56), ("c", 0.11))]
    sure = [("fixed", "q3", 0, "b", 1.0)]
    for constraints in (every, sure):
        found = fgrn.LatentClassModel(2, n_epochs=20, constraints=constraints, random_state=0).fit(TABLE)
        assert found.network_.free_parameters - found.report().n_parameters == 2
        assert found.network_.table("q3")[0].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("constraints", "n_hidden", "told"),
    [
        ([("zero", "q0", 0, "yes"), *HELD], 2, "The 'constraints' hold one probability at 0, and"),
        ([("fixed", "q0", 0, "no", 0.6), *HELD], 2, "The 'constraints' hold probabilities in a row"),
        (HELD, "auto", "The 'n_hidden' must be a number under constraints"),
    ],
)
def test_messages_go_on_from_the_setting(constraints: list[Any], n_hidden: Any, told: str) -> None:
    with pytest.raises(fgrn.LearningError, match=told):
        fgrn.LatentClassModel(n_hidden, constraints=constraints, random_state=0).fit(TABLE)


def test_tables_that_are_not_learnt_have_no_constraints(model: fgrn.LatentClassModel) -> None:
    net = model.network_.copy()
    with pytest.raises(fgrn.LearningError, match="'q1', which is not learnt"):
        net.learn(TABLE, epochs=1, only=["q0"], constraints=[("equal", "q0", "q1")])
    before = net.table("q5")
    net.learn(TABLE, epochs=2, starts=2, only=["q0"], constraints=HELD)
    np.testing.assert_array_equal(net.table("q5"), before)
    assert net.table("q0")[0, 1] == 0.5


def test_they_are_given_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    second = (rng.random(200) < 0.4).astype(int)
    yes = rng.random((200, 3)) < np.array([0.2, 0.8])[second][:, None]
    rows = [",".join(["yes" if row[0] else "no", *(str(int(one)) for one in row[1:])]) for row in yes]
    (tmp_path / "t.csv").write_text("q1,q2,q3\n" + "\n".join(rows) + "\n")
    (tmp_path / "c.json").write_text('[["equal", "q2", "q3"]]')
    model_file = tmp_path / "m.fgrn"
    whole = ["fit", str(tmp_path / "t.csv"), "-o", str(model_file), "--json"]

    def fit(*texts: str, status: int = 0) -> str:
        given = [part for text in texts for part in ("--constraints", text)]
        assert (main([*whole, "--hidden", "2", "--starts", "1", *given]) != 0) == bool(status)
        return capsys.readouterr().err

    fit("fixed q1 0 yes 0.1", "zero q2 1 0")
    model = fgrn.load(model_file)
    assert model.network_.table("q1")[0, 1] == pytest.approx(0.1)
    assert model.network_.table("q2")[1, 0] == 0
    assert "0.900 (fixed)" in str(model.report())
    fit(str(tmp_path / "c.json"))
    tables = fgrn.load(model_file).network_
    np.testing.assert_allclose(tables.table("q2"), tables.table("q3"))
    fit("equal q2:0 q2:1")
    wrong = {
        "equal q2": "not understood", "fixed q1 0 yes x": "not a number", "zero q9 0 yes": "no table 'q9'",
        "zero q1 7 yes": "not the number of a class", "none.json": "cannot be read", "'": "not understood",
    }  # fmt: skip
    for text, told in wrong.items():
        assert told in fit(text, status=1)
    for text, told in (("{", "not JSON"), ("[1]", "not a list of constraints")):
        (tmp_path / "c.json").write_text(text)
        assert told in fit(str(tmp_path / "c.json"), status=1)
    assert main([*whole, "--target", "q1", "--constraints", "equal q2 q3"])
    assert "--model clusters" in capsys.readouterr().err


def test_means_and_variances_are_held_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)
    second = rng.integers(0, 2, 60)
    rows = [f"{3 * one + rng.normal():.3f},{'yes' if rng.random() < 0.2 + 0.6 * one else 'no'}" for one in second]
    (tmp_path / "t.csv").write_text("u,q\n" + "\n".join(rows) + "\n")
    model_file, journal = tmp_path / "m.fgrn", tmp_path / "c.ckpt"
    whole = ["fit", str(tmp_path / "t.csv"), "-o", str(model_file), "--hidden", "2", "--starts", "1", "--json"]
    whole += ["--continuous", "u"]
    texts = ["fixed u 0 mean 0.5", "equal u:0:variance u:1:variance"]
    given = [part for text in texts for part in ("--constraints", text)]
    assert main([*whole, *given, "--checkpoint", str(journal)]) == 0
    model = fgrn.load(model_file)
    assert model.means_[0, 0] == pytest.approx(0.5)
    assert model.variances_[0, 0] == pytest.approx(model.variances_[1, 0])
    spaced = [text.replace(" ", "  ") for text in given]  # the same constraints, in other words
    assert main([*whole, *spaced, "--checkpoint", str(journal), "--resume"]) == 0
    capsys.readouterr()
    wrong = {
        "fixed u 0 mean abc": "'abc' is not a number.",
        "equal u:0 u:1": "not one of them: 'equal u:0 u:1'. A continuous column is named with its mean or variance.",
        "equal q:0:mean q:1:mean": "'equal q:0:mean q:1:mean', and 'q' is not a continuous column",
        "equal u:0:mean u:7:mean": "--constraints have 7 in 'equal u:0:mean u:7:mean', which is not the number",
        "about u": "'fixed x 0 mean 2.5'",
    }
    for text, told in wrong.items():
        assert main([*whole, "--constraints", text])
        shown = capsys.readouterr().err
        assert told in shown
        assert "('" not in shown
    assert main([*whole, "--constraints", "equal u q"])
    assert "Write --constraints 'equal q1 q2'" in capsys.readouterr().err
