"""Finds near-duplicates within a DataFrame, with the same results as `simhbase.dedup` for files.

Spark computes fingerprints and joins them by drawers, which gives connected components. The documents of a
component, with their texts, go to one task, which groups them by the code of `simhbase.dedup`. Copies of a
text are one document until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from tempfile import gettempdir
from typing import Self

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from simhbase.corpus.record import Value
from simhbase.deduplication.dates import DateOrder, DateReader, DateUnit, form_of
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.deduplication.representative import (
    Preference,
    as_number,
    compared_as_text,
    is_number,
    preference,
)
from simhbase.drawers.groups import Matcher, groups, stars
from simhbase.errors import BadInput, UsageError
from simhbase.process.logs import logger
from simhbase.profile.profile import Profile
from simhbase.spark.drawers import COMPONENT, TOGETHER, partitions_of, verified_by, with_components
from simhbase.spark.failures import raised_clearly
from simhbase.spark.fingerprints import (
    ID,
    IDENTITY,
    PROBLEM,
    REASON,
    TEXT,
    Columns,
    at_borders,
    decoded,
    fingerprinted,
    id_of,
    text_of,
    type_of,
)
from simhbase.spark.guard import guarded
from simhbase.spark.hash_bits import HashBits, hashes_of
from simhbase.spark.places import Hashes, Places, among

NUMBER, INTEGER, FORM, WORDS = "number", "integer", "form", "words"
PLACE, ORDER, DIGEST = "place", "order", "place.digest"
KEY, REPRESENTATIVE, DISTANCE, SIMILARITY, GROUP = "key", "representative", "distance", "similarity", "group"
CONTAINMENT, APART = "containment", "apart"  # apart: kept, as its representative does not contain it
TRUNCATED = "truncated"  # not compared with all
REPEATED = "the same id came before"
DOCUMENTS_AT_ONCE = 1 << 12  # of whole components
_OWN_PLACE = "__simhbase_place"  # among the columns of the user's DataFrame
_NUMBER, _COUNT = "__number", "__count"
_LARGE = DecimalType(38, 0)
_INTEGER = re.compile(r"[+-]?\d{1,38}")
_DIGEST_BYTES = 16
_ROW_BYTES = 128  # of a document, beside its fingerprint
_FEW = 1 << 20  # repeated ids that are sent to all tasks
MOST_HASHED = 100_000_000  # rows of which hashes are held: 0.8 GB in each Python worker, the driver needs 2.4

log = logger(__name__)

GROUPED = StructType(
    [
        StructField(KEY, BinaryType()),
        StructField(REPRESENTATIVE, StringType()),
        StructField(DISTANCE, IntegerType()),
        StructField(SIMILARITY, DoubleType()),
        StructField(CONTAINMENT, DoubleType()),
        StructField(APART, BooleanType()),
        StructField(TRUNCATED, BooleanType()),
    ]
)


@dataclass(frozen=True)
class SparkReport:
    """Counts as in `simhbase.DedupReport`."""

    documents: int
    unique: int
    duplicates: int
    group_count: int
    rejected: int
    truncated: int


@dataclass(frozen=True)
class Deduplicated:
    """Result of `dedup`. Call `unpersist` when the frames are no longer needed.

    documents: a row for each accepted document: id, representative (its own id if it is kept), distance and
    similarity to the representative (null if unknown), containment in it (null without `min_containment`),
    truncated, whether it was not compared with all that it is near to (a crowd of near texts that do not
    match), and group, the id of the group's first document.
    rejects: id and reason of the others. find_unique: finds the rows of `unique`; held: persisted frames.
    """

    documents: DataFrame
    rejects: DataFrame
    find_unique: Callable[[], DataFrame]
    held: tuple[DataFrame, ...]

    @cached_property
    def unique(self) -> DataFrame:
        """The kept rows of the DataFrame, with all columns. It is read again for them."""
        return self.find_unique()

    @property
    def duplicates(self) -> DataFrame:
        """A row for each removed document: id, duplicate_of, distance, similarity, containment, group."""
        others = self.documents.where(F.col(ID) != F.col(REPRESENTATIVE))
        return others.drop(TRUNCATED).withColumnRenamed(REPRESENTATIVE, "duplicate_of")

    def report(self) -> SparkReport:
        """Count documents, groups and rejects."""
        is_kept = F.col(ID) == F.col(REPRESENTATIVE)
        led = F.count_distinct(F.when(~is_kept, F.col(REPRESENTATIVE)))
        counts = (F.count("*"), F.count_if(is_kept), led, F.count_if(is_kept & F.col(TRUNCATED)))
        documents, unique, groups, truncated = self.documents.agg(*counts).head() or (0, 0, 0, 0)
        rejected = self.rejects.count()
        return SparkReport(documents + rejected, unique, documents - unique, groups, rejected, truncated)

    def unpersist(self) -> None:
        """Unpersist all frames. They are computed again if they are used."""
        for frame in self.held:
            frame.unpersist()


@raised_clearly()
def dedup(
    df: DataFrame,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_column: str = "id",
    text_column: str = "text",
    order_column: str | None = None,
    min_similarity: float | None = None,
    min_containment: float | None = None,
    keep: str = "first",
    date_column: str = "date",
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
    chains: bool = False,
    count_column: str | None = None,
    partitions: int | None = None,
) -> Deduplicated:
    """Find near-duplicates within one DataFrame, as `simhbase.dedup` does. See there for profile,
    min_similarity, min_containment, keep (date_column is its date_field), date_order, date_unit, chains, and
    count_column (its count_field), a new column of `unique`.

    order_column: defines the order of the input: least value first, then least id; None: by ids, as texts.
    Partitions do not matter. If ids repeat, the first document counts and the others are rejected; null and
    empty ids are rejected, and texts that are null, not UTF-8 or have too few features.

    partitions: of shuffles; by default as many as cores, or more so that none has more than 64 MB.

    `df` is read again for texts to compare and for `unique`, so it must not change (no `rand()`, no sample).
    Each connected component is grouped by one task, with the memory of `simhbase.dedup` for its documents,
    and their texts on local disk (TMPDIR). Raises UsageError for invalid arguments, before anything is read;
    BadInput if no document has the value that `keep` names; SimhbaseError if more than 25 million
    fingerprints have a match, which the driver cannot join.
    """
    if count_column is not None:
        _require_new(df, count_column)
    rule = Rule.of(
        profile,
        min_similarity,
        min_containment,
        keep,
        date_column,
        date_order,
        date_unit,
        chains=chains,
        partitions=partitions,
    )
    rows = InputRows(df, id_of(df, id_column), text_of(df, text_column), order_of(df, order_column))
    documents, partitions_of_documents = read_documents(rows, rule)
    answers, distinct = grouped_documents(documents, rows, rule, partitions_of_documents)
    rejects = documents.where(F.col(REASON).isNotNull())
    return Deduplicated(
        answers.drop(PLACE, APART),
        rejects.select(ID, REASON),
        partial(rows.kept, answers, rejects, count_column),
        (documents, distinct, answers),
    )


@dataclass(frozen=True)
class Rule:
    """What matches, and what is kept. least: minimum similarity of texts, 0 if they are not compared;
    partitions: of shuffles, None to choose it."""

    criteria: MatchCriteria
    least: float
    min_containment: float | None
    preferred: Preference | None
    date_order: DateOrder | None
    chains: bool
    partitions: int | None

    @classmethod
    def of(
        cls,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
        min_containment: float | None,
        keep: str,
        date_column: str,
        date_order: DateOrder | None,
        date_unit: DateUnit | None,
        *,
        chains: bool,
        partitions: int | None,
    ) -> Self:
        """As the parameters of `dedup`. Raises UsageError."""
        if partitions is not None and partitions < 1:
            raise UsageError("must be at least 1", parameter="partitions")
        criteria, least = MatchCriteria.exact(profile, min_similarity)
        if min_containment is not None:
            criteria.require_containment(min_containment, least, chains=chains)
        preferred = preference(keep, date_column, date_order, date_unit)
        return cls(criteria, least, min_containment, preferred, date_order, chains, partitions)

    def partitions_of(self, documents: DataFrame, count: int) -> int:
        """Number of partitions for a shuffle of documents."""
        columns = Columns.of(self.criteria.profile)
        size = count * (8 * columns.words + columns.sketch_bytes + _ROW_BYTES)
        return self.partitions or partitions_of(documents, size)


def read_documents(rows: InputRows, rule: Rule) -> tuple[DataFrame, int]:
    """Fingerprint all rows: a persisted row for each, with its place, and the reason if it is rejected; and
    the number of partitions for shuffles of them."""
    read = rows.read(values_of(rows.df, rows.text, rule.preferred) if rows.values is None else rows.values)
    criteria = rule.criteria
    found = fingerprinted(read, criteria.profile, verified_by(criteria))
    found = with_forms(found, rule.date_order).persist()
    partitions = rule.partitions_of(found, found.count())
    every = found.where(F.col(REASON).isNull()).select(ID).repartition(partitions, ID)
    ids = every.groupBy(ID).count().where("count > 1").select(ID).persist()
    count = ids.count()
    if not count:
        return found, partitions
    # Only documents with such ids are shuffled.
    repeated = F.broadcast(ids) if count <= _FEW else ids
    several = found.join(repeated, ID, "left_semi").repartition(rule.partitions_of(found, 2 * count), ID)
    others = found.join(repeated, ID, "left_anti")
    documents = others.unionByName(without_repeats(several)).persist()
    documents.count()
    for frame in (found, ids):
        frame.unpersist()
    return documents, partitions


def grouped_documents(
    documents: DataFrame, rows: InputRows, rule: Rule, partitions: int
) -> tuple[DataFrame, DataFrame]:
    """A row for each accepted document with its representative and group, and the distinct texts; both are
    persisted. documents, partitions: as from `read_documents`."""
    columns = Columns.of(rule.criteria.profile)
    accepted = documents.where(F.col(REASON).isNull())
    accepted = accepted.withColumn(KEY, F.col(DIGEST) if rule.least else F.concat(*columns.names))
    order = [*most_preferred_first(accepted, rule.preferred), F.col(PLACE)]
    # Documents with one key have one identity.
    number = F.row_number().over(Window.partitionBy(IDENTITY, KEY).orderBy(*order))
    by_identity = accepted.drop(REASON, PROBLEM).repartition(partitions, IDENTITY)
    distinct = by_identity.withColumn(_NUMBER, number).where(F.col(_NUMBER) == 1).drop(_NUMBER).persist()
    firsts = with_components(distinct, rule.criteria, columns, partitions, chosen=rule.partitions)
    grouped = _grouped(firsts, rows, rule, order, partitions)
    found = _answers(accepted, grouped, partitions, led_by_first=rule.preferred is None)
    return found.persist(), distinct


def _require_new(df: DataFrame, name: str) -> None:
    if not name:
        raise UsageError("the name is empty", parameter="count_column")
    # Spark does not tell capital letters apart unless it is told to.
    if name.lower() in {each.lower() for each in df.columns}:
        raise UsageError(f"there is a column {name!r} already: name another one", parameter="count_column")


@dataclass(frozen=True)
class InputRows:
    """The rows of a DataFrame, and the columns they are read by. problem: why a row is rejected already;
    values: to choose by, None for those of `values_of`; is_placed: the order of a row is its place in files,
    which no other has."""

    df: DataFrame
    id: Column
    text: Column
    order: list[Column]
    problem: Column | None = None
    values: list[Column] | None = None
    is_placed: bool = False

    @property
    def place(self) -> Column:
        """Position of a row in the input. Rows with equal positions are equal in all relevant columns."""
        return F.struct(*self.order, self.id.alias(ID), self.digest.alias("digest"))

    @property
    def digest(self) -> Column:
        """Digest of the text. Computed by Spark, so that a text is sent to Python only once."""
        return F.substring(F.unhex(F.sha2(self.text, 256)), 1, _DIGEST_BYTES)

    def read(self, values: list[Column]) -> DataFrame:
        known = [] if self.problem is None else [self.problem.alias(PROBLEM)]
        return self.df.select(
            self.id.alias(ID), self.place.alias(PLACE), *known, *values, self.text.alias(TEXT)
        )

    def texts(self, of: DataFrame, partitions: int) -> DataFrame:
        """Distinct texts of some documents, by digest, and few others."""
        held = self.df.sparkSession.sparkContext.broadcast(HashBits.of_digests(of.select(KEY)))

        def wanted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in filter(len, batches):
                yield batch.filter(pa.array(held.value.contain(hashes_of(batch.column(KEY)))))

        # As bytes, since Arrow would refuse strings that are not UTF-8.
        every = self.df.where(self.digest.isNotNull())
        every = every.select(self.digest.alias(KEY), self.text.cast("binary").alias(TEXT))
        found = every.mapInArrow(guarded(wanted), every.schema).repartition(partitions, KEY)
        return found.withColumn(TEXT, F.col(TEXT).cast("string")).dropDuplicates([KEY])

    def kept(
        self,
        answers: DataFrame,
        rejects: DataFrame,
        count_column: str | None,
        seen: Observation | None = None,
    ) -> DataFrame:
        """The rows of the DataFrame that are their own representatives. rejects: the documents without
        answers; count_column: a new one, for the number of documents that each stands for; seen: of all rows
        that are read for it."""
        is_kept = F.col(ID) == F.col(REPRESENTATIVE)
        read = self.df if seen is None else self.df.observe(seen, *counted_rows(self.id, *self.order))
        if count_column is not None:
            own_place = F.first(F.when(is_kept, F.col(PLACE)), ignorenulls=True).alias(_OWN_PLACE)
            sizes = answers.groupBy(REPRESENTATIVE).agg(own_place, F.count("*").alias(_COUNT))
            return self._joined(read, sizes.select(_OWN_PLACE, F.col(_COUNT).alias(count_column)), "inner")
        places = answers.where(is_kept).select(PLACE)
        if self.is_placed:
            return read.where(among(Places.of(places.select(F.col(PLACE)[ORDER])), read, *self.order))
        return self._by_hashes(
            read, places, answers.where(~is_kept).select(PLACE).union(rejects.select(PLACE))
        )

    def _by_hashes(self, read: DataFrame, places: DataFrame, others: DataFrame) -> DataFrame:
        """The rows at some places. others: the places of all other rows."""
        own_places = places.withColumnRenamed(PLACE, _OWN_PLACE)
        if places.count() + others.count() > MOST_HASHED:
            return self._joined(read, own_places, "left_semi")
        kept, left = (Hashes.of(each.select(F.xxhash64(PLACE))).values for each in (places, others))
        own_hash = F.xxhash64(self.place)
        # Rows that are equal, but for columns that are not read, and hashes that are equal by chance.
        unsure = np.intersect1d(kept, left)
        found = read.where(among(Hashes(np.setdiff1d(kept, unsure)), read, own_hash))
        if not len(unsure):
            return found
        some = read.where(among(Hashes(unsure), read, own_hash))
        return found.union(self._joined(some, own_places, "left_semi"))

    def _joined(self, rows: DataFrame, places: DataFrame, how: str) -> DataFrame:
        """One row for each place."""
        found = rows.withColumn(_OWN_PLACE, self.place).join(places, _OWN_PLACE, how)
        return found.dropDuplicates([_OWN_PLACE]).drop(_OWN_PLACE)


def counted_rows(document: Column, order: Column) -> list[Column]:
    """Aggregates of all rows that are equal if an input is read again and has not changed."""
    return [F.count("*").alias("rows"), F.bit_xor(F.xxhash64(document, order)).alias("hashes")]


def require_same_rows(seen: Observation, documents: DataFrame) -> None:
    """Raise BadInput if what was seen when an input was read again is not what was read first."""
    first = documents.agg(*counted_rows(F.col(ID), F.col(PLACE)[ORDER])).head()
    if first is None or seen.get != first.asDict():
        raise changed_input()


def changed_input() -> BadInput:
    return BadInput("the input changed while it was read: run the job again")


def _grouped(
    firsts: DataFrame, rows: InputRows, rule: Rule, order: list[Column], partitions: int
) -> DataFrame:
    """Representative of each document, with distance, similarity and containment, and if it is apart."""
    criteria, least, min_containment = rule.criteria, rule.least, rule.min_containment
    several = firsts.where(TOGETHER)
    if least:
        several = several.repartition(partitions, KEY).join(rows.texts(several, partitions), KEY)
    by_component = several.repartition(partitions, COMPONENT).sortWithinPartitions(COMPONENT, *order)
    needed = by_component.drop(PLACE, IDENTITY, NUMBER, INTEGER, FORM, WORDS, TOGETHER)
    tells_similarity = bool(least) or criteria.chosen.sketching is not None
    similarity = F.lit(1.0 if tells_similarity else None).cast("double")
    alone = firsts.where(~F.col(TOGETHER)).select(
        KEY,
        F.col(ID).alias(REPRESENTATIVE),
        F.lit(0).alias(DISTANCE),
        similarity.alias(SIMILARITY),
        F.lit(None if min_containment is None else 1.0).cast("double").alias(CONTAINMENT),
        F.lit(False).alias(APART),
        F.lit(False).alias(TRUNCATED),
    )
    work = partial(
        _representatives, criteria=criteria, least=least, min_containment=min_containment, chains=rule.chains
    )
    return needed.mapInArrow(guarded(work), GROUPED).unionByName(alone)


def _answers(accepted: DataFrame, grouped: DataFrame, partitions: int, *, led_by_first: bool) -> DataFrame:
    """A row for each document, with its place in the input."""
    by_key = accepted.select(ID, PLACE, KEY).repartition(partitions, KEY)
    found = by_key.join(grouped.repartition(partitions, KEY), KEY).drop(KEY)
    if led_by_first:
        return found.withColumn(GROUP, F.col(REPRESENTATIVE))
    found = found.repartition(partitions, REPRESENTATIVE)
    names = found.groupBy(REPRESENTATIVE).agg(F.min_by(ID, PLACE).alias(GROUP))
    named = found.join(names, REPRESENTATIVE)
    return named.select(ID, PLACE, REPRESENTATIVE, DISTANCE, SIMILARITY, CONTAINMENT, APART, TRUNCATED, GROUP)


def values_of(df: DataFrame, text: Column, preferred: Preference | None) -> list[Column]:
    """The column of preference: numbers, or texts that may be numbers or dates. Raises UsageError for other
    types."""
    if preferred is None:
        return []
    if preferred.field is None:
        return [F.length(text).cast("double").alias(NUMBER)]
    kind = type_of(df, preferred.field, "keep")
    column = F.col(preferred.field)
    if isinstance(kind, NumericType) and not preferred.is_date:
        return [column.alias(NUMBER)]
    if isinstance(kind, NumericType):
        column = column.cast(DecimalType(38, 9))  # not 1.7E9
    if isinstance(kind, AtomicType) and not isinstance(kind, BooleanType | BinaryType):
        return [F.nullif(column.cast("string"), F.lit("")).alias(WORDS)]
    raise UsageError(
        f"column {preferred.field!r} is {kind.simpleString()}: only texts and numbers can be compared",
        parameter="keep",
    )


def with_forms(documents: DataFrame, order: DateOrder | None) -> DataFrame:
    """Parse the texts of preference: adds columns of numbers, and of integers, null if they are none, and of
    the forms of dates. order: as for `form_of`."""
    if WORDS not in documents.columns:
        return documents
    added = [StructField(NUMBER, DoubleType()), StructField(INTEGER, _LARGE), StructField(FORM, StringType())]
    schema = StructType([*documents.schema.fields, *added])
    return documents.mapInArrow(guarded(partial(_with_forms, order=order)), schema)


def most_preferred_first(accepted: DataFrame, preferred: Preference | None) -> list[Column]:
    """Sort columns of preference, before the order of the input. Raises BadInput if no document has a
    value, and as `Preference.order`."""
    if preferred is None:
        return []
    words = F.col(WORDS if WORDS in accepted.columns else NUMBER)
    counted = accepted.agg(F.count("*"), F.count(words), F.count(NUMBER)).head() or (0, 0, 0)
    documents, values, numbers = counted
    if documents and not values:
        raise BadInput(f"no document has a value in column {preferred.field!r}", parameter="keep")
    by = [_comparable(accepted, NUMBER)]
    if WORDS in accepted.columns and (preferred.is_date or numbers < values):
        by = [_date_or_text(accepted, preferred)]
    elif WORDS in accepted.columns:
        by.append(F.col(INTEGER))  # of equal doubles, integers beyond 2^53
    return [each.desc_nulls_last() if preferred.sign > 0 else each.asc_nulls_last() for each in by]


def _comparable(accepted: DataFrame, name: str) -> Column:
    """A column of numbers, without NaN and -0.0."""
    if not isinstance(accepted.schema[name].dataType, DoubleType | FloatType):
        return F.col(name)
    return F.nanvl(F.col(name), F.lit(None).cast("double")) + F.lit(0.0)


def _date_or_text(accepted: DataFrame, preferred: Preference) -> Column:
    by_form = accepted.where(F.col(WORDS).isNotNull()).groupBy(FORM)
    found = by_form.agg(F.min(WORDS), F.count("*")).orderBy(FORM).collect()
    forms: dict[str | None, tuple[Value, int]] = {row[0]: (row[1], row[2]) for row in found}
    if not preferred.reads_dates(forms):
        is_number = F.col(NUMBER).isNotNull()
        examples = accepted.where(F.col(WORDS).isNotNull()).groupBy(is_number).agg(F.min(WORDS)).collect()
        values = [value for value, _ in forms.values()] + [row[1] for row in examples]
        if reason := compared_as_text(values, preferred.date_order):
            log.warning("%r is compared as text: %s", preferred.field, reason)
        return F.col(WORDS)
    reader = preferred.dates(forms, lambda message: log.warning("%s", message))
    return F.udf(partial(_moment, reader), _LARGE)(F.col(WORDS))


def _moment(reader: DateReader, words: str | None) -> Decimal | None:
    moment = None if words is None else reader.moment(words)
    return None if moment is None else Decimal(moment)


def _with_forms(batches: Iterable[pa.RecordBatch], order: DateOrder | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        words = batch.column(WORDS).to_pylist()
        numbers = [as_number(each) if each is not None and is_number(each) else None for each in words]
        integers = [Decimal(each) if each and _INTEGER.fullmatch(each) else None for each in words]
        added = [
            pa.array(numbers, pa.float64()),
            pa.array(integers, pa.decimal128(38, 0)),
            pa.array([each and form_of(each, order) for each in words], pa.string()),
        ]
        names = [*batch.schema.names, NUMBER, INTEGER, FORM]
        yield pa.RecordBatch.from_arrays([*batch.columns, *added], names)


def order_of(df: DataFrame, name: str | None) -> list[Column]:
    """The column that orders the input. Raises UsageError if its type has no order."""
    if name is None:
        return []
    kind = type_of(df, name, "order_column")
    if not isinstance(kind, AtomicType):
        raise UsageError(f"{name!r} is {kind.simpleString()}, which has no order", parameter="order_column")
    return [F.col(name).alias(ORDER)]


def without_repeats(found: DataFrame) -> DataFrame:
    """Reject repeated ids: all documents with a fingerprint except the first, by place in the input."""
    number = F.row_number().over(Window.partitionBy(ID, REASON).orderBy(PLACE))
    repeated = F.col(REASON).isNull() & (number > 1)
    return found.withColumn(REASON, F.when(repeated, F.lit(REPEATED)).otherwise(F.col(REASON)))


def _representatives(
    batches: Iterable[pa.RecordBatch],
    criteria: MatchCriteria,
    least: float,
    min_containment: float | None,
    *,
    chains: bool,
) -> Iterator[pa.RecordBatch]:
    """Documents, sorted by component and preference -> rows with representatives."""
    columns = Columns.of(criteria.profile)
    for rows, texts in _components(batches, criteria, least, min_containment):
        exact = texts.exact() if least else None
        fingerprints, scheme = columns.read(rows), criteria.scheme(len(rows))
        matcher = Matcher(fingerprints, scheme, criteria.bounds, exact)
        found = groups(matcher) if chains else stars(matcher)
        similarity, shares = found.similarity, None
        if min_containment is not None:
            shares = texts.containment(np.arange(len(rows)), found.representative)
        arrays = [
            rows.column(KEY),
            rows.column(ID).take(pa.array(found.representative)),
            pa.array(found.distance.astype(np.int32)),
            pa.nulls(len(rows), pa.float64()) if similarity is None else pa.array(similarity),
            pa.nulls(len(rows), pa.float64()) if shares is None else pa.array(shares),
            pa.array(np.zeros(len(rows), np.bool_) if found.apart is None else found.apart),
            pa.array(found.truncated),
        ]
        yield from pa.Table.from_arrays(arrays, GROUPED.names).to_batches()


def _components(
    batches: Iterable[pa.RecordBatch], criteria: MatchCriteria, least: float, min_containment: float | None
) -> Iterator[tuple[pa.Table, SpooledTexts]]:
    """Whole components, some at a time. Their texts are on disk, if they are compared."""
    names = [KEY, ID, *Columns.of(criteria.profile).names]
    spool = partial(SpooledTexts, criteria.profile, least, Path(gettempdir()), min_containment)
    held: list[pa.RecordBatch] = []
    texts = spool()
    try:
        for rows, begins in at_borders(batches, [COMPONENT]):
            if begins and sum(map(len, held)) >= DOCUMENTS_AT_ONCE:
                yield pa.Table.from_batches(held), texts
                texts.close()
                held, texts = [], spool()
            if least:
                texts.append(decoded(rows.column(TEXT), TEXT)[0])
            held.append(rows.select(names))
        if held:
            yield pa.Table.from_batches(held), texts
    finally:
        texts.close()
