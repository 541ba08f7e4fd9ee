"""The profile stored with the tables.

Writers with different parameters would fill an index with fingerprints that cannot match each other. So the
profile is written last when tables are created (tables without one are incomplete), and every open compares
the given parameters with the stored ones. Before a process makes its first fingerprint for the store, it
compares its fingerprints of fixed texts with the creator's.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
import orjson
from msgspec import Meta as Allowed
from msgspec import Struct

from simhbase.errors import ProfileMismatch, SchemaDiffers, StoreFailed, TablesMissing, UsageError
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.profile.profile import NAMES, Profile
from simhbase.stores.base import TTL_ROW, Store
from simhbase.stores.meta import Meta
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.content import NamedContent
from simhbase.text.idf import JIEBA, IdfTable, jieba_table
from simhbase.text.packages import package_version
from simhbase.text.variants import CharacterTable

FORMAT = 1
_PROFILE_KEY = b"profile"
_NOTES = frozenset(
    [
        *("counts", "format", "hash", "normalisation", "permutations", "shingles", "probes", "scopes"),
        *("software", "token"),
    ]
)
_PARAMETERS = frozenset([*NAMES, "tokenizer"])
_RULES = ("permutations", "shingles")
_TOKEN_BYTES = 8
SALT_BYTES = 16  # of a store with scopes
# Parameters that are files, which meta holds in pieces.
_FILES: Mapping[str, tuple[type[NamedContent], str]] = {
    "idf": (IdfTable, "IDF table"),
    "boilerplate": (Boilerplate, "boilerplate"),
    "fold": (CharacterTable, "table of characters"),
}
_PIECE = 1 << 20  # HBase refuses cells over 10 MiB


class FileNote(Struct, frozen=True):
    """A file of a profile, as it is noted."""

    digest: str
    source: str | None = None
    name: str | None = None


class ProfileNotes(Struct, frozen=True):
    """What is stored beside a profile's plain parameters, which it checks itself."""

    stop_words: list[str]
    probes: list[str | None]
    software: dict[str, str]
    idf: FileNote | None = None
    boilerplate: FileNote | None = None
    fold: FileNote | None = None
    counts: bool = False
    scopes: Annotated[str, Allowed(pattern="^([0-9a-f]{2})+$")] | None = None


@lru_cache(maxsize=1)
def probes() -> tuple[str, ...]:
    """Fixed texts whose fingerprints identify a pipeline."""
    return tuple(orjson.loads((Path(__file__).with_name("probes.json")).read_bytes()))


def probe_answers(fingerprinter: Fingerprinter) -> list[str | None]:
    """Fingerprints of the fixed texts in hex, None for a rejected text."""
    found = fingerprinter.fingerprint_many(probes())
    size, content = fingerprinter.bits // 8, found.fingerprints.values.astype(">u8").tobytes()
    return [
        content[number * size : (number + 1) * size].hex() if reason is None else None
        for number, reason in enumerate(found.reasons)
    ]


def software() -> dict[str, str]:
    """Versions of the libraries that compute fingerprints, shown on a mismatch."""
    return {name: package_version(name) for name in ("simhbase", JIEBA, "mmh3")}


def write_profile(
    store: Store,
    profile: Profile,
    like: StoredProfile | None = None,
    ttl: int | None = None,
    *,
    counts: bool = False,
    scoped: bool = False,
) -> StoredProfile:
    """Write the profile, which completes the creation of tables. If several processes create, the first wins.

    like: profile of the store that fingerprints come from; by default they are computed here. ttl: seconds
    after which documents of an atomic store expire. counts: refused claims are counted, in a table that is
    there already; scoped: the store has scopes. Raises ProfileMismatch if another process wrote a different
    profile first, SchemaDiffers if that does not count or has no scopes, StoreFailed if the store has
    documents.
    """
    meta = Meta(store)
    if meta.get(_PROFILE_KEY) is not None:
        return _agreeing(store, profile, counts=counts, scoped=scoped)
    _require_empty(store)
    answers = probe_answers(profile.fingerprinter()) if like is None else like.probes
    versions = software() if like is None else like.software
    record = {
        "format": FORMAT,
        **profile.describe(),
        "probes": answers,
        "software": versions,
        # Distinguishes these tables from later ones with the same names.
        "token": secrets.token_hex(_TOKEN_BYTES),
    }
    if counts:
        record["counts"] = True
    salt = secrets.token_bytes(SALT_BYTES) if scoped else None
    if like is not None and like.salt is not None and scoped:
        salt = like.salt  # the masks are in what is copied
    if salt is not None:
        record["scopes"] = salt.hex()
    value = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    with store.exclusive():
        is_first = meta.get(_PROFILE_KEY) is None and _complete(store, profile, ttl, value)
    store.sync()
    if not is_first:
        return _agreeing(store, profile, counts=counts, scoped=scoped)
    if counts:
        store.keep_counts()
    return StoredProfile(profile, answers, versions, value, counts, salt)


