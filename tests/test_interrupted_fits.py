"""An interrupted fit keeps the best model so far and warns; estimators that had not begun stay unchanged."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fgrn
from fgrn import Checkpoint, cli
from fgrn.cli.wording import spoken
from fgrn.core.exceptions import FgrnWarning
from fgrn.engines import star_counts
from fgrn.estimators import classifiers
from fgrn.flow import em
from fgrn.graph.class_family import ClassFamily
from fgrn.learning import checkpoints

pytestmark = pytest.mark.filterwarnings("ignore:The best number of hidden states")

QUICK: dict[str, Any] = {"n_epochs": 6, "tol": 0.0, "random_state": 0, "engine": "reference"}
ESTIMATORS = [
    fgrn.LatentClassifier(n_hidden=3, n_init=2, **QUICK),
    fgrn.LatentClassModel(n_hidden=3, n_init=2, **QUICK),
    fgrn.NaiveBayesClassifier(**QUICK),
    fgrn.DeepLatentClassifier(n_hidden=(2, 2), n_init=2, **QUICK),
    fgrn.DiscreteICA(n_hidden=(2, 2), n_init=2, **QUICK),
    fgrn.LatentImputer(n_hidden=3, n_init=2, **QUICK),
    fgrn.LatentClassifier(n_hidden=2, structure="tree", refine=False, **QUICK),
    fgrn.HiddenTreeModel(2, n_trees=2, batch_size=None, validation=None, n_epochs=8, random_state=0),
]


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


def table(rows: int = 60) -> tuple[pd.DataFrame, list[str]]:
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, rows)
    columns = {name: (state + rng.integers(0, 2, rows)) % 3 for name in "abcd"}
    return pd.DataFrame(columns).astype(str), np.where(state > 1, "yes", "no").tolist()


def interrupted(work: Callable[..., Any], *when: int, by: Callable[[], None] | None = None) -> Callable[..., Any]:
    """The same function, with an interruption at these of its calls, counted from 1."""
    calls = [0]

    def stopping(*given: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] in when:
            if by is None:
                raise KeyboardInterrupt
            by()
        return work(*given, **options)

    return stopping


Interrupt: TypeAlias = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """A context in which some epochs of learning, counted from 1 over all starts and stages, are interrupted."""

    @contextmanager
    def context(*when: int, **options: Any) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(em, "updated", interrupted(em.updated, *when, **options))
            yield

    return context


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_the_model_so_far_is_kept(estimator: Any, interrupt: Interrupt) -> None:
    frame, answer = table()
    model, told = clone(estimator), "interrupted after 3 epochs of start 1; the best model so far is kept"
    with interrupt(4), pytest.warns(FgrnWarning, match=told):
        assert model.fit(frame, answer) is model
    assert model.n_rows_ == 60
    assert model.history_.epochs == model.n_iter_ >= 1
    assert model._journal is None
    assert np.isfinite(model.score_samples(frame)).all()
    if not isinstance(model, fgrn.DeepLatentClassifier):  # whose other layers have learnt, too
        few = clone(estimator).set_params(n_epochs=3, **({"n_init": 1} if "n_init" in model.get_params() else {}))
        few.fit(frame, answer)
        assert model.network_ == few.network_
        assert model.network_.trained[-1]["epochs"] == 3
        np.testing.assert_array_equal(model.history_.log_likelihood, few.history_.log_likelihood)
    model.partial_fit(frame, answer)


def test_the_best_start_is_kept(interrupt: Interrupt) -> None:
    """Interrupted in the second start, after an epoch worse than the first start."""
    frame, _ = table()
    model = clone(ESTIMATORS[1])
    with interrupt(8), pytest.warns(FgrnWarning, match="after 1 epoch of start 2"):
        model.fit(frame)
    assert model.network_ == clone(ESTIMATORS[1]).set_params(n_init=1).fit(frame).network_
    assert (model.history_.start, len(model.history_.starts)) == (0, 2)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_before_the_first_epoch_ends_nothing_is_kept(estimator: Any, interrupt: Interrupt) -> None:
    frame, answer = table()
    model = clone(estimator)
    with interrupt(1), pytest.raises(KeyboardInterrupt):
        model.fit(frame, answer)
    assert not hasattr(model, "network_")
    before = model.fit(frame, answer).network_
    with interrupt(1), pytest.raises(KeyboardInterrupt):
        model.fit(frame, answer)
    assert model.network_ is before


@pytest.mark.parametrize("when", [(6, 7), (9, 10), (12, 14)])
def test_the_second_interruption_ends_everything(when: tuple[int, int], interrupt: Interrupt) -> None:
    """After the first one, a deep model still learns its other layers, one epoch each."""
    frame, answer = table()
    model = clone(ESTIMATORS[3])
    with interrupt(*when), pytest.raises(KeyboardInterrupt):
        model.fit(frame, answer)
    assert not hasattr(model, "network_")


@pytest.mark.parametrize("when", [5, 12, 13, 14, 25, 26])
def test_each_layer_has_an_epoch_at_least(when: int, interrupt: Interrupt) -> None:
    """Whether or not a layer had begun when interrupted, no table stays as it was."""
    frame, answer = table()
    model = clone(ESTIMATORS[3])
    with interrupt(when), pytest.warns(FgrnWarning, match="interrupted"):
        model.fit(frame, answer)
    assert not model.network_._parameters.undrawn_tables
    assert np.ptp(model.predict_proba(frame)[:, 0]) > 0


@pytest.mark.parametrize(("when", "tried"), [(4, [1]), (7, [1]), (8, [1]), (13, [1, 2])])
@pytest.mark.parametrize("criterion", ["bic", "held_out"])
def test_the_best_size_so_far_is_kept(when: int, tried: list[int], criterion: str, interrupt: Interrupt) -> None:
    frame, _ = table(100)
    model = clone(ESTIMATORS[1]).set_params(n_hidden="auto", n_init=1, criterion=criterion)
    with interrupt(when), pytest.warns(FgrnWarning, match="interrupted"):
        model.fit(frame)
    assert [one.n_hidden for one in model.selection_.candidates] == tried
    assert model.n_hidden_ == model.selection_.best.n_hidden
    assert model.history_.epochs == (3 if when == 4 else 6)
    assert model.network_.variable("S").cardinality == model.n_hidden_


@pytest.mark.parametrize(("what", "when"), [("propagate", 1), ("propagate", 2), ("_programs_for", 3)])
def test_an_interruption_between_the_epochs_of_two_sizes_loses_nothing(
    what: str, when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one size is scored, or learning of the next begins."""
    frame, _ = table(100)
    model = clone(ESTIMATORS[1]).set_params(n_hidden="auto", n_init=1)
    monkeypatch.setattr(fgrn.Network, what, interrupted(getattr(fgrn.Network, what), when))
    with pytest.warns(FgrnWarning, match="interrupted"):
        model.fit(frame)
    assert (model.n_hidden_, model.history_.epochs) == (1, 6)


