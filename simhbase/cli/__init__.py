"""The command line. A command's module is imported when the command is asked for, not before."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from simhbase import require_posix
from simhbase.errors import ShortTexts, SimhbaseError
from simhbase.process.interrupt import ignore_interrupts

INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143  # 128 + signal, as in shells
DEBUG = "SIMHBASE_DEBUG"
# Objects between collections of the young ones. By 700 a load takes a twelfth more time: each chunk has some
# thousand records that are still in use.
_YOUNG = 20_000

# Name -> one line of help, so that `simhbase --help` imports none of them.
COMMANDS: Mapping[str, str] = {
    "load": "Fingerprint documents and store them.",
    "load-hfiles": "Load HFiles written by Spark into HBase.",
    "find": "Find stored near-duplicates of texts, documents or fingerprints.",
    "compare": "Compare two texts, two stored documents, or one of each.",
    "list": "List the documents of a store.",
    "groups": "Group the near-duplicates among the documents of a store.",
    "match": "Find near-duplicates of documents among those of other files, without a store.",
    "dedup": "Find near-duplicates within one corpus, without a store.",
    "spark": "Find near-duplicates on Spark.",
    "pairs": "List all pairs of near-duplicates of a corpus or a store.",
    "fingerprint": "Print the fingerprint of each document, in input order.",
    "delete": "Remove documents from a store.",
    "mute": "Hide documents from lookups, for ever or until a date.",
    "loads": "List the loads into a store.",
    "stats": "Count documents, index rows and bytes of a store.",
    "check": "Compare the rows of a store's tables with each other, and repair them.",
    "migrate": "Copy the documents of a store to another one, also with another layout or on a server.",
    "vacuum": "Remove obsolete rows of updated and deleted documents, and expired documents.",
    "compact": "Merge the files of an embedded store, so that lookups read fewer.",
    "serve": "Serve a store over HTTP, with a search page.",
    "profiles": "List presets and parameters of profiles.",
    "idf": "Learn an IDF file or the boilerplate of a corpus.",
    "evaluate": "Measure recall and precision against given pairs.",
    "calibrate": "Measure schemes on a corpus, and recommend one.",
    "plan": "Estimate what a number of documents needs, in each kind of store.",
    "scopes": "List and drop the scopes of a store.",
    "tables": "Create, check, describe, copy and drop a store's tables.",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


class Commands(click.Group):
    """The commands by name; converts errors to a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"simhbase.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _as_messages(), _without_passwords():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from simhbase.process.logs import warn_on_stderr

        warn_on_stderr()
        with _as_messages(), _without_passwords():
            return super().invoke(ctx)


@contextmanager
def _as_messages() -> Iterator[None]:
    """Shows errors as messages, and exits with their codes."""
    from simhbase.cli.output import discard, fail

    try:
        yield
    except SimhbaseError as error:
        fail(str(error), error.exit_code)
    except Terminated:
        fail("terminated", TERMINATED)
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            discard(stream)
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        if isinstance(error, OSError):
            with suppress(OSError):
                sys.stdout.flush()
            discard(sys.stdout)  # it may be what failed, and would again at the end: click prints help
            if error.errno in (errno.EMFILE, errno.ENFILE):
                fail(f"{error}: allow more, for example with 'ulimit -n 1024', and run the command again", 1)
        fail(f"unexpected {type(error).__name__}: {error} ({DEBUG}=1 shows where)", 1)


@contextmanager
def _without_passwords() -> Iterator[None]:
    """Click's errors quote what was given, which may be a store's URL in the wrong place."""
    try:
        yield
    except click.ClickException as error:
        from simhbase.model.urls import without_passwords

        vars(error).update(message=without_passwords(error.message))
        raise


def _terminate(number: int, frame: object) -> None:
    raise Terminated


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 done with rejected records, 10 no such store, "
    "11 store unreachable, 12 profile mismatch, 13 store or output file busy, 14 schema mismatch, "
    "15 not all compared, 16 more rejected records than allowed, 130 interrupted, 141 broken pipe, "
    "143 terminated.\n\nPages that help names, such as docs/spark.md, are in the repository, and in the "
    "folder docs of an installed package.",
)
@click.version_option(package_name="simhbase")
def cli() -> None:
    """Find near-duplicates: have we seen this text before, or one almost like it?"""


def _open_closed_streams() -> None:
    """Give standard streams that are closed a file, so that no other file gets their numbers: reading the
    input and writing the output fail, and messages are dropped."""
    for name, mode, number, flags in (
        ("stdin", "r", 0, os.O_WRONLY),
        ("stdout", "w", 1, os.O_RDONLY),
        ("stderr", "w", 2, os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, flags), number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # no path


def main() -> None:
    """The `simhbase` command."""
    try:
        require_posix()
    except ImportError as error:
        raise SystemExit(f"Error: {error}") from None
    _open_closed_streams()
    # Processes of the service and of Spark import nothing from the current folder, which may be a stranger's.
    os.environ["PYTHONSAFEPATH"] = "1"
    gc.set_threshold(_YOUNG)
    warnings.filterwarnings("ignore", category=ShortTexts)  # said when a store is created
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        cli(prog_name="simhbase")
    finally:
        ignore_interrupts()
