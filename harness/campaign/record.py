"""Reads the findings of a verified run, and keeps the record of runs: a file with a line for each lane of each run.

Each line is a JSON object. A hunt keeps a file of the same form, with a line for each round.

Guarantee: a lane's line agrees with the verdict of its run. The message for an invalid line has the line's number.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from confluent_kafka import libversion

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.columns import PRODUCED
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import text_of
from kafka_chaos.contract.lane.families import AnyAnomaly, anomaly_named
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, elects_from_elr, usual_mode
from kafka_chaos.contract.run_directory import REPORT_FILE, VERDICT_FILE
from kafka_chaos.harness.clients.kinds import IN_PROCESS, parse_client
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict, as_list
from kafka_chaos.harness.report.inputs.table_queries import ask
from kafka_chaos.verification.inputs.documents.reading import parsed

T = TypeVar("T")

RECORD_FILE = "record.jsonl"
NO_FAULT = "no fault"
_NOT_SETTINGS = ("lane", "topic", "client", "faults", "kafka_version", "metadata_mode")
"""Keys of a lane that are not in `Cell.settings`: names, and what other fields of `Cell` hold."""


@dataclass(frozen=True)
class Finding:
    """An anomaly that was found in a lane, whether it was forbidden or not."""

    lane: str
    anomaly: AnyAnomaly

    def __str__(self) -> str:
        return f"{self.lane}:{self.anomaly}"


def findings_in(verdict: Mapping[str, Any]) -> dict[Finding, bool]:
    """All findings in the content of a verdict.json, each with whether it was forbidden; forbidden findings come first.

    A permitted finding counts as forbidden if the model, told what happened, rules it out in this run (`in_this_run`).
    """
    is_forbidden = {
        Finding(lane["lane"], anomaly_named(name)): Status.FORBIDDEN in (entry.get("status"), entry.get("in_this_run"))
        for lane in verdict["lanes"]
        for name, entry in lane["anomalies"].items()
        if entry["count"]
    }
    return dict(sorted(is_forbidden.items(), key=lambda item: not item[1]))


def read_findings(run_dir: Path) -> dict[Finding, bool]:
    """The findings of a run directory; raises `UsageFailure` where it has no verdict."""
    try:
        return findings_in(parsed((run_dir / VERDICT_FILE).read_bytes()))
    except (OSError, ValueError):
        raise UsageFailure(f"{run_dir}: no verdict: expected the directory of a run that was verified") from None


def chosen_finding(run_dir: Path, name: str | None) -> Finding:
    """The finding called `name` (LANE:ANOMALY), or the first forbidden one; raises `UsageFailure` if there is none."""
    run_findings = read_findings(run_dir)
    for finding, is_forbidden in run_findings.items():
        if (name is None and is_forbidden) or str(finding) == name:
            return finding
    names = ", ".join(map(str, run_findings)) or "nothing"
    if name is None:
        raise UsageFailure(f"{run_dir}: nothing forbidden was found: name a finding by --finding (found: {names})")
    raise UsageFailure(f"--finding {name}: not found in {run_dir}: expected LANE:ANOMALY out of {names}")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A cell of the atlas: a combination of client, cluster, settings and faults that lanes are tried with.

    `client`: kind and version, such as `java 3.9.1`. `cluster`: VERSION/MODE. `settings`: the keys of the lane that
    differ from their defaults, as JSON. `faults`: the kinds of the faults that were proven, joined by `+`.
    """

    client: str
    cluster: str
    settings: str
    faults: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """A line of the record: a lane of a run with its settings, and what it showed.

    `client`, `cluster`, `settings`, `faults`: as in `Cell`. `declared`: the faults that the prediction assumed.
    `records`: how many were sent. `found`: the number of cases of each anomaly. `predicted`: the anomalies that were
    permitted or required. `not_judged`: the anomalies that could not be judged. `gap_s`: the longest time in seconds
    without an acknowledgement, None if unknown. `report`: the path of the run's report.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    run: str
    client: str
    cluster: str
    settings: str
    faults: str
    declared: str
    verdict: str
    records: int
    acknowledged: int
    found: Mapping[str, int]
    predicted: Sequence[str] = ()
    not_judged: Sequence[str] = ()
    gap_s: float | None = None
    report: str | None = None

    @property
    def cell(self) -> Cell:
        """The cell that this lane run belongs to."""
        return Cell(self.client, self.cluster, self.settings, self.faults)


def settings_of(entry: Mapping[str, Any]) -> str:
    """`Cell.settings` of a lane, from its entry in lanes.json."""
    lane = Lane.from_json(entry)
    # The number of partitions makes a difference to transactions only.
    left_out = _NOT_SETTINGS if lane.transactional is not None else (*_NOT_SETTINGS, "partitions")
    # The default of `elr`, election from eligible leader replicas, depends on the version.
    elr = elects_from_elr(lane.version, lane.mode, None)
    defaults = {**Lane(lane=lane.lane).to_json(), "elr": elr}
    keys = {key: value for key, value in lane.to_json().items() if key not in left_out}
    changed = {key: value for key, value in keys.items() if value != defaults.get(key)}
    return json.dumps(changed, sort_keys=True, separators=(",", ":"))


def faults_of(kinds: Iterable[str]) -> str:
    """`Cell.faults` of these kinds of faults."""
    return "+".join(sorted(set(kinds))) or NO_FAULT


def read_lane_runs(path: Path) -> list[LaneRun]:
    """The lane runs in a record file, with report paths relative to the current folder. Raises as `read_lines` does."""
    runs = read_lines(path, LaneRun, "a lane of a run")
    return [_with_report(run, lambda report: os.path.join(path.parent, report)) for run in runs]


def append(path: Path, runs: Iterable[LaneRun]) -> None:
    """Add lane runs to the record. Paths of reports are relative to its folder, so that both can move together."""
    append_lines(path, (_with_report(run, lambda report: os.path.relpath(report, path.parent)) for run in runs))


def _with_report(run: LaneRun, new_path: Callable[[str], str]) -> LaneRun:
    return run if run.report is None else replace(run, report=new_path(run.report))


def read_lines(path: Path, kind: type[T], expected: str) -> list[T]:
    """The objects of the dataclass `kind` on the lines of a file, oldest first; none if there is no such file.

    Raises `UsageFailure` for an invalid line. `expected`: what a line is, for the message.
    """
    from pydantic import TypeAdapter, ValidationError

    if not path.exists():
        return []
    reader, entries = TypeAdapter(kind), []
    for number, line in enumerate(text_of(path).splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break  # Its writer died.
        try:
            entries.append(reader.validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            raise UsageFailure(f"{path}:{number}: expected {expected}: {problem}") from None
    return entries


def append_lines(path: Path, entries: Iterable[Any]) -> None:
    """Add objects of a dataclass to a file, all with one write, in place of a last line that has no end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(json.dumps(asdict(entry), separators=(",", ":")) + "\n" for entry in entries).encode())


