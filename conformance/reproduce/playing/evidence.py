"""The run directory of a story that was played, in the form of any run, so that every tool can verify it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.conformance.engine import TakenStep
from kafka_chaos.contract.files import write_whole
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.run_directory import TRACE_FILE
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_stored
from kafka_chaos.harness.run.directory import RunDirectoryWriter, new_run_id, versions
from kafka_chaos.harness.run.observing.collection import leader_ends
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, PRODUCED_SCHEMA, write_parquet
from kafka_chaos.reference_model.predict.prediction import Prediction

if TYPE_CHECKING:
    from kafka_chaos.conformance.reproduce.playing.stage import Part
    from kafka_chaos.conformance.scenario.clusters import ClusterLease

STORY_FILE = "story.json"
"""The steps as they were taken."""


class Evidence:
    """A run directory below `root`, which fills as the story goes on."""

    def __init__(self, root: Path, name: str) -> None:
        self._directory = RunDirectoryWriter(root, new_run_id(name))

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def trace(self) -> Path:
        """The file of what passes the links."""
        return self.path / TRACE_FILE

    def plan(self, lanes: Iterable[Lane], predictions: Mapping[str, Prediction]) -> None:
        """Write down which lanes there are, and what the model says of them."""
        self._directory.write_lanes(lanes)
        self._directory.write_predictions({lane: one.to_json() for lane, one in predictions.items()})

    def note_steps(
        self, kafka_version: str, steps: Sequence[TakenStep], *, file: str = STORY_FILE, **more: object
    ) -> None:
        """Write down the steps that were taken so far, and what `more` there is to say."""
        taken = [
            {"sentence": step.sentence, "seconds": round(step.seconds, 3)}
            | ({"remark": step.remark} if step.remark else {})
            for step in steps
        ]
        document = {"format_version": 1, "versions": versions(kafka_version), **more, "steps": taken}
        write_whole(self.path / file, json.dumps(document, indent=1) + "\n")

    def collect(self, lease: ClusterLease, parts: Sequence[Part]) -> None:
        """Write the histories, the final log and every replica; nothing may be broken any more."""
        self._rows("produced", PRODUCED_SCHEMA, (row for part in parts for row in part.producer.rows()))
        self._rows("consumed", CONSUMED_SCHEMA, (row for part in parts for row in part.consumed))
        stored = [StoredLane(part.story.lane.lane, part.topic, 1) for part in parts]
        admin = lease.cluster.admin(topics={lane.lane: lane.topic for lane in stored})
        collect_stored(lease.cluster.brokers.values(), stored, leader_ends(admin, stored), self.path)

    def _rows(self, table: str, schema: Any, rows: Iterable[Mapping[str, Any]]) -> None:
        import pyarrow as pa

        folder = self.path / table
        folder.mkdir()
        write_parquet(pa.Table.from_pylist(list(rows), schema=schema), folder / "part-000001.parquet")
