"""Reads what a run directory adds to the record of runs."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from confluent_kafka import libversion

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, usual_mode
from kafka_chaos.contract.run_directory import REPORT_FILE
from kafka_chaos.harness.campaign.lane_runs import LaneRun, faults_of, settings_of
from kafka_chaos.harness.clients.kinds import IN_PROCESS, chosen
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict, as_list


def lane_runs_of(evidence: Evidence) -> dict[str, LaneRun]:
    """The lanes of a run, by name. Raises `UsageFailure` for a lane that is none."""
    phases = (evidence.experiment, *map(as_dict, as_list(evidence.experiment.get("phases"))))
    lanes = [as_dict(lane) for phase in phases for lane in as_list(phase.get("lanes"))]
    in_process = {str(lane.get("lane")) for lane in lanes if lane.get("client", IN_PROCESS) == IN_PROCESS}
    version_here = str(as_dict(evidence.recorded.get("versions")).get("librdkafka", ""))
    report, gaps = evidence.path / REPORT_FILE, _gaps(evidence)
    found = {}
    for name, judged in evidence.judged.items():
        entry = evidence.lanes.get(name)
        if entry is None:
            continue
        # A process says itself which client it is, in an event.
        said = str(entry.get("client") or "unknown")
        version = str(entry.get("kafka_version") or USUAL_VERSION)
        counts = {anomaly: int(one.get("count") or 0) for anomaly, one in as_dict(judged.get("anomalies")).items()}
        statuses = as_dict(judged.get("predicted")).items()
        found[name] = LaneRun(
            run=evidence.run_id,
            client=client_named(IN_PROCESS, version_here) if name in in_process else said,
            cluster=f"{version}/{entry.get('metadata_mode') or usual_mode(version)}",
            settings=settings_of(entry),
            faults=faults_of(_proven(judged)),
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
    return found


def client_named(client: Any, in_process: str | None = None) -> str:
    """A lane's client by kind and version; `in_process`: the version of librdkafka, by default that of this process."""
    kind = chosen(client)
    return str(kind or f"{IN_PROCESS} {libversion()[0] if in_process is None else in_process}".strip())


def _proven(judged: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of the faults of a lane that have a proof."""
    for event in as_list(as_dict(as_dict(judged.get("ledger")).get("faults")).get("events")):
        if event.get("proven_ns") is not None and event["kind"] != LOCKSTEP:
            yield str(event["kind"])


def _gaps(evidence: Evidence) -> dict[str, float]:
    """By lane, the longest time in seconds between two acknowledgements."""
    acknowledged = (ds.field("outcome") == "ok") & ds.field("complete_ns").is_valid()
    times: dict[str, list[np.ndarray[Any, np.dtype[np.int64]]]] = {}
    for file in evidence.tables.get("produced", ()):
        rows = pq.read_table(file, columns=["lane", "complete_ns"], filters=acknowledged)
        lanes, ends = rows["lane"].to_numpy(), rows["complete_ns"].to_numpy()
        for lane in set(lanes):
            times.setdefault(lane, []).append(ends[lanes == lane])
    return {
        lane: round(float(np.diff(np.sort(np.concatenate(parts))).max(initial=0)) / 1e9, 3)
        for lane, parts in times.items()
    }
