"""What a format can carry: names and labels are checked before anything is written, properties may be left out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from ...bayes.document import Document
from ...core.exceptions import NetworkFileError
from ..container import shown

_UNPRINTABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def is_plain(text: str) -> bool:
    """Whether a text has no control characters nor halves of characters, which no format can carry."""
    if text.isascii() and text.isprintable():
        return True
    return not _UNPRINTABLE.search(text) and all(unicodedata.category(letter) != "Cc" for letter in text)


def check_directed(document: Document, format: str) -> None:
    """Only Bayesian networks go into most formats."""
    if not document.directed:
        raise NetworkFileError(
            f"{format} holds Bayesian networks only, and this one has factors without a direction. "
            "UAI (.uai) holds both."
        )


def check_title(document: Document, format: str, title: Callable[[str], bool] = is_plain) -> None:
    """The name of the network is one that the format can carry."""
    if not (is_plain(document.name) and title(document.name)):
        raise NetworkFileError(f"{format} cannot carry the name {shown(document.name)} of the network. Change it.")


def check_names(
    document: Document,
    format: str,
    name: Callable[[str], bool],
    label: Callable[[str], bool],
    rule: str,
    instead: str,
    title: Callable[[str], bool] = is_plain,
) -> None:
    """Every name and every label is one that the format can carry.

    Args:
        document: what is to be written.
        format: its name, for messages.
        name: whether the format can carry this name of a variable.
        label: the same for the label of a state.
        rule: what names or labels are in this format.
        instead: which formats can carry it.
        title: the same for the name of the network.
    """
    check_title(document, format, title)
    for variable, labels in document.states.items():
        if not (is_plain(variable) and name(variable)):
            raise NetworkFileError(f"{format} cannot carry the name {shown(variable)}: {rule}. Rename it{instead}.")
        for one in labels:
            if not (is_plain(one) and label(one)):
                raise NetworkFileError(
                    f"{format} cannot carry {shown(one)}, a state of {shown(variable)}: {rule}. Rename it{instead}."
                )


def split_property(text: str) -> tuple[str, str]:
    """Key and value of a property that is written as one text."""
    text = text.strip()
    key, sign, value = text.partition("=")
    if not sign:
        key, _, value = text.partition(" ")
    return key.strip(), value.strip()


def joined_property(key: str, value: str) -> str | None:
    """A property as one text, if key and value come back from it."""
    text = f"{key} = {value}"
    return text if split_property(text) == (key, value) else None


def numbers_text(values: list[float], separator: str = " ") -> str:
    """Numbers that are read back bit for bit."""
    return separator.join(map(repr, values))
