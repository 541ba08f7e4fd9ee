"""simhbase: have we already seen this text, or one almost like it?

    import simhbase

    with simhbase.open("rocksdb:news.db", create="default") as index:
        index.add([simhbase.Document("a", "The council has decided to build a new bridge across the river.")])
        for match in index.find("THE COUNCIL HAS DECIDED to build a new bridge across the river").matches:
            print(match.id, match.distance)

A store:
  open                 Opens the index at a URL.
  Index                Adds, finds and deletes documents. Use it as a context manager, or close it.
  Profile              Parameters of an index; FeatureOptions has those of features.
  Document, Query, Match, Lookup, Claim, Rejected, AddReport
                       Arguments and results of an index.
  compare              Compares two texts, and shows where they differ.
  check                Compares the rows of a store's tables with each other.
  Muted                An entry of the mute list, which hides documents from lookups.
  vacuum               Removes obsolete rows in HBase, and expired documents in an embedded store.
  compact              Merges the files of an embedded store, so that lookups read few.
  Administrator        Maintenance of an open index: statistics, hot drawers, groups, loads, deletion by age.
  show_progress        Shows the progress of a call in a terminal or notebook: `progress=show_progress`.
  migrate              Copies the documents of a store to another one, which may have other drawers.
  salvage              Copies what can be read of a damaged store, and lists what is lost.
  SharedLookups        Concurrent lookups of threads or asyncio tasks that share reads of the store.
  Metrics              Receives measurements of an index: counts, times, and spans for tracing.
  Client, AsyncClient  Clients of a service (simhbase serve), with the methods of an index.
  tables               create, check, describe, snapshot, restore and drop a store's tables.

Whole corpora:
  Inputs, InputOptions The documents of a corpus, and how they are read.
  load                 Fingerprints documents and stores them, replacing those with the same id.
  load_hfiles          Loads HFiles written by Spark into HBase.
  dedup                Finds near-duplicates within one corpus.
  pairs                Finds all pairs of near-duplicates within one corpus.
  match                Looks up the documents of one corpus among those of another, without a store.
  learn_idf            Learns an IDF file from a corpus.
  learn_boilerplate    Learns a boilerplate file from a corpus.
  evaluate             Measures recall and precision against given pairs.
  calibrate            Measures schemes on a corpus, and recommends one.

Jobs return reports (e.g. LoadReport; match yields Answers), and raise the exceptions in `errors`.

Names are imported on first use, so that the command line starts quickly.
"""

from __future__ import annotations

import os
from importlib import import_module

