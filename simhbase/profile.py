"""The profile: every parameter that a stored fingerprint depends on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from numbers import Real
from typing import Any, ClassVar, Self, cast, get_args, get_type_hints

import orjson

from simhbase.drawers.bands import bands, bands_for
from simhbase.drawers.layout import layout, require_within_guarantee
from simhbase.drawers.scheme import (
    AUTO,
    MinHashScheme,
    RisingThreshold,
    Scheme,
    SimHashScheme,
)
from simhbase.errors import ProfileMismatch, UsageError
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import (
    Fingerprinter,
    Hashing,
    MinHash,
    SimHashVerified,
    simhash_alone,
)
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.features import BY_IDF, Extractor, FeatureOptions
from simhbase.text.idf import JIEBA, IdfTable, jieba_table
from simhbase.text.normalise import LATEST, NormalForm, normalise
from simhbase.text.userfile import NamedContent
from simhbase.text.variants import CharacterTable, character_table

BITS = (64, 128)
TABLE_BITS = 64
TOKENIZER = "rjieba"
# What rising thresholds are made for: 32 bands of 4 slots find what they keep of short texts
# (docs/quality.md).
ALL_LENGTHS: Mapping[str, object] = {"features": "chars:1-3", "bands": "32x4"}
_FIXED: Mapping[str, object] = {"features": "chars:3", "bands": "20x6"}
# What threshold auto is, which stores have by that name, by the features, of which a sentence of 17
# characters has 48 or 16. Texts of one template and more than 140 characters are not parted from
# near-duplicates below 0.7.
RISING: Mapping[str, RisingThreshold] = {
    "chars:1-3": RisingThreshold(least=0.52, most=0.7, least_to=48),
    "chars:auto": RisingThreshold(least=0.5, most=0.7, least_to=16),
}
REACH = 7  # bits: of pairs that differ in 8 and more few share a drawer of 5x2
PRESETS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    # 20 bands find 99.7 % of the pairs of 0.8 (1 - (1 - 0.8^6)^20), and estimates hardly take any away.
    "complete": {"scheme": "minhash", "threshold": 0.7},
    "classic": {"weights": "tfidf", "top": 64, "verify": False},
    # Sentences of 17 characters that differ in two have a similarity of 0.6, titles of one template often
    # have 0.5. Estimates stray by 0.03 where there are 256 slots, and by 0.04, which parts them less, where
    # there are 128. docs/quality.md has both measured.
    "short": {"scheme": "minhash", "threshold": "0.54-0.7", "slots": 256, **ALL_LENGTHS},
}

VERIFIED_BY = "chars:3"
PERMUTATIONS = "linear32+fmix32"
_DIGEST_SHOWN, _WORDS_SHOWN = 12, 5  # characters, words
_DIGEST_DIGITS = 16
_RISES = re.compile(r"(0?\.[0-9]+)-(0?\.[0-9]+|1(?:\.0+)?)")
_BAND_BITS = 16  # fewer name too few drawers to tell texts apart
_REFILED = ("layout", "k", "reach", "bands", "threshold")  # fingerprints and sketches do not depend on them
_BY_OTHERS: Any = None  # the default depends on other parameters


@dataclass(frozen=True, kw_only=True, init=False)
class Profile:
    """Parameters of an index: by the scheme and `verify` one of the classes below, which have those of their
    own. `Profile()` is the default of a new store.

    All: min_length: ignore shorter words; min_features: a text with fewer distinct features has no
    fingerprint; stop_words, boilerplate: are left out; normalisation: the form that texts are compared in, by
    its name; fold: "hant" where Traditional and Simplified Han are the same, "arabic" where spellings of
    Arabic are, of which the profile has the table; tokenizer: what cuts text into words, with its version.
    That is a note about this machine or the store's creator: profiles that differ in nothing else are the
    same, and the fixed texts tell whether two versions cut alike.

    SimHash: bits, layout, features, weights, top: see FeatureOptions; k: the distance that lookups use unless
    told otherwise, at most the layout's guarantee; idf: a user's table, or None for jieba's where the weights
    need one; verify: whether sketches of the texts verify matches. With these: slots and sketch_bits of a
    sketch; threshold: the similarity that lookups ask for unless told otherwise, None for any; reach: within
    this distance a text that shares a drawer matches, too, if its sketch is similar enough; same_numbers:
    texts with different numbers do not match.

    scheme="minhash": features, slots, sketch_bits, same_numbers; bands of slots that name drawers; threshold:
    the similarity, or one that rises with the number of features, as "0.54-0.7" or AUTO.
    """

    kind: ClassVar[str]  # the class, in words

    scheme: str = "simhash"
    features: str = "words"
    min_length: int = 2
    min_features: int = 2
    stop_words: frozenset[str] = frozenset()
    boilerplate: Boilerplate | None = None
    normalisation: str = LATEST
    fold: CharacterTable | str | None = None
    tokenizer: str | None = field(default=None, compare=False)

    def __new__(cls, **parameters: Any) -> Self:
        """Raises UsageError for parameters that are unknown or do not apply."""
        if cls is not Profile:
            return object.__new__(cls)
        chosen = _class_of(parameters)
        for name in parameters.keys() - _types(chosen).keys():
            if name not in NAMES:
                raise UsageError(f"a profile has no parameter {name!r}")
            raise UsageError(f"does not apply to {chosen.kind}", parameter=name)
        return cast(Self, object.__new__(chosen))

    def __post_init__(self) -> None:
        """Raises UsageError for parameters of another type, or that do not go together."""
        self._require_types()
        if self.min_features < 1:
            raise UsageError(f"must be at least 1, not {self.min_features}", parameter="min_features")
        if isinstance(self.fold, str):
            self._set(fold=character_table(self.fold))
        words = (normalise(word, self.normal_form) for word in _several_words(self.stop_words))
        self._set(stop_words=frozenset(words))
        self._complete()
        if self.tokenizer is None and self.features.startswith("words"):
            self._set(tokenizer=f"{TOKENIZER} {version(TOKENIZER)}")
        _ = self.feature_options

    def _require_types(self) -> None:
        defaults = {each.name: each.default for each in fields(self)}
        for name, types in _types(type(self)).items():
            value = getattr(self, name)
            if name == "stop_words" or (value is None and defaults[name] is None):
                continue
            if not isinstance(value, types) or isinstance(value, bool) != (bool in types):
                wanted = " or ".join(
                    "float" if each is Real else each.__name__ for each in types if each is not type(None)
                )
                raise UsageError(f"must be {wanted}, not {value!r}", parameter=name)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _complete(self) -> None:
        """Fills in what follows from other parameters. Raises UsageError where they do not go together."""
        raise NotImplementedError

    @property
    def index_scheme(self) -> Scheme:
        """How fingerprints are indexed and compared."""
        raise NotImplementedError

    @property
    def _hashing(self) -> Hashing:
        raise NotImplementedError

    @property
    def shingles(self) -> FeatureOptions:
        """The features whose sets tell how similar texts are."""
        return self.feature_options

    @property
    def fingerprint_bits(self) -> int:
        """Length of a fingerprint."""
        return TABLE_BITS

    @property
    def sketching(self) -> SketchParameters | None:
        """What is kept of a text beside its fingerprint."""
        return None

    @property
    def misses(self) -> str | None:
        """What lookups by this profile do not find, in words; None where that is hardly anything."""
        return None

    @property
    def normal_form(self) -> NormalForm:
        """The form that texts are compared in."""
        return NormalForm(self.normalisation, cast("CharacterTable | None", self.fold))

    @property
    def feature_options(self) -> FeatureOptions:
        """The part that the features depend on."""
        return FeatureOptions(
            kind=self.features,
            min_length=self.min_length,
            stop_words=self.stop_words,
            boilerplate=self.boilerplate,
            form=self.normal_form,
        )

    def fingerprinter(self) -> Fingerprinter:
        """A new fingerprinter with these parameters."""
        return Fingerprinter(self.feature_options, self.fingerprint_bits, self.min_features, self._hashing)

    def parameters(self) -> dict[str, object]:
        """Every parameter by its name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def describe(self) -> dict[str, object]:
        """Every parameter by name, as JSON values; the IDF table by source and digest."""
        described = {name: _described(value) for name, value in self.parameters().items()}
        return described | {
            "hash": self.feature_options.hash,
            "tokenizer": self.tokenizer,
            **({"permutations": PERMUTATIONS, "shingles": self.shingles.kind} if self.sketching else {}),
        }

    @property
    def digest(self) -> str:
        """16 hexadecimal digits, the same for the same profiles: of what `describe` says, without the version
        of the tokenizer."""
        # What profiles did not have when there was no such parameter is left out where it changes nothing.
        described = self.describe()
        left_out = {"tokenizer"} if self.fold else {"tokenizer", "fold"}
        if described.get("reach") == described.get("k"):
            left_out.add("reach")
        if not described.get("same_numbers"):
            left_out.add("same_numbers")
        content = orjson.dumps(
            {name: value for name, value in described.items() if name not in left_out},
            option=orjson.OPT_SORT_KEYS,
        )
        return hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]

    def require_fits_tables(self) -> None:
        """Raises UsageError for fingerprints that tables cannot hold."""
        if self.fingerprint_bits != TABLE_BITS:
            raise UsageError(
                f"stores hold fingerprints of {TABLE_BITS} bits, not {self.fingerprint_bits}: use dedup or "
                "fingerprint",
                parameter="bits",
            )

    def require(self, given: Mapping[str, object]) -> None:
        """Raises ProfileMismatch where a parameter that was given differs from this profile's."""
        if differences := self._differences(given):
            raise ProfileMismatch(
                f"the store's profile differs from what was asked for: {'; '.join(differences)}. "
                "Leave it out to use the store's, or create another store."
            )

    def refiled(self, given: Mapping[str, object]) -> Profile:
        """The profile with other parameters that neither fingerprints nor sketches depend on, of those given.

        Raises ProfileMismatch where others differ, UsageError for what does not go together.
        """
        differences = self._differences({name: each for name, each in given.items() if name not in _REFILED})
        if not differences:
            chosen = {**self.parameters(), "tokenizer": self.tokenizer, **given}
            if "reach" not in given and "reach" in chosen and chosen["reach"] == self.parameters()["k"]:
                chosen["reach"] = chosen["k"]
            profile = make_profile(chosen)
            if profile.sketching == self.sketching:
                return profile
            differences = [
                f"threshold is {self.parameters()['threshold']}, not {chosen['threshold']}, and sketches say "
                "how many features there are only where it rises with them"
            ]
        raise ProfileMismatch(
            f"different fingerprints or sketches take the texts again: {'; '.join(differences)}. Load the "
            f"texts into a new store (simhbase load). Without them {', '.join(_REFILED)} alone can change"
        )

    def _differences(self, given: Mapping[str, object]) -> list[str]:
        """What differs from parameters that were given, in words."""
        stored = self.parameters()
        wanted = self._spelled(given)
        if isinstance(self.fold, CharacterTable) and wanted.get("fold") == self.fold.name:
            wanted["fold"] = self.fold  # by its name, whatever version of the table is installed here
        return [
            f"{name} is {_in_words(stored[name])}, not {_in_words(value)}"
            if name in stored
            else f"{name} does not apply to {self.kind}"
            for name, value in wanted.items()
            if name not in stored or _described(stored[name]) != _described(value)
        ]

    def _spelled(self, given: Mapping[str, object]) -> dict[str, object]:
        """Parameters in the spelling of this profile's."""
        return dict(given)


