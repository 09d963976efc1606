"""The guide's file of nodes for Strimzi's pods, played with a stand-in for kubectl: there is no Kubernetes here."""

import json
import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.attached.nodes_file import load_allowed
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from tests.harness.attached.test_on_cluster import EXPERIMENT, IDS, Scripted, docker, scripted
from tests.test_docs import DOCS, blocks

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
__all__ = ["scripted"]

SCHEDULE = """\
schedule:
  - {fault: kill, target: leader(safe), at: 2, duration: 4}
  - {fault: pause, target: leader(quick), at: 18, duration: 3}
  - {fault: isolate, target: "broker:3", at: 26, duration: 4}
"""


def test_pods_are_killed_paused_and_isolated_as_the_guide_says(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [scripted.name(number) for number in IDS]
    for name in names:
        docker("update", "--restart", "always", name)
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps([{"metadata": {"name": name}} for name in names]))
    stand_in = Path(__file__).parent / "kubernetes"
    values = {"POD_SET": str(pods), "HOME": str(tmp_path), "PATH": f"{stand_in}{os.pathsep}{os.environ['PATH']}"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    (written,) = (text for text in blocks(DOCS / "guides" / "kubernetes.md", "yaml") if "commands:" in text)
    nodes = YAML(typ="safe").load(written)
    nodes["brokers"] = {number: {"name": scripted.name(number)} for number in IDS}
    YAML().dump(nodes, tmp_path / "nodes.yaml")
    file, allowed = load_allowed(tmp_path / "nodes.yaml", ",".join(names))

    text = EXPERIMENT[: EXPERIMENT.index("schedule:")] + SCHEDULE
    attached = ClusterAccess(scripted.bootstrap_servers, {}, file, allowed)
    result = run_attached(parse_experiment(text, "a.yaml"), attached, root=tmp_path / "runs", engine=Engine.DUCKDB)

    events = (result.path / "events.jsonl").read_text()
    assert result.verdict.verdict is Verdict.CONFORMS, ([lane.reasons for lane in result.verdict.lanes], events)
    assert events.count('"fault_proven"') == events.count('"fault_healed"') == 3, events
    assert sorted(pod["metadata"]["name"] for pod in json.loads(pods.read_text())) == names
