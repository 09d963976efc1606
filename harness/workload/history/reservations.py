"""The journal of a load: which records are about to be sent, and which partitions consumers are assigned.

It stays only if the harness died: missing rows are recovered from it. `command/journal.py` has other journals.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

RESERVATIONS = "reservations.jsonl"
LEAST_SEQS = 256
"""The fewest seqs of a reservation: few, since after a crash, reserved seqs that were never sent count as `info`."""


class Reservations:
    """The journal's file, to which each entry is written at once as a line of JSON. Processes may share the file."""

    def __init__(self, run_directory: Path) -> None:
        self._file = (run_directory / RESERVATIONS).open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write an entry: a range of seqs, or, as `assigned`, rows of `assignments/`, without their ends."""
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the journal."""
        self._file.close()


@dataclass(slots=True)
class ReservedSeqs:
    """The seqs that one producer has reserved in the journal, from 0 on."""

    reservations: Reservations
    _: KW_ONLY
    lane: str
    producer_id: int
    transactional_id: object | None
    _end: int = 0

    def reserve_up_to(self, end: int) -> None:
        """Reserve the seqs below `end`, unless they are reserved already; at least `LEAST_SEQS` at once."""
        if end > self._end:
            count = max(LEAST_SEQS, end - self._end)
            entry = {"lane": self.lane, "producer_id": self.producer_id, "first_seq": self._end, "count": count}
            transactional = {} if self.transactional_id is None else {"transactional_id": self.transactional_id}
            self.reservations.write({**entry, "ns": time.monotonic_ns(), **transactional})
            self._end += count


def reservations_in(journal: Path) -> Iterator[Mapping[str, Any]]:
    """The journal's entries, except a last line that a crash cut short: none of its seqs was sent yet."""
    with journal.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
