"""Partitions that a producer sends to in turn, before and after there are more."""

from __future__ import annotations

import numpy as np

from kafka_chaos.harness.workload.clients.partitions import InTurn


def test_each_record_stays_in_the_partition_that_it_was_sent_to() -> None:
    partitions = InTurn(2)
    sent = [seq % partitions.count for seq in range(5)]
    partitions.grow(3, 5)
    sent += [seq % partitions.count for seq in range(5, 12)]
    partitions.grow(4, 12)
    sent += [seq % partitions.count for seq in range(12, 20)]
    assert partitions.of(np.arange(20)).tolist() == sent
    assert partitions.of(np.array([19, 0, 6])).tolist() == [sent[19], sent[0], sent[6]]
    assert set(sent) == {0, 1, 2, 3}


def test_growth_before_the_first_record_holds_for_all() -> None:
    partitions = InTurn(1)
    partitions.grow(3, 0)
    assert partitions.of(np.arange(6)).tolist() == [0, 1, 2, 0, 1, 2]
