"""The profile: every parameter that a stored fingerprint depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, get_args, get_type_hints

from simhbase.drawers.bands import bands, bands_for
from simhbase.drawers.layout import layout, require_within_guarantee
from simhbase.drawers.threshold import RisingThreshold
from simhbase.errors import ProfileMismatch, UsageError
from simhbase.fingerprint.minhash import SLOTS, SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.model.thresholds import SIMILAR
from simhbase.model.urls import redacted
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.content import NamedContent
from simhbase.text.features import BY_IDF, SHINGLES, UP_TO_TRIPLES, FeatureOptions
from simhbase.text.idf import JIEBA, IdfTable, jieba_table
from simhbase.text.normalise import NORMALISATION, normalise
from simhbase.text.packages import package_version
from simhbase.text.variants import CharacterTable, character_table

if TYPE_CHECKING:
    from simhbase.drawers.scheme import Scheme

BITS = (64, 128)
TABLE_BITS = 64
TOKENIZER = "jieba"
AUTO = "auto"  # bands: chosen by the threshold
SHORT = 140  # characters of a text of which the profile default misses most near-duplicates
# For rising thresholds: 32 bands of 4 slots find the short near-duplicates that these accept
# (docs/quality.md).
ALL_LENGTHS: Mapping[str, object] = {"features": UP_TO_TRIPLES, "bands": "32x4"}
BANDS = "20x5"
CORPUS_SLOTS = 128  # where texts are compared exactly, and sketches only choose which
_FIXED: Mapping[str, object] = {"features": SHINGLES, "bands": BANDS}
RISES_FROM = 48  # features, those (chars:1-3) of a sentence of 17 characters
REACH = 7  # bits: few pairs that differ in 8 or more share a drawer of 5x2
PRESETS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    # 20 bands find 92 % of the pairs with similarity 0.65, and 97 % with 0.7: 1 - (1 - 0.7^5)^20. The other
    # 156 of the 256 slots only make the estimate better: with 128, of what is found in laws, source code and
    # manuals 4 to 6 % would have less than 0.6, or a quarter of the pairs just above the threshold be lost.
    "complete": {"scheme": "minhash", "threshold": SIMILAR},
    "classic": {"weights": "tfidf", "top": 64, "verify": False},
    # Sentences of 17 characters that differ in two have a similarity of 0.6; titles from one template often
    # have 0.5. The standard error of estimates is 0.03 with 256 slots, and 0.04 with 128, which separates
    # these less well. Below 0.7, texts of more than 140 characters made from one template look like
    # near-duplicates (measured in docs/quality.md).
    "short": {"scheme": "minhash", "threshold": "0.54-0.7", **ALL_LENGTHS},
}

CORPUS: Mapping[str, object] = {**PRESETS["complete"], "slots": CORPUS_SLOTS}
PERMUTATIONS = "linear32+fmix32"
_LARGEST = (1 << 63) - 1  # of integers, which the core holds in 64 bits
_DIGEST_SHOWN, _WORDS_SHOWN = 12, 5  # characters, words
_DIGEST_DIGITS = 16
_TYPE_NAMES = {
    bool: "true or false",
    int: "an integer",
    Real: "a number",
    str: "a string",
    type(None): "null",
}
_RISES = re.compile(r"(0?\.[0-9]+)-(0?\.[0-9]+|1(?:\.0+)?)")
_BAND_BITS = 16  # shorter bands have too few distinct drawers to separate texts
_INDEX_ONLY = (
    "layout",
    "k",
    "reach",
    "bands",
    "threshold",
)  # fingerprints and sketches do not depend on them
_DERIVED: Any = None  # the default depends on other parameters


@dataclass(frozen=True, kw_only=True, init=False)
class Profile:
    """Parameters of an index. `Profile()` is the default of a new store. Creates an instance of one of the
    subclasses below, chosen by `scheme` and `verify`, which add parameters.

    All profiles: min_length: ignore shorter words; min_features: a text with fewer distinct features has no
    fingerprint; stop_words, boilerplate: ignored; fold: "hant" treats Traditional and Simplified Han as
    equal, "arabic" spelling variants of Arabic (the profile holds the table); tokenizer: name and version of
    the word segmenter. The tokenizer is only a note about this machine or the store's creator and does not
    count in comparisons of profiles: the check of fixed texts finds versions that cut words differently.

    scheme="simhash": bits, layout, features, weights, top: see FeatureOptions; k: default distance of
    lookups in bits, at most what the layout guarantees; idf: a user's table, None for jieba's where the
    weights need one; verify: verify matches by sketches of the texts. With verify: slots and sketch_bits of a
    sketch; threshold: default similarity of lookups, None for any; reach: a text in a shared drawer also
    matches up to this distance in bits, if its sketch is similar enough; same_numbers: texts with different
    numbers do not match.

    scheme="minhash": features, slots, sketch_bits, same_numbers; bands: groups of slots that name drawers;
    threshold: a similarity, or two such as "0.54-0.7" between which it rises with the number of features.

    What follows from the parameters: variants: the table of characters that count as equal; feature_options:
    the parameters that features depend on; sketching: those of the sketches stored beside fingerprints, None
    if there are none; rules: of sketches, beside the parameters.
    """

    kind: ClassVar[str]  # description for messages
    bits = TABLE_BITS  # of a fingerprint: a parameter of SimHash only
    misses: ClassVar[str | None] = None  # a sentence on what lookups miss

    scheme: str = "simhash"
    features: str = "words"
    min_length: int = 2
    min_features: int = 2
    stop_words: frozenset[str] = frozenset()
    boilerplate: Boilerplate | None = None
    fold: CharacterTable | str | None = None
    tokenizer: str | None = field(default=None, compare=False)
    variants: CharacterTable | None = field(init=False, repr=False, compare=False)
    feature_options: FeatureOptions = field(init=False, repr=False, compare=False)
    sketching: SketchParameters | None = field(init=False, repr=False, compare=False, default=None)
    rules: Mapping[str, object] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __new__(cls, **parameters: Any) -> Self:
        """Raises UsageError for parameters that are unknown or do not apply."""
        if cls is not Profile:
            return object.__new__(cls)
        chosen: type[Profile]
        match parameters.get("scheme", "simhash"):
            case "simhash":
                chosen = SimHashProfile if parameters.get("verify") is False else VerifiedProfile
            case "minhash":
                chosen = MinHashProfile
            case other:
                raise UsageError(f"must be one of simhash, minhash, not {other!r}", parameter="scheme")
        for name in parameters.keys() - _types(chosen).keys():
            if name not in NAMES:
                raise UsageError(f"a profile has no parameter {name!r}: use {', '.join(NAMES)}")
            raise UsageError(f"does not apply to {chosen.kind}", parameter=name)
        return cast(Self, object.__new__(chosen))

    def __post_init__(self) -> None:
        """Raises UsageError for parameters of the wrong type, or that do not go together."""
        defaults = {each.name: each.default for each in fields(self)}
        for name, types in _types(type(self)).items():  # type: ignore[arg-type]  # a class can be hashed
            value = getattr(self, name)
            if name == "stop_words" or (value is None and defaults[name] is None):
                continue
            if isinstance(value, int) and abs(value) > _LARGEST:
                raise UsageError(f"must be at most {_LARGEST}, not {value}", parameter=name)
            if not isinstance(value, types) or isinstance(value, bool) != (bool in types):
                wanted = " or ".join(_TYPE_NAMES.get(each, each.__name__) for each in types)
                raise UsageError(f"must be {wanted}, not {value!r}", parameter=name)
        if self.min_features < 1:
            raise UsageError(f"must be at least 1, not {self.min_features}", parameter="min_features")
        # A profile is frozen once it is complete.
        fold = character_table(self.fold) if isinstance(self.fold, str) else self.fold
        vars(self).update(fold=fold, variants=fold)
        if self.stop_words != frozenset():
            vars(self).update(stop_words=self._normal_words(self.stop_words))
        self._complete()

    def _normal_words(self, given: Iterable[str]) -> frozenset[str]:
        words = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
        if isinstance(given, str) or not all(isinstance(word, str) for word in words):
            raise UsageError(f"must be a set of words, not {given!r}", parameter="stop_words")
        return frozenset(normalise(word, self.variants) for word in words)

    def _complete(self) -> None:
        """Fill in what is derived, and validate. Raises UsageError."""
        raise NotImplementedError

    @cached_property
    def index_scheme(self) -> Scheme:
        """How fingerprints are indexed and compared. (Imports NumPy, which one fingerprint needs not.)"""
        raise NotImplementedError

    @property
    def shingles(self) -> FeatureOptions:
        """Options of the features whose sets define the Jaccard similarity."""
        return self.feature_options

    @property
    def misses_of_short(self) -> str | None:
        """What to say where a text has at most SHORT characters; None if lookups find those, too."""
        if self.misses is None:
            return None
        return f"a text has at most {SHORT} characters: {self.misses}. The profile short is for such texts"

    def fingerprinter(self) -> Fingerprinter:
        """Create a fingerprinter with these parameters."""
        return Fingerprinter(
            self.feature_options,
            self.bits,
            self.min_features,
            self.sketching,
            is_minhash=self.scheme == "minhash",
        )

    def parameters(self) -> dict[str, object]:
        """All parameters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def describe(self) -> dict[str, object]:
        """All parameters by name as JSON values; tables and files by source and digest."""
        tokenizer = self.tokenizer
        if tokenizer is None and self.features.startswith("words"):
            tokenizer = f"{TOKENIZER} {package_version(TOKENIZER)}"
        described = {name: _described(value) for name, value in self.parameters().items()}
        return described | {
            "hash": self.feature_options.hash,
            "normalisation": NORMALISATION,
            **self.rules,
            "tokenizer": tokenizer,
        }

    @property
    def digest(self) -> str:
        """Digest of `describe` without the tokenizer's version: 16 hexadecimal digits."""
        import json  # few processes ask for the digest

        record = {name: value for name, value in self.describe().items() if name != "tokenizer"}
        content = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        from hashlib import sha256  # OpenSSL's, which takes time to load

        return sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]

    def require_fits_tables(self) -> None:
        """Raise UsageError if fingerprints have another length than tables store."""
        if self.bits != TABLE_BITS:
            raise UsageError(
                f"stores hold fingerprints of {TABLE_BITS} bits, not {self.bits}: use dedup or fingerprint",
                parameter="bits",
            )

    def require(self, given: Mapping[str, object]) -> None:
        """Raise ProfileMismatch if a given parameter differs from this profile's."""
        if differences := self._differences(given):
            raise ProfileMismatch(
                f"the store's profile differs from the one given: {'; '.join(differences)}. "
                "Leave it out to use the store's, or create another store."
            )

    def reindexed(self, given: Mapping[str, object]) -> Profile:
        """The profile with new index parameters (layout, k, reach, bands, threshold), on which fingerprints
        and sketches do not depend. given: these, and others that must equal this profile's.

        Raises ProfileMismatch if others differ, UsageError for parameters that do not go together.
        """
        if not given:
            return self
        differences = self._differences(
            {name: each for name, each in given.items() if name not in _INDEX_ONLY}
        )
        if not differences:
            chosen = {**self.parameters(), "tokenizer": self.tokenizer, **given}
            if "reach" not in given and "reach" in chosen and chosen["reach"] == self.parameters()["k"]:
                chosen["reach"] = chosen["k"]
            profile = make_profile(chosen)
            if profile.sketching == self.sketching:
                return profile
            differences = [
                f"threshold is {self.parameters()['threshold']}, not {chosen['threshold']}, and sketches "
                "hold the number of features only with a rising threshold"
            ]
        raise ProfileMismatch(
            f"this needs new fingerprints or sketches, and so the texts: {'; '.join(differences)}. Load the "
            f"texts into a new store (simhbase load). Without them, only {', '.join(_INDEX_ONLY)} can change"
        )

    def _differences(self, given: Mapping[str, object]) -> list[str]:
        stored = self.parameters()
        wanted = self._canonical(given)
        if isinstance(self.fold, CharacterTable) and wanted.get("fold") == self.fold.name:
            wanted["fold"] = self.fold  # a name stands for the stored version of the table
        return [
            f"{name} is {_shown(stored[name])}, not {_shown(value)}"
            if name in stored
            else f"{name} does not apply to {self.kind}"
            for name, value in wanted.items()
            if name not in stored or _described(stored[name]) != _described(value)
        ]

    def _canonical(self, given: Mapping[str, object]) -> dict[str, object]:
        """Parameters with values spelled as in `parameters`."""
        words = cast("Iterable[str] | None", given.get("stop_words"))
        return {**given, **({} if words is None else {"stop_words": self._normal_words(words)})}


