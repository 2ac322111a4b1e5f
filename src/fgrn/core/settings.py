"""Checks of arguments given by users, with one wording of the errors for all."""

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
"""Returns the variable of a model that has the name of a given Variable; an error if their states differ."""


def choice(name: str, value: object, choices: Sequence[object], error: type[FgrnError] = FgrnError) -> None:
    """Raise an error unless the value is one of the choices."""
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise error(f"must be one of {known}. Got {value!r} instead.", setting=name, value=value)


def whole(name: str, value: object, least: int, error: type[FgrnError] = FgrnError) -> None:
    """Raise an error unless the value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise error(f"must be a whole number from {least} on. Got {value!r} instead.", setting=name, value=value)


def number(name: str, value: object, error: type[FgrnError] = FgrnError, below: float = np.inf) -> None:
    """Raise an error unless the value is a finite number, not negative, and less than `below`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < below:
        limit = "finite" if below == np.inf else f"less than {below:g}"
        raise error(f"must be {limit} and not negative. Got {value!r} instead.", setting=name, value=value)


def name_of(value: Any, own: Own | None = None) -> Any:
    """Return the name of a variable that is given by its name or as a Variable.

    Args:
        value: the name or the Variable.
        own: returns the variable of the model, after a check that the states are equal: see `check_states`.
    """
    if not isinstance(value, Variable):
        return value
    return value.name if own is None else own(value).name


def by_name(given: Mapping[Any, T] | None, own: Own | None = None, error: type[FgrnError] = FgrnError) -> dict[str, T]:
    """Return a mapping with names as keys from one with names or Variables; `own` as for `name_of`."""
    found: dict[str, T] = {}
    for key, value in (given or {}).items():
        name = name_of(key, own)
        if name in found:
            raise error(
                f"{name!r} is there twice: as a Variable and by its name.", value=name, remedies="leave out one of them"
            )
        found[name] = value
    return found


def variable_names(
    name: str, value: Any, error: type[FgrnError] = FgrnError, own: Own | None = None
) -> tuple[Any, ...]:
    """Return the names in a list of names or Variables; an error for a single string; `own` as for `name_of`."""
    return tuple([name_of(one, own) for one in as_tuple_of_names(name, value, error)])


def check_states(given: Any, own: Labels) -> None:
    """Raise an error if a Variable is given whose states differ from those in the model; a name has no states."""
    if isinstance(given, Variable) and given.labels != own:
        here, there = (shortened(map(str, labels)) for labels in (own, given.labels))
        raise FgrnError(
            f"The variable {given.name!r} has the states {here} in this model, and the one given has {there}.",
            value=given.name,
            remedies=("give its name instead", "the variable of the model"),
        )


def one_or_more(name: str, value: Any, error: type[FgrnError] = FgrnError) -> list[Any]:
    """Return a list from a single value or an iterable of values; a string is a single value."""
    if isinstance(value, (str, int, float, np.generic)):
        return [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise error(f"is a value or a list of values. Got {value!r} instead.", setting=name, value=value)
    return list(value)


def as_tuple_of_names(name: str, value: Any, error: type[FgrnError] = FgrnError) -> tuple[Any, ...]:
    """Return an iterable as a tuple; an error for a single string, which would be split into letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"is a list of names. Got {value!r} instead.", setting=name, value=value)
    return tuple(value)
