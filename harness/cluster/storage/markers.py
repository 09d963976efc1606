"""Transaction markers of a partition's log, each with the producer whose transaction it ends there.

A marker names its producer by Kafka's own id only. It belongs to the producer whose record was the last one before it
with that id, as the run directory's contract says.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kafka_chaos.contract.identity import UNDECODABLE
from kafka_chaos.contract.lane.transactions import ABORT, COMMIT, RECORD_KINDS
from kafka_chaos.harness.cluster.storage.identities import Identities, joined
from kafka_chaos.harness.cluster.storage.segments import Batch

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
