"""`explore`: a page that shows a model, written as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..core.exceptions import FgrnError
from ..core.variable import Variable
from ..core.whole_file import reason_of, write_whole
from .export import SERVED, document, served_document, shown_model

MOST_BYTES = 50_000_000
"""Of a page: browsers open larger files slowly, if at all."""

POLICY = (
    "default-src 'none'; script-src {script} blob:; worker-src blob:; style-src {style}; img-src data: blob:; "
    "connect-src {server}; base-uri 'none'; form-action 'none'"
)
"""The Content-Security-Policy of a page: its own script and style, and no request to anywhere but its own server."""

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fgrn">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"><noscript>This page computes with JavaScript, which is switched off in this browser.</noscript></div>
<script type="application/json" id="model">{model}</script>
<script type="text/plain" id="arrays">{arrays}</script>
<script>{script}</script>
</body>
</html>
"""

MODEL = re.compile(r'<script type="application/json" id="model">(.*?)</script>', re.DOTALL)
"""The element of a page that holds the names and positions of the model, as JSON."""


class Page:
    """A page that shows a model: `html` is its text, `save` writes it; notebooks show it in a frame."""

    def __init__(self, html: str, variables: Sequence[Variable] = ()) -> None:
        self.html = html
        self._variables = tuple(variables)

    def widget(self) -> Any:
        """Return the page as a notebook widget, with `evidence` and `beliefs` in Python; needs fgrn[notebook]."""
        from .widget import widget_of

        return widget_of(self.html, self._variables)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, completely or, with an error, not at all; returns the path."""
        place = Path(path)
        failed = f"The page cannot be saved as {str(place)!r}"
        if place.suffix.lower() not in (".html", ".htm"):
            raise FgrnError(f"{failed}: its suffix is {place.suffix!r}. Choose .html.")
        if not place.parent.is_dir():
            raise FgrnError(f"{failed}: there is no folder {str(place.parent)!r}. Make it first, or choose another.")
        try:
            write_whole(place, self.html.encode())
        except (OSError, RuntimeError, ValueError) as error:
            raise FgrnError(f"{failed}: {reason_of(error)}. Save it somewhere else.") from error
        return place

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.html.encode())

    def __repr__(self) -> str:
        return f"Page of {self.size / 1000:,.0f} kB; page.save('page.html') writes it"

    def frame(self, when_seen: bool = False) -> str:
        """Return the page as an HTML element of another page; `when_seen`: loaded when scrolled into view."""
        allowed = "allow-scripts allow-downloads"
        style = "width: 100%; height: 640px; border: 1px solid #9aa4b1; border-radius: 8px"
        name = ' name="fgrn-when-seen"' if when_seen else ""
        return f'<iframe srcdoc="{escape(self.html)}" sandbox="{allowed}"{name} style="{style}"></iframe>'

    def _repr_html_(self) -> str:
        """Return the page in a frame of a notebook."""
        return self.frame()


def explore(
    model: Any, path: str | Path | None = None, *, title: str | None = None, source: str | Path | None = None
) -> Page:
    """Return a page on which evidence is set by clicks and beliefs are updated: one HTML file, without a server.

    Args:
        model: a `BayesianNetwork`, a `MarkovNetwork`, a `Network`, or a fitted estimator; the class of a classifier has
            the probabilities of its `predict_proba`. On loops, beliefs are approximations.
        path: of the file to write, such as "page.html"; it needs no server, no network and no installation. Nothing is
            written unless given.
        title: the title of the page; the name of the model unless given.
        source: the file that the model was read from, for the command line that the page offers.

    Raises:
        FgrnError: if the model cannot be shown, or the page would have more than 50 MB.
    """
    called = title or getattr(model, "name", "") or type(model).__name__
    text, arrays = document(model, called, "" if source is None else str(source))
    page = Page(_html(text, arrays), shown_model(model).cards)
    if page.size > MOST_BYTES:
        raise FgrnError(
            f"The page would have {page.size / 1e6:,.0f} MB, and browsers open up to {MOST_BYTES / 1e6:,.0f} MB "
            "in reasonable time.",
            remedies=SERVED,
        )
    if path is not None:
        page.save(path)
    return page


def source_of_page(path: str | Path) -> str:
    """Return the model file that a page was made from, as it was named then; "" if the file is no page or names none.

    Raises:
        FgrnError: if the file cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FgrnError(f"{str(path)!r} cannot be read: {reason_of(error)}.") from error
    found = MODEL.search(text)
    try:
        model = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        return ""
    source = model.get("source") if isinstance(model, dict) else None
    return source if isinstance(source, str) else ""


def served_html(model: Any, title: str, source: str, table: dict[str, Any] | None = None) -> str:
    """Return the page of a model that stays in Python: it sends queries only to the server it came from.

    Args:
        model: see `explore`.
        title: of the page.
        source: the file of the model.
        table: what the page knows of a table whose rows it can ask for; None if there is none.
    """
    text, arrays = served_document(model, title, source)
    return _html({**text, "table": table}, arrays, server="'self'")


def _html(text: dict[str, Any], arrays: bytes, server: str = "'none'") -> str:
    script, style = _file("page.js"), _file("page.css")
    policy = POLICY.format(script=_hash(script), style=_hash(style), server=server)
    # ASCII, and no "<": neither a name nor a label can end the element
    model = json.dumps(text, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.format(
        policy=escape(policy), title=escape(_as_utf8(f"{text['title']} · fgrn")), style=style, model=model,
        arrays=base64.b64encode(arrays).decode(), script=script,
    )  # fmt: skip


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_utf8(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text.encode(errors="replace").decode()
