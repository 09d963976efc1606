"""Plays a story for one lane or several, collects the evidence, and lets the verification say whether it shows the
anomaly."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.conformance.engine import Say, TakenStep, TraceNotReproduced
from kafka_chaos.conformance.reproduce.playing.actions import begin, finish, take_all
from kafka_chaos.conformance.reproduce.playing.evidence import Evidence
from kafka_chaos.conformance.reproduce.playing.followers import ONE_BATCH, HeldFollowers
from kafka_chaos.conformance.reproduce.playing.producer import OTHER, StepProducer
from kafka_chaos.conformance.reproduce.playing.refusals import assignment, remark
from kafka_chaos.conformance.reproduce.playing.stage import Part, Stage
from kafka_chaos.conformance.reproduce.stories.claims import Claim, distinct_lanes
from kafka_chaos.conformance.reproduce.stories.reading import Story
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterPool, ClusterProfile
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.harness.cluster.configuration.layout import USUAL_DISK_MIB
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.reference_model.lane.anomalies import final_log
from kafka_chaos.reference_model.lane.state import record_of

if TYPE_CHECKING:
    from kafka_chaos.verification import RunVerdict

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
        """What the verification finds in the run directory."""
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
            for number, seconds in take_all(stage):
                step = stage.story.steps[number]
                taken.append(TakenStep(step.sentence, seconds, remark(stage.story, number)))
                self.say(f"{number + 1:3}. {taken[-1]}")
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
    from kafka_chaos.harness.cluster.storage.replica import read_replica

    leader = lease.admin.await_leader(part.topic, 0)
    replica = read_replica(lease.cluster.brokers[leader], part.topic, 0)
    held = [seq for producer, seq in part.identities(one.value for one in replica.records) if producer != OTHER]
    expected = [record_of(value) for value in final_log(part.story.end) or ()]
    if held != expected:
        raise TraceNotReproduced(
            f"the final log of {part.story.lane.lane} holds records {held}, the story's {expected}"
        )


def _findings(verdict: RunVerdict) -> str:
    """What the verification found, lane by lane."""
    found = []
    for lane in verdict.lanes:
        counts = ", ".join(f"{one.count} {name}" for name, one in lane.observed.items() if one.count)
        found.append("; ".join([f"lane {lane.lane} is {lane.verdict} with {counts or 'no anomaly'}", *lane.reasons]))
    return ". ".join(found)
