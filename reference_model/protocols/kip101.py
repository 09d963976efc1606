"""Kafka 0.11 to 1.1 (KIP-101): a new follower asks the leader where its last epoch ends. Can still diverge."""

from kafka_chaos.reference_model.protocols import rules

PROTOCOL = rules.Protocol(
    name="kip101",
    summary="KIP-101: truncate to the end of the last epoch",
    truncation=rules.to_end_of_last_epoch,
    asks_leader=True,
    fenced=False,
)
