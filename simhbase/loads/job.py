"""The arguments of a load."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import STDIN, require_lines
from simhbase.corpus.outputs.unique import require_written
from simhbase.corpus.paths import local_path
from simhbase.corpus.record import InputOptions
from simhbase.corpus.remote import public_name
from simhbase.errors import UsageError
from simhbase.index.load_log import require_name
from simhbase.index.tags import required_tags, tags_of
from simhbase.process.plain_files import plain_target
from simhbase.profile.profile import Profile
from simhbase.stores import backend

OF_UNIQUE_ONLY = ("unique", "duplicates", "evidence")
OF_DOCUMENTS = (*OF_UNIQUE_ONLY, "new")
WITH_RECORDS = ("unique", "new")  # files of whole documents


@dataclass(frozen=True, kw_only=True)
class Load:
    """The arguments of `load`. Raises UsageError for invalid combinations, OutputFailed for files that cannot
    be written."""

    inputs: Inputs
    store: str
    scope: str | None = None
    profile: Profile | Mapping[str, object] | None = None
    unique_only: bool = False
    min_similarity: float | None = None
    skip_existing: bool = False
    tags: Mapping[str, str] | None = None
    tag_fields: Mapping[str, str] | None = None
    unique: str | Path | None = None
    duplicates: str | Path | None = None
    evidence: str | Path | None = None
    new: str | Path | None = None
    name: str | None = None
    lock_wait: float = 0
    via: Literal["hfiles"] | None = None
    work_folder: str | Path | None = None

    def __post_init__(self) -> None:
        self.inputs.require_files()
        options = replace(self.inputs.options, whole_rows=bool(self.unique or self.new))
        if self.tags is not None or self.tag_fields is not None:
            options = self._with_tags(options)
        object.__setattr__(self, "inputs", replace(self.inputs, options=options))
        self._check_options()
        if self.via is None and self.work_folder is not None:
            raise UsageError("is only for loads via hfiles", parameter="work_folder")
        if self.via is not None:
            self._check_route()

    @cached_property
    def files(self) -> dict[str, Path | None]:
        """Output files by option."""
        given = {option: getattr(self, option) for option in OF_DOCUMENTS}
        paths = {"rejects": self.inputs.rejects, **given}
        return {option: None if path is None else Path(path) for option, path in paths.items()}

    @cached_property
    def can_be_resumed(self) -> bool:
        """True if all inputs can be read again, and all outputs be cut."""
        return all(map(_can_be_read_again, self.inputs.paths)) and all(
            path is None or plain_target(path) is not None for path in self.files.values()
        )

    @property
    def digest(self) -> str:
        """Digest of the arguments, the same on every machine."""
        arguments = {
            "paths": list(map(public_name, self.inputs.paths)),  # without signatures, which change
            "read": asdict(self.inputs.options),
            "files": {name: path and str(path) for name, path in self.files.items()},
            "options": [self.unique_only, self.min_similarity, self.skip_existing],
        }
        if self.inputs.by_source:
            arguments["by_source"] = self.inputs.by_source
        # ASCII, because file names may not be UTF-8.
        return hashlib.blake2b(json.dumps(arguments, sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def log_name(self) -> str:
        """The name given, or one derived from the arguments, the host and the working folder."""
        if self.name is not None:
            return self.name
        first, *others = self.inputs.paths
        try:
            folder = str(Path.cwd())
        except OSError:  # it was removed
            folder = ""
        place = json.dumps([socket.gethostname(), folder, self.digest])
        more = f"+{len(others)}" if others else ""
        readable = "".join(filter(str.isprintable, Path(public_name(first)).name))[:80]
        return f"{readable}{more}-{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}"

    def _with_tags(self, options: InputOptions) -> InputOptions:
        """The options with the tags of all documents, and the fields of further ones."""
        tags, fields = required_tags(self.tags), tags_of(self.tag_fields or {})
        if twice := dict(tags).keys() & dict(fields).keys():
            raise UsageError(f"{min(twice)!r} is also a tag field: leave one out", parameter="tags")
        _ = required_tags({name: "a" for name, _ in (*tags, *fields)})  # checks names and their number
        return replace(options, tags=tags, tag_fields=fields)

    def _check_options(self) -> None:
        for option in OF_UNIQUE_ONLY:
            if self.files[option] and not self.unique_only:
                raise UsageError("applies to unique-only loads", parameter=option)
        if self.min_similarity is not None and not self.unique_only:
            raise UsageError("applies to unique-only loads", parameter="min_similarity")
        if self.name is not None:
            require_name(self.name)
        for option in OF_DOCUMENTS:
            if path := self.files[option]:
                (require_written if option in WITH_RECORDS else require_lines)(str(path), option)
        documents = [self.files[option] for option in WITH_RECORDS]
        self.inputs.check_outputs(self.files["duplicates"], self.files["evidence"], documents=documents)
        if self.name is not None and not self.can_be_resumed:
            raise UsageError(
                "is only for loads that can be resumed, and those that read or write a pipe cannot: leave "
                "it out, or use files",
                parameter="name",
            )

    def _check_route(self) -> None:
        if self.via != "hfiles":
            raise UsageError(f"must be hfiles, not {self.via!r}", parameter="via")
        if not backend(self.store).takes_hfiles:
            raise UsageError("hfiles is only for stores in HBase", parameter="via")
        if self.new or self.skip_existing:
            raise UsageError(
                "a load via hfiles does not read what is stored, so it cannot list new documents or skip "
                "existing ones",
                parameter="via",
            )


def _can_be_read_again(given: str) -> bool:
    path = local_path(given)
    if path is None:
        return True
    return path != STDIN and (not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path))  # noqa: PTH110, PTH112, PTH113  # never raise
