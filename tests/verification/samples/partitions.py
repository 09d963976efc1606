"""The counts of a partition whose evidence is complete."""

from kafka_chaos.verification.tables.facts import PartitionFacts

FULL = PartitionFacts(
    produced=10,
    acknowledged=10,
    consumed=10,
    stored=10,
    first_acknowledged_ns=100,
    acknowledged_end=9,
    read_end=9,
    log_end=9,
)
