"""Posteriors by importance sampling, for networks that are too wide for exact inference: with standard errors.

Likelihood weighting (Fung and Chang, 1990; Shachter and Peot, 1990): variables are drawn along the arcs, known ones are
set to their states, and a sample counts as much as its known states are probable given their parents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import ImpossibleEvidence, Remedy
from ..core.settings import Name
from ..flow.evidence import encode
from ..queries.sampling import draw_states
from ..tables import frames

if TYPE_CHECKING:
    from ..tables.encoded import Evidence
    from .bayesian import BayesianNetwork

SAMPLES = 10_000


class SampledPosterior(NamedTuple):
    """A posterior by importance sampling, and how sure it is.

    Attributes:
        probabilities: (rows, states) the estimate.
        standard_errors: (rows, states) of the estimate.
        effective_size: (rows,) how many samples of equal weight it is worth; with a few, do not trust the errors.
    """

    probabilities: np.ndarray
    standard_errors: np.ndarray
    effective_size: np.ndarray


class SampledQueries:
    """Questions that a Bayesian network answers by drawing samples."""

    def sampled_posterior(
        self, evidence: frames.Data, name: Name, *, samples: int = SAMPLES, seed: int = 0
    ) -> SampledPosterior:
        """Return the posterior of a variable in each row by importance sampling, with standard errors.

        For networks whose cliques do not fit into memory. Evidence of small probability needs many samples: look at
        the effective size.

        Args:
            evidence: see `propagate`.
            name: the variable.
            samples: how many samples are drawn for each row.
            seed: of the draws.
        """
        network: BayesianNetwork = self  # type: ignore[assignment]  # it is a part of that class
        settings.whole("samples", samples, 2)
        settings.whole("seed", seed, 0)
        target = network.variable(name)
        network._checked(evidence)
        rows = encode(network, evidence)
        found = [
            _weighted_draws(network, rows, row, target.name, samples, np.random.default_rng([seed, row]))
            for row in range(rows.rows)
        ]
        states = np.arange(target.cardinality)
        shares, errors = np.empty((2, rows.rows, len(states)))
        sizes = np.empty(rows.rows)
        for row, (codes, weights) in enumerate(found):
            total = weights.sum()
            if not total > 0:
                raise ImpossibleEvidence(
                    f"none of {samples:,} samples goes with this evidence, which is impossible, or nearly so.",
                    rows=[row],
                    remedies=(Remedy("draw more", samples=...), "give less evidence"),
                )
            seen = codes[:, None] == states
            shares[row] = (weights[:, None] * seen).sum(axis=0) / total
            errors[row] = np.sqrt((weights[:, None] ** 2 * (seen - shares[row]) ** 2).sum(axis=0)) / total
            sizes[row] = total**2 / (weights**2).sum()
        return SampledPosterior(shares, errors, sizes)


def _weighted_draws(
    network: BayesianNetwork, evidence: Evidence, row: int, target: str, samples: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The states of a variable in samples given a row of evidence, and the weight of each; the largest is one."""
    one = evidence.take(slice(row, row + 1))
    codes: dict[str, np.ndarray] = {}
    logs = np.zeros(samples)
    with np.errstate(divide="ignore"):
        for name in network._order:
            variable = network.variable(name)
            line = np.zeros(samples, dtype=np.int64)
            for parent in network.parents(name):
                line = line * network.variable(parent).cardinality + codes[parent]
            table = network.table(name)
            weights = one.weights(network.index[name], variable.cardinality)[0]
            scaled = table * weights
            total = scaled.sum(axis=1)
            logs += np.log(total)[line]  # the probability of the evidence on the variable, given its parents
            kept = scaled / np.where(total > 0, total, 1)[:, None]
            kept[total == 0] = table[total == 0]
            codes[name] = draw_states(kept, line, random)
    largest = logs.max()
    return codes[target], np.exp(logs - largest) if np.isfinite(largest) else np.zeros(samples)
