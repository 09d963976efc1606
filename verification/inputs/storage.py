"""Where run directories live: a local path, or a URI of a file system that PyArrow knows (s3:, gs:, abfs:, hdfs: …).

Guarantee: a `RemotePath` behaves like a `pathlib.Path` in the few methods that verification needs, without Spark: a bad
run directory is refused before a session starts. Spark reads the tables, under the same URIs.
"""

from __future__ import annotations

import io
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Self, cast

from kafka_chaos.contract.command.errors import EnvironmentFailure, first_line
from kafka_chaos.contract.command.files import write_whole

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(.*)", re.DOTALL)
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes that PyArrow calls otherwise."""


@cache
def _file_system(scheme: str, authority: str) -> tuple[FileSystem, str]:
    """The file system of URIs that begin so, and the path of its root in it."""
    import pyarrow as pa
    from pyarrow import fs

    if scheme == "file":
        return fs.LocalFileSystem(), ""
    root = f"{_SCHEMES.get(scheme, scheme)}://{authority}"
    try:
        system, base = fs.FileSystem.from_uri(f"{root}/")
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = first_line(error)
        raise EnvironmentFailure(f"{scheme}://{authority}: PyArrow can't reach this file system: {problem}") from error
    return system, base.rstrip("/")


@dataclass(unsafe_hash=True)
class RemotePath:
    """A path with a scheme. Its few methods do the same as those of `pathlib.Path`."""

    uri: str

    def __post_init__(self) -> None:
        place = _PLACE.fullmatch(self.uri)
        assert place is not None, self.uri
        self._system, base = _file_system(place[1], place[2] or "")
        # Characters stand for themselves, as in a path of Hadoop: nothing is decoded.
        self._path = f"{base}/{place[3].strip('/')}"

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> Self:
        return type(self)(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.uri.rsplit("/", 1)[-1]

    def with_name(self, name: str) -> Self:
        """A path in the same directory."""
        return type(self)(f"{self.uri.rsplit('/', 1)[0]}/{name}")

    def absolute(self) -> Self:
        """Itself."""
        return self

    def _info(self) -> FileInfo:
        try:
            return self._system.get_file_info(self._path)
        except OSError as error:
            raise EnvironmentFailure(f"{self}: PyArrow can't reach it: {first_line(error)}") from error

    def exists(self) -> bool:
        """Whether there is such a file or directory."""
        return bool(self._info().type.name != "NotFound")

    def is_dir(self) -> bool:
        """Whether there is such a directory."""
        return bool(self._info().type.name == "Directory")

    def glob(self, pattern: str) -> Iterator[Self]:
        """The entries of the directory whose names match `pattern`; none if it does not exist."""
        from pyarrow.fs import FileSelector

        entries = self._system.get_file_info(FileSelector(self._path, allow_not_found=True))
        return (self / entry.base_name for entry in entries if fnmatchcase(entry.base_name, pattern))

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file for reading at any position."""
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, self._system.open_input_file(self._path)), 1 << 16))

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the directory, and those above it, unless it exists."""
        self._system.create_dir(self._path)

    def write_bytes(self, content: bytes) -> None:
        """Write the file, replacing an old one; its directory must exist."""
        with self._system.open_output_stream(self._path) as stream:
            stream.write(content)

    def rename(self, target: RemotePath) -> None:
        """Rename; a folder of an object store, which knows no folders, is copied file by file."""
        from pyarrow.fs import copy_files

        try:
            self._system.move(self._path, target._path)
        except (OSError, NotImplementedError):
            if not self.is_dir():
                raise
            system = self._system
            copy_files(self._path, target._path, source_filesystem=system, destination_filesystem=system)
            self.remove()

    def remove(self) -> None:
        """Remove the file, or the directory with its content, if it exists."""
        if self.is_dir():
            self._system.delete_dir(self._path)
        elif self.exists():
            self._system.delete_file(self._path)


RunPath = Path | RemotePath


def run_path(path: str | RunPath) -> RunPath:
    """The path object: with a scheme, a `RemotePath`, else a local one."""
    if isinstance(path, (Path, RemotePath)):
        return path
    return RemotePath(path.rstrip("/")) if is_remote(path) else Path(path)


def is_remote(path: str | RunPath) -> bool:
    """Whether a path has a scheme: Spark reads its tables, and no other engine."""
    return isinstance(path, RemotePath) or (isinstance(path, str) and _PLACE.match(path) is not None)


def listed(folder: RunPath, pattern: str) -> list[RunPath]:
    """The entries of a folder whose names match `pattern`, sorted; none if it does not exist."""
    return sorted(folder.glob(pattern), key=str)


def remove(path: RunPath) -> None:
    """Remove a file, or a directory with its content, if it exists."""
    if isinstance(path, RemotePath):
        path.remove()
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: RunPath, text: str) -> None:
    """Write a small file under a temporary name, then rename it into place: at once, if the file system's rename is."""
    if not isinstance(path, RemotePath):
        write_whole(path, text)
        return
    fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        fresh.write_bytes(text.encode())
        path.remove()
        fresh.rename(path)
    finally:
        remove(fresh)


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
