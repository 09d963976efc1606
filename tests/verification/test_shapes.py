"""Loads of unusual shapes show nothing: hardly any records, one replica or five, sixty lanes, transactions of one."""

from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows

SECOND = 10**9


def recorded(records: int, *, lanes: int = 1, partitions: int = 1, replicas: int = 3, apart_ns: int = 1000) -> Rows:
    """Each record is acknowledged, on each replica, and read; they go to the partitions in turn."""
    names = [f"l{number}" for number in range(lanes)]
    factor = {"replication_factor": replicas, "partitions": partitions, "faults": []}
    rows = Rows(lanes=[{"lane": name, **factor} for name in names], clock=0)
    ends = [records // partitions + (number < records % partitions) for number in range(partitions)]
    for name in names:
        for seq in range(records):
            rows.clock += apart_ns
            at: dict[str, Any] = {"lane": name, "partition": seq % partitions}
            rows.all(seq // partitions, seq, **at)
            for broker in range(1, replicas + 1):
                rows.replica(broker, seq // partitions, seq, **at)
        for number, end in enumerate(ends):
            isr = list(range(1, replicas + 1))
            rows.event("isr_changed", lane=name, partition=number, isr=isr)
            leader = {"lane": name, "partition": number, "broker": 1, "leader_epoch": 0}
            rows.event("high_watermark", high_watermark=end, **leader)
    entries = {
        f"{name}/{number}": {"high_watermark": end, "log_end_offset": end, "leader_epochs": [[0, 0]]}
        for name in names
        for number, end in enumerate(ends)
    }
    rows.checkpoints = {"brokers": {str(broker): entries for broker in range(1, replicas + 1)}}
    rows.timings = dict.fromkeys(names, USUAL_TIMINGS.to_json())
    return rows


PLAIN: dict[str, Rows] = {
    "one record": recorded(1),
    "one record in all of 120 partitions": recorded(1, partitions=120),
    "a record in each of 120 partitions": recorded(120, partitions=120),
    "a record a minute": recorded(12, partitions=4, apart_ns=60 * SECOND),
    "a record every five minutes, read at once": recorded(6, apart_ns=300 * SECOND),
    "one replica": recorded(50, replicas=1),
    "five replicas": recorded(50, replicas=5),
    "sixty lanes": recorded(5, lanes=60, partitions=2),
    "many records": recorded(5_000, partitions=3, apart_ns=1),
}


@pytest.mark.parametrize("shape", PLAIN)
def test_a_load_of_any_shape_conforms(tmp_path: Path, shape: str, verified: Verified) -> None:
    verdict = verified(PLAIN[shape].write(tmp_path / "run"))
    assert [lane.reasons for lane in verdict.lanes if lane.verdict is not Verdict.CONFORMS] == []
    assert len(verdict.lanes) == len(PLAIN[shape].lanes)
