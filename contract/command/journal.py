"""Journals of changes to a machine or a cluster. Each change is noted on disk before it is made, so that
`kafka-chaos clean` can undo (heal) what a killed run left behind.

Guarantee: a journal appears whole with its first line, its lines are on disk when `note` returns, and it is removed
once all is healed. Only this user may write to its folder, since the lines say what `clean` does.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.files import appearing_whole, state_home

_ENDING = ".jsonl"


class JournalFile:
    """The journal of a run, of one `kind`, such as `disks`."""

    def __init__(self, kind: str, run_id: str) -> None:
        self.path = journal_folder(kind) / f"{run_id}{_ENDING}"

    def begin(self, line: Mapping[str, Any]) -> None:
        """Create the journal with its first line."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with appearing_whole(self.path) as part:
            part.touch(mode=0o600)
            _append(part, line)
        # The folder has to be on disk, too: it has the journal's name.
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def note(self, line: Mapping[str, Any]) -> None:
        """Add a line; returns once it is on disk."""
        _append(self.path, line)

    def lines(self) -> list[dict[str, Any]]:
        """The journal's lines; none if there is no journal. A last line that a crash cut short is left out."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def end(self) -> None:
        """Remove the journal, because all is healed."""
        self.path.unlink(missing_ok=True)


def journaled_runs(kind: str) -> Iterator[str]:
    """The ids of this user's runs that have a journal of this kind."""
    for path in sorted(journal_folder(kind).glob(f"*{_ENDING}")):
        yield path.name.removesuffix(_ENDING)


def journal_folder(kind: str) -> Path:
    """The folder of the journals of a kind."""
    return state_home() / kind


def _append(path: Path, line: Mapping[str, Any]) -> None:
    # Without O_CREAT: a journal that has ended does not begin again.
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
        os.fsync(file)
    finally:
        os.close(file)
