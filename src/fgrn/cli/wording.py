"""What the command line says to people, all of it here: with its options where Python has parameters.

Names and values come from files of others; what cannot be seen in them, or what a terminal would obey, is escaped.
"""

from __future__ import annotations

import re
from shlex import quote

import click

from ..core.exceptions import InterruptedWarning, visible

OPTIONS = {
    "bins": "--bins",
    "cache": "--cache",
    "criterion": "--criterion",
    "cycles": "--cycles",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "drop": "--drop",
    "encoding": "--encoding",
    "epochs": "--epochs",
    "format": "--format",
    "hidden": "--hidden",
    "max_levels": "--max-levels",
    "missing_values": "--missing",
    "n_bins": "--bins",
    "n_epochs": "--epochs",
    "n_hidden": "--hidden",
    "n_init": "--starts",
    "on_bad": "--on-bad",
    "random_state": "--seed",
    "sample_weight": "--weights",
    "smoothing": "--smoothing",
    "starts": "--starts",
    "tol": "--tolerance",
    "unseen": "--unseen",
}
"""The option for each parameter that a message may name."""

PHRASES = (
    (re.compile(r"\bfit with checkpoint='run\.ckpt'"), "fit with --checkpoint FILE"),
    (re.compile(r"\bDrop it\b"), "Leave it out with --drop"),
    (re.compile(r"\bLeave it out\.$"), "Leave it out with --drop."),
    (re.compile(r"\bAdd it to the missing codes\b"), "Say that it stands for unknown with --missing"),
    (re.compile(r"\bresume=True\b"), "--resume"),
    (re.compile(r"missing=\(\) \(of an estimator, missing_values=\(\)\)"), "--missing ''"),
    (re.compile(r"missing_values=\(\)"), "--missing ''"),
    (re.compile(r"Raise max_hidden=\d+, or set n_hidden\."), "Try more of them with `fgrn compare --sizes`."),
    (re.compile(r"header=False \(pandas: header=None\)"), "--no-header"),
    (re.compile(r"\brescale=True\b"), "--rescale"),
    (re.compile(r"fgrn\.Stream\(\.\.\., cache=folder\)"), "--cache FOLDER"),
    (re.compile(r"Choose another cache=\."), "Choose another --cache."),
    (re.compile(r"\bheader=False\b"), "--no-header"),
    (re.compile(r"\bwith fgrn\.Stream\b"), "with `fgrn fit --stream`"),
    (
        re.compile(r"List the columns to read, columns=\[\.\.\.\], or leave it out, drop=\[\.\.\.\]"),
        "Leave it out with --drop",
    ),
    (re.compile(r"To learn here, leave out executor\."), "To learn here, leave out --dask."),
    (
        re.compile(r"read text into a Dask dataframe, dask\.dataframe\.read_csv, or turn it into Parquet"),
        "turn it into Parquet",
    ),
    (re.compile(r"\(learn with smoothing\)"), "(learn with --smoothing)"),
    (re.compile(r"fgrn\.load reads the files that Network\.save writes\."), "`fgrn fit` writes such files."),
    (re.compile(r"\bname that as 'folder'"), "name that with --folder"),
    (re.compile(r",? or see which rows it is by propagate\(.*?\)"), ""),
)
"""What can be done in Python, and the same at the command line."""

SETTING = re.compile(rf"\b({'|'.join(OPTIONS)})=(\"[^\"]*\"|'[^']*'|[\w.+-]*\w)?(?!\[)")


def spoken(message: object) -> str:
    """A message as people at the command line can follow it."""
    if isinstance(message, InterruptedWarning) and message.checkpoint is not None:
        return f"{message.told} To go on from there, fit with --checkpoint {quote(message.checkpoint)} --resume."
    text = str(message)
    for phrase, other in PHRASES:
        text = phrase.sub(other, text)
    return SETTING.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    """A setting as an option, with its value if there is one."""
    value = (found[2] or "").strip("\"'")
    return f"{OPTIONS[found[1]]} {value}".rstrip()


def say(text: str, err: bool = False) -> None:
    """Print lines for people, on standard output or error."""
    click.echo(visible(text, lines=True), err=err)


def tell(message: object) -> None:
    """Print an error, a warning or a remark, one line, on standard error."""
    click.echo(f"fgrn: {visible(message if isinstance(message, str) else spoken(message))}", err=True)
