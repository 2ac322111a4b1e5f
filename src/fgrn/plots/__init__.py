"""Pictures, by matplotlib: each function returns a `Figure`, which `save` writes to a file and notebooks show.

With `ax`, an axes of your own figure, it is drawn there. No setting of matplotlib is changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..tables import frames
from . import arcs
from .charts import convergence, explanation, selection
from .drawing import picture
from .profiles import prototypes
from .style import save, styled
from .tables import confusion, missingness

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..bayes.factored import FactoredModel
    from ..graph.network import Network

__all__ = [
    "confusion",
    "convergence",
    "explanation",
    "graph",
    "missingness",
    "network",
    "prototypes",
    "save",
    "selection",
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
    """The network as a factor graph in reduced normal form, with what is believed of every variable.

    Sources are on top, a Diverter is a bar, a SISO block a box, a variable a wire. Variables show their beliefs; with
    evidence, all wires the two messages on them, the forward one on the left and the backward one on the right. A
    message is drawn at its own scale, and pale if it is uniform. What would be too wide for a page goes on below; the
    steps of an unrolled `hmm` run sideways, in lines.

    Args:
        net: the network.
        evidence: a mapping of columns or a dataframe, as for `Network.propagate`; nothing is known unless given.
        row: the row of the evidence to show.
        messages: whether to draw the messages.
        most: observed variables to draw, those that are known before others; the picture says how many are left out.
        always: observed variables that are drawn before all others, such as a class.
        ax: where to draw; a new figure unless given.
    """
    return picture(net, evidence, row, messages, most, always, ax)


@styled()
def graph(
    model: FactoredModel,
    evidence: frames.Data = None,
    *,
    row: int = 0,
    detail: str = "auto",
    variables: Collection[str] | None = None,
    method: str = "exact",
    ax: Axes | None = None,
) -> Figure:
    """A Bayesian network as a directed graph: a card for every variable with its beliefs, and an arrow for every arc.

    What is observed has a dark heading. A `MarkovNetwork` is drawn with its factors, as squares.

    Args:
        model: a `BayesianNetwork` or `MarkovNetwork`.
        evidence: a mapping of columns or a dataframe, as for `propagate`; nothing is known unless given.
        row: the row of the evidence to show.
        detail: "full", every state with its probability; "compact", a row of bars and the likeliest state; "names", for
            which nothing is computed; "auto" takes the first that leaves the picture readable.
        variables: those to draw, with the arcs between them; all unless given.
        method: "exact" or "loopy", as for `propagate`.
        ax: where to draw; a new figure unless given.
    """
    return arcs.picture(model, evidence, row, detail, variables, method, ax)
