"""A page whose model stays in Python, for models too large for a browser: a server for this machine only.

It listens on the loopback, and answers only to the address that it prints, which has a random token in it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..queries.opinion_pool import OpinionPool
from ..queries.questions import explained_by
from .disk_rows import RowsOnDisk
from .export import shown_model
from .likeliest_states import LikeliestStates
from .page import served_html

MOST_BYTES = 10_000_000
"""Of a question."""

MOST_ROUNDS_SENT = 200_000
"""Numbers of the messages of all rounds on loops that a page is sent, to step through them."""

Given = Sequence[tuple[int, Sequence[float]]]


class Answers:
    """The answers of a model to the requests of a page. Evidence is pairs of a variable's number and state weights."""

    def __init__(self, model: Any) -> None:
        shown = shown_model(model)
        self.network, self.variables = shown.network, shown.cards
        self.names = [variable.name for variable in self.variables]
        plan = self.network._plan(())
        self.edges = [plan.edge(name) for name in self.names]
        self.number_of = {edge: number for number, edge in enumerate(self.edges)}
        self.refined = shown.refined

    def given(self, said: Mapping[str, Any]) -> list[tuple[int, list[float]]]:
        """Return the evidence of a request, in which variables are numbered by the edges of the Plan."""
        return [(self.number_of[edge], [float(weight) for weight in weights]) for edge, weights in said["given"]]

    def answer(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return the marginals given some evidence, and all messages if requested."""
        given = self.given(said)
        return {**self.ask(given), **(self.messages(given) if said.get("messages") else {})}

    def messages(self, given: Given) -> dict[str, Any]:
        """Return all forward and backward messages, by edge; on graphs with loops, those of every round."""
        columns = self._columns([given])
        if self.network.is_tree:
            return {"messages": _by_edge(self.network.propagate(columns, impossible="mark", engine="reference"))}
        rounds: list[dict[str, Any]] = []
        room = MOST_ROUNDS_SENT // (2 * int(self.network._plan(()).cardinality.sum()))
        for one in self.network.steps(columns, tolerance=1e-9):
            last = {**_by_edge(one.messages), "change": one.largest_change, "changed": len(one.changed)}
            rounds += [last] if len(rounds) <= room else []
        loops = {"count": one.number, "converged": bool(one.messages.converged.all()), "rounds": rounds}
        return {"messages": last, "loops": loops}

    def ask(self, given: Given) -> dict[str, Any]:
        """Return the beliefs, the same without the evidence on each variable itself, and the log-likelihood.

        A class with refined networks is predicted by these, unless there is evidence on it.
        """
        rows: list[Given] = [given, *([one for one in given if one is not other] for other in given)]
        seen = self.network.propagate(self._columns(rows), keep=self.names, impossible="mark", parts=PARTS)
        likelihood = float(seen.log_likelihood[0])
        beliefs = [seen.marginal(name) for name in self.names]
        others = [belief[0] for belief in beliefs]
        for row, (number, _) in enumerate(given, start=1):
            others[number] = beliefs[number][row]
        refined = self.refined
        if refined is not None and np.isfinite(likelihood) and self.names.index(refined.name) not in dict(given):
            told = refined.pool.messages(self._columns([given]), [refined.name])
            beliefs[self.names.index(refined.name)] = told[refined.name]
        return {
            "logLikelihood": None if np.isneginf(likelihood) else likelihood,
            "beliefs": [belief[0].tolist() for belief in beliefs],
            "others": [belief.tolist() for belief in others],
            "conflict": self._conflict(given) if np.isneginf(likelihood) and self.network.is_tree else [],
            **({} if seen.rounds is None else {"loops": _rounds_told(seen)}),
        }

    def study(self, given: Given, target: int | None, profiles: bool = False, assignments: int = 0) -> dict[str, Any]:
        """Return the evidence for a target, what to observe next and, if requested, profiles and likeliest states."""
        likeliest = self._likeliest(given, assignments)
        if target is None:
            return {"gains": [], "entropy": 0.0, "explanation": None, "likeliest": likeliest}
        known = [one for one in given if one[0] != target]
        size = self.variables[target].cardinality
        rows: list[Given] = [known, *([*known, (target, unit.tolist())] for unit in np.eye(size))]
        seen = self.network.propagate(self._columns(rows), keep=self.names, impossible="mark", parts=PARTS)
        aim = seen.marginal(self.names[target])[0]
        gains = []
        for name in self.names:
            belief = seen.marginal(name)
            ratio = np.divide(belief[1:], belief[0], out=np.ones_like(belief[1:]), where=belief[1:] > 0)
            gains.append(float(aim @ (belief[1:] * np.log2(ratio)).sum(axis=1)))
        explanation = self._explanation(known, target)
        return {
            "gains": gains,
            "entropy": float(-(aim[aim > 0] * np.log2(aim[aim > 0])).sum()),
            "explanation": explanation,
            "impossible": explanation is None,
            "likeliest": likeliest,
            **({"profiles": self._profiles(target)} if profiles else {}),
        }

    def _explanation(self, known: Given, target: int) -> dict[str, Any] | None:
        """Return what each known value adds to the log-odds of the target's likeliest state; None if impossible."""
        pool = self._predicting(self.names[target])
        try:
            told = explained_by(pool, self._row(known), self.names[target])
        except ImpossibleEvidence:
            if self.network in pool.models:
                raise
            return None  # by a network that was refined for the target
        return {
            "state": self.variables[target].code(told.state),
            "probability": told.probability,
            "prior": told.prior,
            "contributions": [[self.edges[number], told.contributions[self.names[number]]] for number, _ in known],
            "logOdds": told.log_odds,
        }

    def _predicting(self, name: str) -> OpinionPool:
        """Return the networks that predict a variable: those that were refined for it, or the one that is shown."""
        if self.refined is not None and self.refined.name == name:
            return self.refined.pool
        return OpinionPool((self.network,))

    def _likeliest(self, given: Given, count: int) -> list[dict[str, Any]]:
        """Return the most probable joint assignments, in the order of `most_probable_k` of a model."""
        weights = {number: np.array(one) for number, one in given}
        start = [weights.get(number, np.ones(one.cardinality)) for number, one in enumerate(self.variables)]
        found = LikeliestStates(self.network, self.variables).first(start, count)
        return [{"states": states, "logProbability": value} for states, value in found]

    def _profiles(self, target: int) -> list[list[list[float]]]:
        """Return, by state of the target, the distribution of every variable given that state alone."""
        units = np.eye(self.variables[target].cardinality)
        rows: list[Given] = [[(target, unit.tolist())] for unit in units]
        seen = self.network.propagate(self._columns(rows), keep=self.names, impossible="mark", parts=PARTS)
        beliefs = [seen.marginal(name) for name in self.names]
        return [[belief[state].tolist() for belief in beliefs] for state in range(len(units))]

    def _row(self, given: Given) -> dict[str, Any]:
        return {self.names[number]: [list(weights)] for number, weights in given}

    def _columns(self, rows: Sequence[Given]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in self.names}
        for row, given in enumerate(rows):
            for number, weights in given:
                columns[self.names[number]][row] = list(weights)
        return columns

    def _conflict(self, given: Given) -> list[int]:
        """Return variables whose evidence is impossible together, and possible without any one of them."""
        kept = list(given)
        for one in given:
            rest = [other for other in kept if other is not one]
            seen = self.network.propagate(self._columns([rest]), keep=[], impossible="mark", parts=["likelihood"])
            if np.isneginf(seen.log_likelihood[0]):
                kept = rest
        return [self.edges[number] for number, _ in kept]


PARTS = ("marginal", "likelihood")


def _by_edge(seen: Any) -> dict[str, list[list[float]]]:
    """Return the messages of the first row, in the order of the edges."""
    return {
        "forward": [seen.forward(name)[0].tolist() for name in seen.plan.names],
        "backward": [seen.backward(name)[0].tolist() for name in seen.plan.names],
    }


def _rounds_told(seen: Any) -> dict[str, Any]:
    return {"count": seen.rounds, "converged": bool(seen.converged.all()), "rounds": []}


def server_of(
    model: Any, title: str, source: str = "", port: int = 0, rows: RowsOnDisk | None = None
) -> tuple[ThreadingHTTPServer, str]:
    """Return a server that is not running yet, and the address of the page.

    Args:
        model: see `explore`.
        title: over the page.
        source: the file of the model.
        port: of the loopback; any that is free if 0.
        rows: of a table to walk through.
    """
    token = secrets.token_urlsafe(16)
    html = served_html(model, title, source, None if rows is None else rows.about()).encode()
    answers, lock = Answers(model), Lock()
    asked: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
        f"/{token}/ask": answers.answer,
        f"/{token}/study": lambda said: answers.study(
            answers.given(said),
            None if said["target"] < 0 else answers.number_of[said["target"]],
            bool(said.get("profiles")),
            int(said.get("assignments", 0)),
        ),
        **({} if rows is None else {f"/{token}/row": lambda said: {"values": rows.row(int(said["row"]))}}),
    }

    class Handler(BaseHTTPRequestHandler):
        """Answers requests to the address with the token, and no others."""

        def do_GET(self) -> None:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", html) if self._is(f"/{token}/") else self._refuse()

        def do_POST(self) -> None:
            question = asked.get(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            if question is None or not self._is(self.path) or not 0 < size <= MOST_BYTES:
                return self._refuse()
            try:
                with lock:
                    found = question(json.loads(self.rfile.read(size)))
            except ImpossibleEvidence as error:
                found = {"error": str(error)}
            except (KeyError, TypeError, ValueError, IndexError) as error:
                return self._send(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", str(error).encode())
            return self._send(HTTPStatus.OK, "application/json", json.dumps(found, allow_nan=False).encode())

        def _is(self, path: str) -> bool:
            """Return whether the path matches and the request names this server as its host."""
            return self.path == path and self.headers.get("Host") == f"127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]

        def _refuse(self) -> None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"not here")

        def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(data)), "Cache-Control": "no-store"}
            headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Do nothing: requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    return server, f"http://127.0.0.1:{server.server_port}/{token}/"
