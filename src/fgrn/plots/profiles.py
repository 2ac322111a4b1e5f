"""The chart of class profiles (prototypes): the distribution of every column in each state, and the baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, shortened
from ..core.printing import without_common_prefix
from ..queries.prototypes import Prototypes, by_level, weighted_mean
from .style import (
    GREY,
    INK,
    PAPER,
    cut_all_to_width,
    in_order_of_numbers,
    panels,
    percent,
    readable,
    set_title,
    styled,
    width_for_names,
    width_of,
    wrap_to_width,
    write_in_cell,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DRAWN_LEVELS = 8
"""The most levels of a column that are drawn; the rest is drawn as one."""

NO_BASELINE = "Coloured by probability: the shares of the states are not known, so there is no baseline. Give shares=."
"""The note under profiles without the shares of their states."""

UNSEEN = "Values that no row of a class has, which only smoothing makes possible, are not coloured as frequent."
"""The note under profiles with values that would be coloured as frequent, and that no row of the state has."""


@styled()
def prototypes(
    prototypes: Any,
    *,
    base: Mapping[str, Any] | None = None,
    shares: Mapping[Any, float] | Sequence[float] | None = None,
    most_columns: int = 20,
    ax: Axes | None = None,
) -> Figure:
    """Draw the profile (prototype) of each state: probabilities of levels, coloured by their ratio to the baseline.

    The baseline is the distribution of a column over all states, weighted by their shares. Without shares and without a
    baseline, colours are the probabilities themselves, with a note.

    Args:
        prototypes: an estimator with `prototypes_`, or that mapping: for each state the distribution of every column.
        base: the baseline, a distribution of every column; None for the one of the shares.
        shares: the weights of the states, by state or in their order, at any scale; None for those of the estimator.
        most_columns: the most columns to draw, those in which the states differ most; a note counts the others.
        ax: the axes to draw on; None for a new figure.
    """
    settings.whole("most_columns", most_columns, 1)
    profiles, shared, general = _checked_profiles(prototypes, base, shares)
    is_seen = profiles.is_seen if isinstance(profiles, Prototypes) else lambda *_: True
    what = "state" if shared == {} and isinstance(prototypes, Mapping) else "class"
    profiles = {state: profiles[state] for state in in_order_of_numbers(list(profiles))}
    tables = {
        name: _column_profile(profiles, general, name, is_seen)
        for name in dict.fromkeys(n for p in profiles.values() for n in p)
    }
    weights = np.array([shared.get(state, np.nan) for state in profiles])
    if not np.isfinite(weights).all():
        weights = np.full(len(profiles), 1 / len(profiles))  # used to rank columns only
    telling = sorted(tables, key=lambda name: -_difference(tables[name], weights))[:most_columns]
    shown = {name: table for name, table in tables.items() if name in telling}
    states = cut_all_to_width(list(profiles), 1.02, 8)
    wide = max(0.62 if len(states) <= 8 else 0.42, *(width_of(state, 8) + 0.16 for state in states))
    gutter = max(width_of(label, 8) for table in shown.values() for label in table.labels)
    size = (
        max(wide * (len(states) + (general is not None)) + gutter + 2.5, 4.2),
        0.2 * sum(len(table.labels) for table in shown.values()) + 0.1 * len(shown) + (1.6 if shared else 1.4),
    )
    figure, (axes,) = panels(ax, size)
    _draw_profiles(axes, shown, gutter, width_for_names(ax, 1.7))
    heads = [f"{name}\n{percent(shared[s])}" if s in shared else name for name, s in zip(states, profiles, strict=True)]
    places = [*np.arange(len(states)) + 0.5, *([len(states) + 0.6] if general is not None else [])]
    axes.set_xticks(places, [*heads, "baseline"][: len(places)])
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    if general is not None:
        axes.get_xticklabels()[-1].set_color(GREY)
    axes.spines[:].set_visible(False)
    _draw_scale(figure, axes, general is not None, min(0.8, 3.2 / size[0]))
    rest = [name for name in tables if name not in telling]
    notes = [f"{len(rest):,} columns in which they differ less are left out: {shortened(map(readable, rest), 4)}."]
    notes = (notes if rest else []) + ([] if general is not None else [NO_BASELINE])
    notes += [UNSEEN] if any(table.only_smoothed.any() for table in shown.values()) else []
    set_title(figure, axes, f"Item-response probabilities: the profile (prototype) of each {what}", notes, ax is None)
    return figure


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of a column: labels of levels, probabilities (levels, states), baseline (levels,) or None.

    `seen` says of each probability whether a row of the state has the value.
    """

    labels: tuple[str, ...]
    values: np.ndarray
    general: np.ndarray | None
    seen: np.ndarray

    @property
    def only_smoothed(self) -> np.ndarray:
        """Which probabilities are above the baseline though no row of the state has the value."""
        higher = np.zeros_like(self.seen) if self.general is None else self.values > self.general[:, None]
        found: np.ndarray = ~self.seen & higher
        return found

    @property
    def lift(self) -> np.ndarray:
        """log2(probability / baseline), (levels, states); 0 / 0 gives 0, and so do those only smoothed."""
        if self.general is None:
            return np.zeros_like(self.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            lift: np.ndarray = np.nan_to_num(np.log2(self.values / self.general[:, None]), nan=0, neginf=-2, posinf=2)
        lift[self.only_smoothed] = 0.0
        return lift


def _checked_profiles(
    given: Any, base: Mapping[str, Any] | None, shares: Any
) -> tuple[Mapping[Any, Mapping[str, Any]], dict[Any, float], Mapping[str, Any] | None]:
    """Return the profiles, the known shares of the states, and the baseline or None."""
    found = given if isinstance(given, Mapping) else getattr(given, "prototypes_", None)
    if not isinstance(found, Mapping):
        wanted = "an estimator with prototypes_, or a mapping of states to columns to levels"
        raise FgrnError(f"plots.prototypes draws {wanted}. Got {type(given).__name__} instead.")
    if not any(found.values()):
        raise FgrnError("There are no prototypes to draw: a mapping of states to columns to levels is wanted.")
    known: dict[Any, float] = dict(getattr(found, "shares", {}))
    general = getattr(found, "baseline", None)
    if shares is not None:
        known = _normalised_shares(shares, list(found))
        general = weighted_mean(found, known)
    if base is not None:
        absent = [name for profile in found.values() for name in profile if name not in base]
        if absent:
            raise FgrnError(f"base has no distribution of the column {absent[0]!r}; it needs one for every column.")
        general = base
    return found, known, general


def _normalised_shares(given: Any, states: list[Any]) -> dict[Any, float]:
    """Return shares that sum to one, by state."""
    if isinstance(given, Mapping):
        values = [given.get(state) for state in states]
    else:
        values = list(given) if isinstance(given, Iterable) else []
    numbers = np.array([np.nan if value is None else float(value) for value in values])
    if len(numbers) != len(states) or not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.sum() > 0):
        raise FgrnError(f"shares has one number for each of the {len(states)} states, none below 0. Got {given!r}.")
    return dict(zip(states, (numbers / numbers.sum()).tolist(), strict=True))


