"""The findings of a verified run, and the record of runs: a file with a JSON object for each lane of each run.

A hunt keeps a file of the same form, with an object for each round.

Guarantee: a lane's line agrees with the verdict of its run. An invalid line is refused with its number.
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
from kafka_chaos.harness.report.inputs.asking import ask
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict, as_list
from kafka_chaos.verification.inputs.documents.reading import parsed

T = TypeVar("T")

RECORD = "record.jsonl"
NO_FAULT = "no fault"
_NOT_SETTINGS = ("lane", "topic", "client", "faults", "kafka_version", "metadata_mode")
"""Keys of a lane that are no settings of a cell: names, and keys that have fields of their own in a cell."""


@dataclass(frozen=True)
class Finding:
    """An anomaly of a lane."""

    lane: str
    anomaly: AnyAnomaly

    def __str__(self) -> str:
        return f"{self.lane}:{self.anomaly}"


def findings(verdict: Mapping[str, Any]) -> dict[Finding, bool]:
    """All findings in the content of a verdict.json, each with whether it was forbidden; forbidden findings come first.

    A finding can be forbidden by the prediction, or only given what the run showed (`in_this_run`).
    """
    forbidden = {
        Finding(lane["lane"], anomaly_named(name)): Status.FORBIDDEN in (entry.get("status"), entry.get("in_this_run"))
        for lane in verdict["lanes"]
        for name, entry in lane["anomalies"].items()
        if entry["count"]
    }
    return dict(sorted(forbidden.items(), key=lambda entry: not entry[1]))


def findings_of(run_dir: Path) -> dict[Finding, bool]:
    """The findings of a run directory; raises `UsageFailure` where it has no verdict."""
    try:
        return findings(parsed((run_dir / VERDICT_FILE).read_bytes()))
    except (OSError, ValueError):
        raise UsageFailure(f"{run_dir}: no verdict: expected the directory of a run that was verified") from None


def finding_of(run_dir: Path, named: str | None) -> Finding:
    """The finding of this name, or without a name the first forbidden finding; raises `UsageFailure` without one."""
    in_run = findings_of(run_dir)
    names = ", ".join(map(str, in_run)) or "nothing"
    if named is None:
        first = next((finding for finding, is_forbidden in in_run.items() if is_forbidden), None)
        if first is None:
            raise UsageFailure(f"{run_dir}: nothing forbidden was found: name a finding by --finding (found: {names})")
        return first
    finding = next((finding for finding in in_run if str(finding) == named), None)
    if finding is None:
        raise UsageFailure(f"--finding {named}: {run_dir} did not find it: expected LANE:ANOMALY out of {names}")
    return finding


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """The combination that a lane was tried with.

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

    `declared`: the faults that its prediction assumed. `records`: how many were sent. `found`: the anomalies that were
    found, with the number of findings. `predicted`: the anomalies that were permitted or required. `not_judged`: the
    anomalies that could not be judged. `gap_s`: the longest time in seconds without an acknowledgement, None if
    unknown. `report`: the path of the run's report.
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
    """The field `settings` of the cell of a lane, given the lane's entry in lanes.json."""
    lane = Lane.from_json(entry)
    # The number of partitions matters to transactions only.
    names = _NOT_SETTINGS if lane.transactional is not None else (*_NOT_SETTINGS, "partitions")
    # The default of `elr`, election from eligible leader replicas, depends on the version.
    elr = elects_from_elr(lane.version, lane.mode, None)
    usual = {**Lane(lane=lane.lane).to_json(), "elr": elr}
    changed = {key: value for key, value in lane.to_json().items() if key not in names and value != usual.get(key)}
    return json.dumps(changed, sort_keys=True, separators=(",", ":"))


def faults_of(kinds: Iterable[str]) -> str:
    """The field `faults` of a cell, given the kinds of its faults."""
    return "+".join(sorted(set(kinds))) or NO_FAULT


