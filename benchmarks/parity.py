"""The same estimates as other programs: StepMix, statsmodels, hmmlearn; and derivatives taken numerically.

Every program has the same rows, and starts of EM have the same tables. A comparison is a record of what was compared,
with which program, the largest difference and the limit that it may not exceed.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import fgrn
from fgrn.statistics.membership import three_step_regression
from fgrn.statistics.three_step import AssignedRows

from .latent_classes import drawn, truth

ESTIMATES, ERRORS, ANSWERS = 1e-6, 1e-5, 1e-9
"""The largest differences: of estimates at the same maximum, of standard errors, of posterior probabilities."""

Record = dict[str, Any]

SETTINGS: dict[str, Any] = {"smoothing": 0.0, "tol": 1e-15, "n_epochs": 20_000}


def compared(what: str, program: str, ours: Any, theirs: Any, limit: float = ESTIMATES) -> Record:
    """A record of the largest difference of two arrays; an error if it is above the limit."""
    difference = float(np.abs(np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)).max())
    print(f"{program:22} {what:62} {difference:.1e}", flush=True)
    assert difference <= limit, f"{what}: {program} differs by {difference:g}, more than {limit:g}"
    return {"what": what, "program": program, "difference": difference, "limit": limit}


def study() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Six yes-or-no items of 1,500 rows in two classes, and of each row a covariate z and a number y."""
    real, rng = truth(2, 6), np.random.default_rng(11)
    z = rng.normal(size=1500)
    second = (rng.random(1500) < 1 / (1 + np.exp(-0.3 - 0.8 * z))).astype(int)
    table = {
        name: (rng.random(1500) < one[second, 1]).astype(int) for name, one in zip(real.names, real.tables, strict=True)
    }
    return table, {"z": z, "y": rng.normal(1.0 + second, 0.5)}


STEPMIX: dict[str, Any] = {"measurement": "categorical", "progress_bar": 0, "verbose": 0, "random_state": 0}


def started(weights: np.ndarray, tables: np.ndarray, **options: Any) -> Any:
    """A StepMix that begins with these class sizes and item-response probabilities, with the closest tolerance."""
    from stepmix.stepmix import StepMix

    class Started(StepMix):
        def _initialize_parameters(self, X: Any, random_state: Any) -> None:
            super()._initialize_parameters(X, random_state)
            self.weights_, self._mm.parameters["pis"] = weights.copy(), tables.copy()

    close = {"max_iter": 20_000, "abs_tol": 1e-16, "rel_tol": 0.0, "n_init": 1}
    return Started(len(weights), **{**STEPMIX, **close, **options})


