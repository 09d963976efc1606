"""What `plan` accepts, `run` can do: each pair of settings in some experiment, checked, and run on brokers by night.

`COVERING_ARRAY_SEED` draws another array, whose pairs are the same and whose triples are not.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allpairspy import AllPairs

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.groups import AFTER, CLASSIC, CONSUMER
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ROLES, parse_client
from kafka_chaos.harness.cluster.containers.versions import cluster_named
from kafka_chaos.harness.cluster.security import PLAINTEXT
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.schedule import lane_of_client
from kafka_chaos.harness.experiment.timings import timings_of
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.reference_model.recovery import bounds_of

SOURCE = "source"
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "process": {"fault": "kill", "target": "leader(a)"},
    "frozen": {"fault": "pause", "target": "follower(a)"},
    "network": {"fault": "partition", "target": "leader(a)"},
    "links": {"fault": "hold", "target": "leader(a)", "api": "Produce"},
    "coordination": {"fault": "leader-transfer", "target": "leader(a)"},
    "partitions": {"fault": "partition-growth", "target": "controller", "lane": "a", "add": 1},
    "storage": {"fault": "full-disk", "target": "broker:2"},
    "clock": {"fault": "clock-step", "seconds": 2, "target": "broker:2"},
    "members": {"fault": "client-pause", "target": "member(a)"},
    "clients": {"fault": "client-kill", "target": "consumer(a)"},
}
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
]
"""Lives, transactions, groups and loops exclude most of each other: as settings of their own they would leave holes."""
ARRAY: dict[str, list[Any]] = {
    "use": USES,
    "client": ["librdkafka", "librdkafka 2.12.0", "java 2.8.2", "java 4.1.1", *(name for name in KINDS)],
    "fault": list(FAULTS),
    "cluster": ["4.3.1/kraft", "2.4.1/zookeeper", "3.9.1/zookeeper", "3.9.1/kraft", "4.1.1/kraft"],
    "acks": ["all, idempotent", "all", "1", "0"],
    "security": ["plaintext", "mtls"],
}
ASSIGNED_BY_BROKERS = ("librdkafka 2.12.0", "java 4.1.1")
"""The clients of the array, in the versions that it has, whose members can have the protocol `consumer`."""
_HARMLESS = {**{name: values[0] for name, values in ARRAY.items()}, "client": "librdkafka 2.12.0"}
"""What the rest of a row may still be."""


def experiments(seed: int) -> Iterator[dict[str, Any]]:
    """The values of an experiment for each row of the array; the seed says in which order values are tried."""
    drawn = random.Random(seed)
    for row in AllPairs([drawn.sample(values, len(values)) for values in ARRAY.values()], filter_func=_can_be):
        yield values_of(dict(zip(ARRAY, row, strict=True)))


def _can_be(values: list[Any]) -> bool:
    """Whether the documentation lets a row, or its beginning, be: what a client can be is what its kind says."""
    row = {**_HARMLESS, **dict(zip(ARRAY, values, strict=False))}
    client, use, fault = parse_client(row["client"]), row["use"], row["fault"]
    kind = KINDS[IN_PROCESS] if client is None else client.kind
    roles = {role for key, role in ROLES.items() if key in use}
    of_group = {"protocol": CLASSIC, "commits": AFTER, **use.get("group", {})}
    limits = kind.group_settings.items() if client is not None and "group" in use else ()
    return not (
        (row["acks"] != "all, idempotent" and ("transactional" in use or "loop" in use))
        or not roles <= set(kind.roles)
        or (client is not None and "reads" in use.get("transactional", ()))
        or any(of_group[key] not in able for key, able in limits)
        or (of_group["protocol"] == CONSUMER and not row["cluster"].startswith("4"))
        or (of_group["protocol"] == CONSUMER and client is not None and row["client"] not in ASSIGNED_BY_BROKERS)
        or (row["security"] != PLAINTEXT and (kind.secured is None or fault == "links"))
        or (row["security"] != PLAINTEXT and row["cluster"].startswith("2"))
        or (fault == "members" and not ("group" in use or "loop" in use))
        or (fault == "clients" and (client is None or "loop" in use))
        or (fault == "partitions" and ((client is not None and len(values) > 2) or "loop" in use))
    )


def values_of(row: dict[str, Any]) -> dict[str, Any]:
    """An experiment with a lane of these settings, and one that a loop reads."""
    acks, _, numbered = row["acks"].partition(", ")
    lane = {"lane": "a", "min_insync_replicas": 2, "acks": acks, "idempotence": bool(numbered), **row["use"]}
    lanes = [lane_of_client(lane, row["client"])]
    if "loop" in row["use"]:
        lanes.append({"lane": SOURCE, "acks": "all", "min_insync_replicas": 2})
    fault = FAULTS[row["fault"]]
    return {
        "name": "array",
        "seed": 1,
        "cluster": {**cluster_named(row["cluster"]), "security": row["security"]},
        "workload": {"rate": 100, "duration": 10, "settle_timeout": 0.1},
        "lanes": lanes,
        "schedule": [{**fault, "at": 2, "duration": 3}] if fault else [],
    }


ROWS = list(experiments(seed=int(os.environ.get("COVERING_ARRAY_SEED", "0"))))


def by_cluster(phases: int) -> Iterator[dict[str, Any]]:
    """Experiments that run every row in a phase of its own, up to so many `phases` on one cluster."""
    alike: dict[str, list[int]] = {}
    for number, row in enumerate(ROWS):
        alike.setdefault(json.dumps(row["cluster"], sort_keys=True), []).append(number)
    for numbers in alike.values():
        for first in range(0, len(numbers), phases):
            together = numbers[first : first + phases]
            yield {
                "name": f"array-{together[0]}",
                "seed": 1,
                "cluster": ROWS[together[0]]["cluster"],
                "phases": [_phase(number) for number in together],
            }


def _phase(number: int) -> dict[str, Any]:
    """A row as a phase: lanes have names of their own, and the load lasts for a few seconds."""
    row = ROWS[number]
    lanes = [{**lane, "lane": f"{lane['lane']}{number}"} for lane in row["lanes"]]
    for lane in lanes:
        if "loop" in lane:
            lane["loop"] = {**lane["loop"], "source": f"{SOURCE}{number}"}
    schedule = [
        {**fault, "target": fault["target"].replace("(a)", f"(a{number})")}
        | ({"lane": f"a{number}"} if "lane" in fault else {})
        for fault in row["schedule"]
    ]
    # A loop waits for the end of a transaction that its broker left open, for up to a minute (transaction.timeout.ms).
    workload = {**row["workload"], "duration": 8, "settle_timeout": 120}
    return {"phase": f"row-{number}", "workload": workload, "lanes": lanes, "schedule": schedule}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("values", list(by_cluster(phases=6)), ids=lambda values: values["name"])
def test_what_is_accepted_runs(values: dict[str, Any], tmp_path: Path) -> None:
    """Nothing is refused after the start, every lane is served, and nothing is unknown that `plan` could have known."""
    experiment = experiment_of(values, values["name"])
    result = run_experiment(experiment, root=tmp_path, accept_known=MODELLED_DEFECTS, engine=Engine.DUCKDB)
    assert {lane.lane: lane.reasons for lane in result.verdict.lanes if lane.outcome is not Verdict.CONFORMS} == {}
    assert all(lane.acknowledged for lane in result.verdict.lanes)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_what_is_accepted_has_bounds(number: int) -> None:
    experiment = experiment_of(ROWS[number], f"row {number}")
    for phase, spec, lane in experiment.lanes:
        timings = timings_of(spec, experiment.layout)
        assert RecoveryAnomaly.ISR_NOT_RESTORED in bounds_of(lane, timings, phase.lane_faults(experiment.layout, spec))
