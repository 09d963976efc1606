"""Kafka before 0.11: a new follower drops what lies above its own high watermark. Loses committed data."""

from kafka_chaos.reference_model.protocols import rules

PROTOCOL = rules.Protocol(
    name="truncate-to-high-watermark",
    summary="before KIP-101: truncate to the high watermark",
    truncation=rules.to_high_watermark,
    asks_leader=False,
    fenced=False,
)
