"""Options that several commands share, each group as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from simhbase.boilerplate import read_boilerplate
from simhbase.errors import BadInput, TablesMissing, UsageError
from simhbase.features import WEIGHTS, FeatureOptions
from simhbase.filing import AUTO
from simhbase.idf import read_table
from simhbase.index import Index, open_index
from simhbase.layout import layout
from simhbase.minhash import BITS as SKETCH_BITS
from simhbase.profile import BITS, PRESETS, SCHEMES, Profile, make_profile
from simhbase.text import normalise

DEFAULT_STORE = "rocksdb:simhbase.db"
STORE_VARIABLE = "SIMHBASE_STORE"

Command = Callable[..., None]

store_option = click.option(
    "--store",
    "url",
    envvar=STORE_VARIABLE,
    default=DEFAULT_STORE,
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="The store: rocksdb:PATH, hbase://HOST:PORT/PREFIX or memory:",
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


@dataclass(frozen=True)
class ProfileOptions:
    """The parameters that were given on the command line, a preset's among them."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def profile(self) -> Profile:
        """A profile of them, with the defaults for the others. Raises UsageError."""
        return make_profile(self.given)

    def open_or_create(self, url: str) -> Index:
        """Opens a store for writing; one that is missing is created with this profile.

        Raises as `open`, but for TablesMissing.
        """
        try:
            return self.open(url)
        except TablesMissing:
            return open_index(url, create=self.profile())

    def open(self, url: str) -> Index:
        """Opens a store for writing. Raises ProfileMismatch where its profile has another value for
        what was given, and what `open_index` raises."""
        index = open_index(url)
        try:
            index.profile.require(self.given)
        except BaseException:
            index.close()
            raise
        return index


def min_similarity_option(text: str) -> Callable[[Command], Command]:
    """Adds `--min-similarity`, a Jaccard similarity; the command's help says of what."""
    return click.option("--min-similarity", type=click.FloatRange(0, 1), metavar="S", help=text)


class _Threshold(click.FloatRange):
    """A similarity, or auto."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == AUTO else super().convert(value, param, ctx)


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PROFILE = {
    "preset": click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        help="Parameters to start from: default (all words of two characters and more, by count), "
        "classic (the 64 heaviest words by TF-IDF) or short (texts of 140 characters and fewer, alone or "
        "among longer ones).",
    ),
    "scheme": click.option(
        "--scheme",
        type=click.Choice(list(SCHEMES)),
        help="How near texts are found: simhash (default) or minhash.",
    ),
    "layout": click.option(
        "--layout",
        callback=converted(lambda name: layout(name).name),
        help="Blocks that name the drawers: 5x2 (default), 4x1, 4x4, 6x3 or NxM.",
    ),
    "k": click.option(
        "-k", "k", type=click.IntRange(min=0), help="Bits in which near fingerprints differ at most (3)."
    ),
    "features": click.option(
        "--features",
        callback=converted(lambda kind: FeatureOptions(kind=kind).kind),
        help="words (default of simhash), words:N or chars:N for N-grams (chars:3 of minhash), or "
        "chars:auto for pairs of characters of short texts and triples of long ones.",
    ),
    "weights": click.option("--weights", type=click.Choice(WEIGHTS), help="What a word weighs (count)."),
    "top": click.option(
        "--top", type=click.IntRange(min=1), metavar="N", help="Take the N heaviest words only."
    ),
    "min_length": click.option(
        "--min-length", type=click.IntRange(min=1), metavar="N", help="Characters of a word at least (2)."
    ),
    "min_features": click.option(
        "--min-features",
        type=click.IntRange(min=1),
        metavar="N",
        help="Texts with fewer different features are rejected (2).",
    ),
    "bands": click.option(
        "--bands",
        metavar="BxR",
        help="minhash: near texts agree in one of B bands of R slots (20x6); auto: by --threshold.",
    ),
    "threshold": click.option(
        "--threshold",
        type=_Threshold(0, 1, min_open=True),
        metavar="S",
        help="Jaccard similarity from which texts are near (minhash 0.8, --verify none); auto: minhash, less "
        "for shorter texts.",
    ),
    "verify": click.option(
        "--verify",
        flag_value=True,
        default=None,
        help="simhash: keep a sketch of each text, which tells how similar matches are.",
    ),
    "slots": click.option(
        "--slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="Slots of a sketch (minhash 128, --verify 256).",
    ),
    "sketch_bits": click.option(
        "--sketch-bits",
        type=click.Choice([str(bits) for bits in SKETCH_BITS]),
        callback=converted(int),
        help="Bits of a slot (minhash 8, --verify 2).",
    ),
    "idf": click.option("--idf", type=_FILE, help="A file of words and their IDF instead of jieba's."),
    "stop_words": click.option("--stop-words", type=_FILE, help="A file of words to leave out, one a line."),
    "boilerplate": click.option(
        "--boilerplate", type=_FILE, help="A file of lines and phrases to leave out (simhbase idf learns it)."
    ),
}
_BITS = click.option(
    "--bits",
    type=click.Choice([str(bits) for bits in BITS]),
    callback=converted(int),
    help="Length of a fingerprint (64).",
)


def profile_options(command: Command) -> Command:
    """Adds the options of a profile of 64 bits; the command takes `chosen`, a ProfileOptions."""
    return _profile_options(_PROFILE)(command)


def profile_options_with_bits(command: Command) -> Command:
    """The same with `--bits`."""
    return _profile_options(_PROFILE | {"bits": _BITS})(command)


def _profile_options(options: Mapping[str, Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_profile(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in options}
            command(*args, chosen=ProfileOptions(_given(values)), **kwargs)

        decorated: Command = with_profile
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a profile among the options: those named, and those that a preset sets."""
    given = {name: value for name, value in values.items() if value is not None}
    if "idf" in given:
        given["idf"] = read_table(given["idf"])
    if "boilerplate" in given:
        given["boilerplate"] = read_boilerplate(given["boilerplate"])
    if "stop_words" in given:
        given["stop_words"] = _read_words(given["stop_words"])
    preset = given.pop("preset", None)
    return given if preset is None else _preset_parameters(preset) | given


def _preset_parameters(preset: str) -> dict[str, Any]:
    """What a preset says about every parameter that any preset sets and its scheme has."""
    parameters = make_profile({}, preset).parameters()
    names = {name for each in PRESETS.values() for name in each}
    return {name: parameters[name] for name in parameters if name in names}


def _read_words(path: Path) -> frozenset[str]:
    try:
        return frozenset(normalise(path.read_text("utf-8")).split())
    except UnicodeDecodeError as error:
        raise BadInput(f"--stop-words: {path} is not UTF-8 at byte {error.start}") from error
