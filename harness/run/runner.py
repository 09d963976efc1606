"""Runs an experiment: plan, predict, break, collect, verify, every stage into the run directory as it goes.

Whatever happens on the way, Ctrl-C included, faults are healed, threads end, files are closed and everything that was
started is removed; what had been written by then can still be verified.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.errors import counted
from kafka_chaos.contract.run_directory import EVENTS_FILE, EXPERIMENT_FILE
from kafka_chaos.faults.injector import Injector
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_replicas
from kafka_chaos.harness.event_bus import EventBus, EventFile, Listener
from kafka_chaos.harness.experiment.file import dump_experiment
from kafka_chaos.harness.experiment.specs import Experiment, PhaseSpec
from kafka_chaos.harness.run.collection import collect_logs, emit_broker_events
from kafka_chaos.harness.run.directory import RunDirectoryWriter, new_run_id, versions
from kafka_chaos.harness.run.fault_events import FaultEvents
from kafka_chaos.harness.run.lockstep_phase import REPLICA_LAG_TIME_MAX
from kafka_chaos.harness.run.phase import PhaseRun, create_topic
from kafka_chaos.harness.workload.application import Application
from kafka_chaos.harness.workload.history import RESERVATIONS
from kafka_chaos.reference_model import Lane, predict_cached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification import RunVerdict


@dataclass(frozen=True)
class RunResult:
    """A finished run: its directory, its verdict and the longest gaps without acknowledgement, in seconds by lane."""

    path: Path
    verdict: RunVerdict
    gaps: Mapping[str, float]


def run_experiment(
    experiment: Experiment,
    *,
    root: Path,
    listeners: Sequence[Listener] = (),
    keep: bool = False,
    cluster: Cluster | None = None,
    applications: Mapping[str, Application] | None = None,
    replay: str | None = None,
) -> RunResult:
    """Run an experiment below `root` and verify it. Raises `KafkaChaosError` if the environment fails.

    `cluster`: one that runs already, as the experiment's `cluster` describes it; it is left running. `applications`
    maps lanes to the functions that take the place of their producer or consumer. `replay` is the command that does it
    again, where the experiment's file alone does not.
    """
    stages = Stages(
        experiment, root=root, listeners=listeners, keep=keep, given=cluster, applications=applications or {}
    )
    stages.replay = replay
    return stages.run()


class Stages:
    """One run on its way; each method is a stage."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        root: Path,
        listeners: Sequence[Listener],
        keep: bool,
        given: Cluster | None,
        applications: Mapping[str, Application],
    ) -> None:
        self.experiment = experiment
        self.keep = keep
        self.given = given
        self.applications = applications
        self.started_at = time.time()
        self.kafka_version = experiment.cluster.kafka_version
        self.replay: str | None = None
        self.started = time.monotonic()
        self.gaps: dict[str, float] = {}
        self.predictions: dict[str, dict[str, Any]] = {}
        # Read together: what to add to a wall-clock time to get the monotonic clock that histories use.
        self.monotonic_at_epoch_ns = time.monotonic_ns() - time.time_ns()
        self.directory = RunDirectoryWriter(root, new_run_id(experiment.name))
        self.event_file = EventFile(self.directory.path / EVENTS_FILE)
        self.events = EventBus(self.event_file, *listeners)
        self.cancelled = threading.Event()

    def run(self) -> RunResult:
        """All stages on a cluster of this project; the verdict is emitted last."""
        return self._run(self.break_and_verify, collects=("log", "replicas"))

    def run_with(self, observe: Callable[[], None]) -> RunResult:
        """Plan, let `observe` gather the evidence (histories and the final log), and verify it."""

        def observe_and_verify() -> RunVerdict:
            with ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start") as starter:
                observe()
                return self.verify(starter.submit(_start_spark))

        return self._run(observe_and_verify, collects=("log",))

    def _run(self, rest: Callable[[], RunVerdict], *, collects: tuple[str, ...]) -> RunResult:
        verdict: RunVerdict | None = None
        try:
            self.plan(collects)
            verdict = rest()
        finally:
            self.cancelled.set()
            self.events.emit(
                event_types.RunEnded(
                    verdict=str(verdict.verdict) if verdict is not None else "none",
                    seconds=time.monotonic() - self.started,
                )
            )
            self.event_file.close()
        return RunResult(self.directory.path, verdict, self.gaps)

    def plan(self, collects: tuple[str, ...]) -> None:
        """Write down what is going to happen and which tables it `collects`, and predict its outcome."""
        lanes = list(self.experiment.lanes())
        started = {
            "wall_clock": datetime.now(UTC).isoformat(),
            "monotonic_at_epoch_ns": self.monotonic_at_epoch_ns,
        }
        recorded = {
            "run_id": self.directory.run_id,
            "versions": versions(self.kafka_version),
            "started": started,
            **({} if self.replay is None else {"replay": self.replay}),
        }
        self.directory.write_text(EXPERIMENT_FILE, dump_experiment(self.experiment, {"recorded": recorded}))
        self.directory.write_lanes(lane for _, _, lane in lanes)
        self.events.emit(
            event_types.RunStarted(
                run_id=self.directory.run_id,
                experiment=self.experiment.name,
                lanes=tuple(lane.lane for _, _, lane in lanes),
                collects=collects,
            )
        )
        self.say("predicting what each lane may lose or duplicate")
        self.predictions = {lane.lane: _predict(phase, lane) for phase, _, lane in lanes}
        self.directory.write_predictions(self.predictions)

    def break_and_verify(self) -> RunVerdict:
        """Everything that needs the cluster, and the verdict."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start") as starter:
            with self.cluster() as cluster:
                topics = {lane.lane: lane.topic_name for _, lane, _ in self.experiment.lanes()}
                admin = cluster.admin(topics=topics)
                spark: Future[SparkSession] | None = None
                for phase in self.experiment.phases:
                    last = phase is self.experiment.phases[-1]
                    # Spark's start takes both cores for seconds: where steps wait for conditions that does no harm,
                    # timed faults come first.
                    if last and phase.lockstep is not None:
                        spark = starter.submit(_start_spark)
                    with self.phase(cluster, admin, phase):
                        if last and spark is None:
                            spark = starter.submit(_start_spark)
                assert spark is not None
                self.collect(cluster, spark)
            return self.verify(spark)

    def verify(self, spark: Future[SparkSession]) -> RunVerdict:
        """The verdict and the report out of a complete run directory."""
        from kafka_chaos.harness.report import write_report
        from kafka_chaos.verification import verify

        self.say("verifying with Spark")
        verdict = verify(self.directory.path, spark=spark.result())
        self.emit_verdict(verdict)
        self.say("writing the report")
        write_report(self.directory.path, spark=spark.result())
        return verdict

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """A running cluster; its containers' logs are kept on every way out."""
        if self.given is not None:
            # `watch` finds the cluster by this event.
            self._announce(self.given, seconds=0.0)
            try:
                yield self.given
            finally:
                self.collect_logs(self.given)
            return
        spec = self.experiment.cluster.spec()
        self.say(f"starting {spec.described}")
        start = time.monotonic()
        running = Cluster(spec, run_id=self.directory.run_id, keep=self.keep)
        try:
            with running as cluster:
                self._announce(cluster, seconds=time.monotonic() - start)
                try:
                    yield cluster
                finally:
                    self.collect_logs(cluster)
        finally:
            if running.kept:
                self.events.emit(
                    event_types.ClusterKept(
                        run_id=running.run_id,
                        containers=tuple(node.container_name for node in running.nodes if node.exists()),
                        bootstrap_servers=running.bootstrap_servers,
                        client_config=str(running.client_config_file or ""),
                    )
                )

    def _announce(self, cluster: Cluster, *, seconds: float) -> None:
        file = str(cluster.client_config_file or "")
        servers = cluster.bootstrap_servers
        self.events.emit(event_types.ClusterReady(seconds=seconds, bootstrap_servers=servers, client_config=file))

    def collect_logs(self, cluster: Cluster) -> None:
        """Keep the containers' logs, and emit what the brokers' logs say."""
        folder = self.directory.path / "logs"
        collect_logs(cluster, folder, since=self.started_at if self.given is not None else None)
        emit_broker_events(
            folder,
            topics={lane.topic_name: lane.lane for _, lane, _ in self.experiment.lanes()},
            monotonic_at_epoch_ns=self.monotonic_at_epoch_ns,
            events=self.events,
        )

    @contextmanager
    def phase(self, cluster: Cluster, admin: ClusterAdmin, phase: PhaseSpec) -> Iterator[None]:
        """Topics, load, faults, settling and draining of one phase; the block runs once the faults are over."""
        running = PhaseRun(
            phase,
            admin,
            cluster.bootstrap_servers,
            self.directory.path,
            self.events,
            self.cancelled,
            applications=self.applications,
            client_configs=cluster.client_configs,
            brokers={broker: cluster.client_address(broker) for broker in cluster.brokers},
            controller=lambda: cluster.controller(admin),
        )
        self.say(f"making {counted(len(running.lanes), 'topic')} for the phase {phase.phase}")
        for lane in phase.lanes:
            create_topic(admin, lane, brokers=self.experiment.cluster.brokers)
        admin.await_full_isr(running.lanes)
        view = ClusterView(cluster, admin)
        observer = FaultEvents(self.events, phase=phase.phase, lanes=running.lanes)
        with running.loaded() as load:
            with Injector(view, observer, seed=self.experiment.seed) as injector:
                if phase.lockstep is None:
                    self.follow_schedule(phase, injector)
                elif not running.run_lockstep(injector, load, lag_time_max=self.lag_time_max):
                    self.predict_timed(phase)
                injector.heal_all()
            yield
        self.gaps.update(running.gaps)

    @property
    def lag_time_max(self) -> float:
        """The brokers' `replica.lag.time.max.ms`, in seconds."""
        configs = self.experiment.cluster.broker_configs
        return float(str(configs.get("replica.lag.time.max.ms", REPLICA_LAG_TIME_MAX * 1000))) / 1000

    def follow_schedule(self, phase: PhaseSpec, injector: Injector) -> None:
        """Timed faults under load, for as long as the load is to last."""
        start = time.monotonic()
        self.say(f"loading {counted(len(phase.lanes), 'lane')} for {phase.workload.duration:g} s")
        injector.run(phase.faults(), start=start, cancelled=self.cancelled)
        left = start + phase.workload.duration - time.monotonic()
        self.cancelled.wait(max(0.0, left))

    def predict_timed(self, phase: PhaseSpec) -> None:
        """Predict a phase's lanes anew for the same faults at any moment: its lock-step phase was not kept."""
        for lane in phase.lanes:
            free = self.experiment.as_lane(phase, lane)
            self.predictions[lane.lane] = predict_cached(free).to_json()
        self.directory.write_predictions(self.predictions)

    def collect(self, cluster: Cluster, spark: Future[SparkSession]) -> None:
        """Read the final log back, and every replica; from then on the run directory is complete."""
        from kafka_chaos.verification import collect_log
        from kafka_chaos.verification.inputs.java_client import spark_options

        # Rows of all phases are on disk: nothing is left that a crash could take.
        (self.directory.path / RESERVATIONS).unlink()
        self.say("reading the final log back with Spark")
        collect_log(
            spark.result(),
            bootstrap_servers=cluster.bootstrap_servers,
            lanes=[lane for _, _, lane in self.experiment.lanes()],
            out_dir=self.directory.path / "log",
            options=spark_options(cluster.client_configs),
        )
        self.say("reading every replica from its broker's own files")
        stored = [StoredLane(lane.lane, lane.topic_name, lane.partitions) for _, lane, _ in self.experiment.lanes()]
        collect_replicas(cluster.brokers.values(), stored, self.directory.path)

    def emit_verdict(self, verdict: RunVerdict) -> None:
        """Emit every lane's verdict."""
        for lane in verdict.lanes:
            self.events.emit(
                event_types.LaneJudged(
                    lane=lane.lane,
                    verdict=str(lane.verdict),
                    reasons=lane.reasons,
                    produced=lane.produced,
                    acknowledged=lane.acknowledged,
                    found={str(anomaly): seen.count for anomaly, seen in lane.observed.items() if seen.count},
                )
            )

    def say(self, text: str) -> None:
        """Emit what the run does now."""
        self.events.emit(event_types.Step(text=text))


def _predict(phase: PhaseSpec, lane: Lane) -> dict[str, Any]:
    lockstep = phase.lockstep_steps()
    # A lock-step phase is all that its lane lives through: it takes the place of the free faults.
    alone = lane if lockstep is None else replace(lane, faults=())
    return predict_cached(alone, lockstep=lockstep).to_json()


def _start_spark() -> SparkSession:
    from kafka_chaos.verification import spark_session

    return spark_session(with_kafka_source=True)
