"""The profile as a store holds it, and the guard around it.

Two writers that disagree on one parameter would fill one index with fingerprints that never meet. So the
profile is stored with the tables, written last when they are created (a set of tables without one counts
as missing), and every opening compares: the parameters that were given with the stored ones, and what this
machine's pipeline makes of twenty fixed texts with what the creator's did."""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files

import orjson

from simhbase.errors import ProfileMismatch, TablesMissing
from simhbase.fingerprint.pipeline import (
    Fingerprinter,
    to_int,
)
from simhbase.profile import NAMES, TOKENIZER, Profile
from simhbase.stores.base import TTL_ROW, Store, multi_writer
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.idf import JIEBA, IdfTable, jieba_table
from simhbase.text.userfile import NamedContent
from simhbase.text.variants import CharacterTable

FORMAT = 4
_OLDEST = 2  # without saturated counts and folds, and with the normal form that it names
_BATCHES = 4  # claims are decided by batches from here on: those of older versions would not see them


_PROFILE_KEY = b"profile"


_NOTES = frozenset(["format", "hash", "permutations", "shingles", "probes", "software", "token"])


_TOKEN_BYTES = 8


_KEYS: Mapping[type, bytes] = {IdfTable: b"idf/", Boilerplate: b"boilerplate/", CharacterTable: b"fold/"}


_PIECE = 1 << 20  # HBase refuses cells over 10 MiB


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


def write_profile(
    store: Store, profile: Profile, like: StoredProfile | None = None, ttl: int | None = None
) -> None:
    """Stores a profile, last of all when tables are created; of several creators the first wins. like: of the
    store whose fingerprints these tables are to hold; by default they come from this machine. ttl: seconds
    after which documents of an atomic store expire.

    Raises ProfileMismatch if another creator was quicker with another profile.
    """
    meta = store.records("meta")
    if meta.get([_PROFILE_KEY]) != [None]:
        read_profile(store).profile.require(profile.parameters())
        return
    if not multi_writer(store):
        meta.delete([TTL_ROW])  # of a creation that was interrupted
        meta.put([] if ttl is None else [(TTL_ROW, str(ttl).encode())])
    for each in profile.parameters().values():
        if isinstance(each, NamedContent) and getattr(each, "source", None) != JIEBA:
            meta.put(_pieces(_KEYS[type(each)], each))
    record = {
        "format": FORMAT,
        **profile.describe(),
        "probes": probe_answers(profile.fingerprinter()) if like is None else like.probes,
        "software": software() if like is None else like.software,
        # Tells these tables from others that are made anew under the same names.
        "token": secrets.token_hex(_TOKEN_BYTES),
    }
    value = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    if not meta.compare_and_set(_PROFILE_KEY, None, value):
        read_profile(store).profile.require(profile.parameters())
    store.sync()


def _pieces(kind: bytes, file: NamedContent) -> list[tuple[bytes, bytes]]:
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
    (pieces,) = store.records("meta").scan([_prefix(kind, digest)], limit=1_000_000)
    return zlib.decompress(b"".join(piece.value for _, piece in pieces))


