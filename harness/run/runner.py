"""Runs an experiment: plan, predict, break, collect, verify. Every stage writes into the run directory as it goes.

However a run ends, Ctrl-C included, faults are healed, threads end, files are closed, and everything that was started
is removed. What was written until then can still be verified.
"""

import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure, UsageFailure, counted
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.transactions import transactional_id
from kafka_chaos.contract.run_directory import LOGS_FOLDER, TIMINGS_FILE, TRACE_FILE
from kafka_chaos.faults.injector import Injector
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import UnsupportedMechanism
from kafka_chaos.harness.cluster.cluster import Cluster, Keep, kept_event
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.cluster.remote_store.reading import fetch_tiered
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_stored
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.specs import Experiment, PhaseSpec
from kafka_chaos.harness.experiment.timings import broker_timeouts, patience_of, timings_document
from kafka_chaos.harness.run.observing.collection import await_replicated, collect_logs, emit_broker_events, leader_ends
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.run.observing.late_requests import late_end_txns
from kafka_chaos.harness.run.phase import PhaseRun, create_topic
from kafka_chaos.harness.run.run import Run, RunResult
from kafka_chaos.harness.workload.application.handles import Application

DISKS_FOLDER = "disks"  # the folder of the brokers' disks in a run directory; removed at the end of the run


def run_experiment(
    experiment: Experiment,
    *,
    root: Path,
    listeners: Sequence[Listener] = (),
    keep: Keep = Keep.NEVER,
    cluster: Cluster | None = None,
    applications: Mapping[str, Application] | None = None,
    replay: str | None = None,
    accept_known: Collection[str] = (),
    engine: Engine = Engine.SPARK,
    report: bool = True,
) -> RunResult:
    """Run an experiment below `root` and verify it. Raises `KafkaChaosError` if the environment fails.

    `cluster`: a running cluster that matches the experiment's `cluster`; it is left running. `applications` maps lanes
    to functions that replace their producer or consumer. `replay`: the command that repeats the run, if the experiment
    file alone cannot. `accept_known`: known defects that excuse a violation. `engine`: what verifies the run. `report`:
    whether a report is written, which takes seconds.
    """
    require_available(experiment)
    layout = experiment.layout
    if cluster is not None and (lacking := cluster.spec.missing_extras(layout)):
        raise UsageFailure(lacking)
    version = experiment.cluster.kafka_version
    run = Run(
        experiment,
        root=root,
        listeners=listeners,
        kafka_version=version,
        replay=replay,
        accept_known=accept_known,
        engine=engine,
        report=report,
    )
    stages = Stages(run=run, keep=keep, running_cluster=cluster, applications=applications or {})
    return run.carry_out(stages.gather_evidence, collects=("log", "replicas"))


def require_available(experiment: Experiment) -> None:
    """Raise `EnvironmentFailure` if this machine lacks what a fault of the experiment needs."""
    if (reason := why_unavailable(experiment)) is not None:
        raise EnvironmentFailure(reason)


