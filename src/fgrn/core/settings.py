"""Checks of what people pass as settings, with one wording for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .exceptions import FgrnError, shortened
from .labels import Labels
from .variable import Variable

T = TypeVar("T")

Name: TypeAlias = str | Variable
"""A variable by its name, or itself."""

Own: TypeAlias = Callable[[Variable], Variable]
"""The variable of a model that has the name of another."""


def choice(name: str, value: object, choices: Sequence[object], error: type[FgrnError] = FgrnError) -> None:
    """One of some words."""
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise error(f"must be one of {known}. Got {value!r} instead.", setting=name, value=value)


def whole(name: str, value: object, least: int, error: type[FgrnError] = FgrnError) -> None:
    """A whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise error(f"must be a whole number from {least} on. Got {value!r} instead.", setting=name, value=value)


def number(name: str, value: object, error: type[FgrnError] = FgrnError, below: float = np.inf) -> None:
    """A number that is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < below:
        limit = "finite" if below == np.inf else f"less than {below:g}"
        raise error(f"must be {limit} and not negative. Got {value!r} instead.", setting=name, value=value)


def name_of(value: Any, own: Own | None = None) -> Any:
    """The name of a variable: a `Variable` may stand wherever its name may.

    Args:
        value: the name, or the Variable.
        own: finds the variable of a model, which refuses one with other states: see `check_states`.
    """
    if not isinstance(value, Variable):
        return value
    return value.name if own is None else own(value).name


def by_name(given: Mapping[Any, T] | None, own: Own | None = None, error: type[FgrnError] = FgrnError) -> dict[str, T]:
    """A mapping from names or Variables, as one from names; `own` as for `name_of`."""
    found: dict[str, T] = {}
    for key, value in (given or {}).items():
        name = name_of(key, own)
        if name in found:
            raise error(
                f"{name!r} is there twice: as a Variable and by its name.", value=name, remedies="leave out one of them"
            )
        found[name] = value
    return found


def names(name: str, value: Any, error: type[FgrnError] = FgrnError, own: Own | None = None) -> tuple[Any, ...]:
    """A list of names or Variables, as names; and not one name, which would be taken apart; `own` as for `name_of`."""
    return tuple(name_of(one, own) for one in listed(name, value, error))


def check_states(given: Any, own: Labels) -> None:
    """Refuse a Variable whose states are not those that a model has by its name; a name says nothing of states."""
    if isinstance(given, Variable) and given.labels != own:
        here, there = (shortened(map(str, labels)) for labels in (own, given.labels))
        raise FgrnError(
            f"The variable {given.name!r} has the states {here} in this model, and the one given has {there}.",
            value=given.name,
            remedies=("give its name instead", "the variable of the model"),
        )


def one_or_more(name: str, value: Any, error: type[FgrnError] = FgrnError) -> list[Any]:
    """A list of values, also of one that is not in a list: a word is not taken apart."""
    if isinstance(value, (str, int, float, np.generic)):
        return [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise error(f"is a value or a list of values. Got {value!r} instead.", setting=name, value=value)
    return list(value)


def listed(name: str, value: Any, error: type[FgrnError] = FgrnError) -> tuple[Any, ...]:
    """A list, and not one name, which would be taken apart."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"is a list of names. Got {value!r} instead.", setting=name, value=value)
    return tuple(value)
