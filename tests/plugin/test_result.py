"""Claims about a run: when they fail, and what they say then."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos import kill, lane, load, partition, stop
from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.harness.pytest_plugin.result import ChaosRun
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import LaneVerdict, RunVerdict
from kafka_chaos.verification.judging.result import Observation

pytest_plugins = ["pytester"]


def a_run(path: Path, **counts: int) -> ChaosRun:
    """A run of the lane `orders`, which may lose writes; record n was sent n seconds after the first one."""
    predicted = dict.fromkeys(Anomaly, Status.FORBIDDEN) | {Anomaly.LOST_WRITE: Status.PERMITTED}
    observed = {Anomaly(name): Observation(count) for name, count in counts.items()}
    broken = any(predicted[anomaly] == Status.FORBIDDEN for anomaly in observed)
    verdict = Verdict.VIOLATION if broken else Verdict.CONFORMS
    reasons = tuple(f"{name} is forbidden and was found: {count}" for name, count in counts.items() if broken)
    not_judged = {Anomaly.PHANTOM: "there is no log"}
    lane = LaneVerdict("orders", verdict, 100, 90, 90, predicted, observed, not_judged, reasons)
    found = [
        {"partition": 0, "offset": None, "producer_id": 0, "seq": seq, "cause": "truncated", "anomaly": name}
        for name, count in counts.items()
        for seq in reversed(range(10, 10 + count))
    ]
    write(path / "findings" / "0.parquet", [{"lane": "orders", **row} for row in found])
    produced = [{"lane": "orders", "producer_id": 0, "seq": seq, "invoke_ns": 7 + seq * 10**9} for seq in range(40)]
    write(path / "produced" / "0.parquet", produced)
    return ChaosRun(RunResult(path, RunVerdict(path, verdict, (lane,)), {}), seed=7, replay="pytest x --seed 7")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def test_claims_that_hold_pass(tmp_path: Path) -> None:
    run = a_run(tmp_path, lost_write=5)
    run.assert_conforms()
    run.assert_none("orders", "duplicate")
    run.assert_some("orders", "lost_write")
    run.assert_at_most("orders", "lost_write", 5)


def test_an_accepted_violation_passes_and_an_explained_one_fails(tmp_path: Path) -> None:
    run = a_run(tmp_path, duplicate=1)
    (lane,) = run.result.lanes
    explained = replace(run.result, lanes=(replace(lane, explained={lane.reasons[0]: (("x-1",),)}),))
    run.result = explained
    with pytest.raises(AssertionError, match="duplicate is forbidden"):
        run.assert_conforms()
    run.result = explained.accepting(["x-1"])
    run.assert_conforms()
    assert run.verdict is Verdict.VIOLATION


FOUND = """\
lost_write in lane orders: expected {expected}, found 5
  predicted: permitted
  partition 0, producer_id 0, seq 10, sent 10.000 s after the lane's first record: truncated
  partition 0, producer_id 0, seq 11, sent 11.000 s after the lane's first record: truncated
  partition 0, producer_id 0, seq 12, sent 12.000 s after the lane's first record: truncated
  2 more in findings/
