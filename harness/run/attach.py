"""Verifies topics of an existing cluster: load and history as in any run, and faults only where they are allowed.

Guarantee: creates and alters no topic, and only adds records to the topics that the experiment names. Breaks only
allowed nodes, by the commands of a file of nodes. Address, credentials and commands never get into the run directory or
into events. A plain consumer reads a topic's log from the offsets at which it ended before the load to the offsets at
which it ends after the load: exactly one row per record, in a file that appears whole or not at all.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.columns import LOG, arrow_schema
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure, WaitTimeout, counted
from kafka_chaos.contract.command.files import appearing_whole
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.events import ConfigurationUnread
from kafka_chaos.contract.lane.lanes import has_compaction
from kafka_chaos.contract.lane.recovery import DAY_MS
from kafka_chaos.faults.injector import Injector
from kafka_chaos.harness.attached.cluster import AttachedCluster, with_brokers_configuration, without_defaults
from kafka_chaos.harness.attached.faults import injected_by_commands, require_commands
from kafka_chaos.harness.attached.journal import heal_abandoned
from kafka_chaos.harness.attached.node import AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient, ask_each
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.known_configs import TOMBSTONES, UNCLEAN, cleanup_policy_of, refused_keys
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, PhaseSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.run.directory import new_run_id
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.run.phase import PhaseRun
from kafka_chaos.harness.run.run import Run, RunResult
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.partitions import messages_between
from kafka_chaos.harness.workload.history.writer import HistoryWriter
from kafka_chaos.verification.spark.session import require_engine

LOG_SCHEMA = arrow_schema(LOG)
_ROWS_AT_ONCE = 100_000  # of the final log, which are read and written together
_ANSWER_TIMEOUT = 5.0  # seconds
_UNREPORTED = object()  # the value of a setting that the cluster does not report


def _read_log(
    lane: LaneSpec, configs: Mapping[str, object], starts: Mapping[int, int], ends: Mapping[int, int], folder: Path
) -> None:
    """Write a lane's records from offsets `starts` up to (excluding) `ends`, by partition, to `folder`.

    `configs`: settings of the consumer.
    """
    defaults = {"group.id": "kafka-chaos-log", "log_level": 0}
    required = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": "read_uncommitted"}
    consumer = new_client(Consumer, {**defaults, **configs, **required, "enable.auto.commit": False})
    writer, codec = HistoryWriter(folder), IdentityCodec(lane.lane)
    try:
        messages = messages_between(consumer, lane.topic_name, starts, ends)
        while batch := list(islice(messages, _ROWS_AT_ONCE)):
            columns = {"lane": [lane.lane] * len(batch), "key": [None] * len(batch), **codec.columns_of(batch)}
            writer.write(pa.Table.from_pydict(columns, schema=LOG_SCHEMA))
    finally:
        consumer.close()
        writer.close()


@dataclass(frozen=True)
class ClusterAccess:
    """How clients reach an externally managed cluster. Its repr shows neither address nor credentials."""

    bootstrap_servers: str = field(repr=False)
    client_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    nodes: NodesFile | None = field(default=None, repr=False)
    """The commands that break the cluster's nodes; None: nothing is broken."""
    allowed: tuple[str, ...] = ()
    """The names of the nodes that may be broken."""


def run_attached(
    experiment: Experiment,
    cluster: ClusterAccess,
    *,
    root: Path,
    listeners: Sequence[Listener] = (),
    accept_known: Collection[str] = (),
    engine: Engine = Engine.SPARK,
) -> RunResult:
    """Load existing topics as the experiment says, and verify the records with an `engine`.

    Raises `UsageFailure` if the experiment has faults or changes that are not allowed, or if its lanes do not match the
    cluster's topics. Raises `EnvironmentFailure` if the cluster does not answer, or a node is down at the start.
    `accept_known`: known defects that excuse a violation.
    """
    require_engine(engine)
    _refuse_changes(experiment, cluster)
    topics = {lane.lane: lane.topic_name for lane in experiment.lane_specs}
    try:
        admin = ClusterAdmin(cluster.bootstrap_servers, topics=topics, configs=dict(cluster.client_configs))
    except KafkaException as error:
        raise UsageFailure(f"the client refuses the configuration: {error.args[0].str()}") from error
    unreported_settings = _check_topics(experiment, cluster, admin)
    experiment, unread = with_brokers_configuration(experiment, cluster.client_configs, admin)
    unread = replace(unread, untold=(*unreported_settings, *unread.untold))
    breakable = _breakable_cluster(experiment, cluster, admin)
    # The address is not recorded: whoever repeats the run has to know it.
    replay = "kafka-chaos run experiment.yaml --attach BOOTSTRAP_SERVERS"
    run = Run(
        experiment,
        root=root,
        listeners=listeners,
        kafka_version="not known",
        replay=replay,
        accept_known=accept_known,
        engine=engine,
    )
    return run.carry_out(_Stages(run, cluster, admin, breakable, unread).gather_evidence, collects=("log",))


