"""Checks of what people pass as settings, with one wording for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .exceptions import FgrnError
from .variable import Variable

T = TypeVar("T")

Name: TypeAlias = str | Variable
"""A variable by its name, or itself."""


def choice(name: str, value: object, choices: Sequence[object], error: type[FgrnError] = FgrnError) -> None:
    """One of some words."""
    if value not in choices:
        raise error(f"The {name!r} must be one of {', '.join(map(repr, choices))}. Got {value!r} instead.")


def whole(name: str, value: object, least: int, error: type[FgrnError] = FgrnError) -> None:
    """A whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise error(f"The {name!r} must be a whole number from {least} on. Got {value!r} instead.")


def number(name: str, value: object, error: type[FgrnError] = FgrnError, below: float = np.inf) -> None:
    """A number that is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < below:
        limit = "finite" if below == np.inf else f"less than {below:g}"
        raise error(f"The {name!r} must be {limit} and not negative. Got {value!r} instead.")


def name_of(value: Any) -> Any:
    """The name of a variable: a `Variable` may stand wherever its name may."""
    return value.name if isinstance(value, Variable) else value


def by_name(given: Mapping[Any, T] | None) -> dict[str, T]:
    """A mapping from names or Variables, as one from names."""
    return {name_of(key): value for key, value in (given or {}).items()}


def names(name: str, value: Any, error: type[FgrnError] = FgrnError) -> tuple[Any, ...]:
    """A list of names or Variables, as names; and not one name, which would be taken apart."""
    return tuple(name_of(one) for one in listed(name, value, error))


def one_or_more(name: str, value: Any, error: type[FgrnError] = FgrnError) -> list[Any]:
    """A list of values, also of one that is not in a list: a word is not taken apart."""
    if isinstance(value, (str, int, float, np.generic)):
        return [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise error(f"The {name!r} is a value or a list of values. Got {value!r} instead.")
    return list(value)


def listed(name: str, value: Any, error: type[FgrnError] = FgrnError) -> tuple[Any, ...]:
    """A list, and not one name, which would be taken apart."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"{name!r} is a list of names. Got {value!r} instead.")
    return tuple(value)
