"""The result of `kafka_chaos_run`: the verdict with its evidence, and assertions whose failure says what broke."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.families import AnyAnomaly, anomaly_named
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, REPORT_FILE
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import LaneVerdict, RunVerdict

EXAMPLES = 3  # records that the message of a failed assertion shows
_WHERE = ("partition", "offset", "producer_id", "seq")  # the columns that say where a finding is


class ChaosRun:
    """A finished run with its lanes' verdicts, and by lane the longest gap between acknowledgements in seconds."""

    def __init__(self, result: RunResult, *, seed: int, replay: str) -> None:
        self.path: Path = result.path
        self.result: RunVerdict = result.verdict
        self.gaps: Mapping[str, float] = result.gaps
        self.seed = seed
        self.replay = replay

    @property
    def verdict(self) -> Verdict:
        """`conforms`, `violation` or `unknown`."""
        return self.result.verdict

    @property
    def report(self) -> Path:
        """The path of the report, one HTML file. The engine duckdb writes none."""
        return self.path / REPORT_FILE

    def lane(self, name: str) -> LaneVerdict:
        """One lane's verdict and counts; KeyError if there is no such lane."""
        __tracebackhide__ = True  # as everywhere here, pytest's tracebacks show the line of the test instead
        if name not in (names := [lane.lane for lane in self.result.lanes]):
            raise KeyError(f"there is no lane {name!r}; the lanes are {', '.join(names)}")
        return self.result.lane(name)

    def count(self, name: str, anomaly: str) -> int | None:
        """How often an anomaly, such as `lost_write`, was found in a lane; None where it could not be judged."""
        __tracebackhide__ = True
        lane = self.lane(name)
        return lane.count(_anomaly(anomaly, lane))

    def assert_conforms(self) -> None:
        """Fail unless the verdict is conforms: each lane showed what was predicted, on sufficient evidence.

        A violation that --kafka-chaos-accept-known accepts does not count.
        """
        __tracebackhide__ = True
        if self.result.outcome is not Verdict.CONFORMS:
            raise AssertionError(self.explain())

    def assert_none(self, name: str, anomaly: str) -> None:
        """Fail if an anomaly, such as `lost_write`, was found in a lane, or if its verdict is unknown."""
        __tracebackhide__ = True
        self._claim(name, anomaly, "none", lambda count: count == 0)

    def assert_some(self, name: str, anomaly: str) -> None:
        """Fail unless an anomaly was found in a lane."""
        __tracebackhide__ = True
        self._claim(name, anomaly, "at least 1", lambda count: count > 0)

    def assert_at_most(self, name: str, anomaly: str, most: int) -> None:
        """Fail if an anomaly was found more than `most` times in a lane, or if its verdict is unknown."""
        __tracebackhide__ = True
        self._claim(name, anomaly, f"at most {most:,}", lambda count: count <= most)

    def explain(self) -> str:
        """The verdict in words: what broke in which lane, the first records, the report, and the replay command."""
        lines = [f"the run's verdict is {self.verdict}"]
        for lane in self.result.lanes:
            if lane.verdict is not Verdict.CONFORMS:
                lines += [f"lane {lane.lane}: {lane.verdict}", *(f"  {reason}" for reason in lane.reasons)]
                for anomaly, observed in lane.observed.items():
                    if observed.count and lane.judged_by(anomaly) == Status.FORBIDDEN:
                        lines += [f"    {anomaly}: {record}" for record in self._records(lane, anomaly)]
        return "\n".join([*lines, *self._evidence()])

    def _claim(self, name: str, anomaly: str, expected: str, holds: Callable[[int], bool]) -> None:
        """Fail unless the anomaly was judged in the lane, and `holds(count)`, which `expected` says in words."""
        __tracebackhide__ = True
        lane = self.lane(name)
        count = lane.count(wanted := _anomaly(anomaly, lane))
        # With the verdict unknown, doubts may hide findings: a claim that 0 findings satisfy is not proven.
        missing = () if lane.ledger is None else lane.ledger.missing
        is_doubtful = holds(0) and (lane.verdict is Verdict.UNKNOWN or any(why in missing for why in lane.reasons))
        if count is not None and holds(count) and not is_doubtful:
            return
        found = f"found {count:,}" if count is not None else f"not judged ({lane.not_judged[wanted]})"
        if is_doubtful:
            found += f", and the evidence of the lane is incomplete: {'; '.join(lane.reasons)}"
        lines = [f"{wanted} in lane {name}: expected {expected}, {found}"]
        lines.append(f"  predicted: {lane.status_described(wanted)}")
        lines += [f"  {record}" for record in self._records(lane, wanted)]
        raise AssertionError("\n".join([*lines, *self._evidence()]))

    def _records(self, lane: LaneVerdict, anomaly: AnyAnomaly) -> list[str]:
        """The first records of an anomaly, and how many more there are."""
        count = lane.count(anomaly) or 0
        lines = list(_first_records(self.path, lane.lane, anomaly.value, EXAMPLES)) if count else []
        return lines if count <= EXAMPLES else [*lines, f"{count - EXAMPLES:,} more in {FINDINGS_FOLDER}/"]

    def _evidence(self) -> list[str]:
        # Runs that DuckDB verifies write no report.
        report = self.report if self.result.engine == Engine.SPARK else f"kafka-chaos report {self.path}"
        return [f"report: {report}", f"replay: {self.replay}"]

    def __repr__(self) -> str:
        return f"<ChaosRun {self.path.name}: {self.verdict}>"


def _anomaly(name: str, lane: LaneVerdict) -> AnyAnomaly:
    __tracebackhide__ = True
    if name in lane.anomalies:
        return anomaly_named(name)
    raise ValueError(f"anomaly: {name!r} is not an anomaly of lane {lane.lane}: expected {', '.join(lane.anomalies)}")


def _first_records(run: Path, lane: str, anomaly: str, limit: int) -> Iterator[str]:
    """One line for each of the first `limit` records of an anomaly: offset, time of sending, and cause."""
    import pyarrow.parquet as pq

    filters = [("lane", "=", lane), ("anomaly", "=", anomaly)]
    findings = pq.read_table(run / FINDINGS_FOLDER, filters=filters)
    order = [(name, "ascending") for name in _WHERE]
    rows = findings.sort_by(order).slice(0, limit).to_pylist()
    times = _seconds_until_sent(run, lane, rows)
    for row in rows:
        parts = [f"{name} {row[name]}" for name in _WHERE if row[name] is not None]
        sent = times.get((row["producer_id"], row["seq"]))
        if sent is not None:
            parts.append(f"sent {sent:.3f} s after the lane's first record")
        yield ", ".join(parts) + (f": {row['cause']}" if row["cause"] else "")


def _seconds_until_sent(run: Path, lane: str, rows: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """When each record was sent, in seconds after the lane's first record; by producer_id and seq."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = {(row["producer_id"], row["seq"]) for row in rows if row["seq"] is not None}
    if not wanted:
        return {}
    table = pq.read_table(run / "produced", columns=["producer_id", "seq", "invoke_ns"], filters=[("lane", "=", lane)])
    start = pc.min(table["invoke_ns"]).as_py()
    has_wanted_seq = pc.is_in(table["seq"], value_set=pa.array([seq for _, seq in wanted], pa.int64()))
    sent = table.filter(has_wanted_seq).to_pylist()
    return {(row["producer_id"], row["seq"]): (row["invoke_ns"] - start) / 1e9 for row in sent}
