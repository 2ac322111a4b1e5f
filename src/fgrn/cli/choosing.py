"""Options of `fgrn fit` about the choice of a classifier: how long it may take, and whether tables are refined."""

from __future__ import annotations

from typing import Any

import click

from . import shared_options

STRUCTURES = {"latent": "auto", "tan": "tan", "tree with a target": "tree"}
"""The structure of LatentClassifier, by model."""

WORDS = {"auto": "auto", "yes": True, "no": False}


class Refining(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """The values of --refine: a word, or the strength of the penalty on refined tables."""

    name = "refining"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the setting of the classifier, or raise an error that names the option."""
        if value in WORDS:
            return WORDS[value]
        try:
            return shared_options.FiniteRange(0, min_open=True).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not 'auto', 'yes', 'no' or a number above 0.", param, ctx)


class BinCount(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """The values of --bins where they may be chosen: a number, or 'auto'."""

    name = "bins"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the setting of the estimator, or raise an error that names the option."""
        return value if value == "auto" else click.IntRange(2).convert(value, param, ctx)


def check_choice(kind: str, sizes: str, refine: Any, max_seconds: float | None, online: bool) -> None:
    """Raise an error if an option about the choice of a classifier is given where nothing is chosen."""
    sizes_are_tried = kind in STRUCTURES and sizes == "auto"
    has_own_states = sizes_are_tried or kind in ("tan", "tree with a target")  # those of each class may be refined
    is_refined = refine not in (None, "auto", False)
    if refine is not None and (kind not in STRUCTURES or (is_refined and not has_own_states)):
        raise click.UsageError(
            "--refine is for states that each class has of its own: with --target say --hidden auto, or --model tan or "
            "tree; or leave it out."
        )
    if is_refined and online:
        raise click.UsageError("--refine reads rows more than once: leave it out with --online.")
    if max_seconds is not None and not (sizes_are_tried or (has_own_states and refine is not False and not online)):
        raise click.UsageError(
            "--max-seconds limits a choice: of states with --target and --hidden auto, or of how the tables of --model "
            "tan or tree are refined, not with --online or --refine no; leave it out."
        )
