"""What `plan` accepts, `run` can do: each pair of settings in some experiment of a covering array.

benchmarks/record_runs.py runs arrays on brokers. Another seed draws another array, whose pairs are the same and whose
triples are not.
"""

from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from kafka_chaos.contract.lane.groups import AFTER, CLASSIC, CONSUMER
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.faults.registry import fault_kind
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ROLES, parse_client
from kafka_chaos.harness.cluster.containers.versions import parse_cluster
from kafka_chaos.harness.cluster.security import PLAINTEXT
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.schedule import lane_of_client
from kafka_chaos.harness.experiment.timings import timings_of
from kafka_chaos.reference_model.recovery import bounds_of

SOURCE = "source"
OF_LINKS = ("hold", "drop", "repeat", "delay", "cut", "alter", "answer")
OF_STORAGE = ("full-disk", "slow-disk", "read-only-disk", "freeze-disk", "failing-segment", "lost-checkpoint",
              "lost-index", "corrupted-segment", "truncated-segment")  # fmt: skip
OF_REMOTE_STORE = ("slow-remote-store", "failing-remote-store", "full-remote-store", "lost-remote-segment")
FAULTS: dict[str, list[dict[str, Any]]] = {
    "none": [{}],
    "process": [{"fault": kind, "target": "leader(a)"} for kind in ("kill", "stop", "power-loss")],
    "frozen": [{"fault": "pause", "target": target} for target in ("follower(a)", "leader(a)")],
    "network": [
        {"fault": kind, "target": "leader(a)"} for kind in ("partition", "isolate", "connection-reset", "packet-loss")
    ],
    "links": [{"fault": kind, "target": "leader(a)", "api": "Produce"} for kind in OF_LINKS],
    "coordination": [
        {"fault": "leader-transfer", "target": "leader(a)"},
        {"fault": "session-expiry", "target": "leader(a)"},
        {"fault": "controller-move", "target": "controller"},
    ],
    "partitions": [{"fault": "partition-growth", "target": "controller", "lane": "a", "add": 1}],
    "storage": [{"fault": kind, "target": "broker:2"} for kind in OF_STORAGE],
    "clock": [
        {"fault": "clock-step", "seconds": 2, "target": "broker:2"},
        {"fault": "clock-drift", "percent": 20, "target": "broker:2"},
    ],
    "members": [{"fault": kind, "target": "member(a)"} for kind in ("client-pause", "client-kill")],
    "clients": [{"fault": kind, "target": "consumer(a)"} for kind in ("client-kill", "client-pause")],
    "remote store": [{"fault": kind, "target": "all"} for kind in OF_REMOTE_STORE],
}
"""By family the faults of which an array draws one for each of its experiments."""
USES: list[dict[str, Any]] = [
    {},
    {"lives": [{"at": 2, "lasts": 3, "ends": "kill", "returns": 1}]},
    {"lives": [{"role": "consumer", "at": 2}]},
    {"transactional": {"size": 5}},
    {"group": {"members": 2}},
    {"group": {"members": 2, "protocol": "consumer"}},
    {"group": {"members": 2, "commits": "auto"}},
    {"transactional": {"size": 5}, "group": {"members": 2}},
    {"transactional": {"size": 5, "reads": True}, "group": {"members": 2}},
    {"loop": {"source": SOURCE}},
    {"loop": {"source": SOURCE, "offsets": "before"}},
    {"share": {"members": 2}},
    {"share": {"members": 2, "acknowledgement": "explicit", "release": 0.2}},
    {"cleanup_policy": "compact", "tombstones": 0.2, "topic_configs": {"segment.ms": 1000}},
    {"tiered": True, "topic_configs": {"segment.ms": 1000, "local.retention.bytes": 1}},
]
"""Lives, transactions, groups, loops and kinds of topics exclude most of each other."""
ARRAY: dict[str, list[Any]] = {
    "use": USES,
    "client": ["librdkafka", "librdkafka 2.12.0", "java 2.8.2", "java 4.2.2", *(name for name in KINDS)],
    "fault": list(FAULTS),
    "cluster": ["4.4.0/kraft", "2.4.1/zookeeper", "3.9.1/zookeeper", "3.9.1/kraft", "4.1.1/kraft"],
    "acks": ["all, idempotent", "all", "1", "0"],
    "security": ["plaintext", "mtls"],
}
CLIENTS = {name: parse_client(name) for name in ARRAY["client"]}
ASSIGNED_BY_BROKERS = ("librdkafka 2.12.0", "java 4.2.2")
"""The clients of the array, in the versions that it has, whose members can have the protocol `consumer`."""


