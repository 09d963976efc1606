"""Rules of client libraries that differ from the KIPs, each with its source.

The model of a lane has the client of KIP-98 and KIP-360. It retries in the order of the records, and has time-outs and
as many requests in flight as the lane says (`lane/exchanges.py`). It has sequence numbers, and renews its epoch
where a batch is refused behind an acknowledged one (`lane/idempotence.py`). The rules here are added in the search for
known defects. A client that is not in `CLIENTS` has none of them: its source has not been read for such rules.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import release

LIBRDKAFKA, JAVA, SARAMA, KAFKAJS = "librdkafka", "java", "sarama", "kafkajs"
KAFKA_PYTHON, AIOKAFKA, FRANZ_GO = "kafka-python", "aiokafka", "franz-go"


@dataclass(frozen=True, slots=True)
class ClientRules:
    """The rules of a client library. By default, each field is off, or as in the KIPs.

    `acknowledges_implicitly`: an acknowledged record also acknowledges earlier records that wait to be sent again.
    `renews_for_all`: once messages time out or sequence numbers are skipped in one partition, the producer renews its
    epoch for all partitions, and sends records in doubt again in the new epoch. `epoch_per_transaction_since`:
    if client and brokers are at least of this release, each transaction has its own producer epoch (KIP-890, part 2).

    `numbers_anew`: each attempt of an idempotent producer takes the sequence number that is next at that moment.
    `repeats_unanswered`: a send() that met a closed connection is repeated for all its partitions, even with acks=0.
    Both only matter with several requests in flight. `leaves_unnumbered`: messages that arrive while older ones are
    sent again have sequence number 0. `returns_late`: if several sets of messages fail together, the second set is
    sent again last. `commits_incomplete`: a transaction is committed even if some of its records were given up.

    `renews_after_error`: if a batch fails with an error past its delivery time-out, the producer renews its epoch at
    once, and sends what is in flight to that partition again in the new epoch. `checks_epochs_since`: from this release
    on, consumers compare their position with the epochs of a new leader (KIP-320); None: no release does.
    """

    acknowledges_implicitly: bool = False
    renews_for_all: bool = False
    epoch_per_transaction_since: tuple[int, int] | None = None
    numbers_anew: bool = False
    leaves_unnumbered: bool = False
    repeats_unanswered: bool = False
    returns_late: bool = False
    commits_incomplete: bool = False
    renews_after_error: bool = False
    checks_epochs_since: tuple[int, int] | None = (0, 0)


CLIENTS: Mapping[str, ClientRules] = {
    # librdkafka 2.15.0: rd_kafka_dr_implicit_ack, called in src/rdkafka_request.c, line 4803, and
    # rd_kafka_idemp_drain_epoch_bump, called in src/rdkafka_broker.c, line 4231, once messages have timed out.
    LIBRDKAFKA: ClientRules(acknowledges_implicitly=True, renews_for_all=True, checks_epochs_since=(2, 1)),
    # Kafka's TransactionManager: maybeResolveSequences lets a producer renew its epoch only once nothing of that
    # partition is in flight, and each batch waits for an answer of its own. Sender.completeBatch breaks that where the
    # answer is an error and comes past delivery.timeout.ms (KAFKA-14397).
    JAVA: ClientRules(epoch_per_transaction_since=(4, 0), renews_after_error=True, checks_epochs_since=(2, 3)),
    # kafka-python 3.0.12, kafka/producer/sender.py: _can_retry (line 594) sends no batch again once the producer has
    # another id or epoch, and each batch waits for an answer of its own. A batch that expires (line 247) fails with
    # an error that counts as retriable, and leaves the state of the transaction as it is (lines 562 to 564).
    KAFKA_PYTHON: ClientRules(commits_incomplete=True, checks_epochs_since=(3, 0)),
    # aiokafka 0.14.0, aiokafka/producer/sender.py: one request to each broker at a time, and a producer id and epoch
    # that nothing but the answer to its InitProducerId changes (line 445).
    AIOKAFKA: ClientRules(checks_epochs_since=None),
    # franz-go 1.18.0, pkg/kgo/sink.go: a partition has one request in flight until its leader has answered one with
    # success (okOnSink), and the epoch is renewed after refusals alone (lines 850 to 963).
    FRANZ_GO: ClientRules(),
    # sarama 1.43.3, async_producer.go: dispatch numbers a message (line 698) unless it waits in a retry buffer, and
    # flushRetryBuffers (line 726) hands on what waited there. handleError (line 1192) returns the set that failed and
    # what is gathered, and only later the set between them.
    SARAMA: ClientRules(leaves_unnumbered=True, returns_late=True, checks_epochs_since=None),
    # kafkajs 2.2.4, src/producer/sendMessages.js: lines 85 to 90 number each attempt, and lines 105 to 111 take the
    # number back after a failure; lines 127 to 161 repeat a send() for all brokers without a response.
    KAFKAJS: ClientRules(numbers_anew=True, repeats_unanswered=True, checks_epochs_since=None),
}


def rules_of_client(lane: Lane) -> ClientRules:
    """The rules of a lane's client; if the lane names none, librdkafka's."""
    return CLIENTS.get((lane.client or LIBRDKAFKA).partition(" ")[0], ClientRules())


def _release_of_client(lane: Lane) -> tuple[int, int] | None:
    """The release of a lane's client, such as (3, 9), if the lane names it."""
    numbers = re.search(r" (\d+)\.(\d+)", lane.client or "")
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def checks_epochs(lane: Lane) -> bool:
    """Whether a lane's consumers notice that the log below their position was replaced.

    A client whose release is not known counts as the newest one.
    """
    since, present = rules_of_client(lane).checks_epochs_since, _release_of_client(lane)
    return since is not None and (present is None or present >= since)


def has_epoch_per_transaction(lane: Lane) -> bool:
    """Whether a lane's client and brokers are known to give each transaction a producer epoch of its own."""
    since, present = rules_of_client(lane).epoch_per_transaction_since, _release_of_client(lane)
    if since is None or present is None or lane.kafka_version is None:
        return False
    return min(present, release(lane.kafka_version)) >= since
