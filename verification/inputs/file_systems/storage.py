"""Where run directories live: a local path, or any file system that Hadoop knows (file:, hdfs:, s3a:, viewfs: …).

Guarantee: a `HadoopPath` behaves like a `pathlib.Path` in the few methods that verification needs. It goes through the
Spark session. So everything that Spark can read with its configuration and credentials can be listed and read here,
too, and nothing has to be configured twice, unless the session hides Java's objects (`files_of`).
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast

from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.run_directory import sha256_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Files(Protocol):
    """The operations of a session's file systems, by URI."""

    def size(self, uri: str) -> int | None:
        """The length of a file in bytes; None if there is no such file."""

    def is_dir(self, uri: str) -> bool:
        """Whether there is such a directory."""

    def names(self, uri: str) -> Iterator[str]:
        """The names in a directory; none if it does not exist."""

    def open(self, uri: str) -> io.RawIOBase:
        """Open a file for reading at any position; `OSError` if that is not possible."""

    def sha256(self, uri: str, size: int) -> str:
        """The SHA-256, in hexadecimal, of the first `size` bytes of a file; `OSError` if they can't be read."""

    def mkdir(self, uri: str) -> None:
        """Make a directory, and those above it."""

    def write(self, uri: str, content: bytes) -> None:
        """Write a file, replacing an old one; its directory must exist."""

    def rename(self, uri: str, target: str) -> None:
        """Rename a file or directory; `OSError` if the file system refuses."""

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with its content, if it exists."""


class HadoopPath:
    """A path with a scheme. Its few methods do the same as those of `pathlib.Path`."""

    def __init__(self, files: Files, uri: str) -> None:
        self._files = files
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
        return HadoopPath(self._files, f"{self._uri}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._uri.rsplit("/", 1)[-1]

    def with_name(self, name: str) -> HadoopPath:
        """A path in the same directory."""
        return HadoopPath(self._files, f"{self._uri.rsplit('/', 1)[0]}/{name}")

    def absolute(self) -> HadoopPath:
        """Itself."""
        return self

    def exists(self) -> bool:
        """Whether there is such a file or directory."""
        return self._files.size(self._uri) is not None or self.is_dir()

    def is_dir(self) -> bool:
        """Whether there is such a directory."""
        return self._files.is_dir(self._uri)

    def size(self) -> int:
        """The file's length in bytes."""
        size = self._files.size(self._uri)
        if size is None:
            raise FileNotFoundError(f"{self}: no such file")
        return size

    def glob(self, pattern: str) -> Iterator[HadoopPath]:
        """The entries of the directory whose names match `pattern`; none if it does not exist."""
        return (self / name for name in self._files.names(self._uri) if fnmatchcase(name, pattern))

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file for reading at any position."""
        return cast(BinaryIO, io.BufferedReader(self._files.open(self._uri), 1 << 16))

    def sha256(self, size: int) -> str:
        """The SHA-256 of its first `size` bytes, which no byte of it leaves the file system's side for."""
        return self._files.sha256(self._uri, size)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the directory, and those above it, unless it exists."""
        self._files.mkdir(self._uri)

    def write_bytes(self, content: bytes) -> None:
        """Write the file, replacing an old one; its directory must exist."""
        self._files.write(self._uri, content)

    def rename(self, target: HadoopPath) -> None:
        """Rename; OSError if the file system refuses."""
        self._files.rename(self._uri, target._uri)

    def remove(self) -> None:
        """Remove the file, or the directory with its content, if it exists."""
        self._files.remove(self._uri)


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
    return HadoopPath(files_of(spark), path)


def files_of(spark: SparkSession) -> Files:
    """Hadoop's own file systems; where a session hides Java's objects, PyArrow's."""
    from kafka_chaos.verification.inputs.file_systems.arrow_files import ArrowFiles
    from kafka_chaos.verification.inputs.file_systems.java_files import JavaFiles

    return JavaFiles(spark) if JavaFiles.are_shown_by(spark) else ArrowFiles()


def is_remote(path: str | Path | HadoopPath) -> bool:
    """Whether a path has a scheme and so belongs to Hadoop."""
    return isinstance(path, HadoopPath) or (isinstance(path, str) and _SCHEME.match(path) is not None)


def digest_of(path: RunPath, size: int) -> str:
    """The SHA-256, in hexadecimal, of the first `size` bytes of the file; of all, where there are fewer."""
    if isinstance(path, HadoopPath):
        return path.sha256(size)
    with path.open("rb") as content:
        return sha256_of(content, size)


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


def write_text(path: RunPath, text: str) -> None:
    """Write a small file under a temporary name, then rename it into place: at once, if the file system's rename is."""
    if not isinstance(path, HadoopPath):
        write_whole(path, text)
        return
    fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        fresh.write_bytes(text.encode())
        path.remove()
        fresh.rename(path)
    finally:
        remove(fresh)


def write_parquet(frame: DataFrame, folder: RunPath) -> None:
    """Write a table as a new folder of Parquet files, without the checksums of Hadoop's local file system."""
    frame.write.parquet(str(folder.absolute()))
    for leftover in listed(folder, ".*.crc"):
        remove(leftover)


def rename(path: RunPath, target: RunPath) -> None:
    """Rename a file or folder on its file system; there must be nothing at `target`."""
    path.rename(target)  # type: ignore[arg-type]


def replace_folder(fresh: RunPath, final: RunPath) -> None:
    """Rename a folder, replacing the one that is there; both live on one file system."""
    old = final.with_name(f".{final.name}-old-{uuid.uuid4().hex}")
    if final.exists():
        rename(final, old)
    rename(fresh, final)
    remove(old)