TYPE_CHECKING = False  # typing's takes longer to import than all of this
if TYPE_CHECKING:
    __version__: str
    from simhbase import errors as errors
    from simhbase.admin import Administrator as Administrator
    from simhbase.admin import tables as tables
    from simhbase.admin.check import CheckReport as CheckReport
    from simhbase.admin.check import check as check
    from simhbase.admin.groups import StoredGroups as StoredGroups
    from simhbase.admin.hot import Hot as Hot
    from simhbase.admin.migrate import MigrationReport as MigrationReport
    from simhbase.admin.migrate import migrate as migrate
    from simhbase.admin.pairs import StoredPairs as StoredPairs
    from simhbase.admin.salvage import Loss as Loss
    from simhbase.admin.salvage import SalvageReport as SalvageReport
    from simhbase.admin.salvage import salvage as salvage
    from simhbase.admin.vacuum import CompactReport as CompactReport
    from simhbase.admin.vacuum import VacuumReport as VacuumReport
    from simhbase.admin.vacuum import compact as compact
    from simhbase.admin.vacuum import vacuum as vacuum
    from simhbase.corpus.inputs import Inputs as Inputs
    from simhbase.corpus.record import InputOptions as InputOptions
    from simhbase.corpus.rejects import Counts as Counts
    from simhbase.corpus.rejects import TooManyRejects as TooManyRejects
    from simhbase.corpus.watcher import Watcher as Watcher
    from simhbase.deduplication.dedup import dedup as dedup
    from simhbase.deduplication.match import match as match
    from simhbase.deduplication.pairs import CorpusPairs as CorpusPairs
    from simhbase.deduplication.pairs import pairs as pairs
    from simhbase.deduplication.report import DedupReport as DedupReport
    from simhbase.deduplication.rows import DedupedRows as DedupedRows
    from simhbase.deduplication.rows import GroupedRows as GroupedRows
    from simhbase.deduplication.rows import Removed as Removed
    from simhbase.errors import AccessDenied as AccessDenied
    from simhbase.errors import BadInput as BadInput
    from simhbase.errors import Conflict as Conflict
    from simhbase.errors import CoreFailed as CoreFailed
    from simhbase.errors import NoFingerprint as NoFingerprint
    from simhbase.errors import OutputFailed as OutputFailed
    from simhbase.errors import Overloaded as Overloaded
    from simhbase.errors import PermanentError as PermanentError
    from simhbase.errors import ProfileMismatch as ProfileMismatch
    from simhbase.errors import ReadOnly as ReadOnly
    from simhbase.errors import RetryableError as RetryableError
    from simhbase.errors import SchemaDiffers as SchemaDiffers
    from simhbase.errors import ShortTexts as ShortTexts
    from simhbase.errors import SimhbaseError as SimhbaseError
    from simhbase.errors import StoreBusy as StoreBusy
    from simhbase.errors import StoreFailed as StoreFailed
    from simhbase.errors import StoreUnreachable as StoreUnreachable
    from simhbase.errors import TableDisabled as TableDisabled
    from simhbase.errors import TablesMissing as TablesMissing
    from simhbase.errors import TimedOut as TimedOut
    from simhbase.errors import Undecided as Undecided
    from simhbase.errors import UsageError as UsageError
    from simhbase.index import Index as Index
    from simhbase.index import open_index
    from simhbase.index.load_log import LoadState as LoadState
    from simhbase.jobs.answers import Answer as Answer
    from simhbase.jobs.learn_boilerplate import BoilerplateReport as BoilerplateReport
    from simhbase.jobs.learn_boilerplate import learn_boilerplate as learn_boilerplate
    from simhbase.jobs.learn_idf import IdfReport as IdfReport
    from simhbase.jobs.learn_idf import learn_idf as learn_idf
    from simhbase.loads.hfile_input import HFilesReport as HFilesReport
    from simhbase.loads.hfile_input import load_hfiles as load_hfiles
    from simhbase.loads.load import LoadReport as LoadReport
    from simhbase.loads.load import load as load
    from simhbase.metrics import Metrics as Metrics
    from simhbase.model.explanations import Comparison as Comparison
    from simhbase.model.explanations import Explanation as Explanation
    from simhbase.model.frames import ClaimList as ClaimList
    from simhbase.model.frames import LookupList as LookupList
    from simhbase.model.groups import Group as Group
    from simhbase.model.groups import Member as Member
    from simhbase.model.groups import Pair as Pair
    from simhbase.model.statistics import Stats as Stats
    from simhbase.model.stored import Met as Met
    from simhbase.model.stored import Muted as Muted
    from simhbase.model.stored import StoredDocument as StoredDocument
    from simhbase.model.stored import StoredPage as StoredPage
    from simhbase.model.values import AddReport as AddReport
    from simhbase.model.values import Claim as Claim
    from simhbase.model.values import Document as Document
    from simhbase.model.values import Fingerprint as Fingerprint
    from simhbase.model.values import Lookup as Lookup
    from simhbase.model.values import Match as Match
    from simhbase.model.values import Query as Query
    from simhbase.model.values import Rejected as Rejected
    from simhbase.online.async_client import AsyncClient as AsyncClient
    from simhbase.online.client import Client as Client
    from simhbase.online.shared import SharedLookups as SharedLookups
    from simhbase.process.progress import show_progress as show_progress
    from simhbase.profile.comparison import compare as compare
    from simhbase.profile.profile import Profile as Profile
    from simhbase.quality.calibrate import calibrate as calibrate
    from simhbase.quality.calibration import Calibration as Calibration
    from simhbase.quality.evaluation import Evaluation as Evaluation
    from simhbase.quality.evaluation import evaluate as evaluate
    from simhbase.text.features import FeatureOptions as FeatureOptions

    open = open_index  # noqa: A001  # strict checkers export no name that an import has changed

