"""Reports of a share group's members become rows, also those of a member that died."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.client_process import ProtocolBreach
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.groups.dead_letters import row_of_letter
from kafka_chaos.harness.workload.groups.group_kinds import ShareGroup
from kafka_chaos.harness.workload.groups.rows import PAST_EVERY_RECORD, ShareMemberRows
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in

COLUMNS = {"partition": [0, 1], "offset": [5, 6], "producer_id": [0, 0], "seq": [50, 51], "delivery_count": [1, 2]}
DELIVERED = ("delivered", {"number": 0, "asked_ns": 8, "ns": 10, **COLUMNS})
ACKNOWLEDGES = ("acknowledges", {"number": 0, "ns": 20, "acknowledgements": ["accept", "release"]})
ACKNOWLEDGED = ("acknowledged", {"numbers": [0], "ns": 30, "outcome": "ok", "error": None})
STARTS = ("starts", {"invoke_ns": 1, "complete_ns": 2, "partition": [0, 1], "offset": [5, 7], "lag": [1, 0]})


def written(
    folder: Path, *told: tuple[str, dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Readers]:
    lane = LaneSpec(lane="a", share={})  # type: ignore[arg-type]
    group = ShareGroup(lane, load_of(folder, lane))
    rows = ShareMemberRows(group, "m")
    try:
        for kind, values in told:
            rows.handle(kind, values)
        rows.note_end()
    finally:
        group.load.tables.close()
    return rows_in(folder / "deliveries"), rows_in(folder / "share_starts"), group


def test_an_answer_completes_its_delivery_and_death_leaves_the_rest_in_doubt(tmp_path: Path) -> None:
    deliveries, _, readers = written(tmp_path, DELIVERED, ACKNOWLEDGES, ACKNOWLEDGED)
    assert [(row["seq"], row["acknowledgement"], row["outcome"], row["complete_ns"]) for row in deliveries] == [
        (50, "accept", "ok", 30),
        (51, "release", "info", None),
    ]
    assert [(row["asked_ns"], row["delivered_ns"], row["invoke_ns"]) for row in deliveries] == [(8, 10, 20)] * 2
    assert readers.consumed == 2


def test_what_was_never_acknowledged_has_no_outcome(tmp_path: Path) -> None:
    deliveries, _, _ = written(tmp_path, DELIVERED)
    assert [(row["acknowledgement"], row["outcome"]) for row in deliveries] == [(None, None)] * 2


def test_start_offsets_say_how_far_the_group_is(tmp_path: Path) -> None:
    _, starts, readers = written(tmp_path, STARTS)
    assert [(row["partition"], row["offset"], row["invoke_ns"]) for row in starts] == [(0, 5, 1), (1, 7, 1)]
    assert readers.unread_partitions({0: 6, 1: 8}) == {0: (5, 6)}


def letter(value: bytes | None, **headers: str) -> dict[str, Any]:
    told = [(f"__dlq.errors.{name.replace('_', '.')}", text.encode()) for name, text in headers.items()]
    known = {"partition": 1, "offset": 7, "key": None, "value": value, "headers": told}
    message = SimpleNamespace(**{name: lambda answer=answer: answer for name, answer in known.items()})
    return row_of_letter(LaneSpec(lane="a", topic="t"), IdentityCodec("a", 50), message)


def test_a_dead_letter_names_its_record_and_may_hold_it() -> None:
    names = {"topic": "t", "partition": "3", "offset": "9", "group": "g", "delivery_count": "2", "message": "rejected"}
    row = letter(IdentityCodec("a", 50).encode(4, 5), **names)
    place = {"lane": "a", "partition": 1, "offset": 7, "source_group": "g", "source_partition": 3, "source_offset": 9}
    assert row == {**place, "producer_id": 4, "seq": 5, "key": None, "delivery_count": 2, "cause": "rejected"}
    assert (letter(b"?", **names)["seq"], letter(None, **names)["seq"]) == (-1, None)
    assert letter(None, **{**names, "topic": "other"})["source_offset"] is letter(None)["source_offset"] is None


def test_a_lag_told_before_the_end_of_the_load_is_no_proof_of_its_end(tmp_path: Path) -> None:
    lane = LaneSpec(lane="a", partitions=2, share={})  # type: ignore[arg-type]
    load = load_of(tmp_path, lane)
    group = ShareGroup(lane, load)
    group.note_positions(group, [(0, PAST_EVERY_RECORD), (1, PAST_EVERY_RECORD)])
    group.drain({0: 5, 1: 5}, timeout=0.1)
    load.tables.close()
    assert group.unread_partitions({0: 5, 1: 5}) == {0: (0, 5), 1: (0, 5)}


@pytest.mark.parametrize("told", [[ACKNOWLEDGES], [DELIVERED, ACKNOWLEDGED], [ACKNOWLEDGED]])
def test_what_was_not_told_before_breaks_the_protocol(tmp_path: Path, told: list[tuple[str, dict[str, Any]]]) -> None:
    with pytest.raises(ProtocolBreach):
        written(tmp_path, *told)
