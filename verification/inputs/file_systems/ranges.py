"""A file of a known size that is read at a position: what Python's buffered files need, whoever holds the bytes."""

import io
from abc import abstractmethod
from typing import Any


class RangedFile(io.RawIOBase):
    """A read-only file of `size` bytes; `content(start, length)` gives up to `length` of them, at least one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    @abstractmethod
    def content(self, start: int, length: int) -> bytes:
        """The bytes from `start` on."""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; returns it."""
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the position on; returns the number of bytes, 0 at the end."""
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        content = self.content(self._at, wanted)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