def _agreeing(store: Store, profile: Profile, *, counts: bool, scoped: bool) -> StoredProfile:
    stored = read_profile(store)
    stored.require(store, profile, counts=counts, scoped=scoped)
    return stored


def _complete(store: Store, profile: Profile, ttl: int | None, row: bytes) -> bool:
    """Writes what belongs to a profile, then its row; false if another process was faster."""
    meta = Meta(store)
    store.arrange(profile.index_scheme.layout)
    if not store.keeps_hints:
        if ttl is not None:
            meta.put([(TTL_ROW, str(ttl).encode())])
        elif meta.get(TTL_ROW) is not None:  # left by an interrupted creation
            meta.delete([TTL_ROW])
    for name, each in profile.parameters().items():
        if isinstance(each, NamedContent) and getattr(each, "source", None) != JIEBA:
            meta.put(_pieces(name, each))
    return meta.compare_and_set(_PROFILE_KEY, None, row)


def _pieces(parameter: str, file: NamedContent) -> list[tuple[bytes, bytes]]:
    """Rows of a user's file. The key contains its digest, so creators of different profiles do not overwrite
    each other."""
    packed = zlib.compress(file.content)
    return [
        (_prefix(parameter, file.digest) + b"%06d" % number, packed[start : start + _PIECE])
        for number, start in enumerate(range(0, len(packed), _PIECE))
    ]


def _prefix(parameter: str, digest: str) -> bytes:
    return f"{parameter}/{digest}/".encode()


@dataclass(frozen=True)
class StoredProfile:
    """A stored profile with the creator's answers to the fixed texts. row: as stored; counts: whether the
    store counts refused claims; salt: of the masks of its scopes, None if it has no scopes."""

    profile: Profile
    probes: list[str | None]
    software: Mapping[str, str]
    row: bytes = b""
    counts: bool = False
    salt: bytes | None = None

    def require(self, store: Store, profile: Profile, *, counts: bool, scoped: bool = False) -> None:
        """Raises ProfileMismatch for another profile, SchemaDiffers if refused claims should be counted, and
        are not, or if there should be scopes, and are none."""
        self.profile.require(profile.parameters())
        if scoped and self.salt is None:
            raise SchemaDiffers(
                f"{store.url} has no scopes, and should. This cannot be changed: create another store with "
                "scopes, and copy the documents into one of them (simhbase migrate --scope)"
            )
        if counts and not self.counts:
            raise SchemaDiffers(
                f"{store.url} does not count refused claims, and should. This cannot be changed: create "
                "another store with counts, and copy the documents to it (simhbase migrate)"
            )

    @property
    def digest(self) -> str:
        return hashlib.blake2b(self.row, digest_size=16).hexdigest()

    def require_in(self, store: Store) -> None:
        """Raises ProfileMismatch if the store's tables were recreated since this was read, TablesMissing if
        they were dropped."""
        found = Meta(store).get(_PROFILE_KEY)
        if found is None:
            raise TablesMissing(f"the tables of {store.url} have lost their profile while they were open")
        if found != self.row:
            raise ProfileMismatch(
                f"the tables of {store.url} were dropped and recreated while they were open; their old "
                "content is gone. Open the store again"
            )

    def check_pipeline(self, fingerprinter: Fingerprinter) -> None:
        """Raises ProfileMismatch if this machine's fingerprints of the fixed texts differ."""
        here = probe_answers(fingerprinter)
        for number, (stored, computed) in enumerate(zip(self.probes, here, strict=True)):
            if stored != computed:
                raise ProfileMismatch(
                    "this machine's fingerprints differ from the store's: fixed text "
                    f"{number + 1} is {stored} in the store and {computed} here. "
                    f"Stored with {_versions(self.software)}; here {_versions(software())}. "
                    "Install the store's versions, or load its documents into a new store (simhbase load) "
                    "and drop this one (simhbase tables drop)"
                )


