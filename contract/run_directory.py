"""The run directory: the names of its files, and the error for one that breaks the contract."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane

FORMAT_VERSION = 1
"""The version of prediction.json and verdict.json."""
WITH_TRANSACTIONS = 2
"""The version of lanes.json where a lane is transactional, or has a group or a loop.

The run then has the tables `columns.OF_TRANSACTIONS` or `columns.OF_GROUPS`.
"""
LANES_VERSIONS = (FORMAT_VERSION, WITH_TRANSACTIONS)

EXPERIMENT_FILE = "experiment.yaml"
LANES_FILE = "lanes.json"
EVENTS_FILE = "events.jsonl"
GROUPS_FILE = "groups.json"
CHECKPOINTS_FILE = "checkpoints.json"
PREDICTION_FILE = "prediction.json"
TIMINGS_FILE = "timings.json"
MANIFEST_FILE = "manifest.json"
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"
LOGS_FOLDER = "logs"
TRACE_FILE = "trace/requests.jsonl"
FINDINGS_FOLDER = "findings"

DOCUMENTS = (LANES_FILE, EVENTS_FILE, GROUPS_FILE, CHECKPOINTS_FILE, PREDICTION_FILE, TIMINGS_FILE, EXPERIMENT_FILE)
"""The documents that verification reads, besides tables."""

CONTENTS: Mapping[str, str] = {
    EXPERIMENT_FILE: "the experiment with all defaults, its seed, the schedule that was drawn, and versions",
    LANES_FILE: "the lanes as the model and the verification know them",
    TIMINGS_FILE: 'the time-outs that bounds of recovery follow from: `{"lanes": {lane: {time-out: milliseconds}}}`',
    "produced/*.parquet": "every record that was sent, with its outcome",
    "consumed/*.parquet": "every record that was read",
    "log/*.parquet": "the final log, read back",
    "replicas/*.parquet": "the records in each broker's own segments, where they were collected",
    "transactions/*.parquet": "every transaction, with its outcome; only where a lane is transactional",
    "assignments/*.parquet": "who read what, in which isolation level; only where a lane has transactions or a group",
    "commits/*.parquet": "the offsets that members of groups committed, with outcomes; only where a lane has a group",
    GROUPS_FILE: 'the offsets that groups had committed in the end: `{"groups": {group: {"lane/partition": offset}}}`',
    CHECKPOINTS_FILE: "each broker's high watermarks, log end offsets and leader epochs",
    EVENTS_FILE: "faults, leader, ISR and controller changes, and everything else that happened, in order of time",
    f"{LOGS_FOLDER}/": "every container's log",
    TRACE_FILE: "every request to brokers and controllers, as a link saw it; only where connections pass links",
    PREDICTION_FILE: "lane → anomaly → status, and why",
    MANIFEST_FILE: 'of a run of kafka-chaos, written once all of the above is there: `{"files": {file: {"rows": of a '
    'table, "bytes": …, "sha256": …}}}`; of events.jsonl, as many bytes as there were',
    f"{FINDINGS_FOLDER}/*.parquet": "one row per anomalous record, with its cause",
    VERDICT_FILE: "verdicts, counts, first examples, and the ledger of evidence (below)",
    REPORT_FILE: "the report, one file",
}
"""Paths relative to the run directory, and what each holds."""


def lanes_document(lanes: Iterable[Lane]) -> dict[str, Any]:
    """The content of lanes.json, in the lowest version that has everything."""
    entries = [lane.to_json() for lane in lanes]
    is_newer = any(key in entry for entry in entries for key in ("transactional", "group", "loop"))
    return {"format_version": WITH_TRANSACTIONS if is_newer else FORMAT_VERSION, "lanes": entries}


class RunDirectoryError(UsageFailure, ValueError):
    """A run directory that breaks the contract: `path` is the file at fault, `column` the column or key.

    Raised before anything is written. `problem` says what was found and what was expected.
    """

    def __init__(self, path: object, problem: str, *, column: str | None = None) -> None:
        self.path = str(path)
        self.column = column
        self.problem = problem
        place = self.path if column is None else f"{self.path}: {column}"
        super().__init__(f"{place}: {problem}")
