"""Pictures drawn with matplotlib: each function returns a `Figure`, which `save` writes to a file and notebooks show.

Pass `ax`, an axes of your own figure, to draw there. Settings of matplotlib are not changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..tables import frames
from . import arcs, diagrams
from .charts import convergence, explanation, selection
from .drawing import draw_network
from .profiles import prototypes
from .residuals import residuals
from .style import save, styled
from .tables import confusion, missingness
from .tornado import tornado

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..bayes.arc_confidence import ArcConfidence
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram
    from ..graph.network import Network

__all__ = [
    "confusion",
    "convergence",
    "explanation",
    "graph",
    "missingness",
    "network",
    "prototypes",
    "residuals",
    "save",
    "selection",
    "tornado",
]


@styled()
def network(
    net: Network,
    evidence: frames.Data = None,
    *,
    row: int = 0,
    messages: bool = True,
    most: int = 40,
    always: Collection[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """Draw a network as a factor graph in reduced normal form, with the marginal (belief) of every variable.

    Sources are on top, a Diverter is a bar, a SISO block a box, a variable a wire. Variables show their beliefs; with
    evidence, each wire shows its two messages, forward on the left and backward on the right. A message is drawn at its
    own scale, and pale if it is uniform. A network too wide for a page continues below; the steps of an unrolled `hmm`
    run from left to right, in lines.

    Args:
        net: the network.
        evidence: a mapping of columns or a dataframe, as for `Network.propagate`; None for no evidence.
        row: the row of the evidence to show.
        messages: whether to draw the messages.
        most: the most observed variables to draw, those with evidence first; the picture says how many are left out.
        always: observed variables to draw before all others, such as a class.
        ax: the axes to draw on; None for a new figure.
    """
    return draw_network(net, evidence, row, messages, most, always, ax)


@styled()
def graph(
    model: FactoredModel | InfluenceDiagram,
    evidence: frames.Data = None,
    *,
    row: int = 0,
    detail: str = "auto",
    variables: Collection[str] | None = None,
    method: str = "exact",
    strength: ArcConfidence | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a Bayesian network as a directed graph: a card with the marginal of every variable, and an arrow per arc.

    Observed variables have a dark heading. A `MarkovNetwork` is drawn with its factors, as squares; an
    `InfluenceDiagram` by its names alone, decisions as rectangles and utilities as diamonds.

    Args:
        model: a `BayesianNetwork`, `MarkovNetwork` or `InfluenceDiagram`.
        evidence: a mapping of columns or a dataframe, as for `propagate`; None for no evidence.
        row: the row of the evidence to show.
        detail: "full", every state with its probability; "compact", a row of bars and the likeliest state; "names", the
            names alone, without any inference; "auto" for the first that keeps the picture readable.
        variables: the variables to draw, with the arcs between them; None for all.
        method: "exact" or "loopy", as for `propagate`.
        strength: the result of `fgrn.arc_confidence`: the line of an arc is wider the more samples have it.
        ax: the axes to draw on; None for a new figure.
    """
    from ..bayes.influence import InfluenceDiagram

    if isinstance(model, InfluenceDiagram):
        return diagrams.draw_influence_diagram(model, ax)
    return arcs.draw_model_graph(model, evidence, row, detail, variables, method, strength, ax)
