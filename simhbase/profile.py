"""The profile: every parameter that a stored fingerprint depends on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from numbers import Real
from typing import Any, Protocol, cast

import orjson

from simhbase.drawers.bands import Bands, bands, bands_for
from simhbase.drawers.layout import Layout, layout, require_within_guarantee
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
# What threshold auto is, which stores have by that name, by the features, of which a sentence of 17
# characters has 48 or 16. Texts of one template and more than 140 characters are not parted from
# near-duplicates below 0.7.
RISING: Mapping[str, RisingThreshold] = {
    "chars:1-3": RisingThreshold(least=0.52, most=0.7, least_to=48),
    "chars:auto": RisingThreshold(least=0.5, most=0.7, least_to=16),
}
REACH = 7  # bits
PRESETS: Mapping[str, Mapping[str, object]] = {
    # Sketches make counts precise, which without them take texts that repeat one word for near
    # (docs/choosing.md). Of pairs that differ in 8 bits and more few share a drawer of 5x2.
    "default": {"weights": "capped", "verify": True, "threshold": 0.7, "reach": REACH},
    # 20 bands find 99.7 % of the pairs of 0.8 (1 - (1 - 0.8^6)^20), and estimates hardly take any away.
    "complete": {"scheme": "minhash", "threshold": 0.7},
    "classic": {"weights": "tfidf", "top": 64, "verify": False},
    # Sentences of 17 characters that differ in two have a similarity of 0.6, titles of one template often
    # have 0.5. Estimates stray by 0.03 where there are 256 slots, and by 0.04, which parts them less, where
    # there are 128. docs/quality.md has both measured.
    "short": {"scheme": "minhash", "threshold": "0.54-0.7", "slots": 256, **ALL_LENGTHS},
}


VERIFICATION: Mapping[str, object] = {
    "slots": 256,
    "sketch_bits": 2,
    "threshold": None,
    "reach": None,
    "same_numbers": False,
}
VERIFIED_BY = "chars:3"
PERMUTATIONS = "linear32+fmix32"
_DIGEST_SHOWN, _WORDS_SHOWN = 12, 5  # characters, words
_DIGEST_DIGITS = 16
_RISES = re.compile(r"(0?\.[0-9]+)-(0?\.[0-9]+|1(?:\.0+)?)")
_BAND_BITS = 16  # fewer name too few drawers to tell texts apart
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("scheme", "layout", "features", "weights", "bands", "tokenizer", "normalisation"), (str,)
    ),
    **dict.fromkeys(
        ("bits", "k", "top", "min_length", "min_features", "slots", "sketch_bits", "reach"), (int,)
    ),
    **dict.fromkeys(("verify", "same_numbers"), (bool,)),
    "threshold": (Real, str),
    "idf": (IdfTable,),
    "boilerplate": (Boilerplate,),
    "fold": (CharacterTable, str),
}
_OPTIONAL = frozenset(["top", "boilerplate", "idf", "fold", "tokenizer"])
_COMMON = frozenset(
    [
        *("scheme", "normalisation", "fold", "features", "min_length", "min_features", "stop_words"),
        *("boilerplate", "tokenizer"),
    ]
)
_REFILED = ("layout", "k", "reach", "bands", "threshold")  # fingerprints and sketches do not depend on them
_SCHEMES_OWN = frozenset(  # parameters that have a default of the scheme's, or do not apply to it
    [
        *("bits", "layout", "k", "reach", "features", "weights", "verify"),
        *("slots", "sketch_bits", "bands", "threshold", "same_numbers"),
    ]
)
_NAMES: Mapping[type, str] = {Real: "float"}
_ITS_SCHEMES: Any = None  # the default is the scheme's; None stays where the parameter does not apply


@dataclass(frozen=True)
class Profile:
    """Parameters of an index; see FeatureOptions for those of the features. What is left out is as SimHash
    was published; a new store that is given none of these has the preset `default`.

    k: the distance that lookups use unless told otherwise, at most the layout's guarantee; reach: within this
    distance a text that shares a drawer matches, too, if its sketch is similar enough; k where there is no
    such reach, and then the threshold may be None for any similarity; threshold: the similarity that they ask
    for unless told otherwise, with minhash also one that rises with the number of features, as "0.54-0.7" or
    AUTO; same_numbers: texts with different numbers do not match; min_features: a text with fewer distinct
    features has no fingerprint; normalisation: the form that texts are compared in, by its name; fold: "hant"
    where Traditional and Simplified Han are the same, "arabic" where spellings of Arabic are, of which the
    profile has the table; boilerplate: is left out of texts; idf: a user's table, or None for jieba's where
    the weights need one; tokenizer: what cuts text into words, with its version. That is a note about this
    machine or the store's creator: profiles that differ in nothing else are the same, and the fixed texts
    tell whether two versions cut alike.
    """

    scheme: str = "simhash"
    bits: int = _ITS_SCHEMES
    layout: str = _ITS_SCHEMES
    k: int = _ITS_SCHEMES
    features: str = _ITS_SCHEMES
    weights: str = _ITS_SCHEMES
    top: int | None = None
    min_length: int = 2
    min_features: int = 2
    stop_words: frozenset[str] = frozenset()
    boilerplate: Boilerplate | None = None
    idf: IdfTable | None = None
    verify: bool = _ITS_SCHEMES
    slots: int = _ITS_SCHEMES
    sketch_bits: int = _ITS_SCHEMES
    reach: int = _ITS_SCHEMES
    bands: str = _ITS_SCHEMES
    threshold: float | str = _ITS_SCHEMES
    same_numbers: bool = _ITS_SCHEMES
    normalisation: str = LATEST
    fold: CharacterTable | str | None = None
    tokenizer: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Raises UsageError for parameters that are unknown, of another type or do not go together."""
        self._require_types()
        object.__setattr__(self, "threshold", _spelled(self.threshold))
        if self.scheme not in SCHEMES:
            raise UsageError(f"must be one of {', '.join(SCHEMES)}, not {self.scheme!r}", parameter="scheme")
        scheme = SCHEMES[self.scheme]
        if isinstance(self.threshold, str) and self.scheme == "minhash":
            self._fill(ALL_LENGTHS)
        self._fill(scheme.defaults)
        if self.verify:
            self._fill(VERIFICATION)
        self._refuse_others()
        if self.min_features < 1:
            raise UsageError(f"must be at least 1, not {self.min_features}", parameter="min_features")
        if isinstance(self.fold, str):
            object.__setattr__(self, "fold", character_table(self.fold))
        words = (normalise(word, self.normal_form) for word in _several_words(self.stop_words))
        object.__setattr__(self, "stop_words", frozenset(words))
        scheme.complete(self)
        if self.tokenizer is None and self.features.startswith("words"):
            object.__setattr__(self, "tokenizer", f"{TOKENIZER} {version(TOKENIZER)}")
        _ = self.feature_options

    def _require_types(self) -> None:
        for name, types in _TYPES.items():
            value = getattr(self, name)
            if value is None and (name in _OPTIONAL or name in _SCHEMES_OWN):
                continue
            if not isinstance(value, types) or isinstance(value, bool) != (bool in types):
                wanted = " or ".join(_NAMES.get(each, each.__name__) for each in types)
                raise UsageError(f"must be {wanted}, not {value!r}", parameter=name)

    def _fill(self, defaults: Mapping[str, object]) -> None:
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _refuse_others(self) -> None:
        for each in fields(self):
            if each.name not in self._applicable and getattr(self, each.name) is not None:
                raise UsageError(f"does not apply to {self._kind}", parameter=each.name)

    @property
    def _applicable(self) -> frozenset[str]:
        """The names of the parameters that mean something here."""
        verification = VERIFICATION if self.verify else {}
        return _COMMON | SCHEMES[self.scheme].defaults.keys() | verification.keys()

    @property
    def _kind(self) -> str:
        return f"scheme {self.scheme}" + (" without verification" if self.verify is False else "")

    @property
    def drawers(self) -> Layout:
        """The layout itself, of the scheme simhash."""
        return layout(self.layout, self.bits)

    @property
    def fingerprint_bits(self) -> int:
        """Length of a fingerprint."""
        return self.bits or TABLE_BITS

    @property
    def sketching(self) -> SketchParameters | None:
        """What is kept of a text beside its fingerprint."""
        return _sketching(self) if self.slots else None

    @property
    def rising_threshold(self) -> RisingThreshold | None:
        """The threshold where it rises with the number of features, None where it is one number or none."""
        if not isinstance(self.threshold, str):
            return None
        of_features = RISING[self.features]
        if self.threshold == AUTO:
            return of_features
        least, most = map(float, self.threshold.split("-"))
        return replace(of_features, least=least, most=most)

    @property
    def index_scheme(self) -> Scheme:
        """How fingerprints are indexed and compared."""
        return SCHEMES[self.scheme].scheme(self)

    @property
    def normal_form(self) -> NormalForm:
        """The form that texts are compared in."""
        return NormalForm(self.normalisation, cast("CharacterTable | None", self.fold))

    @property
    def feature_options(self) -> FeatureOptions:
        """The part that the features depend on."""
        return FeatureOptions(
            kind=self.features,
            weights=self.weights or "count",
            top=self.top,
            min_length=self.min_length,
            stop_words=self.stop_words,
            idf=self.idf,
            boilerplate=self.boilerplate,
            form=self.normal_form,
        )

    def fingerprinter(self) -> Fingerprinter:
        """A new fingerprinter with these parameters."""
        hashing = SCHEMES[self.scheme].hashing(self)
        return Fingerprinter(self.feature_options, self.fingerprint_bits, self.min_features, hashing)

    @property
    def misses(self) -> str | None:
        """What lookups by this profile do not find, in words; None where that is hardly anything."""
        if self.scheme != "simhash":
            return None
        return (
            "this profile misses some near-duplicates, of short texts most; the profile complete finds "
            "nearly all that share 0.8 of their characters' triples, with twice the rows"
        )

    def parameters(self) -> dict[str, object]:
        """Every parameter that applies to the scheme, by its name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.compare and field.name in self._applicable
        }

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
        # Without a fold that there is none, as profiles had none before there was any.
        left_out = {"tokenizer"} if self.fold else {"tokenizer", "fold"}
        if self.reach == self.k:
            left_out.add("reach")
        if not self.same_numbers:
            left_out.add("same_numbers")
        described = {name: value for name, value in self.describe().items() if name not in left_out}
        content = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]

    @property
    def shingles(self) -> FeatureOptions:
        """The features whose sets tell how similar texts are."""
        return SCHEMES[self.scheme].shingles(self)

    def require_fits_tables(self) -> None:
        """Raises UsageError for fingerprints that tables cannot hold."""
        if self.fingerprint_bits != TABLE_BITS:
            raise UsageError(
                f"stores hold fingerprints of {TABLE_BITS} bits, not {self.bits}: use dedup or fingerprint",
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
            if self.verify and self.reach == self.k and "reach" not in given:
                chosen["reach"] = chosen["k"]
            profile = make_profile(chosen)
            if profile.sketching == self.sketching:
                return profile
            differences = [
                f"threshold is {self.threshold}, not {profile.threshold}, and sketches say how many features "
                "there are only where it rises with them"
            ]
        raise ProfileMismatch(
            f"different fingerprints or sketches take the texts again: {'; '.join(differences)}. Load the "
            f"texts into a new store (simhbase load). Without them {', '.join(_REFILED)} alone can change"
        )

    def _differences(self, given: Mapping[str, object]) -> list[str]:
        """What differs from parameters that were given, in words."""
        stored = self.parameters()
        wanted = {**given, "bands": self._named_bands(given["bands"])} if "bands" in given else dict(given)
        if "threshold" in wanted:
            wanted["threshold"] = _spelled(wanted["threshold"])
        if isinstance(self.fold, CharacterTable) and wanted.get("fold") == self.fold.name:
            wanted["fold"] = self.fold  # by its name, whatever version of the table is installed here
        return [
            f"{name} is {_in_words(stored[name])}, not {_in_words(value)}"
            if name in stored
            else f"{name} does not apply to {self._kind}"
            for name, value in wanted.items()
            if name not in stored or _described(stored[name]) != _described(value)
        ]

    def _named_bands(self, name: object) -> object:
        """The bands that `auto` stands for here, or the name itself."""
        if name != AUTO or self.threshold is None:
            return name
        return _bands_for(self).name


def _several_words(value: Iterable[str]) -> list[str]:
    words = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if isinstance(value, str) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"must be a set of words, not {value!r}", parameter="stop_words")
    return words


def make_profile(given: Mapping[str, object], preset: str = "default") -> Profile:
    """A profile of the parameters given, the preset's for the others (those of `default` are for SimHash that
    is verified). Raises UsageError."""
    _require_preset(preset)
    if unknown := given.keys() - {each.name for each in fields(Profile)}:
        raise UsageError(f"a profile has no parameter {min(unknown)!r}")
    start = dict(PRESETS[preset])
    if preset == "default":
        if given.get("scheme", "simhash") != "simhash" or given.get("verify") is False:
            start = {}
        elif isinstance(k := given.get("k"), int):
            start["reach"] = max(REACH, k)
        if given.get("features", "words") != "words":
            start.pop("weights", None)
    return Profile(**{**start, **given})  # type: ignore[arg-type]  # checked in __post_init__


def unverified(given: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters given, and for SimHash no sketches unless they are asked for: where fingerprints were
    made elsewhere, or texts are compared anyway. (Sketches tell numbers, too.)"""
    if given.get("scheme", "simhash") != "simhash":
        return given
    return {"verify": given.get("same_numbers", False), **given}


