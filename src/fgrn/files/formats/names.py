"""Checks that a format can represent the names and labels of a document, and helpers to write properties."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from ...bayes.document import Document
from ...core.exceptions import NetworkFileError
from ..container import short_repr

_UNPRINTABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def is_plain(text: str) -> bool:
    """Return whether a text has no control characters and no lone surrogates, which no format can represent."""
    if text.isascii() and text.isprintable():
        return True
    return not _UNPRINTABLE.search(text) and all(unicodedata.category(letter) != "Cc" for letter in text)


def check_directed(document: Document, format: str) -> None:
    """Raise NetworkFileError unless the document is a Bayesian network, as most formats require."""
    if not document.directed:
        raise NetworkFileError(
            f"{format} holds Bayesian networks only, and this one has factors without a direction. "
            "UAI (.uai) holds both."
        )


def check_title(document: Document, format: str, title: Callable[[str], bool] = is_plain) -> None:
    """Raise NetworkFileError if the format cannot represent the name of the network."""
    if not (is_plain(document.name) and title(document.name)):
        raise NetworkFileError(f"{format} cannot carry the name {short_repr(document.name)} of the network. Change it.")


def check_representable(
    document: Document,
    format: str,
    name: Callable[[str], bool],
    label: Callable[[str], bool],
    rule: str,
    title: Callable[[str], bool] = is_plain,
) -> None:
    """Raise NetworkFileError if the format cannot represent a name or a label.

    Args:
        document: the network to be written.
        format: the name of the format, for messages.
        name: returns whether the format can represent the name of a variable.
        label: the same for the label of a state.
        rule: the rule for names and labels of this format, for messages.
        title: the same as `name` for the name of the network.
    """
    check_title(document, format, title)
    remedy = "Rename it, or write XDSL (.xdsl), which carries any name."
    for variable, labels in document.states.items():
        if not (is_plain(variable) and name(variable)):
            raise NetworkFileError(f"{format} cannot carry the name {short_repr(variable)}: {rule}. {remedy}")
        for one in labels:
            if not (is_plain(one) and label(one)):
                state = f"{short_repr(one)}, a state of {short_repr(variable)}"
                raise NetworkFileError(f"{format} cannot carry {state}: {rule}. {remedy}")


def split_property(text: str) -> tuple[str, str]:
    """Return key and value of a property that is written as one text."""
    text = text.strip()
    key, sign, value = text.partition("=")
    if not sign:
        key, _, value = text.partition(" ")
    return key.strip(), value.strip()


def joined_property(key: str, value: str) -> str | None:
    """Return a property as one text; None if key and value cannot be recovered from it."""
    text = f"{key} = {value}"
    return text if split_property(text) == (key, value) else None


def numbers_text(values: list[float], separator: str = " ") -> str:
    """Return numbers as text that is read back bit for bit."""
    return separator.join(map(repr, values))