@dataclass(frozen=True, kw_only=True)
class SimHashProfile(Profile):
    kind: ClassVar[str] = "scheme simhash without verification"
    misses: ClassVar[str | None] = (
        "this profile misses some near-duplicates, and most of short texts; the profile complete finds "
        "nearly all with a similarity of 0.7 or more, with twice the rows"
    )

    bits: int = TABLE_BITS
    layout: str = "5x2"
    k: int = 3
    weights: str = _DERIVED
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
            # Without sketches, plain counts match different texts that repeat one word (docs/choosing.md).
            of_words = "capped" if self.verify else "saturated"
            vars(self).update(weights=of_words if self.features == "words" else "count")
        if self.weights in BY_IDF and self.idf is None:
            vars(self).update(idf=jieba_table())
        options = FeatureOptions(
            kind=self.features,
            weights=self.weights,
            top=self.top,
            min_length=self.min_length,
            stop_words=self.stop_words,
            idf=self.idf,
            boilerplate=self.boilerplate,
            variants=self.variants,
        )
        vars(self).update(feature_options=options)

    @cached_property
    def index_scheme(self) -> Scheme:
        from simhbase.drawers.scheme import SimHashScheme

        return SimHashScheme(layout(self.layout, self.bits), self.k)

    @property
    def shingles(self) -> FeatureOptions:
        # Not the profile's features: short texts have too few words for a similarity.
        return FeatureOptions(kind=SHINGLES, boilerplate=self.boilerplate, variants=self.variants)


