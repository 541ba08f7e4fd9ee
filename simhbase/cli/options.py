"""Options that several commands share, each group as one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from simhbase.drawers.layout import layout
from simhbase.errors import UsageError
from simhbase.fingerprint.minhash import BITS as SKETCH_BITS
from simhbase.profile import BITS, PRESETS, SCHEMES, Profile, make_profile, rises
from simhbase.profile_file import read_parameters
from simhbase.text.boilerplate import read_boilerplate
from simhbase.text.encoding import decode
from simhbase.text.features import WEIGHTS, FeatureOptions
from simhbase.text.idf import read_table
from simhbase.text.normalise import normalise
from simhbase.text.userfile import read_utf8
from simhbase.text.variants import FOLDS

DEFAULT_STORE = "rocksdb:simhbase.db"
STORE_VARIABLE = "SIMHBASE_STORE"

Command = Callable[..., None]


class HidingCommand(click.Command):
    """A command with more options than its help lists, which ends with where the others are."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, and that."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("More options: docs/reference/commands.md")


store_option = click.option(
    "--store",
    "url",
    envvar=STORE_VARIABLE,
    default=DEFAULT_STORE,
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="The store: rocksdb:PATH, hbase://HOST:PORT/PREFIX or memory: (more: simhbase tables --help)",
)


def converted(convert: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A click callback: what a function makes of a value that was given, or a UsageError of it as
    one that names the option."""

    def callback(context: click.Context, option: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except UsageError as error:
            raise click.BadParameter(str(error), context, option) from error

    return callback


def pairs(names: str) -> Callable[[Sequence[str]], dict[str, str]]:
    """What is typed as NAME=VALUE, by name; names: what messages call that. Raises UsageError."""

    def parsed(typed: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in typed:
            name, sign, value = each.partition("=")
            if not sign:
                raise UsageError(f"{each!r} is not {names}")
            if not (name and value):
                left, _, right = names.lower().partition("=")
                raise UsageError(f"{each!r} is not {names}: the {right if name else left} is empty")
            if name in found:
                raise UsageError(f"{name!r} comes twice: a tag has one value")
            found[name] = value
        return found

    return parsed


def tag_option(text: str, *, hidden: bool = False) -> Callable[[Command], Command]:
    """Adds `--tag`, names and values; the command's help says of what."""
    return click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME=VALUE",
        callback=converted(pairs("NAME=VALUE")),
        hidden=hidden,
        help=text,
    )


def seconds(text: str) -> int:
    """A time as people write it. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,10})([smhdw]?)", text)
    if not found:
        raise UsageError(f"{text!r} is not a number of seconds, or one with s, m, h, d or w as 30d")
    return int(found[1]) * _UNITS[found[2]]


def moment(text: str) -> datetime:
    """A time of the past as people write it: so long ago, or a date. Raises UsageError."""
    now = datetime.now().astimezone()
    found = _time(text, lambda span: now - span, "so long ago")
    if found > now:
        raise UsageError(f"{text!r} is still to come: a time of the past is needed")
    return found


def moment_to_come(text: str) -> datetime:
    """The same of a time to come: so long from now, or a date. Raises UsageError."""
    now = datetime.now().astimezone()
    found = _time(text, lambda span: now + span, "so long from now")
    if found <= now:
        raise UsageError(f"{text!r} is past: a time to come is needed")
    return found


def _time(text: str, after: Callable[[timedelta], datetime], means: str) -> datetime:
    try:
        if re.fullmatch(r"\d+[smhdw]", text):
            return after(timedelta(seconds=seconds(text)))
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no time: use a number with s, m, h, d or w for {means}, as 90d, or a date as "
            "2026-01-31 or 2026-01-31T18:00"
        ) from error


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class ProfileOptions:
    """The parameters that were given on the command line, a preset's among them."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def profile(self) -> Profile:
        """A profile of them, with the defaults for the others. Raises UsageError."""
        return make_profile(self.given)


def min_similarity_option(text: str) -> Callable[[Command], Command]:
    """Adds `--min-similarity`, a Jaccard similarity; the command's help says of what."""
    return click.option("--min-similarity", type=click.FloatRange(0, 1), metavar="S", help=text)


