"""The wording of messages on the command line: settings as options of the running command, escaped for terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

import click

from ..core.exceptions import NetworkFileError, Remedy, Report, Wording
from .constraining import FORMS

OPTIONS = {
    "alpha": "--alpha P",
    "bins": "--bins NUMBER",
    "cache": "--cache FOLDER",
    "candidates": "--target NAME",
    "checkpoint": "--checkpoint FILE",
    "constraints": f"--constraints {FORMS}",
    "criterion": "--criterion NAME",
    "cycles": "--cycles NUMBER",
    "decimal": "--decimal MARK",
    "delimiter": "--delimiter CHARACTER",
    "drop": "--drop COLUMN",
    "effective_size": "--effective-size ROWS",
    "encoding": "--encoding NAME",
    "equivalent_size": "--equivalent-size ROWS",
    "epochs": "--epochs NUMBER",
    "executor": "--dask",
    "folder": "--folder FOLDER",
    "format": "--format NAME",
    "from": "--from NAME",
    "header": "--no-header",
    "continuous": "--continuous COLUMN",
    "hidden": "--hidden NUMBER",
    "learnt_from": "--learnt-from TABLE",
    "max_parents": "--max-parents NUMBER",
    "max_levels": "--max-levels NUMBER",
    "max_seconds": "--max-seconds NUMBER",
    "method": "--method NAME",
    "missing": "--missing CODE",
    "missing_values": "--missing CODE",
    "n_bins": "--bins NUMBER",
    "n_epochs": "--epochs NUMBER",
    "n_hidden": "--hidden NUMBER",
    "n_init": "--starts NUMBER",
    "on_bad": "--on-bad ACTION",
    "random_state": "--seed NUMBER",
    "refine": "--refine NUMBER",
    "roots": "--root COLUMN",
    "required": "--required ARC",
    "rescale": "--rescale",
    "resume": "--resume",
    "sample_weight": "--weights COLUMN",
    "samples": "--samples N",
    "score": "--score NAME",
    "serve": "--serve",
    "smoothing": "--smoothing COUNT",
    "start": "--start NETWORK",
    "starts": "--starts NUMBER",
    "stream": "--stream",
    "tiers": "--tier A,B",
    "time_column": "--time COLUMN",
    "tol": "--tolerance NUMBER",
    "uncertainty": "--no-uncertainty",
    "unseen": "--unseen ACTION",
    "variables": "--only NAME",
}
"""The option for each parameter that a message may name, with a placeholder for its value; none for a flag."""

COMMANDS = {"max_hidden": "`fgrn compare --sizes`", "model": "`fgrn fit`", "network": "`fgrn query`"}
"""The command for each parameter that is not an option."""


class Options(Wording):
    """The wording of settings as options of a command; advice without an option is left out.

    Where a model is asked, options of learning are those of `fgrn fit`, which made it.

    Args:
        command: the command that runs; without one all options are taken to be there.
        of_network: whether the message is about a file with a network, whose format has an option of its own.
    """

    def __init__(self, command: click.Command | None, of_network: bool = False) -> None:
        params = [] if command is None else command.params
        self._known = _options(params) or {option.split(" ")[0] for option in OPTIONS.values()}
        self._asks_model = any(isinstance(one, click.Argument) and one.name == "model" for one in params)
        self._of_network = of_network
        context = click.get_current_context(silent=True)
        self._has_missing = context is not None and bool(context.params.get("missing"))

    def subject(self, name: str) -> str:
        """See `Wording`."""
        flag = self._option(name).split(" ")[0]
        return flag if flag in self._known else super().subject(name)

    def settings(self, remedy: Remedy) -> str | None:
        """See `Wording`."""
        found: list[str] = []
        for name, value in remedy.settings.items():
            option = self._option(name)
            command = self._command_of(name, option)
            if command is None:
                return COMMANDS.get(name)
            if name == "missing" and isinstance(value, (str, list)) and value and not self._has_missing:
                words = [value] if isinstance(value, str) else value
                value = (*words, "", "NA")  # the option replaces the usual codes, so that these are to be given as well
            if value is None:
                return f"{command and f'`{command}` '}without {option.split(' ')[0]}"
            found += [command, _with_value(option, value)]
        text = " ".join(filter(None, found))
        return f"`{text}`" if text.startswith("fgrn") else text

    def _option(self, name: str) -> str:
        return OPTIONS.get("from" if name == "format" and self._of_network else name, "")

    def _command_of(self, name: str, option: str) -> str | None:
        """Return the command that has an option, "" if it is the running one; None if the option is useless here."""
        flag = option.split(" ")[0]
        if flag in self._known:
            return ""
        if name == "method":
            return "fgrn query"
        if not self._asks_model:
            return None
        from .fitting import fit

        return "fgrn fit" if flag in _options(fit.params) else None


def _options(params: Sequence[click.Parameter]) -> set[str]:
    return {option for one in params if isinstance(one, click.Option) for option in one.opts}


def _with_value(option: str, value: object) -> str:
    """Return an option with its value, or with a placeholder if any value will do."""
    flag, _, of = option.partition(" ")
    if value is ... or not of:
        return option
    if isinstance(value, Mapping):
        values: Sequence[object] = [f"{name}={one}" for name, one in value.items()]
    else:
        values = value if isinstance(value, (list, tuple)) else [value]
    written = [">".join(one) if isinstance(one, tuple) else str(one) for one in values]  # an arc is a pair
    return " ".join(f"{flag} {_quoted(one)}" for one in written) or f"{flag} ''"


def _quoted(value: str) -> str:
    """Return a value as a shell takes it, in quotes also if it would run into the punctuation of a sentence."""
    found = quote(value)
    return found if found.endswith("'") or found[-1].isalnum() else f"'{found}'"


def spoken(message: object, command: click.Command | None = None) -> str:
    """Return a message worded for the command line; for the running command unless one is given."""
    if not isinstance(message, Report):
        return str(message)
    context = click.get_current_context(silent=True)
    running = command or (None if context is None else context.command)
    return message.worded(Options(running, isinstance(message, NetworkFileError)))