@pytest.mark.parametrize("when", [13, 14])
def test_a_short_fit_on_all_rows_does_not_replace_a_long_one_on_most_rows(when: int, interrupt: Interrupt) -> None:
    """Interrupted in the final fit on all rows, after the search with held-out rows."""
    frame, _ = table(100)
    model = clone(ESTIMATORS[1]).set_params(n_hidden="auto", max_hidden=2, n_init=1, criterion="held_out")
    with interrupt(when), pytest.warns(FgrnWarning, match="interrupted"):
        model.fit(frame)  # 12 epochs for two sizes, and then once more
    assert model.history_.epochs == 6


@pytest.mark.parametrize(("which", "when"), [(0, 9), (3, 9), (3, 14), (3, 26)])
def test_a_fit_that_was_interrupted_is_resumed_bit_for_bit(
    which: int, when: int, interrupt: Interrupt, tmp_path: Path
) -> None:
    frame, answer = table()
    place = tmp_path / "run.ckpt"
    whole = clone(ESTIMATORS[which]).fit(frame, answer)
    model = clone(ESTIMATORS[which]).set_params(checkpoint=place)
    with interrupt(when), pytest.warns(FgrnWarning, match=r"continue, .* resume=True"):
        model.fit(frame, answer)
    resumed = clone(ESTIMATORS[which]).set_params(checkpoint=Checkpoint(place, resume=True)).fit(frame, answer)
    assert resumed.network_ == whole.network_
    np.testing.assert_array_equal(resumed.history_.log_likelihood, whole.history_.log_likelihood)


