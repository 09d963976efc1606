"""Assumptions of the model on brokers and clients, which it does not derive: each excludes one anomaly.

The lane's states have no consumer positions, no holes in logs and no high watermark over time. So the search can't
decide these anomalies. They are forbidden in every lane but those whose faults break the axiom, and `predict` answers
with the axiom and with the conditions under which it does not hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_chaos.contract.anomalies import Anomaly


@dataclass(frozen=True, slots=True)
class Axiom:
    """An assumption: the `reason` for it, the condition under which it `fails`, and where Kafka `documents` it.

    `broken_by`: the fault kinds that bring this condition about.
    """

    reason: str
    fails: str
    documents: str
    broken_by: frozenset[str] = frozenset()

    def sentences(self) -> tuple[str, ...]:
        """The axiom as an answer to why an anomaly is forbidden."""
        return (
            f"An axiom of the model, not a result of the search: {self.reason} ({self.documents}).",
            f"It does not hold where {self.fails}.",
        )

    def exception(self, faults: Iterable[str]) -> tuple[str, ...]:
        """Why the anomaly is permitted to a lane with these faults; empty where the axiom holds."""
        breaking = sorted(self.broken_by.intersection(faults))
        return (f"With {', '.join(breaking)}, an axiom of the model fails: {self.fails}.",) if breaking else ()


AXIOMS: Mapping[Anomaly, Axiom] = {
    Anomaly.FALSE_FAILURE: Axiom(
        "the producer reports `fail` only for a record that it handed to no broker",
        "an imported history counts a time-out or another error after sending as a failure",
        "docs/anomalies.md, outcomes",
    ),
    Anomaly.PHANTOM: Axiom(
        "a log holds only what a producer sent: appends and fetches are the only ways in",
        "somebody else writes to the topic, a mirror copies records into it, or a disk damages them",
        "Kafka, Replication",
    ),
    Anomaly.UNSEEN: Axiom(
        "a consumer that reads to the end passes every offset below the high watermark",
        "retention deletes records before they are read, or a consumer starts behind the first record or is reset "
        "to the latest offset (`auto.offset.reset`), or a leader that has lost its log's end without leaving the ISR "
        "(power loss) appends up to the consumer's position again",
        "Kafka, consumer position",
        broken_by=frozenset({"power-loss"}),
    ),
    Anomaly.NONMONOTONIC_POLL: Axiom(
        "a consumer's position only grows within one assignment",
        "a consumer detects a truncation below its position and goes back, to the last common offset or by its reset "
        "policy (KIP-320), seeks, or is given the partition anew",
        "Kafka, consumer position",
    ),
    Anomaly.SKIPPED_POLL: Axiom(
        "a consumer's position advances over the records that it returns, and logs have no holes",
        "a consumer seeks or is reset to the latest offset, or reads committed records only and an aborted "
        "transaction lies in between",
        "Kafka, consumer position",
    ),
    Anomaly.OFFSET_GAP: Axiom(
        "a leader appends at its log end offset, and a follower fetches from its own: logs have no holes",
        "the topic is compacted, or producers use transactions, whose markers occupy offsets",
        "Kafka, log",
    ),
    Anomaly.HIGH_WATERMARK_REGRESSION: Axiom(
        "within a leader epoch the ISR admits only replicas that hold all below the high watermark, and none of its "
        "members' logs gets shorter",
        "a member of the ISR loses its log's end without leaving the ISR (power loss and a restart within the "
        "session time-out, or while no controller is there to end its leader epoch), or reports of two leader epochs "
        "are compared",
        "KIP-101, KIP-320",
        broken_by=frozenset({"power-loss"}),
    ),
}
