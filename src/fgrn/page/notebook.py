"""A model as notebooks show it: its picture, and a button that opens its page below."""

from __future__ import annotations

from typing import Any

from .. import plots
from ..bayes.factored import FactoredModel
from ..core.exceptions import FgrnError
from ..graph.network import Network
from ..plots.style import as_svg
from .estimator_view import predicted_variable
from .page import explore

MOST_BYTES = 2_000_000
"""Of a page that every display of its model puts into the notebook; a larger one is left to `fgrn.explore`."""

BUTTON = (
    "display: inline-block; cursor: pointer; padding: 3px 12px; margin: 4px 0; border: 1px solid #9aa4b1; "
    "border-radius: 6px; font: 13px system-ui, sans-serif"
)


def notebook_html(model: Any) -> str:
    """The HTML of a model: its picture with its beliefs, and a button that opens its page in a frame.

    Args:
        model: a Network, a BayesianNetwork, a MarkovNetwork or a fitted estimator.
    """
    return f"<div>{as_svg(_picture(model))}{_page_button(model)}</div>"


def _picture(model: Any) -> Any:
    if isinstance(model, FactoredModel):
        return plots.graph(model)
    if isinstance(model, Network):
        return plots.network(model)
    first = [name for name in model.network_.observed if name == predicted_variable(model)]
    return plots.network(model.network_, always=first)


def _page_button(model: Any) -> str:
    """The page of a model in an element that a click opens; nothing for a model that has none, or a large one."""
    try:
        page = explore(model)
    except FgrnError:
        return ""
    if page.size > MOST_BYTES:
        return ""
    return f'<details><summary style="{BUTTON}">Explore</summary>{page.frame(when_seen=True)}</details>'
