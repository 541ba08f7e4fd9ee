"""Options shared by commands, and how help shows options."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial, wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simhbase.cli.output import fail
from simhbase.errors import BadInput, UsageError
from simhbase.model.moment import UNITS, at, milliseconds, milliseconds_to_come, now
from simhbase.model.values import LARGEST_LIMIT

if TYPE_CHECKING:
    from simhbase.corpus.record import Base

DEFAULT_STORE = "rocksdb:simhbase.db"
STORE_VARIABLE = "SIMHBASE_STORE"
BASE = "fingerprint_base"
# Writing them as files would replace what output goes to.
STANDARD_OUTPUT_NAMES = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_NEARLY_EQUAL = 0.92  # names with a letter more or less, or two exchanged

_THOUSANDS = re.compile("[0-9]{1,3}(,[0-9]{3})+")

Function = Callable[..., None]
Decorator = Callable[[Function], Function]


class Option(click.Option):
    """An option in a group of the help. Its name is that of the Python parameter."""

    def __init__(self, *args: Any, group: str = "Options", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Refuses an empty name of a file, which would be the current folder."""
        if isinstance(self.type, click.Path) and value == "":
            raise click.BadParameter("the name is empty", ctx, self)
        return super().type_cast_value(ctx, value)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leaves out ranges, to save space: errors name them."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help lists options by group, and whose errors name options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups in the order of their first options, common ones last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)):
                groups.setdefault(getattr(each, "group", "Options"), []).append(record)
        groups["Options"] = groups.pop("Options")
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses an option with one value that is given twice, of which click takes the last."""
        _, _, given = self.make_parser(ctx).parse_args([*args])
        for each, count in Counter(given).items():
            is_switch = isinstance(each, click.Option) and each.is_flag and not each.secondary_opts
            if isinstance(each, click.Option) and count > 1 and not each.multiple and not is_switch:
                name = "/".join(each.opts[-1:] + each.secondary_opts)
                raise click.UsageError(f"{name} is given {count} times: which one counts is not certain", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BadInput as error:
            if error.parameter is None:
                raise
            options = {each.name: each.opts[-1] for each in self.params if isinstance(each, click.Option)}
            named = f"{options['settings']} {error.parameter}" if "settings" in options else error.parameter
            fail(error.calling_it(options.get(error.parameter, named)), error.exit_code)


class Group(click.Group):
    command_class = Command


command = partial(click.command, cls=Command)


class WrittenFile(click.Path):
    """A file to write, and not standard output, which has the summary."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if str(path) in STANDARD_OUTPUT_NAMES:
            self.fail("standard output has the summary: give a file", param, ctx)
        return path


