"""Kafka 2.1 and later (KIP-320): as KIP-279, and requests carry the leader epoch. Keeps strong ISR."""

from kafka_chaos.reference_model.protocols import rules

PROTOCOL = rules.Protocol(
    name="kip320",
    summary="KIP-320: truncate to the last common epoch, fenced by leader epoch",
    truncation=rules.to_last_common_epoch,
    asks_leader=True,
    fenced=True,
)