@dataclass(frozen=True, kw_only=True)
class VerifiedProfile(SimHashProfile):
    kind: ClassVar[str] = "scheme simhash"

    verify: bool = True
    slots: int = 256
    sketch_bits: int = 2
    threshold: float | str | None = SIMILAR
    reach: int = _DERIVED
    same_numbers: bool = False
    sketching: SketchParameters = field(init=False, repr=False, compare=False)

    def _complete(self) -> None:
        super()._complete()
        if self.reach is None:
            vars(self).update(reach=max(REACH, self.k))
        if not self.k <= self.reach < self.bits // 2:
            raise UsageError(
                f"must be {self.k} (k) to {self.bits // 2 - 1} bits, not {self.reach}", parameter="reach"
            )
        if self.threshold is not None:
            _require_similarity(self.threshold)
        elif self.reach > self.k:
            raise UsageError(
                "a reach beyond k needs a threshold, such as 0.65, to reject other texts", parameter="reach"
            )
        sketching = SketchParameters(self.slots, self.sketch_bits, numbered=self.same_numbers)
        rules = {"permutations": PERMUTATIONS, "shingles": SHINGLES}
        vars(self).update(sketching=sketching, rules=rules)

    @cached_property
    def index_scheme(self) -> Scheme:
        from simhbase.drawers.scheme import SimHashScheme

        threshold = cast("float | None", self.threshold)
        return SimHashScheme(layout(self.layout, self.bits), self.k, self.sketching, threshold, self.reach)