report: {path}/report.html
replay: pytest x --seed 7"""


def test_a_failed_claim_says_how_many_which_and_what_to_do(tmp_path: Path) -> None:
    run = a_run(tmp_path, lost_write=5)
    with pytest.raises(AssertionError) as failed:
        run.assert_none("orders", "lost_write")
    assert str(failed.value) == FOUND.format(expected="none", path=tmp_path)
    with pytest.raises(AssertionError) as failed:
        run.assert_at_most("orders", "lost_write", 4)
    assert str(failed.value) == FOUND.format(expected="at most 4", path=tmp_path)
    with pytest.raises(
        AssertionError, match="duplicate in lane orders: expected at least 1, found 0\n  predicted: forb"
    ):
        run.assert_some("orders", "duplicate")


@pytest.mark.parametrize("claim", ["assert_none", "assert_some"])
def test_what_was_not_judged_fulfils_no_claim(tmp_path: Path, claim: str) -> None:
    run = a_run(tmp_path, lost_write=5)
    with pytest.raises(AssertionError, match=r"phantom in lane orders: expected .*, not judged \(there is no log\)"):
        getattr(run, claim)("orders", "phantom")


def test_a_lane_that_is_unknown_fulfils_no_claim_that_something_is_rare(tmp_path: Path) -> None:
    run = a_run(tmp_path, lost_write=5)
    lane = replace(run.lane("orders"), reasons=("why",))
    lacking: Any = SimpleNamespace(missing=("why",))
    for doubtful in (replace(lane, verdict=Verdict.UNKNOWN), replace(lane, ledger=lacking)):
        run.result = replace(run.result, lanes=(doubtful,))
        run.assert_some("orders", "lost_write")
        for claim in (run.assert_none, partial(run.assert_at_most, most=5)):
            with pytest.raises(AssertionError, match=r"found \d, and the evidence of the lane is incomplete: why"):
                claim("orders", "lost_write")


def test_a_violation_is_explained_with_its_first_records(tmp_path: Path) -> None:
    run = a_run(tmp_path, duplicate=1)
    with pytest.raises(AssertionError) as failed:
        run.assert_conforms()
    assert str(failed.value).splitlines()[:4] == [
        "the run's verdict is violation",
        "lane orders: violation",
        "  duplicate is forbidden and was found: 1",
        "    duplicate: partition 0, producer_id 0, seq 10, sent 10.000 s after the lane's first record: truncated",
    ]


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path, lost_write=1)
    with pytest.raises(KeyError, match="there is no lane 'order'; the lanes are orders"):
        run.assert_none("order", "lost_write")
    for name in ("lost", "commit_lost"):
        with pytest.raises(ValueError, match=f"anomaly: '{name}' is not an anomaly of lane orders: expected"):
            run.assert_none("orders", name)


def test_a_failure_shows_the_test_and_no_frame_of_ours(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from pathlib import Path
        import pytest
        from types import SimpleNamespace
        from kafka_chaos import kill, lane, load
        from kafka_chaos.harness.cluster.cluster import ClusterLayout
        from tests.plugin.test_result import a_run

        @pytest.fixture(scope="session")
        def kafka_chaos_cluster():
            return SimpleNamespace(spec=ClusterLayout(), nodes=[], bootstrap_servers="127.0.0.1:1")

        def test_claim(tmp_path): a_run(tmp_path, lost_write=5).assert_none("orders", "lost_write")
        def test_verdict(tmp_path): a_run(tmp_path, duplicate=1).assert_conforms()
        def test_count(tmp_path): a_run(tmp_path).count("orders", "lost")
        def test_value(): lane("orders", acks=7)
        def test_time(): load(seconds=0)
        def test_no_time(kafka_chaos_run): kafka_chaos_run(lanes=["a"], faults=[kill("leader(a)")])
        def test_lane(kafka_chaos_run): kafka_chaos_run(lanes=[lane("a", partitions=-1)])
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=7)
    text = result.stdout.str()
    assert "harness/pytest_plugin" not in text
    assert "harness/experiment" not in text
    assert "exception" not in text, "the chain is cut"
    result.stdout.fnmatch_lines(["*UsageFailure: kafka_chaos_run: lanes?0?.partitions: expected at least 1, got -1"])


def test_a_fault_without_an_end_is_healed_when_the_load_ends() -> None:
    assert kill("leader(orders)").at(5).entry(load(seconds=12))["duration"] == 7


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: kill("leaderr(orders)"), "'leaderr(orders)' is not a target: expected leader(LANE)"),
        (lambda: kill(2), "kill: 2 is not a target: expected a role such as 'leader(orders)'"),  # type: ignore[arg-type]
        (lambda: kill("controller").at(-1), "at: -1 is not valid: expected seconds, at least 0"),
        (lambda: kill("controller").at("5"), "at: '5' is not valid"),  # type: ignore[arg-type]
        (lambda: stop("controller").at(1).lasting(float("nan")), "lasting: nan is not valid"),
        (lambda: kill("controller").entry(load()), 'kill("controller"): no time is set, expected .at(SECONDS)'),
        (lambda: partition("broker:1", direction="up"), "direction: expected 'both', 'in' or 'out', got 'up'"),
        (lambda: partition("broker:1", port="client"), "port: expected 'replication' or 'control', got 'client'"),
        (lambda: load(rate=0), "rate: 0 is not valid: expected a whole number, at least 1"),
        (lambda: load(rate=True), "rate: True is not valid"),
        (lambda: load(seconds=0), "seconds: 0 is not valid"),
        (lambda: load(record_size=19), "record_size: 19 is not valid: expected a whole number, at least 20"),
        (lambda: lane(""), "name: '' is not valid"),
        (lambda: lane("orders", acks=2), "acks: 2 is not valid: expected 0, 1 or 'all'"),
    ],
)
def test_a_refusal_names_the_argument_and_what_was_expected(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(ValueError) as refusal:
        make()
    assert expected in str(refusal.value)
