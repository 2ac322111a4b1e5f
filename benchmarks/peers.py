"""Other programs that do the same: one epoch of EM, from given tables, on a matrix of codes.

Each is a function (codes, prior, tables) -> Peer; tables are (hidden, variables, states).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .measure import THREADS


class Peer(NamedTuple):
    """`step` is one epoch, which gives the new prior and tables; `fit` runs as many as it is told, as a user would."""

    name: str
    step: Callable[[], tuple[np.ndarray, np.ndarray]]
    fit: Callable[[int], Any]


def stepmix(codes: np.ndarray, prior: np.ndarray, tables: np.ndarray) -> Peer:
    """StepMix, with holes if there are any."""
    from stepmix.stepmix import StepMix

    hidden, variables, states = tables.shape
    kind = "categorical_nan" if np.isnan(codes).any() else "categorical"

    def model(epochs: int) -> Any:
        return StepMix(
            n_components=hidden, measurement=kind, max_iter=epochs, n_init=1, abs_tol=0, rel_tol=0, random_state=0,
            verbose=0, progress_bar=0,
        )  # fmt: skip

    def step() -> tuple[np.ndarray, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small = model(1)
            small.fit(codes)  # makes all that a fitted model has; then its tables are replaced by ours
            parameters = small.get_parameters()
            parameters["weights"] = prior.copy()
            parameters["measurement"]["pis"] = tables.reshape(hidden, -1).copy()
            small.set_parameters(parameters)
            _, log_resp = small._e_step(codes)
            small._m_step(codes, np.exp(log_resp))
            found = small.get_parameters()
        return found["weights"], found["measurement"]["pis"].reshape(hidden, variables, states)

    def fit(epochs: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(epochs).fit(codes)

    return Peer("StepMix", step, fit)


def pomegranate(codes: np.ndarray, prior: np.ndarray, tables: np.ndarray) -> Peer:
    """The mixture of pomegranate, in single precision as it is."""
    import torch
    from pomegranate.distributions import Categorical
    from pomegranate.gmm import GeneralMixtureModel

    torch.set_num_threads(THREADS)
    rows = torch.tensor(codes)

    def model(epochs: int) -> Any:
        parts = [Categorical(torch.tensor(table, dtype=torch.float32)) for table in tables]
        weights = torch.tensor(prior, dtype=torch.float32)
        return GeneralMixtureModel(parts, priors=weights / weights.sum(), max_iter=epochs, tol=-1e30)

    def step() -> tuple[np.ndarray, np.ndarray]:
        one = model(1)
        one.summarize(rows)
        one.from_summaries()
        return one.priors.numpy(), np.stack([part.probs.numpy() for part in one.distributions])

    return Peer("pomegranate", step, lambda epochs: model(epochs).fit(rows))


def one_hot(codes: np.ndarray, prior: np.ndarray, tables: np.ndarray, kind: type = np.float64) -> Peer:
    """Matrix products in NumPy with the codes as zeros and ones, which are made once."""
    hidden, variables, states = tables.shape
    table = np.zeros((len(codes), variables * states), dtype=kind)
    table[np.arange(len(codes))[:, None], np.arange(variables) * states + codes] = 1

    def epoch(prior: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logs = table @ np.log(tables.reshape(hidden, -1).T).astype(kind)
        logs += np.log(prior).astype(kind)
        top = logs.max(axis=1, keepdims=True)
        logs -= top
        np.exp(logs, out=logs)
        norm = logs.sum(axis=1, keepdims=True)
        float((np.log(norm) + top).sum())
        logs /= norm
        counts = (logs.T @ table).reshape(hidden, variables, states).astype(np.float64)
        counts += 1e-300
        total = logs.sum(axis=0, dtype=np.float64)
        return total / total.sum(), counts / counts.sum(axis=2, keepdims=True)

    def fit(epochs: int) -> None:
        now = prior, tables
        for _ in range(epochs):
            now = epoch(*now)

    return Peer(f"NumPy one-hot {np.dtype(kind).name}", lambda: epoch(prior, tables), fit)
