"""The process that keeps a standing cluster, with its links, its disks and the faults that were injected by hand.

The commands `break`, `heal` and `run` send it jobs. Guarantee: it does one job at a time, and ends a job whose command
has ended. SIGTERM heals and removes everything. Commands that only read, such as `state`, send this process no job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kafka_chaos.contract.command.command_line import failure_of, run_and_exit
from kafka_chaos.contract.command.errors import ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.events import Event
from kafka_chaos.faults.injector import Injector
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.layout import USUAL_DISK_MIB, ClusterLayout
from kafka_chaos.harness.cluster.containers.labels import SecretFolder, run_labels
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.specs import Experiment, dotted
from kafka_chaos.harness.experiment.values import refusals
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import require_available, run_experiment
from kafka_chaos.harness.run.shared_cluster import new_topic_name, restore
from kafka_chaos.harness.signals import end_on_signals
from kafka_chaos.harness.standing.notes import SOCKET, StandingCluster, run_id_of

_PLANNED_DURATION_S = 86_400
"""The planned duration of a fault that is injected by hand. In fact, `heal` ends it."""


class Keeper:
    """Does the jobs of commands on a standing cluster: break, heal, run an experiment.

    `note` leads commands to the cluster and to the journal of its faults. `view`: the cluster as faults see it.
    """

    def __init__(self, note: StandingCluster, cluster: Cluster, injector: Injector, view: ClusterView[Any]) -> None:
        self._note, self._cluster, self._injector, self._view = note, cluster, injector, view
        self._connection: Connection[Any, Any] | None = None
        self.must_end = False

    def serve(self, listener: Listener) -> None:
        """Do one job after the other, until `must_end` is set."""
        while not self.must_end:
            # An interrupt may come just after the end of the job that it was meant for: then the outer loop goes on.
            with suppress(KeyboardInterrupt):
                while not self.must_end:
                    # A command may end before its job is received or answered.
                    with suppress(EOFError, OSError), listener.accept() as connection:
                        try:
                            self._connection = connection
                            connection.send(self._answer(*connection.recv()))
                        finally:
                            self._connection = None

    def interrupt(self, *_: object) -> None:
        """Interrupt the present job, whose further events go nowhere. The handler of SIGINT."""
        self._connection = None
        raise KeyboardInterrupt

    def end(self, *_: object) -> None:
        """Interrupt the present job, and accept no further job. The handler of SIGTERM."""
        self.must_end = True
        raise KeyboardInterrupt

    def pass_on(self, event: Event) -> None:
        """Send an event of the present job to its command. Interrupts the job if its command has ended. Thread-safe."""
        if (connection := self._connection) is not None:
            try:
                connection.send(event)
            except OSError:
                if self._connection is not None:  # A second interrupt would end the healing of the job.
                    os.kill(os.getpid(), signal.SIGINT)

    def _answer(self, job: str, arguments: Mapping[str, Any]) -> object:
        """The result of a job, or the error that ended it, with the exit code that the command shall have."""
        try:
            jobs: dict[str, Callable[..., object]] = {"break": self._break, "heal": self._heal, "run": self._run}
            return jobs[job](**arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the cluster stays and the command is told
            expected = failure_of(error)
            if expected is None:
                traceback.print_exc()
            failure = KafkaChaosError(str(expected or f"internal error: {error!r}"))
            failure.exit_code = ExitCode.BUG if expected is None else expected.exit_code
            return failure

    def _break(self, *, fault: str, target: str, keys: Mapping[str, Any]) -> bool:
        """Inject a fault that lasts until it is healed by hand, and return whether it was proven."""
        admin = self._cluster.admin()
        entry = {**keys, "fault": fault, "target": target, "at": 0, "duration": _PLANNED_DURATION_S}
        topics = {topic: admin.partitions(topic) for topic in admin.topics()}
        # The fault is checked like a fault of an experiment whose lanes are the topics. An experiment needs a lane.
        lanes = [
            {
                "lane": topic,
                "partitions": len(partitions),
                "replication_factor": min(len(partition.replicas) for partition in partitions.values()),
                "min_insync_replicas": 1,
                "acks": "all",
            }
            for topic, partitions in topics.items()
            if partitions
        ] or [{"lane": "no-topic", "replication_factor": 1, "min_insync_replicas": 1}]
        values = {"name": self._note.name, "cluster": self._note.cluster, "lanes": lanes, "schedule": [entry]}
        experiment: Experiment = experiment_of(values, "break")
        require_available(experiment)
        if lacking := self._cluster.spec.missing_extras(experiment.layout):
            raise UsageFailure(f"{fault}: {lacking}")
        self._view.topics = list(topics)
        before = self._injector.broken
        try:
            return self._injector.inject(experiment.phases[0].faults[0]).proven
        finally:
            # A fault is in effect, too, if the command was interrupted while it awaited the proof.
            for fault_id in self._injector.broken.keys() - before.keys():
                occurrence = self._injector.broken[fault_id]
                nodes = tuple(node.name for node in occurrence.nodes)
                self._note.journal.note({"broken": fault_id, "at": [target, nodes, occurrence.proven]})

    def _heal(self, *, faults: tuple[str, ...]) -> list[str]:
        """Heal these faults, or all if none is named, the latest first, and return the ids of the healed ones."""
        broken = self._injector.broken
        for fault_id in faults:
            if fault_id not in broken:
                raise UsageFailure(f"{fault_id}: no such fault; the faults are: {', '.join(broken) or 'none'}")
        healed = [fault_id for fault_id in reversed(broken) if not faults or fault_id in faults]
        for fault_id in healed:
            self._injector.heal(broken[fault_id])
            self._note.journal.note({"healed": fault_id})
        return healed

    def _run(self, *, values: Mapping[str, Any], root: str, accept_known: tuple[str, ...], engine: str) -> RunResult:
        """Run an experiment on this cluster; lanes without a `topic` get topics that no other run has."""
        if broken := self._injector.broken:
            raise UsageFailure(f"heal {', '.join(broken)} first: the run's prediction includes no such fault")
        for lane in (lane for phase in values["phases"] for lane in phase["lanes"]):
            lane["topic"] = lane.get("topic") or new_topic_name(lane["lane"])
        experiment = experiment_of(values, "run")
        restore(self._cluster)
        return run_experiment(
            experiment,
            root=Path(root),
            listeners=[self.pass_on],
            cluster=self._cluster,
            accept_known=accept_known,
            engine=Engine(engine),
        )


def layout_for(spec: Mapping[str, Any], *, disks: bool, clocks: bool) -> ClusterLayout:
    """The layout that `spec`, an experiment's `cluster`, asks for, with `disks` and `clocks`. Raises `UsageFailure`."""
    try:
        cluster = ClusterSpec(**spec)
    except ValidationError as error:
        keys, message = refusals(error, ClusterSpec)[0]
        raise UsageFailure(f"{dotted(keys)}: {message}") from None
    return replace(cluster.as_layout(), disk_mib=USUAL_DISK_MIB if disks else 0, clocks=clocks)


