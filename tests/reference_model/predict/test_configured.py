"""Predictions follow a cluster's configuration: flushes, verification, coordinators' logs, and assumptions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.groups import Group, GroupAnomaly
from kafka_chaos.contract.lane.lanes import TRANSACTION_STATE, InternalTopic, Lane
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.reference_model.lane.idempotence import implicitly_acknowledged
from kafka_chaos.reference_model.lane.state import INFO, NEW, NOWHERE, OK, RETRY, WAITING, Record, initial_state
from kafka_chaos.reference_model.predict import defects, transactional
from kafka_chaos.reference_model.predict.cache import predict_cached, question_key
from kafka_chaos.reference_model.predict.defects import defect_traces, plain_lane
from kafka_chaos.reference_model.predict.prediction import internal_topic, predict
from kafka_chaos.reference_model.predict.transactional import rules_of_transactions
from kafka_chaos.reference_model.protocol.known_defects import (
    ALL_DEFECTS,
    CONCERNS_LANE,
    MODELLED_DEFECTS,
    WITHOUT_EPOCH_CHECK,
)

ALONE = Lane(lane="alone", replication_factor=1, acks="all", faults=("power-loss",))
GROUP = Lane(lane="read", acks="all", group=Group(members=1), faults=("kill", "kill"))
TRANSACTIONS = Lane(lane="t", acks="all", idempotence=True, transactional=Transactional(size=1))


@pytest.mark.parametrize(
    ("anomaly", "until", "later", "settings"),
    [
        (Anomaly.UNSEEN, "2.3.1", "2.4.1", {"unclean_leader_election": True, "faults": ("kill",)}),
        (Anomaly.REPLICA_DIVERGENCE, "0.10.2.2", "2.4.1", {"unclean_leader_election": True, "faults": ("kill",)}),
        (Anomaly.REPLICA_DIVERGENCE, "3.9.1", "4.3.1", {"faults": ("power-loss",) * 2}),
    ],
)
def test_versions_permit_what_no_search_shows(
    anomaly: Anomaly, until: str, later: str, settings: dict[str, Any]
) -> None:
    old, new = (replace(ALONE, replication_factor=2, kafka_version=version, **settings) for version in (until, later))
    assert (predict(old).status(anomaly), predict(new).status(anomaly)) == (Status.PERMITTED, Status.FORBIDDEN)
    assert question_key(old, None) != question_key(new, None)


def test_what_is_flushed_is_not_lost_with_the_power() -> None:
    assert predict(ALONE).status(Anomaly.LOST_WRITE) is Status.PERMITTED
    flushed = predict(replace(ALONE, flushes=True))
    killed = predict(replace(ALONE, faults=("kill",)))
    assert {one: flushed.status(one) for one in (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.REORDERED)} == {
        one: killed.status(one) for one in (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.REORDERED)
    }
    assert flushed.status(Anomaly.LOST_WRITE) is Status.FORBIDDEN
    # Before 3.0 a new segment's directory is not flushed.
    assert predict(replace(ALONE, flushes=True, kafka_version="2.8.2")).status(Anomaly.LOST_WRITE) is Status.PERMITTED


@pytest.mark.parametrize("reached", [True, False])
def test_unclean_elections_by_default_reach_what_groups_have_committed(reached: bool) -> None:
    kept = InternalTopic(unclean_leader_election=reached)
    found = predict(replace(GROUP, consumer_offsets=kept)).anomalies[GroupAnomaly.COMMIT_LOST]
    assert found.status is (Status.PERMITTED if reached else Status.FORBIDDEN)


@pytest.mark.slow
def test_more_replicas_in_sync_keep_what_coordinators_acknowledged() -> None:
    """Where leaders are elected from the eligible replicas: elsewhere the last one in sync leads, whatever it lost."""
    lane = replace(TRANSACTIONS, min_insync_replicas=2, faults=("power-loss",), kafka_version="4.3.1")
    kept = InternalTopic(replication_factor=3, min_insync_replicas=2)
    lost = TransactionAnomaly.LOST_TRANSACTION
    assert predict(lane).anomalies[lost].status is Status.PERMITTED
    assert predict(replace(lane, transaction_state=kept)).anomalies[lost].status is Status.FORBIDDEN


def test_faults_may_hit_as_many_replicas_of_an_internal_topic_as_it_has() -> None:
    """A lane's faults name at most as many brokers as it has replicas."""
    lane = replace(TRANSACTIONS, replication_factor=1, faults=("power-loss", "pause"))
    topic = internal_topic(replace(lane, transaction_state=InternalTopic(replication_factor=3)), TRANSACTION_STATE)
    assert sorted(topic.faults) == ["pause"] * 3 + ["power-loss"] * 3
    wide = replace(lane, replication_factor=3, transaction_state=InternalTopic(replication_factor=1))
    assert internal_topic(wide, TRANSACTION_STATE).faults == wide.faults


