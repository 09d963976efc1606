"""The rules of replication, each written once, and the protocol's variants, which choose among them.

A rule is a function of what a broker, the controller or a client knows, and it changes nothing. `explore/`, `lane/` and
`lockstep/` have states of their own and call these functions. A variant of the protocol chooses how followers truncate
their logs, and whether leader epochs fence the followers.

Only `kip320` is today's protocol. The other variants are weaker and serve as negative controls: a model that finds
nothing wrong with them checks nothing. `kip101-fenced` shows that fencing does not make up for a weaker truncation.
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
    """A variant of the replication protocol.

    `truncation`: the rule by which a new follower truncates its log. `fenced`: a leader refuses a
    Fetch or OffsetsForLeaderEpoch request from a follower in another leader epoch (KIP-320).
    """

    name: str
    summary: str
    truncation: Truncation
    fenced: bool

    @property
    def asks_leader(self) -> bool:
        """Whether a new follower needs an answer from the leader in order to truncate."""
        return self.truncation is not to_high_watermark


_VARIANTS = (
    # Kafka before 0.11.
    Protocol(
        "truncate-to-high-watermark", "before KIP-101: truncate to the high watermark", to_high_watermark, fenced=False
    ),
    # Kafka 0.11 to 1.1.
    Protocol("kip101", "KIP-101: truncate to the end of the last epoch", to_end_of_last_epoch, fenced=False),
    # Kafka 2.0.
    Protocol("kip279", "KIP-279: truncate to the last common epoch", to_last_common_epoch, fenced=False),
    # Kafka 2.1 and later.
    Protocol(
        "kip320",
        "KIP-320: truncate to the last common epoch, fenced by leader epoch",
        to_last_common_epoch,
        fenced=True,
    ),
    # In no version of Kafka.
    Protocol("kip101-fenced", "KIP-101's truncation under KIP-320's fencing", to_end_of_last_epoch, fenced=True),
)

PROTOCOLS: Mapping[str, Protocol] = {variant.name: variant for variant in _VARIANTS}
