"""Condensed series equal those of plain Python over the same records."""

import itertools
import random
from pathlib import Path
from typing import Any

import activity_runs

from kafka_chaos.harness.report.inputs import series as inputs

MS = 1_000_000
START = 7_000_000 * MS


def table(folder: Path, name: str, rows: list[dict[str, Any]]) -> dict[str, list[Path]]:
    return {name: [activity_runs.table(folder, name, rows)]}


def record(lane: str, seq: int, invoke_ms: float, latency_ms: float | None, **more: Any) -> dict[str, Any]:
    invoke = START + round(invoke_ms * MS)
    complete = None if latency_ms is None else invoke + round(latency_ms * MS)
    return {
        "lane": lane, "producer_id": 0, "seq": seq, "invoke_ns": invoke, "complete_ns": complete,
        "outcome": "ok", "error": None, **more,
    }  # fmt: skip


def random_load(lane: str, count: int, seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    rows = []
    for seq in range(count):
        outcome = dice.choices(["ok", "fail", "info"], [20, 1, 1])[0]
        latency = dice.lognormvariate(1, 1.5)
        error = None if outcome == "ok" else f"error {dice.randrange(20)}"
        lost = outcome == "info" and dice.random() < 0.3
        rows.append(record(lane, seq, dice.uniform(0, 9000), None if lost else latency, outcome=outcome, error=error))
    return rows


def phases(*lanes: str, seconds: float = 10) -> list[inputs.Phase]:
    return [inputs.Phase("load", lanes, START, START + round(seconds * 1000) * MS)]


def bucket_of(row: dict[str, Any], series: inputs.LaneSeries) -> int:
    done = row["complete_ns"] or row["invoke_ns"]
    return int((done // inputs.GRAIN_NS * inputs.GRAIN_NS - series.start_ns) // series.width_ns)


def test_counts_are_exact_and_percentiles_close(tmp_path: Path) -> None:
    rows = random_load("a", 3000, 1) + random_load("b", 500, 2)
    found = inputs.condense(table(tmp_path, "produced", rows), phases("a", "b"))
    assert set(found.lanes) == {"a", "b"}
    for lane, series in found.lanes.items():
        assert len(series.buckets) <= inputs.MOST_BUCKETS + 1
        mine = [row for row in rows if row["lane"] == lane]
        for bucket in series.buckets:
            inside = [row for row in mine if bucket_of(row, series) == bucket.index]
            for outcome in ("ok", "fail", "info"):
                assert getattr(bucket, outcome) == sum(row["outcome"] == outcome for row in inside)
            latencies = sorted(row["complete_ns"] - row["invoke_ns"] for row in inside if row["outcome"] == "ok")
            assert bucket.max_ns == (latencies[-1] if latencies else None)
            if latencies:
                _check_percentile(bucket.p50_ns, latencies, 0.5)
                _check_percentile(bucket.p99_ns, latencies, 0.99)
        assert sum(series.total(outcome) for outcome in ("ok", "fail", "info")) == len(mine)


def _check_percentile(value: int | None, latencies: list[int], share: float) -> None:
    rank = share * (len(latencies) - 1)
    low, high = latencies[int(rank)], latencies[min(len(latencies) - 1, int(rank) + 1)]
    assert value is not None
    assert low * (1 - inputs.LATENCY_STEP) <= value <= high * (1 + inputs.LATENCY_STEP)


def test_finds_the_gaps_between_acknowledgements_exactly(tmp_path: Path) -> None:
    acknowledged = [0, 5, 700, 1800, 1805, 2400.25]
    rows = [record("a", seq, ms, 0) for seq, ms in enumerate(acknowledged)]
    rows.append(record("a", 99, 1000, 1, outcome="info"))
    rows.append(record("quick", 0, 0, 0))
    rows.append(record("quick", 1, 3, 0))
    found = inputs.condense(table(tmp_path, "produced", rows), phases("a", "quick"))
    edges = [(5, 700), (700, 1800), (1805, 2400.25)]
    assert list(found.lanes["a"].gaps) == [inputs.Gap(START + a * MS, START + round(b * MS)) for a, b in edges]
    assert found.lanes["a"].longest_gap_ns == 1100 * MS
    assert found.lanes["quick"].longest_gap_ns is None
    assert found.lanes["quick"].gaps == ()


def test_errors_are_counted_and_the_most_frequent_kept(tmp_path: Path) -> None:
    rows = [record("a", seq, seq, 1, outcome="info", error=f"e{seq % 20 if seq % 2 else 0}") for seq in range(200)]
    rows += [record("a", 500, 1, 1)]
    errors = inputs.condense(table(tmp_path, "produced", rows), phases("a")).lanes["a"].errors
    assert len(errors) == inputs.MOST_ERRORS
    assert (errors[0].outcome, errors[0].error, errors[0].count) == ("info", "e0", 100)
    assert all(error.count == 10 for error in errors[1:])


def finding(at: int | None, anomaly: str = "lost_write", **more: Any) -> dict[str, Any]:
    return {
        "lane": "a", "anomaly": anomaly, "partition": 0, "offset": at, "producer_id": 0, "seq": 5, "cause": None,
        **more,
    }  # fmt: skip


def ranges(folder: Path, rows: list[dict[str, Any]]) -> list[inputs.FindingRange]:
    return list(inputs.condense(table(folder, "findings", rows), {}).ranges)


def test_findings_are_joined_into_ranges(tmp_path: Path) -> None:
    rows = [finding(at) for at in (*range(100, 200), *range(5000, 5010))]
    rows += [finding(300, "duplicate", cause="first at 7"), finding(300, "duplicate", partition=1)]
    rows += [finding(None, partition=None, producer_id=3, seq=seq) for seq in (11, 12, 13)]
    assert ranges(tmp_path, rows) == [
        inputs.FindingRange("a", "duplicate", 0, None, 300, 300, 1, "first at 7"),
        inputs.FindingRange("a", "duplicate", 1, None, 300, 300, 1),
        inputs.FindingRange("a", "lost_write", None, 3, 11, 13, 3),
        inputs.FindingRange("a", "lost_write", 0, None, 100, 199, 100),
        inputs.FindingRange("a", "lost_write", 0, None, 5000, 5009, 10),
    ]


def test_scattered_findings_are_counted_in_few_ranges(tmp_path: Path) -> None:
    dice = random.Random(3)
    offsets = dice.sample(range(10_000_000), 4000)
    found = ranges(tmp_path, [finding(at) for at in offsets])
    assert sum(part.count for part in found) == 4000
    assert len(found) <= inputs.RANGES_PER_PARTITION + 1
    assert (found[0].first, found[-1].last) == (min(offsets), max(offsets))
    assert all(before.last < after.first for before, after in itertools.pairwise(found))


def test_the_log_tells_the_ends_of_partitions_with_findings(tmp_path: Path) -> None:
    stored = [
        {"lane": lane, "partition": 0, "offset": at, "producer_id": 0, "seq": at} for lane in "ab" for at in range(9)
    ]
    tables = {**table(tmp_path, "log", stored), **table(tmp_path, "findings", [finding(3)])}
    assert inputs.condense(tables, {}).ends == {("a", 0): 8}


def test_a_lane_without_an_acknowledgement_has_a_chart(tmp_path: Path) -> None:
    rows = [record("a", seq, seq, None, outcome="info", error="gone") for seq in range(10)]
    (lane,) = inputs.condense(table(tmp_path, "produced", rows), phases("a")).lanes.values()
    assert (lane.total("ok"), lane.total("info"), lane.gaps) == (0, 10, ())


def test_transactions_and_groups_are_placed_by_the_chart_of_their_lane(tmp_path: Path) -> None:
    rows = [record("orders", seq, seq * 10.0, 5.0) for seq in range(500)]
    tables: dict[str, Any] = table(tmp_path, "produced", rows)
    second = START / 1_000_000_000
    ended = [activity_runs.transaction(number, second + number, second + number + 0.5) for number in range(3)]
    tables["transactions"] = [activity_runs.table(tmp_path, "transactions", ended)]
    tables["assignments"] = [activity_runs.table(tmp_path, "assignments", [activity_runs.held("0", 0, second, None)])]
    tables["commits"] = [activity_runs.table(tmp_path, "commits", [activity_runs.commit(0, 9, second + 1)])]
    found = inputs.condense(tables, [inputs.Phase("load", ("orders",))])
    assert [(one.name, one.count("committed")) for one in found.transactions["orders"]] == [("orders-0", 3)]
    group = found.groups["orders", "orders-group"]
    assert (group.members, len(group.holdings), len(group.commits)) == (["0"], 1, 1)
    assert not inputs.condense({"produced": tables["produced"]}, [inputs.Phase("load", ("orders",))]).groups
