"""Which rules a transactional producer, its coordinator and the leaders of its partitions go by.

| protocol | who speaks it | an EndTxn request names its transaction by | source |
| --- | --- | --- | --- |
| `v1` | clients before 4.0, librdkafka (EndTxn up to version 1) | producer id and epoch, the same for many \
transactions | KIP-98, KIP-360, KIP-588 |
| `v2` | Java clients since 4.0 with `transaction.version=2` | producer id and epoch, one per transaction | KIP-890 |

KIP-98 assumes of `v1` that no request of a transaction arrives after the producer has seen that transaction end:
`Rules.late` is what of it may arrive late all the same. The promise holds where the protocol defends itself, and the
known defects are what an assumption costs that the network does not keep. In `v2` everything may be late.

Since 3.6 a leader asks the coordinator whether a transaction is open before it takes the first record of one
(`transaction.partition.verification.enable`, KIP-890, first part; KAFKA-14402), from every client.

`BROKEN` has variants in which one rule is missing. They are negative controls: a model that finds nothing wrong with
them checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from kafka_chaos.contract.metadata import Release, release

VERIFIED_SINCE: Release = (3, 6)
"""The release whose leaders verify that a transaction is open (KAFKA-14402)."""


class Kind(IntEnum):
    """The requests of a producer in a transaction."""

    ADD_PARTITION = 0
    PRODUCE = 1
    END = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """A protocol's rules. `late`: the requests that may arrive after their transaction has ended for the producer."""

    name: str
    epoch_per_transaction: bool
    verifies: bool
    late: frozenset[Kind]
    compares_open_epochs: bool = True
    fences_at_leader: bool = True
    fences_at_coordinator: bool = True
    fences_coordinators: bool = True
    writes_markers_again: bool = True
    aborts_on_init: bool = True
    reads_below_last_stable_offset: bool = True
    aborts_on_time_out: bool = True


V1 = Rules("v1", epoch_per_transaction=False, verifies=True, late=frozenset({Kind.ADD_PARTITION, Kind.PRODUCE}))
V1_UNVERIFIED = replace(V1, verifies=False, late=frozenset({Kind.ADD_PARTITION}))
V2 = Rules("v2", epoch_per_transaction=True, verifies=True, late=frozenset(Kind))


def v1_in(version: str) -> Rules:
    """The rules of protocol `v1` with brokers of a version."""
    return V1 if release(version) >= VERIFIED_SINCE else V1_UNVERIFIED


BROKEN: Mapping[str, Rules] = {
    "no fencing at the coordinator": replace(V1, fences_at_coordinator=False),
    "no fencing at the leader": replace(V1_UNVERIFIED, fences_at_leader=False),
    "no fencing of coordinators": replace(V1, fences_coordinators=False),
    "markers are not written again": replace(V1, writes_markers_again=False),
    "InitProducerId does not abort": replace(V1, aborts_on_init=False),
    "a read ignores the last stable offset": replace(V1, reads_below_last_stable_offset=False),
    "no abort by time-out": replace(V1, aborts_on_time_out=False),
    "one epoch for all transactions": replace(V1, late=frozenset(Kind)),
    "no verification": replace(V1, verifies=False),
    "a leader takes open records for those of the transaction": replace(V2, compares_open_epochs=False),
}
"""Protocols without one rule, by what they lack."""
