"""KIP-101's truncation under KIP-320's fencing, a negative control: fencing does not make up for truncation."""

from kafka_chaos.reference_model.protocols import rules

PROTOCOL = rules.Protocol(
    name="kip101-fenced",
    summary="KIP-101's truncation under KIP-320's fencing",
    truncation=rules.to_end_of_last_epoch,
    asks_leader=True,
    fenced=True,
)
