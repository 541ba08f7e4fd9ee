"""The profile: every parameter that a stored fingerprint depends on, and the guard around it.

Two writers that disagree on one parameter would fill one index with fingerprints that never meet.
So the profile is stored with the tables, written last when they are created (a set of tables
without one counts as missing), and every opening compares: the parameters that were given with the
stored ones, and what this machine's pipeline makes of twenty fixed texts with what the creator's did.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from numbers import Real
from typing import Any, cast

import orjson

from simhbase.boilerplate import Boilerplate
from simhbase.errors import ProfileMismatch, TablesMissing, UsageError
from simhbase.features import Extractor, FeatureOptions
from simhbase.filing import AUTO, LEAST_THRESHOLD, Filing, MinHashFiling, SimHashFiling
from simhbase.fingerprinter import Fingerprinter, MinHash, Printing, SimHashVerified, simhash_alone, to_int
from simhbase.idf import JIEBA, IdfTable, jieba_table
from simhbase.layout import Layout, layout, require_within_guarantee
from simhbase.minhash import Bands, SketchForm, bands, bands_for
from simhbase.stores.base import Store
from simhbase.text import normalise

FORMAT = 1
BITS = (64, 128)
TABLE_BITS = 64
NORMALISATION = "nfkc-lower-space"
TOKENIZER = "rjieba"
# What threshold auto is made for: 32 bands of 4 slots find what it keeps of short texts (docs/quality.md).
ALL_LENGTHS: Mapping[str, object] = {"features": "chars:auto", "bands": "32x4"}
PRESETS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    "classic": {"weights": "tfidf", "top": 64},
    "short": {"scheme": "minhash", "threshold": AUTO, **ALL_LENGTHS},
}
_PROFILE_KEY = b"profile"
_NOTES = frozenset(["format", "hash", "normalisation", "permutations", "shingles", "probes", "software"])
_IDF_KEY = b"idf/"
_BOILERPLATE_KEY = b"boilerplate/"
_PIECE = 1 << 20  # HBase refuses cells over 10 MiB


VERIFICATION: Mapping[str, object] = {"slots": 256, "sketch_bits": 2, "threshold": None}
VERIFIED_BY = "chars:3"
PERMUTATIONS = "linear32+fmix32"
_BAND_BITS = 16  # fewer name too few drawers to tell texts apart
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float | str": (Real, str),
    "bool": bool,
    "IdfTable": IdfTable,
    "Boilerplate": Boilerplate,
}
_COMMON = frozenset(
    ["scheme", "features", "min_length", "min_features", "stop_words", "boilerplate", "tokenizer"]
)
_ITS_SCHEMES: Any = None  # the default is the scheme's; None stays where the parameter does not apply


@dataclass(frozen=True)
class Profile:
    """Parameters of an index; see FeatureOptions for those of the features.

    k: the distance that lookups use unless told otherwise, at most the layout's guarantee;
    threshold: the similarity that they ask for unless told otherwise, with verification None for any,
    with minhash AUTO for what `threshold_of` says; min_features: a text with fewer distinct features has
    no fingerprint; boilerplate: is left out of texts; idf: a user's table, or None for jieba's where the
    weights need one; tokenizer: what cuts text into words, with its version.
    That is a note about this machine or the store's creator: profiles that differ in nothing else are
    the same, and the fixed texts tell whether two versions cut alike.
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
    bands: str = _ITS_SCHEMES
    threshold: float | str = _ITS_SCHEMES
    tokenizer: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Raises UsageError for parameters that are unknown, of another type or do not go together."""
        self._require_types()
        if self.scheme not in SCHEMES:
            raise UsageError(f"no scheme {self.scheme!r}: use {', '.join(SCHEMES)}")
        scheme = SCHEMES[self.scheme]
        if self.threshold == AUTO and self.scheme == "minhash":
            self._fill(ALL_LENGTHS)
        self._fill(scheme.defaults)
        if self.verify:
            self._fill(VERIFICATION)
        self._refuse_others()
        if self.min_features < 1:
            raise UsageError(f"minimum of {self.min_features} features: a fingerprint needs at least 1")
        object.__setattr__(self, "stop_words", frozenset(map(normalise, _several_words(self.stop_words))))
        scheme.complete(self)
        if self.tokenizer is None and self.features.startswith("words"):
            object.__setattr__(self, "tokenizer", f"{TOKENIZER} {version(TOKENIZER)}")
        _ = self.feature_options

    def _require_types(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), _TYPES.get(str(each.type).removesuffix(" | None"))
            if kind is None or (value is None and each.default is None):
                continue
            if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
                raise UsageError(f"{each.name} = {value!r}: its type is {each.type}")

    def _fill(self, defaults: Mapping[str, object]) -> None:
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _refuse_others(self) -> None:
        for each in fields(self):
            if each.name not in self._applicable and getattr(self, each.name) is not None:
                raise UsageError(f"{each.name} does not apply to {self._kind}")

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
    def form(self) -> SketchForm | None:
        """What is kept of a text beside its fingerprint."""
        return _sketch_form(self) if self.slots else None

    @property
    def filing(self) -> Filing:
        """How fingerprints are filed and compared."""
        return SCHEMES[self.scheme].filing(self)

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
        )

    def fingerprinter(self) -> Fingerprinter:
        """A new fingerprinter with these parameters."""
        printing = SCHEMES[self.scheme].printing(self)
        return Fingerprinter(self.feature_options, self.fingerprint_bits, self.min_features, printing)

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
            "normalisation": NORMALISATION,
            **({"permutations": PERMUTATIONS, "shingles": self.shingles.kind} if self.form else {}),
        }

    @property
    def shingles(self) -> FeatureOptions:
        """The features whose sets tell how similar texts are."""
        return SCHEMES[self.scheme].shingles(self)

    def require_fits_tables(self) -> None:
        """Raises UsageError for fingerprints that tables cannot hold."""
        if self.fingerprint_bits != TABLE_BITS:
            raise UsageError(
                f"tables hold fingerprints of {TABLE_BITS} bits, not {self.bits}: use dedup or fingerprint"
            )

    def require(self, given: Mapping[str, object]) -> None:
        """Raises ProfileMismatch where a parameter that was given differs from this profile's."""
        stored = self.parameters()
        wanted = {**given, "bands": self._named_bands(given["bands"])} if "bands" in given else given
        differences = [
            f"{name} is {_described(stored[name])}, not {_described(value)}"
            if name in stored
            else f"{name} does not apply to {self._kind}"
            for name, value in wanted.items()
            if name not in stored or _described(stored[name]) != _described(value)
        ]
        if differences:
            raise ProfileMismatch(
                f"the store's profile differs from what was asked for: {'; '.join(differences)}. "
                "Leave the option out to use the store's, or create another store."
            )

    def _named_bands(self, name: object) -> object:
        """The bands that `auto` stands for here, or the name itself."""
        if name != AUTO or self.threshold is None:
            return name
        return _bands_for(self).name