@dataclass(frozen=True)
class StoredProfile:
    """A profile as a store holds it, with the creator's answers to the fixed texts; row: as stored; format:
    that of the store's rows."""

    profile: Profile
    probes: list[str | None]
    software: Mapping[str, str]
    row: bytes = b""
    format: int = FORMAT

    @property
    def digest(self) -> str:
        return hashlib.blake2b(_without_format(self.row), digest_size=16).hexdigest()

    def require_in(self, store: Store) -> None:
        """Raises ProfileMismatch where the store's tables were made anew since this was read from it, and
        TablesMissing where they were dropped."""
        (found,) = store.records("meta").get([_PROFILE_KEY])
        if found is None:
            raise TablesMissing(f"the tables of {store.url} have lost their profile while they were open")
        if _without_format(found.value) != _without_format(self.row):
            raise ProfileMismatch(
                f"the tables of {store.url} were dropped and created anew while they were open, so that what "
                "was written before is gone: open the store again"
            )

    def require_claims(self, store: Store) -> None:
        """Raises ProfileMismatch where a store that many processes write may have claims of older
        versions."""
        if multi_writer(store) and self.format < _BATCHES:
            raise ProfileMismatch(
                f"{store.url} has rows of format {self.format}, in which older versions of simhbase claim: "
                "stop all processes that claim in it (simhbase load --unique-only does, too), run 'simhbase "
                "tables upgrade', and start them with this version"
            )

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
    (found,) = store.records("meta").get([_PROFILE_KEY])
    if found is None:
        raise TablesMissing(
            f"the tables of {store.url} are not complete: no profile. Create them (again) with "
            "'simhbase tables create'."
        )
    record = orjson.loads(found.value)
    _require_format(store, record["format"])
    known = {*NAMES, "tokenizer"}
    if unknown := sorted(record.keys() - known - _NOTES):
        raise ProfileMismatch(
            f"the profile of {store.url} has parameters that this version of simhbase does not know "
            f"({', '.join(unknown)}): install a newer simhbase"
        )
    parameters = {name: value for name, value in record.items() if name in known}
    if record["scheme"] == "simhash":  # older profiles have none of these
        parameters.setdefault("verify", False)
    if parameters.get("verify"):
        parameters.setdefault("reach", record["k"])
    parameters["stop_words"] = frozenset(record["stop_words"])
    for name, read in (("idf", _read_idf), ("boilerplate", _read_boilerplate), ("fold", _read_fold)):
        if record.get(name) is not None:
            parameters[name] = read(store, record[name])
    return StoredProfile(
        Profile(**parameters), record["probes"], record["software"], found.value, record["format"]
    )


def upgrade(store: Store) -> int:
    """Makes the rows of a store the ones of this version's format; returns the format before. Only the
    profile says which it is: what older versions have written is read as it is. Raises as `read_profile`."""
    while True:
        before = read_profile(store)
        record = orjson.loads(before.row) | {"format": FORMAT}
        row = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
        if before.format == FORMAT or store.records("meta").compare_and_set(_PROFILE_KEY, before.row, row):
            store.sync()
            return before.format


def _without_format(row: bytes) -> bytes:
    """What tells the tables from others, whatever their format is by now."""
    if not row:
        return row
    record = orjson.loads(row)
    record.pop("format", None)
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS)


def _require_format(store: Store, stored: int) -> None:
    """Raises ProfileMismatch for rows in another form than this version reads."""
    if stored > FORMAT:
        raise ProfileMismatch(
            f"{store.url} has rows of format {stored}, and this version of simhbase reads format {FORMAT}: "
            "install a newer simhbase"
        )
    if stored < _OLDEST:
        raise ProfileMismatch(
            f"{store.url} was made by an older simhbase: its rows have format {stored}, and this version "
            f"reads formats {_OLDEST} to {FORMAT}. Load the documents anew into another store, then drop "
            "this one"
        )


def _read_idf(store: Store, stored: Mapping[str, str]) -> IdfTable:
    if stored["source"] == JIEBA:
        table = jieba_table()
    else:
        table = IdfTable("the store's IDF table", _read_pieces(store, _KEYS[IdfTable], stored["digest"]))
    if table.digest != stored["digest"]:
        raise ProfileMismatch(
            f"the store was made with an IDF table of SHA-256 {stored['digest'][:16]}..., and {table.name} "
            f"here has {table.digest[:16]}...: install the versions of the store"
        )
    return table


def _read_boilerplate(store: Store, stored: Mapping[str, str]) -> Boilerplate:
    return Boilerplate("the store's boilerplate", _read_pieces(store, _KEYS[Boilerplate], stored["digest"]))


def _read_fold(store: Store, stored: Mapping[str, str]) -> CharacterTable:
    return CharacterTable(stored["name"], _read_pieces(store, _KEYS[CharacterTable], stored["digest"]))


def _versions(software: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(software.items()))
