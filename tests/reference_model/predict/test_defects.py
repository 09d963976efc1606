"""Known defects of replication, alone and together, and librdkafka's implicit acknowledgement beside them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import Transactional
from kafka_chaos.reference_model.lane.idempotence import implicitly_acknowledged
from kafka_chaos.reference_model.lane.state import (
    INFO,
    NEW,
    NOWHERE,
    OK,
    RETRY,
    WAITING,
    Record,
    initial_state,
)
from kafka_chaos.reference_model.predict.defects import DefectTrace, _traces, known_defects, plain_lane

STRICT = Lane(lane="a", acks="all", idempotence=True, min_insync_replicas=2)
ORDER = ("librdkafka-4953", "KAFKA-15591")
DUPLICATES = {Anomaly.DUPLICATE: [("librdkafka-4953",)]}


def named(lane: Lane) -> Mapping[Anomaly, list[tuple[str, ...]]]:
    return {anomaly: [trace.ids for trace in traces] for anomaly, traces in known_defects(lane).items()}


@pytest.mark.parametrize("replication_factor", [2, 3])
def test_the_strictest_lane_loses_what_was_acknowledged_implicitly(replication_factor: int) -> None:
    lane = plain_lane(STRICT, replication_factor=replication_factor)
    assert named(lane) == {**DUPLICATES, Anomaly.LOST_WRITE: [("KAFKA-15591",)], Anomaly.REORDERED: [ORDER]}
    (trace,) = known_defects(lane)[Anomaly.LOST_WRITE]
    told = " ".join(trace.why)
    for sentence in (
        "Broker 1 refuses record 0: NOT_ENOUGH_REPLICAS.",
        "librdkafka takes that for an acknowledgement of all records before it, too.",
        "holds record 1; record 0 was acknowledged; record 1 was acknowledged at offset 0.",
    ):
        assert sentence in told


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        (plain_lane(STRICT, max_in_flight=1), DUPLICATES),
        (plain_lane(STRICT, min_insync_replicas=1), DUPLICATES),
        (plain_lane(STRICT, kafka_version="2.4.1"), DUPLICATES),
        (plain_lane(STRICT, idempotence=False), {}),
        (Lane(lane="a", acks="all", idempotence=True, min_insync_replicas=2, transactional=Transactional()), {}),
    ],
    ids=["one in flight", "nothing refused", "before KIP-360", "not idempotent", "transactional"],
)
def test_other_lanes_do_not(lane: Lane, expected: Mapping[Anomaly, list[tuple[str, ...]]]) -> None:
    assert named(lane) == expected


def test_an_implicit_acknowledgement_is_harmless_with_brokers_that_keep_the_promise() -> None:
    assert _traces((), STRICT) == {}


def test_what_waits_to_be_sent_again_is_acknowledged_with_a_later_record() -> None:
    statuses = (INFO, RETRY, WAITING, OK, RETRY, NEW)
    state = initial_state(STRICT)._replace(records=tuple(Record(status, 1, NOWHERE) for status in statuses))
    after = implicitly_acknowledged(state, 3)
    assert [record.status for record in after.records] == [INFO, OK, WAITING, OK, RETRY, NEW]
    assert after.records[1] == Record(OK, 0, NOWHERE)


def test_a_trace_of_several_defects_is_read_back_as_it_was() -> None:
    (trace,) = known_defects(STRICT)[Anomaly.REORDERED]
    assert (trace.to_json()["id"], trace.to_json()["with"]) == ("librdkafka-4953", ["KAFKA-15591"])
    assert DefectTrace.from_json(trace.to_json()) == trace
