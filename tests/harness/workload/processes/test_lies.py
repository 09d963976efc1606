"""No lie of a client conforms: its word is compared with the brokers' log."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from kafka_chaos.contract.anomalies import Verdict
from tests.harness.workload.processes.test_processes import Produced
from tests.verification.samples.engines import verified_by_duckdb
from tests.verification.samples.run_dirs import Rows

RECORDS, PRODUCER = 6, 3


@dataclass(frozen=True)
class Lie:
    """The client's words, the change of the brokers' log and of the reads, and the verdict's reason."""

    says: str
    reason: str
    is_silent: bool = False
    truth: Callable[[Rows], object] = lambda rows: None


def lost(*seqs: int) -> Callable[[Rows], object]:
    """These records were never sent."""

    def change(rows: Rows) -> None:
        for table in (rows.log or [], rows.consumed):
            table[:] = [row for row in table if row["seq"] not in seqs]

    return change


def also(seq: int, offset: int, producer_id: int = PRODUCER) -> Callable[[Rows], object]:
    """Another record is in partition 0 at this offset."""

    def change(rows: Rows) -> None:
        where = {"lane": "orders", "partition": 0, "producer_id": producer_id}
        rows.store(offset, seq, **where).read(offset, seq, **where)

    return change


def told(offsets: str) -> str:
    return f"def produced(order): tell('outcome', outcome='ok', seq=[0, 1, 2, 3, 4, 5], offset={offsets})"


TRUE = "[0, 0, 1, 1, 2, 2]"
LIES = {
    "an outcome without a send": Lie(told(TRUE), "lost_write", truth=lost(4, 5)),
    "an outcome without a send, nor an offset": Lie(told("[0, 0, 1, 1, None, None]"), "lost_write", truth=lost(4, 5)),
    "the offset of another record": Lie(told("[0, 0, 1, 1, 1, 2]"), "offset_mismatch"),
    "offsets exchanged": Lie(told("[1, 0, 0, 1, 2, 2]"), "offset_mismatch"),
    "an offset past the end": Lie(told("[0, 0, 1, 1, 2, 99]"), "offset_mismatch"),
    "a record sent twice": Lie(told(TRUE), "duplicate", truth=also(0, 3)),
    "a record that it was not given": Lie(told(TRUE), "phantom", truth=also(77, 3)),
    "a record of another lane": Lie(told(TRUE), "phantom", truth=also(-1, 3, -1)),
    # In place of all that breaks the protocol (test_processes.py): each such problem is told of in the same way.
    "silence about one": Lie(
        "def produced(order): tell('outcome', outcome='ok', seq=[0, 1, 2, 4, 5], offset=[0, 0, 1, 2, 2])",
        "1 of 6 records never got an outcome",
        is_silent=True,
    ),
    "certain failures of what is written": Lie(
        "def produced(order): tell('outcome', outcome='fail', seq=[0, 1, 2, 3, 4, 5], error='TooLarge')",
        "false_failure",
    ),
    "reads that it made up": Lie(
        told(TRUE), "inconsistent_offset", truth=lambda rows: rows.consumed[0].update(seq=4, poll_ns=rows.tick())
    ),
    "reads that it leaves out": Lie(told(TRUE), "unseen", truth=lambda rows: rows.consumed.pop(0)),
}


def verdict_on(lie: Lie, folder: Path) -> tuple[Verdict, str]:
    timeout, answers = (0.3, RECORDS - 1) if lie.is_silent else (20.0, 0)
    made = Produced(lie.says, folder, records=RECORDS, timeout=timeout, answers=answers)
    rows = Rows(lanes=[{"lane": "orders", "partitions": 2, "client": {"name": "own"}}], clock=time.monotonic_ns())
    rows.produced = cast("list[dict[str, object]]", None)  # as the recorder wrote them
    for seq in range(RECORDS):
        where = {"lane": "orders", "partition": seq % 2, "producer_id": PRODUCER}
        rows.store(seq // 2, seq, **where).read(seq // 2, seq, **where)
    lie.truth(rows)
    rows.event("client_started", lane="orders", role="producer", client="fake", version="1.2")
    for problem in made.started.problems:
        rows.event("client_failed", lane="orders", role="producer", problem=problem, last_lines=[])
    (lane,) = verified_by_duckdb(rows.write(folder)).lanes
    return lane.verdict, "; ".join(lane.reasons)


def test_the_truth_conforms(tmp_path: Path) -> None:
    assert verdict_on(Lie(told(TRUE), ""), tmp_path) == (Verdict.CONFORMS, "")


@pytest.mark.parametrize(
    "what", [pytest.param(name, marks=[pytest.mark.slow] if at % 2 else []) for at, name in enumerate(LIES)]
)
def test_no_lie_conforms(what: str, tmp_path: Path) -> None:
    lie = LIES[what]
    verdict, reasons = verdict_on(lie, tmp_path)
    assert lie.reason in reasons
    assert verdict == (Verdict.UNKNOWN if lie.is_silent else Verdict.VIOLATION)
