"""Every broker's own segments and checkpoints of the lanes into the run directory.

Guarantee: `replicas/` and `checkpoints.json` hold what each broker stored, transaction markers included. `log/` holds
what consumers are shown at this moment: of each partition its leader's records, committed or not, from the log start up
to the high watermark. The segments are read once for both. `log/` appears whole or not at all.

Memory stays bounded by chunks, not by the logs' size: segments are streamed out of the containers, decoded by columns
and written as Parquet a piece at a time, each broker's in a thread of its own.

A transaction marker names its producer by Kafka's own id only. It belongs to the producer whose record was the last one
before it with that id, as the run directory's contract says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage.files import (
    BROKER_FILES,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    parse_leader_epochs,
    parse_offsets,
    stream_files,
)
from kafka_chaos.harness.cluster.storage.identities import Identities, IdentityReader, joined
from kafka_chaos.harness.cluster.storage.segments import Batch, base_offset_of, read_segment
from kafka_chaos.harness.identity import UNDECODABLE

_NOBODY, _NO_SEQ = UNDECODABLE
_MARKERS = {0: ABORT, 1: COMMIT}
"""The type of a control record, behind its version in the key; others end no transaction."""


class MarkerReader:
    """Reads the markers of one partition, whose batches it gets in the order of the log."""

    def __init__(self) -> None:
        self._writers: dict[int, int] = {}

    def add(self, records: Identities, batches: Sequence[Batch]) -> Identities:
        """The `records` of these batches, and their markers, in the order of their offsets."""
        rows = list(self._markers(records, batches))
        if not rows:
            return records
        offsets, leader_epochs, producer_ids, producer_epochs, kinds = np.array(rows, dtype=np.int64).T
        seqs = np.full(len(rows), _NO_SEQ, dtype=np.int64)
        markers = Identities(offsets, leader_epochs, producer_ids, seqs, producer_epochs, kinds)
        both = joined([records, markers])
        return both.at(np.argsort(both.offsets, kind="stable"))

    def _markers(self, records: Identities, batches: Sequence[Batch]) -> Iterator[tuple[int, int, int, int, int]]:
        for batch in batches:
            if batch.control:
                for record in batch.records():
                    kind = _MARKERS.get(int.from_bytes((record.key or b"")[2:4], "big"))
                    if kind is not None:
                        writer = self._writers.get(batch.producer_id, _NOBODY)
                        epoch = batch.producer_epoch
                        yield record.offset, batch.leader_epoch, writer, epoch, RECORD_KINDS.index(kind)
            elif batch.transactional:
                last = int(np.searchsorted(records.offsets, batch.last_offset, side="right")) - 1
                if last >= 0 and records.offsets[last] >= batch.base_offset:
                    self._writers[batch.producer_id] = int(records.producer_ids[last])


CHUNK = 8 << 20
ROWS_PER_GROUP = 1 << 18
CHECKPOINT_TIMEOUT = 15.0
"""Three times the interval at which brokers write high watermarks to disk by default."""

# A folder of a deleted, future or stray replica has another ending.
_REPLICA_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredLane:
    """A lane as the brokers know it: its topic's name and number of partitions.

    `replicas/` tells records and markers apart only if a lane is `transactional`.
    """

    lane: str
    topic: str
    partitions: int
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class LeaderEnd:
    """A partition's leader and its high watermark: the end of the final log.

    `replicas`: the brokers that hold it. What another one has kept, from which it was moved away, is no replica. Where
    they are not known, every broker that has files of it counts.
    """

    leader: int
    high_watermark: int
    replicas: tuple[int, ...] = ()


@dataclass(slots=True)
class _Stored:
    """The state of a partition in one broker's files, besides records."""

    first: int | None = None
    log_end: int = 0
    log_bytes: int = 0
    leader_epochs: tuple[tuple[int, int], ...] = ()


