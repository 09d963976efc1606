"""The rules that a transactional producer, its coordinator and the leaders of its partitions follow in the model.

| protocol | who speaks it | an EndTxn request names its transaction by | source |
| --- | --- | --- | --- |
| `v1` | clients before 4.0, librdkafka (EndTxn up to version 1) | producer id and epoch, the same for many \
transactions | KIP-98, KIP-360, KIP-588 |
| `v2` | Java clients since 4.0 with `transaction.version=2` | producer id and epoch, one per transaction | KIP-890 |

KIP-98 assumes of `v1` that the requests of a transaction arrive in the order in which they were sent: after the
coordinator has accepted the end, only another EndTxn arrives, and after the producer has the answer, none does.
Networks break this order. The model lets only requests of `Rules.late_kinds` arrive after the end, because the protocol
defends itself against these kinds (`v2` against all). The harm that late requests of other kinds do is a known defect.

Since 3.6, whatever the client, a leader asks the coordinator whether a transaction is open before it takes the
transaction's first record (`transaction.partition.verification.enable`, KIP-890, first part; KAFKA-14402).
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from kafka_chaos.contract.lane.metadata import Release, release

VERIFIED_SINCE: Release = (3, 6)
"""The first release whose leaders verify that a transaction is open (KAFKA-14402)."""


class Kind(IntEnum):
    """The kinds of requests that a producer sends in a transaction."""

    ADD_PARTITION = 0
    PRODUCE = 1
    END = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a protocol. Tests switch off single rules that every protocol has, to see that the model notices.

    `epoch_per_transaction`: each transaction has a producer epoch of its own. `verifies`: a leader asks the coordinator
    before it takes a transaction's first record. `late_kinds`: the requests that may arrive after their transaction's
    end. `compares_open_epochs`: open records of another epoch belong to another transaction (KAFKA-18575).
    `writes_markers_again`: a new coordinator ends transactions that its predecessor was ending. `aborts_on_init`:
    InitProducerId aborts the open transaction. `…_fences_…`: the first refuses requests of the second in an epoch that
    is not the newest. `reads_below_last_stable_offset`: a read_committed consumer does not read past that offset.
    `aborts_on_time_out`: after `transaction.timeout.ms`, the coordinator aborts.
    `commits_incomplete`: a producer goes on, and commits, after it has given a record up: a known defect (KAFKA-5385).
    """

    name: str
    epoch_per_transaction: bool
    verifies: bool
    late_kinds: frozenset[Kind]
    compares_open_epochs: bool = True
    leader_fences_producers: bool = True
    coordinator_fences_producers: bool = True
    leader_fences_coordinators: bool = True
    writes_markers_again: bool = True
    aborts_on_init: bool = True
    reads_below_last_stable_offset: bool = True
    aborts_on_time_out: bool = True
    commits_incomplete: bool = False


V1 = Rules("v1", epoch_per_transaction=False, verifies=True, late_kinds=frozenset({Kind.ADD_PARTITION, Kind.PRODUCE}))
V1_UNVERIFIED = replace(V1, verifies=False, late_kinds=frozenset({Kind.ADD_PARTITION}))
V2 = Rules("v2", epoch_per_transaction=True, verifies=True, late_kinds=frozenset(Kind))


def v1_in(version: str) -> Rules:
    """The rules of protocol `v1` with brokers of this version of Kafka."""
    return V1 if release(version) >= VERIFIED_SINCE else V1_UNVERIFIED
