"""The option of commands that read a store's tables part by part."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from simhbase.cli.options import Command, converted
from simhbase.errors import UsageError
from simhbase.index.part import Part


def part_option(text: str, name: str = "--part") -> Callable[[Command], Command]:
    """Adds `--part`; the command's help says what is done with a part of the tables."""
    return click.option(name, metavar="I/N", callback=converted(_part), help=text)


def _part(text: str) -> Part:
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"{text!r} is no part such as 1/100, the first of a hundred")
    return Part(int(found[1]), int(found[2]))
