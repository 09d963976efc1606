"""Rules of client libraries beyond the KIPs, each with its source.

A lane's machine has the client of KIP-98 and KIP-360: retries in the order of the records, as many requests in flight
as the lane says, and time-outs (`lane/exchanges.py`); sequence numbers, and a producer epoch that is renewed where a
batch is refused behind an acknowledged one (`lane/idempotence.py`). The rules here are added where known defects are
searched. A client that is not in `CLIENTS` has none of them: nobody has read its source for more.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import release

LIBRDKAFKA, JAVA = "librdkafka", "java"
_RELEASE = re.compile(r" (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class ClientRules:
    """`acknowledges_implicitly`: an acknowledgement is one of the records before it, too, that wait to be sent again.

    `renews_for_all`: messages that time out, or sequence numbers that are skipped, in any partition, let the producer
    renew its epoch for all partitions, and send under it what is in doubt. `per_transaction`: from this release on of
    both client and brokers, each transaction has a producer epoch of its own (KIP-890, part 2).
    """

    acknowledges_implicitly: bool = False
    renews_for_all: bool = False
    per_transaction: tuple[int, int] | None = None


CLIENTS: Mapping[str, ClientRules] = {
    # librdkafka 2.15.0: rd_kafka_dr_implicit_ack, called in src/rdkafka_request.c, line 4803, and
    # rd_kafka_idemp_drain_epoch_bump, called in src/rdkafka_broker.c, line 4231, once messages have timed out.
    LIBRDKAFKA: ClientRules(acknowledges_implicitly=True, renews_for_all=True),
    # Kafka's TransactionManager: canRetry and maybeResolveSequences let a producer renew its epoch only once nothing
    # of that partition is in flight, and each batch waits for an answer of its own.
    JAVA: ClientRules(per_transaction=(4, 0)),
}


def rules_of_client(lane: Lane) -> ClientRules:
    """The rules of a lane's client; without one, librdkafka's."""
    return CLIENTS.get((lane.client or LIBRDKAFKA).partition(" ")[0], ClientRules())


def has_epoch_per_transaction(lane: Lane) -> bool:
    """Whether a lane's client and brokers are known to give each transaction a producer epoch of its own."""
    since = rules_of_client(lane).per_transaction
    client = _RELEASE.search(lane.client or "")
    if since is None or client is None or lane.kafka_version is None:
        return False
    return min((int(client[1]), int(client[2])), release(lane.kafka_version)) >= since
