"""Groups within components: the code of one machine, on each component by itself.

Which documents are near one of another component does not matter: there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StringType, StructField, StructType

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.comparison import ComparedTexts, Comparison
from simhbase.jobs.groups import Compared, Groups, groups, stars
from simhbase.jobs.spark.columns import Columns, at_borders
from simhbase.jobs.spark.components import COMPONENT
from simhbase.jobs.spark.fingerprints import ID, TEXT, decoded

KEY, REPRESENTATIVE, DISTANCE, SIMILARITY = "key", "representative", "distance", "similarity"
DOCUMENTS_AT_ONCE = 1 << 12  # of several components, unless one has more
GROUPED = StructType(
    [
        StructField(KEY, BinaryType()),
        StructField(REPRESENTATIVE, StringType()),
        StructField(DISTANCE, IntegerType()),
        StructField(SIMILARITY, DoubleType()),
    ]
)


@dataclass(frozen=True)
class Grouping:
    """Batches of documents, by component and then from the most preferred to the least -> a row for each with
    its representative.

    least: the similarity of texts from which they are near, 0 where none are compared.
    """

    comparison: Comparison
    least: float
    chains: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            some = _Documents(self, stack)
            for rows, begins in at_borders(batches, [COMPONENT]):
                if begins and some.count >= DOCUMENTS_AT_ONCE:
                    yield from some.grouped()
                    stack.close()
                    some = _Documents(self, stack)
                some.put_aside(rows)
            if some.count:
                yield from some.grouped()

    @property
    def tells_similarity(self) -> bool:
        """Whether it is known how similar two documents are."""
        return bool(self.least) or self.comparison.chosen.sketching is not None

    def texts(self) -> ComparedTexts | None:
        """Where texts are put aside, if they are compared: on disk, whatever one component has."""
        return ComparedTexts(self.comparison.profile, self.least, Path(gettempdir())) if self.least else None


class _Documents:
    """Whole components, put aside until they are grouped."""

    def __init__(self, grouping: Grouping, stack: ExitStack) -> None:
        self._grouping = grouping
        texts = grouping.texts()
        self._texts = stack.enter_context(texts) if texts else None
        self._columns = Columns.of(grouping.comparison.profile)
        self._rows: list[pa.RecordBatch] = []
        self.count = 0

    def put_aside(self, rows: pa.RecordBatch) -> None:
        if self._texts:
            self._texts.put_texts_aside(decoded(rows.column(TEXT), TEXT)[0])
        self._rows.append(rows.select([KEY, ID, *self._columns.names]))
        self.count += len(rows)

    def grouped(self) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(self._rows)
        found = self._groups(self._columns.read(rows))
        similarity = found.similarity
        arrays = [
            rows.column(KEY),
            rows.column(ID).take(pa.array(found.representative)),
            pa.array(found.distance.astype(np.int32)),
            pa.nulls(len(rows), pa.float64()) if similarity is None else pa.array(similarity),
        ]
        batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, GROUPED.names).to_batches()
        return batches

    def _groups(self, fingerprints: FingerprintBatch) -> Groups:
        comparison = self._grouping.comparison
        exact = self._texts.exact() if self._texts else None
        scheme = comparison.scheme(len(fingerprints))
        compared = Compared(fingerprints, scheme, comparison.bounds, exact)
        return groups(compared) if self._grouping.chains else stars(compared)
