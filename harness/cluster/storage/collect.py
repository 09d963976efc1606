"""Collects every broker's segments and checkpoints of the lanes' partitions into the run directory.

Guarantee: `replicas/` and `checkpoints.json` hold what each broker stored, transaction markers included. `log/` holds
what consumers can read at this moment: each partition's records on its leader, committed or not, from the log start up
to the high watermark. The segments are read once for both. `log/` appears whole or not at all.

The memory needed does not grow with the logs: segments are streamed out of the containers, decoded by columns and
written as Parquet in chunks, each broker's in a thread of its own.

A transaction marker names its producer only by Kafka's producer id. As the run directory's contract says, the marker
belongs to the lane's producer that wrote the last record before it with that id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from kafka_chaos.contract.columns import LOG, REPLICAS, arrow_schema
from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.contract.command.files import appearing_whole, write_whole
from kafka_chaos.contract.command.progress import progress
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.transactions import ABORT, COMMIT, RECORD_KINDS
from kafka_chaos.contract.run_directory import CHECKPOINTS_FILE
from kafka_chaos.faults.cluster import PartitionId
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage import files
from kafka_chaos.harness.cluster.storage.identities import Identities, IdentityReader, joined
from kafka_chaos.harness.cluster.storage.segments import Batch, base_offset_of, read_segment
from kafka_chaos.harness.identity import UNDECODABLE

_NO_PRODUCER, _NO_SEQ = UNDECODABLE
"""The producer id and the sequence number of a record that has no identity."""
_MARKERS = {0: ABORT, 1: COMMIT}
"""How the control records of each type end a transaction; other types end none. The record's own key has two bytes of
version, then two bytes of type."""
CHUNK = 8 << 20
"""How many bytes of a segment are read and decoded at once."""
ROWS_PER_GROUP = 1 << 18
CHECKPOINT_TIMEOUT = 15.0
"""Seconds: three times the interval at which brokers write high watermarks to disk by default."""
# Folders of deleted, future and stray replicas have further endings, so they do not match.
_REPLICA_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")


class MarkerReader:
    """Reads the transaction markers of one partition from its batches, in the order of the log."""

    def __init__(self) -> None:
        self._writers: dict[int, int] = {}
        """For each of Kafka's producer ids: the lane's producer of the last record with this id."""

    def add(self, records: Identities, batches: Sequence[Batch]) -> Identities:
        """The `records` of these batches together with the batches' markers, in the order of their offsets."""
        rows = list(self._markers(records, batches))
        if not rows:
            return records
        offsets, leader_epochs, producer_ids, producer_epochs, kinds = np.array(rows, dtype=np.int64).T
        seqs = np.full(len(rows), _NO_SEQ, dtype=np.int64)
        markers = Identities(offsets, leader_epochs, producer_ids, seqs, producer_epochs, kinds)
        both = joined([records, markers])
        return both.select(np.argsort(both.offsets, kind="stable"))

    def _markers(self, records: Identities, batches: Sequence[Batch]) -> Iterator[tuple[int, int, int, int, int]]:
        """Offset, leader epoch, the lane's producer, producer epoch and kind of each marker."""
        for batch in batches:
            if batch.control:
                for record in batch.records():
                    kind = _MARKERS.get(int.from_bytes((record.key or b"")[2:4], "big"))
                    if kind is not None:
                        writer = self._writers.get(batch.producer_id, _NO_PRODUCER)
                        epoch = batch.producer_epoch
                        yield record.offset, batch.leader_epoch, writer, epoch, RECORD_KINDS.index(kind)
            elif batch.transactional:
                last = int(np.searchsorted(records.offsets, batch.last_offset, side="right")) - 1
                if last >= 0 and records.offsets[last] >= batch.base_offset:
                    self._writers[batch.producer_id] = int(records.producer_ids[last])


@dataclass(frozen=True, slots=True)
class StoredLane:
    """A lane with its topic's name and number of partitions.

    Only if a lane is `transactional`, `replicas/` has the column `kind`, which tells records from markers.
    """

    lane: str
    topic: str
    partitions: int
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class LeaderEnd:
    """A partition's leader and its high watermark, where the partition ends in `log/`.

    `replicas`: the brokers with replicas. Files that another broker has kept after a reassignment are no replica. An
    empty tuple means that the replicas are not known; then every broker with files of the partition counts as one.
    """

    leader: int
    high_watermark: int
    replicas: tuple[int, ...] = ()


@dataclass(slots=True)
class _StoredReplica:
    """What one broker's files say about a partition, without the records.

    `first_offset`: the first segment's base offset. `leader_epochs`: pairs of an epoch and its start offset.
    """

    first_offset: int | None = None
    log_end: int = 0
    log_bytes: int = 0
    leader_epochs: tuple[tuple[int, int], ...] = ()