def collect_stored(
    nodes: Iterable[Node],
    lanes: Sequence[StoredLane],
    ends: Mapping[Place, LeaderEnd],
    run_directory: Path,
    tiered: Mapping[Place, Path] = MappingProxyType({}),
) -> None:
    """Write `log/broker-N.parquet`, `replicas/broker-N.parquet` and `checkpoints.json`.

    `ends`: by topic and partition. Waits until the high watermarks on disk have reached the logs' ends, which they do
    at a broker's next checkpoint where everything is replicated; where they don't in time, they are written as they
    are: null where there is none. Raises `ClusterFailure` if a leader's files end below its high watermark.

    `tiered`: the logs of partitions with remote storage, as their leaders give them out. A replica of one is what is
    in remote storage, which all replicas share, and behind it the broker's own segments.
    """
    (run_directory / "replicas").mkdir(exist_ok=True)
    brokers = list(nodes)
    with (
        appearing_whole(run_directory / "log") as log,
        ThreadPoolExecutor(max_workers=max(1, len(brokers)), thread_name_prefix="replicas") as threads,
    ):
        log.mkdir()
        read = threads.map(lambda node: _collect_broker(node, lanes, ends, log, run_directory, tiered), brokers)
        entries: list[dict[str, Any]] = []
        for node in brokers:
            progress(len(entries), len(brokers), f"the files of {node.name}")
            entries.append(next(read))
    document = {"brokers": {str(node.number): entry for node, entry in zip(brokers, entries, strict=True)}}
    write_whole(run_directory / CHECKPOINTS_FILE, json.dumps(document, indent=1) + "\n")


def _collect_broker(
    node: Node,
    lanes: Sequence[StoredLane],
    ends: Mapping[Place, LeaderEnd],
    log: Path,
    run_directory: Path,
    tiered: Mapping[Place, Path],
) -> dict[str, Any]:
    everywhere = {(lane.topic, partition): lane.lane for lane in lanes for partition in range(lane.partitions)}
    elsewhere = {place for place, end in ends.items() if end.replicas and node.number not in end.replicas}
    places = {place: lane for place, lane in everywhere.items() if place not in elsewhere}
    log_starts = _checkpoints(node)[LOG_STARTS]
    led = {place: end.high_watermark for place, end in ends.items() if end.leader == node.number}
    file = f"broker-{node.number}.parquet"
    # No check uses keys, and the histories don't hold them either.
    without = ("key",) if any(lane.transactional for lane in lanes) else ("key", "kind")
    with (
        appearing_whole(run_directory / "replicas" / file) as part,
        _Writer(part, arrow_schema(REPLICAS, without=without), node.number) as replicas,
        _Writer(log / file, arrow_schema(LOG, without=without), node.number) as final,
    ):
        stored = _read_segments(node, places, log_starts, led, tiered, replicas, final)
    for place, end in led.items():
        found = stored[place].log_end if place in stored else 0
        if found < end:
            name = f"{place[0]}-{place[1]}"
            raise ClusterFailure(f"{node.name}: its files of {name} end at offset {found}, its high watermark is {end}")
    marks = _settled_checkpoints(node, stored)
    return {
        f"{places[place]}/{place[1]}": {
            "high_watermark": marks[HIGH_WATERMARKS].get(place),
            "log_end_offset": found.log_end,
            "recovery_point": marks[RECOVERY_POINTS].get(place, 0),
            "log_start_offset": max(log_starts.get(place, 0), found.first or 0),
            "log_bytes": found.log_bytes,
            "leader_epochs": [list(entry) for entry in found.leader_epochs],
        }
        for place, found in sorted(stored.items())
    }