@dataclass(frozen=True, kw_only=True)
class SimHashProfile(Profile):
    kind: ClassVar[str] = "scheme simhash without verification"

    bits: int = TABLE_BITS
    layout: str = "5x2"
    k: int = 3
    weights: str = _BY_OTHERS
    top: int | None = None
    idf: IdfTable | None = None
    verify: bool = False

    def _complete(self) -> None:
        if self.bits not in BITS:
            raise UsageError(f"must be 64 or 128, not {self.bits}", parameter="bits")
        require_within_guarantee(self.k, layout(self.layout, self.bits))
        if self.top is not None and self.top < self.min_features:
            raise UsageError(
                f"{self.top} with min_features={self.min_features} would reject every text", parameter="top"
            )
        if self.weights is None:
            # Sketches make counts precise, which without them take texts that repeat one word for near
            # (docs/choosing.md).
            of_words = "capped" if self.verify else "saturated"
            self._set(weights=of_words if self.features == "words" else "count")
        if self.weights in BY_IDF and self.idf is None:
            self._set(idf=jieba_table())

    @property
    def index_scheme(self) -> Scheme:
        return SimHashScheme(layout(self.layout, self.bits), self.k)

    @property
    def _hashing(self) -> Hashing:
        return simhash_alone

    @property
    def shingles(self) -> FeatureOptions:
        """The same for all: words tell too little of short texts."""
        return FeatureOptions(kind=VERIFIED_BY, boilerplate=self.boilerplate, form=self.normal_form)

    @property
    def fingerprint_bits(self) -> int:
        return self.bits

    @property
    def misses(self) -> str:
        return (
            "this profile misses some near-duplicates, of short texts most; the profile complete finds "
            "nearly all that share 0.8 of their characters' triples, with twice the rows"
        )

    @property
    def feature_options(self) -> FeatureOptions:
        return replace(super().feature_options, weights=self.weights, top=self.top, idf=self.idf)


