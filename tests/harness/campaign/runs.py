"""Run directories as far as a replay reads them, and what ends a policy that starts no run."""

import json
from pathlib import Path
from typing import Any

from kafka_chaos.harness.campaign.loop import Attempt, Budget, Policy, follow
from tests.harness.report.report_runs import event, write


def ended(policy: Policy[Any]) -> Any:
    """What a policy returns that makes no attempt."""

    def perform(attempt: Attempt) -> Any:
        raise AssertionError(f"an attempt: {attempt}")

    return follow(policy, Budget(1), perform)


LANE = {"lane": "acks1", "acks": "1"}
EXPERIMENT = {
    "name": "sample",
    "seed": 7,
    "phases": [
        {
            "phase": "main",
            "lanes": [LANE],
            "workload": {"rate": 100, "duration": 30},
            "schedule": [
                {"fault": "kill", "target": "leader(acks1)", "at": 5, "duration": 3},
                {"fault": "partition", "target": "majority", "at": 12, "duration": 4, "action": "reject"},
            ],
        }
    ],
    "recorded": {"run_id": "sample"},
}


def requested(name: str, resolved: list[str], **fields: Any) -> dict[str, Any]:
    kind = name.partition("-")[0]
    given = {"target": "?", "lanes": ["acks1"], "parameters": {}, "late": 0.25, **fields}
    return event(1, "fault_requested", fault_id=f"main/{name}", kind=kind, resolved=resolved, **given)


EVENTS = [
    requested("kill-1", ["broker-2"], at=5.0, duration=3.0),
    requested("partition-2", ["broker-1", "broker-3"], at=12.0, duration=4.0, parameters={"action": "reject"}),
]


def write_run(path: Path, *, events: list[dict[str, Any]] = EVENTS, found: dict[str, Any] | None = None) -> Path:
    # JSON is YAML, too.
    verdicts = [{"lane": "acks1", "anomalies": found or {}}]
    return write(path, [LANE], verdicts, experiment=json.dumps(EXPERIMENT), events=events)
