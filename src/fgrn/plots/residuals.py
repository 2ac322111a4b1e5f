"""The heat map of residual associations between items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .style import INK, PAPER, cut_all_to_width, panels, set_title, styled, width_of, write_in_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..statistics.fit import BivariateResiduals

LARGE = 3.84
"""The 95 % point of chi-square with one degree of freedom: residuals from here on have the darkest colour."""

NUMBERS_UP_TO, SIDE = 24, 0.42
"""The most items whose residuals are written into the cells, and the side of such a cell in inches."""


@styled()
def residuals(found: BivariateResiduals, *, ax: Axes | None = None) -> Figure:
    """Draw the bivariate residuals of a latent class model as a heat map: dark pairs are not explained by the classes.

    Args:
        found: what `LatentClassModel.bivariate_residuals` returns.
        ax: the axes to draw on; None for a new figure.
    """
    count = len(found.names)
    written = count <= NUMBERS_UP_TO
    cell = SIDE if written else max(0.12, 8 / max(count, 1))
    side = max(cell * count, 1.8)
    names = cut_all_to_width(found.names, 1.4, 8)
    longest = max((width_of(name, 8) for name in names), default=0)
    figure, (axes,) = panels(ax, (max(side + longest + 0.4, 3.2), side + longest + 0.9))
    colours = np.minimum(found.matrix / LARGE, 1.0)
    axes.pcolormesh(colours, cmap="Blues", vmin=0, vmax=1.15, edgecolors=PAPER, linewidth=1, gid="residuals")
    for row, column in np.argwhere(~np.eye(count, dtype=bool)) if written else ():
        value = found.matrix[row, column]
        shade = PAPER if colours[row, column] > 0.6 else INK
        text = f"{value:.0f}" if value >= 99.5 else f"{value:.1f}"
        write_in_cell(axes, column + 0.5, row + 0.5, text, shade, 8)
    every = max(int(np.ceil(0.16 / cell)), 1)
    at = np.arange(0, count, every) + 0.5
    axes.set_xticks(at, names[::every], rotation=90)
    axes.set_yticks(at, names[::every])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, max(count, 1)), ylim=(max(count, 1), 0), aspect="equal")
    large = sum(one.residual > LARGE for one in found.pairs)
    told = f"{large} of {len(found.pairs)} pairs of items have a residual above {LARGE}"
    set_title(figure, axes, told if found.pairs else "No pairs of items", [], ax is None)
    return figure