@dataclass(frozen=True, kw_only=True)
class VerifiedProfile(SimHashProfile):
    kind: ClassVar[str] = "scheme simhash"

    verify: bool = True
    slots: int = 256
    sketch_bits: int = 2
    threshold: float | str | None = 0.7
    reach: int = _BY_OTHERS
    same_numbers: bool = False

    def _complete(self) -> None:
        super()._complete()
        if self.reach is None:
            self._set(reach=max(REACH, self.k))
        if not self.k <= self.reach < self.bits // 2:
            raise UsageError(
                f"must be {self.k} (k) to {self.bits // 2 - 1} bits, not {self.reach}", parameter="reach"
            )
        if self.threshold is not None:
            _require_similarity(self.threshold)
        elif self.reach > self.k:
            raise UsageError(
                "beyond k only similarity tells texts apart: set a threshold, such as 0.7", parameter="reach"
            )
        _ = self.sketching

    @property
    def index_scheme(self) -> Scheme:
        threshold = cast("float | None", self.threshold)
        return SimHashScheme(layout(self.layout, self.bits), self.k, self.sketching, threshold, self.reach)

    @property
    def sketching(self) -> SketchParameters:
        return SketchParameters(self.slots, self.sketch_bits, numbered=self.same_numbers)

    @property
    def _hashing(self) -> Hashing:
        return SimHashVerified(self.sketching, Extractor(self.shingles, TABLE_BITS))