class FiniteRange(click.FloatRange):
    """A number that is neither infinite nor no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def option(
    usage: str, text: str, *, name: str | None = None, group: str = "Options", **attributes: Any
) -> Decorator:
    """An option.

    usage: `--ids-limit N`, or `--yes` for a flag; `-o, --output FILE` has two names. text: its help. name:
    the command's parameter, if it has another name. group: heading in the help. attributes: passed to
    click.option.
    """
    names, _, metavar = usage.replace(", ", ",").partition(" ")
    default = attributes.get("default")
    return click.option(
        *names.split(","),
        *([name] if name else []),
        cls=Option,
        group=group,
        metavar=metavar or None,
        **({} if metavar else {"is_flag": True}),
        show_default=bool(metavar and default not in (None, "")),
        help=text,
        **attributes,
    )


def together(*decorators: Decorator) -> Decorator:
    """Combine options into one decorator, in the order of help."""

    def decorate(function: Function) -> Function:
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


def converted(convert: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A click callback that converts a value; a UsageError then names the option."""

    def callback(context: click.Context, option: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except UsageError as error:
            raise click.BadParameter(str(error), context, option) from error

    return callback


def pairs(typed: Sequence[str]) -> dict[str, str]:
    """Parse repeated NAME=VALUE to a mapping. Raises UsageError."""
    found: dict[str, str] = {}
    for each in typed:
        name, _, value = each.partition("=")
        if not (name and value):
            raise UsageError(f"{each!r} is not NAME=VALUE")
        if name != name.strip():
            raise UsageError(f"{each!r} has spaces around its name: leave them out")
        if name in found:
            raise UsageError(f"{name!r} is given twice: a tag has one value")
        found[name] = value
    return found


def count(typed: str) -> int:
    """A number of documents, also as 1e9 or 1,000,000,000. Raises UsageError."""
    try:
        # Between thousands only: 1,5e9 is meant as 1.5e9.
        number = float(typed.replace(",", "") if _THOUSANDS.fullmatch(typed) else typed)
    except ValueError:
        number = 0.0
    if number < 1 or not number.is_integer():
        raise UsageError(f"{typed!r} is no number of documents: give one such as 1000000000 or 1e9")
    return int(number)


def seconds(text: str) -> int:
    """A duration such as 30m or 7d, or 0: 90 might be meant as days. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,10})([smhdw])|0", text)
    if not found:
        raise UsageError(f"{text!r} is not a duration: use a number with s, m, h, d or w (30d)")
    return int(found[1] or 0) * UNITS[found[2] or "s"]


def past(text: str) -> datetime:
    """A time in the past: a duration before now, a date or a time. Raises UsageError."""
    return at(milliseconds(text, now()))


def future(text: str) -> datetime:
    """A time in the future: a duration from now, a date or a time. Raises UsageError."""
    return at(milliseconds_to_come(text, now()))


def part(text: str) -> Any:
    """A part of the tables, as 1/100. Raises UsageError."""
    from simhbase.index.part import Part

    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"{text!r} is not a part: use 1/100 for the first of 100 parts")
    return Part(int(found[1]), int(found[2]))


def typed_fingerprints(typed: Sequence[str], base: Base | None) -> list[int]:
    """Fingerprints in digits; without a base one of them must show it. Raises UsageError."""
    from simhbase.corpus.prepared import base_of, fingerprint_of
    from simhbase.profile.profile import TABLE_BITS

    if base and not typed:
        raise UsageError("has no effect, as no fingerprint is given: leave it out", parameter=BASE)
    base = base or base_of(typed, TABLE_BITS, "fingerprints have")
    try:
        return [fingerprint_of(each, TABLE_BITS, base) for each in typed]
    except BadInput as error:
        raise UsageError(str(error), parameter="fingerprints") from error


def _certain(context: click.Context, option: click.Parameter, url: str) -> str:
    """Refuses the default store where a variable was probably meant to name another one."""
    if context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT:
        return url
    if STORE_VARIABLE in os.environ:
        raise UsageError(f"the variable {STORE_VARIABLE} is empty: unset it, or give it a URL")
    from difflib import SequenceMatcher

    for name in os.environ:
        is_as_long = abs(len(name) - len(STORE_VARIABLE)) <= 1
        if is_as_long and SequenceMatcher(None, name.upper(), STORE_VARIABLE).ratio() > _NEARLY_EQUAL:
            raise UsageError(f"no variable {name} is read: rename it to {STORE_VARIABLE}, or unset it")
    return url


store_option = option(
    "--store URL",
    "rocksdb:PATH, postgresql://HOST/DATABASE, redis://HOST or hbase://HOST:PORT/PREFIX; or set "
    f"{STORE_VARIABLE}.",
    name="url",
    group="Store",
    default=DEFAULT_STORE,
    envvar=STORE_VARIABLE,
    callback=_certain,
)

scope_option = option("--scope NAME", "Within this scope of a store that has scopes.", group="Store")


def profile_options(function: Function) -> Function:
    """Adds `--profile` and `--set`; the command takes `profile`, the parameters given by them."""

    @wraps(function)
    def with_profile(*args: Any, profile: str | None, settings: Sequence[str], **kwargs: Any) -> None:
        from simhbase.profile.file import chosen_parameters

        function(*args, profile=chosen_parameters(profile, settings), **kwargs)

    text = "Set a parameter, e.g. k=2 (see 'simhbase profiles'). Repeatable."
    return together(
        option(
            "--profile NAME|FILE",
            "Preset or profile file (see 'simhbase profiles').",
            group="Profile",
            type=click.Path(),
        ),
        option("--set NAME=VALUE", text, name="settings", group="Profile", multiple=True),
    )(with_profile)


profile_file_option = option(
    "--profile-file FILE",
    "Write the profile here, for --profile.",
    type=WrittenFile(dir_okay=False, path_type=Path),
)


def text_option(text: str, group: str) -> Decorator:
    return option("--text TEXT", text, name="texts", group=group, multiple=True, callback=_in_utf8)


def _in_utf8(context: click.Context, option: click.Parameter, values: Sequence[str]) -> Sequence[str]:
    """Refuses texts with bytes that the terminal's encoding has not, as those of files are."""
    for value in values:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise click.BadParameter(f"not UTF-8 at character {error.start + 1}", context, option) from error
    return values


def fingerprint_option(text: str, group: str = "Options") -> Decorator:
    return option(
        "--fingerprint DIGITS",
        text,
        name="fingerprints",
        group=group,
        multiple=True,
    )


def fingerprint_base_option(group: str = "Options") -> Decorator:
    return option(
        "--fingerprint-base 16|10",
        "Base of the digits of fingerprints. [default: what one of the first 1,000 shows]",
        group=group,
        type=click.Choice(["16", "10"]),
        callback=converted(int),
    )


def min_similarity_option(text: str, group: str = "Matches") -> Decorator:
    """Adds `--min-similarity`, a Jaccard similarity."""
    return option("--min-similarity S", text, group=group, type=FiniteRange(0, 1))


def _limit(value: str) -> int | None:
    if value == "all":
        return None
    if not re.fullmatch("[1-9][0-9]{0,8}", value):
        raise UsageError(f"{value!r} is not a limit: use a number from 1 to {LARGEST_LIMIT:,}, or all")
    return int(value)


drawer_limit_option = option(
    "--drawer-limit N|all",
    "Maximum rows to read per drawer.",
    group="Matches",
    default="10000",
    callback=converted(_limit),
)
ids_limit_option = option(
    "--ids-limit N",
    "Maximum documents to list per fingerprint.",
    group="Matches",
    type=click.IntRange(1, LARGEST_LIMIT),
    default=1000,
)
matches_limit_option = option(
    "--matches-limit N",
    "Maximum documents to list per query, the nearest.",
    group="Matches",
    type=click.IntRange(1, LARGEST_LIMIT),
    default=100,
)


def since_option(group: str) -> Decorator:
    return option(
        "--since TIME",
        "Only documents written since then, e.g. 7d, 12h or 2026-01-31.",
        group=group,
        callback=converted(past),
    )


def tag_option(text: str, group: str) -> Decorator:
    return option(
        "--tag NAME=VALUE", text, name="tags", group=group, multiple=True, callback=converted(pairs)
    )
