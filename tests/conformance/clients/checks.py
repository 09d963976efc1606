"""The client protocol, played to a client on a cluster: what is wrong with the client?

What a client says is taken by the supervisor and the recorders of a run, and compared with what the brokers hold. Each
check either passes, or says in a sentence what the client did and what was expected.
"""

import signal
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, READ_UNCOMMITTED
from kafka_chaos.harness.clients.kinds import ChosenClient
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.identity import IDENTITY_HEADER, UNDECODABLE, IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.process_clients import ProcessProducer
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from tests.conformance.clients.kit import PARTITIONS, SIZE, TICK, Kit

RECORDS = 200
TRANSACTIONS = "transactions"
_SHORT_DELIVERY_MS = 4_000
_FROZEN = 10.0


def problems(
    client: ChosenClient, cluster: Cluster, admin: ClusterAdmin, folder: Path, names: Collection[str]
) -> dict[str, str]:
    """What is wrong by check, empty where it passes; the cluster is whole again afterwards."""
    # Not the controller: a frozen controller's session could expire, and another story begin.
    broker = cluster.brokers[2 if admin.controller() != 2 else 3]
    kit = Kit(client.command, cluster.bootstrap_servers, admin, broker, folder)
    found = dict.fromkeys(names, "")
    for name in names:
        try:
            CHECKS[name](kit)
        except AssertionError as failed:
            found[name] = str(failed)
    numbers = set(cluster.brokers)
    wait_until(lambda: cluster.registered_brokers() == numbers, "all brokers to be registered", timeout=60)
    return found