@dataclass(frozen=True, kw_only=True)
class MinHashProfile(Profile):
    kind: ClassVar[str] = "scheme minhash"

    scheme: str = "minhash"
    features: str = _BY_OTHERS
    slots: int = 128
    sketch_bits: int = 8
    bands: str = _BY_OTHERS
    threshold: float | str = 0.8
    same_numbers: bool = False

    def _complete(self) -> None:
        self._set(threshold=_spelled(self.threshold))
        defaults = ALL_LENGTHS if isinstance(self.threshold, str) else _FIXED
        self._set(**{name: getattr(self, name) or value for name, value in defaults.items()})
        if not rises(self.threshold):
            _require_similarity(self.threshold)
        elif self.features not in RISING:
            raise UsageError(
                f"{self.threshold} goes with features {' or '.join(RISING)}, not {self.features}: it "
                "depends on how many of those a text has",
                parameter="threshold",
            )
        if self.bands == AUTO:
            self._set(bands=self._bands_by_threshold)
        chosen = bands(self.bands)
        if chosen.slots > self.slots:
            raise UsageError(
                f"{chosen.name} takes {chosen.slots} slots, and there are {self.slots}", parameter="bands"
            )
        if chosen.rows * self.sketching.bits < _BAND_BITS:
            raise UsageError(
                f"{chosen.name} of slots of {self.sketch_bits} bits tell too little apart: use longer "
                "bands, or more sketch_bits",
                parameter="bands",
            )

    @property
    def _bands_by_threshold(self) -> str:
        """Those that find what is near by the threshold, by its least value where there are several."""
        threshold = self._threshold
        least = threshold.least if isinstance(threshold, RisingThreshold) else threshold
        return bands_for(least, self.slots).name

    @property
    def _threshold(self) -> float | RisingThreshold:
        if not isinstance(self.threshold, str):
            return self.threshold
        of_features = RISING[self.features]
        if self.threshold == AUTO:
            return of_features
        least, most = map(float, self.threshold.split("-"))
        return replace(of_features, least=least, most=most)

    @property
    def index_scheme(self) -> Scheme:
        return MinHashScheme(bands(self.bands), self.sketching, self._threshold)

    @property
    def sketching(self) -> SketchParameters:
        sized = isinstance(self.threshold, str)
        return SketchParameters(self.slots, self.sketch_bits, sized=sized, numbered=self.same_numbers)

    @property
    def _hashing(self) -> Hashing:
        return MinHash(self.sketching, self.feature_options)

    def _spelled(self, given: Mapping[str, object]) -> dict[str, object]:
        """With the bands that `auto` stands for."""
        named = {"threshold": _spelled(given.get("threshold")), "bands": given.get("bands")}
        if named["bands"] == AUTO:
            named["bands"] = self._bands_by_threshold
        return {name: named.get(name, value) for name, value in given.items()}