_GAPS = """
WITH acknowledged AS (
  SELECT lane, complete_ns - lag(complete_ns) OVER (PARTITION BY lane ORDER BY complete_ns) AS gap
  FROM entries WHERE outcome = 'ok' AND complete_ns IS NOT NULL
)
SELECT lane, round(coalesce(max(gap), 0) / 1e9, 3)::DOUBLE AS seconds FROM acknowledged GROUP BY lane
"""
"""For each lane, the longest time in seconds between successive acknowledgements."""


def lane_runs_of(evidence: Evidence) -> dict[str, LaneRun]:
    """A run's lines for the record, by lane. Raises `UsageFailure` for an invalid entry of lanes.json."""
    with_lanes = (evidence.experiment, *map(as_dict, as_list(evidence.experiment.get("phases"))))
    lanes = [as_dict(lane) for entry in with_lanes for lane in as_list(entry.get("lanes"))]
    in_process = {str(lane.get("lane")) for lane in lanes if lane.get("client", IN_PROCESS) == IN_PROCESS}
    librdkafka_version = str(as_dict(evidence.recorded.get("versions")).get("librdkafka", ""))
    report = evidence.path / REPORT_FILE
    gaps = {row["lane"]: row["seconds"] for row in ask(_GAPS, evidence.tables.get("produced", ()), PRODUCED)}
    lane_runs = {}
    for name, judged in evidence.judged.items():
        entry = evidence.lanes.get(name)
        if entry is None:
            continue  # without an entry in lanes.json, the lane's settings are unknown
        # A client in a process of its own has reported kind and version, which `read_evidence` puts into the entry.
        reported = str(entry.get("client") or "unknown")
        version = str(entry.get("kafka_version") or USUAL_VERSION)
        faults = as_list(as_dict(as_dict(judged.get("ledger")).get("faults")).get("events"))
        proven = [str(fault["kind"]) for fault in faults if fault.get("proven_ns") is not None]
        cases = {anomaly: int(values.get("count") or 0) for anomaly, values in as_dict(judged.get("anomalies")).items()}
        statuses = as_dict(judged.get("predicted")).items()
        lane_runs[name] = LaneRun(
            run=evidence.run_id,
            client=client_and_version(IN_PROCESS, librdkafka_version) if name in in_process else reported,
            cluster=f"{version}/{entry.get('metadata_mode') or usual_mode(version)}",
            settings=settings_of(entry),
            # A lock-step phase counts as a proven fault itself; the faults of its steps are listed beside it.
            faults=faults_of(kind for kind in proven if kind != LOCKSTEP),
            declared=faults_of(map(str, as_list(entry.get("faults")))),
            verdict=str(judged["verdict"]),
            records=int(judged.get("produced") or 0),
            acknowledged=int(judged.get("acknowledged") or 0),
            found={anomaly: count for anomaly, count in cases.items() if count},
            predicted=[anomaly for anomaly, status in statuses if status != Status.FORBIDDEN],
            not_judged=list(as_dict(judged.get("not_judged"))),
            gap_s=gaps.get(name),
            report=str(report) if report.is_file() else None,
        )
    return lane_runs


def client_and_version(client: str | Sequence[str], librdkafka_version: str | None = None) -> str:
    """`Cell.client` for a client. `librdkafka_version`: of the harness's own client; None: this process's version."""
    own_version = libversion()[0] if librdkafka_version is None else librdkafka_version
    return str(parse_client(client) or f"{IN_PROCESS} {own_version}".strip())