def _records(kit: Kit, **settings: Any) -> None:
    """Every record is in the log with its identity, where the client says that it is."""
    topic = kit.topic()
    with kit.producing(topic, **settings) as producer:
        for _ in range(4):
            producer.send(RECORDS // 4)
        kit.await_answers(producer)
    stored, rows = kit.stored(topic), kit.rows(topic)
    foreign = sum(identity == UNDECODABLE for identity in stored.values())
    assert not foreign, f"{foreign} records carry no identity: expected its 20 bytes at the start of the value"
    places = {identity: place for place, identity in stored.items()}
    assert len(places) == len(stored), f"{len(stored) - len(places)} records are in the log more than once"
    for row in rows:
        seq, place = row["seq"], places.get((7, row["seq"]))
        assert row["outcome"] == "ok", f"record {seq}, on a cluster that is well: {row['outcome']} ({row['error']})"
        assert place is not None, f"record {seq} was said to be acknowledged, and is not in the log"
        assert place[0] == seq % PARTITIONS, f"record {seq} is in partition {place[0]}: expected its seq modulo theirs"
        assert row["offset"] == place[1], f"record {seq} was said to be at offset {row['offset']}: it is at {place[1]}"
    assert len(places) == len(rows), f"{len(places) - len(rows)} records are in the log that were never handed out"


def _unanswered(kit: Kit) -> None:
    """With acks=0, no outcome names an offset: no broker tells one."""
    topic = kit.topic()
    with kit.producing(topic, acks="0") as producer:
        producer.send(RECORDS)
        kit.await_answers(producer)
    for row in kit.rows(topic):
        assert row["offset"] is None, f"record {row['seq']}, at offset {row['offset']}: no broker answers to acks=0"


def _flush(kit: Kit) -> None:
    """After the order flush, all outcomes come before the event flushed."""
    with kit.producing(kit.topic()) as producer:
        producer.send(RECORDS)
        kit.process.order("flush")
        problem = f"it was told to flush, and did not say that it has flushed within {kit.answered_within:g} s"
        kit.await_that(lambda: producer.flushes > 0, lambda: problem, serve=producer.poll, within=kit.answered_within)


def _in_doubt(kit: Kit) -> None:
    """An error after a record may have been sent leaves its outcome open."""
    topic = kit.topic()
    with kit.producing(topic, delivery_timeout_ms=_SHORT_DELIVERY_MS) as producer:
        producer.send(PARTITIONS)
        kit.await_answers(producer)
        kit.broker.pause()
        try:
            producer.send(RECORDS)
            thawed = time.monotonic() + _FROZEN
            while producer.unanswered and time.monotonic() < thawed:
                producer.poll(TICK)
        finally:
            kit.broker.unpause()
        kit.await_answers(producer)
    kit.admin.await_full_isr([topic])
    stored = set(kit.stored(topic).values())
    for row in kit.rows(topic):
        is_there = (7, row["seq"]) in stored
        acknowledged = row["outcome"] == "ok"
        assert is_there or not acknowledged, f"record {row['seq']} was said to be acknowledged, and is not in the log"
        where = "is in the log" if is_there else "may have been sent: the leader was frozen"
        failed = f"record {row['seq']} was said to have failed for certain ({row['error']}), and {where}"
        assert row["outcome"] != "fail", failed


def _ends(kit: Kit, end: Callable[[ProcessProducer], None], how: str) -> None:
    """Told so, it finishes what it was given, and ends with exit code 0."""
    with kit.producing(kit.topic()) as producer:
        producer.send(RECORDS)
        end(producer)
        assert kit.process.join(kit.gone_within), f"it was {how}, and runs still after {kit.gone_within:g} s"
        kit.require_well()
        code, left = kit.process.exit_code, len(producer.rows.pending)
        assert not code, f"it was {how}, and ended with exit code {code}: expected 0"
        assert not left, f"it was {how}, and ended while {left} of {producer.sent} records had no outcome"


def _leave(kit: Kit) -> None:
    """The order to leave comes while records are on their way."""

    def order(_: ProcessProducer) -> None:
        kit.process.may_end = True
        kit.process.order("leave")

    _ends(kit, order, "told to leave")


def _sigterm(kit: Kit) -> None:
    """SIGTERM is as being told to leave."""

    def terminate(producer: ProcessProducer) -> None:
        kit.await_answers(producer)
        kit.process.may_end = True
        kit.process.signal(signal.SIGTERM)

    _ends(kit, terminate, "sent SIGTERM")


def _orphan(kit: Kit) -> None:
    """Without the harness it ends: its standard input is closed."""
    with kit.producing(kit.topic()):
        kit.process.may_end = True
        kit.process._process.stdin.close()  # type: ignore[union-attr]
        still = f"its standard input was closed, and it runs still after {kit.gone_within:g} s"
        assert kit.process.join(kit.gone_within), still


def _reads(kit: Kit) -> None:
    """A consumer reads every record once, from the start, with the identity of its value or of its header."""
    topic = kit.topic()
    codec, bare = IdentityCodec(topic, SIZE), IdentityCodec(topic)
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    producer = new_client(Producer, {"bootstrap.servers": kit.bootstrap_servers, "log_level": 0})
    values: list[tuple[bytes | None, Mapping[str, bytes], tuple[int, int]]] = [
        *((codec.encode(3, seq), {}, (3, seq)) for seq in range(RECORDS)),
        (b"a value of its own", {IDENTITY_HEADER: bare.encode(3, RECORDS)}, (3, RECORDS)),
        (None, {IDENTITY_HEADER: bare.encode(4, 2**40)}, (4, 2**40)),
        (b"nobody's", {}, UNDECODABLE),
        (codec.encode(3, 5)[:-1] + b"!", {}, UNDECODABLE),
    ]
    for number, (value, headers, identity) in enumerate(values):
        producer.produce(topic, value, headers=dict(headers), partition=number % PARTITIONS)
        expected[number % PARTITIONS, number // PARTITIONS] = identity
    producer.flush(kit.answered_within)
    read = kit.read(topic)
    for place, identity in expected.items():
        found = f"offset {place[1]} of partition {place[0]}: it read {read.get(place)}"
        assert read.get(place) == identity, f"{found}, expected {identity} as (producer_id, seq)"


def _transactions(kit: Kit) -> None:
    """A read_committed consumer reads committed records and no others; a fenced producer can't commit."""
    topic = kit.topic()
    of_id: dict[str, Any] = {"transactional_id": topic, "transaction_timeout_ms": 60_000, "idempotence": True}
    with kit.producing(topic, **of_id) as records:
        producer = _transactional(kit, records)
        for end in (producer.commit, producer.abort, producer.commit):
            _lasts(kit, producer.begin, "begin")
            producer.send(PARTITIONS)
            producer.deliver(kit.answered_within)
            _lasts(kit, end, "end")
        with kit.producing(topic, rows=f"{topic}-other", **of_id):
            producer.begin()
            producer.send(PARTITIONS)
            try:
                producer.commit()
            except ProducerLost:
                pass
            else:
                raise AssertionError("it had ended a transaction, after another one had begun under its id")
        producer.abandon()
    rows = kit.rows(topic)
    committed = {(7, row["seq"]) for row in rows if row["transaction"] in (0, 2)}
    for isolation, fewest in ((READ_COMMITTED, committed), (READ_UNCOMMITTED, {(7, row["seq"]) for row in rows[:6]})):
        read = set(kit.read(topic, isolation).values())
        assert fewest <= read, f"its {isolation} consumer did not read {sorted(fewest - read)}"
        more = sorted(read - fewest)
        assert isolation != READ_COMMITTED or not more, f"its read_committed consumer read {more}, not committed"


def _transactional(kit: Kit, records: ProcessProducer) -> TransactionalProducer:
    """Its rows are left out: transactions are checked by what is read of them."""
    deadline = time.monotonic() + kit.answered_within
    records.rows.add_transaction = lambda _: None
    producer = TransactionalProducer(records, give_up=lambda: time.monotonic() > deadline)
    _lasts(kit, producer.init, "begin under its id")
    return producer


def _lasts(kit: Kit, call: Callable[[], object], what: str) -> None:
    try:
        call()
    except ProducerLost as lost:
        kit.require_well()
        raise AssertionError(f"it could not {what}: {lost.error.str()}") from lost
    kit.require_well()


CHECKS: Mapping[str, Callable[[Kit], None]] = {
    "identities and offsets of a producer": partial(_records, idempotence=False),
    "the same of an idempotent producer": partial(_records, idempotence=True),
    "outcomes that no broker answers": _unanswered,
    "flush": _flush,
    "errors that leave the outcome open": _in_doubt,
    "leave": _leave,
    "SIGTERM": _sigterm,
    "end of the harness": _orphan,
    "identities that a consumer reads": _reads,
    TRANSACTIONS: _transactions,
}
"""The checks by name, in the order in which they are played."""
