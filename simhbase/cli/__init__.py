"""The command line. A command's module is imported when the command is asked for, not before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from simhbase.errors import SimhbaseError

INTERRUPTED = 130
DEBUG = "SIMHBASE_DEBUG"

# Name -> one line of help, so that `simhbase --help` imports none of them.
COMMANDS: Mapping[str, str] = {
    "load": "Fingerprint documents and store them.",
    "find": "Find the stored documents near texts, ids or fingerprints.",
    "dedup": "Find the near duplicates within one corpus, without a store.",
    "fingerprint": "Print the fingerprint of each document, in input order.",
    "delete": "Remove documents from a store.",
    "stats": "Count documents, index rows and bytes of a store.",
    "check": "Compare a store's tables with each other, and repair them.",
    "idf": "Learn an IDF file or the boilerplate of a corpus.",
    "evaluate": "Measure recall and precision against given pairs.",
    "calibrate": "Measure schemes on a corpus, and recommend one.",
    "tables": "Create, check, describe and drop a store's tables.",
}


class Commands(click.Group):
    """The commands by name; turns every error into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"simhbase.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except SimhbaseError as error:
            fail(str(error), error.exit_code)
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            fail(f"unexpected {type(error).__name__}: {error} ({DEBUG}=1 shows where)", 1)


def fail(text: str, exit_code: int) -> None:
    """Ends the command with a message on stderr."""
    from simhbase.cli.output import message

    for line in f"Error: {text}".split("\n"):
        message(line)
    raise click.exceptions.Exit(exit_code)


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 done with rejected records, 10 no such store, "
    "11 store unreachable, 12 another profile, 13 store or output file busy, 14 another schema, "
    "130 interrupted.",
)
@click.version_option(package_name="simhbase")
def cli() -> None:
    """Have we already seen this text, or one almost like it?"""


def main() -> None:
    """The `simhbase` command."""
    cli(prog_name="simhbase")