def _several_words(value: Iterable[str]) -> list[str]:
    words = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if isinstance(value, str) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"stop_words = {value!r}: a set of words is needed")
    return words


def make_profile(given: Mapping[str, object], preset: str = "default") -> Profile:
    """A profile of the parameters given, the preset's for the others. Raises UsageError."""
    if preset not in PRESETS:
        raise UsageError(f"no preset {preset!r}: use {', '.join(PRESETS)}")
    return Profile(**{**PRESETS[preset], **given})  # type: ignore[arg-type]  # checked in __post_init__


def _described(value: object) -> object:
    """A parameter as a JSON value."""
    if isinstance(value, IdfTable):
        return {"source": _source(value), "digest": value.digest}
    if isinstance(value, Boilerplate):
        return {"lines": value.count("line"), "phrases": value.count("phrase"), "digest": value.digest}
    return sorted(value) if isinstance(value, frozenset) else value


@lru_cache(maxsize=1)
def probes() -> tuple[str, ...]:
    """The twenty fixed texts whose fingerprints tell one pipeline from another."""
    return tuple(orjson.loads((files("simhbase") / "probes.json").read_bytes()))


def probe_answers(fingerprinter: Fingerprinter) -> list[str | None]:
    """What a pipeline makes of the fixed texts: hex digits, None for a text it rejects."""
    found = fingerprinter.fingerprint_many(probes())
    digits = fingerprinter.bits // 4
    return [
        f"{to_int(value):0{digits}x}" if reason is None else None
        for value, reason in zip(found.values, found.reasons, strict=True)
    ]


def software() -> dict[str, str]:
    """Versions of what the fingerprints are computed with; kept for the reader of a mismatch."""
    return {name: version(name) for name in ("simhbase", TOKENIZER, JIEBA, "mmh3", "regex")}