def beginning(table: dict[str, np.ndarray], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Class sizes and item-response probabilities after the first epoch of the fits that are compared."""
    model = fgrn.LatentClassModel(classes, smoothing=0.0, n_init=1, n_epochs=1, random_state=0).fit(table)
    return model.weights_, _tables(model, table)


def _tables(model: fgrn.LatentClassModel, table: dict[str, np.ndarray]) -> np.ndarray:
    """(classes, levels of all items): the item-response probabilities."""
    return np.concatenate([model.network_.table(name) for name in table], axis=1)


def stepmix_report() -> list[Record]:
    """Estimates, memberships and criteria of a latent class model."""
    table = drawn(truth(3, 8), 1000, np.random.default_rng(4))
    codes = pd.DataFrame(table)
    peer = started(*beginning(table, 3)).fit(codes)
    model = fgrn.LatentClassModel(3, **SETTINGS, n_init=1, random_state=0).fit(table)
    report, program = model.report(), "StepMix"
    numbers = [report.log_likelihood, *(report.criteria[name] for name in ("AIC", "BIC", "CAIC"))]
    theirs = [1000 * peer.score(codes), peer.aic(codes), peer.bic(codes), peer.caic(codes)]
    sclove = peer.sabic(codes) - report.n_parameters * np.log(1000)  # StepMix has n (n + 2) / 24 for (n + 2) / 24
    return [
        compared("log-likelihood, AIC, BIC, CAIC", program, numbers, theirs),
        compared("SABIC, with the formula of Sclove", program, report.criteria["SABIC"], sclove),
        compared("relative entropy", program, report.relative_entropy, peer.relative_entropy(codes)),
        compared("class sizes", program, model.weights_, peer.weights_),
        compared(
            "item-response probabilities", program, _tables(model, table), peer.get_parameters()["measurement"]["pis"]
        ),
        compared("class memberships", program, model.predict_proba(table), peer.predict_proba(codes)),
    ]


def stepmix_steps() -> list[Record]:
    """Distal outcomes and covariates of membership in one, two and three steps."""
    table, extra = study()
    codes, program = pd.DataFrame(table), "StepMix"
    start = beginning(table, 2)
    model = fgrn.LatentClassModel(2, **SETTINGS, n_init=1, random_state=0).fit(table)
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "three steps, BCH": ({"steps": 3}, {"n_steps": 3, "correction": "BCH", "assignment": "modal"}),
        "three steps, ML": (
            {"steps": 3, "correction": "ml"},
            {"n_steps": 3, "correction": "ML", "assignment": "modal"},
        ),
        "two steps": ({"steps": 2}, {"n_steps": 2}),
        "one step": ({"steps": 1, "n_init": 1}, {"n_steps": 1}),
    }

    def structural(values: np.ndarray, options: dict[str, Any], kind: str, **more: Any) -> dict[str, np.ndarray]:
        fitted = started(*start, structural=kind, structural_params=more, **options).fit(codes, values[:, None])
        found: dict[str, np.ndarray] = fitted.get_parameters()["structural"]
        return found

    levels, found = np.digitize(extra["y"], [1, 2]), []
    for way, (ours, theirs) in ways.items():
        number = model.distal_outcome(extra["y"], **ours)
        normal = structural(extra["y"], theirs, "gaussian_diag", reg_covar=0.0)
        found.append(
            compared(f"mean of an outcome in the classes, {way}", program, number.means, normal["means"].ravel())
        )
        if number.variances is not None:
            spread = normal["covariances"].ravel()
            found.append(compared(f"variance of an outcome in the classes, {way}", program, number.variances, spread))
        words = model.distal_outcome([f"level {one}" for one in levels], **ours)
        shares = structural(levels, theirs, "categorical")["pis"]
        found.append(compared(f"shares of an outcome in the classes, {way}", program, words.means, shares))
        if way == "three steps, BCH":
            continue
        options = {key: value for key, value in ours.items() if key != "correction"}
        logit = model.membership_regression({"z": extra["z"]}, **options)
        beta = structural(extra["z"], theirs, "covariate", method="newton-raphson", max_iter=10, tol=1e-12)["beta"]
        found.append(compared(f"covariate of membership, {way}", program, logit.coefficients[1], beta[1] - beta[0]))
    return found


def stepmix_more_classes(replicates: int = 40, tables: int = 5) -> list[Record]:
    """The likelihood ratio of two and three classes: of the table, of tables drawn under two, and the p-value."""
    from stepmix import StepMix
    from stepmix.bootstrap import blrt

    table, starts = drawn(truth(2, 6), 500, np.random.default_rng(6)), {"n_init": 10, "random_state": 0}
    null = fgrn.LatentClassModel(2, **SETTINGS, **starts).fit(table)
    options = {**STEPMIX, **starts, "max_iter": 5000, "abs_tol": 1e-8}

    def ratios(rows: dict[str, np.ndarray]) -> tuple[float, float]:
        codes = np.column_stack(list(rows.values()))
        ours = [fgrn.LatentClassModel(size, **SETTINGS, **starts).fit(rows).score(rows) for size in (2, 3)]
        theirs = []
        for size in (2, 3):
            best = StepMix(size, **options).fit(codes).get_parameters()
            theirs.append(started(best["weights"], best["measurement"]["pis"]).fit(codes).score(codes))
        return 1000 * (ours[1] - ours[0]), 1000 * (theirs[1] - theirs[0])

    rng = np.random.default_rng(8)
    pairs = np.array([ratios(table), *(ratios(drawn(null._estimates(), 500, rng)) for _ in range(tables))])
    same = np.abs(pairs[:, 0] - pairs[:, 1]) < 1e-4  # else one of them has missed the largest likelihood
    assert (pairs[:, 0] > pairs[:, 1] - 1e-4).all(), "StepMix found a larger likelihood"
    assert same[0]
    assert same.sum() > tables / 2, f"StepMix found the same maximum for {same.sum()} of {len(same)} tables"
    codes = np.column_stack(list(table.values()))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        models = [StepMix(size, **{**options, "n_init": 2, "abs_tol": 1e-6}) for size in (2, 3)]
        theirs = float(blrt(*models, codes, n_repetitions=replicates))
    ours = (
        fgrn.LatentClassModel(2, smoothing=0.0, n_init=2, random_state=0)
        .fit(table)
        .bootstrap_lrt(n_bootstrap=replicates)
        .p
    )
    both = (ours + theirs) / 2
    error = 3 * float(np.sqrt(2 * max(both * (1 - both), 0.02) / replicates))
    told = f"likelihood ratio of 2 and 3 classes, {same.sum()} tables"
    return [
        compared(told, "StepMix", pairs[same, 0], pairs[same, 1]),
        compared(
            f"p of the bootstrap test, {replicates} replicates each (3 standard errors)", "StepMix", ours, theirs, error
        ),
    ]


def statsmodels_logit() -> list[Record]:
    """The multinomial logit of classes that are known for sure."""
    from statsmodels.discrete.discrete_model import MNLogit

    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    classes = (rng.random(300) * 3 + z[:, 0]).astype(int).clip(0, 2)
    found = three_step_regression(AssignedRows(classes, np.ones(300), np.eye(3)), {"a": z[:, 0], "b": z[:, 1]})
    peer = MNLogit(classes, np.column_stack([np.ones(300), z])).fit(disp=0, method="newton", tol=1e-14)
    errors = np.asarray(peer.bse).reshape(3, 2, order="F" if np.ndim(peer.bse) == 1 else "C").T
    return [
        compared("multinomial logit: coefficients", "statsmodels", found.coefficients[1:], np.asarray(peer.params).T),
        compared("multinomial logit: standard errors", "statsmodels", found.errors[1:], errors),
    ]


def _second_derivatives(objective: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """The matrix of second derivatives: differences of a gradient that is exact, by a step in the complex numbers."""

    def gradient(point: np.ndarray) -> np.ndarray:
        steps = 1e-30j * np.eye(len(point))
        return np.array([objective(point + one).imag / 1e-30 for one in steps])

    size = 1e-5
    found = [(gradient(at + one) - gradient(at - one)) / (2 * size) for one in size * np.eye(len(at))]
    return np.array(found)


def numerical_errors() -> list[Record]:
    """Standard errors from second derivatives of a log-likelihood that is written out here."""
    table, extra = study()
    codes = np.column_stack(list(table.values()))
    items, program = codes.shape[1], "numerical derivatives"

    def total(shares: Any, logits: np.ndarray) -> Any:
        yes = 1 / (1 + np.exp(-logits.reshape(2, items)))
        each = [np.prod(np.where(codes == 1, yes[k], 1 - yes[k]), axis=1) for k in range(2)]
        return np.log(shares * each[1] + (1 - shares) * each[0]).sum()

    def logit(p: np.ndarray) -> np.ndarray:
        return np.log(p / (1 - p))

    model = fgrn.LatentClassModel(2, **SETTINGS, n_init=1, random_state=0).fit(table)
    yes = np.stack([model.network_.table(name)[:, 1] for name in table], axis=1)
    at = np.concatenate([logit(model.weights_[1:]), logit(yes.ravel())])
    spread = np.linalg.inv(-_second_derivatives(lambda p: total(1 / (1 + np.exp(-p[0])), p[1:]), at))
    chance = np.concatenate([model.weights_[1:], yes.ravel()])
    wanted = np.sqrt(np.diag(spread)) * chance * (1 - chance)
    errors = model.standard_errors()
    ours = np.concatenate(
        [errors.of_sizes[1:], np.stack([errors.of_item(name)[:, 1] for name in table], axis=1).ravel()]
    )
    found = [compared("standard errors: class sizes, item-response probabilities", program, ours, wanted, ERRORS)]

    one = model.membership_regression({"z": extra["z"]}, steps=1, n_init=1)
    yes = np.stack([one.profiles._table(one.profiles.estimates, name)[:, 1] for name in table], axis=1)
    at = np.concatenate([one.coefficients[1], logit(yes.ravel())])
    spread = np.linalg.inv(
        -_second_derivatives(lambda p: total(1 / (1 + np.exp(-p[0] - p[1] * extra["z"])), p[2:]), at)
    )
    wanted = np.sqrt(np.diag(spread))[:2]
    found.append(compared("standard errors: covariate of membership, one step", program, one.errors[1], wanted, ERRORS))
    return [*found, _continuous_errors()]


def _continuous_errors() -> Record:
    """Standard errors of means and variances of two continuous columns in two classes."""
    rng = np.random.default_rng(5)
    second = rng.random(600) < 0.4
    values = rng.normal(size=(600, 2)) * np.where(second[:, None], [1.5, 0.7], 1.0) + np.where(
        second[:, None], [3, 1], 0
    )
    table = {"a": values[:, 0], "b": values[:, 1]}
    model = fgrn.LatentClassModel(2, continuous=["a", "b"], **SETTINGS, n_init=1, random_state=0).fit(table)
    means, variances = model.means_, model.variances_

    def total(p: np.ndarray) -> Any:
        m, v = p[1:5].reshape(2, 2), np.exp(p[5:]).reshape(2, 2)
        each = [
            np.prod(np.exp(-((values - m[k]) ** 2) / (2 * v[k])) / np.sqrt(2 * np.pi * v[k]), axis=1) for k in range(2)
        ]
        share = 1 / (1 + np.exp(-p[0]))
        return np.log(share * each[1] + (1 - share) * each[0]).sum()

    size = model.weights_[1]
    at = np.concatenate([[np.log(size / (1 - size))], means.ravel(), np.log(variances).ravel()])
    wanted = np.sqrt(np.diag(np.linalg.inv(-_second_derivatives(total, at))))
    wanted[5:] *= variances.ravel()
    errors = model.standard_errors()
    ours = [np.array([one.error for one in errors.of(what)]).reshape(2, 2).T for what in ("mean", "variance")]
    told = "standard errors: means and variances of continuous columns"
    return compared(told, "numerical derivatives", np.concatenate([one.ravel() for one in ours]), wanted[1:], ERRORS)


def hmmlearn_chains() -> list[Record]:
    """Hidden Markov models of codes and of numbers: what is learnt, posterior probabilities, log-likelihood, states."""
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    rng, program = np.random.default_rng(1), "hmmlearn"
    states = np.concatenate([(np.cumsum(rng.random(60) < 0.1) + rng.integers(2)) % 2 for _ in range(20)])
    ids, lengths = np.repeat(np.arange(20), 60), [60] * 20
    codes = np.where(rng.random(1200) < np.where(states, 0.85, 0.2), 1, 0)
    numbers = rng.normal(size=(1200, 2)) + states[:, None] * [2.0, 1.0]
    start, moves, answers = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.8, 0.2], [0.3, 0.7]])
    options: dict[str, Any] = {"n_iter": 400, "tol": -np.inf, "init_params": ""}
    tables: dict[str, Any] = {"S next": moves, "S": start, "code": answers}
    words = {"code": codes}
    model = fgrn.HiddenMarkovModel(2, tables=tables, **SETTINGS, n_init=1).fit(words, sequence=ids)
    peer = CategoricalHMM(2, **options)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, moves, answers
    peer.fit(codes[:, None], lengths)
    learnt = [model.initial_, model.transitions_, model.network_.table("code")]
    found = [
        compared(f"hidden Markov model of codes: {what}", program, ours, theirs)
        for what, ours, theirs in zip(
            ("first state", "transitions", "probabilities of codes"),
            learnt,
            (peer.startprob_, peer.transmat_, peer.emissionprob_),
            strict=True,
        )
    ]
    found += _same_questions("codes", model, peer, words, ids, codes[:, None], lengths)
    columns = {"a": numbers[:, 0], "b": numbers[:, 1]}
    means, spread = np.array([[0.0, 0.0], [2.0, 1.0]]), np.ones((2, 2))
    tables = {"S next": moves, "S": start, "a": means[:, 0].tolist(), "b": means[:, 1].tolist()}
    model = fgrn.HiddenMarkovModel(2, tables=tables, continuous=["a", "b"], **SETTINGS, n_init=1)
    model.fit(columns, sequence=ids)
    flat: dict[str, Any] = {"covars_prior": 0, "covars_weight": 0, "means_weight": 0, "min_covar": 0}
    peer = GaussianHMM(2, **flat, **options)
    peer.startprob_, peer.transmat_, peer.means_, peer.covars_ = start, moves, means, spread
    peer.fit(numbers, lengths)
    learnt = [model.initial_, model.transitions_, model.means_, model.variances_]
    theirs = (peer.startprob_, peer.transmat_, peer.means_, np.array([np.diag(one) for one in peer.covars_]))
    named = ("first state", "transitions", "means", "variances")
    found += [
        compared(f"hidden Markov model of numbers: {what}", program, one, other)
        for what, one, other in zip(named, learnt, theirs, strict=True)
    ]
    return found + _same_questions("numbers", model, peer, columns, ids, numbers, lengths)


def _same_questions(
    kind: str, model: Any, peer: Any, table: Any, ids: np.ndarray, values: np.ndarray, lengths: list[int]
) -> list[Record]:
    """The answers of two chains that have been learnt."""
    states, what = model.predict(table, sequence=ids).tolist(), f"hidden Markov model of {kind}"
    place = {label: k for k, label in enumerate(model.states_.tolist())}
    path, other = np.array([place[one] for one in states]), peer.predict(values, lengths)
    total = model.score_samples(table, sequence=ids).sum()
    return [
        compared(f"{what}: posterior probabilities", "hmmlearn", model.predict_proba(table, sequence=ids),
                 peer.predict_proba(values, lengths)),
        compared(f"{what}: log-likelihood", "hmmlearn", total, peer.score(values, lengths)),
        compared(f"{what}: states by Viterbi", "hmmlearn", path, other, 0.0),
    ]  # fmt: skip


CHECKS = (
    stepmix_report, stepmix_steps, stepmix_more_classes, statsmodels_logit, numerical_errors, hmmlearn_chains,
)  # fmt: skip


def parity() -> list[Record]:
    """All comparisons; an error at the first that differs too much."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [record for check in CHECKS for record in check()]
