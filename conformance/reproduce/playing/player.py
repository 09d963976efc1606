"""Plays a story for one lane or several, collects the evidence in a run directory like that of any run, and lets the
verification say whether it shows the anomaly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.conformance.reproduce.claims import Claim, Story, distinct_lanes
from kafka_chaos.conformance.reproduce.playing.actions import assignment, begin, finish, remark, take_all
from kafka_chaos.conformance.reproduce.playing.producer import OTHER, StepProducer
from kafka_chaos.conformance.reproduce.playing.stage import ONE_BATCH, HeldFollowers, Part, Stage, TraceNotReproduced
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterPool, ClusterProfile
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.contract.run_directory import TRACE_FILE
from kafka_chaos.harness.cluster.configuration.layout import USUAL_DISK_MIB
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_stored
from kafka_chaos.harness.run.directory import RunDirectoryWriter, new_run_id, versions
from kafka_chaos.harness.run.observing.collection import leader_ends
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, PRODUCED_SCHEMA, write_parquet
from kafka_chaos.reference_model.lane.anomalies import final_log
from kafka_chaos.reference_model.lane.state import record_of
from kafka_chaos.reference_model.predict.prediction import Prediction

if TYPE_CHECKING:
    from kafka_chaos.verification import RunVerdict

STORY_FILE = "story.json"
"""The steps as they were taken."""
Say = Callable[[str], None]
"""Tells people what happens, a line at a time."""


@dataclass(frozen=True, slots=True)
class TakenStep:
    """A step that brokers have taken, how long it took, in seconds, and what was different from the trace."""

    sentence: str
    seconds: float
    remark: str | None = None

    def __str__(self) -> str:
        return f"{self.sentence}{f' ({self.remark})' if self.remark else ''}  {self.seconds:.1f} s"


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

    def note_steps(self, kafka_version: str, steps: Sequence[TakenStep]) -> None:
        """Write down the steps that were taken so far."""
        taken = [
            {"sentence": step.sentence, "seconds": round(step.seconds, 3)}
            | ({"remark": step.remark} if step.remark else {})
            for step in steps
        ]
        document = {"format_version": 1, "versions": versions(kafka_version), "steps": taken}
        write_whole(self.path / STORY_FILE, json.dumps(document, indent=1) + "\n")

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


_CONTROLLER = 3
"""No story begins with a fault of broker 3."""
_FEW_STEPS, _SHORT_LAG, _LONGER_LAG = 3, 5, 12
"""Followers that fetch may not leave the ISR before its step: so many seconds for few steps before it, and for more."""
_CONFIGS: Mapping[str, object] = {
    **ONE_BATCH,
    "zookeeper.session.timeout.ms": 4000,
    "controlled.shutdown.retry.backoff.ms": 200,
    "controller.socket.timeout.ms": 3000,
    "broker.session.timeout.ms": 4000,
}


@dataclass(frozen=True)
class Shown:
    """A story that was played: its run directory, the verdict on it, and by claim whether the verification found the
    anomaly where it is permitted.

    `reason`: why not, empty where every claim is shown.
    """

    path: Path
    verdict: Verdict
    claims: Mapping[tuple[str, str, str], bool]
    reason: str = ""


@dataclass(frozen=True)
class Played:
    """A story that brokers have lived through, or `left`, and what it left."""

    claims: Sequence[Claim]
    path: Path
    left: str = ""

    def judged(self) -> Shown:
        """The findings of the verification in the run directory."""
        if self.left:
            return Shown(self.path, Verdict.UNKNOWN, {one.key: False for one in self.claims}, self.left)
        from kafka_chaos.verification import verify

        verdict: RunVerdict = verify(self.path)
        found = {}
        for one in self.claims:
            lane = verdict.lane(one.lane.lane)
            seen = lane.observed.get(one.anomaly)
            found[one.key] = lane.verdict is Verdict.CONFORMS and seen is not None and seen.count > 0
        return Shown(self.path, verdict.verdict, found, "" if all(found.values()) else _findings(verdict))


def profile_of(story: Story) -> ClusterProfile:
    """The kind of cluster that a story needs."""
    names = [step.name for step in story.steps]
    shrinks, loses_power = "shrink_isr" in names, "power_loss" in names
    lag = _SHORT_LAG if shrinks and names.index("shrink_isr") <= _FEW_STEPS else _LONGER_LAG
    words = [word for word, wanted in ((f"lag time {lag} s", shrinks), ("disks", loses_power)) if wanted]
    profile = ClusterProfile(
        name=", ".join(["stories", *words]),
        brokers=len(story.names),
        links=True,
        lag_is_short=shrinks,
        disk_mib=USUAL_DISK_MIB if loses_power else 0,
        configs={**_CONFIGS, **({"replica.lag.time.max.ms": lag * 1000} if shrinks else {})},
    )
    in_kraft = story.lane.metadata_mode == KRAFT and story.lane.kafka_version is not None
    return profile.in_kraft(str(story.lane.kafka_version)) if in_kraft else profile


@dataclass
class StoryPlayer:
    """A story that several claims share, and where it is played."""

    claims: Sequence[Claim]
    pool: ClusterPool
    root: Path
    say: Say = lambda text: None

    def play(self) -> Played:
        """Play it and collect what it leaves. Raises `KafkaChaosError` where the environment fails."""
        evidence = Evidence(self.root, f"story-{self.claims[0].anomaly}")
        try:
            with self.pool.leased(profile_of(self.claims[0].story)) as lease:
                self._observe(lease, evidence)
        except (TraceNotReproduced, ClusterFailure) as left:
            return Played(self.claims, evidence.path, str(left))
        return Played(self.claims, evidence.path)

    def _observe(self, lease: ClusterLease, evidence: Evidence) -> None:
        claims = distinct_lanes(self.claims)
        parts = [self._part(lease, one.story) for one in claims]
        lanes = [self._lane(lease, part) for part in parts]
        evidence.plan(lanes, {one.lane.lane: one.prediction for one in claims})
        lease.make_controller(_CONTROLLER)
        stage = Stage(lease, parts, HeldFollowers(lease.cluster.brokers))
        assert lease.cluster.links is not None
        lease.cluster.links.trace_to(evidence.trace)
        try:
            self._take_all(stage, evidence)
        finally:
            for part in parts:
                part.producer.close()
            lease.cluster.links.trace_to(None)
        evidence.collect(lease, parts)
        for part in parts:
            _require_ending(part, lease)
        lease.admin.delete_topics([part.topic for part in parts])

    def _take_all(self, stage: Stage, evidence: Evidence) -> None:
        taken: list[TakenStep] = []
        try:
            begin(stage)
            for step, seconds in take_all(stage):
                taken.append(TakenStep(step.sentence, seconds, remark(stage.story, step)))
                self.say(f"{step.number + 1:3}. {taken[-1]}")
                for record, offset in step.reads:
                    self.say(f"     Consumers read record {record} at offset {offset}.")
            finish(stage)
            self.say(f"     {stage.story.ending}")
        except BaseException:
            stage.followers.release_all()
            raise
        finally:
            evidence.note_steps(stage.lease.profile.kafka_version, taken)

    def _part(self, lease: ClusterLease, story: Story) -> Part:
        lane = story.lane
        topic = f"{lane.lane}-{time.time_ns() % 10**9:09d}"
        configs = {
            "min.insync.replicas": lane.min_insync_replicas,
            "unclean.leader.election.enable": lane.unclean_leader_election,
        }
        lease.admin.create_topic(topic, replica_assignment=[list(assignment(story))], configs=configs)
        lease.admin.await_full_isr([topic])
        return Part(story, topic, StepProducer(lane, topic, lease.cluster.client_address))

    @staticmethod
    def _lane(lease: ClusterLease, part: Part) -> Lane:
        profile = lease.profile
        cluster = {"kafka_version": profile.kafka_version, "metadata_mode": profile.metadata_mode}
        return replace(part.story.lane, topic=part.topic, **cluster)  # type: ignore[arg-type]


def _require_ending(part: Part, lease: ClusterLease) -> None:
    """The final log and the outcomes have to be those of the story. Raises `TraceNotReproduced`."""
    leader = lease.admin.await_leader(part.topic, 0)
    replica = read_replica(lease.cluster.brokers[leader], part.topic, 0)
    held = [seq for producer, seq in part.identities(one.value for one in replica.records) if producer != OTHER]
    expected = [record_of(value) for value in final_log(part.story.end) or ()]
    if held != expected:
        raise TraceNotReproduced(
            f"the final log of {part.story.lane.lane} holds records {held}, the story's {expected}"
        )


def _findings(verdict: RunVerdict) -> str:
    """The findings, lane by lane."""
    found = []
    for lane in verdict.lanes:
        counts = ", ".join(f"{one.count} {name}" for name, one in lane.observed.items() if one.count)
        found.append("; ".join([f"lane {lane.lane} is {lane.verdict} with {counts or 'no anomaly'}", *lane.reasons]))
    return ". ".join(found)
