"""Generated histories, large enough to be prefiltered: what their shape asks for is found, and nothing else."""

from pathlib import Path

from generated_histories import LaneShape, LaneTables, lane_tables, write_run

from kafka_chaos.verification import RunVerdict
from kafka_chaos.verification.run_length.stride import Sampled, Stride, strides
from tests.verification.samples.engines import Verified


def counted(verdict: RunVerdict) -> dict[str, dict[str, int]]:
    return {lane.lane: {anomaly.value: seen.count for anomaly, seen in lane.observed.items()} for lane in verdict.lanes}


def expected(lanes: list[LaneTables]) -> dict[str, dict[str, int]]:
    return {lane.shape.lane: lane.expected for lane in lanes}


def test_the_same_shape_and_seed_give_the_same_rows() -> None:
    shape = LaneShape(lane="a", records=5000, partitions=3, producers=2, info_share=0.1, retry_share=0.1)
    one, two, other = lane_tables(shape, 1), lane_tables(shape, 1), lane_tables(shape, 2)
    assert all((one.log[name] == two.log[name]).all() for name in one.log)
    assert one.log["seq"].tolist() != other.log["seq"].tolist()


def test_what_the_shapes_ask_for_is_found(tmp_path: Path, verified: Verified) -> None:
    shapes = [
        LaneShape(lane="valid", records=12_000, partitions=6, info_share=0.02, fail_share=0.01, restarts=4),
        LaneShape(lane="two-readers", records=6_000, partitions=2, producers=3, consumers=2),
        LaneShape(lane="retried", records=6_000, partitions=2, retry_share=0.02),
        LaneShape(lane="lossy", records=6_000, partitions=3, producers=2, info_share=0.02, lost_tail=150, acks="1"),
        LaneShape(lane="acks0", records=6_000, partitions=3, lost_tail=150, acks="0"),
        LaneShape(lane="tiny", records=1),
    ]
    lanes = [lane_tables(shape, seed=3) for shape in shapes]
    verdict = verified(write_run(tmp_path / "run", lanes, rows_per_file=7000))
    assert counted(verdict) == expected(lanes)
    assert verdict.lane("valid").verdict.value == "conforms"
    assert verdict.lane("lossy").verdict.value == "violation"
    assert sum(expected(lanes)["lossy"].values()) > 0


def test_a_history_that_is_dirty_everywhere_is_verified(tmp_path: Path, verified: Verified) -> None:
    lanes = [lane_tables(LaneShape(lane="a", records=25_000, partitions=2, producers=2, retry_share=1.0))]
    verdict = verified(write_run(tmp_path / "run", lanes))
    assert counted(verdict) == {"a": {"duplicate": 25_000}}


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
