"""Rules on the arcs of a structure: required and forbidden arcs, tiers, roots, the largest number of parents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnWarning, LearningError, Remedy, WiringError, counted, unknown_name, warn
from ..core.settings import Name
from .bayesian import causes_first


@dataclass(frozen=True, eq=False)
class ArcRules:
    """Rules on the arcs between some columns, given by their numbers.

    Attributes:
        names: of the columns.
        allowed: (parents, children) whether an arc may be there.
        required: (parents, children) whether it must be.
        most: the most parents of a column.
    """

    names: tuple[str, ...]
    allowed: np.ndarray
    required: np.ndarray
    most: int

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        required: Any = (),
        forbidden: Any = (),
        tiers: Iterable[Collection[Name]] | None = None,
        roots: Collection[Name] = (),
        max_parents: int | None = None,
    ) -> ArcRules:
        """Return checked rules; an error if no structure can satisfy all of them."""
        place = {name: number for number, name in enumerate(names)}
        count = len(names)
        must, may = np.zeros((count, count), dtype=bool), ~np.eye(count, dtype=bool)
        reasons: dict[tuple[str, str], str] = {}
        for parent, child in arc_pairs("forbidden", forbidden, place):
            may[place[parent], place[child]] = False
            reasons[parent, child] = "forbidden"
        tier = _tier_of_each(tiers, place)
        for parent, above in tier.items():
            for child, below in tier.items():
                if above > below:
                    may[place[parent], place[child]] = False
                    reasons.setdefault((parent, child), f"against the tiers, where {parent!r} comes after {child!r}")
        for root in settings.variable_names("roots", roots, LearningError):
            if root not in place:
                raise unknown_name("column", root, place)
            may[:, place[root]] = False
            reasons |= {(parent, root): f"to a root, {root!r}, which has no parents" for parent in names}
        most = count - 1 if max_parents is None else max_parents
        settings.whole("max_parents", most, 0, LearningError)
        for parent, child in arc_pairs("required", required, place):
            if not may[place[parent], place[child]]:
                raise LearningError(
                    f"The arc {parent!r} -> {child!r} is required, and it is {reasons[parent, child]}.",
                    remedies=("do not require it", "change what rules it out"),
                )
            must[place[parent], place[child]] = True
        for name, wanted in zip(names, must.sum(axis=0).tolist(), strict=True):
            if wanted > most:
                raise LearningError(
                    f"{name!r} has {counted(wanted, 'required parent')}, and a column may have {most} at most.",
                    remedies=("require fewer of them", Remedy("allow more", max_parents=wanted)),
                )
        try:
            causes_first(
                {name: [names[one] for one in np.flatnonzero(must[:, place[name]]).tolist()] for name in names}
            )
        except WiringError as error:
            raise LearningError(
                f"The required arcs contradict each other. {error.message}", remedies="leave one of them out"
            ) from None
        return cls(tuple(names), may, must, most)

    def checked(self, parents: Sequence[frozenset[int]], called: str) -> tuple[frozenset[int], ...]:
        """Return a structure with the required arcs added; an error if it breaks a rule."""
        out = []
        for child, some in enumerate(parents):
            wrong = [parent for parent in some if not self.allowed[parent, child]]
            if wrong:
                raise LearningError(
                    f"{called} has the arc {self.names[wrong[0]]!r} -> {self.names[child]!r}, which the rules for "
                    "arcs do not allow.",
                    remedies=("take it out", "change the rules"),
                )
            out.append(frozenset(some) | frozenset(np.flatnonzero(self.required[:, child]).tolist()))
            if len(out[-1]) > self.most:
                raise LearningError(
                    f"{called}, with the required arcs, gives {self.names[child]!r} "
                    f"{counted(len(out[-1]), 'parent')}, and a column may have {self.most} at most.",
                    remedies=("begin with fewer arcs", Remedy("allow more", max_parents=len(out[-1]))),
                )
        for given, what in ((parents, "has a cycle"), (out, "cannot have the required arcs as well")):
            try:
                causes_first({self.names[child]: [self.names[one] for one in some] for child, some in enumerate(given)})
            except WiringError as error:
                raise LearningError(
                    f"{called} {what}. {error.message}", remedies="leave one of these arcs out"
                ) from None
        return tuple(out)

    def without_cycles(self, wanted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return those arcs that satisfy the rules and close no cycle; earlier arcs have priority.

        An arc that is not possible has the other direction, or is left out where that is not possible either.
        """
        reach = np.eye(len(self.names), dtype=bool)  # (from, to) whether a path of arcs leads there
        parents = np.zeros(len(self.names), dtype=int)
        found = []
        for pair in wanted:
            for one, other in (pair, pair[::-1]):
                if self.allowed[one, other] and not reach[other, one] and parents[other] < self.most:
                    parents[other] += 1
                    reach |= np.outer(reach[:, one], reach[other])
                    found.append((one, other))
                    break
        return found


def arc_pairs(called: str, arcs: Any, names: Collection[str]) -> list[tuple[str, str]]:
    """Return arcs as pairs (parent, child), from pairs or a mapping from children to parents, with names checked."""
    if isinstance(arcs, Mapping):
        found = [
            (settings.name_of(parent), settings.name_of(child))
            for child, some in arcs.items()
            for parent in settings.variable_names(called, some, LearningError)
        ]
    else:
        found = []
        for pair in settings.as_tuple_of_names(called, arcs, LearningError):
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise LearningError(f"has pairs (parent, child). Got {pair!r} instead.", setting=called, value=pair)
            found.append((settings.name_of(pair[0]), settings.name_of(pair[1])))
    for pair in found:
        for name in pair:
            if name not in names:
                raise unknown_name("column", name, names)
        if pair[0] == pair[1]:
            raise LearningError(f"has an arc from {pair[0]!r} to itself.", setting=called, remedies="take it out")
    return found


def _tier_of_each(tiers: Any, names: Collection[str]) -> dict[str, int]:
    """Return the number of the tier of every column that is in one."""
    found: dict[str, int] = {}
    whole = () if tiers is None else tiers
    rows = list(whole) if isinstance(whole, Iterable) and not isinstance(whole, (str, Mapping)) else [whole]
    for number, some in enumerate(rows):
        if isinstance(some, (str, Mapping)) or not isinstance(some, Iterable):
            raise LearningError(
                f"is a list of tiers, each a list of columns. Got {some!r} in the place of a tier.",
                setting="tiers",
                value=some,
                remedies="put the columns of each tier in brackets: [['age', 'sex'], ['income']]",
            )
        for name in settings.variable_names("tiers", some, LearningError):
            if name not in names:
                raise unknown_name("column", name, names)
            if name in found:
                raise LearningError(
                    f"has {name!r} in two tiers, {found[name] + 1} and {number + 1}.",
                    setting="tiers",
                    value=name,
                    remedies="keep one of them",
                )
            found[name] = number
    if found and len(set(found.values())) == 1:
        warn(
            "has one tier only, which rules out no arc: no arc leads from a later tier to an earlier one.",
            FgrnWarning,
            setting="tiers",
            remedies="put other columns in a second tier",
        )
    return found
