"""The journal of a run's disks: what is done to this machine, written to disk before it is done.

Guarantee: whatever exists of a run's disks is named in its journal, so that healing needs nothing else: no process that
remembers, no Docker engine that answers. A journal appears whole with its first line, and goes once all is healed. It
lies in a folder of this user alone: whoever could write there could let `kafka-chaos clean` remove any file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.files import appearing_whole

_ENDING = ".jsonl"


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Where one broker's disk is: its image, and the folder where it is mounted."""

    broker: int
    image: Path
    point: Path


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a journal tells: whose run it is, the folder that was made for it, and its disks."""

    run_id: str
    labels: Mapping[str, str]
    folder: Path
    disks: tuple[DiskFiles, ...]


class Journal:
    """The journal of a run."""

    def __init__(self, run_id: str) -> None:
        self.path = journal_folder() / f"{run_id}{_ENDING}"

    def begin(self, labels: Mapping[str, str], folder: Path, disks: tuple[DiskFiles, ...]) -> None:
        """Name the run by its labels, the folder of its disks, and all that will be made there."""
        made = [{"broker": disk.broker, "image": str(disk.image), "point": str(disk.point)} for disk in disks]
        journal_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        with appearing_whole(self.path) as part:
            part.touch(mode=0o600)
            _append(part, {"step": "begin", "labels": dict(labels), "folder": str(folder), "disks": made})
        _flush_folder(self.path.parent)

    def note(self, step: str, **values: Any) -> None:
        """Write down what is about to be done; returns once that is on disk."""
        _append(self.path, {"step": step, **values})

    def end(self) -> None:
        """All is healed: remove the journal."""
        self.path.unlink(missing_ok=True)


def journals() -> Iterator[Recorded]:
    """What all journals of this user tell, in the order of their runs."""
    for path in sorted(journal_folder().glob(f"*{_ENDING}")):
        recorded = read_journal(path.name.removesuffix(_ENDING))
        if recorded is not None:
            yield recorded


def read_journal(run_id: str) -> Recorded | None:
    """What a run's journal tells; None where there is none."""
    try:
        lines = Journal(run_id).path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    # Only the last line can be torn, and the first appeared whole.
    begin = json.loads(lines[0])
    disks = tuple(DiskFiles(int(one["broker"]), Path(one["image"]), Path(one["point"])) for one in begin["disks"])
    return Recorded(run_id, begin["labels"], Path(begin["folder"]), disks)


def journal_folder() -> Path:
    """Where journals are: below KAFKA_CHAOS_STATE, XDG_STATE_HOME or ~/.local/state."""
    home = os.environ.get("KAFKA_CHAOS_STATE")
    if home is None:
        base = os.environ.get("XDG_STATE_HOME")
        home = str((Path(base) if base else Path.home() / ".local" / "state") / "kafka-chaos")
    return Path(home) / "disks"


def _append(path: Path, line: Mapping[str, Any]) -> None:
    # Without O_CREAT: a journal that has ended does not begin again.
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
        os.fsync(file)
    finally:
        os.close(file)


def _flush_folder(folder: Path) -> None:
    entry = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
