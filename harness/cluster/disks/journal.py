"""The journal of a run's disks: what is done to this machine, written to disk before it is done.

Guarantee: whatever exists of a run's disks is named in its journal, so that healing needs nothing else: no process that
remembers, no Docker engine that answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.harness.journal import JournalFile, journaled_runs

_KIND = "disks"


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Where one node's disk is: its image, and the folder where it is mounted."""

    node: int
    image: Path
    point: Path


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a journal tells: whose run it is, the folder that was made for it, and its disks."""

    run_id: str
    labels: Mapping[str, str]
    folder: Path
    disks: tuple[DiskFiles, ...]


class Journal(JournalFile):
    """The journal of a run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(_KIND, run_id)

    def begin_with(self, labels: Mapping[str, str], folder: Path, disks: tuple[DiskFiles, ...]) -> None:
        """Name the run by its labels, the folder of its disks, and all that will be made there."""
        made = [{"node": disk.node, "image": str(disk.image), "point": str(disk.point)} for disk in disks]
        self.begin({"step": "begin", "labels": dict(labels), "folder": str(folder), "disks": made})

    def note_step(self, step: str, **values: Any) -> None:
        """Write down what is about to be done; returns once that is on disk."""
        self.note({"step": step, **values})


def journals() -> Iterator[Recorded]:
    """What all journals of this user tell, in the order of their runs."""
    for run_id in journaled_runs(_KIND):
        recorded = read_journal(run_id)
        if recorded is not None:
            yield recorded


def read_journal(run_id: str) -> Recorded | None:
    """What a run's journal tells; None where there is none."""
    lines = Journal(run_id).lines()
    if not lines:
        return None
    begin = lines[0]
    disks = tuple(DiskFiles(int(one["node"]), Path(one["image"]), Path(one["point"])) for one in begin["disks"])
    return Recorded(run_id, begin["labels"], Path(begin["folder"]), disks)