def _draw_profiles(axes: Axes, shown: Mapping[str, ColumnProfile], gutter: float, beside: float) -> None:
    """Draw a block of cells for each column, with its levels as rows and the states as columns."""
    norm, shades = _colours(next(iter(shown.values())).general is not None)
    y, count = 0.0, 0
    ticks: list[tuple[float, str]] = []
    apart = without_common_prefix(
        [readable(name) for name in shown], lambda name: tuple(wrap_to_width(name, beside, 8, 2, "bold"))
    )
    for (name, table), called in zip(shown.items(), apart, strict=True):
        count = table.values.shape[1]
        cells = table.values if table.general is None else table.lift
        edges = y + np.arange(len(table.labels) + 1.0)
        ticks += [(float(middle), label) for middle, label in zip(edges[:-1] + 0.5, table.labels, strict=True)]
        axes.pcolormesh(
            np.arange(count + 1.0), edges, cells, cmap=shades, norm=norm, edgecolors=PAPER, linewidth=1,
            gid=f"{'probability' if table.general is None else 'lift'} {readable(name)}",
        )  # fmt: skip
        dark = shades(norm(cells))[..., :3] @ (0.3, 0.59, 0.11) < 0.55
        for at, row in enumerate(table.values):
            for state, value in enumerate(row):
                write_in_cell(axes, state + 0.5, edges[at] + 0.5, percent(value), PAPER if dark[at, state] else INK)
            if table.general is not None:
                write_in_cell(axes, count + 0.6, edges[at] + 0.5, percent(table.general[at]), GREY)
        heading = "\n".join(wrap_to_width(called, beside, 8, min(len(table.labels), 3), "bold"))
        axes.annotate(
            heading, (0, y + len(table.labels) / 2), (-72 * gutter - 16, 0), ("axes fraction", "data"), "offset points",
            ha="right", va="center", fontsize=8, weight="bold",
        )  # fmt: skip
        y = edges[-1] + 0.5
    axes.set(xlim=(0, count + (norm.vmin < 0)), ylim=(y - 0.5, 0))
    axes.set_yticks([at for at, _ in ticks], [label for _, label in ticks])


