"""The mean of the best candidates and the simplest ones, which is one network, and when it predicts the class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import LatentClassifier
from fgrn.graph.class_family import ClassFamily
from fgrn.graph.network import Network
from fgrn.learning import candidate_means
from fgrn.learning.candidate_means import CandidateMeans
from fgrn.learning.classifier_choice import ClassSearch

pytestmark = pytest.mark.filterwarnings("ignore:The best")


def equal_neighbours(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Three classes that depend on whether two columns are equal, and on a third column."""
    rng = np.random.default_rng(seed)
    a, b, c, d = (rng.integers(0, 3, rows) for _ in range(4))
    y = np.where(rng.random(rows) < 0.8, np.where(a == b, 2, c > 0), rng.integers(0, 3, rows))
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "d": d}).astype(str)
    return frame, pd.Series(np.array(["x", "y", "z"])[y], name="kind")


def network(structure: str, size: int) -> Network:
    """A network of some states for each class, as EM learns it."""
    settings = {"refine": False, "random_state": 0, "engine": "reference"}
    return LatentClassifier(size, structure=structure, **settings).fit(*equal_neighbours(200)).network_  # type: ignore[arg-type]


@pytest.mark.parametrize(("structure", "size"), [("per_class", 2), ("per_class", 3), ("tan", 1), ("tan", 2)])
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_tables_of_one_state_a_class_are_multiplied_into_those_of_more(structure: str, size: int, power: float) -> None:
    """Without a missing value, what is told of the class is the product of what both tell, one of it to a power."""
    large, simple = network(structure, size), network("per_class", 1)
    rows = equal_neighbours(60, 1)[0]
    family = ClassFamily(structure, lambda size, rows: large, "kind", "S", 0.5, "reference")
    pooled = family.mean_of([(large, 0.5), (simple, 0.5 / power)])
    expected = large.posterior(rows, "kind") * simple.posterior(rows, "kind") ** power
    assert pooled.posterior(rows, "kind") == pytest.approx(expected / expected.sum(axis=1, keepdims=True))
    lines = pooled._spec.layout.lines
    assert np.add.reduceat(pooled._parameters.values, lines) == pytest.approx(np.ones(len(lines)))


def fitted(
    monkeypatch: pytest.MonkeyPatch, worse: float, structure: str = "auto"
) -> tuple[LatentClassifier, ClassSearch]:
    """A classifier for which the mean may be worse by so many standard errors, and the search that chose it."""
    monkeypatch.setattr(candidate_means, "LITTLE_WORSE", worse)
    model = LatentClassifier(structure=structure, random_state=0, engine="cpu", max_hidden=2)
    searches: list[ClassSearch] = []
    made = model._search
    model._search = lambda *given: searches.append(made(*given)) or searches[-1]  # type: ignore[method-assign,func-returns-value]
    model.fit(*equal_neighbours(150))
    return model, searches[-1]


@pytest.mark.parametrize("structure", ["auto", "per_class"])
def test_the_simplest_candidates_have_a_share_unless_held_out_rows_are_against_it(
    structure: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone, _ = fitted(monkeypatch, -np.inf, structure)
    assert (alone.structure_, alone.selection_.best.size) != candidate_means.SIMPLEST
    assert alone.selection_.simplest_share == 0.0
    assert "one state for each class" not in str(alone.selection_)
    model, _ = fitted(monkeypatch, np.inf, structure)
    assert model.selection_.candidates == alone.selection_.candidates
    assert model.selection_.simplest_share == 0.5
    assert "candidates with one state for each class have a share of 0.5 in the prediction" in str(model.selection_)
    assert model.network_ == alone.network_
    shapes = [one.decision_network_._spec.layout.table_shapes for one in (model, alone)]
    assert shapes[0] == shapes[1]  # the same structure and size
    X, _ = equal_neighbours(80, 2)
    assert np.abs(model.predict_proba(X) - alone.predict_proba(X)).max() > 0.01
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.selection_ == model.selection_
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    told, chance = model.explain(X.iloc[[0]]), model.predict_proba(X.iloc[[0]]).max()
    assert told.prior + sum(told.contributions.values()) == pytest.approx(np.log(chance / (1 - chance)))


def test_the_larger_share_is_used_that_is_good_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean may be worse than what was chosen by a standard error: the oracle is the list of all shares."""
    _, search = fitted(monkeypatch, -np.inf)
    means: CandidateMeans = search._means
    chosen = means.over_penalties(search.best, [trial for trial, _ in search._of_best])
    excess = {}
    for share in candidate_means.SHARES_OF_SIMPLEST:
        with monkeypatch.context() as only:
            only.setattr(candidate_means, "LITTLE_WORSE", np.inf)
            only.setattr(candidate_means, "SHARES_OF_SIMPLEST", (share,))
            found = means.with_simplest(chosen, search._of_simplest)
        assert found.simplest is not None
        assert found.simplest.share == share
        mean, error = candidate_means.mean_and_error(found.losses - chosen.losses, means.weights)
        excess[share] = mean / error
    for worse in (min(excess.values()) - 0.1, *(one + 0.1 for one in excess.values())):
        monkeypatch.setattr(candidate_means, "LITTLE_WORSE", worse)
        part = means.with_simplest(chosen, search._of_simplest).simplest
        good = [share for share, one in excess.items() if one <= worse]
        assert (part.share if part else 0.0) == max(good, default=0.0)


def test_the_simplest_candidate_is_not_averaged_with_itself() -> None:
    X, y = equal_neighbours(150)
    model = LatentClassifier(structure="per_class", random_state=0, engine="cpu", max_hidden=1).fit(X, y)
    assert (model.structure_, model.selection_.best.size) == candidate_means.SIMPLEST
    assert model.selection_.simplest_share == 0.0


def test_nothing_is_averaged_where_tables_are_not_refined() -> None:
    X, y = equal_neighbours(150)
    model = LatentClassifier(refine=False, random_state=0, engine="cpu", max_hidden=2).fit(X, y)
    assert model.selection_.simplest_share == 0.0
    assert not hasattr(model, "decision_network_")