def collect_stored(
    nodes: Iterable[Node],
    lanes: Sequence[StoredLane],
    ends: Mapping[PartitionId, LeaderEnd],
    run_directory: Path,
    tiered: Mapping[PartitionId, Path] = MappingProxyType({}),
) -> None:
    """Write `log/broker-N.parquet`, `replicas/broker-N.parquet` and `checkpoints.json`.

    Waits until the high watermarks on disk have reached the logs' ends, as they do at a broker's next checkpoint if all
    records are replicated. After a time-out, they are written as they are on disk, or as null. Raises `ClusterFailure`
    if a leader's files end below its high watermark.

    `tiered`: files with the logs of partitions with remote storage, from their leaders. A replica of such a partition
    consists of what is in remote storage, which all replicas share, and then the broker's own segments.
    """
    (run_directory / "replicas").mkdir(exist_ok=True)
    brokers = list(nodes)
    with (
        appearing_whole(run_directory / "log") as log,
        ThreadPoolExecutor(max_workers=max(1, len(brokers)), thread_name_prefix="replicas") as threads,
    ):
        log.mkdir()
        collected = threads.map(lambda node: _collect_broker(node, lanes, ends, log, run_directory, tiered), brokers)
        entries: list[dict[str, Any]] = []
        for node in brokers:
            progress(len(entries), len(brokers), f"the files of {node.name}")
            entries.append(next(collected))
    document = {"brokers": {str(node.number): entry for node, entry in zip(brokers, entries, strict=True)}}
    write_whole(run_directory / CHECKPOINTS_FILE, json.dumps(document, indent=1) + "\n")


def _collect_broker(
    node: Node,
    lanes: Sequence[StoredLane],
    ends: Mapping[PartitionId, LeaderEnd],
    log: Path,
    run_directory: Path,
    tiered: Mapping[PartitionId, Path],
) -> dict[str, Any]:
    """Write the broker's Parquet files; returns the broker's entry in checkpoints.json."""
    all_partitions = {(lane.topic, number): lane.lane for lane in lanes for number in range(lane.partitions)}
    without_replica = {partition for partition, end in ends.items() if end.replicas and node.number not in end.replicas}
    lane_of = {partition: lane for partition, lane in all_partitions.items() if partition not in without_replica}
    log_starts = _checkpoints(node)[files.LOG_STARTS]
    led_ends = {partition: end.high_watermark for partition, end in ends.items() if end.leader == node.number}
    file = f"broker-{node.number}.parquet"
    # Keys are left out: no check uses them, and histories don't have them either.
    unused_columns = ("key",) if any(lane.transactional for lane in lanes) else ("key", "kind")
    with (
        appearing_whole(run_directory / "replicas" / file) as path,
        _Writer(path, arrow_schema(REPLICAS, without=unused_columns), node.number) as replicas,
        _Writer(log / file, arrow_schema(LOG, without=unused_columns), node.number) as final_log,
    ):
        stored = _read_segments(node, lane_of, log_starts, led_ends, tiered, replicas, final_log)
    for (topic, number), end in led_ends.items():
        log_end = stored[topic, number].log_end if (topic, number) in stored else 0
        if log_end < end:
            problem = f"its files of {topic}-{number} end at offset {log_end}, below the high watermark {end}"
            raise ClusterFailure(f"{node.name}: {problem}")
    checkpoints = _checkpoints_at_log_ends(node, stored)
    return {
        f"{lane_of[partition]}/{partition[1]}": {
            "high_watermark": checkpoints[files.HIGH_WATERMARKS].get(partition),
            "log_end_offset": replica.log_end,
            "recovery_point": checkpoints[files.RECOVERY_POINTS].get(partition, 0),
            "log_start_offset": max(log_starts.get(partition, 0), replica.first_offset or 0),
            "log_bytes": replica.log_bytes,
            "leader_epochs": [list(entry) for entry in replica.leader_epochs],
        }
        for partition, replica in sorted(stored.items())
    }