class _Threshold(click.FloatRange):
    """A similarity, or what rises: two of them, or auto."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and rises(value):
            return value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r}: use a similarity above 0, up to 1; with scheme minhash also two, of short texts "
                "and of long ones, as 0.54-0.7, or auto",
                param,
                ctx,
            )


_K = partial(
    click.option,
    "-k",
    "k",
    type=click.IntRange(min=0),
    help="Maximum Hamming distance in bits. [default: 3]",
)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_START = partial(
    click.option,
    "--profile",
    metavar="NAME|FILE",
    help="How texts become fingerprints, and which match: default (SimHash of all words, verified by "
    "sketches), complete (MinHash, which finds nearly all, in twice the rows), short (texts of 140 "
    "characters and fewer, alone or among longer ones), classic (the 64 heaviest words by TF-IDF), or a "
    "profile file (TOML; tables describe and calibrate write one). Single parameters are "
    "options, too: see simhbase tables create --help.",
)
_PROFILE = {
    "profile": _START,
    "preset": partial(
        click.option,
        "--preset",
        type=click.Choice(list(PRESETS)),
        help="Preset to start from, by its name; as --profile.",
    ),
    "scheme": partial(
        click.option,
        "--scheme",
        type=click.Choice(list(SCHEMES)),
        help="How texts are compared: simhash, by the bits in which fingerprints differ; minhash, by "
        "estimated Jaccard similarity, which finds more and takes twice the rows. [default: simhash]",
    ),
    "layout": partial(
        click.option,
        "--layout",
        callback=converted(lambda name: layout(name).name),
        help="simhash: NxM cuts fingerprints into N blocks, and any M of them name a drawer, so that all "
        "pairs within N - M bits are found: 5x2 (10 drawers, 3 bits), 4x1, 6x3; 4x4: 16 drawers, 3 bits. "
        "[default: 5x2]",
    ),
    "k": _K,
    "features": partial(
        click.option,
        "--features",
        callback=converted(lambda kind: FeatureOptions(kind=kind).kind),
        help="Features of a text: words; words:N, chars:N: N-grams; chars:1-3: pairs and triples of "
        "characters, of short texts single ones, too. [default: words, of minhash chars:3]",
    ),
    "weights": partial(
        click.option,
        "--weights",
        type=click.Choice(WEIGHTS),
        help="Weight of a word: its count in the text, in long texts no more than 6 (saturated); the count; "
        "the count times its IDF; or that rounded to five levels. [default: count]",
    ),
    "fold": partial(
        click.option,
        "--fold",
        type=click.Choice(FOLDS),
        help="Take characters for the same: hant, Traditional and Simplified Chinese (by OpenCC's table, pip "
        "install 'simhbase[hant]').",
    ),
    "top": partial(
        click.option,
        "--top",
        type=click.IntRange(min=1),
        metavar="N",
        help="Take the N heaviest words only. [default: all]",
    ),
    "min_length": partial(
        click.option,
        "--min-length",
        type=click.IntRange(min=1),
        metavar="N",
        help="Leave out words of fewer characters. [default: 2]",
    ),
    "min_features": partial(
        click.option,
        "--min-features",
        type=click.IntRange(min=1),
        metavar="N",
        help="Reject texts of fewer different features. [default: 2]",
    ),
    "bands": partial(
        click.option,
        "--bands",
        metavar="BxR",
        help="minhash: B bands of R slots, of which matches share one; auto: by --threshold. [default: 20x6]",
    ),
    "threshold": partial(
        click.option,
        "--threshold",
        type=_Threshold(0, 1, min_open=True),
        metavar="S",
        help="Least Jaccard similarity of a match; minhash also A-B, which is A for short texts, B for long "
        "ones, or auto (0.52-0.7). [default: 0.7, with --scheme minhash 0.8]",
    ),
    "verify": partial(
        click.option,
        "--verify/--no-verify",
        default=None,
        help="simhash: keep a sketch of each text, and verify matches by it. [default: verify]",
    ),
    "reach": partial(
        click.option,
        "--reach",
        type=click.IntRange(min=0),
        metavar="BITS",
        help="With --verify and --threshold: also match texts within so many bits that share a drawer. "
        "[default: 7]",
    ),
    "slots": partial(
        click.option,
        "--slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="Numbers that a sketch of a text has: more of them estimate similarities more exactly. "
        "[default: minhash 128, --verify 256]",
    ),
    "sketch_bits": partial(
        click.option,
        "--sketch-bits",
        type=click.Choice([str(bits) for bits in SKETCH_BITS]),
        callback=converted(int),
        help="Bits that are kept of each slot. [default: minhash 8, --verify 2]",
    ),
    "idf": partial(
        click.option,
        "--idf",
        type=_FILE,
        help="With --weights tfidf or levels: file of words and their IDF. [default: jieba's]",
    ),
    "stop_words": partial(
        click.option, "--stop-words", type=_FILE, help="File of words to leave out, one a line."
    ),
    "boilerplate": partial(
        click.option,
        "--boilerplate",
        type=_FILE,
        help="File of lines and phrases to leave out (simhbase idf learns it).",
    ),
}
_BITS = partial(
    click.option,
    "--bits",
    type=click.Choice([str(bits) for bits in BITS]),
    callback=converted(int),
    help="Length of a fingerprint. [default: 64]",
)


k_option = _K()


def profile_options(*shown: str) -> Callable[[Command], Command]:
    """Adds `--profile` and the options of single parameters of 64 bits, of which help shows the named ones
    alone; the command takes `chosen`, a ProfileOptions."""
    return _profile_options(_PROFILE, shown)


def profile_options_with_bits(*shown: str) -> Callable[[Command], Command]:
    """The same with `--bits`."""
    return _profile_options(_PROFILE | {"bits": _BITS}, shown)


ALL_PARAMETERS = tuple(_PROFILE)
profile_file_option = click.option(
    "--profile-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the profile here, as --profile takes it.",
)


def _profile_options(
    options: Mapping[str, Callable[..., Callable[[Command], Command]]], shown: Collection[str]
) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_profile(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in options}
            command(*args, chosen=ProfileOptions(_given(values)), **kwargs)

        decorated: Command = with_profile
        for name, option in reversed(list(options.items())):
            decorated = option(hidden=name not in ("profile", *shown))(decorated)
        return decorated

    return decorate


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a profile among the options: those named, and those of a preset or file."""
    given = {name: value for name, value in values.items() if value is not None}
    if "idf" in given:
        given["idf"] = read_table(given["idf"])
    if "boilerplate" in given:
        given["boilerplate"] = read_boilerplate(given["boilerplate"])
    if "stop_words" in given:
        given["stop_words"] = _read_words(given["stop_words"])
    profile, preset = given.pop("profile", None), given.pop("preset", None)
    if profile is not None and preset is not None:
        raise UsageError("--profile and --preset both say what to start from: give one of them")
    start = profile or preset
    return given if start is None else {**read_parameters(start), **given}


def _read_words(path: Path) -> frozenset[str]:
    return frozenset(normalise(decode(read_utf8(path, "file of stop words"))).split())
