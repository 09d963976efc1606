"""PyArrow's file systems (file:, s3:, gs:, abfs:, hdfs: …), for sessions without Java's objects, such as Spark Connect.

This process reads documents, footers and digests itself then, with credentials of its own.
"""

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, cast

import pyarrow as pa
from pyarrow import fs

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.run_directory import sha256_of

_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes that PyArrow calls otherwise."""


class ArrowFiles:
    """`storage.Files` without a session."""

    def __init__(self) -> None:
        self._roots: dict[str, tuple[fs.FileSystem, str]] = {"file://": (fs.LocalFileSystem(), "")}

    def size(self, uri: str) -> int | None:
        info = self._info(uri)
        return cast(int, info.size) if info.type == fs.FileType.File else None

    def is_dir(self, uri: str) -> bool:
        return bool(self._info(uri).type == fs.FileType.Directory)

    def names(self, uri: str) -> Iterator[str]:
        system, path = self._of(uri)
        for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            yield info.base_name

    def open(self, uri: str) -> io.RawIOBase:
        system, path = self._of(uri)
        return cast(io.RawIOBase, system.open_input_file(path))

    def sha256(self, uri: str, size: int) -> str:
        with self.open(uri) as content:
            return sha256_of(cast(BinaryIO, content), size)

    def mkdir(self, uri: str) -> None:
        system, path = self._of(uri)
        system.create_dir(path)

    def write(self, uri: str, content: bytes) -> None:
        system, path = self._of(uri)
        with system.open_output_stream(path) as stream:
            stream.write(content)

    def rename(self, uri: str, target: str) -> None:
        system, path = self._of(uri)
        system.move(path, self._of(target)[1])

    def remove(self, uri: str) -> None:
        system, path = self._of(uri)
        if self.is_dir(uri):
            system.delete_dir(path)
        elif self.size(uri) is not None:
            system.delete_file(path)

    def _info(self, uri: str) -> fs.FileInfo:
        system, path = self._of(uri)
        return system.get_file_info(path)

    def _of(self, uri: str) -> tuple[fs.FileSystem, str]:
        """A file system, and the path in it."""
        place = _PLACE.fullmatch(uri)
        assert place is not None, uri
        root = f"{_SCHEMES.get(place[1], place[1])}://{place[2] or ''}"
        if root not in self._roots:
            try:
                self._roots[root] = fs.FileSystem.from_uri(f"{root}/")
            except (pa.ArrowException, OSError, ValueError) as error:
                problem = f"{uri}: PyArrow can't reach it, and this Spark session shows no file system: {error}"
                raise EnvironmentFailure(problem) from error
        system, base = self._roots[root]
        return system, f"{base.rstrip('/')}/{place[3].lstrip('/')}"
