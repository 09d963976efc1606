"""Lanes of runs as a record has them."""

from typing import Any

from kafka_chaos.harness.campaign.record import LaneRun, settings_of

STRICT = settings_of({"lane": "any", "acks": "all", "idempotence": True, "min_insync_replicas": 2})
ACKS_1 = settings_of({"lane": "any", "acks": "1"})


def lane_run(lost: int = 0, **values: Any) -> LaneRun:
    given: dict[str, Any] = {
        "run": "a-run", "client": "librdkafka 2.16.0", "cluster": "3.9.1/zookeeper", "settings": ACKS_1,
        "faults": "kill", "declared": "kill", "verdict": "conforms", "records": 1000, "acknowledged": 990,
        "found": {"lost_write": lost} if lost else {}, "predicted": ["lost_write"], "gap_s": 5.0,
    }  # fmt: skip
    return LaneRun(**{**given, **values})
