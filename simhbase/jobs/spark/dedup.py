"""The near-duplicates within a DataFrame, as `simhbase.dedup` finds them within files.

Spark does what takes long for all documents: fingerprints, the join by drawers. That connects fingerprints to
components (`components`), whose documents come together, with their texts, in one task, where the code of
`simhbase.dedup` decides (`grouping`): so the answer is its answer. Copies of one text are one document on the
way there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from simhbase.jobs.comparison import Comparison
from simhbase.jobs.representative import preference
from simhbase.jobs.spark.columns import Columns
from simhbase.jobs.spark.components import COMPONENT, verified_by, with_components
from simhbase.jobs.spark.documents import PLACE, order_of, without_repeats
from simhbase.jobs.spark.fingerprints import (
    ID,
    IDENTITY,
    REASON,
    TEXT,
    fingerprinted,
    id_of,
    text_of,
)
from simhbase.jobs.spark.grouping import DISTANCE, GROUPED, KEY, REPRESENTATIVE, SIMILARITY, Grouping
from simhbase.jobs.spark.preferred import MOMENT, NUMBER, WORDS, most_preferred_first, values_of, with_numbers
from simhbase.profile import Profile

DIGEST, GROUP = "place.digest", "group"
_OWN_PLACE = "__simhbase_place"  # among the columns of somebody else
_NUMBER = "__number"
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class SparkReport:
    """What was found: see `simhbase.DedupReport`."""

    documents: int
    unique: int
    duplicates: int
    groups: int
    rejected: int


@dataclass(frozen=True)
class Deduplicated:
    """What was found in a DataFrame. The frames are kept by Spark until `unpersist`.

    documents: a row for each that was not rejected: id, representative (its own id where it is kept),
    distance and similarity to that (null where nothing tells it), and group, the id of the group's first
    document. rejects: id and reason of the others. unique: the rows of the DataFrame that are kept, with all
    their columns. held: what Spark keeps.
    """

    documents: DataFrame
    rejects: DataFrame
    unique: DataFrame
    held: tuple[DataFrame, ...]

    @property
    def duplicates(self) -> DataFrame:
        """A row for each document that is not kept: id, duplicate_of, distance, similarity, group."""
        others = self.documents.where(F.col(ID) != F.col(REPRESENTATIVE))
        return others.withColumnRenamed(REPRESENTATIVE, "duplicate_of")

    def report(self) -> SparkReport:
        """Counts them."""
        kept = F.count_if(F.col(ID) == F.col(REPRESENTATIVE))
        led = F.count_distinct(F.when(F.col(ID) != F.col(REPRESENTATIVE), F.col(REPRESENTATIVE)))
        documents, unique, groups = self.documents.agg(F.count("*"), kept, led).head() or (0, 0, 0)
        rejected = self.rejects.count()
        return SparkReport(documents + rejected, unique, documents - unique, groups, rejected)

    def unpersist(self) -> None:
        """Lets Spark forget what it keeps; afterwards the frames are computed anew where they are used."""
        for frame in self.held:
            frame.unpersist()


def dedup(
    df: DataFrame,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_column: str = "id",
    text_column: str = "text",
    order_column: str | None = None,
    min_similarity: float | None = None,
    keep: str = "first",
    date_column: str = "date",
    chains: bool = False,
) -> Deduplicated:
    """Finds the near-duplicates within one DataFrame: the same as `simhbase.dedup`, which has the meaning of
    profile, min_similarity, keep (date_column is its date_field) and chains.

    order_column: what the input's order is by, as a DataFrame has none: the document with the least value
    comes first, and of equal ones that with the least id; None: by the ids, as texts. Partitions change
    nothing. Of one id the first document counts, and the others are rejected, as are null and empty ids, and
    texts that are null, no UTF-8 or have too few features.

    `df` is read again for the texts that are compared, and for `unique`: it must be the same each time (no
    `rand()`, no sample). Documents that matches connect, however many, are grouped by one task, with the
    memory that `simhbase.dedup` needs for them and their texts on its disk (TMPDIR). Raises UsageError for
    what does not go together, before anything is read; BadInput where no document has what `keep` names;
    SimhbaseError where more than 25 million fingerprints have a match, which the driver cannot join.
    """
    comparison, least = Comparison.exact(profile, min_similarity)
    preferred = preference(keep, date_column)
    rows = _InputRows(df, id_of(df, id_column), text_of(df, text_column), order_of(df, order_column))
    columns = Columns.of(comparison.profile)
    read = rows.read(values_of(df, rows.text, preferred))
    found = with_numbers(fingerprinted(read, comparison.profile, verified_by(comparison)))
    documents = without_repeats(found).persist()
    accepted = documents.where(F.col(REASON).isNull())
    accepted = accepted.withColumn(KEY, F.col(DIGEST) if least else F.concat(*columns.names))
    order = [*most_preferred_first(accepted, preferred), F.col(PLACE)]
    firsts = with_components(_firsts(accepted, order), comparison, columns).persist()
    grouped = _grouped(firsts, rows, Grouping(comparison, least, chains), order)
    answers = _answers(accepted, grouped, led_by_first=preferred is None).persist()
    rejects = documents.where(F.col(REASON).isNotNull()).select(ID, REASON)
    return Deduplicated(answers.drop(PLACE), rejects, rows.kept(answers), (documents, firsts, answers))


@dataclass(frozen=True)
class _InputRows:
    """The rows of a DataFrame, with what they are read by."""

    df: DataFrame
    id: Column
    text: Column
    order: list[Column]

    @property
    def place(self) -> Column:
        """Where a row is in the input: the same of rows only that are equal in all that counts."""
        return F.struct(*self.order, self.id.alias(ID), self.digest.alias("digest"))

    @property
    def digest(self) -> Column:
        """The same of texts that are equal. Spark makes it, so that a text comes to Python but once."""
        return F.substring(F.unhex(F.sha2(self.text, 256)), 1, _DIGEST_BYTES)

    def read(self, values: list[Column]) -> DataFrame:
        return self.df.select(self.id.alias(ID), self.place.alias(PLACE), *values, self.text.alias(TEXT))

    def texts(self, of: DataFrame) -> DataFrame:
        """Each text of some documents once, by its digest."""
        everything = self.df.select(self.digest.alias(KEY), self.text.alias(TEXT))
        return everything.join(of.select(KEY), KEY, "left_semi").dropDuplicates([KEY])

    def kept(self, answers: DataFrame) -> DataFrame:
        """Those that stand for themselves, as they are in the DataFrame."""
        places = answers.where(F.col(ID) == F.col(REPRESENTATIVE)).select(F.col(PLACE).alias(_OWN_PLACE))
        rows = self.df.withColumn(_OWN_PLACE, self.place)
        return rows.join(places, _OWN_PLACE, "left_semi").dropDuplicates([_OWN_PLACE]).drop(_OWN_PLACE)


def _firsts(accepted: DataFrame, order: list[Column]) -> DataFrame:
    """Of the same documents the most preferred."""
    number = F.row_number().over(Window.partitionBy(KEY).orderBy(*order))
    return accepted.withColumn(_NUMBER, number).where(F.col(_NUMBER) == 1).drop(_NUMBER)


def _grouped(firsts: DataFrame, rows: _InputRows, grouping: Grouping, order: list[Column]) -> DataFrame:
    """The representative of each, and what is known of the two."""
    sizes = firsts.groupBy(COMPONENT).count().where("count > 1").select(COMPONENT)
    several = firsts.join(sizes, COMPONENT, "left_semi")
    if grouping.least:
        several = several.join(rows.texts(several), KEY)
    by_component = several.repartition(COMPONENT).sortWithinPartitions(COMPONENT, *order)
    needed = by_component.drop(PLACE, IDENTITY, REASON, NUMBER, MOMENT, WORDS)
    similarity = F.lit(1.0 if grouping.tells_similarity else None).cast("double")
    alone = firsts.join(sizes, COMPONENT, "left_anti").select(
        KEY, F.col(ID).alias(REPRESENTATIVE), F.lit(0).alias(DISTANCE), similarity.alias(SIMILARITY)
    )
    return needed.mapInArrow(grouping, GROUPED).unionByName(alone)


def _answers(accepted: DataFrame, grouped: DataFrame, *, led_by_first: bool) -> DataFrame:
    """A row for each document, with its place."""
    found = accepted.select(ID, PLACE, KEY).join(grouped, KEY).drop(KEY)
    if led_by_first:
        return found.withColumn(GROUP, F.col(REPRESENTATIVE))
    names = found.groupBy(REPRESENTATIVE).agg(F.min_by(ID, PLACE).alias(GROUP))
    return found.join(names, REPRESENTATIVE).select(ID, PLACE, REPRESENTATIVE, DISTANCE, SIMILARITY, GROUP)