def _class_of(parameters: Mapping[str, object]) -> type[Profile]:
    match parameters.get("scheme", "simhash"):
        case "simhash":
            return SimHashProfile if parameters.get("verify") is False else VerifiedProfile
        case "minhash":
            return MinHashProfile
        case other:
            raise UsageError(f"must be one of simhash, minhash, not {other!r}", parameter="scheme")


def _types(of: type[Profile]) -> Mapping[str, tuple[type, ...]]:
    """Of each parameter, by its name."""
    hints = get_type_hints(of)
    members = {each.name: get_args(hints[each.name]) or (hints[each.name],) for each in fields(of)}
    return {name: tuple(Real if each is float else each for each in types) for name, types in members.items()}


# Parameters of any profile; the tokenizer is a note.
_FIELDS = (*fields(VerifiedProfile), *fields(MinHashProfile))
NAMES = tuple(dict.fromkeys(each.name for each in _FIELDS if each.compare))


def _several_words(value: Iterable[str]) -> list[str]:
    words = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if isinstance(value, str) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"must be a set of words, not {value!r}", parameter="stop_words")
    return words


def make_profile(given: Mapping[str, object], preset: str = "default") -> Profile:
    """A profile of the parameters given, the preset's for the others. None leaves one out, but for a
    threshold. Raises UsageError."""
    _require_preset(preset)
    chosen = {**PRESETS[preset], **given}
    return Profile(
        **{name: value for name, value in chosen.items() if value is not None or name == "threshold"}
    )