def _breakable_cluster(experiment: Experiment, cluster: ClusterAccess, admin: ClusterAdmin) -> AttachedCluster | None:
    """The cluster as faults see it, with the nodes that may be broken; None if there is no file of nodes.

    First heals what a run that died has left broken. Raises `EnvironmentFailure` if a node does not run.
    """
    if cluster.nodes is None:
        return None
    heal_abandoned()
    nodes = AttachedCluster(
        cluster.nodes,
        new_run_id(experiment.name),
        experiment.cluster.metadata_mode,
        wait_until(admin.addresses, "the brokers to be named", timeout=_ANSWER_TIMEOUT),
        cluster.client_configs,
        cluster.allowed,
    )
    nodes.require_all_nodes()
    return nodes


@dataclass(frozen=True)
class _Stages:
    """The stages of a run that need the cluster. `unread`: the event about settings that the run could not learn."""

    run: Run
    cluster: ClusterAccess
    admin: ClusterAdmin
    breakable: AttachedCluster | None
    unread: ConfigurationUnread

    def gather_evidence(self) -> None:
        if self.unread.configurations or self.unread.untold:
            self.run.events.emit(self.unread)
        run, starts = self.run, dict[str, dict[int, int]]()
        for phase in run.experiment.phases:
            for lane in phase.lanes:
                starts[lane.lane] = self.admin.end_offsets(lane.lane, range(lane.partitions))
            self._load(phase, starts)
        run.say("reading the records of this run back")
        configs = {**self.cluster.client_configs, "bootstrap.servers": self.cluster.bootstrap_servers}
        # With only a part of the log, the rest of the records would look lost.
        with appearing_whole(run.directory.path / "log") as folder:
            for lane in run.experiment.lane_specs:
                ends = self.admin.end_offsets(lane.lane, range(lane.partitions))
                _read_log(lane, configs, starts[lane.lane], ends, folder)

    def _load(self, phase: PhaseSpec, starts: Mapping[str, Mapping[int, int]]) -> None:
        run = self.run
        phase_run = PhaseRun(
            phase,
            self.admin,
            self.cluster.bootstrap_servers,
            run.directory.path,
            run.events,
            run.cancelled,
            seed=run.experiment.seed,
            client_configs=self.cluster.client_configs,
            start_offsets=starts,
            uninjected_faults=phase.uninjected_faults(run.experiment.cluster.as_layout()),
        )
        with phase_run.under_load():
            start, duration = time.monotonic(), phase.workload.duration
            topics = counted(len(phase_run.lanes), "topic")
            run.say(f"loading {topics} of the attached cluster for {duration:g} s", seconds=duration)
            if self.breakable is not None:
                lanes, brokers = phase_run.lanes, run.experiment.cluster.brokers
                observer = FaultEvents(run.events, phase=phase.phase, lanes=lanes, brokers=brokers)
                view = ClusterView[AttachedNode](self.breakable, self.admin)
                with Injector(view, observer, seed=run.experiment.seed) as injector:
                    faults = [injected_by_commands(fault) for fault in phase.faults]
                    injector.run(faults, start=start, cancelled=run.cancelled)
            run.cancelled.wait(max(0.0, start + duration - time.monotonic()))
        run.gaps.update(phase_run.gaps)


def _refuse_changes(experiment: Experiment, cluster: ClusterAccess) -> None:
    """Raise `ExperimentError` for keys that would change topics or groups, and for faults that are not allowed."""
    for number, phase in enumerate(experiment.phases):
        if phase.steps is not None:
            message = "the steps of a lock-step phase need this project's own containers: leave them out"
            raise ExperimentError(("phases", number, "steps"), message)
        if phase.schedule and cluster.nodes is None:
            raise ExperimentError(
                ("phases", number, "schedule"),
                "an attached cluster is broken only with --nodes and --allow-faults; without them, leave out the "
                "schedule (outside_faults says what others do)",
            )
        for entry in phase.schedule:
            assert cluster.nodes is not None
            try:
                require_commands(entry.built_fault, cluster.nodes, cluster.allowed)
            except UsageFailure as failure:
                raise ExperimentError(("phases", number, "schedule", entry.entry_index), str(failure)) from failure
        for index, lane in enumerate(phase.lanes):
            for key in ("leader", "topic_configs", "group", "loop", "share", "created_at"):
                if getattr(lane, key):
                    raise ExperimentError(
                        ("phases", number, "lanes", index, key), "an attached cluster is not changed: leave it out"
                    )


