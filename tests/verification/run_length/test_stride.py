"""Strides from samples, without Spark: what a lane's records advance by, and when it is worth packing them."""

from __future__ import annotations

from kafka_chaos.verification.run_length.stride import Sampled, Stride, strides


def rows(lane: str, values: list[int], *, first: int = 0, chain: str | int = 1, partition: int = 0) -> list[Sampled]:
    return [Sampled(lane, chain, partition, first + index, value) for index, value in enumerate(values)]


def test_a_lane_advances_by_its_most_frequent_step() -> None:
    stored = rows("dealt", [*range(0, 120, 6), 121]) + rows("filled", [*range(4, 24), 100])
    read = rows("dealt", list(range(10, 30)), chain="c") + rows("filled", [5] * 20, chain="c")
    assert strides(stored, read) == {"dealt": Stride(6, 1), "filled": Stride(1, 0), "": Stride(6, 1)}


def test_records_in_no_order_are_not_worth_packing() -> None:
    assert strides(rows("a", [5, 1, 9, 3, 12, 7, 30]), []) is None
    assert strides([], []) is None


def test_only_neighbouring_offsets_of_one_chain_count() -> None:
    apart = [Sampled("a", 1, 0, 10 * index, index) for index in range(20)]
    assert strides(apart, []) is None
    two_partitions = rows("a", list(range(0, 40, 2))) + rows("a", list(range(1, 41, 2)), partition=1)
    assert strides(two_partitions, []) == {"a": Stride(2, 0), "": Stride(2, 0)}


def test_the_order_of_the_sample_does_not_matter() -> None:
    stored = rows("a", list(range(0, 90, 3)))
    assert strides(list(reversed(stored)), []) == strides(stored, [])