def _colours(compared: bool) -> tuple[Any, Any]:
    """Return the colour scale of cells: of log2 of the ratio to the baseline, or of the probability."""
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    return (Normalize(-2, 2), colormaps["RdBu_r"]) if compared else (Normalize(0, 1), colormaps["Blues"])


def _draw_scale(figure: Figure, axes: Axes, compared: bool, shrink: float) -> None:
    """Draw the colour scale below the cells."""
    from matplotlib.cm import ScalarMappable

    ticks = {-2: "≤¼", -1: "½", 0: "1", 1: "2", 2: "≥4"} if compared else {0: "0%", 0.5: "50%", 1: "100%"}
    bar = figure.colorbar(
        ScalarMappable(*_colours(compared)), ax=axes, location="bottom", shrink=shrink, aspect=24, pad=0.02,
        ticks=list(ticks), label="times the baseline" if compared else "probability",
    )  # fmt: skip
    bar.ax.set_xticklabels(list(ticks.values()))
    bar.outline.set_visible(False)


def _column_profile(
    profiles: Mapping[Any, Mapping[str, Any]],
    base: Mapping[str, Any] | None,
    name: str,
    is_seen: Callable[[Any, str, Any], bool],
) -> ColumnProfile:
    """Return the profile of a column with at most MOST_DRAWN_LEVELS levels, the last for all others.

    `is_seen` says whether a row of a state has a level of a column.
    """
    found = [by_level(column.get(name, {})) for column in profiles.values()]
    levels = in_order_of_numbers(list(dict.fromkeys(level for column in found for level in column)))
    values = np.array([[float(column.get(level, 0)) for column in found] for level in levels])
    seen = np.array(
        [[level in column and is_seen(state, name, level) for state, column in zip(profiles, found, strict=True)]
         for level in levels]
    )  # fmt: skip
    given = {} if base is None else by_level(base[name])
    general = np.array([float(given.get(level, 0)) for level in levels])
    labels = cut_all_to_width(levels, 1.3, 8)
    if len(levels) > MOST_DRAWN_LEVELS:
        order = np.argsort(-values.max(axis=1), kind="stable")
        kept, others = np.sort(order[: MOST_DRAWN_LEVELS - 1]), order[MOST_DRAWN_LEVELS - 1 :]
        values = np.concatenate([values[kept], values[others].sum(axis=0, keepdims=True)])
        seen = np.concatenate([seen[kept], seen[others].any(axis=0, keepdims=True)])
        general = np.append(general[kept], general[others].sum())
        labels = [*(labels[at] for at in kept), f"{len(others):,} others"]
    return ColumnProfile(tuple(labels), values, None if base is None else general, seen)


def _difference(table: ColumnProfile, weights: np.ndarray) -> float:
    """Return how much a column differs between states: the mean KL divergence from the baseline, in nats."""
    values = table.values
    general = values @ weights if table.general is None else table.general
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = values * np.log(values / general[:, None])
    return float(np.nan_to_num(terms, nan=0, posinf=10).sum(axis=0) @ weights)
