"""The run directory: its files' names and format versions, and the error for a directory that breaks the contract.

Its manifest.json has each file's SHA-256 and number of rows, so that a missing, added or changed file is noticed.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, BinaryIO

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import LaneJudged, RunEnded, Step, StepProgress, type_name
from kafka_chaos.contract.lane.lanes import Lane

FORMAT_VERSION = 1  # of prediction.json, verdict.json and manifest.json, and of lanes.json with plain lanes
VERSION_WITH_TRANSACTIONS = 2
"""The version of lanes.json where a lane is transactional, or has a group or a loop. The run then has the tables
`columns.TABLES_OF_TRANSACTIONS` or `columns.TABLES_OF_GROUPS`."""
VERSION_WITH_SHARES = 3
"""The version of lanes.json where a lane has a share group. The run then has the tables `columns.TABLES_OF_SHARES`."""
LANES_VERSIONS = (FORMAT_VERSION, VERSION_WITH_TRANSACTIONS, VERSION_WITH_SHARES)

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
LATER_EVENTS = frozenset(map(type_name, (Step, StepProgress, LaneJudged, RunEnded)))
"""The events that a run may emit after its manifest was written: none of them is evidence."""
_PIECE = 1 << 20  # bytes that are read and hashed at a time


def lanes_document(lanes: Iterable[Lane]) -> dict[str, Any]:
    """The content of lanes.json, in the lowest format version that can express these lanes."""
    entries = [lane.to_json() for lane in lanes]
    keys = {key for entry in entries for key in entry}
    version = VERSION_WITH_TRANSACTIONS if keys & {"transactional", "group", "loop"} else FORMAT_VERSION
    return {"format_version": VERSION_WITH_SHARES if "share" in keys else version, "lanes": entries}


class RunDirectoryError(UsageFailure, ValueError):
    """A run directory that breaks the contract: `path` is the file at fault, `column` the column or key.

    `problem` says what was found and what was expected. Raised before a command writes anything.
    """

    def __init__(self, path: object, problem: str, *, column: str | None = None) -> None:
        self.path = str(path)
        self.column = column
        self.problem = problem
        place = self.path if column is None else f"{self.path}: {column}"
        super().__init__(f"{place}: {problem}")


def sha256_of(content: BinaryIO, size: int) -> str:
    """The SHA-256, in hexadecimal, of the first `size` bytes, or of all if there are fewer."""
    digest = hashlib.sha256()
    while size > 0 and (piece := content.read(min(_PIECE, size))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()
