"""Pictures, by matplotlib: each function returns a `Figure`, which `save` writes to a file and notebooks show.

With `ax`, an axes of your own figure, it is drawn there. No setting of matplotlib is changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .. import frames
from .charts import convergence, explanation, selection
from .drawing import picture
from .style import save, styled
from .tables import confusion, missingness, prototypes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..network import Network

__all__ = ["confusion", "convergence", "explanation", "missingness", "network", "prototypes", "save", "selection"]


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
    message is drawn at its own scale, and pale if it says nothing.

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