def _read_segments(
    node: Node,
    places: Mapping[Place, str],
    log_starts: Mapping[Place, int],
    led: Mapping[Place, int],
    tiered: Mapping[Place, Path],
    replicas: _Writer,
    final: _Writer,
) -> dict[Place, _Stored]:
    readers = {lane: IdentityReader(lane) for lane in places.values()}
    wanted = re.compile(rf"[^/]+/(\d{{20}}\.log|{LEADER_EPOCHS})")
    folders = [f"{topic}-{partition}" for topic, partition in places]
    stored: dict[Place, _Stored] = {}
    markers = {place: MarkerReader() for place in places}

    def add(place: Place, file: str, content: IO[bytes], end: int | None = None) -> None:
        """Take a segment's batches that begin below this end."""
        lane, start = places[place], log_starts.get(place, 0)
        for chunk in _chunks(file, content):
            # What follows is read again from the broker's own segments: markers belong to what was before them.
            batches = chunk if end is None else tuple(batch for batch in chunk if batch.base_offset < end)
            if not batches:
                return
            stored[place].log_bytes += sum(batch.size for batch in batches if batch.last_offset >= start)
            rows = readers[lane].read(batches)
            replicas.add(lane, place[1], markers[place].add(rows, batches).between(start))
            if place in led:
                final.add(lane, place[1], rows.between(start, led[place]))
            stored[place].log_end = max(stored[place].log_end, batches[-1].last_offset + 1)

    for name, content in stream_files(node, BROKER_DATA, folders, wanted=wanted):
        folder = _REPLICA_FOLDER.fullmatch(name.partition("/")[0])
        assert folder is not None
        place = (folder["topic"], int(folder["partition"]))
        found = stored.setdefault(place, _Stored())
        file = f"{node.name}:{name}"
        if name.endswith(LEADER_EPOCHS):
            found.leader_epochs = parse_leader_epochs(file, content.read().decode(errors="replace"))
            continue
        base = base_offset_of(file)
        if found.first is None:
            found.first = base
            if place in tiered:
                found.first = base_offset_of(str(tiered[place]))
                with tiered[place].open("rb") as remote:
                    add(place, str(tiered[place]), remote, base)
        found.log_end = max(found.log_end, base)
        add(place, file, content)
    return stored


def _chunks(file: str, content: IO[bytes]) -> Iterator[tuple[Batch, ...]]:
    """A segment's whole batches, some at a time; a torn tail ends it, as it does for the broker."""
    rest = b""
    while piece := content.read(CHUNK):
        segment = read_segment(file, rest + piece)
        if segment.batches:
            yield segment.batches
        if segment.torn and not segment.torn.cut_short:
            return
        # A batch that continues in the next chunk looks like a torn tail until then.
        rest = (rest + piece)[segment.torn.position :] if segment.torn else b""


def _checkpoints(node: Node) -> dict[str, dict[Place, int]]:
    found = dict.fromkeys(BROKER_FILES, b"")
    for name, content in stream_files(node, BROKER_DATA, BROKER_FILES, wanted=re.compile("|".join(BROKER_FILES))):
        found[name] = content.read()
    return {name: parse_offsets(f"{node.name}:{name}", text.decode(errors="replace")) for name, text in found.items()}


def _settled_checkpoints(node: Node, stored: Mapping[Place, _Stored]) -> dict[str, dict[Place, int]]:
    marks: dict[str, dict[Place, int]] = {}

    def settled() -> bool:
        marks.update(_checkpoints(node))
        known = marks[HIGH_WATERMARKS]
        return all(known.get(place, 0) >= found.log_end for place, found in stored.items())

    try:
        what = f"{node.name} to write its high watermarks to disk"
        wait_until(settled, what, timeout=CHECKPOINT_TIMEOUT, interval=0.2)
    except WaitTimeout:
        # The files are still evidence: replicas are compared below the lowest log end.
        pass
    return marks


class _Writer:
    """One broker's rows into a Parquet file with this schema, in row groups of a bounded size."""

    def __init__(self, path: Path, schema: Any, broker: int) -> None:
        self._path = path
        self._broker = broker
        self._schema = schema
        self._waiting: list[Any] = []
        self._rows = 0

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
        """Take rows of one partition."""
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
        self._rows += count
        if self._rows >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting, schema=self._schema))
            self._waiting, self._rows = [], 0
