"""Posteriors by importance sampling, with standard errors, for networks too large for exact inference.

Variables are drawn along the arcs, and the weight of a sample is its probability with the evidence divided by the
probability of drawing it. Most samples are drawn from tables that account for the evidence on descendants: each is
multiplied by the backward messages of loopy belief propagation (Yuan and Druzdzel, 2003). The others are drawn from
the unchanged tables, with known variables set to their states (likelihood weighting; Fung and Chang, 1990; Shachter and
Peot, 1990), so that no sample gets too much weight where these messages are wrong. All are weighted by the
mixture of both (Veach and Guibas, 1995). Only tables that the answer depends on are drawn from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import ConvergenceWarning, FgrnWarning, ImpossibleEvidence, Remedy, warn
from ..core.settings import Name
from ..flow.evidence import encode
from ..queries.sampling import draw_states
from ..tables import frames
from .elimination import hard_and_soft

if TYPE_CHECKING:
    from ..tables.encoded import Evidence
    from .bayesian import BayesianNetwork
    from .realisation import ScopedTable

SAMPLES = 10_000

FROM_MESSAGES = 0.8
"""The share of samples that are drawn from tables multiplied by messages."""

UNCHANGED = 0.1
"""The share of the unchanged table in a table multiplied by messages, so that no state is sampled much too rarely."""

ROUNDS = 30
"""Rounds of loopy belief propagation at most: the messages need not have converged to be of use."""

FEW_SAMPLES = 30
"""With an effective size below this, standard errors are not reliable."""


class SampledPosterior(NamedTuple):
    """A posterior by importance sampling, with standard errors.

    Attributes:
        probabilities: (rows, states) the estimate.
        standard_errors: (rows, states) of the estimate; for a state without samples about 0.7 divided by the effective
            size. 0 only where the evidence determines the state.
        effective_size: (rows,) the equivalent number of samples of equal weight; if small, the errors are unreliable.
    """

    probabilities: np.ndarray
    standard_errors: np.ndarray
    effective_size: np.ndarray

    @property
    def method(self) -> str:
        """The method of inference."""
        return "importance sampling"


class SampledQueries:
    """Queries that a Bayesian network answers by sampling."""

    def sampled_posterior(
        self, evidence: frames.Data, name: Name, *, samples: int = SAMPLES, seed: int = 0
    ) -> SampledPosterior:
        """Return the posterior of a variable in each row by importance sampling, with standard errors.

        For networks whose cliques do not fit into memory. A warning is issued if the effective size is so small that
        the errors are not reliable.

        Args:
            evidence: see `propagate`.
            name: the variable.
            samples: how many samples are drawn for each row.
            seed: of the draws.
        """
        network: BayesianNetwork = self  # type: ignore[assignment]  # it is a part of that class
        target = network.variable(name).name
        return sampled_posteriors(network, evidence, [target], samples, seed)[target]


def sampled_posteriors(
    network: BayesianNetwork,
    evidence: frames.Data,
    names: Sequence[str],
    samples: int,
    seed: int,
    impossible: str = "raise",
) -> dict[str, SampledPosterior]:
    """Return the posteriors of some variables, from the same samples; see `SampledQueries.sampled_posterior`.

    With impossible="mark", a row that no sample goes with has the effective size 0, and zeros for its answers.
    """
    settings.whole("samples", samples, 2)
    settings.whole("seed", seed, 0)
    network._checked(evidence)
    rows = encode(network, evidence)
    messages = _messages_of_evidence(network, rows)
    sizes = {name: network.variable(name).cardinality for name in names}
    shares, errors = ({name: np.zeros((rows.rows, size)) for name, size in sizes.items()} for _ in range(2))
    effective = np.zeros(rows.rows)
    for row in range(rows.rows):
        back = {name: some[row] for name, some in messages.items()}
        one, random = rows.take(slice(row, row + 1)), np.random.default_rng([seed, row])
        ((_, known, weighted),) = hard_and_soft(one, network.names)
        near, apart = network._graph.near_and_apart(names, known, weighted)
        doubtful = network._doubtful(apart, known, weighted)  # they decide only whether the evidence is possible
        codes, weights = _weighted_samples(network, one, near, back, samples, random)
        total = weights.sum()
        if not total > 0 or not _weighted_samples(network, one, doubtful, back, samples, random)[1].any():
            if impossible == "mark":
                continue
            raise ImpossibleEvidence(
                f"none of {samples:,} samples agrees with this evidence, which is impossible or very improbable.",
                rows=[row],
                remedies=(Remedy("draw more", samples=...), "give less evidence"),
            )
        effective[row] = total**2 / (weights**2).sum()
        for name, size in sizes.items():
            seen = codes[name][:, None] == np.arange(size)
            share = shares[name][row] = (weights[:, None] * seen).sum(axis=0) / total
            spread = np.sqrt((weights[:, None] ** 2 * (seen - share) ** 2).sum(axis=0)) / total
            if name not in known and size > 1:
                possible = one.weights(network.index[name], size)[0] > 0
                spread = np.where(possible, np.maximum(spread, _error_of_a_state_not_drawn(effective[row])), spread)
            errors[name][row] = spread
    least = effective.min(initial=np.inf, where=effective > 0)
    if least < min(FEW_SAMPLES, samples / 2):
        warn(
            f"The samples are worth no more than {least:.1f} of equal weight, so that standard errors are "
            "not to be trusted: the evidence is improbable.",
            FgrnWarning,
            remedies=(Remedy("draw more", samples=...), "give less evidence"),
        )
    return {name: SampledPosterior(shares[name], errors[name], effective) for name in names}


def _error_of_a_state_not_drawn(effective: float) -> float:
    """Return the standard error of a share that is 0 in n samples, by Jeffreys' prior: that of Beta(1/2, n + 1/2).

    An estimate of 0 from finitely many samples does not mean that a state is impossible.
    """
    return float(np.sqrt(0.5 * (effective + 0.5) / (effective + 2)) / (effective + 1))


def _messages_of_evidence(network: BayesianNetwork, rows: Evidence) -> dict[str, np.ndarray]:
    """Return the approximate likelihood of the evidence for each state of each variable, by loopy propagation.

    None for a network without evidence, or whose evidence loopy propagation takes for impossible.
    """
    if all(not known and not weighted for _, known, weighted in hard_and_soft(rows, network.names)):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seen = network.to_network("loopy").propagate(
            rows, keep=network.names, parts=["backward", "likelihood"], rounds=ROUNDS, impossible="mark"
        )
    if seen.impossible.any():
        return {}
    return {name: seen.backward(name) for name in network.names}


def _weighted_samples(
    network: BayesianNetwork,
    one: Evidence,
    parts: Sequence[ScopedTable],
    messages: Mapping[str, np.ndarray],
    samples: int,
    random: np.random.Generator,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return samples of the variables given a row of evidence, and their weights, scaled to a maximum of 1.

    Those of some tables are drawn, in which what is not known has a table among them.
    """
    ((_, known, _),) = hard_and_soft(one, network.names)
    wanted = {part.name for part in parts}
    codes = {name: np.full(samples, one.codes[0, one.slot[network.index[name]]], dtype=np.int64) for name in known}
    first = round(FROM_MESSAGES * samples) if messages else 0
    logs, plain, changed = np.zeros((3, samples))
    with np.errstate(divide="ignore"):
        for name in network._order:
            if name not in wanted:
                continue
            line = np.zeros(samples, dtype=np.int64)
            for parent in network.parents(name):
                line = line * network.variable(parent).cardinality + codes[parent]
            table = network.table(name)
            if name in known:
                logs += np.log(table[line, codes[name]])
                continue
            scaled = table * one.weights(network.index[name], table.shape[1])[0]
            likely = _rows_summing_to_one(scaled, table)
            other = likely
            if first:
                better = _rows_summing_to_one(table * messages[name], likely)
                other = (1 - UNCHANGED) * better + UNCHANGED * likely
            drawn = [draw_states(other, line[:first], random), draw_states(likely, line[first:], random)]
            states = codes[name] = np.concatenate(drawn)
            logs += np.log(scaled[line, states])
            plain += np.log(likely[line, states])
            changed += np.log(other[line, states])
    share = first / samples
    mixture = plain if not first else np.logaddexp(np.log(share) + changed, np.log1p(-share) + plain)
    possible = np.isfinite(logs)
    if not possible.any():
        return codes, np.zeros(samples)
    logs[possible] -= mixture[possible]
    return codes, np.exp(logs - logs[possible].max())


def _rows_summing_to_one(table: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return a table with rows divided by their sums; rows of zeros are taken from another table."""
    total = table.sum(axis=1, keepdims=True)
    found: np.ndarray = np.where(total > 0, table / np.where(total > 0, total, 1), otherwise)
    return found
