"""What only a repetition explains is unexplained where nothing lets a producer send again, and a violation then."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.verification import LaneVerdict
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints
from kafka_chaos.verification.inputs.documents.events import Phase
from kafka_chaos.verification.judging.causes import Span
from tests.verification.detection.test_causes import FIRST, MS, PAUSE, SECOND, WHOLE, found
from tests.verification.samples.changes import states
from tests.verification.samples.run_dirs import Rows, prediction
from tests.verification.samples.together import Together

CALM: dict[str, Any] = {
    "faults": (PAUSE,),
    "epochs": Checkpoints({("a", 0): ((0, 0), (1, 5))}),
    "kept": states([(1, WHOLE), (25, (2, 3)), (60, WHOLE)]),
    "phases": {"load": Phase(None, 2 * MS, 2000 * MS)},
    "timings": Timings(
        session_ms=9, election_ms=9, lag_ms=9, replica_socket_ms=9, abort_check_ms=9,
        request_ms=30, fetch_ms=60, delivery_ms=300,
    ),
}  # fmt: skip
NOTHING_HAPPENED = "unexplained: nothing happened for which its producer sends a record again"
TAIL = 39
"""A time-out and a session, in milliseconds."""


def test_a_duplicate_is_unexplained_where_nothing_makes_its_producer_send_again() -> None:
    spans = found(FIRST, SECOND, pauses=((300 * MS, 310 * MS),), **CALM).retries[2:]
    assert spans[-1] == Span(0, None, NOTHING_HAPPENED, 30 * MS)
    assert sorted((span.since_ns // MS, (span.until_ns or 0) // MS) for span in spans[:-1]) == [
        # The ISR was first seen when the first leader was elected.
        (1 - TAIL, 1 + TAIL),
        (1 - TAIL, 1 + TAIL),
        (20 - TAIL, 20 + TAIL),
        (25 - TAIL, 25 + TAIL),
        (10, 40 + TAIL),
        (60 - TAIL, 60 + TAIL),
        (300, 310 + TAIL),
    ]
    assert {span.cause for span in spans[:-1]} == {"unobserved"}


@pytest.mark.parametrize(
    "unknown",
    [
        {"timings": None},
        {"timings": replace(CALM["timings"], request_ms=None)},
        {"timings": replace(CALM["timings"], delivery_ms=None)},
        {"timings": replace(CALM["timings"], fetch_ms=9)},
        {"kept": CALM["kept"][:1]},
        {"epochs": Checkpoints({("a", 0): ((0, 0), (1, 5), (2, 7))})},
        {"phases": {}},
        {"faults": (replace(PAUSE, proven=[]),)},
        {"faults": (PAUSE, replace(PAUSE, fault_id="drift", kind="clock-drift"))},
        {"outside": {"a": ("kill",)}},
        {"lane": {"partitions": 2}},
        {"lane": {"acks": "0"}},
        {"lane": {"acks": "all", "idempotence": True}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_the_cause_of_a_duplicate_is_unobserved_where_something_may_have_happened_unseen(
    unknown: dict[str, Any],
) -> None:
    assert NOTHING_HAPPENED not in [span.cause for span in found(FIRST, SECOND, **{**CALM, **unknown}).retries]
    assert NOTHING_HAPPENED in [span.cause for span in found(FIRST, SECOND, **CALM).retries]


TOGETHER = Together()
TIMES = ((99, 110, False), (100, 110, True), (150, 179, True), (150, 180, False), (150, None, False))


@TOGETHER.cases(
    *(
        (anomaly, begun_ms, ended_ms, (anomaly, is_violation))
        for anomaly in (Anomaly.DUPLICATE, Anomaly.REORDERED)
        for begun_ms, ended_ms, is_violation in TIMES
    )
)
def repeated(anomaly: Anomaly, begun_ms: int, ended_ms: int | None) -> Rows:
    """The last change of an ISR was seen at 60 ms."""
    rows = Rows(lanes=[{"lane": "a", "acks": "1", "faults": ["pause"], "replication_factor": 3}], clock=0)
    rows.prediction = prediction(["a"], **{anomaly: "permitted"})
    rows.timings = {"a": dict(CALM["timings"].to_json())}
    rows.event("run_started", ts_ns=1, run_id="r", lanes=["a"], collects=["log"])
    rows.event("phase_started", ts_ns=2 * MS, phase="load", lanes=["a"])
    for seq in range(1, 9):
        rows.send(seq, seq - 1).store(seq - 1, seq)
        rows.produced[-1] |= {"invoke_ns": 2 * MS + seq, "complete_ns": 2 * MS + 10 + seq}
    # Record 0 is overtaken by all others, or record 9 is there twice.
    seq, twice = (9, [9]) if anomaly == Anomaly.DUPLICATE else (0, [])
    rows.send(seq, 8).store(8, seq)
    for one in twice:
        rows.store(9, one)
    rows.produced[-1] |= {"invoke_ns": begun_ms * MS, "complete_ns": None if ended_ms is None else ended_ms * MS}
    if ended_ms is None:
        rows.produced[-1] |= {"offset": None, "outcome": "info"}
    rows.clock = 900 * MS
    for offset, read in enumerate((*range(1, 9), seq, *twice)):
        rows.read(offset, read)
    rows.event("fault_requested", ts_ns=10 * MS, fault_id="p", kind="pause", resolved=["broker-1"], lanes=["a"])
    rows.event("fault_proven", ts_ns=11 * MS, fault_id="p", evidence={"broker-1": {}})
    rows.event("fault_healed", ts_ns=40 * MS, fault_id="p")
    for event in (FIRST, SECOND, *CALM["kept"]):
        rows.event(event.to_json()["type"], **{key: value for key, value in event.to_json().items() if key != "type"})
    rows.event("phase_ended", ts_ns=2000 * MS, phase="load")
    chain = {"high_watermark": 10, "log_end_offset": 10, "leader_epochs": [[0, 0], [1, 5]]}
    rows.checkpoints = {"brokers": {"2": {"a/0": chain}}}
    return rows


@TOGETHER.each(repeated)
def test_what_only_a_repetition_explains_is_a_violation_where_none_can_have_been(
    lane: LaneVerdict, expected: tuple[Anomaly, bool]
) -> None:
    anomaly, is_violation = expected
    assert lane.observed[anomaly].causes == {"unexplained" if is_violation else "unobserved": 1}
    reason = f"{anomaly} is permitted, but no behaviour of the model explains 1 of 1"
    assert (reason in lane.reasons) == is_violation, lane.reasons
