"""Idempotent producers: what brokers remember of them, which batches they take, and when a producer renews its epoch.

Sources: KIP-98 (sequence numbers; the last five batches of each producer are remembered), KIP-360 (producer epochs that
a producer renews by itself; an unknown producer). A batch here is one record.

Left out: `producer.id.expiration.ms`.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

MOST_BATCHES = 5  # the most batches of a producer that a broker remembers


class Batch(NamedTuple):
    """A batch that a broker remembers of a producer."""

    producer_epoch: int
    sequence: int
    offset: int


class Refusal(Enum):
    """Why a broker does not append a batch."""

    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"


def check_batch(remembered: Sequence[Batch], producer_epoch: int, sequence: int) -> Refusal | int | None:
    """A broker's answer to a batch: None to append it, the offset at which the log has it already, or a refusal.

    `remembered`: the producer's last batches, the oldest first. The first batch of an unknown producer may have any
    sequence number (KIP-360; a defect, as KAFKA-15591 shows).
    """
    for batch in remembered[-MOST_BATCHES:]:
        if batch[:2] == (producer_epoch, sequence):
            return batch.offset
    if not remembered:
        return None
    last = remembered[-1]
    if producer_epoch < last.producer_epoch:
        return Refusal.INVALID_PRODUCER_EPOCH
    expected = 0 if producer_epoch > last.producer_epoch else last.sequence + 1
    return None if sequence == expected else Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER


def renews_epoch(refusal: Refusal, *, follows_acknowledged: bool) -> bool:
    """Whether a producer renews its producer epoch when a batch is refused (KIP-360).

    It does if the batch before was acknowledged in this epoch: that batch is gone, and no retry fills the gap.
    """
    return refusal is Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER and follows_acknowledged