@pytest.mark.slow
def test_without_verification_a_late_record_opens_a_transaction_in_any_version() -> None:
    def defects(**settings: Any) -> set[tuple[str, ...]]:
        found = predict(replace(TRANSACTIONS, **settings)).anomalies[TransactionAnomaly.HANGING_TRANSACTION]
        assert found.status is Status.FORBIDDEN
        return {trace.ids for trace in found.known_defects}

    assert ("KAFKA-14402",) not in defects()
    assert ("KAFKA-14402",) in defects(verifies_transactions=False)
    assert defects(verifies_transactions=True, kafka_version="2.8.2") == defects(kafka_version="2.8.2")
    assert ("KAFKA-14402",) in defects(kafka_version="3.5.2", replication_factor=2)


def test_the_question_is_another_only_where_the_answer_may_be() -> None:
    def same(one: Lane, **settings: Any) -> bool:
        return question_key(one, None) == question_key(replace(one, **settings), None)

    assert same(ALONE, consumer_offsets=InternalTopic(min_insync_replicas=2))
    assert same(replace(ALONE, faults=("kill",)), flushes=True)
    assert same(GROUP, consumer_offsets=InternalTopic(replication_factor=3))
    assert same(GROUP, transaction_state=InternalTopic(min_insync_replicas=2))
    assert same(STRICT, client="librdkafka 2.3.0")
    assert not same(ALONE, flushes=True)
    assert not same(GROUP, consumer_offsets=InternalTopic(min_insync_replicas=2))
    assert not same(GROUP, consumer_offsets=InternalTopic(unclean_leader_election=True))
    assert not same(TRANSACTIONS, verifies_transactions=False)
    two_in_sync = replace(GROUP, consumer_offsets=InternalTopic(min_insync_replicas=2), kafka_version="4.3.1")
    assert not same(two_in_sync, elr=False)


def test_what_is_assumed_has_no_status() -> None:
    lane = Lane(lane="a", acks="all", assume=("queuing.strategy",))
    for answer in (predict(lane), predict_cached(lane)):
        found = answer.anomalies[Anomaly.REORDERED]
        assert found.status is Status.NOT_JUDGED
        assert "queuing.strategy is assumed to do no harm" in found.why[0]
        others = {one: entry for one, entry in answer.anomalies.items() if one is not Anomaly.REORDERED}
        known = predict(replace(lane, assume=())).anomalies
        assert {one: entry.status for one, entry in others.items()} == {one: known[one].status for one in others}


STRICT = Lane(lane="a", acks="all", idempotence=True, min_insync_replicas=2)
ORDER = ("librdkafka-4953", "KAFKA-15591")
LIBRDKAFKA = {"librdkafka-4953": (Anomaly.DUPLICATE,)}


def named(lane: Lane) -> Mapping[Anomaly, list[tuple[str, ...]]]:
    return {anomaly: [trace.ids for trace in traces] for anomaly, traces in defect_traces(lane).items()}


@pytest.mark.parametrize("replication_factor", [2, 3])
def test_the_strictest_lane_loses_what_was_acknowledged_implicitly(replication_factor: int) -> None:
    lane = plain_lane(STRICT, replication_factor=replication_factor)
    assert named(lane) == {
        Anomaly.DUPLICATE: [("librdkafka-4953",)], Anomaly.LOST_WRITE: [("KAFKA-15591",)], Anomaly.REORDERED: [ORDER],
    }  # fmt: skip
    (trace,) = defect_traces(lane)[Anomaly.LOST_WRITE]
    told = " ".join(trace.why)
    for sentence in (
        "Broker 1 refuses record 0: NOT_ENOUGH_REPLICAS.",
        "librdkafka takes that for an acknowledgement of all records before it, too.",
        "holds record 1; record 0 was acknowledged; record 1 was acknowledged at offset 0.",
    ):
        assert sentence in told


@pytest.mark.parametrize("client", ["kafka-python 3.0.12", "franz-go", "own"])
def test_clients_that_wait_for_an_answer_to_each_batch_lose_nothing(client: str) -> None:
    lane = plain_lane(STRICT, client=client)
    assert named(lane) == {}
    assert question_key(lane, None) != question_key(STRICT, None)


def test_a_consumer_without_leader_epochs_misses_records_where_a_log_may_be_replaced() -> None:
    lane = Lane(
        lane="a", acks="1", replication_factor=2, unclean_leader_election=True, client="sarama", faults=("kill",)
    )
    (trace,) = predict(lane).anomalies[Anomaly.UNSEEN].known_defects
    assert trace.ids == ("sarama-2365",)
    assert trace.why[-1].startswith("The log grows past the consumer's position")
    for safe in (replace(lane, client="franz-go"), replace(lane, acks="all", unclean_leader_election=False, faults=())):
        assert predict(safe).anomalies[Anomaly.UNSEEN].known_defects == ()


MISPLACED = Anomaly.LOST_WRITE, Anomaly.INCONSISTENT_OFFSET