_NAMES = {
    "admin": "Administrator",
    "admin.check": "CheckReport check",
    "admin.groups": "StoredGroups",
    "admin.hot": "Hot",
    "admin.migrate": "MigrationReport migrate",
    "admin.pairs": "StoredPairs",
    "admin.salvage": "Loss SalvageReport salvage",
    "admin.vacuum": "CompactReport VacuumReport compact vacuum",
    "profile.comparison": "compare",
    "corpus.inputs": "Inputs",
    "corpus.record": "InputOptions",
    "corpus.rejects": "Counts TooManyRejects",
    "corpus.watcher": "Watcher",
    "errors": "AccessDenied BadInput Conflict CoreFailed NoFingerprint OutputFailed Overloaded "
    "PermanentError "
    "ProfileMismatch ReadOnly RetryableError SchemaDiffers ShortTexts SimhbaseError StoreBusy StoreFailed "
    "StoreUnreachable TableDisabled TablesMissing TimedOut Undecided UsageError",
    "model.frames": "ClaimList LookupList",
    "index": "Index",
    "index.load_log": "LoadState",
    "deduplication.dedup": "dedup",
    "deduplication.report": "DedupReport",
    "deduplication.rows": "DedupedRows GroupedRows Removed",
    "loads.hfile_input": "HFilesReport load_hfiles",
    "jobs.learn_boilerplate": "BoilerplateReport learn_boilerplate",
    "jobs.learn_idf": "IdfReport learn_idf",
    "loads.load": "LoadReport load",
    "jobs.answers": "Answer",
    "deduplication.match": "match",
    "deduplication.pairs": "CorpusPairs pairs",
    "metrics": "Metrics",
    "model.explanations": "Comparison Explanation",
    "model.groups": "Group Member Pair",
    "model.statistics": "Stats",
    "model.stored": "Met Muted StoredDocument StoredPage",
    "model.values": "AddReport Claim Document Fingerprint Lookup Match Query Rejected",
    "online.async_client": "AsyncClient",
    "online.client": "Client",
    "online.shared": "SharedLookups",
    "profile.profile": "Profile",
    "process.progress": "show_progress",
    "quality.calibrate": "calibrate",
    "quality.calibration": "Calibration",
    "quality.evaluation": "Evaluation evaluate",
    "text.features": "FeatureOptions",
}
_HOMES = {name: (f"simhbase.{home}", name) for home, names in _NAMES.items() for name in names.split()}
_MODULES = {"errors": "simhbase.errors", "tables": "simhbase.admin.tables"}
# Without open, so that `from simhbase import *` leaves the builtin alone.
__all__ = sorted([*_HOMES, *_MODULES])
_HOMES["open"] = ("simhbase.index", "open_index")
_ON_WINDOWS = {
    f"simhbase.{home}"
    for home in _NAMES
    if home in ("errors", "online.async_client", "online.client") or home.startswith("model.")
}


def _home(name: str) -> object:
    """Import a module of this package."""
    if name not in _ON_WINDOWS:
        require_posix()
    return import_module(name)


def require_posix() -> None:
    """Raises ImportError on Windows, which lacks the file locks and signals of stores and jobs."""
    if not hasattr(os, "fork"):
        raise ImportError(
            "stores and jobs of simhbase need Linux or macOS. On Windows install it in WSL (docs/using.md), "
            "or ask a service that runs elsewhere with simhbase.Client"
        )


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("simhbase")
    if name in _MODULES:
        value: object = _home(_MODULES[name])
    elif name in _HOMES:
        home, attribute = _HOMES[name]
        value = getattr(_home(home), attribute)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "open", *(name for name in globals() if name.startswith("__")), "__version__"})