def _read_segments(
    node: Node,
    lane_of: Mapping[PartitionId, str],
    log_starts: Mapping[PartitionId, int],
    led_ends: Mapping[PartitionId, int],
    tiered: Mapping[PartitionId, Path],
    replicas: _Writer,
    final_log: _Writer,
) -> dict[PartitionId, _StoredReplica]:
    """Write the records of a broker's partitions to `replicas`, and to `final_log` where the broker leads.

    `lane_of`: the lane of each partition; `log_starts`: its log start offset; `led_ends`: the high watermarks of the
    partitions that the broker leads; `tiered`: as in `collect_stored`.
    """
    readers = {lane: IdentityReader(lane) for lane in lane_of.values()}
    wanted = re.compile(rf"[^/]+/(\d{{20}}\.log|{files.LEADER_EPOCHS})")
    folders = [f"{topic}-{number}" for topic, number in lane_of]
    stored: dict[PartitionId, _StoredReplica] = {}
    markers = {partition: MarkerReader() for partition in lane_of}

    def add_segment(partition: PartitionId, file: str, content: IO[bytes], end: int | None = None) -> None:
        """Add a segment's batches to the tables; with `end`, only batches that begin below that offset."""
        lane, start = lane_of[partition], log_starts.get(partition, 0)
        for chunk in _chunks(file, content):
            # Later batches of remote storage are in the broker's own segments, too, and are read from there.
            batches = chunk if end is None else tuple(batch for batch in chunk if batch.base_offset < end)
            if not batches:
                return
            stored[partition].log_bytes += sum(batch.size for batch in batches if batch.last_offset >= start)
            rows = readers[lane].read(batches)
            replicas.add(lane, partition[1], markers[partition].add(rows, batches).between(start))
            if partition in led_ends:
                final_log.add(lane, partition[1], rows.between(start, led_ends[partition]))
            stored[partition].log_end = max(stored[partition].log_end, batches[-1].last_offset + 1)

    for name, content in files.stream_files(node, BROKER_DATA, folders, wanted=wanted):
        folder = _REPLICA_FOLDER.fullmatch(name.partition("/")[0])
        assert folder is not None
        partition = (folder["topic"], int(folder["partition"]))
        replica = stored.setdefault(partition, _StoredReplica())
        file = f"{node.name}:{name}"
        if name.endswith(files.LEADER_EPOCHS):
            replica.leader_epochs = files.parse_leader_epochs(file, content.read().decode(errors="replace"))
            continue
        base = base_offset_of(file)
        if replica.first_offset is None:
            replica.first_offset = base
            if partition in tiered:
                replica.first_offset = base_offset_of(str(tiered[partition]))
                with tiered[partition].open("rb") as remote:
                    add_segment(partition, str(tiered[partition]), remote, base)
        # An empty segment, too, says where the log ends.
        replica.log_end = max(replica.log_end, base)
        add_segment(partition, file, content)
    return stored


def _chunks(file: str, content: IO[bytes]) -> Iterator[tuple[Batch, ...]]:
    """A segment's batches, in groups that are read at once; a torn tail ends the segment, as it does for the broker."""
    rest = b""
    while piece := content.read(CHUNK):
        segment = read_segment(file, rest + piece)
        if segment.batches:
            yield segment.batches
        if segment.torn and not segment.torn.cut_short:
            return
        # A batch that continues in the next chunk looks like a torn tail until then.
        rest = (rest + piece)[segment.torn.position :] if segment.torn else b""


def _checkpoints(node: Node) -> dict[str, dict[PartitionId, int]]:
    """The offsets in a broker's checkpoint files, by file and partition."""
    wanted = re.compile("|".join(files.BROKER_FILES))
    streams = files.stream_files(node, BROKER_DATA, files.BROKER_FILES, wanted=wanted)
    return files.parse_checkpoints(node.name, {name: content.read() for name, content in streams})


def _checkpoints_at_log_ends(
    node: Node, stored: Mapping[PartitionId, _StoredReplica]
) -> dict[str, dict[PartitionId, int]]:
    """The checkpoints once their high watermarks have reached the logs' ends, or after `CHECKPOINT_TIMEOUT`."""
    checkpoints: dict[str, dict[PartitionId, int]] = {}

    def all_reached() -> bool:
        checkpoints.update(_checkpoints(node))
        marks = checkpoints[files.HIGH_WATERMARKS]
        return all(marks.get(partition, 0) >= replica.log_end for partition, replica in stored.items())

    # After a time-out, the files are still evidence: replicas are compared below the lowest log end.
    with suppress(WaitTimeout):
        awaited = f"{node.name} to write its high watermarks to disk"
        wait_until(all_reached, awaited, timeout=CHECKPOINT_TIMEOUT, interval=0.2)
    return checkpoints


class _Writer:
    """Writes one broker's rows to a Parquet file with this schema, in row groups of a bounded size."""

    def __init__(self, path: Path, schema: Any, broker: int) -> None:
        self._path = path
        self._broker = broker
        self._schema = schema
        self._waiting: list[Any] = []
        self._waiting_rows = 0

    def __enter__(self) -> _Writer:
        import pyarrow.parquet as pq

        self._file = pq.ParquetWriter(self._path, self._schema)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._file.close()

    def add(self, lane: str, partition: int, rows: Identities) -> None:
        """Add rows of one partition."""
        import pyarrow as pa

        count = len(rows.offsets)
        columns = {
            "lane": pa.repeat(lane, count),
            "partition": pa.repeat(partition, count),
            "broker": pa.repeat(self._broker, count),
            "offset": rows.offsets,
            "leader_epoch": rows.leader_epochs.astype("int32"),
            "producer_id": rows.producer_ids.astype("int32"),
            "seq": rows.seqs,
            "producer_epoch": rows.producer_epochs.astype("int32"),
            "kind": pa.DictionaryArray.from_arrays(rows.kinds, RECORD_KINDS),
        }
        arrays = [pa.array(columns[field.name]).cast(field.type) for field in self._schema]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting_rows += count
        if self._waiting_rows >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting, schema=self._schema))
            self._waiting, self._waiting_rows = [], 0
