"""An experiment: a cluster, lanes, a workload and what is to break, as one checked value.

A run of several phases uses one cluster; each phase has its own lanes, its own load and its own schedule (timed
faults) or course (lock-stepped faults), and begins when the phase before has settled with all replicas in sync.
Every refusal names the place in the file; `experiment_file.py` adds the line.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kafka_chaos.faults.registry import FAULTS, Fault
from kafka_chaos.faults.target import Target, TargetError
from kafka_chaos.harness.cluster import ClusterSpec
from kafka_chaos.harness.configs import check_keys
from kafka_chaos.harness.errors import UsageFailure
from kafka_chaos.harness.image import KAFKA_VERSION
from kafka_chaos.harness.signals import new_client
from kafka_chaos.reference_model import CourseStep
from kafka_chaos.reference_model.lane import FAULT_KINDS, Lane, LaneError

OWNED_TOPIC_KEYS = frozenset({"min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy"})
OWNED_CLIENT_KEYS = frozenset(
    {"bootstrap.servers", "acks", "request.required.acks", "enable.idempotence", "max.in.flight"}
    | {"max.in.flight.requests.per.connection", "metadata.broker.list"}
)
_OF_A_PHASE = ("lanes", "workload", "schedule", "course", "outside_faults")
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")


class ExperimentError(UsageFailure):
    """A refusal; `place` is the path of keys and indices to what is wrong."""

    def __init__(self, place: tuple[str | int, ...], message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{dotted(place)}: {message}")


def dotted(place: tuple[str | int, ...]) -> str:
    """A place as it is written in messages: phases[0].lanes[2].acks."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.lstrip(".") or "experiment"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' and '-' (a Kafka topic name)")
    return value


