"""Reads the log of a partition with remote storage from its leader, like a consumer.

A broker deletes local segments that it has copied. The log is then in two places, and only the leader can put it
together: the remote store may have segments of former leaders, or segments that no broker knows. So the leader is asked
for everything up to the high watermark.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.cluster import PartitionId
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, error_name
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd
from kafka_chaos.harness.cluster.storage.segments import Batch, read_segment

_PATIENCE_SECONDS = 20.0
"""How long to ask for the same offset: after a fault, the remote store may need some time."""


def fetch_tiered(
    connect: Callable[[int], BrokerClient],
    ends: Mapping[PartitionId, LeaderEnd],
    folder: Path,
    say: Callable[[str], object],
) -> dict[PartitionId, Path]:
    """Write each partition's records below its high watermark to a file in a segment's format; returns the files.

    `connect` makes a connection to the broker with a given id. If a leader does not return a record, the partition's
    file ends before that record, and `say` is called with the reason.
    """
    files: dict[PartitionId, Path] = {}
    for (topic, partition), end in ends.items():
        with connect(end.leader) as leader:
            try:
                start = _log_start(leader, topic, partition, end.high_watermark)
            except WaitTimeout as failure:
                say(f"{failure}: the whole partition counts as missing from the log")
                start = end.high_watermark
            path = folder / f"{topic}-{partition}" / f"{start:020d}.log"
            path.parent.mkdir(parents=True)
            with path.open("wb") as file:
                offset = start
                while offset < end.high_watermark:
                    try:
                        batches = _fetch_batches(leader, topic, partition, offset)
                    except WaitTimeout as failure:
                        say(f"{failure}: what follows counts as missing from the log")
                        break
                    for batch in batches:
                        file.write(batch.data)
                    offset = batches[-1].last_offset + 1
        files[topic, partition] = path
    return files


def _log_start(leader: BrokerClient, topic: str, partition: int, high_watermark: int) -> int:
    """The partition's first offset; just after a fault, the leader may not answer for the partition yet."""

    def answered() -> tuple[int, ...]:
        answer = leader.fetch(topic, partition, offset=high_watermark)
        return (answer.log_start,) if answer.error == NONE else ()

    awaited = f"{leader.address} to name the start of {topic}-{partition}"
    return wait_until(answered, awaited, timeout=_PATIENCE_SECONDS, interval=0.1)[0]


def _fetch_batches(leader: BrokerClient, topic: str, partition: int, offset: int) -> tuple[Batch, ...]:
    """The batch with this offset, and later batches that the leader returns with it."""
    name = f"{topic}-{partition}"
    problem = ""

    def fetched() -> tuple[Batch, ...]:
        nonlocal problem
        answer = leader.fetch(topic, partition, offset=offset)
        problem = "" if answer.error == NONE else f"it answers {error_name(answer.error)}"
        batches = read_segment(f"{name}/{offset:020d}.log", answer.records).batches
        return tuple(batch for batch in batches if batch.last_offset >= offset)

    awaited = f"{leader.address} to return {name} from offset {offset} on"
    return wait_until(fetched, awaited, timeout=_PATIENCE_SECONDS, interval=0.1, seen=lambda: problem)