@dataclass(frozen=True, kw_only=True)
class MinHashProfile(Profile):
    kind: ClassVar[str] = "scheme minhash"

    scheme: str = "minhash"
    features: str = _DERIVED
    slots: int = SLOTS
    sketch_bits: int = 8
    bands: str = _DERIVED
    threshold: float | str = SIMILAR
    same_numbers: bool = False
    sketching: SketchParameters = field(init=False, repr=False, compare=False)

    def _complete(self) -> None:
        vars(self).update(threshold=_canonical_threshold(self.threshold))
        defaults = ALL_LENGTHS if isinstance(self.threshold, str) else _FIXED
        vars(self).update(**{name: getattr(self, name) or value for name, value in defaults.items()})
        if _rising(self.threshold) is None:
            _require_similarity(self.threshold)
        elif self.features != ALL_LENGTHS["features"]:
            raise UsageError(
                f"{self.threshold} needs features {ALL_LENGTHS['features']}, not {self.features}: it rises "
                "with the number of these",
                parameter="threshold",
            )
        if self.bands == AUTO:
            vars(self).update(bands=self._bands_by_threshold)
        chosen = bands(self.bands)
        if chosen.slots > self.slots:
            raise UsageError(
                f"{chosen.name} needs {chosen.slots} slots, but there are {self.slots}", parameter="bands"
            )
        sized = isinstance(self.threshold, str)
        sketching = SketchParameters(self.slots, self.sketch_bits, sized=sized, numbered=self.same_numbers)
        if chosen.rows * self.sketch_bits < _BAND_BITS:
            raise UsageError(
                f"bands of {chosen.name} are too short with slots of {self.sketch_bits} bits: use longer "
                "bands, or more sketch_bits",
                parameter="bands",
            )
        options = FeatureOptions(
            kind=self.features,
            min_length=self.min_length,
            stop_words=self.stop_words,
            boilerplate=self.boilerplate,
            variants=self.variants,
        )
        rules = {"permutations": PERMUTATIONS, "shingles": self.features}
        vars(self).update(sketching=sketching, feature_options=options, rules=rules)

    @property
    def _bands_by_threshold(self) -> str:
        """Name of the bands for bands=AUTO: those for the threshold, or the least value of a rising one."""
        rising = _rising(self.threshold)
        return bands_for(rising.least if rising else cast("float", self.threshold), self.slots).name

    @cached_property
    def index_scheme(self) -> Scheme:
        from simhbase.drawers.scheme import MinHashScheme

        threshold = _rising(self.threshold) or cast("float", self.threshold)
        return MinHashScheme(bands(self.bands), self.sketching, threshold)

    def _canonical(self, given: Mapping[str, object]) -> dict[str, object]:
        named = {"threshold": _canonical_threshold(given.get("threshold")), "bands": given.get("bands")}
        if named["bands"] == AUTO:
            named["bands"] = self._bands_by_threshold
        elif named["bands"] is None:
            named["bands"] = (ALL_LENGTHS if isinstance(named["threshold"], str) else _FIXED)["bands"]
        return {name: named.get(name, value) for name, value in super()._canonical(given).items()}


