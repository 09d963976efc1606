"""File systems as Spark's readers show them: for sessions without Java's objects, such as Spark Connect.

Guarantee: everything that a listing of the directory would show as evidence is listed, too. Spark's readers skip files
whose names begin with _ or . and tell nothing of them but that there are some: then an entry of their kind is listed,
such as `_*.parquet`, or `_nested` for those within a folder. Only an empty folder is not seen. Everything is listed
once and then taken as unchanging. Nothing can be written.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.verification.inputs.file_systems.ranges import RangedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAIL = 1 << 16
"""Bytes of every file's end that are read at once for a whole directory: most footers, and small files as a whole."""
WINDOW = 1 << 23
"""Bytes that are read at once elsewhere."""
LARGEST = 2**31 - 1
"""Bytes of the largest file that Spark's binaryFile reads."""

_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://[^/]*)?")
_PATTERN = re.compile(r"([\\*?{}\[\]])")
_BY_PRODUCTS = {"_SUCCESS": "", "_committed_": "*", "_started_": "*", "_metadata": "*", "_common_metadata": "*"}
"""Files that writers leave in a table's folder: a name, and what may follow it. Spark shows the last two."""


class SparkFiles:
    """`storage.Files` of any session; writing raises `EnvironmentFailure`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._listed: list[str] = []
        self._sizes: dict[str, int] = {}
        self._tails: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}
        self._digesting = threading.Lock()

    def size(self, uri: str) -> int | None:
        self._list(uri)
        return self._sizes.get(_path(uri))

    def is_dir(self, uri: str) -> bool:
        self._list(uri)
        path = _path(uri)
        if path in self._sizes:
            return False
        return any(file.startswith(f"{path}/") for file in self._sizes) or self._exists(_exact(uri))

    def names(self, uri: str) -> Iterator[str]:
        self._list(uri)
        start = f"{_path(uri)}/"
        visible = {file[len(start) :].split("/", 1)[0] for file in self._sizes if file.startswith(start)}
        yield from sorted(visible)
        folder = _exact(uri)
        for name, pattern in (("_*.parquet", _but_for(_BY_PRODUCTS)), (".*.parquet", _DOTTED)):
            if self._exists(f"{folder}/{pattern}"):
                yield name
        nested = any(start + name not in self._sizes for name in visible)
        if not nested and self._exists(f"{folder}/[^_.]*/*"):
            yield "_nested"

    def open(self, uri: str) -> io.RawIOBase:
        size = self.size(uri)
        if size is None:
            raise FileNotFoundError(f"{uri}: no such file")
        if size > LARGEST:
            raise OSError(f"{uri}: {size:,} bytes, but this Spark session gives no way to read a part of such a file")
        path = _path(uri)
        if size and path not in self._tails:
            self._read_tails(uri.rsplit("/", 1)[0])
        return _Ranges(size, lambda start, length: self._range(uri, start, length), self._tails.get(path, b""))

    def sha256(self, uri: str, size: int) -> str:
        if size != self.size(uri) or size == 0:
            return self._digest(f"substring(content, 1, {size})", uri)[uri] if size else hashlib.sha256().hexdigest()
        with self._digesting:
            if uri not in self._digests:
                folder = uri.rsplit("/", 1)[0]
                visible = [f"{folder}/{name}" for name in self.names(folder)]
                self._digests |= self._digest("content", *(file for file in visible if self.size(file)))
        return self._digests[uri]

    def mkdir(self, uri: str) -> NoReturn:
        self._refuse(uri)

    def write(self, uri: str, content: bytes) -> NoReturn:
        self._refuse(uri)

    def rename(self, uri: str, target: str) -> NoReturn:
        self._refuse(uri)

    def remove(self, uri: str) -> NoReturn:
        self._refuse(uri)

    def _refuse(self, uri: str) -> NoReturn:
        raise EnvironmentFailure(
            f"{uri}: this Spark session gives no way to write it: give a path of this machine, "
            "or verify with --no-write (in Python, write=False)"
        )

    # ---------------------------------------------------------- what Spark tells

    def _list(self, uri: str) -> None:
        """Note all files at or below `uri`, unless a directory above it is listed."""
        path = _path(uri)
        if any(path == known or path.startswith(f"{known}/") for known in self._listed):
            return
        if self._exists(_exact(uri)):
            found = self._files(uri)
            # The rows of this source leave out empty files.
            self._sizes.update((_path(unquote(file)), 0) for file in found.inputFiles())
            for row in found.select("path", "length").collect():
                self._sizes[_path(row["path"])] = row["length"]
        self._listed.append(path)

    def _read_tails(self, folder: str) -> None:
        """The ends of the files directly in a folder, in one job."""
        from pyspark.sql import functions as F

        start = f"{_path(folder)}/"
        names = [file[len(start) :] for file in self._sizes if file.startswith(start)]
        files = self._files(*(f"{folder}/{name}" for name in names if "/" not in name)).where(f"length <= {LARGEST}")
        for row in files.select("path", F.expr(f"substring(content, -{TAIL}, {TAIL})").alias("tail")).collect():
            self._tails[_path(row["path"])] = bytes(row["tail"])

    def _digest(self, content: str, *uris: str) -> dict[str, str]:
        """The SHA-256 of these files' content, in one job."""
        from pyspark.sql import functions as F

        if large := [uri for uri in uris if (self.size(uri) or 0) > LARGEST]:
            raise OSError(f"{large[0]}: more than {LARGEST:,} bytes, which this Spark session gives no way to add up")
        rows = self._files(*uris).select("path", F.expr(f"sha2({content}, 256)").alias("digest")).collect()
        by_path = {_path(unquote(row["path"])): row["digest"] for row in rows}
        return {uri: by_path[_path(uri)] for uri in uris}

    def _range(self, uri: str, start: int, length: int) -> bytes:
        from pyspark.sql import functions as F

        (row,) = self._files(uri).select(F.expr(f"substring(content, {start + 1}, {length})").alias("range")).collect()
        return bytes(row["range"])

    def _files(self, *uris: str) -> DataFrame:
        """The files at or below the URIs: path, length, content."""
        reader = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        return reader.load([_exact(uri) for uri in uris])

    def _exists(self, pattern: str) -> bool:
        """Whether anything matches, hidden or not: only then does Spark accept the path."""
        from pyspark.errors import AnalysisException

        try:
            found = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(pattern)
            return bool(found.columns)
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise


