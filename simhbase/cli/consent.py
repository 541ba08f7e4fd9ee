"""Asks before a command removes or replaces much."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.options import Decorator, Function, option, together
from simhbase.errors import UsageError

if TYPE_CHECKING:
    from simhbase.admin.removal import Removal


@dataclass(frozen=True)
class Consent:
    """What the user has agreed to.

    yes: to everything; dry_run: to nothing, only the numbers are wanted; may_try: the command has --dry-run.
    """

    yes: bool = False
    dry_run: bool = False
    may_try: bool = False
    _agreed: set[Path] = field(default_factory=set, init=False, compare=False, repr=False)

    @property
    def agree(self) -> Callable[[Removal], None] | None:
        """`require`, None if nothing need be counted."""
        return None if self.yes else self.require

    def require(self, removal: Removal) -> None:
        """Ask before more than half of something is removed, or all of fewer than ten. Raises as `ask`."""
        if removal.is_much:
            self.ask(f"remove {removal}")

    def require_replacing(self, files: Iterable[Path]) -> None:
        """Ask once before existing files are replaced. Raises as `ask`."""
        if self.yes:
            return
        if asked := [file for file in files if file not in self._agreed]:
            self.ask(f"replace {', '.join(f'{file} ({file.stat().st_size:,} bytes)' for file in asked)}")
            self._agreed.update(asked)

    def ask(self, action: str) -> None:
        """Ask on a terminal. Raises Abort if the answer is no, UsageError without a terminal and --yes."""
        if self.yes:
            return
        if not _on_terminal():
            trial = " (--dry-run only counts)" if self.may_try else ""
            raise UsageError(f"this would {action}: give --yes to do it{trial}")
        click.confirm(f"{action[0].upper()}{action[1:]}?", abort=True, err=True)


yes_option = option("--yes", "Do not ask before removing much or replacing files.")


def consent_options(*, dry_run: bool = True) -> Decorator:
    """Adds --yes and, with `dry_run`, --dry-run; the command takes `consent`."""
    options = [yes_option]
    if dry_run:
        options.append(option("--dry-run", "Count what would be removed, and change nothing."))

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_consent(*args: Any, yes: bool, dry_run: bool = False, **kwargs: Any) -> None:
            function(*args, consent=Consent(yes, dry_run, may_try=len(options) > 1), **kwargs)

        return together(*options)(with_consent)

    return decorate


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
