"""Generated transactional lanes and groups: what their shape asks for is found, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from generated_histories import (
    GroupShape,
    LaneShape,
    TransactionsShape,
    lane_tables,
    planted,
    transaction_tables,
    with_group,
    write_run,
)

from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from tests.verification.samples.engines import Verified

SHAPE = TransactionsShape(lane="a", transactions=120, size=5, entangled=0.1)


@pytest.mark.usefixtures("everything_forbidden")
def test_what_the_shapes_ask_for_is_found(tmp_path: Path, verified: Verified) -> None:
    uneven = TransactionsShape(
        lane="uneven", transactions=61, replicas=1, size=7, partitions=4, producers=3, abort=0.3, in_doubt=0.2
    )
    many = TransactionsShape(lane="planted", transactions=2_000, size=3, abort=0.4, replicas=2, entangled=0.1)
    lanes = [
        transaction_tables(SHAPE),
        transaction_tables(uneven),
        with_group(transaction_tables(TransactionsShape(lane="read-by-a-group", transactions=400, producers=2))),
        with_group(lane_tables(LaneShape(lane="plain", records=5_000, partitions=4)), GroupShape(commit_every=50)),
        planted(transaction_tables(many)),
    ]
    expected = {lane.shape.lane: lane.expected for lane in lanes}
    verdict = verified(write_run(tmp_path / "run", lanes))
    counts = {lane.lane: {str(name): seen.count for name, seen in lane.observed.items()} for lane in verdict.lanes}
    assert counts == expected
    assert expected["a"][TransactionAnomaly.DEPENDENCY_CYCLE] > 1
    planted_ones = {"aborted_read", "torn_transaction", "skipped_poll", "lost_transaction", "zombie_commit"}
    assert planted_ones < {*expected["planted"]}
    assert expected["plain"] == expected["read-by-a-group"] == {}


def test_the_same_shape_and_seed_give_the_same_rows() -> None:
    one, two, other = (transaction_tables(SHAPE, seed) for seed in (1, 1, 2))
    assert all((one.log[name] == two.log[name]).all() for name in one.log)
    assert one.log["producer_id"].tolist() != other.log["producer_id"].tolist()


def test_brokers_hold_every_offset_once() -> None:
    replicas = transaction_tables(SHAPE).others["replicas"]
    for broker in range(1, SHAPE.replicas + 1):
        for partition in range(SHAPE.partitions):
            offsets = replicas["offset"][(replicas["broker"] == broker) & (replicas["partition"] == partition)]
            assert offsets.tolist() == list(range(offsets.size))
    assert np.count_nonzero(replicas["seq"] < 0) == SHAPE.replicas * SHAPE.transactions * SHAPE.partitions


def test_brokers_hold_a_plain_lane_like_its_log() -> None:
    lane = lane_tables(LaneShape(lane="a", records=1000, partitions=3, batch=10, retry_share=0.1, replicas=2))
    replicas = lane.others["replicas"]
    for broker in (1, 2):
        held = replicas["broker"] == broker
        assert all((replicas[name][held] == lane.log[name]).all() for name in ("partition", "offset", "seq"))
    assert np.unique(replicas["broker"]).tolist() == [1, 2]


def test_a_group_commits_all_that_it_processed() -> None:
    lane = with_group(lane_tables(LaneShape(lane="a", records=1000, partitions=3, batch=10)), GroupShape(generations=3))
    assert lane.committed == {
        partition: int(lane.log["offset"][lane.log["partition"] == partition].max()) + 1 for partition in range(3)
    }
    assert lane.others["assignments"]["partition"].size == 9


def test_a_lane_that_is_too_small_for_plants_is_refused() -> None:
    with pytest.raises(ValueError, match="lane tiny is too small"):
        planted(transaction_tables(TransactionsShape(lane="tiny", transactions=4)))
