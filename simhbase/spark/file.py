"""A file of any file system that Spark knows, read by the driver."""

from __future__ import annotations

from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark import SparkContext


class FileOfSpark(RawIOBase):
    """A file, read through Java. size: in bytes."""

    def __init__(self, java: Any, stream: Any, size: int) -> None:
        self._java, self._stream, self.size = java, stream, size
        self._place = 0

    @classmethod
    def open(cls, context: SparkContext, uri: str) -> Self:
        """Open it. Raises as Java."""
        java: Any = context._jvm
        path = java.org.apache.hadoop.fs.Path(uri)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        return cls(java, files.open(path), files.getFileStatus(path).getLen())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._place = offset + {SEEK_SET: 0, SEEK_CUR: self._place, SEEK_END: self.size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        wanted = memoryview(buffer)
        count = max(min(len(wanted), self.size - self._place), 0)
        if count:
            self._stream.seek(self._place)
            wanted[:count] = self._java.org.apache.commons.io.IOUtils.toByteArray(self._stream, count)
            self._place += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