def _acks(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Name = Annotated[str, AfterValidator(_name)]
Seconds = Annotated[float, Field(ge=0, strict=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClusterModel(_Model):
    """The key `cluster`: see `ClusterSpec`."""

    brokers: int = Field(default=3, ge=1, le=9)
    zookeepers: int = 1
    kafka_version: str = KAFKA_VERSION
    controller: int | None = None
    broker_configs: dict[str, Any] = Field(default_factory=dict)
    configs_of: dict[int, dict[str, Any]] = Field(default_factory=dict)

    def spec(self) -> ClusterSpec:
        """The cluster to start."""
        return ClusterSpec(**self.model_dump())


class WorkloadModel(_Model):
    """The key `workload`: the load on each lane of a phase.

    `rate` is records per second and lane, `record_size` bytes of value, `duration` seconds of load (a phase with a
    course loads until its steps are done), `settle_timeout` seconds for what is in flight to get an outcome and for
    replicas to be in sync again.
    """

    rate: int = Field(default=1_000, ge=1, le=1_000_000)
    record_size: int = Field(default=100, ge=20, le=1_000_000)
    duration: Seconds = 30.0
    settle_timeout: Seconds = 90.0


class LaneModel(_Model):
    """An entry of `lanes`: one topic and one producer configuration.

    `leader` puts the preferred leader of all partitions on that broker; without it they are spread. `topic` names the
    topic where it is to be called otherwise than the lane. `topic_configs` and `producer_configs` are passed on in
    Kafka's and librdkafka's own key names.
    """

    lane: Name
    topic: Name | None = None
    partitions: int = Field(default=1, ge=1, le=1_000)
    replication_factor: int = Field(default=3, ge=1, le=9)
    min_insync_replicas: int = Field(default=1, ge=1)
    unclean_leader_election: bool = False
    acks: Annotated[str, BeforeValidator(_acks)] = "all"
    idempotence: bool = False
    max_in_flight: int = Field(default=5, ge=1)
    cleanup_policy: str | None = None
    leader: int | None = None
    topic_configs: dict[str, Any] = Field(default_factory=dict)
    producer_configs: dict[str, Any] = Field(default_factory=dict)

    def model_lane(self, faults: tuple[str, ...]) -> Lane:
        """The lane as the reference model and the verification know it; raises `LaneError`."""
        fields = self.model_dump(exclude={"leader", "topic", "topic_configs", "producer_configs"})
        return Lane(**fields, topic=self.topic_name, faults=faults)

    @property
    def topic_name(self) -> str:
        """The topic's name: the lane's own unless `topic` says otherwise."""
        return self.topic or self.lane

    def replica_assignment(self, brokers: int) -> list[list[int]]:
        """Per partition the brokers that hold it, preferred leader first."""
        return [
            [
                (first + step - 1) % brokers + 1
                for first in [self.leader or (partition % brokers) + 1]
                for step in range(self.replication_factor)
            ]
            for partition in range(self.partitions)
        ]


class FaultModel(_Model):
    """An entry of `schedule`: a fault kind, its target, and what else the kind takes."""

    fault: str
    target: str
    at: Seconds
    duration: Seconds = 0.0
    direction: str | None = None
    port: str | None = None
    action: str | None = None

    def build(self) -> Fault:
        """The fault; raises `ValueError` that names the key."""
        if self.fault not in FAULTS:
            raise ValueError(f"fault: {self.fault!r} is not a fault kind: expected {', '.join(FAULTS)}")
        given = {key: getattr(self, key) for key in ("direction", "port", "action") if getattr(self, key) is not None}
        kind = FAULTS[self.fault]
        for key in given:
            if key not in kind.__dataclass_fields__:
                raise ValueError(f"{key}: a fault of kind {self.fault} has no such key")
        return kind(target=Target.parse(self.target), at=self.at, duration=self.duration, **given)


class CourseModel(_Model):
    """The key `course`: lock-stepped faults at one target, each step waiting for its own condition.

    `step_seconds` is how long the load goes on between the cut and the kill.
    """

    target: str
    steps: tuple[str, ...] = Field(min_length=1, strict=False)
    step_seconds: Seconds = 1.0


class PhaseModel(_Model):
    """An entry of `phases`; it has a `schedule` or a `course`, or neither (load without faults).

    `outside_faults` are kinds of faults that others may inject meanwhile: the prediction allows for them.
    """

    phase: Name
    lanes: tuple[LaneModel, ...] = Field(min_length=1, strict=False)
    workload: WorkloadModel = WorkloadModel()
    schedule: tuple[FaultModel, ...] = Field(default=(), strict=False)
    course: CourseModel | None = None
    outside_faults: tuple[str, ...] = Field(default=(), strict=False)

    def faults(self) -> tuple[Fault, ...]:
        """The timed faults in the order of their start."""
        return tuple(sorted((entry.build() for entry in self.schedule), key=lambda fault: fault.at))

    def course_steps(self) -> tuple[CourseStep, ...] | None:
        """The lock-stepped course as the model knows it."""
        return tuple(CourseStep(step) for step in self.course.steps) if self.course else None

    def model_faults(self) -> tuple[str, ...]:
        """What the lanes of this phase live through, as entries of `faults` in lanes.json."""
        if self.course is not None:
            return ("partition", "kill", *self.outside_faults)
        return (*(kind for fault in self.faults() for kind in fault.model_kinds), *self.outside_faults)


class Experiment(_Model):
    """A whole experiment. `seed` decides every random choice; it is drawn when it isn't given.

    `recorded` is what a run adds to the experiment.yaml of its directory (run id, versions, start); it is passed over
    when that file is run again.
    """

    name: Name
    description: str = ""
    seed: int = Field(default_factory=lambda: random.SystemRandom().randrange(2**31))
    cluster: ClusterModel = ClusterModel()
    phases: tuple[PhaseModel, ...] = Field(min_length=1, strict=False)
    recorded: dict[str, Any] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _single_phase(cls, value: Any) -> Any:
        """An experiment without `phases` is one phase, written at the top."""
        if isinstance(value, dict) and "phases" not in value and "lanes" in value:
            inner = {key: value[key] for key in _OF_A_PHASE if key in value}
            outer = {key: entry for key, entry in value.items() if key not in inner}
            return {**outer, "phases": [{"phase": "main", **inner}]}
        return value

    def check(self) -> None:
        """Refuse what no field can see alone; raises `ExperimentError` with the place."""
        try:
            self.cluster.spec()
        except UsageFailure as failure:
            raise ExperimentError(("cluster",), str(failure)) from failure
        names: set[str] = set()
        topics: set[str] = set()
        phase_names: set[str] = set()
        for number, phase in enumerate(self.phases):
            if phase.phase in phase_names:
                raise ExperimentError(("phases", number, "phase"), f"{phase.phase!r} names two phases")
            phase_names.add(phase.phase)
            for index, kind in enumerate(phase.outside_faults):
                if kind not in FAULT_KINDS:
                    place = ("phases", number, "outside_faults", index)
                    raise ExperimentError(place, f"{kind!r} is not a fault kind: expected {', '.join(FAULT_KINDS)}")
            self._check_lanes(number, phase, names, topics)
            self._check_faults(number, phase)

    def lanes(self) -> Iterator[tuple[PhaseModel, LaneModel, Lane]]:
        """All lanes with their phase, and as the model knows them."""
        for phase in self.phases:
            for lane in phase.lanes:
                yield phase, lane, lane.model_lane(phase.model_faults())

    def _check_lanes(self, number: int, phase: PhaseModel, names: set[str], topics: set[str]) -> None:
        brokers = self.cluster.brokers
        for index, lane in enumerate(phase.lanes):
            place: tuple[str | int, ...] = ("phases", number, "lanes", index)
            if lane.lane in names:
                raise ExperimentError((*place, "lane"), f"{lane.lane!r} names two lanes")
            names.add(lane.lane)
            if lane.topic_name in topics:
                raise ExperimentError((*place, "topic"), f"{lane.topic_name!r} is the topic of two lanes")
            topics.add(lane.topic_name)
            try:
                lane.model_lane(())
            except LaneError as error:
                raise ExperimentError((*place, error.key), f"{error.value!r}: expected {error.expected}") from error
            if lane.replication_factor > brokers:
                raise ExperimentError(
                    (*place, "replication_factor"), f"{lane.replication_factor}: there are only {brokers} brokers"
                )
            if lane.leader is not None and not 1 <= lane.leader <= brokers:
                raise ExperimentError((*place, "leader"), f"{lane.leader} is not a broker: expected 1 to {brokers}")
            try:
                check_keys("topic", lane.topic_configs, owned=OWNED_TOPIC_KEYS)
            except UsageFailure as failure:
                raise ExperimentError((*place, "topic_configs"), str(failure)) from failure
            self._check_client_keys((*place, "producer_configs"), lane)

    def _check_client_keys(self, place: tuple[str | int, ...], lane: LaneModel) -> None:
        from confluent_kafka import KafkaException, Producer

        for key in lane.producer_configs:
            if key in OWNED_CLIENT_KEYS:
                raise ExperimentError((*place, key), "has a key of its own in the lane, or is the harness's")
        if lane.producer_configs:
            try:
                new_client(Producer, {**lane.producer_configs, "log_level": 0}).close()
            except (KafkaException, ValueError, TypeError) as error:
                reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
                raise ExperimentError(place, f"the client refuses it: {reason}") from error

    def _check_faults(self, number: int, phase: PhaseModel) -> None:
        if phase.course is not None and phase.schedule:
            raise ExperimentError(("phases", number, "course"), "a phase has a course or a schedule, not both")
        for index, entry in enumerate(phase.schedule):
            place: tuple[str | int, ...] = ("phases", number, "schedule", index)
            try:
                fault = entry.build()
            except TargetError as error:
                raise ExperimentError((*place, "target"), str(error)) from error
            except ValueError as error:
                key, _, rest = str(error).partition(": ")
                raise ExperimentError((*place, key), rest) from error
            self._check_target((*place, "target"), fault.target, phase)
            if entry.at >= phase.workload.duration:
                raise ExperimentError(
                    (*place, "at"), f"{entry.at:g} s is past the load of {phase.workload.duration:g} s"
                )
        if phase.course is not None:
            self._check_course(("phases", number, "course"), phase, phase.course)

    def _check_course(self, place: tuple[str | int, ...], phase: PhaseModel, course: CourseModel) -> None:
        for index, step in enumerate(course.steps):
            if step not in set(CourseStep):
                raise ExperimentError(
                    (*place, "steps", index), f"{step!r} is not a step: expected {', '.join(CourseStep)}"
                )
        try:
            target = Target.parse(course.target)
        except TargetError as error:
            raise ExperimentError((*place, "target"), str(error)) from error
        if target.role != "leader":
            raise ExperimentError((*place, "target"), f"{course.target}: a course acts on leader(LANE)")
        self._check_target((*place, "target"), target, phase)
        leaders = {lane.leader for lane in phase.lanes}
        if len(leaders) != 1 or None in leaders:
            raise ExperimentError(place, "all lanes of a phase with a course need the same leader")

    def _check_target(self, place: tuple[str | int, ...], target: Target, phase: PhaseModel) -> None:
        lanes = {lane.lane for lane in phase.lanes}
        try:
            target.check(brokers=self.cluster.brokers, zookeepers=self.cluster.zookeepers, lanes=lanes)
        except TargetError as error:
            raise ExperimentError(place, str(error)) from error
