"""Writes files that readers see whole or not at all, reads files of packages, and names the user's own folders."""

import fcntl
import os
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure

UNFINISHED_GLOB = ".*.part"  # the names of files that are still being written, or whose writer died


def cache_home() -> Path:
    """The folder for downloads and predictions: KAFKA_CHAOS_CACHE, or kafka-chaos in XDG_CACHE_HOME or ~/.cache."""
    return _folder_of_user("KAFKA_CHAOS_CACHE", "XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """The folder for journals of faults: KAFKA_CHAOS_STATE, or kafka-chaos in XDG_STATE_HOME or ~/.local/state."""
    return _folder_of_user("KAFKA_CHAOS_STATE", "XDG_STATE_HOME", ".local/state")


def _folder_of_user(variable: str, xdg_variable: str, in_home: str) -> Path:
    folder, base = os.environ.get(variable), os.environ.get(xdg_variable, "")
    if folder is not None:
        return Path(folder)
    # By the XDG Base Directory Specification, relative paths are ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / in_home) / "kafka-chaos"


@contextmanager
def appearing_whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path for a file or folder. After the block, moves it to `path`; on an error, removes it."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder for the block; the process's death also unlocks it. Raises `BlockingIOError` if already locked."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """Write a text file in UTF-8; it replaces a file that has this path. Raises `OSError`."""
    with appearing_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def text_of(path: Path) -> str:
    """The text of a file in UTF-8; raises `UsageFailure` if it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{path}: can't be read: byte {error.start} is not UTF-8") from None


def package_toml(package: str | None, name: str) -> dict[str, Any]:
    """The values of a TOML file of a package; `package` as in `package_text`."""
    return tomllib.loads(package_text(package, name))


def package_text(package: str | None, name: str) -> str:
    """The text of a file of a package (a folder, a wheel or a zip file). `package`: the caller's `__package__`."""
    return files(str(package)).joinpath(name).read_text(encoding="utf-8")  # None only in a file that is run as a script
