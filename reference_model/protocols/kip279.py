"""Kafka 2.0 (KIP-279): the question is repeated until both know the epoch. Requests are not fenced yet."""

from kafka_chaos.reference_model.protocols import rules

PROTOCOL = rules.Protocol(
    name="kip279",
    summary="KIP-279: truncate to the last common epoch",
    truncation=rules.to_last_common_epoch,
    asks_leader=True,
    fenced=False,
)
