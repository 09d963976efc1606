"""Power loss on a stopped broker: what it had written but not flushed to disk is gone.

Only what a loss of power can take is taken: whole batches from the end of the newest segment, above the recovery point
(everything below was flushed), on a broker that was killed. The broker finds out by itself at its next start, when it
recovers the log: indexes are rebuilt there, the leader epochs cut to the log's new end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.harness.cluster.storage.replica import read_replica
from kafka_chaos.harness.cluster.storage.segments import Record
from kafka_chaos.harness.errors import ClusterFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.node import Node

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def cut_last_batch(node: Node, topic: str, partition: int) -> tuple[Record, ...]:
    """Cut the log's last batch off, as a loss of power would have; returns the records that are gone.

    Raises `ClusterFailure` where no loss of power could have done that: the broker runs or was shut down cleanly, the
    batch was flushed, or the newest segment has none.
    """
    place = f"{node.name}: {topic}-{partition}"
    if node.is_running():
        raise ClusterFailure(f"{node.name} runs: power is lost on a killed broker only")
    if clean_shutdown_file(node) is not None:
        raise ClusterFailure(f"{node.name} was shut down cleanly, which flushes everything: kill it instead")
    replica = read_replica(node, topic, partition)
    newest = replica.segments[-1] if replica.segments else None
    if newest is None or not newest.batches:
        raise ClusterFailure(f"{place}: there is no batch to cut in its newest segment")
    *kept, last = newest.batches
    if replica.recovery_point is not None and last.base_offset < replica.recovery_point:
        raise ClusterFailure(
            f"{place}: offset {last.base_offset} is below the recovery point {replica.recovery_point}: it was flushed, "
            "a loss of power can't take it"
        )
    name = newest.file.rpartition("/")[2]
    node.write_file(f"{BROKER_DATA}/{topic}-{partition}/{name}", b"".join(batch.data for batch in kept))
    return tuple(last.records())


def clean_shutdown_file(node: Node) -> bytes | None:
    """What a broker's controlled shutdown has left in its log directory; None where its process ended otherwise.

    Since 3.7 it is JSON, with the broker epoch that the broker had (KIP-966).
    """
    from docker.errors import NotFound

    try:
        return node.read_file(f"{BROKER_DATA}/{_CLEAN_SHUTDOWN}")
    except NotFound:
        return None
