"""The rules of replication, each written once, and the protocol's variants, which choose among them.

A rule is a function of what a broker, the controller or a client knows; it changes nothing. `explore`, `predict` and
`lockstep` have states of their own and ask these functions. A variant chooses a truncation rule and a fencing rule.

The weaker ones are negative controls: a model that finds nothing wrong with them checks nothing. `kip101-fenced` shows
that fencing does not make up for truncation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_chaos.reference_model.protocol.truncation import (
    Truncation,
    to_end_of_last_epoch,
    to_high_watermark,
    to_last_common_epoch,
)


@dataclass(frozen=True, slots=True)
class Protocol:
    """A variant: `asks_leader` says whether truncation needs an answer from the leader, `fenced` whether
    fetches and that question are refused unless both sides are in the same leader epoch (KIP-320)."""

    name: str
    summary: str
    truncation: Truncation
    asks_leader: bool
    fenced: bool


_VARIANTS = (
    # Kafka before 0.11.
    Protocol(
        name="truncate-to-high-watermark",
        summary="before KIP-101: truncate to the high watermark",
        truncation=to_high_watermark,
        asks_leader=False,
        fenced=False,
    ),
    # Kafka 0.11 to 1.1.
    Protocol(
        name="kip101",
        summary="KIP-101: truncate to the end of the last epoch",
        truncation=to_end_of_last_epoch,
        asks_leader=True,
        fenced=False,
    ),
    # Kafka 2.0.
    Protocol(
        name="kip279",
        summary="KIP-279: truncate to the last common epoch",
        truncation=to_last_common_epoch,
        asks_leader=True,
        fenced=False,
    ),
    # Kafka 2.1 and later.
    Protocol(
        name="kip320",
        summary="KIP-320: truncate to the last common epoch, fenced by leader epoch",
        truncation=to_last_common_epoch,
        asks_leader=True,
        fenced=True,
    ),
    # No version of Kafka.
    Protocol(
        name="kip101-fenced",
        summary="KIP-101's truncation under KIP-320's fencing",
        truncation=to_end_of_last_epoch,
        asks_leader=True,
        fenced=True,
    ),
)

PROTOCOLS: Mapping[str, Protocol] = {variant.name: variant for variant in _VARIANTS}

__all__ = ["PROTOCOLS", "Protocol"]
