"""Reports of members become rows of the history, also those of a member that died."""

from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.groups.rows import LoopRows
from kafka_chaos.harness.workload.history.recovery import recover
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in

Row = dict[str, Any]


class WrittenRecords:
    """The rows of one member, `dies` or not after what it told."""

    def __init__(self, folder: Path, told: list[tuple[str, Row]], *, is_loop: bool = False) -> None:
        lanes = [LaneSpec(lane="in"), LaneSpec(lane="out", loop={"source": "in"})]  # type: ignore[arg-type]
        load = load_of(folder, *lanes)
        self.readers = Readers(load, lanes[0], "g")
        self.output = ProducedRows(load.tables, lane="out", producer_id=2, transactional_id="out-0")
        self.rows = ConsumedRows(self.readers, isolation="read_committed")
        if is_loop:
            self.rows = LoopRows(self.readers, output=self.output, isolation="read_committed")
        for kind, values in told:
            self.rows.handle(kind, values)
        self.behind = self.readers.unread_partitions({0: 6, 1: 2})
        self.rows.note_end()
        load.tables.close()
        self._folder = folder

    def __getitem__(self, name: str) -> list[Row]:
        return rows_in(self._folder / name)


ASSIGNED = ("assigned", {"consumer": "g-0-1", "member": "m", "generation": 3, "partitions": [0, 1], "ns": 10})
READ = (
    "read",
    {
        "consumer": "g-0-1", "partition": [0, 1], "offset": [5, 1],
        "producer_id": [7, 7], "seq": [50, 51], "leader_epoch": [2, None], "ns": 20,
    },
)  # fmt: skip
ASKED: tuple[str, Row] = (
    "commit",
    {"number": 0, "consumer": "g-0-1", "offsets": [[0, 6], [1, 2]], "producer_id": None, "transaction": None, "ns": 30},
)
SENT: tuple[str, Row] = (
    "sent",
    {"first_seq": 0, "partition": [0, 1], "sources": [[7, 50], [7, 51]], "transaction": 4, "ns": 25},
)


def test_every_thing_that_is_told_has_its_row(tmp_path: Path) -> None:
    told: list[tuple[str, Row]] = [
        ASSIGNED,
        READ,
        ASKED,
        ("committed", {"number": 0, "errors": [[1, "fail", "ILLEGAL_GENERATION"]], "ns": 40}),
        ("given_back", {"consumer": "g-0-1", "partitions": [0], "ns": 50}),
    ]
    written = WrittenRecords(tmp_path, told)
    held = {"lane": "in", "group": "g", "consumer": "g-0-1", "member": "m", "generation": 3}
    held |= {"isolation": "read_committed", "start_ns": 10}
    assert written["assignments"] == [{**held, "partition": 0, "end_ns": 50}, {**held, "partition": 1, "end_ns": None}]
    asked = {"lane": "in", "group": "g", "consumer": "g-0-1", "producer_id": None, "transaction": None}
    asked |= {"invoke_ns": 30, "complete_ns": 40}
    assert written["commits"] == [
        {**asked, "partition": 0, "offset": 6, "outcome": "ok", "error": None},
        {**asked, "partition": 1, "offset": 2, "outcome": "fail", "error": "ILLEGAL_GENERATION"},
    ]
    read = {"lane": "in", "consumer": "g-0-1", "producer_id": 7}
    assert written["consumed"] == [
        {**read, "partition": 0, "offset": 5, "seq": 50, "leader_epoch": 2, "poll_ns": 20},
        {**read, "partition": 1, "offset": 1, "seq": 51, "leader_epoch": None, "poll_ns": 21},
    ]
    assert written.readers.consumed == 2


def test_a_loop_s_transactions_have_rows_and_their_records_count(tmp_path: Path) -> None:
    ended = {"lane": "out", "producer_id": 2, "transaction": 4, "transactional_id": "out-0", "begin_ns": 24}
    told: list[tuple[str, Row]] = [
        SENT,
        ("outcome", {"outcome": "ok", "error": None, "seq": [0], "offset": [9], "ns": [60]}),
        ("outcome", {"outcome": "info", "error": "_MSG_TIMED_OUT", "seq": [1], "offset": [None], "ns": [61]}),
        ("transaction", {"row": {**ended, "end_ns": 70, "outcome": "committed", "error": None}}),
    ]
    written = WrittenRecords(tmp_path, told, is_loop=True)
    assert [row["outcome"] for row in written["transactions"]] == ["committed"]
    assert (written.output.sent, written.output.acknowledged) == (2, 1)


@pytest.mark.parametrize(("asked", "outcome"), [([], "aborted"), ([ASKED], "info")])
def test_a_death_leaves_everything_in_doubt_that_was_open(
    asked: list[tuple[str, Row]], outcome: str, tmp_path: Path
) -> None:
    written = WrittenRecords(tmp_path, [ASSIGNED, SENT, *asked], is_loop=True)
    assert [row["end_ns"] for row in written["assignments"]] == [None, None]
    assert [(row["outcome"], row["complete_ns"]) for row in written["produced"]] == [("info", None)] * 2
    assert [(row["outcome"], row["complete_ns"]) for row in written["commits"]] == [("info", None)] * 2 * len(asked)
    left = written["transactions"]
    assert [(row["transaction"], row["transactional_id"], row["outcome"], row["end_ns"]) for row in left] == [
        (4, "out-0", outcome, None)
    ]


def test_the_end_is_reached_only_by_who_has_the_partition_still(tmp_path: Path) -> None:
    at_end: tuple[str, Row] = ("at_end", {"offsets": [[0, 6], [1, 2]]})
    assert WrittenRecords(tmp_path / "a", [ASSIGNED, at_end]).behind == {}
    early: tuple[str, Row] = ("at_end", {"offsets": [[0, 5], [1, 2]]})
    assert WrittenRecords(tmp_path / "b", [ASSIGNED, early]).behind == {0: (5, 6)}
    back: tuple[str, Row] = ("given_back", {"consumer": "g-0-1", "partitions": [1], "ns": 50})
    assert WrittenRecords(tmp_path / "c", [ASSIGNED, at_end, back]).behind == {1: (0, 2)}
    written = WrittenRecords(tmp_path / "d", [ASSIGNED, at_end])
    assert written.readers.unread_partitions({0: 6, 1: 2}) == {0: (0, 6), 1: (0, 2)}, "a dead member holds nothing"


def test_what_was_assigned_when_the_harness_died_is_recovered(tmp_path: Path) -> None:
    lane = LaneSpec(lane="in", group={})  # type: ignore[arg-type]
    load = load_of(tmp_path, lane)
    rows = ConsumedRows(Readers(load, lane, "g"), isolation="read_committed")
    rows.handle(*ASSIGNED)
    rows.handle("given_back", {"consumer": "g-0-1", "partitions": [0], "ns": 50})
    load.tables.close()
    assert recover(tmp_path) == 0
    written = rows_in(tmp_path / "assignments")
    found = {row["partition"]: (row["group"], row["generation"], row["start_ns"], row["end_ns"]) for row in written}
    assert found == {0: ("g", 3, 10, 50), 1: ("g", 3, 10, None)}
