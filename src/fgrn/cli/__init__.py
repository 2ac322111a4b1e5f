"""The command `fgrn`: its list of commands, exit codes and errors. Each command is imported when it is called."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from .._version import __version__
from .signals import INTERRUPTED, TERMINATED, Terminated, terminable

COMMANDS = {
    "demo": "demonstrating",
    "inspect": "inspecting",
    "fit": "fitting",
    "compare": "inspecting",
    "predict": "predicting",
    "complete": "completing",
    "forecast": "forecasting",
    "explain": "predicting",
    "prototypes": "reporting",
    "report": "reporting",
    "draw": "predicting",
    "explore": "explore",
    "search": "structure",
    "query": "networks",
    "track": "tracking",
    "solve": "deciding",
    "convert": "converting",
    "bench": "demonstrating",
    "paper": "demonstrating",
    "doctor": "doctor",
}
"""Each command and the file it is in."""

SUMMARIES = {
    "demo": "Learn handwritten digits, and draw what was learnt.",
    "inspect": "Describe a table or a network, and list possible problems.",
    "fit": "Learn a model from a table.",
    "compare": "Compare models with different numbers of hidden states.",
    "predict": "Predict the class or cluster of each row of a table.",
    "complete": "Impute the missing values of a table.",
    "forecast": "Forecast the next steps of sequences.",
    "explain": "Explain the class of a row: what each value adds to its log-odds.",
    "prototypes": "Show the profile (prototype) of each class or cluster.",
    "report": "Report a latent class analysis: sizes, standard errors, criteria, fit.",
    "draw": "Draw a model, or the graph of a Bayesian network.",
    "explore": "Write a page that shows a model and infers in the browser.",
    "search": "Find a Bayesian network in a table.",
    "query": "Query a Bayesian network: posteriors, most probable states, samples.",
    "track": "Infer the variables of a dynamic network along sequences.",
    "solve": "Find the best decisions of an influence diagram.",
    "convert": "Write a network in the format of another program.",
    "bench": "Measure the speed on this machine.",
    "paper": "Reproduce the results of the paper.",
    "doctor": "Check that everything needed is installed and works.",
}

EPILOG = """\b
Exit codes
  0    done
  1    the data, the model or a file is not valid; the message says what and where
  2    the command or one of its options is not valid
  130  interrupted; what was written before is complete
  143  the same, by SIGTERM
\b
First steps
  fgrn demo
  fgrn inspect people.csv
  fgrn fit people.csv --target buys -o people.fgrn
  fgrn predict people.fgrn new.csv -o answers.csv
  fgrn query alarm.bif --given HR=LOW
"""


class Failed(Exception):
    """The error of a command that failed, with a message for users of the command line."""


class Lazy(click.Group):
    """A group of commands that imports a command when it is called, so that the help is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f".{COMMANDS[cmd_name]}", __name__), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands in the help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return a command, or raise an error that suggests the nearest name."""
        from difflib import get_close_matches

        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(COMMANDS)}."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors name its options."""
        from ..core.exceptions import FgrnError
        from .wording import spoken

        try:
            return super().invoke(ctx)
        except FgrnError as error:
            raise Failed(spoken(error, self.get_command(ctx, ctx.invoked_subcommand or ""))) from error


@click.group(
    cls=Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="fgrn")
def cli() -> None:
    """Discrete Bayesian networks as factor graphs: learn from tables with missing values, classify, impute, explain.

    `fgrn COMMAND --help` describes a command, with an example.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status. An error is one message on stderr, without a traceback."""
    import warnings

    from ..core.exceptions import FgrnWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", FgrnWarning)  # said each time, and never an error
        warnings.showwarning = _show_warning
        with terminable():
            return _run(arguments)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    from .terminal import print_message
    from .wording import spoken

    print_message(spoken(message))


def _nobody_reads() -> int:
    """Return status 0 after the reader of the output has closed the pipe; discard the rest of the output."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(arguments: list[str] | None) -> int:
    from .terminal import print_message, print_text

    try:
        ended = cli.main(arguments, prog_name="fgrn", standalone_mode=False)
        return ended if isinstance(ended, int) else 0  # what a command that raised Exit asked for
    except click.ClickException as error:  # of what was typed, and not of what is in files
        error.show()
        return 2 if isinstance(error, click.UsageError) else 1
    except (click.Abort, KeyboardInterrupt):
        print_text("interrupted", err=True)
        return INTERRUPTED
    except Terminated:
        print_text("terminated", err=True)
        return TERMINATED
    except (BrokenPipeError, SystemExit):  # click makes the one of the other, and no command exits in this way
        return _nobody_reads()
    except ImportError as error:
        print_message(f"this needs {error.name or error}, which is not installed: pip install fgrn")
        return 1
    except (Failed, ValueError) as error:
        print_message(str(error))
        return 1
    except OSError as error:
        print_message(f"{error.filename or 'the output'}: {error.strerror or error}")
        return 1
    except MemoryError:
        print_message("there is too little memory for this table or model.")
        return 1
    except Exception as error:
        if os.environ.get("FGRN_DEBUG"):
            raise
        print_message(
            f"{type(error).__name__}: {error}. This should not happen; please report it, with what is shown where "
            "FGRN_DEBUG=1 is in the environment."
        )
        return 1