@pytest.mark.parametrize("when", [4, 7, 9, 14])
def test_a_search_that_was_interrupted_is_resumed_bit_for_bit(when: int, interrupt: Interrupt, tmp_path: Path) -> None:
    frame, _ = table(100)
    search = clone(ESTIMATORS[1]).set_params(n_hidden="auto", max_hidden=3, n_init=1)
    place = tmp_path / "run.ckpt"
    with interrupt(when), pytest.warns(FgrnWarning, match="interrupted"):
        clone(search).set_params(checkpoint=str(place)).fit(frame)
    resumed = clone(search).set_params(checkpoint=Checkpoint(place, resume=True)).fit(frame)
    whole = search.fit(frame)
    assert resumed.network_ == whole.network_
    assert resumed.selection_.as_dicts() == whole.selection_.as_dicts()


@pytest.mark.parametrize(
    ("what", "when", "criterion"),
    [
        ((fgrn.Network, "learn"), 1, "bic"),
        ((fgrn.Network, "learn"), 2, "bic"),
        ((fgrn.Network, "learn"), 4, "held_out"),  # of three sizes, and then once more of all rows
        ((checkpoints.Journal, "keeper"), 2, "bic"),
    ],
    ids=str,
)
def test_a_search_is_resumed_that_was_interrupted_when_something_had_just_been_done(
    what: tuple[Any, str], when: int, criterion: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The network learns on from its checkpoint, and not as an additional stage."""
    frame, _ = table(100)
    search = clone(ESTIMATORS[1]).set_params(n_hidden="auto", max_hidden=3, n_init=1, criterion=criterion)
    place, calls, work = tmp_path / "run.ckpt", [0], getattr(*what)

    def done(*given: Any, **options: Any) -> Any:
        found = work(*given, **options)
        calls[0] += 1
        if calls[0] == when:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch, pytest.warns(FgrnWarning, match="interrupted"):
        patch.setattr(*what, done)
        model = clone(search).set_params(checkpoint=str(place)).fit(frame)
    assert len(model.network_.trained) == 1
    resumed = clone(search).set_params(checkpoint=Checkpoint(place, resume=True)).fit(frame)
    whole = search.fit(frame)
    assert resumed.network_ == whole.network_
    assert resumed.selection_.as_dicts() == whole.selection_.as_dicts()


@pytest.mark.parametrize("when", [12, 30])
def test_the_best_classifier_so_far_is_learnt_to_the_end(when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tables of one epoch it would predict far worse than the candidate that was chosen."""
    frame, answer = table(300)
    monkeypatch.setattr(classifiers, "SECONDS_AFTER_STOP", np.inf)
    with monkeypatch.context() as patch, pytest.warns(FgrnWarning, match="while candidates were compared"):
        patch.setattr(ClassFamily, "chances", interrupted(ClassFamily.chances, when))
        model = fgrn.LatentClassifier(random_state=0, structure="per_class", smoothing=1.0).fit(frame, answer)
    best = model.selection_.best
    how = {"n_hidden": best.size, "structure": "per_class", "smoothing": 1.0, "random_state": 0, "refine": False}
    whole = fgrn.LatentClassifier(**how).fit(frame, answer)
    assert model.history_.converged
    assert model.network_._parameters.values == pytest.approx(whole.network_._parameters.values, abs=1e-6)
    assert hasattr(model, "decision_network_") == bool(best.towards)


def test_a_classifier_that_cannot_be_learnt_quickly_ends_after_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, answer = table(300)
    monkeypatch.setattr(star_counts, "SILENT_EPOCHS", 1)
    monkeypatch.setattr(classifiers, "SECONDS_AFTER_STOP", -1.0)
    monkeypatch.setattr(ClassFamily, "chances", interrupted(ClassFamily.chances, 30))
    with pytest.warns(FgrnWarning, match="while candidates were compared"):
        model = fgrn.LatentClassifier(random_state=0).fit(frame, answer)
    assert model.history_.epochs == 1


def test_a_choice_of_a_classifier_that_was_interrupted_is_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The best candidate so far is not what the choice ends with, and its tables are not in the checkpoint."""
    frame, answer = table(300)
    place, model = tmp_path / "run.ckpt", fgrn.LatentClassifier(random_state=0)
    with monkeypatch.context() as patch, pytest.warns(FgrnWarning, match="while candidates were compared"):
        patch.setattr(ClassFamily, "chances", interrupted(ClassFamily.chances, 12))
        clone(model).set_params(checkpoint=str(place)).fit(frame, answer)
    resumed = clone(model).set_params(checkpoint=Checkpoint(place, resume=True)).fit(frame, answer)
    assert resumed.network_ == model.fit(frame, answer).network_


def test_the_signal_of_ctrl_c_does_it(interrupt: Interrupt) -> None:
    """With rows on disk; the signal handler is restored."""
    frame, answer = table()
    model = clone(ESTIMATORS[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ctrl_c = interrupt(3, by=lambda: signal.raise_signal(signal.SIGINT))
        with ctrl_c, pytest.warns(FgrnWarning, match="after 2 epochs of start 1"):
            model.fit(iter([frame.assign(y=answer)]), "y")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.history_.epochs == 2


def test_networks_comparisons_and_first_batches_are_as_they_were(interrupt: Interrupt, tmp_path: Path) -> None:
    frame, answer = table()
    model = clone(ESTIMATORS[0])
    with interrupt(4), pytest.raises(KeyboardInterrupt):
        model.partial_fit(frame, answer, classes=["no", "yes"])
    with interrupt(4), pytest.raises(KeyboardInterrupt):
        model.compare(frame, answer)
    assert not hasattr(model, "network_")
    net = fgrn.lvm(fgrn.states(frame), hidden=2)
    before = net._parameters
    for place in (None, tmp_path / "run.ckpt"):
        with interrupt(4), pytest.raises(KeyboardInterrupt):
            net.learn(frame, checkpoint=place)
        assert net._parameters is before


def test_learning_that_is_not_interrupted_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    frame, answer = table()
    clone(ESTIMATORS[3]).fit(frame, answer)
    assert not [one for one in recwarn if "interrupted" in str(one.message)]


@pytest.mark.parametrize("times", [1, 2])
def test_the_command_line_stops_after_the_epoch_or_at_once(
    times: int, interrupt: Interrupt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, _ = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    options = ["--hidden", "2", "--starts", "1", "--epochs", "6", "--tolerance", "0", "-o", str(tmp_path / "m.fgrn")]

    def ctrl_c() -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)

    with interrupt(3, by=ctrl_c):
        assert cli.main(["fit", str(tmp_path / "a.csv"), *options]) == 130
    said = capsys.readouterr()
    assert "stopping after this epoch" in said.err
    assert ("fit with --checkpoint FILE" in said.err) == (times == 2)
    assert "interrupted" in said.out
    assert fgrn.load(tmp_path / "m.fgrn").history_.epochs == (4 if times == 1 else 2)


def test_the_command_line_names_its_options() -> None:
    for path, told in [
        ("run.ckpt", "run.ckpt"),
        ("a b.ckpt", "'a b.ckpt'"),
        ("bob's.ckpt", """ 'bob'"'"'s.ckpt'"""[1:]),
        ("n_epochs=3, resume=True.ckpt", "'n_epochs=3, resume=True.ckpt'"),
    ]:
        warning = fgrn.NaiveBayesClassifier(checkpoint=Checkpoint(path))._interrupted("after 1 epoch of start 1")
        assert spoken(warning).endswith(f"fit with --checkpoint {told} --resume.")
        assert f"fgrn.Checkpoint({path!r}, resume=True)" in str(warning)
    warning = fgrn.NaiveBayesClassifier()._interrupted("after 1 epoch of start 1")
    assert spoken(warning).endswith("fit with --checkpoint FILE.")
