"""The histories of Jepsen's own tests of its kafka workload (`jepsen.tests.kafka-test`), retold, with what they find.

jepsen_cases.json has them as Jepsen writes operations. Each case says which errors Jepsen's test asserts (0: that there
are none of this kind), and what is found here. Keys, values and times are our own; where a case polls records before
they are sent, they are `precommitted_read`, too.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly

COUNTERPARTS = {
    "duplicate": Anomaly.DUPLICATE,
    "G1a": TransactionAnomaly.ABORTED_READ,
    "G1c": TransactionAnomaly.PRECOMMITTED_READ,
    "inconsistent-offsets": Anomaly.INCONSISTENT_OFFSET,
    "int-nonmonotonic-poll": Anomaly.NONMONOTONIC_POLL,
    "int-nonmonotonic-send": Anomaly.REORDERED,
    "int-poll-skip": Anomaly.SKIPPED_POLL,
    "lost-write": Anomaly.LOST_WRITE,
    "nonmonotonic-poll": Anomaly.NONMONOTONIC_POLL,
    "nonmonotonic-send": Anomaly.REORDERED,
    "poll-skip": Anomaly.SKIPPED_POLL,
    "precommitted-read": TransactionAnomaly.PRECOMMITTED_READ,
}
"""By Jepsen's error, the anomaly that says the same."""
WITHOUT = ("G0", "int-send-skip")
"""Errors without an anomaly; docs/importers.md gives the reasons."""


@dataclass(frozen=True)
class Case:
    """`jepsen`: by error, how many its test asserts. `found`: by anomaly, how many are found here.

    `differs`: the errors about which the two disagree on purpose.
    """

    operations: list[dict[str, Any]]
    jepsen: dict[str, int]
    found: dict[str, int]
    differs: Sequence[str]


def op(process: int, kind: str, f: str, invoked: list[Any], completed: list[Any] | None = None) -> list[dict[str, Any]]:
    """An operation, invoked and completed; `kind`: how."""
    begun = {"type": "invoke", "process": process, "f": f, "value": invoked}
    return [begun, {**begun, "type": kind, "value": invoked if completed is None else completed}]


def send(process: int, kind: str, *records: tuple[str, int, int | None]) -> list[dict[str, Any]]:
    """Sends of (key, value, offset); without an offset, the answer names none."""
    invoked = [["send", key, value] for key, value, _ in records]
    answers: list[Any] = [["send", key, value if offset is None else [offset, value]] for key, value, offset in records]
    return op(process, kind, "send", invoked, answers)


def poll(
    process: int, *polls: dict[str, list[tuple[int, int]]], kind: str = "ok", f: str = "poll"
) -> list[dict[str, Any]]:
    """Polls of {key: [(offset, value), …]}."""
    answers = [["poll", {key: [list(pair) for pair in pairs] for key, pairs in polled.items()}] for polled in polls]
    return op(process, kind, f, [["poll"] for _ in polls], answers)


def move(process: int, f: str, *keys: str, kind: str = "ok") -> list[dict[str, Any]]:
    return op(process, kind, f, list(keys))


def history(*operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations one after the other, with times."""
    flat = [one for group in operations for one in group]
    return [{**one, "time": time} for time, one in enumerate(flat, 1)]


CASES = {
    name: Case(**entry)
    for name, entry in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")).items()
}