class _Ranges(RangedFile):
    """A file of which ranges can be read; `tail`: its end, as far as it is known."""

    def __init__(self, size: int, read: Any, tail: bytes) -> None:
        super().__init__(size)
        self._read = read
        self._known = tail
        self._known_at = size - len(tail)

    def content(self, start: int, length: int) -> bytes:
        skipped = start - self._known_at
        if not 0 <= skipped < len(self._known):
            self._known = self._read(start, max(length, min(WINDOW, self._size - start)))
            self._known_at, skipped = start, 0
        content = self._known[skipped : skipped + length]
        if not content:
            raise OSError("the file is shorter than it was when it was listed")
        return content


def _path(uri: str) -> str:
    """The path without scheme and authority, which Spark writes in its own way."""
    return _PLACE.sub("", uri, count=1).rstrip("/")


def _exact(uri: str) -> str:
    return _PATTERN.sub(r"\\\1", uri.rstrip("/"))


_DOTTED = "{.*[^c],.*[^r]c,.*[^c]rc,.*[^.]crc,.c,.rc}"
"""Names that begin with a dot, but for checksums, as a pattern of Hadoop."""


def _but_for(names: dict[str, str]) -> str:
    """A pattern of Hadoop for names that begin with _, but for these: it has no other way to say so."""
    starts = {name[:length] for name in names for length in range(1, len(name) + 1)}
    patterns = []
    for start in sorted(starts):
        following = {name[len(start)] for name in names if len(name) > len(start) and name.startswith(start)}
        if start not in names:
            patterns += [start, f"{start}[^{''.join(sorted(following))}]*"]
        elif names[start] == "":
            patterns.append(f"{start}?*")
    return f"{{{','.join(patterns)}}}"
