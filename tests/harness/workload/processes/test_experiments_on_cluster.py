"""The experiments that compare clients conform on brokers of the oldest and the newest supported line, or name known
defects for all that is forbidden."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from tests.clusters import NEWEST, PLAIN

EXPERIMENTS = Path(__file__).parents[4] / "experiments"
NAMES = ("clients", "client-roles", "client-transactions", "client-lives", "client-faults")

ASSIGNED_BY_BROKERS, TIERED = "versions/client-kip848", "tiered-storage"
SHARES, LETTERS = "share-groups", "dead-letters"
LAYOUTS = [
    *((name, layout) for name in NAMES for layout in (PLAIN, NEWEST)),
    *((ASSIGNED_BY_BROKERS, replace(NEWEST, kafka_version=version)) for version in ("4.1.2", "4.4.0")),
    *((SHARES, replace(NEWEST, kafka_version=version)) for version in ("4.2.2", "4.4.0")),
    (LETTERS, replace(NEWEST, kafka_version="4.4.0")),
    *((TIERED, replace(NEWEST, kafka_version=version)) for version in ("3.9.2", "4.4.0")),
]


def on(layout: ClusterLayout, name: str) -> dict[str, Any]:
    values: dict[str, Any] = YAML(typ="safe").load(EXPERIMENTS / f"{name}.yaml")
    cluster = {"brokers": 3, "kafka_version": layout.kafka_version, "metadata_mode": layout.metadata_mode}
    if name in (SHARES, LETTERS, TIERED):
        cluster = {**values["cluster"], **cluster}
    return {**values, "cluster": cluster}


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_the_experiment_is_valid(name: str, layout: ClusterLayout) -> None:
    lanes = experiment_of(on(layout, name), name).phases[0].lanes
    assert len({lane.client for lane in lanes}) > 1 or name in ("client-roles", SHARES, LETTERS, TIERED)


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("name", "layout"), LAYOUTS, ids=lambda value: getattr(value, "kafka_version", value))
def test_every_client_conforms(name: str, layout: ClusterLayout, tmp_path: Path) -> None:
    experiment = experiment_of(on(layout, name), name)
    result = run_experiment(experiment, root=tmp_path, accept_known=MODELLED_DEFECTS)
    verdict = result.verdict
    assert verdict.outcome == Verdict.CONFORMS, {lane.lane: lane.reasons for lane in verdict.lanes if lane.reasons}
    assert all(lane.acknowledged > 100 for lane in verdict.lanes)
    shares = [lane.ledger.share for lane in verdict.lanes if lane.ledger is not None and lane.ledger.share is not None]
    assert len(shares) == len([lane for lane in experiment.phases[0].lanes if lane.share is not None])
    assert all(share.members > 1 and share.accepted > 100 and share.undrained == 0 for share in shares)
    assert all(share.letters > 100 for share in shares) or name != LETTERS
    events = [json.loads(line) for line in (result.path / "events.jsonl").read_text().splitlines()]
    assert [event for event in events if event["type"] == "client_failed"] == []
    assert {event["lane"] for event in events if event["type"] == "reader_started"} == {
        lane.lane for lane in experiment.phases[0].lanes if any(life.role == "consumer" for life in lane.lives)
    }