def why_unavailable(experiment: Experiment) -> str | None:
    """Why this machine can't inject a fault of the experiment; None if it can inject every fault."""
    for phase in experiment.phases:
        for fault in phase.faults:
            if (reason := fault.unavailable()) is not None:
                return f"phase {phase.phase}: {fault.kind} can't be injected on this machine: {reason}"
    return None


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The stages of a run that need the cluster. `running_cluster`: it ran before the run, and is left running."""

    run: Run
    keep: Keep
    running_cluster: Cluster | None
    applications: Mapping[str, Application]

    def gather_evidence(self) -> None:
        """Go through all stages, on a cluster that is removed after them unless it ran before."""
        self.run.directory.write_json(TIMINGS_FILE, timings_document(self.run.experiment, self.applications))
        with self.cluster() as cluster, self.request_trace(cluster):
            topics = {lane.lane: lane.topic_name for lane in self.run.experiment.lane_specs}
            admin = cluster.admin(topics=topics)
            phases = self.run.experiment.phases
            for number, phase in enumerate(phases):
                # Spark's start takes two cores for seconds, which would delay timed faults: so Spark starts only after
                # the last of them. Steps that wait for conditions bear the delay, and so does the end of a phase.
                no_timed_phase_follows = all(later.steps is not None for later in phases[number + 1 :])
                if no_timed_phase_follows and phase.steps is not None:
                    self.run.start_spark()
                with self.phase(cluster, admin, phase):
                    if no_timed_phase_follows:
                        self.run.start_spark()
            self.collect(cluster, admin)

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """A running cluster. However the block ends, its containers' logs are kept."""
        if self.running_cluster is not None:
            self._announce(self.running_cluster, seconds=0.0)
            try:
                yield self.running_cluster
            finally:
                self.collect_logs(self.running_cluster)
            return
        spec = self.run.experiment.layout
        for version in (spec.version, *spec.versions):
            ensure_image(version.number, clock=spec.clocks, say=self.run.say)
        self.run.say(f"starting {spec.described}")
        start = time.monotonic()
        directory = self.run.directory
        own_cluster = Cluster(spec, run_id=directory.run_id, keep=self.keep, folder=directory.path / DISKS_FOLDER)
        try:
            with own_cluster as cluster:
                self._announce(cluster, seconds=time.monotonic() - start)
                try:
                    yield cluster
                finally:
                    self.collect_logs(cluster)
        finally:
            if own_cluster.kept and any(node.exists() for node in own_cluster.nodes):
                self.run.events.emit(kept_event(own_cluster))

    @contextmanager
    def request_trace(self, cluster: Cluster) -> Iterator[None]:
        """Trace the requests that pass the cluster's links during the block, if it has links."""
        if cluster.links is None:
            yield
            return
        cluster.links.trace_to(self.run.directory.path / TRACE_FILE)
        try:
            yield
        finally:
            cluster.links.trace_to(None)
        for event in late_end_txns(self.run.directory.path, self.transactional_ids):
            self.run.events.emit(event)

    @property
    def transactional_ids(self) -> dict[str, str]:
        """The lanes' names by the transactional ids of their producers."""
        return {
            transactional_id(lane.lane, number): lane.lane
            for lane in self.run.experiment.lane_specs
            for number in range(lane.transactional.producers if lane.transactional is not None else 0)
        }

    def _announce(self, cluster: Cluster, *, seconds: float) -> None:
        ready = event_types.ClusterReady(
            seconds=seconds,
            bootstrap_servers=cluster.bootstrap_servers,
            client_config=str(cluster.client_config_file or ""),
            network=cluster.network,
            bootstrap_servers_in_network=cluster.bootstrap_servers_in_network,
        )
        self.run.events.emit(ready)

    def collect_logs(self, cluster: Cluster) -> None:
        """Keep the containers' logs, and emit what the brokers' logs say."""
        folder = self.run.directory.path / LOGS_FOLDER
        collect_logs(cluster, folder, since=self.run.started_at if self.running_cluster is not None else None)
        emit_broker_events(
            folder,
            topics={lane.topic_name: lane.lane for lane in self.run.experiment.lane_specs},
            transactional_ids=self.transactional_ids,
            monotonic_at_epoch_ns=self.run.monotonic_at_epoch_ns,
            events=self.run.events,
        )

    @contextmanager
    def phase(self, cluster: Cluster, admin: ClusterAdmin, phase: PhaseSpec) -> Iterator[None]:
        """One phase: create topics, load them, inject faults, and wait until replicas and consumers have caught up.

        The block runs once the faults are over.
        """
        layout = self.run.experiment.cluster.as_layout()
        without_application = [lane for lane in phase.lanes if lane.lane not in self.applications]
        # The shortest of all brokers': in a lock-step cut that lasts longer, the follower may have left the ISR.
        lag_time_max = min(broker_timeouts(layout, "replica.lag.time.max.ms")) / 1000
        phase_run = PhaseRun(
            phase.with_added_partitions(),
            admin,
            cluster.bootstrap_servers,
            self.run.directory.path,
            self.run.events,
            self.run.cancelled,
            applications=self.applications,
            client_configs=cluster.client_configs,
            brokers=cluster.addresses,
            controller=lambda: cluster.controller(admin),
            seed=self.run.experiment.seed,
            uninjected_faults=phase.uninjected_faults(layout),
            patience=patience_of(without_application, layout),
        )
        self.run.say(f"making {counted(len(phase_run.lanes), 'topic')} for the phase {phase.phase}")
        # On a cluster that served other runs, a broker may still be starting: no new topic would get it as leader.
        admin.await_brokers(layout.brokers)
        created_before_load = {lane.lane: lane for lane in phase.lanes if lane.created_at is None}
        for lane in phase.lanes:
            if lane.lane not in created_before_load and admin.partitions(lane.lane):
                raise ClusterFailure(f"the topic {lane.topic_name} exists already")
        for lane in created_before_load.values():
            create_topic(admin, lane, brokers=layout.brokers)
        admin.await_full_isr([*created_before_load])
        with suppress(UnsupportedMechanism):
            # Until a leader itself knows that it leads, it drops what comes with acks=0.
            await_replicated(admin, [*created_before_load])
        groups = {lane.lane: lane.group_id for lane in phase.lanes}
        observer = FaultEvents(self.run.events, phase=phase.phase, lanes=phase_run.lanes, brokers=layout.brokers)
        with phase_run.under_load() as load:
            topics = [lane.topic_name for lane in phase.lanes]
            view = ClusterView(cluster, admin, groups=groups, clients=load, topics=topics)
            with Injector(view, observer, seed=self.run.experiment.seed) as injector:
                if phase.steps is None:
                    start, duration = time.monotonic(), phase.workload.duration
                    self.run.say(f"loading {counted(len(phase.lanes), 'lane')} for {duration:g} s", seconds=duration)
                    injector.run(phase.faults, start=start, cancelled=self.run.cancelled)
                    self.run.cancelled.wait(max(0.0, start + duration - time.monotonic()))
                elif not phase_run.run_lockstep(injector, load, lag_time_max=lag_time_max):
                    self.run.predict_without_lockstep(phase)
                injector.heal_all()
            yield
        self.run.gaps.update(phase_run.gaps)

    def collect(self, cluster: Cluster, admin: ClusterAdmin) -> None:
        """Read the final log and every replica into the run directory."""
        for node in cluster.nodes:
            if node.state()["OOMKilled"]:
                raise EnvironmentFailure(
                    f"{node.name} was killed by the kernel, since no memory is left (OOM): end other programs"
                )
        self.run.say("reading the final log and every replica from the brokers' own files")
        stored = [
            StoredLane(lane.lane, lane.topic_name, lane.partitions, transactional=lane.transactional is not None)
            for lane in self.run.experiment.lane_specs
        ]
        ends = leader_ends(admin, stored)
        tiered_topics = {lane.topic_name for lane in self.run.experiment.lane_specs if lane.tiered}
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-tiered-") as folder:
            tiered = fetch_tiered(
                cluster.broker_client,
                {(topic, partition): end for (topic, partition), end in ends.items() if topic in tiered_topics},
                Path(folder),
                lambda text: self.run.events.emit(event_types.ClientNotice(text=text)),
            )
            collect_stored(cluster.brokers.values(), stored, ends, self.run.directory.path, tiered)
