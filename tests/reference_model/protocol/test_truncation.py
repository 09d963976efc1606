"""The rules of truncation and of the ISR, each on the smallest logs that tell it from the others."""

import pytest

from kafka_chaos.reference_model.protocol import truncation
from kafka_chaos.reference_model.protocol.entries import EPOCH_SHIFT


def log(epochs: str) -> truncation.Log:
    """A log by the leader epochs of its records; each record has another number."""
    return tuple(int(epoch) << EPOCH_SHIFT | number for number, epoch in enumerate(epochs))


@pytest.mark.parametrize(
    ("epochs", "asked", "end"),
    [("", 0, 0), ("0013", 0, 2), ("0013", 1, 3), ("0013", 2, 3), ("0013", 3, 4), ("0013", 4, 4), ("1", 0, 0)],
)
def test_an_epoch_ends_where_the_first_larger_one_starts(epochs: str, asked: int, end: int) -> None:
    assert truncation.end_offset_for(log(epochs), asked) == end


@pytest.mark.parametrize(
    ("rule", "follower", "watermark", "leader", "end"),
    [
        (truncation.to_high_watermark, "00", 1, "00", 1),
        (truncation.to_high_watermark, "00", 5, "00", 2),
        (truncation.to_high_watermark, "", 0, "00", 0),
        # KIP-101: the watermark no longer counts, the leader's answer does.
        (truncation.to_end_of_last_epoch, "00", 0, "00", 2),
        (truncation.to_end_of_last_epoch, "000", 0, "011", 1),
        (truncation.to_end_of_last_epoch, "0", 0, "000", 1),
        (truncation.to_end_of_last_epoch, "", 0, "011", 0),
        # KIP-279: the follower's last epoch is one that the leader never had, so it asks on.
        (truncation.to_end_of_last_epoch, "01", 0, "02", 1),
        (truncation.to_end_of_last_epoch, "0011", 0, "0222", 1),
        (truncation.to_end_of_last_epoch, "012", 0, "003", 2),
        (truncation.to_last_common_epoch, "012", 0, "003", 1),
        (truncation.to_last_common_epoch, "0011", 0, "0222", 1),
        (truncation.to_last_common_epoch, "01", 0, "02", 1),
        (truncation.to_last_common_epoch, "00", 0, "00", 2),
        (truncation.to_last_common_epoch, "000", 0, "011", 1),
        (truncation.to_last_common_epoch, "0", 0, "000", 1),
        (truncation.to_last_common_epoch, "1", 0, "02", 0),
        (truncation.to_last_common_epoch, "12", 0, "03", 0),
        (truncation.to_last_common_epoch, "12", 0, "3", 0),
        (truncation.to_last_common_epoch, "2", 0, "", 0),
        (truncation.to_last_common_epoch, "", 0, "02", 0),
    ],
)
def test_where_a_new_follower_truncates(
    rule: truncation.Truncation, follower: str, watermark: int, leader: str, end: int
) -> None:
    assert rule(log(follower), watermark, log(leader)) == end
