"""Generated transactional lanes and groups: what their shape asks for is found, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.verification import verify
from kafka_chaos.verification.generate import (
    GroupShape,
    LaneShape,
    LaneTables,
    TransactionsShape,
    lane_tables,
    planted,
    transaction_tables,
    with_group,
    write_run,
)
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.plain.second_look import look

SHAPE = TransactionsShape(lane="a", transactions=120, size=5, entangled=0.1)


def looked_at(folder: Path, lanes: list[LaneTables]) -> dict[str, dict[str, int]]:
    """What the plain checker finds in lanes that it looks at whole."""
    found = look(open_run(write_run(folder, lanes)))
    assert found.problem is None
    assert all(one.identities is None for one in found.lanes.values())
    return {lane: dict(Counter(case.anomaly for case in one.cases.elements())) for lane, one in found.lanes.items()}


def test_the_plain_checker_finds_what_the_shapes_ask_for(tmp_path: Path) -> None:
    uneven = TransactionsShape(
        lane="uneven", transactions=61, replicas=1, size=7, partitions=4, producers=3, abort=0.3, in_doubt=0.2
    )
    lanes = [
        transaction_tables(SHAPE),
        transaction_tables(uneven),
        with_group(transaction_tables(TransactionsShape(lane="read-by-a-group", transactions=40))),
        with_group(lane_tables(LaneShape(lane="plain", records=900, partitions=4)), GroupShape(commit_every=50)),
        planted(transaction_tables(TransactionsShape(lane="planted", transactions=160, size=3, abort=0.4, replicas=2))),
    ]
    expected = {lane.shape.lane: lane.expected for lane in lanes}
    assert looked_at(tmp_path / "run", lanes) == expected
    assert expected["a"][TransactionAnomaly.DEPENDENCY_CYCLE] > 1
    assert {*expected["planted"]} == {
        "aborted_read",
        "torn_transaction",
        "skipped_poll",
        "lost_transaction",
        "zombie_commit",
    }
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


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_same_behind_its_prefilters(tmp_path: Path, spark: Any) -> None:
    """Large enough that the prefilters are used."""
    lanes = [
        planted(transaction_tables(TransactionsShape(lane="planted", transactions=2_000, entangled=0.1))),
        with_group(transaction_tables(TransactionsShape(lane="clean", transactions=400, producers=2))),
        with_group(lane_tables(LaneShape(lane="plain", records=5_000, partitions=4, replicas=3))),
    ]
    verdict = verify(write_run(tmp_path / "run", lanes), spark=spark)
    counts = {lane.lane: {str(name): seen.count for name, seen in lane.observed.items()} for lane in verdict.lanes}
    assert counts == {lane.shape.lane: lane.expected for lane in lanes}
    verdicts = {lane.lane: lane.verdict for lane in verdict.lanes}
    assert verdicts == {"planted": Verdict.VIOLATION, "clean": Verdict.CONFORMS, "plain": Verdict.CONFORMS}
    assert verdict.lane("clean").reasons == verdict.lane("plain").reasons == ()
