"""The display of a model in notebooks: its drawing, and a button that opens its page."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import plots
from ..bayes.factored import FactoredModel
from ..core.exceptions import FgrnError
from ..graph.network import Network
from ..plots.style import as_svg
from .estimator_view import fitted_network, predicted_variable
from .page import explore

MOST_BYTES = 2_000_000
"""Of a page that every display of its model puts into the notebook; a larger one is left to `fgrn.explore`."""

MOST_JOINT_STATES = 500_000
"""Of a model whose page is made for every display of it."""

BUTTON = (
    "display: inline-block; cursor: pointer; padding: 3px 12px; margin: 4px 0; border: 1px solid #9aa4b1; "
    "border-radius: 6px; font: 13px system-ui, sans-serif"
)


def notebook_html(model: Any) -> str | None:
    """Return the HTML of a model: its drawing with the beliefs, and a button that opens its page in a frame.

    Args:
        model: a Network, a BayesianNetwork, a MarkovNetwork or a fitted estimator.

    Returns:
        None for a model that is too large for both: notebooks then show its text.
    """
    parts = _picture(model) + _page_button(model)
    return f"<div>{parts}</div>" if parts else None


def _picture(model: Any) -> str:
    """Return the drawing as SVG, without beliefs if they cannot be computed; "" if there are too many variables."""
    if isinstance(model, Network):
        return as_svg(plots.network(model))
    if not isinstance(model, FactoredModel):
        network = fitted_network(model) if _visited_states(model) <= MOST_JOINT_STATES else model.network_
        first = [name for name in network.observed if name == predicted_variable(model)]
        return as_svg(plots.network(network, always=first))
    for detail in ("auto", "names"):
        try:
            return as_svg(plots.graph(model, detail=detail))
        except FgrnError:
            continue
    return ""


def _visited_states(model: Any) -> int:
    """Return the number of joint states that inference visits; for a Network, the numbers in its tables."""
    if isinstance(model, FactoredModel):
        sizes = {variable.name: variable.cardinality for variable in model.variables}
        return sum(prod(sizes[name] for name in clique) for clique in model.tree.cliques)
    network = model if isinstance(model, Network) else model.network_
    trees = model.mixture_.trees if hasattr(model, "mixture_") else 1
    return int(network._parameters.values.size) * trees**2


def _page_button(model: Any) -> str:
    """Return the page of a model in an element that a click opens; "" if it has none, or is large."""
    try:
        if _visited_states(model) > MOST_JOINT_STATES:
            return ""
        page = explore(model)
    except FgrnError:
        return ""
    if page.size > MOST_BYTES:
        return ""
    return f'<details><summary style="{BUTTON}">Explore</summary>{page.frame(when_seen=True)}</details>'