def _check_topics(experiment: Experiment, cluster: ClusterAccess, admin: ClusterAdmin) -> list[str]:
    """Compare every lane with its topic: a prediction for other settings would be wrong.

    Returns the settings that predictions need, but the cluster does not report. (Apache Kafka reports all of them.)
    """
    try:
        wait_until(admin.live_brokers, "the cluster to answer", timeout=_ANSWER_TIMEOUT)
    except WaitTimeout:
        refusal = admin.refusal()
        problem = f"refuses this client: {refusal}" if refusal else "does not answer"
        where = "the --client-config" if refusal else "the address given to --attach and the --client-config"
        raise EnvironmentFailure(f"the attached cluster {problem}: check {where}") from None
    # The rules of elections depend on the metadata mode.
    expected = experiment.cluster.metadata_mode
    brokers = wait_until(admin.addresses, "the brokers to be named", timeout=_ANSWER_TIMEOUT).values()
    modes = ask_each(brokers, BrokerClient.metadata_mode, configs=cluster.client_configs, login=False)
    mode = next(modes, None)
    if mode not in (None, expected):
        message = f"{expected!r}, but the attached cluster's mode is {mode}"
        raise ExperimentError(("cluster", "metadata_mode"), message)
    # The metadata mode and unclean elections matter only under faults: without faults, there are no elections.
    unreported = ["its metadata mode"] if mode is None and any(lane.faults for _, _, lane in experiment.lanes) else []
    for number, phase in enumerate(experiment.phases):
        for index, lane in enumerate(phase.lanes):
            for key, wanted, actual in _compared_settings(lane, admin):
                if actual is _UNREPORTED:
                    if key != "unclean_leader_election" or experiment.as_lane(phase, lane).faults:
                        unreported.append(f"{key} of topic {lane.topic_name}")
                elif wanted != actual:
                    raise ExperimentError(
                        ("phases", number, "lanes", index, key),
                        f"{wanted!r}, but the topic {lane.topic_name} has {actual!r}",
                    )
    return unreported


def _compared_settings(lane: LaneSpec, admin: ClusterAdmin) -> Iterator[tuple[str, object, object]]:
    """The settings in which a lane must equal its topic: key, the lane's value, the topic's value or `_UNREPORTED`."""
    try:
        partitions = admin.await_partitions(lane.lane, timeout=_ANSWER_TIMEOUT)
    except WaitTimeout:
        missing = f"the attached cluster has no topic {lane.topic_name}, or this client may not see it"
        raise UsageFailure(missing) from None
    yield "partitions", lane.partitions, len(partitions)
    yield "replication_factor", lane.replication_factor, min(len(state.replicas) for state in partitions.values())
    entries = admin.configuration(ResourceType.TOPIC, lane.topic_name)
    if entries is None:
        raise EnvironmentFailure(
            f"this client may not read the configuration of topic {lane.topic_name}: give it describe-configs"
        )
    configs = {key: entry.value for key, entry in entries.items()}
    minimum, unclean = configs.get("min.insync.replicas"), configs.get(UNCLEAN)
    tells_cleanup = {"cleanup.policy", "retention.ms", "retention.bytes"} <= configs.keys()
    yield "min_insync_replicas", lane.min_insync_replicas, _UNREPORTED if minimum is None else int(minimum)
    yield "unclean_leader_election", lane.unclean_leader_election, _UNREPORTED if unclean is None else unclean == "true"
    yield "cleanup_policy", lane.cleanup_policy, cleanup_policy_of(configs) if tells_cleanup else _UNREPORTED
    if has_compaction(lane.cleanup_policy):
        wanted = str(lane.topic_configs.get(TOMBSTONES, DAY_MS))
        yield "topic_configs", f"{TOMBSTONES}={wanted}", f"{TOMBSTONES}={configs.get(TOMBSTONES, wanted)}"
    for _, message in refused_keys("topic", without_defaults(entries), lane.as_lane(())):
        raise UsageFailure(f"topic {lane.topic_name}: {message}")
