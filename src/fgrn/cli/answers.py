"""The answers of `fgrn query`: printed as tables with bars, written to files, or printed as JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import printing
from ..core.exceptions import counted, shortened
from ..tables import frames, table_file
from . import output_files, terminal
from .new_columns import NewColumns
from .terminal import print_message, print_text

if TYPE_CHECKING:
    from ..bayes.factored import FactoredModel
    from ..flow.messages import Messages

BAR = 24
"""Width of the bar of probability 1, in characters."""

LOG = "log-probability"


def plain(logarithm: float) -> str:
    """Return a probability as text, given its natural logarithm; it may be smaller than any float."""
    if math.isinf(logarithm):
        return "0"
    power = math.floor(logarithm / math.log(10))
    if -5 <= power < 6:
        return f"{math.exp(logarithm):.6g}"
    return f"{math.exp(logarithm - power * math.log(10)):.4f}e{power:+03d}"


def shown(share: float) -> str:
    """Return a probability with six digits, or with an exponent if it would look like zero."""
    return f"{share:.6f}" if share >= 5e-7 or share <= 0 else f"{share:.1e}"


@dataclass
class Answer:
    """Answers of a model, given evidence: columns with one row, or with the rows of a table.

    `rows` is how many rows a table of evidence has, None if there is none.
    """

    model: FactoredModel
    known: Mapping[str, Any]
    rows: int | None
    output: str | None = None
    as_json: bool = False

    @property
    def _evidence(self) -> Mapping[str, Any] | None:
        return self.known or None

    @property
    def _is_directed(self) -> bool:
        from ..bayes.bayesian import BayesianNetwork

        return isinstance(self.model, BayesianNetwork)

    def _propagated(self, names: Sequence[str], **options: Any) -> Messages:
        """Return the messages; impossible rows of a table are reported, and a single impossible row is an error."""
        impossible = "raise" if self.rows is None else "mark"
        seen = self.model.propagate(self._evidence, keep=names, impossible=impossible, **options)
        if seen.impossible.any():
            self._tell_unanswered(seen.impossible, "evidence of probability zero")
        return seen

    @staticmethod
    def _tell_unanswered(rows: np.ndarray, why: str) -> None:
        which = np.flatnonzero(rows).tolist()
        print_message(f"{'Row' if len(which) == 1 else 'Rows'} {shortened(which)}: {why}, without an answer.")

    def _answerable(self) -> tuple[np.ndarray | None, Any]:
        """Return which rows of a table are possible (None for all), and the evidence of these rows."""
        if self.rows is None:
            return None, self._evidence
        possible = ~self._propagated([], parts=["likelihood"]).impossible
        if possible.all():
            return None, self._evidence
        which = np.flatnonzero(possible)
        return possible, {
            name: frames.select_rows(column, which) for name, column in frames.columns(self.known).items()
        }

    @staticmethod
    def _all_rows(possible: np.ndarray | None, answers: list[Any], nothing: Any = None) -> list[Any]:
        """Return the answers of the possible rows with `nothing` in the other rows."""
        if possible is None:
            return answers
        left = iter(answers)
        return [next(left) if one else nothing for one in possible.tolist()]

    # Queries

    def posterior(self, names: Sequence[str], method: str) -> None:
        """Show the posterior distribution of each variable."""
        seen = self._propagated(names, method=method)
        beliefs = {name: seen.marginal(name) for name in names}
        if self.as_json:
            self._print_posterior(seen, beliefs, method)
            return
        if self.rows is not None:
            columns = {
                f"P({name} = {label})": self._possible(seen, belief[:, at])
                for name, belief in beliefs.items()
                for at, label in enumerate(self.model.variable(name).labels)
            }
            self._write({**columns, LOG: seen.log_likelihood})
            return
        lines = list(self._lines(beliefs))
        if self.output:
            whole = [(name, str(label), share) for name, labels in self._named(beliefs, 0) for label, share in labels]
            self._write(dict(zip(("variable", "state", "probability"), zip(*whole, strict=True), strict=True)))
            return
        self._print_answer(
            seen, method, terminal.aligned(["variable", "state", "probability", ""], lines, left=2, bars=True)
        )

    def sampled(self, names: Sequence[str], samples: int | None, seed: int) -> None:
        """Show posteriors by importance sampling, with standard errors."""
        from ..bayes.importance import SAMPLES, sampled_posteriors

        model: Any = self.model
        count = samples or SAMPLES
        impossible = "raise" if self.rows is None else "mark"
        found = sampled_posteriors(model, self._evidence, names, count, seed, impossible)
        worth = found[names[0]].effective_size
        possible = worth > 0
        if not possible.all():
            self._tell_unanswered(~possible, f"none of {count:,} samples goes with the evidence")
        numbers = {
            name: {"probability": one.probabilities[possible], "error": one.standard_errors[possible]}
            for name, one in found.items()
        }
        about = [{"method": "importance sampling", "samples": count, "effective_size": float(one)} for one in worth]
        head = f"approximation: {count:,} samples, worth {worth.max(initial=0):,.0f} of equal weight"
        self._numbers_shown(numbers, about, head, possible)

    def intervals(self, names: Sequence[str], level: float, learnt_from: Any = None) -> None:
        """Show posteriors with credible intervals; `learnt_from` as in `credible_interval`."""
        model: Any = self.model
        possible, evidence = self._answerable()
        found = {name: model.credible_interval(evidence, name, level=level, learnt_from=learnt_from) for name in names}
        numbers = {
            name: {"probability": one.probabilities, "lower": one.lower, "upper": one.upper}
            for name, one in found.items()
        }
        about = [{"method": "exact", "level": level}] * (1 if self.rows is None else self.rows)
        head = f"credible intervals of probability {level:g}, by the delta method"
        self._numbers_shown(numbers, about, head, possible)

    def _numbers_shown(
        self,
        numbers: Mapping[str, Mapping[str, np.ndarray]],
        about: Sequence[Mapping[str, Any]],
        head: str,
        possible: np.ndarray | None,
    ) -> None:
        """Show some numbers for each state of variables, (possible rows, states) each: the first is the probability."""
        columns = list(next(iter(numbers.values())))
        labels = {name: list(self.model.variable(name).labels) for name in numbers}
        if self.as_json:
            posteriors = [
                {
                    name: {
                        str(label): {what: float(of[row, at]) for what, of in some.items()}
                        for at, label in enumerate(labels[name])
                    }
                    for name, some in numbers.items()
                }
                for row in range(len(numbers[next(iter(numbers))][columns[0]]))
            ]
            every = zip(about, self._all_rows(possible, posteriors), strict=True)
            rows = [{**told, "posterior": posterior} for told, posterior in every]
            terminal.print_json(rows[0] if self.rows is None else rows)
        elif self.rows is not None:
            titled = {
                f"{'P' if what == 'probability' else what}({name} = {label})": of[:, at].tolist()
                for name, some in numbers.items()
                for at, label in enumerate(labels[name])
                for what, of in some.items()
            }
            self._write({title: self._all_rows(possible, column) for title, column in titled.items()})
        else:
            cells = [
                (name, str(label), [float(of[0, at]) for of in some.values()])
                for name, some in numbers.items()
                for at, label in enumerate(labels[name])
            ]
            if self.output:
                whole = [(name, label, *values) for name, label, values in cells]
                self._write(dict(zip(("variable", "state", *columns), zip(*whole, strict=True), strict=True)))
                return
            lines: list[list[str]] = []
            before = ""
            for name, label, values in cells:
                title = "" if name == before else f"{name} (given)" if name in self.known else name
                lines.append([title, label, *map(shown, values)])
                before = name
            print_text(f"{head}\n\n" + terminal.aligned(["variable", "state", *columns], lines, left=2))

    def most_probable(self, names: Sequence[str]) -> None:
        """Show the most probable joint assignment of all variables."""
        possible, evidence = self._answerable()
        labels, logarithm = self.model.most_probable(evidence)
        found = {name: self._all_rows(possible, np.atleast_1d(labels[name]).tolist()) for name in names}
        logs = np.array(self._all_rows(possible, np.atleast_1d(logarithm).tolist(), -math.inf))
        hidden = len(self.model.variables) - len(found)
        if hidden:
            alone = "leave out --most-probable" if len(found) == 1 else f"ask with --joint {','.join(found)}"
            print_message(
                f"shown is {shortened(found)} of the likeliest states of all {len(self.model.variables):,} variables "
                f"together. Whatever the others are, another state may be likelier: {alone}."
            )
        if not self._assignments_written(found, logs):
            rest = float(logs[0]) - float(self._propagated([], parts=["likelihood"]).log_likelihood[0])
            what = "probability" if self._is_directed else "product"
            some = f" of all {counted(len(self.model.variables), 'variable')}, {hidden:,} not shown"
            what += (some if hidden else " of all of them") + (" and the evidence" if self.known else "")
            print_text(f"{what}: {plain(float(logs[0]))} (log {float(logs[0]):.6g})")
            if self.known:
                print_text(f"given the evidence: {plain(rest)} (log {rest:.6g})")
            given = ["given" if name in self.known else "" for name in found]
            rows_ = [[name, str(column[0]), mark] for (name, column), mark in zip(found.items(), given, strict=True)]
            print_text("\n" + terminal.aligned(["variable", "state", ""], rows_, left=3))

    def _assignments_written(self, found: Mapping[str, Any], logs: np.ndarray) -> bool:
        """Write assignments and their log-probabilities as JSON or as a table; False if neither was asked for."""
        if self.as_json:
            rows = [
                {
                    "labels": None if math.isinf(value) else {name: column[row] for name, column in found.items()},
                    **_logarithm(value),
                }
                for row, value in enumerate(logs.tolist())
            ]
            terminal.print_json(rows[0] if self.rows is None else rows)
        elif self.rows is not None or self.output:
            self._write({**found, self._free(LOG, found): logs})
        return self.as_json or self.rows is not None or bool(self.output)

    def map_states(self, names: Sequence[str]) -> None:
        """Show the most probable joint states of some variables, summed over the others (marginal MAP)."""
        possible, evidence = self._answerable()
        labels, logarithm = self.model.map(names, evidence)
        found = {name: self._all_rows(possible, np.atleast_1d(labels[name]).tolist()) for name in names}
        logs = np.array(self._all_rows(possible, np.atleast_1d(logarithm).tolist(), -math.inf))
        if not self._assignments_written(found, logs):
            print_text(f"probability given the evidence: {plain(float(logs[0]))}")
            shown_rows = [[name, str(column[0])] for name, column in found.items()]
            print_text("\n" + terminal.aligned(["variable", "state"], shown_rows, left=2))

    def value_of_asking(self, target: str, costs: Mapping[str, float], candidates: Sequence[str] | None) -> None:
        """Show the information that each unknown variable would give on a target."""
        model: Any = self.model
        found = model.value_of_asking(target, self._evidence, candidates=candidates, costs=costs)
        if self.as_json:
            terminal.print_json({"target": target, "asked": [one._asdict() for one in found]})
        elif self.output:
            self._write(
                {name: [getattr(one, name) for one in found] for name in ("name", "information", "cost", "value")}
            )
        else:
            print_text(f"expected decrease of the entropy of {target}, in nats, most valuable first")
            rows = [[one.name, f"{one.information:.6f}", f"{one.cost:g}", f"{one.value:.6f}"] for one in found]
            print_text("\n" + terminal.aligned(["variable", "information", "cost", "value"], rows))

    def sensitivities(self, target: tuple[str, Any], spread: float, picture: str | None) -> None:
        """Show which numbers of the tables the probability of a state depends on most, and draw them."""
        model: Any = self.model
        found = model.sensitivities(target, self._evidence, spread=spread)
        if picture:
            from .. import plots

            plots.save(plots.tornado(found), picture)
        rows = [
            {
                "variable": one.variable,
                "state": one.state,
                "given": ", ".join(f"{name}={state}" for name, state in one.parents.items()),
                "number": one.function.parameter,
                "smaller": one.low,
                "larger": one.high,
                "derivative": one.function.derivative,
            }
            for one in found
        ]
        if self.as_json:
            terminal.print_json(
                {"target": dict([target]), "probability": found.probability, "spread": spread, "numbers": rows}
            )
        elif self.output:
            heads = ("variable", "state", "given", "number", "smaller", "larger", "derivative")
            self._write({name: [row[name] for row in rows] for name in heads})
        else:
            print_text(repr(found))
        if picture and not self.as_json:
            output_files.confirm(picture)

    def joint(self, names: Sequence[str]) -> None:
        """Show the joint distribution of some variables."""
        seen = self._propagated([], parts=["likelihood"])
        impossible = "raise" if self.rows is None else "mark"
        table = self.model.joint(self._evidence, names, impossible=impossible)
        table = table.reshape(len(table), -1)
        cells = list(product(*(self.model.variable(name).labels for name in names)))
        if self.as_json:
            title = self._free("probability", names)
            rows = [
                {
                    "joint": None
                    if math.isinf(float(logarithm))
                    else [
                        {**dict(zip(names, cell, strict=True)), title: share}
                        for cell, share in zip(cells, row.tolist(), strict=True)
                    ],
                    **_logarithm(float(logarithm)),
                }
                for row, logarithm in zip(table, seen.log_likelihood, strict=True)
            ]
            terminal.print_json(rows[0] if self.rows is None else rows)
        elif self.rows is not None:
            said = [", ".join(f"{name} = {state}" for name, state in zip(names, cell, strict=True)) for cell in cells]
            columns = {f"P({text})": self._possible(seen, table[:, at]) for at, text in enumerate(said)}
            self._write({**columns, LOG: seen.log_likelihood})
        elif self.output:
            parts = {name: [str(cell[at]) for cell in cells] for at, name in enumerate(names)}
            self._write({**parts, self._free("probability", parts): table[0]})
        else:
            rows_ = [
                [*map(str, cell), shown(share), f"{printing.bar(share, BAR):<{BAR}}"]
                for cell, share in zip(cells, table[0].tolist(), strict=True)
            ]
            self._print_answer(
                seen, "exact", terminal.aligned([*names, "probability", ""], rows_, left=len(names), bars=True)
            )

    def sample(self, count: int, seed: int, names: Sequence[str]) -> None:
        """Write `count` samples for each row of evidence; those of an impossible row are empty."""
        possible, evidence = self._answerable()
        each = None if possible is None else np.repeat(possible, count)
        if possible is None or possible.any():
            drawn = self.model.sample(count, evidence, seed, names=names)
            columns = {name: self._all_rows(each, column.tolist()) for name, column in drawn.items()}
        else:
            columns = {name: [None] * (count * len(possible)) for name in names}
        if self.as_json:
            terminal.print_json([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
        else:
            self._write(columns)

    # Display

    @staticmethod
    def _free(title: str, names: Collection[str]) -> str:
        """Return the title of a column beside variables; if one of them has this name, another, which is reported."""
        beside = NewColumns()
        found = beside.unused_name(title, names)
        beside.print_renamed()
        return found

    def _print_answer(self, seen: Messages, method: str, table: str) -> None:
        print_text("\n".join([*self._heading(seen, method), table]))

    def _heading(self, seen: Messages, method: str) -> Iterator[str]:
        """Yield the lines above an answer: the probability of the evidence, and whether it is an approximation."""
        logarithm = float(seen.log_likelihood[0])
        if not self._is_directed:
            yield f"sum of all products: {plain(logarithm)} (log {logarithm:.6g})"
        elif self.known:
            about = "about " if seen.rounds is not None else ""
            yield f"probability of the evidence: {about}{plain(logarithm)} (log {logarithm:.6g})"
        if method == "loopy" and seen.rounds is not None:
            rest = "converged" if seen.converged.all() else "did NOT converge"
            yield f"approximation: messages {rest} after {counted(seen.rounds, 'round')}"
        if self.known or not self._is_directed or method == "loopy":
            yield ""

    def _lines(self, beliefs: Mapping[str, np.ndarray]) -> Iterator[list[str]]:
        for name, labels in self._named(beliefs, 0):
            title = f"{name} (given)" if name in self.known else name
            for label, share in labels:
                yield [title, str(label), shown(share), f"{printing.bar(share, BAR):<{BAR}}"]
                title = ""

    def _named(self, beliefs: Mapping[str, np.ndarray], row: int) -> Iterator[tuple[str, list[tuple[Any, float]]]]:
        for name, belief in beliefs.items():
            yield name, list(zip(self.model.variable(name).labels, belief[row].tolist(), strict=True))

    def _print_posterior(self, seen: Messages, beliefs: Mapping[str, np.ndarray], method: str) -> None:
        rows = []
        for row, logarithm in enumerate(seen.log_likelihood.tolist()):
            answer: dict[str, Any] = {**_logarithm(logarithm), "method": method}
            if seen.rounds is not None:
                answer |= {"rounds": seen.rounds, "converged": bool(seen.converged[row])}
            told = {
                name: {str(label): share for label, share in labels} for name, labels in self._named(beliefs, row)
            }  # fmt: skip
            rows.append({**answer, "posterior": None if seen.impossible[row] else told})
        terminal.print_json(rows[0] if self.rows is None else rows)

    def _possible(self, seen: Messages, column: np.ndarray) -> Any:
        """Return a column of probabilities, None in impossible rows."""
        if not seen.impossible.any():
            return column
        return [None if gone else share for share, gone in zip(column.tolist(), seen.impossible, strict=True)]

    def _write(self, columns: Mapping[str, Any]) -> None:
        table = {name: list(column) for name, column in columns.items()}
        table_file.write(table, self.output or "-")
        output_files.confirm(self.output or "-", len(next(iter(table.values()), [])))


def _logarithm(value: float) -> dict[str, float | None]:
    """Return a probability and its logarithm for JSON, None where they are not finite."""
    finite = not math.isinf(value)
    return {"log_probability": value if finite else None, "probability": math.exp(value) if value < 700 else None}