@cache
def _types(of: type[Profile]) -> Mapping[str, tuple[type, ...]]:
    """Accepted types of each parameter, by name."""
    hints = get_type_hints(of)
    members = {
        each.name: get_args(hints[each.name]) or (hints[each.name],) for each in fields(of) if each.init
    }
    return {name: tuple(Real if each is float else each for each in types) for name, types in members.items()}


# Parameters of all profiles, without the tokenizer, which is only a note.
_FIELDS = (*fields(VerifiedProfile), *fields(MinHashProfile))
NAMES = tuple(dict.fromkeys(each.name for each in _FIELDS if each.compare))


def make_profile(given: Mapping[str, object], preset: str = "default") -> Profile:
    """Create a profile with the given parameters, and the preset's for the others. None means the default,
    except for a threshold. Raises UsageError."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UsageError(f"no preset {redacted(str(preset))!r}: use {', '.join(PRESETS)}")
    if not given:
        return _preset(preset)
    if given == CORPUS and preset == "default":
        return _of_corpora()
    chosen = {**PRESETS[preset], **given}
    return Profile(
        **{name: value for name, value in chosen.items() if value is not None or name == "threshold"}
    )


@cache
def _preset(name: str) -> Profile:
    """The profile of a preset: one object, as it may hold tables of many words."""
    return Profile(**PRESETS[name])


@cache
def _of_corpora() -> Profile:
    """The profile of jobs without a store, for which nothing else is given."""
    return Profile(**CORPUS)


def without_sketches(given: Mapping[str, object]) -> Mapping[str, object]:
    """The given parameters, with sketches off by default for SimHash: for fingerprints without texts, or
    texts that are compared exactly. (same_numbers needs sketches.)"""
    if given.get("scheme", "simhash") != "simhash":
        return given
    return {"verify": given.get("same_numbers", False), **given}


def with_corpus_defaults(given: Mapping[str, object]) -> Mapping[str, object]:
    """The given parameters, with the preset `complete` as the default, for jobs without a store that compare
    texts exactly. A parameter that only SimHash has chooses SimHash."""
    if given.keys() & (_types(SimHashProfile).keys() - _types(MinHashProfile).keys()):
        return without_sketches(given)
    if "scheme" in given:
        return given
    return {**CORPUS, **given}


def preset_parameters(preset: str) -> dict[str, object]:
    """The preset's values of those parameters that any preset sets (and reach); None for the default. Raises
    UsageError if there is none of this name."""
    parameters = make_profile({}, preset).parameters()
    names = {"reach", *(name for each in PRESETS.values() for name in each)}
    found = {name: parameters[name] for name in parameters if name in names}
    if "bands" not in PRESETS[preset] and "bands" in found:
        found["bands"] = None  # the default of a store; jobs without one choose better bands
    return found


def given_parameters(profile: Profile | Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Parameters by name, given as a Profile, a mapping (`preset` adds those of a preset), the name of a
    preset, or None. Raises UsageError for anything else."""
    if isinstance(profile, Profile):
        return profile.parameters()
    if isinstance(profile, str):
        return preset_parameters(profile)
    if profile is not None and not isinstance(profile, Mapping):
        raise UsageError(
            f"profile must be a Profile, or parameters by name such as {{'k': 2}}, not {profile!r}"
        )
    if not profile or "preset" not in profile:
        return profile or {}
    others = {name: value for name, value in profile.items() if name != "preset"}
    return {**preset_parameters(cast("str", profile["preset"])), **others}