OF_SARAMA = {"client": "sarama 1.43.3"}
OF_KAFKAJS = {"client": "kafkajs 2.2.4"}
WITHOUT_ACKS = {**OF_KAFKAJS, "acks": "0", "idempotence": False}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({**OF_SARAMA, "idempotence": False}, {}),
        ({**OF_SARAMA, "idempotence": False, "max_in_flight": 1}, {"sarama-2619": (Anomaly.REORDERED,)}),
        ({**OF_SARAMA, "max_in_flight": 1}, {"sarama-3354": MISPLACED, "sarama-2619": (Anomaly.REORDERED,)}),
        ({**OF_SARAMA, "max_in_flight": 5}, {"sarama-3354": MISPLACED, "sarama-2619": (Anomaly.REORDERED,)}),
        (OF_KAFKAJS, {"kafkajs-1005": (*MISPLACED, Anomaly.DUPLICATE, Anomaly.REORDERED, Anomaly.OFFSET_MISMATCH)}),
        (WITHOUT_ACKS, {"kafkajs-822": (Anomaly.REORDERED,)}),
        ({**WITHOUT_ACKS, "partitions": 2}, {"kafkajs-822": (Anomaly.REORDERED, Anomaly.DUPLICATE)}),
        # What was in flight behind a batch that failed is written again.
        ({"client": "java 2.8.2", "max_in_flight": 1}, {}),
        ({"client": "java 2.8.2", "max_in_flight": 5}, {"KAFKA-14397": (Anomaly.DUPLICATE,)}),
        # Nothing is in flight behind the first record; nothing is refused; before KIP-360.
        ({"max_in_flight": 1}, LIBRDKAFKA),
        ({"min_insync_replicas": 1}, LIBRDKAFKA),
        ({"kafka_version": "2.4.1"}, LIBRDKAFKA),
    ],
)
def test_clients_that_repeat_against_the_rules_show_what_their_defects_say(
    settings: dict[str, Any], expected: Mapping[str, Sequence[Anomaly]]
) -> None:
    lane = replace(STRICT, **settings)
    assert named(lane) == {anomaly: [(defect,)] for defect, anomalies in expected.items() for anomaly in anomalies}
    if settings.get("client", "").startswith(("sarama", "kafkajs")):
        others = [replace(lane, client=client) for client in (None, "java 3.9.1")]
        assert not {(defect,) for defect in expected} & {
            ids for one in others for sets in named(one).values() for ids in sets
        }


def test_an_answer_depends_on_partitions_only_where_one_send_may_go_to_several() -> None:
    def keys(lane: Lane) -> set[str]:
        return {question_key(replace(lane, partitions=partitions), None) for partitions in (1, 2, 3)}

    assert len(keys(replace(STRICT, client="kafkajs 2.2.4", acks="0", idempotence=False))) == 2
    assert len(keys(replace(STRICT, client="kafkajs 2.2.4"))) == len(keys(STRICT)) == 1


@pytest.mark.parametrize(
    ("client", "brokers", "rules"),
    [
        (None, "4.3.1", "v1"), ("librdkafka 4.0.0", "4.3.1", "v1"),
        ("java 3.9.1", "4.3.1", "v1"), ("java 4.1.1", "3.9.1", "v1"),
        ("java", "4.3.1", "v1"), ("java 4.1.1", None, "v1"), ("java 4.1.1", "4.3.1", "v2"),
    ],
)  # fmt: skip
def test_transactions_have_an_epoch_each_with_new_clients_on_new_brokers(
    client: str | None, brokers: str | None, rules: str
) -> None:
    lane = replace(STRICT, transactional=Transactional(), client=client, kafka_version=brokers)
    assert rules_of_transactions(lane).name == rules
    assert MODELLED_DEFECTS["KAFKA-17754"].concerns(lane) == (rules == "v1")


def test_every_defect_says_what_shows_it_or_why_nothing_does() -> None:
    root = Path(__file__).parents[3]
    for defect in ALL_DEFECTS.values():
        assert all(defect.to_json().values()), defect.id
        is_file = defect.shown.startswith("experiments/")
        assert (root / defect.shown).is_file() if is_file else " " in defect.shown
    assert CONCERNS_LANE.keys() == MODELLED_DEFECTS.keys() <= ALL_DEFECTS.keys()
    without_search = {"KAFKA-8803", *WITHOUT_EPOCH_CHECK}
    by_groups = {"librdkafka-4844"}
    assert {*defects.FURTHER_STEPS, *transactional.VARIANTS, *without_search, *by_groups} == MODELLED_DEFECTS.keys()


def test_what_waits_to_be_sent_again_is_acknowledged_with_a_later_record() -> None:
    statuses = (INFO, RETRY, WAITING, OK, RETRY, NEW)
    state = initial_state(STRICT)._replace(records=tuple(Record(status, 1, NOWHERE) for status in statuses))
    after = implicitly_acknowledged(state, 3)
    assert [record.status for record in after.records] == [INFO, OK, WAITING, OK, RETRY, NEW]
    assert after.records[1] == Record(OK, 0, NOWHERE)
