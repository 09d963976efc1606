"""Files that appear whole or not at all, whoever reads the folder in the meantime."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED = ".*.part"
"""The names of files that are still being written, or never were to the end, as a pattern."""


@contextmanager
def appearing_whole(path: Path) -> Iterator[Path]:
    """A path of its own beside `path` to write to, which takes `path`'s place when the block ends well."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a text file, in UTF-8; one that is there already is replaced. Raises `OSError`."""
    with appearing_whole(path) as part:
        part.write_text(text, encoding="utf-8")