def read_profile(store: Store) -> StoredProfile:
    """Read the store's profile. Raises TablesMissing if there is none or the creation was interrupted,
    StoreFailed if it was lost."""
    found = Meta(store).get(_PROFILE_KEY)
    if found is None:
        _require_empty(store)
        raise TablesMissing(
            f"the tables of {store.url} are incomplete: no profile. Run the command again that was creating "
            "them, such as a load, or 'simhbase tables create'"
        )
    try:
        record = orjson.loads(found)
        _require_known(store, record)
        notes = msgspec.convert(record, ProfileNotes)
        if len(notes.probes) != len(probes()):
            raise UsageError(f"it has fingerprints of {len(notes.probes):,} fixed texts")
        parameters = {name: value for name, value in record.items() if name in _PARAMETERS}
        parameters["stop_words"] = frozenset(notes.stop_words)
        for name in _FILES:
            if (file := getattr(notes, name)) is not None:
                parameters[name] = _read_file(store, name, file)
        profile = Profile(**parameters)
    except (orjson.JSONDecodeError, msgspec.ValidationError, UsageError) as error:
        raise Meta(store).damaged(_PROFILE_KEY, error) from error
    rules = profile.rules
    for name in _RULES:  # fixed texts show other fingerprints, but not other sketches
        if rules.get(name) != record.get(name):
            raise ProfileMismatch(
                f"{store.url} was made by another simhbase: its {name} are {record.get(name)}, here they are "
                f"{rules.get(name)}. Load the documents again, into a new store (simhbase load), and drop "
                "this one (simhbase tables drop)"
            )
    if notes.counts:
        store.keep_counts()
    salt = None if notes.scopes is None else bytes.fromhex(notes.scopes)
    return StoredProfile(profile, notes.probes, notes.software, found, notes.counts, salt)


def _require_empty(store: Store) -> None:
    """Raises StoreFailed for documents without a profile, which is written before them: a creation would
    build over the damage."""
    has_documents = any(store.records("documents").iterate())
    # Another process may have completed the creation meanwhile, and added some.
    if has_documents and Meta(store).get(_PROFILE_KEY) is None:
        raise StoreFailed(
            f"{store.url} is damaged: it holds documents, but its table meta has lost the profile that they "
            "need. Create nothing in its place: restore the table meta, or the whole store, from a copy "
            "(simhbase tables restore)"
        )


def _require_known(store: Store, record: object) -> None:
    """Raises ProfileMismatch for a format or parameters that this version does not know, UsageError for what
    is no profile."""
    if not isinstance(record, dict) or type(form := record.get("format")) is not int:
        raise UsageError("it does not say its format")
    if form != FORMAT:
        raise ProfileMismatch(
            f"{store.url} was made by another simhbase: its rows have format {form}, this one "
            f"reads format {FORMAT}. Install that simhbase, or load the documents into a new store (simhbase "
            "load) and drop this one (simhbase tables drop)"
        )
    if unknown := sorted(record.keys() - _PARAMETERS - _NOTES):
        raise ProfileMismatch(
            f"the profile of {store.url} has parameters that this version of simhbase does not know "
            f"({', '.join(unknown)}): install the simhbase that made the store"
        )


def _read_file(store: Store, parameter: str, stored: FileNote) -> NamedContent:
    """A table or boilerplate of a profile. Raises ProfileMismatch for another version of jieba's table,
    StoreFailed for a lost file."""
    kind, name = _FILES[parameter]
    if stored.source == JIEBA:
        file: NamedContent = jieba_table()
    else:
        from simhbase.text.userfile import MOST_BYTES  # loads zstandard, and few profiles have files

        pieces = Meta(store).under(_prefix(parameter, stored.digest))
        try:
            unpacker = zlib.decompressobj()
            content = unpacker.decompress(b"".join(piece for _, piece in pieces), MOST_BYTES)
            if not unpacker.eof:  # rows of a stranger's store may unpack to a thousand times their size
                raise zlib.error(f"incomplete, or more than {MOST_BYTES >> 20:,} MiB")
        except zlib.error as error:
            raise StoreFailed(
                f"the table meta of {store.url} has lost rows of its profile's {name}: {error}. Restore the "
                "store from a copy, or copy what can be read: simhbase migrate --salvage"
            ) from error
        file = kind(stored.name or f"the store's {name}", content)
    if file.digest != stored.digest:
        raise ProfileMismatch(
            f"the store was made with another {name}, of SHA-256 {stored.digest[:16]}..., but "
            f"{file.name} has {file.digest[:16]}...: install the store's versions"
        )
    return file


def _versions(software: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(software.items()))
