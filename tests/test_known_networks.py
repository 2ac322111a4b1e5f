"""Networks with known answers: pyAgrum on those of the repository, published solutions of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import BayesianNetwork

pytestmark = pytest.mark.slow

NETWORKS = [
    "alarm", "andes", "asia", "cancer", "child", "hepar2", "insurance", "sachs", "survey", "water", "win95pts",
]  # fmt: skip
PROBLEMS = [
    "Alchemy_11", "CSP_12", "DBN_11", "Grids_12", "ObjectDetection_51", "Pedigree_12", "Promedus_24", "Promedus_30",
    "Segmentation_11",
]  # fmt: skip
SETS = 20


def in_pyagrum(model: BayesianNetwork) -> Any:
    """The same network there, table by table: its own reader of BIF rounds to single precision."""
    gum = pytest.importorskip("pyagrum")
    net = gum.BayesNet()
    for variable in model.variables:
        net.add(gum.LabelizedVariable(variable.name, "", list(map(str, variable.labels))))
    for parent, child in model.arcs:
        net.addArc(parent, child)
    for name in model.names:
        table, scope = net.cpt(name), model.scope(name)
        values = model.table(name).reshape([model.variable(one).cardinality for one in scope])
        wanted = list(reversed(list(table.names)))
        table.fillWith(values.transpose([scope.index(one) for one in wanted]).ravel().tolist())
    return net


def evidence_sets(model: BayesianNetwork, count: int) -> list[dict[str, Any]]:
    """Some states of a drawn row, and weights for some others."""
    draw = np.random.default_rng(0)
    rows = model.sample(count, None, 0)
    found = []
    for number in range(count):
        names = [str(name) for name in draw.permutation(model.names)]
        some = int(draw.integers(0, min(8, len(names) - 1) + 1))
        row: dict[str, Any] = {name: rows[name][number] for name in names[:some]}
        for name in names[some : some + int(draw.integers(0, 3))]:
            row[name] = (draw.random(model.variable(name).cardinality) + 0.05).tolist()
        found.append(row)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_marginals_and_probabilities_are_those_of_pyagrum(shared_data: Path, name: str) -> None:
    gum = pytest.importorskip("pyagrum")
    model = fgrn.read(shared_data / "bif" / f"{name}.bif")
    assert isinstance(model, BayesianNetwork)
    net = in_pyagrum(model)
    sets = evidence_sets(model, SETS)
    columns = {one: [row.get(one) for row in sets] for one in model.names}
    found = model.propagate(columns)
    for number, row in enumerate(sets):
        engine = gum.LazyPropagation(net)
        known = {
            key: value if isinstance(value, list) else model.variable(key).code(value) for key, value in row.items()
        }
        engine.setEvidence(known)
        engine.makeInference()
        assert found.log_likelihood[number] == pytest.approx(np.log(engine.evidenceProbability()), abs=1e-9)
        for one in model.names:
            np.testing.assert_allclose(found.marginal(one)[number], engine.posterior(one).toarray(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_published_solutions(shared_data: Path, name: str) -> None:
    folder = shared_data / "uai"
    model = fgrn.read(folder / f"{name}.uai")
    found = model.propagate(fgrn.read_evidence(folder / f"{name}.uai.evid"))
    published = float((folder / f"{name}.uai.PR").read_text().split()[-1])
    assert found.log_likelihood[0] / np.log(10) == pytest.approx(published, abs=5e-4)
    numbers = (folder / f"{name}.uai.MAR").read_text().split()[1:]
    assert int(numbers[0]) == len(model.names)
    at = 1
    for variable in model.names:
        count = int(numbers[at])
        expected = np.array(numbers[at + 1 : at + 1 + count], dtype=float)
        np.testing.assert_allclose(found.marginal(variable)[0], expected, rtol=0, atol=6e-7)
        at += 1 + count


def test_em_is_that_of_pyagrum(shared_data: Path) -> None:
    """From the same tables, on the same rows with holes, one epoch after the other."""
    gum = pytest.importorskip("pyagrum")
    model = fgrn.read(shared_data / "bif" / "asia.bif")
    assert isinstance(model, BayesianNetwork)
    draw = np.random.default_rng(1)
    data = {name: column.astype(object) for name, column in model.sample(300, None, 5).items()}
    for column in data.values():
        column[draw.random(len(column)) < 0.1] = None
    expected = {name: np.zeros_like(model.table(name)) for name in model.names}
    net = in_pyagrum(model)
    for number in range(300):
        engine = gum.LazyPropagation(net)
        engine.setEvidence({name: str(column[number]) for name, column in data.items() if column[number] is not None})
        for name in model.names:
            engine.addJointTarget(set(model.scope(name)))
        engine.makeInference()
        for name in model.names:
            joint, scope = engine.jointPosterior(set(model.scope(name))), model.scope(name)
            axes = list(reversed(list(joint.names)))
            values = joint.toarray().transpose([axes.index(one) for one in scope])
            expected[name] += values.reshape(expected[name].shape)
    model.learn(data, epochs=1)
    for name in model.names:
        totals = expected[name].sum(axis=1, keepdims=True)
        seen = totals[:, 0] > 1e-9
        np.testing.assert_allclose(model.table(name)[seen], (expected[name] / totals)[seen], atol=1e-9)
