"""Hadoop's own file systems, through the Java objects of a Spark session."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JavaFiles:
    """`storage.Files` of a session that shows Java's objects."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = cast(Any, spark)

    @classmethod
    def are_shown_by(cls, spark: SparkSession) -> bool:
        """Whether the session shows Java's objects: Spark Connect has none, and some platforms forbid them."""
        try:
            cls(spark)._of("file:/")
        except Exception:  # noqa: BLE001 - each platform forbids it with an error of its own
            return False
        return True

    def size(self, uri: str) -> int | None:
        status = self._status(uri)
        return None if status is None or status.isDirectory() else int(status.getLen())

    def is_dir(self, uri: str) -> bool:
        status = self._status(uri)
        return status is not None and bool(status.isDirectory())

    def names(self, uri: str) -> Iterator[str]:
        path, files = self._of(uri)
        if files.exists(path):
            for status in files.listStatus(path):
                yield str(status.getPath().getName())

    def open(self, uri: str) -> io.RawIOBase:
        path, files = self._of(uri)
        try:
            stream = files.open(path)
        except Exception as error:
            raise FileNotFoundError(f"{uri}: can't be opened ({_cause(error)})") from error
        return _Stream(self._spark, stream, int(files.getFileStatus(path).getLen()))

    def sha256(self, uri: str, size: int) -> str:
        # Bytes pass Py4J slowly (tens of MB a second), so that the JVM adds them up.
        path, files = self._of(uri)
        apache = self._spark._jvm.org.apache.commons
        try:
            stream = self._spark._jvm.java.io.BufferedInputStream(files.open(path), 1 << 20)
            try:
                return str(apache.codec.digest.DigestUtils.sha256Hex(apache.io.input.BoundedInputStream(stream, size)))
            finally:
                stream.close()
        except Exception as error:
            raise OSError(f"{uri}: can't be read ({_cause(error)})") from error

    def mkdir(self, uri: str) -> None:
        path, files = self._of(uri)
        files.mkdirs(path)

    def write(self, uri: str, content: bytes) -> None:
        # Hadoop's local file system writes a checksum beside every file, and viewfs can't switch that off.
        path, files = self._of(uri)
        path, files = self._of(f"{files.resolvePath(path.getParent())}/{path.getName()}")
        files.setWriteChecksum(False)
        try:
            stream = files.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        finally:
            files.setWriteChecksum(True)

    def rename(self, uri: str, target: str) -> None:
        path, files = self._of(uri)
        if not files.rename(path, self._path(target)):
            raise OSError(f"{uri} can't be renamed to {target}")

    def remove(self, uri: str) -> None:
        path, files = self._of(uri)
        files.delete(path, True)

    def _status(self, uri: str) -> Any:
        path, files = self._of(uri)
        return files.getFileStatus(path) if files.exists(path) else None

    def _path(self, uri: str) -> Any:
        return self._spark._jvm.org.apache.hadoop.fs.Path(uri)

    def _of(self, uri: str) -> tuple[Any, Any]:
        """A Java path and its file system."""
        path = self._path(uri)
        return path, path.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())


class _Stream(io.RawIOBase):
    """A Hadoop input stream of `size` bytes as what Python's buffered files need: it is read at a position."""

    def __init__(self, spark: Any, stream: Any, size: int) -> None:
        self._whole = spark._jvm.org.apache.commons.io.IOUtils
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        if length:
            self._stream.seek(self._at)
            buffer[:length] = bytes(self._whole.toByteArray(self._stream, length))
            self._at += length
        return length

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _cause(error: Exception) -> str:
    exception = getattr(error, "java_exception", None)
    return str(exception.toString() if exception is not None else error).splitlines()[0]