def unverified(given: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters given, and for SimHash no sketches unless they are asked for: where fingerprints were
    made elsewhere, or texts are compared anyway. (Sketches tell numbers, too.)"""
    if given.get("scheme", "simhash") != "simhash":
        return given
    return {"verify": given.get("same_numbers", False), **given}


def for_corpora(given: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters given, and for others those that find most, where texts are compared exactly and nothing
    is stored: of the preset `complete`, or SimHash's where one of these is given."""
    if given.keys() & (_types(SimHashProfile).keys() - _types(MinHashProfile).keys()):
        return unverified(given)
    return {**(PRESETS["complete"] if "scheme" not in given else {}), **given}


def _require_preset(preset: object) -> None:
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UsageError(f"no preset {preset!r}: use {', '.join(PRESETS)}")


def preset_parameters(preset: str) -> dict[str, object]:
    """What a preset says about every parameter of its scheme that any preset decides."""
    parameters = make_profile({}, preset).parameters()
    names = {"reach", *(name for each in PRESETS.values() for name in each)}
    return {name: parameters[name] for name in parameters if name in names}


def given_parameters(profile: Profile | Mapping[str, object] | str | None) -> Mapping[str, object]:
    """The parameters that somebody gives by a whole profile, by name (of which `preset` stands for several),
    by a preset's name, or not at all. Raises UsageError for anything else."""
    if isinstance(profile, Profile):
        return profile.parameters()
    if isinstance(profile, str):
        return preset_parameters(profile)
    if profile is not None and not isinstance(profile, Mapping):
        raise UsageError(
            f"profile = {profile!r}: a Profile is needed, or some of its parameters by name as {{'k': 2}}"
        )
    if not profile or "preset" not in profile:
        return profile or {}
    _require_preset(profile["preset"])
    others = {name: value for name, value in profile.items() if name != "preset"}
    return {**preset_parameters(str(profile["preset"])), **others}


def _described(value: object) -> object:
    if isinstance(value, IdfTable):
        return {"source": value.source, "digest": value.digest}
    if isinstance(value, CharacterTable):
        return {"name": value.name, "digest": value.digest}
    if isinstance(value, Boilerplate):
        return {"lines": value.count("line"), "phrases": value.count("phrase"), "digest": value.digest}
    return sorted(value) if isinstance(value, frozenset) else value


def _in_words(value: object) -> str:
    match value:
        case IdfTable() if value.source == JIEBA:
            return "jieba's table"
        case IdfTable():
            return f"a file of {_counted(len(value.weights), 'word')} ({_digest(value)})"
        case CharacterTable():
            return f"{value.name} ({_digest(value)})"
        case Boilerplate():
            lines, phrases = (_counted(value.count(kind), kind) for kind in ("line", "phrase"))
            return f"a file of {lines} and {phrases} ({_digest(value)})"
        case frozenset() | set() | list() | tuple():
            words = sorted(value)
            shown = ", ".join([*words[:_WORDS_SHOWN], *["..."][: len(words) > _WORDS_SHOWN]])
            return f"{_counted(len(words), 'word')} ({shown})" if words else "none"
        case None | False:
            return "none" if value is None else "off"
        case True:
            return "on"
        case _:
            return str(value)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _digest(file: NamedContent) -> str:
    return f"SHA-256 {file.digest[:_DIGEST_SHOWN]}..."


def rises(threshold: float | str) -> bool:
    """Whether a threshold rises with the number of features: AUTO, or two similarities, the lesser first."""
    return threshold == AUTO or _two_similarities(threshold) is not None


def _two_similarities(threshold: object) -> tuple[float, float] | None:
    found = _RISES.fullmatch(threshold) if isinstance(threshold, str) else None
    if found is None or not 0 < float(found[1]) <= float(found[2]):
        return None
    return float(found[1]), float(found[2])


def _spelled(threshold: Any) -> Any:
    """A threshold in the one spelling of its similarities."""
    both = _two_similarities(threshold)
    return threshold if both is None else "{:g}-{:g}".format(*both)


def _require_similarity(threshold: float | str) -> None:
    if isinstance(threshold, str) or not 0 < threshold <= 1:
        raise UsageError(
            "must be a Jaccard similarity above 0, up to 1 (with scheme minhash also two, for short and for "
            f"long texts, as 0.54-0.7, or {AUTO}), not {threshold}",
            parameter="threshold",
        )