def start_and_serve(name: str, spec: Mapping[str, Any], disks: bool, clocks: bool, python_path: str = "") -> int:
    """Start the cluster and serve until SIGTERM. `python_path`: the user's PYTHONPATH."""
    # With this process's own PYTHONPATH, clients that are the user's commands would import other modules.
    os.environ["PYTHONPATH"] = python_path
    run_id = run_id_of(name)
    with Cluster(layout_for(spec, disks=disks, clocks=clocks), run_id=run_id) as cluster:
        folder = SecretFolder(run_id)
        configs = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_configs}
        note = StandingCluster(
            name=name,
            described=cluster.spec.described,
            cluster=dict(spec),
            mode=cluster.spec.metadata_mode,
            folder=str(folder.path),
            client_config=folder.write("client.properties", "".join(f"{k}={v}\n" for k, v in configs.items())),
            pid=os.getpid(),
            labels=run_labels(run_id, keep=False),
            network=cluster.network,
            servers_in_network=cluster.bootstrap_servers_in_network,
        )
        events, view = EventBus(), ClusterView(cluster, cluster.admin())
        with (
            Injector(view, FaultEvents(events, phase=name, lanes=(), brokers=cluster.spec.brokers), seed=0) as injector,
            Listener(str(folder.path / SOCKET), "AF_UNIX") as listener,
        ):
            keeper = Keeper(note, cluster, injector, view)
            events.add(keeper.pass_on)
            signal.signal(signal.SIGTERM, keeper.end)
            signal.signal(signal.SIGINT, keeper.interrupt)
            try:
                note.journal.begin(asdict(note))
                keeper.serve(listener)
            finally:
                note.journal.end()
    return 0


def main() -> None:
    """`python -m kafka_chaos.harness.standing.keeper NAME ARGUMENTS`: `start_and_serve`, with arguments as JSON."""
    # Commands interrupt a job by SIGINT, which would be ignored if `cluster up` was a background job of a script.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_on_signals()
    run_and_exit(lambda: start_and_serve(sys.argv[1], **json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