def for_corpora(given: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters given, and for others those that find most, where texts are compared exactly and nothing
    is stored: of the preset `complete`, or SimHash's where one of these is given."""
    if given.keys() & (SCHEMES["simhash"].defaults.keys() - {"features"}):
        return unverified(given)
    return {**(PRESETS["complete"] if "scheme" not in given else {}), **given}


def _require_preset(preset: object) -> None:
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UsageError(f"no preset {preset!r}: use {', '.join(PRESETS)}")


def preset_parameters(preset: str) -> dict[str, object]:
    """What a preset says about every parameter that any preset sets and its scheme has."""
    parameters = make_profile({}, preset).parameters()
    names = {name for each in PRESETS.values() for name in each}
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


class SchemeDefinition(Protocol):
    """What differs between schemes.

    defaults: of the parameters that apply to it alone, or whose default is its own.
    """

    defaults: Mapping[str, object]

    def complete(self, profile: Profile) -> None:
        """Fills in what follows from other parameters. Raises UsageError where they do not go together."""

    def scheme(self, profile: Profile) -> Scheme:
        """Which drawers fingerprints are in, and which match."""

    def hashing(self, profile: Profile) -> Hashing: ...

    def shingles(self, profile: Profile) -> FeatureOptions: ...


class SimHashDefinition:
    defaults: Mapping[str, object] = {
        "bits": 64,
        "layout": "5x2",
        "k": 3,
        "features": "words",
        "weights": None,
        "top": None,
        "idf": None,
        "verify": False,
    }

    def complete(self, profile: Profile) -> None:
        if profile.bits not in BITS:
            raise UsageError(f"must be 64 or 128, not {profile.bits}", parameter="bits")
        require_within_guarantee(profile.k, profile.drawers)
        if profile.top is not None and profile.top < profile.min_features:
            raise UsageError(
                f"{profile.top} with min_features={profile.min_features} would reject every text",
                parameter="top",
            )
        if profile.weights is None:
            object.__setattr__(profile, "weights", "saturated" if profile.features == "words" else "count")
        if profile.weights in BY_IDF and profile.idf is None:
            object.__setattr__(profile, "idf", jieba_table())
        if profile.verify:
            _ = _sketching(profile)
            _complete_reach(profile)
        if profile.threshold is not None:
            _require_similarity(profile.threshold)

    def scheme(self, profile: Profile) -> Scheme:
        threshold = cast("float | None", profile.threshold)
        return SimHashScheme(profile.drawers, profile.k, profile.sketching, threshold, profile.reach or 0)

    def hashing(self, profile: Profile) -> Hashing:
        if profile.sketching is None:
            return simhash_alone
        return SimHashVerified(profile.sketching, Extractor(profile.shingles, TABLE_BITS))

    def shingles(self, profile: Profile) -> FeatureOptions:
        """The same for all: words tell too little of short texts."""
        return FeatureOptions(kind=VERIFIED_BY, boilerplate=profile.boilerplate, form=profile.normal_form)


class MinHashDefinition:
    defaults: Mapping[str, object] = {
        "features": "chars:3",
        "slots": 128,
        "sketch_bits": 8,
        "bands": "20x6",
        "threshold": 0.8,
        "same_numbers": False,
    }

    def complete(self, profile: Profile) -> None:
        sketching = _sketching(profile)
        if not rises(profile.threshold):
            _require_similarity(profile.threshold)
        elif profile.features not in RISING:
            raise UsageError(
                f"{profile.threshold} goes with features {' or '.join(RISING)}, not {profile.features}: it "
                "depends on how many of those a text has",
                parameter="threshold",
            )
        if profile.bands == AUTO:
            object.__setattr__(profile, "bands", _bands_for(profile).name)
        chosen = bands(profile.bands)
        if chosen.slots > sketching.slots:
            raise UsageError(
                f"{chosen.name} takes {chosen.slots} slots, and there are {sketching.slots}",
                parameter="bands",
            )
        if chosen.rows * sketching.bits < _BAND_BITS:
            raise UsageError(
                f"{chosen.name} of slots of {sketching.bits} bits tell too little apart: use longer "
                "bands, or more sketch_bits",
                parameter="bands",
            )

    def scheme(self, profile: Profile) -> Scheme:
        threshold = profile.rising_threshold or cast(float, profile.threshold)
        return MinHashScheme(bands(profile.bands), _sketching(profile), threshold)

    def hashing(self, profile: Profile) -> Hashing:
        return MinHash(_sketching(profile), profile.feature_options)

    def shingles(self, profile: Profile) -> FeatureOptions:
        return profile.feature_options


SCHEMES: Mapping[str, SchemeDefinition] = {"simhash": SimHashDefinition(), "minhash": MinHashDefinition()}


def _sketching(profile: Profile) -> SketchParameters:
    return SketchParameters(
        profile.slots,
        profile.sketch_bits,
        sized=isinstance(profile.threshold, str),
        numbered=profile.same_numbers,
    )


def _complete_reach(profile: Profile) -> None:
    if profile.reach is None:
        object.__setattr__(profile, "reach", profile.k)
    if not profile.k <= profile.reach < profile.bits // 2:
        raise UsageError(
            f"must be {profile.k} (k, the default) to {profile.bits // 2 - 1} bits, not {profile.reach}",
            parameter="reach",
        )
    if profile.reach > profile.k and profile.threshold is None:
        raise UsageError(
            "beyond k only similarity tells texts apart: set a threshold, such as 0.7", parameter="reach"
        )


def _bands_for(profile: Profile) -> Bands:
    """The bands that find what is near by the threshold, by its least value where there are several."""
    rising = profile.rising_threshold
    return bands_for(rising.least if rising else cast(float, profile.threshold), profile.slots)


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
