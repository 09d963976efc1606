"""The evidence ledger of verdict.json: the evidence that a run left behind, and how much of it was read and judged.

Guarantee: a number that is not known is null, never 0. `missing` names evidence that is incomplete, hidden or
contradictory. `left_out` names evidence that the run did not collect on purpose.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class _Entry:
    """An object of the ledger. Every subclass becomes a frozen dataclass, which takes keywords only."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class FileLedger(_Entry):
    """A Parquet file of a table, and the number of rows in its footer."""

    file: str
    rows: int


class TableLedger(_Entry):
    """One table of the run, for all lanes: its files, the rows in their footers, and the rows that the engine read."""

    files: tuple[FileLedger, ...]
    rows_by_footer: int
    rows_as_read: int


class RowsLedger(_Entry):
    """The lane's rows in each table. `log` and `replicas` are null where the run has no such table."""

    produced: int
    consumed: int
    log: int | None
    replicas: int | None


class AcknowledgedLedger(_Entry):
    """Acknowledged records, and how many of them could be judged as stored or lost."""

    records: int
    judged: int


class PartitionLedger(_Entry):
    """How far a partition was read: `log_end` is its last offset in the final log, `read_to` the highest one read."""

    partition: int
    log_end: int | None
    read_to: int | None
    end_reached: bool


class FaultLedger(_Entry):
    """What events.jsonl reports of one fault. `problem`: why it does not prove the fault's begin and end, or null."""

    fault_id: str
    kind: str
    requested_ns: int | None
    proven_ns: int | None
    healed_ns: int | None
    problem: str | None


class FaultsLedger(_Entry):
    """The fault kinds that lanes.json declares, and the faults that events.jsonl reports (null without that file)."""

    declared: tuple[str, ...]
    events: tuple[FaultLedger, ...] | None


class BrokerLedger(_Entry):
    """One broker's replica of a partition: its rows, its first and last offset, and its high watermark."""

    broker: int
    rows: int
    first: int | None
    last: int | None
    high_watermark: int | None


class ReplicaLedger(_Entry):
    """The replicas of a partition. All were compared below offset `judged_below`; null means that they were not."""

    partition: int
    judged_below: int | None
    brokers: tuple[BrokerLedger, ...]


class ReplicasLedger(_Entry):
    """The replicas of a lane, partition by partition, and the number that there should be."""

    replication_factor: int
    partitions: tuple[ReplicaLedger, ...]


class CommittedLedger(_Entry):
    """How far a partition is committed, and how far a read_committed consumer read it.

    `committed_end`: the last offset of a committed record. `open_at`: the first offset of the transaction that is open
    where the log ends; null if none is.
    """

    partition: int
    committed_end: int | None
    read_to: int | None
    open_at: int | None


class TransactionsLedger(_Entry):
    """The lane's rows in transactions/, by outcome.

    `markers`: the rows of replicas/ that end a transaction; null if replicas/ does not tell markers from records.
    """

    rows: int
    committed: int
    aborted: int
    in_doubt: int
    markers: int | None
    partitions: tuple[CommittedLedger, ...]


class GroupPartitionLedger(_Entry):
    """How far a group came in a partition.

    `processed_to`: the highest offset processed. `acknowledged`: the highest offset whose commit was acknowledged.
    `final`: the committed offset in the end; null if groups.json does not say.
    """

    partition: int
    processed_to: int | None
    acknowledged: int | None
    final: int | None


class GroupLedger(_Entry):
    """A group of the lane: its rows in assignments/ and commits/, the latter by outcome, and its partitions.

    `reads`: the lane that the group reads. `members`: how many members assignments/ names. `processed`: how many
    records they processed. `without_generation`: assignments that name no generation. `doubled`: rows of these two
    tables that repeat another row.
    """

    group: str
    reads: str
    assignments: int
    members: int
    processed: int
    acknowledged: int
    refused: int
    in_doubt: int
    partitions: tuple[GroupPartitionLedger, ...]
    without_generation: int = 0
    doubled: int = 0


class ShareLedger(_Entry):
    """The share group of the lane: its members that were given records, its deliveries, and their acknowledgements.

    `accepted`, `released` and `rejected` are acknowledgements that were taken; others were `refused`, or are
    `in_doubt`. `undrained`: partitions whose last record the group had not passed. `unasked`: deliveries without the
    time at which a member asked for them. `doubled`: rows that repeat another row. `reported`: partitions whose start
    offset was reported. `letters`: dead letters.
    """

    group: str
    members: int = 0
    deliveries: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    refused: int = 0
    in_doubt: int = 0
    undrained: int = 0
    unasked: int = 0
    doubled: int = 0
    reported: int = 0
    letters: int = 0


class PredictionLedger(_Entry):
    """Where the statuses come from (`prediction.json` or `model`), and the digest of the model that confirmed them."""

    source: str
    recomputed: bool
    model_digest: str | None


class RecoveryLedger(_Entry):
    """The outage that came closest to its bound, or exceeded it most, without the time that faults excuse.

    `longest_s`: its length in seconds, 0 without an outage. `bound_s`: the bound in seconds. `derivation`: the bound
    as a sum of time-outs.
    """

    anomaly: str
    partition: int | None
    longest_s: float
    bound_s: float
    derivation: str


class ObservedLedger(_Entry):
    """What was seen of a partition's ISRs. `states`: how many partition epochs; `complete`: whether none is missing.

    `reason`: why this does not suffice to ask the model for the statuses *in this run*, such as a broker that left the
    ISR without a fault; null if it suffices.
    """

    partition: int
    states: int
    complete: bool
    reason: str | None


class ObservationsLedger(_Entry):
    """Whether the model was asked for the statuses *in this run*, with the observations of `partitions`.

    If not, the lane keeps its statuses *for these faults*, and `reason` says why.
    """

    searched: bool
    reason: str | None
    partitions: tuple[ObservedLedger, ...]


class Ledger(_Entry):
    """The evidence of one lane. It is complete if nothing is `missing`.

    Only some lanes have `transactions`, `groups` (of a group or a loop) and `share`. `recovery` has only the anomalies
    that were judged. A lane with a lock-step phase has no `observations`.
    """

    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    rows: RowsLedger
    acknowledged: AcknowledgedLedger
    partitions: tuple[PartitionLedger, ...]
    faults: FaultsLedger
    replicas: ReplicasLedger | None
    high_watermark_reports: int
    prediction: PredictionLedger
    transactions: TransactionsLedger | None = None
    groups: tuple[GroupLedger, ...] = ()
    recovery: tuple[RecoveryLedger, ...] = ()
    observations: ObservationsLedger | None = None
    share: ShareLedger | None = None

    @property
    def complete(self) -> bool:
        """Whether all evidence that the run directory announces exists and was read."""
        return not self.missing

    def to_json(self) -> dict[str, Any]:
        """The lane's `ledger` in verdict.json."""
        entry = {"complete": self.complete, **asdict(self)}
        optional = ("transactions", "groups", "recovery", "observations", "share")
        return {name: value for name, value in entry.items() if value or name not in optional}
