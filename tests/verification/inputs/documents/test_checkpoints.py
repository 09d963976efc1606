"""What is read from checkpoints.json."""

from __future__ import annotations

import json
from pathlib import Path

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import read_checkpoints


def test_the_epochs_of_a_partition_are_those_of_the_replica_with_the_newest_one(tmp_path: Path) -> None:
    chains = {"1": [[0, 0], [2, 7]], "2": [[0, 0], [3, 5]], "3": [[0, 0]]}
    brokers = {
        broker: {"a/0": {"high_watermark": 9, "log_end_offset": 9, "leader_epochs": chain}}
        for broker, chain in chains.items()
    }
    (tmp_path / "checkpoints.json").write_text(json.dumps({"brokers": brokers}))
    assert read_checkpoints(tmp_path / "checkpoints.json", [Lane(lane="a")]).epochs == {("a", 0): ((0, 0), (3, 5))}