def _described(value: object) -> object:
    if isinstance(value, IdfTable):
        return {"source": value.source, "digest": value.digest}
    if isinstance(value, CharacterTable):
        return {"name": value.name, "digest": value.digest}
    if isinstance(value, Boilerplate):
        return {"lines": value.count("line"), "phrases": value.count("phrase"), "digest": value.digest}
    return sorted(value) if isinstance(value, frozenset) else value


def _shown(value: object) -> str:
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


def _rising(threshold: object) -> RisingThreshold | None:
    """A threshold that rises with the number of features, such as 0.54-0.7; None for others."""
    found = _RISES.fullmatch(threshold) if isinstance(threshold, str) else None
    if found is None or not 0 < float(found[1]) <= float(found[2]):
        return None
    return RisingThreshold(float(found[1]), float(found[2]), least_to=RISES_FROM)


def _canonical_threshold(threshold: Any) -> Any:
    rising = _rising(threshold)
    return f"{rising.least:g}-{rising.most:g}" if rising else threshold


def _require_similarity(threshold: float | str) -> None:
    if isinstance(threshold, str) or not 0 < threshold <= 1:
        raise UsageError(
            "must be a Jaccard similarity above 0, up to 1 (with scheme minhash also two, for short and "
            f"long texts, such as 0.54-0.7), not {threshold}",
            parameter="threshold",
        )