def read_record(path: Path) -> list[LaneRun]:
    """The lane runs in a record file, by `read_lines`. Paths of reports are relative to the current folder."""
    runs = read_lines(path, LaneRun, "a lane of a run")
    return [_with_report(run, lambda report: os.path.join(path.parent, report)) for run in runs]


def append(path: Path, runs: Iterable[LaneRun]) -> None:
    """Add lane runs to the record. Paths of reports are relative to the record's folder: both can move together."""
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
    for number, line in enumerate(text_of(path).splitlines(), 1):
        try:
            entries.append(reader.validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            raise UsageFailure(f"{path}:{number}: expected {expected}: {problem}") from None
    return entries


def append_lines(path: Path, entries: Iterable[Any]) -> None:
    """Add objects of a dataclass to a file, all with one write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(asdict(entry), separators=(",", ":")) + "\n" for entry in entries))


_GAPS = """
WITH acknowledged AS (
  SELECT lane, complete_ns - lag(complete_ns) OVER (PARTITION BY lane ORDER BY complete_ns) AS gap
  FROM entries WHERE outcome = 'ok' AND complete_ns IS NOT NULL
)
SELECT lane, round(coalesce(max(gap), 0) / 1e9, 3)::DOUBLE AS seconds FROM acknowledged GROUP BY lane
"""
"""By lane, the longest time in seconds between two acknowledgements."""


def lane_runs_of(evidence: Evidence) -> dict[str, LaneRun]:
    """The lanes of a run, by name. Raises `UsageFailure` for an entry of lanes.json that is no valid lane."""
    phases = (evidence.experiment, *map(as_dict, as_list(evidence.experiment.get("phases"))))
    lanes = [as_dict(lane) for phase in phases for lane in as_list(phase.get("lanes"))]
    in_process = {str(lane.get("lane")) for lane in lanes if lane.get("client", IN_PROCESS) == IN_PROCESS}
    recorded_version = str(as_dict(evidence.recorded.get("versions")).get("librdkafka", ""))
    report = evidence.path / REPORT_FILE
    gaps = {row["lane"]: row["seconds"] for row in ask(_GAPS, evidence.tables.get("produced", ()), PRODUCED)}
    lane_runs = {}
    for name, judged in evidence.judged.items():
        entry = evidence.lanes.get(name)
        if entry is None:
            continue
        # A client that is a process reports its kind and version in an event.
        reported = str(entry.get("client") or "unknown")
        version = str(entry.get("kafka_version") or USUAL_VERSION)
        faults = as_list(as_dict(as_dict(judged.get("ledger")).get("faults")).get("events"))
        proven = [str(fault["kind"]) for fault in faults if fault.get("proven_ns") is not None]
        counts = {anomaly: int(shown.get("count") or 0) for anomaly, shown in as_dict(judged.get("anomalies")).items()}
        statuses = as_dict(judged.get("predicted")).items()
        lane_runs[name] = LaneRun(
            run=evidence.run_id,
            client=client_named(IN_PROCESS, recorded_version) if name in in_process else reported,
            cluster=f"{version}/{entry.get('metadata_mode') or usual_mode(version)}",
            settings=settings_of(entry),
            # A phase in steps is itself among the proven faults; what its steps broke is there, too.
            faults=faults_of(kind for kind in proven if kind != LOCKSTEP),
            declared=faults_of(map(str, as_list(entry.get("faults")))),
            verdict=str(judged["verdict"]),
            records=int(judged.get("produced") or 0),
            acknowledged=int(judged.get("acknowledged") or 0),
            found={anomaly: count for anomaly, count in counts.items() if count},
            predicted=[anomaly for anomaly, status in statuses if status != Status.FORBIDDEN],
            not_judged=list(as_dict(judged.get("not_judged"))),
            gap_s=gaps.get(name),
            report=str(report) if report.is_file() else None,
        )
    return lane_runs


def client_named(client: Any, in_process: str | None = None) -> str:
    """A lane's client by kind and version. `in_process`: the version of librdkafka, by default this process's own."""
    kind = parse_client(client)
    return str(kind or f"{IN_PROCESS} {libversion()[0] if in_process is None else in_process}".strip())
