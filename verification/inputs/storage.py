"""Where run directories live: a local path, or any file system that Hadoop knows (file:, hdfs:, s3a:, viewfs: …).

Guarantee: a `HadoopPath` behaves like a `pathlib.Path` in the few methods that verification needs. It uses the
FileSystem objects of the Spark session. So everything that Spark can read with its configuration and credentials can be
listed, read and written here, too, and nothing has to be configured twice.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class HadoopPath:
    """A path with a scheme. Its few methods do the same as those of `pathlib.Path`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri.rstrip("/")

    def __str__(self) -> str:
        return self._uri

    def __repr__(self) -> str:
        return f"HadoopPath({self._uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and other._uri == self._uri

    def __hash__(self) -> int:
        return hash(self._uri)

    def __lt__(self, other: HadoopPath) -> bool:
        return self._uri < other._uri

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self._spark, f"{self._uri}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._uri.rsplit("/", 1)[-1]

    def with_name(self, name: str) -> HadoopPath:
        """A path in the same directory."""
        return HadoopPath(self._spark, f"{self._uri.rsplit('/', 1)[0]}/{name}")

    def absolute(self) -> HadoopPath:
        """Itself."""
        return self

    def exists(self) -> bool:
        """Whether there is such a file or directory."""
        return bool(self._files.exists(self._path))

    def is_dir(self) -> bool:
        """Whether there is such a directory."""
        return self.exists() and bool(self._files.getFileStatus(self._path).isDirectory())

    def size(self) -> int:
        """The file's length in bytes."""
        return int(self._files.getFileStatus(self._path).getLen())

    def glob(self, pattern: str) -> Iterator[HadoopPath]:
        """The entries of the directory whose names match `pattern`; none if it does not exist."""
        if not self.exists():
            return
        for status in self._files.listStatus(self._path):
            name = str(status.getPath().getName())
            if fnmatchcase(name, pattern):
                yield self / name

    def open_binary(self) -> BinaryIO:
        """Open the file for reading at any position."""
        try:
            stream = self._files.open(self._path)
        except Exception as error:
            raise FileNotFoundError(f"{self}: can't be opened ({_cause(error)})") from error
        size = int(self._files.getFileStatus(self._path).getLen())
        return cast(BinaryIO, io.BufferedReader(_Stream(self._spark, stream, size), 1 << 16))

    def read_text(self, encoding: str) -> str:
        """The content of the file."""
        with self.open_binary() as file:
            return file.read().decode(encoding)

    def open(self, encoding: str) -> io.StringIO:
        """The content of the file as text."""
        return io.StringIO(self.read_text(encoding))

    def mkdir(self) -> None:
        """Make the directory."""
        self._files.mkdirs(self._path)

    def write_bytes(self, content: bytes) -> None:
        """Write the file, replacing an old one; its directory must exist."""
        # Hadoop's local file system writes a checksum beside every file, and viewfs can't switch that off.
        folder = self._files.resolvePath(self._path.getParent())
        path, files = self._java_path(f"{folder}/{self.name}"), self._files_of(folder)
        files.setWriteChecksum(False)
        try:
            stream = files.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        finally:
            files.setWriteChecksum(True)

    def replace(self, target: HadoopPath) -> None:
        """Rename, replacing a file at `target`. It is atomic only if the file system's rename is."""
        target.remove()
        self.rename(target)

    def rename(self, target: HadoopPath) -> None:
        """Rename; OSError if the file system refuses."""
        if not self._files.rename(self._path, target._path):
            raise OSError(f"{self} can't be renamed to {target}")

    def remove(self) -> None:
        """Remove the file, or the directory with its content, if it exists."""
        self._files.delete(self._path, True)

    @property
    def _path(self) -> Any:
        return self._java_path(self._uri)

    @property
    def _files(self) -> Any:
        return self._files_of(self._path)

    def _java_path(self, uri: str) -> Any:
        return cast(Any, self._spark._jvm).org.apache.hadoop.fs.Path(uri)

    def _files_of(self, path: Any) -> Any:
        session = cast(Any, self._spark)._jsparkSession
        return path.getFileSystem(session.sessionState().newHadoopConf())


class _Stream(io.RawIOBase):
    """A Hadoop input stream as a Python file."""

    def __init__(self, spark: SparkSession, stream: Any, size: int) -> None:
        self._whole = cast(Any, spark._jvm).org.apache.commons.io.IOUtils
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        self._stream.seek(self._at)
        content = bytes(self._whole.toByteArray(self._stream, wanted))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


RunPath = Path | HadoopPath


def run_path(path: str | Path | HadoopPath, spark: SparkSession | None = None) -> RunPath:
    """The path object: with a scheme, a `HadoopPath` of `spark` (default, the process's session); else a local one."""
    if isinstance(path, (Path, HadoopPath)):
        return path
    if not is_remote(path):
        return Path(path)
    if spark is None:
        from kafka_chaos.verification.spark.session import spark_session

        spark = spark_session()
    return HadoopPath(spark, path)


def is_remote(path: str | Path | HadoopPath) -> bool:
    """Whether a path has a scheme and so belongs to Hadoop."""
    return isinstance(path, HadoopPath) or (isinstance(path, str) and _SCHEME.match(path) is not None)


def open_binary(path: RunPath) -> BinaryIO:
    """The file's bytes, on any file system."""
    return path.open_binary() if isinstance(path, HadoopPath) else path.open("rb")


def listed(folder: RunPath, pattern: str) -> list[RunPath]:
    """The entries of a folder whose names match `pattern`, sorted; none if it does not exist."""
    return sorted(folder.glob(pattern), key=str)


def size_of(path: RunPath) -> int:
    """The file's length in bytes."""
    return path.size() if isinstance(path, HadoopPath) else path.stat().st_size


def exact(path: RunPath) -> str:
    """The path for Spark's readers, escaped because they expand patterns (`run[1]`, `run{a,b}`)."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", str(path.absolute()))


def remove(path: RunPath) -> None:
    """Remove a file, or a directory with its content, if it exists."""
    import shutil

    if isinstance(path, HadoopPath):
        path.remove()
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_parquet(frame: DataFrame, folder: RunPath) -> None:
    """Write a table as a new folder of Parquet files, without the checksums of Hadoop's local file system."""
    frame.write.parquet(str(folder.absolute()))
    for leftover in listed(folder, ".*.crc"):
        remove(leftover)


def replace_folder(fresh: RunPath, final: RunPath) -> None:
    """Rename a folder, replacing the one that is there; both live on one file system."""
    old = final.with_name(f".{final.name}-old-{uuid.uuid4().hex}")
    if final.exists():
        final.rename(old)  # type: ignore[arg-type]
    fresh.rename(final)  # type: ignore[arg-type]
    remove(old)


def _cause(error: Exception) -> str:
    exception = getattr(error, "java_exception", None)
    return str(exception.toString() if exception is not None else error).splitlines()[0]
