"""The facts of a run's lanes, from the rows of the statements in `statements/facts/`.

Guarantee: every row that was read is counted once, so that the sums can be compared with the files' footers.
"""

from collections import defaultdict

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import share_group_of
from kafka_chaos.contract.ledger import GroupLedger, GroupPartitionLedger, ShareLedger
from kafka_chaos.verification.engines.engine import Row, SqlEngine, rows_of
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.statements.library import FACTS, statements
from kafka_chaos.verification.tables.facts import (
    Awaited,
    LaneFacts,
    OpenEnd,
    Owned,
    PartitionFacts,
    Pulse,
    ReplicaFacts,
    TransactionFacts,
)

_OF_FAMILIES = {
    **dict.fromkeys(("transactions", "unknown_readers", "read_to", "open_ends"), "transactions"),
    **dict.fromkeys(("groups", "progress", "without_input"), "groups"),
    "shares": "shares",
}
"""The family of lanes that a fact is about, if it is not about all."""
_OF_RECOVERY = ("pulses", "owned", "awaited")
_OF_GROUP = (
    "assignments", "members", "without_generation", "doubled", "processed", "acknowledged", "refused", "in_doubt",
)  # fmt: skip
"""What `facts/groups.sql` counts of a group, in its order."""
_OF_SHARE = (
    "deliveries", "members", "accepted", "released", "rejected", "refused", "in_doubt", "unasked", "doubled",
    "reported", "undrained",
)  # fmt: skip
"""The same of `facts/shares.sql`."""

ByLane = dict[str, list[Row]]
"""By lane the rows of a fact without the lane, which is their first column."""


class Facts:
    """The rows of all facts that the run's lanes have."""

    def __init__(self, engine: SqlEngine, run: RunDirectory) -> None:
        self.run = run
        self.rows: dict[str, ByLane] = {}
        for name, statement in statements(FACTS).items():
            is_wanted = (
                _OF_FAMILIES.get(name, "records") in run.families
                and (name not in _OF_RECOVERY or bool(run.timings))
                and (name != "unjudged" or not run.has_log or any(lane.cleanup_policy for lane in run.lanes))
            )
            self.rows[name] = defaultdict(list)
            for lane, *values in rows_of(engine, statement) if is_wanted else ():
                self.rows[name][lane].append(tuple(values))

    def of(self, lane: Lane) -> LaneFacts:
        """The facts of a lane."""
        replicas: dict[int, dict[int, ReplicaFacts]] = defaultdict(dict)
        for partition, broker, *values in self._rows("replicas", lane):
            replicas[partition][broker] = ReplicaFacts(*values)
        groups = self._rows("groups", lane)
        return LaneFacts(
            partitions=self._partitions(lane),
            unjudged=sum(n for (n,) in self._rows("unjudged", lane)),
            replicas=dict(replicas),
            transactions=None if lane.transactional is None else self._transactions(lane),
            groups=tuple(self._group(lane, name, groups) for name in groups_of_lane(lane)),
            without_input=sum(n for (n,) in self._rows("without_input", lane)),
            pulses=tuple(sorted((Pulse(*row) for row in self._rows("pulses", lane)), key=str)),
            awaited=tuple(sorted((Awaited(*row) for row in self._rows("awaited", lane)), key=str)),
            share=self._share(lane),
            owned=tuple(sorted((Owned(*row) for row in self._rows("owned", lane)), key=str)),
        )

    def _rows(self, name: str, lane: Lane) -> list[Row]:
        return self.rows[name].get(lane.lane, [])

    def _partitions(self, lane: Lane) -> dict[int | None, PartitionFacts]:
        ends = {partition: values for partition, *values in self._rows("ends", lane)}
        is_transactional = lane.transactional is not None
        found: dict[int | None, PartitionFacts] = {}
        for partition, *counts in self._rows("partitions", lane):
            log_end, visible_end, read_end, uncommitted_read_end = ends.get(partition, (None,) * 4)
            of_transactions = (
                visible_end if is_transactional and self.run.has_log else None,
                uncommitted_read_end if is_transactional else None,
            )
            values: Row = (*counts, read_end, log_end, is_transactional, *of_transactions)
            found[partition] = PartitionFacts(*values)
        return found

    def _transactions(self, lane: Lane) -> TransactionFacts:
        (counts,) = self._rows("transactions", lane)
        values: Row = (
            *counts,
            tuple(sorted(name for (name,) in self._rows("unknown_readers", lane))),
            dict(self._rows("read_to", lane)),
            tuple(OpenEnd(*row) for row in self._rows("open_ends", lane)),
        )
        return TransactionFacts(*values)

    def _share(self, lane: Lane) -> ShareLedger | None:
        for counts in self._rows("shares", lane):
            return ShareLedger(group=share_group_of(lane.lane), **dict(zip(_OF_SHARE, counts, strict=True)))
        return None

    def _group(self, lane: Lane, name: str, groups: list[Row]) -> GroupLedger:
        counts = next(dict(zip(_OF_GROUP, values, strict=True)) for group, *values in groups if group == name)
        partitions = tuple(
            GroupPartitionLedger(partition=partition, processed_to=processed_to, acknowledged=acknowledged, final=final)
            for group, partition, processed_to, acknowledged, final in self._rows("progress", lane)
            if group == name
        )
        return GroupLedger(group=name, reads=groups_of_lane(lane)[name], partitions=partitions, **counts)
