"""The likelihood-ratio test of Vuong, Lo, Mendell and Rubin: k against k + 1 classes, without a bootstrap.

Twice the difference of the log-likelihoods is distributed like a sum of squared normal variables with weights, the
eigenvalues of

    W = [ -B_f A_f^-1   -B_fg A_g^-1 ]        A: second derivatives of each model per row
        [  B_gf A_f^-1   B_g  A_g^-1 ]        B: products of the scores of each model, and of both, per row

(Vuong 1989; Lo, Mendell and Rubin 2001; f has k + 1 classes, g has k). The adjusted ratio is divided by
1 + 1 / ((p - q) log n). That the theory covers mixtures has been doubted (Jeffries 2003): prefer the bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.printing import html_table, text_table
from .bootstrap import below_fewer, likelihood
from .fisher_information import Inverse, information
from .latent_classes import LatentClasses, Patterns
from .results import Result

TERMS_AT_ONCE, MOST_TERMS, TAIL_ERROR = 512, 2**17, 1e-10
"""Terms of a sum that are added at a time and at most, and the size of a term that ends it."""


@dataclass(frozen=True)
class VuongTest(Result):
    """The test of Vuong, Lo, Mendell and Rubin of k against k + 1 classes.

    Attributes:
        classes: k, the number of classes under the null hypothesis.
        ratio: twice the difference of the log-likelihoods, and `p` its p-value.
        adjusted: the ratio as Lo, Mendell and Rubin adjust it, and `adjusted_p` its p-value.
        warnings: what makes the test doubtful, in words.
        frames: everything as pandas data frames, by name: "tests", "notes".
    """

    _table_name = "tests"

    classes: int
    ratio: float
    p: float
    adjusted: float
    adjusted_p: float
    warnings: tuple[str, ...] = ()

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per test; there are two."""
        return [
            {"test": "Vuong-Lo-Mendell-Rubin", "ratio": self.ratio, "p": self.p},
            {"test": "adjusted", "ratio": self.adjusted, "p": self.adjusted_p},
        ]

    @property
    def notes(self) -> list[str]:
        """The hypothesis that is tested, in sentences."""
        return [f"{self.classes} against {self.classes + 1} classes; bootstrap_lrt() is more reliable", *self.warnings]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [[one["test"], f"{one['ratio']:.3f}", f"{one['p']:.4f}"] for one in self.as_dicts()]
        return [f"{self.classes} against {self.classes + 1} classes", "ratio", "p"], rows

    def __str__(self) -> str:
        return text_table(*self._rows()) + "".join(f"\nwarning: {one}" for one in self.warnings)

    def _repr_html_(self) -> str:
        return html_table("; ".join(["Likelihood-ratio test", *self.warnings]), *self._rows())


def vuong_test(fewer: LatentClasses, more: LatentClasses, rows: Patterns, extra: int) -> VuongTest:
    """Test k against k + 1 classes on the rows both were fitted to, given the number of additional parameters."""
    count = rows.weight
    null, full = information(fewer, rows), information(more, rows)
    inverse_null, inverse_full = (Inverse.of(one.information / count).matrix for one in (null, full))
    weighted = full.scores * rows.weights[:, None] / count
    cross = weighted.T @ null.scores
    matrix = np.block(
        [
            [full.outer / count @ inverse_full, cross @ inverse_null],
            [-cross.T @ inverse_full, -null.outer / count @ inverse_null],
        ]
    )
    eigenvalues = np.linalg.eigvals(matrix).real
    low, high = likelihood(fewer, rows), likelihood(more, rows)
    ratio = max(0.0, 2 * (high - low))
    adjusted = ratio / (1 + 1 / (extra * np.log(max(count, 3.0))))
    p, adjusted_p = (tail_of_squares(eigenvalues, value) for value in (ratio, adjusted))
    doubts = tuple(filter(None, [below_fewer(fewer.n_classes, low, high)]))
    return VuongTest(fewer.n_classes, ratio, p, float(adjusted), adjusted_p, doubts)


def tail_of_squares(weights: np.ndarray, value: float) -> float:
    """Return P(sum of weights * squared standard normals > value), by inverting the characteristic function.

    The sum of Davies (1973): 1/2 + sum over k of Im(phi(u) exp(-i u value)) / (pi (k + 1/2)) at u = (k + 1/2) step.
    """
    scale = np.abs(weights).max(initial=0.0)
    if not scale > 0:
        return 1.0
    used = weights[np.abs(weights) > 1e-8 * scale] / scale
    value = value / scale
    reach = abs(value) + np.abs(used).sum() + 12 * np.sqrt(2 * (used**2).sum())  # far beyond all that is likely
    step, total = np.pi / reach, 0.5
    for first in range(0, MOST_TERMS, TERMS_AT_ONCE):
        half = first + np.arange(TERMS_AT_ONCE) + 0.5
        u = half * step
        angle = 0.5 * np.arctan(2 * np.outer(used, u)).sum(axis=0) - value * u
        size = np.exp(-0.25 * np.log1p(4 * np.outer(used, u) ** 2).sum(axis=0))
        terms = size * np.sin(angle) / (np.pi * half)
        total += terms.sum()
        if size[-1] / half[-1] < TAIL_ERROR:
            break
    return float(np.clip(total, 0.0, 1.0))
