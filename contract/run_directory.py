"""The run directory: the names of its files, and the error for one that breaks the contract."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.contract.errors import UsageFailure

FORMAT_VERSION = 1

EXPERIMENT_FILE = "experiment.yaml"
LANES_FILE = "lanes.json"
EVENTS_FILE = "events.jsonl"
CHECKPOINTS_FILE = "checkpoints.json"
PREDICTION_FILE = "prediction.json"
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"
LOGS_FOLDER = "logs"
FINDINGS_FOLDER = "findings"

CONTENTS: Mapping[str, str] = {
    EXPERIMENT_FILE: "the experiment with all defaults, its seed, the schedule that was drawn, and versions",
    LANES_FILE: "the lanes as the model and the verification know them",
    "produced/*.parquet": "every record that was sent, with its outcome",
    "consumed/*.parquet": "every record that was read",
    "log/*.parquet": "the final log, read back",
    "replicas/*.parquet": "the records in each broker's own segments, where they were collected",
    CHECKPOINTS_FILE: "each broker's high watermarks, log end offsets and leader epochs",
    EVENTS_FILE: "faults, leader, ISR and controller changes, and everything else that happened, in order of time",
    f"{LOGS_FOLDER}/": "every container's log",
    PREDICTION_FILE: "lane → anomaly → status, and why",
    f"{FINDINGS_FOLDER}/*.parquet": "one row per anomalous record, with its cause",
    VERDICT_FILE: "verdicts, counts, first examples, and the ledger of evidence (below)",
    REPORT_FILE: "the report, one file",
}
"""Paths relative to the run directory, and what each holds."""


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
