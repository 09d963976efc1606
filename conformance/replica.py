"""Reads replicas from their broker's own files: segments, leader epochs and checkpoints, in one transfer.

These files are what the broker would find at a restart, not what it has in memory. The high watermark and the recovery
point are the checkpointed ones, which lag behind (`replica.high.watermark.checkpoint.interval.ms`,
`log.flush.offset.checkpoint.interval.ms`); the log itself is complete up to what the broker has written.
"""

import re
import tarfile
from dataclasses import dataclass
from functools import cached_property

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage import files
from kafka_chaos.harness.cluster.storage.segments import Batch, Record, Segment, read_segment

_NEEDED_FILES = re.compile(rf"{'|'.join(files.BROKER_FILES)}|[^/]+/(\d{{20}}\.log|{files.LEADER_EPOCHS})")


@dataclass(frozen=True)
class ReplicaFiles:
    """One broker's replica of a partition, as the broker's files show it.

    `log_start` and `log_end` are offsets, the end exclusive. `leader_epochs` is the chain of (epoch, start offset),
    oldest first. `high_watermark` and `recovery_point` are None where no checkpoint names the partition yet.
    """

    broker: int
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    log_start: int
    log_end: int
    leader_epochs: tuple[tuple[int, int], ...]
    high_watermark: int | None
    recovery_point: int | None

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All complete batches of the log, in offset order; batches may begin below the log start."""
        return tuple(batch for segment in self.segments for batch in segment.batches)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The log's records from its start on, transaction markers included; decoded when first asked for."""
        return tuple(record for batch in self.batches for record in batch.records() if record.offset >= self.log_start)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of the replica's segments, from the names of their files."""
        return tuple(segment.base_offset for segment in self.segments)


class NoReplica(ClusterFailure):
    """Raised when a broker has no replica of the partition in the log directory."""


def read_replica(node: Node, topic: str, partition: int, *, log_directory: str = BROKER_DATA) -> ReplicaFiles:
    """A broker's replica of a partition, read from one log directory. The broker's container may be paused or stopped.

    Raises `NoReplica` if the directory has none, and `ClusterFailure` if the files can't be read, for example while the
    container is just starting or stopping.
    """
    from docker.errors import APIError

    try:
        return _read(node, topic, partition, log_directory)
    except (tarfile.TarError, APIError, OSError, ValueError) as error:
        raise ClusterFailure(f"{node.name}: its files could not be read: {error}") from error


def _read(node: Node, topic: str, partition: int, log_directory: str) -> ReplicaFiles:
    key, folder = (topic, partition), f"{topic}-{partition}"
    streams = files.stream_files(node, log_directory, (folder, *files.BROKER_FILES), wanted=_NEEDED_FILES)
    contents = {name: content.read() for name, content in streams}
    if not any(name.startswith(f"{folder}/") for name in contents):
        raise NoReplica(f"{node.name}: no replica of {folder} in {log_directory}")
    checkpoints = files.parse_checkpoints(node.name, contents)
    segment_files = sorted(name for name in contents if name.startswith(f"{folder}/") and name.endswith(".log"))
    segments = tuple(read_segment(f"{node.name}:{name}", contents[name]) for name in segment_files)
    epochs_file = f"{folder}/{files.LEADER_EPOCHS}"
    epochs_text = contents.get(epochs_file, b"").decode(errors="replace")
    # The log start is checkpointed only while it lies inside the first segment, above that segment's base offset.
    first_offset = segments[0].base_offset if segments else 0
    return ReplicaFiles(
        broker=node.number,
        topic=topic,
        partition=partition,
        segments=segments,
        log_start=max(first_offset, checkpoints[files.LOG_STARTS].get(key, 0)),
        log_end=segments[-1].next_offset if segments else 0,
        leader_epochs=files.parse_leader_epochs(f"{node.name}:{epochs_file}", epochs_text),
        high_watermark=checkpoints[files.HIGH_WATERMARKS].get(key),
        recovery_point=checkpoints[files.RECOVERY_POINTS].get(key),
    )
