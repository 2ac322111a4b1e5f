"""Options that were given and have no effect beside the others are refused."""

from __future__ import annotations

import click

from . import shared_options

READING = "format_ delimiter encoding decimal no_header missing drop on_bad cache"
"""The options of `shared_options.reading`, for a command that reads a table only if one is given."""


def refuse_without_effect(*rules: tuple[str, bool, str]) -> None:
    """Raise an error for the first option of the running command that was given and has no effect.

    Args:
        rules: for some options, their names in Python with spaces between, whether they have an effect, and what they
            are for.
    """
    params = {one.name: one for one in click.get_current_context().command.params}
    for names, has_effect, purpose in rules:
        given = [name for name in names.split() if not has_effect and shared_options.is_given(name)]
        if given:
            option = max(params[given[0]].opts, key=len)
            raise click.UsageError(f"{option} is for {purpose}, and has no effect here: leave it out.")