def write_profile(store: Store, profile: Profile) -> None:
    """Stores a profile, last of all when tables are created; of several creators the first wins.

    Raises ProfileMismatch if another creator was quicker with another profile.
    """
    meta = store.records("meta")
    if meta.get([_PROFILE_KEY]) != [None]:
        read_profile(store).profile.require(profile.parameters())
        return
    if profile.idf is not None and _source(profile.idf) != JIEBA:
        meta.put(_pieces(_IDF_KEY, profile.idf))
    if profile.boilerplate is not None:
        meta.put(_pieces(_BOILERPLATE_KEY, profile.boilerplate))
    record = {
        "format": FORMAT,
        **profile.describe(),
        "probes": probe_answers(profile.fingerprinter()),
        "software": software(),
    }
    value = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    if not meta.compare_and_set(_PROFILE_KEY, None, value):
        read_profile(store).profile.require(profile.parameters())
    store.sync()


def _pieces(kind: bytes, file: IdfTable | Boilerplate) -> list[tuple[bytes, bytes]]:
    """The rows of a user's file. Its digest is in their keys: creators of different profiles never
    touch each other's."""
    packed = zlib.compress(file.content)
    return [
        (_prefix(kind, file.digest) + b"%06d" % number, packed[start : start + _PIECE])
        for number, start in enumerate(range(0, len(packed), _PIECE))
    ]


def _prefix(kind: bytes, digest: str) -> bytes:
    return kind + digest.encode() + b"/"


def _read_pieces(store: Store, kind: bytes, digest: str) -> bytes:
    """The content of a user's file."""
    (pieces,) = store.records("meta").scan([_prefix(kind, digest)], limit=1_000_000)
    return zlib.decompress(b"".join(piece for _, piece in pieces))


@dataclass(frozen=True)
class StoredProfile:
    """A profile as a store holds it, with the creator's answers to the fixed texts."""

    profile: Profile
    probes: list[str | None]
    software: Mapping[str, str]

    def check_pipeline(self, fingerprinter: Fingerprinter) -> None:
        """Raises ProfileMismatch where this machine's pipeline answers a fixed text differently."""
        here = probe_answers(fingerprinter)
        for number, (stored, computed) in enumerate(zip(self.probes, here, strict=True)):
            if stored != computed:
                raise ProfileMismatch(
                    "this machine makes other fingerprints than the store's creator: fixed text "
                    f"{number + 1} is {stored} in the store and {computed} here. "
                    f"Stored with {_versions(self.software)}; here {_versions(software())}. "
                    "Install the versions of the store."
                )


def read_profile(store: Store) -> StoredProfile:
    """The store's profile. Raises TablesMissing where there is none, or only half a creation."""
    meta = store.records("meta")
    (value,) = meta.get([_PROFILE_KEY])
    if value is None:
        raise TablesMissing(
            f"the tables of {store.url} are not complete: no profile. Create them (again) with "
            "'simhbase tables create'."
        )
    record = orjson.loads(value)
    if record["format"] != FORMAT:
        raise ProfileMismatch(
            f"the profile of {store.url} has format {record['format']}, and this version of simhbase "
            f"reads format {FORMAT}: install a newer simhbase"
        )
    known = {field.name for field in fields(Profile)}
    if unknown := sorted(record.keys() - known - _NOTES):
        raise ProfileMismatch(
            f"the profile of {store.url} has parameters that this version of simhbase does not know "
            f"({', '.join(unknown)}): install a newer simhbase"
        )
    parameters = {name: value for name, value in record.items() if name in known}
    parameters["stop_words"] = frozenset(record["stop_words"])
    parameters["idf"] = _read_idf(store, record.get("idf"))
    parameters["boilerplate"] = _read_boilerplate(store, record.get("boilerplate"))
    return StoredProfile(Profile(**parameters), record["probes"], record["software"])


def _read_idf(store: Store, stored: Mapping[str, str] | None) -> IdfTable | None:
    if stored is None:
        return None
    if stored["source"] == JIEBA:
        table = jieba_table()
    else:
        table = IdfTable("the store's IDF table", _read_pieces(store, _IDF_KEY, stored["digest"]))
    if table.digest != stored["digest"]:
        raise ProfileMismatch(
            f"the store was made with an IDF table of SHA-256 {stored['digest'][:16]}..., and {table.name} "
            f"here has {table.digest[:16]}...: install the versions of the store"
        )
    return table


