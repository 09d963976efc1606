"""Random schedules: two faults of all kinds that this machine and the cluster have, on eight lanes from acks=0 to
idempotence. A hunt draws them (`hunting.py`): what was tried least, most often.
"""

from collections.abc import Mapping
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.experiment.file import experiment_of

FEW_REQUESTS = {"linger.ms": 20}
"""A thread of librdkafka (2.16.0) spins while records wait and as many requests are under way as idempotence allows: on
a busy machine three such producers took most of a core."""
IDEMPOTENT: Mapping[str, Any] = {"acks": "all", "idempotence": True, "producer_configs": FEW_REQUESTS}
LANES: tuple[Mapping[str, Any], ...] = (
    {"lane": "acks0", "acks": "0", "min_insync_replicas": 2},
    {"lane": "acks1", "acks": "1", "min_insync_replicas": 2},
    {"lane": "acks1-unclean", "acks": "1", "unclean_leader_election": True},
    {"lane": "all", "acks": "all", "min_insync_replicas": 2},
    {"lane": "all-min1", "acks": "all"},
    {"lane": "idempotent", **IDEMPOTENT, "min_insync_replicas": 2},
    {"lane": "idempotent-min1", **IDEMPOTENT},
    {"lane": "unclean", **IDEMPOTENT, "unclean_leader_election": True},
)
TARGETS = ("leader(all)", "leader(acks1-unclean)", "follower(all)", "follower(idempotent)", "random")
NEEDS_THE_CONTROLLER = "controller-move"
"""A kind with one possible target, which random targets seldom are."""


def random_schedules(cluster: Mapping[str, str]) -> dict[str, Any]:
    """The keys of the experiment whose schedules are drawn; `cluster`: its `kafka_version` and `metadata_mode`."""
    values = {
        "name": "random-schedules",
        # Controllers of their own: no fault stops most of them.
        "cluster": {**cluster, "controllers": 3} if cluster["metadata_mode"] == KRAFT else dict(cluster),
        "workload": {"rate": 300, "duration": 25},
        # Each broker leads: one that leads nothing has no leadership to transfer.
        "lanes": [{**lane, "leader": 1 + number % 3} for number, lane in enumerate(LANES)],
    }
    generate = {
        "faults": [kind for kind in fault_kinds() if kind != NEEDS_THE_CONTROLLER and is_possible(values, kind)],
        "targets": list(TARGETS),
        "count": 2,
        "duration": [2, 7],
        "breaks": "one",
        "quiet_end": 6,
    }
    return {**values, "schedule": {"generate": generate}}


def is_possible(values: Mapping[str, Any], kind: str) -> bool:
    """Whether a cluster like this, and this machine, have the fault kind, at every target."""
    schedule = [
        {"fault": kind, "target": target, "at": 2 + 8 * number, "duration": 2} for number, target in enumerate(TARGETS)
    ]
    try:
        experiment_of({**values, "workload": {"duration": 60}, "schedule": schedule}, "random schedules")
    except UsageFailure:
        return False
    return fault_kinds()[kind].unavailable() is None