def experiments(seed: int) -> Iterator[dict[str, Any]]:
    """Experiments that together have each pair of values that an allowed row has; the seed draws the rest."""
    rows = [row for row in product(*(range(len(values)) for values in ARRAY.values())) if _is_allowed(_named(row))]
    drawn = Random(seed)
    drawn.shuffle(rows)
    rows_with: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for row in rows:
        for pair in _pairs(row):
            rows_with.setdefault(pair, []).append(row)
    missing = set(rows_with)
    while missing:
        rarest = min(missing, key=lambda pair: (len(rows_with[pair]), pair))
        best = max(rows_with[rarest], key=lambda row: len(missing.intersection(_pairs(row))))
        missing.difference_update(_pairs(best))
        row = _named(best)
        layout = ClusterSpec.model_validate(_cluster_of(row)).as_layout()
        faults = [one for one in FAULTS[row["fault"]] if not one or fault_kind(one["fault"]).refusal(layout) is None]
        yield values_of(row, drawn.choice(faults))


def _cluster_of(row: dict[str, Any]) -> dict[str, Any]:
    tiered = {"tiered_storage": True} if "tiered" in row["use"] else {}
    return {**parse_cluster(row["cluster"]), "security": row["security"], **tiered}


def _named(row: tuple[int, ...]) -> dict[str, Any]:
    """The values of a row of their numbers."""
    return {name: values[number] for (name, values), number in zip(ARRAY.items(), row, strict=True)}


def _pairs(row: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    return combinations(enumerate(row), 2)


def _is_allowed(row: dict[str, Any]) -> bool:
    """Whether the documentation lets a row be: what a client can be is what its kind says."""
    client, use, fault = CLIENTS[row["client"]], row["use"], row["fault"]
    kind = KINDS[IN_PROCESS] if client is None else client.kind
    roles = {role for key, role in ROLES.items() if key in use}
    of_group = {"protocol": CLASSIC, "commits": AFTER, **use.get("group", {})}
    limits = kind.group_settings.items() if client is not None and "group" in use else ()
    return not (
        (row["acks"] != "all, idempotent" and ("transactional" in use or "loop" in use))
        or not roles <= set(kind.roles)
        or (client is not None and ("reads" in use.get("transactional", ()) or "cleanup_policy" in use))
        or any(of_group[key] not in able for key, able in limits)
        or (of_group["protocol"] == CONSUMER and not row["cluster"].startswith("4"))
        or (of_group["protocol"] == CONSUMER and client is not None and row["client"] not in ASSIGNED_BY_BROKERS)
        or ("share" in use and (row["cluster"], row["client"]) != ("4.4.0/kraft", "java 4.2.2"))
        or ("tiered" in use and not row["cluster"].startswith("4"))
        or (row["security"] != PLAINTEXT and (kind.translate_keys is None or fault == "links"))
        or (row["security"] != PLAINTEXT and row["cluster"].startswith("2"))
        or (fault == "remote store" and "tiered" not in use)
        or (fault == "members" and not ("group" in use or "loop" in use))
        or (fault == "clients" and (client is None or "loop" in use))
        or (fault == "partitions" and (client is not None or "loop" in use))
    )


def values_of(row: dict[str, Any], fault: dict[str, Any]) -> dict[str, Any]:
    """An experiment with a lane of these settings, and one that a loop reads."""
    acks, _, numbered = row["acks"].partition(", ")
    lane = {"lane": "a", "min_insync_replicas": 2, "acks": acks, "idempotence": bool(numbered), **row["use"]}
    lanes = [lane_of_client(lane, row["client"])]
    if "loop" in row["use"]:
        lanes.append({"lane": SOURCE, "acks": "all", "min_insync_replicas": 2})
    return {
        "name": "array",
        "seed": 1,
        "cluster": _cluster_of(row),
        # A loop waits for the end of a transaction that its broker left open, up to a minute (transaction.timeout.ms).
        "workload": {"rate": 100, "duration": 8, "settle_timeout": 120},
        "lanes": lanes,
        "schedule": [{**fault, "at": 2, "duration": 3}] if fault else [],
    }


ROWS = list(experiments(seed=0))


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_what_is_accepted_has_bounds(number: int) -> None:
    experiment = experiment_of(ROWS[number], f"row {number}")
    for phase, spec, lane in experiment.lanes:
        timings = timings_of(spec, experiment.layout)
        assert RecoveryAnomaly.ISR_NOT_RESTORED in bounds_of(lane, timings, phase.lane_faults(experiment.layout, spec))