def _read_boilerplate(store: Store, stored: Mapping[str, str] | None) -> Boilerplate | None:
    if stored is None:
        return None
    return Boilerplate("the store's boilerplate", _read_pieces(store, _BOILERPLATE_KEY, stored["digest"]))


def _source(table: IdfTable) -> str:
    return JIEBA if table.digest == jieba_table().digest else "user"


def _versions(software: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(software.items()))


@dataclass(frozen=True)
class Scheme:
    """What differs between schemes.

    defaults: of the parameters that apply to it alone, or whose default is its own; complete: fills in
    what follows from others, and raises UsageError where they do not go together.
    """

    defaults: Mapping[str, object]
    complete: Callable[[Profile], None]
    filing: Callable[[Profile], Filing]
    printing: Callable[[Profile], Printing]
    shingles: Callable[[Profile], FeatureOptions]


def _complete_simhash(profile: Profile) -> None:
    if profile.bits not in BITS:
        raise UsageError(f"fingerprints of {profile.bits} bits: use 64 or 128")
    require_within_guarantee(profile.k, profile.drawers)
    if profile.top is not None and profile.top < profile.min_features:
        raise UsageError(
            f"top {profile.top} with a minimum of {profile.min_features} features would reject every text"
        )
    if profile.weights != "count" and profile.idf is None:
        object.__setattr__(profile, "idf", jieba_table())
    _ = profile.form
    if profile.threshold is not None:
        _require_similarity(profile.threshold)


def _require_similarity(threshold: float | str) -> None:
    if isinstance(threshold, str) or not 0 < threshold <= 1:
        raise UsageError(
            f"a threshold of {threshold}: use a Jaccard similarity above 0, up to 1, or {AUTO} with scheme "
            "minhash"
        )


def _simhash_filing(profile: Profile) -> Filing:
    return SimHashFiling(profile.drawers, profile.k, profile.form, cast("float | None", profile.threshold))


def _simhash_printing(profile: Profile) -> Printing:
    if profile.form is None:
        return simhash_alone
    return SimHashVerified(profile.form, Extractor(profile.shingles, TABLE_BITS))


def _complete_minhash(profile: Profile) -> None:
    form = _sketch_form(profile)
    if profile.threshold != AUTO:
        _require_similarity(profile.threshold)
    elif profile.features != ALL_LENGTHS["features"]:
        raise UsageError(
            f"threshold {AUTO} goes with features {ALL_LENGTHS['features']}, not {profile.features}: it says "
            "how similar texts are near by how many of those they have"
        )
    if profile.bands == AUTO:
        object.__setattr__(profile, "bands", _bands_for(profile).name)
    chosen = bands(profile.bands)
    if chosen.slots > form.slots:
        raise UsageError(f"bands {chosen.name} take {chosen.slots} slots, and there are {form.slots}")
    if chosen.rows * form.bits < _BAND_BITS:
        raise UsageError(
            f"bands {chosen.name} of slots of {form.bits} bits tell too little apart: use longer bands, or "
            "more sketch_bits"
        )


def _sketch_form(profile: Profile) -> SketchForm:
    return SketchForm(profile.slots, profile.sketch_bits, sized=profile.threshold == AUTO)


def _bands_for(profile: Profile) -> Bands:
    """The bands that find what is near by the threshold, by its least value where there are several."""
    least = LEAST_THRESHOLD if isinstance(profile.threshold, str) else profile.threshold
    return bands_for(least, profile.slots)


def _minhash_filing(profile: Profile) -> Filing:
    return MinHashFiling(bands(profile.bands), _sketch_form(profile), profile.threshold)


def _minhash_printing(profile: Profile) -> Printing:
    return MinHash(_sketch_form(profile))


SCHEMES: Mapping[str, Scheme] = {
    "simhash": Scheme(
        {
            "bits": 64,
            "layout": "5x2",
            "k": 3,
            "features": "words",
            "weights": "count",
            "top": None,
            "idf": None,
            "verify": False,
        },
        _complete_simhash,
        _simhash_filing,
        _simhash_printing,
        lambda profile: FeatureOptions(kind=VERIFIED_BY, boilerplate=profile.boilerplate),
    ),
    "minhash": Scheme(
        {"features": "chars:3", "slots": 128, "sketch_bits": 8, "bands": "20x6", "threshold": 0.8},
        _complete_minhash,
        _minhash_filing,
        _minhash_printing,
        lambda profile: profile.feature_options,
    ),
}
