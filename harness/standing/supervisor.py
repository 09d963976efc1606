"""The process that keeps a cluster: its links, disks and queues live in it, so that every fault kind can be broken by
hand, and all of it goes with the process.

Guarantee: one job at a time, breaking, healing or a run; another one is refused meanwhile. `state` is always told. A
command that ends before its job does ends the job. Before the process ends it heals and removes everything.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kafka_chaos.contract.command.command_line import failure_of, run_and_exit
from kafka_chaos.contract.command.errors import ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.events import Event
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.occurrence import Occurrence
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
from kafka_chaos.harness.run.shared_cluster import restore, topic_name
from kafka_chaos.harness.signals import end_on_signals
from kafka_chaos.harness.standing.place import DONE, EVENT, FAILED, SOCKET, Standing, run_id_of

_HANG_UP_INTERVAL = 0.2
_A_DAY = 86_400
"""The planned duration of a fault by hand, in seconds: `heal` ends it."""


@dataclass
class Job:
    """A command's request, and its connection."""

    connection: Connection[Any, Any]
    what: str
    arguments: dict[str, Any]
    answer: tuple[str, object] | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def tell(self, kind: str, value: object) -> None:
        """Answer, unless the command has ended."""
        with suppress(OSError):
            self.connection.send((kind, value))


class Supervisor:
    """Does the jobs on a cluster that runs."""

    def __init__(self, name: str, spec: Mapping[str, Any], cluster: Cluster, injector: Injector, view: Any) -> None:
        self._name, self._spec = name, dict(spec)
        self._cluster, self._injector, self._view = cluster, injector, view
        self._admin = cluster.admin()
        self._faults: dict[str, Occurrence] = {}
        self._evidence: dict[str, Any] = {}
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._now: Job | None = None
        self._accepting = threading.Lock()
        self._ending = False

    def see(self, event: Event) -> None:
        """Pass an event to the command whose job it is."""
        if (now := self._now) is not None:
            now.tell(EVENT, event)

    def accept(self, listener: Listener) -> None:
        """Take connections, each served by a thread of its own, until the listener is closed."""
        while True:
            try:
                connection = listener.accept()
            except (ConnectionError, EOFError):
                continue  # The command ended before it was heard.
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        with connection, suppress(EOFError, OSError):
            job = Job(connection, *connection.recv())
            if job.what == "state":
                job.tell(*self._answer(job))
            elif job.what == "down":
                # Take no further job, end the one that there is, and wake the worker if it waits for one.
                with self._accepting:
                    self._ending = True
                    self._jobs.put(None)
                    job.tell(DONE, os.getpid())
                    self._interrupt(self._now)
            elif not self._takes(job):
                message = f"{self._name}: busy with another command; try again when that has ended"
                job.tell(FAILED, (message, ExitCode.ENVIRONMENT))
            else:
                self._await(job)
                # Who is answered may ask for the next job at once.
                self._now = None
                if job.answer is not None:
                    job.tell(*job.answer)

    def _takes(self, job: Job) -> bool:
        with self._accepting:
            if self._now is not None or self._ending:
                return False
            self._now = job
            self._jobs.put(job)
            return True

    def _await(self, job: Job) -> None:
        """Wait until a job is over, and interrupt it if its command ends before."""
        while not job.over.wait(_HANG_UP_INTERVAL):
            try:
                if job.connection.poll():
                    job.connection.recv()
            except (EOFError, OSError):
                with self._accepting:
                    self._interrupt(job)
                job.over.wait()

    def _interrupt(self, job: Job | None) -> None:
        if job is not None and not job.over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def work(self) -> None:
        """Do one job after the other, until `down`."""
        job: Job | None = None
        while True:
            # The command has ended, or `down` was asked for: an interrupt comes before its job is over, in this block.
            with suppress(KeyboardInterrupt):
                while True:
                    if job is not None:
                        with self._accepting:
                            job.over.set()
                    if self._ending:
                        return
                    job = self._jobs.get()
                    if job is not None:
                        job.answer = self._answer(job)

    def _answer(self, job: Job) -> tuple[str, object]:
        """Do a job; what its command is to be told."""
        try:
            return DONE, _JOBS[job.what](self, **job.arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the cluster stays and the command is told
            known = error if isinstance(error, KafkaChaosError) else failure_of(error)
            if known is None:
                traceback.print_exc()
            code = ExitCode.BUG if known is None else known.exit_code
            return FAILED, (str(known or f"internal error: {error!r}"), code)

    def break_(self, *, fault: str, target: str, keys: Mapping[str, Any]) -> bool:
        """Break something until it is healed; whether it was proven."""
        experiment = self._experiment({**keys, "fault": fault, "target": target, "at": 0, "duration": _A_DAY})
        require_available(experiment)
        if lacking := self._cluster.spec.lacks(experiment.layout):
            raise UsageFailure(f"{fault}: {lacking}")
        self._view.topics = self._admin.topics()
        occurrence = self._injector.inject(experiment.phases[0].faults()[0])
        self._faults[occurrence.fault_id] = occurrence
        return occurrence.proven

    def _experiment(self, entry: Mapping[str, Any]) -> Experiment:
        """The fault as the only one of an experiment on the topics that there are: the same rules check it."""
        topics = {topic: self._admin.partitions(topic) for topic in self._admin.topics()}
        lanes = [
            {
                "lane": topic,
                "partitions": len(partitions),
                "replication_factor": min(len(one.replicas) for one in partitions.values()),
                "min_insync_replicas": 1,
                "acks": "all",
            }
            for topic, partitions in topics.items()
            if partitions
        ]
        unnamed = [{"lane": "no-topic", "replication_factor": 1, "min_insync_replicas": 1}]
        values = {"name": self._name, "cluster": self._spec, "lanes": lanes or unnamed, "schedule": [dict(entry)]}
        return experiment_of(values, "break")

    def heal(self, *, faults: tuple[str, ...]) -> list[str]:
        """Heal these faults, or all without any, the latest first; what was healed."""
        for one in faults:
            if one not in self._faults:
                raise UsageFailure(f"{one}: no such fault; there are: {', '.join(self._faults) or 'none'}")
        healed = list(reversed(faults or tuple(self._faults)))
        for one in healed:
            self._injector.heal(self._faults[one])
            del self._faults[one]
        return healed

    def run(self, *, values: Mapping[str, Any], root: str, accept_known: tuple[str, ...]) -> RunResult:
        """Run an experiment here; lanes without a `topic` get topics that no other run has."""
        if self._faults:
            raise UsageFailure(f"{', '.join(self._faults)}: the run's prediction would not know of it: heal it first")
        experiment = experiment_of(_with_new_topics(values), "run")
        restore(self._cluster)
        return run_experiment(
            experiment, root=Path(root), listeners=[self.see], cluster=self._cluster, accept_known=accept_known
        )

    def state(self) -> dict[str, Any]:
        """The running nodes, the leaders, and the faults in effect."""
        nodes = {}
        for node in self._cluster.nodes:
            seen = node.state()
            nodes[node.name] = "frozen" if seen["Paused"] else "running" if seen["Running"] else "down"
        topics = {
            topic: [(number, one.leader, one.isr) for number, one in sorted(self._admin.partitions(topic).items())]
            for topic in self._admin.topics()
        }
        faults = {
            fault_id: (
                one.fault.target.text,
                tuple(node.name for node in one.nodes),
                "took effect" if one.proven else "without a proof",
            )
            for fault_id, one in self._faults.items()
        }
        busy = "" if (now := self._now) is None else now.what.rstrip("_")
        controller = self._cluster.controller(self._admin)
        return {"nodes": nodes, "controller": controller, "topics": topics, "faults": faults, "busy": busy}


_JOBS: Mapping[str, Callable[..., Any]] = {
    "break": Supervisor.break_,
    "heal": Supervisor.heal,
    "run": Supervisor.run,
    "state": Supervisor.state,
}


def _with_new_topics(values: Mapping[str, Any]) -> dict[str, Any]:
    phases = [
        {
            **phase,
            "lanes": [{**lane, "topic": lane.get("topic") or topic_name(lane["lane"])} for lane in phase["lanes"]],
        }
        for phase in values["phases"]
    ]
    return {**values, "phases": phases}


def layout(spec: Mapping[str, Any], *, disks: bool, clocks: bool) -> ClusterLayout:
    """The layout of an experiment's `cluster`, with disks and clocks where asked for; raises `UsageFailure`."""
    try:
        wanted = ClusterSpec(**spec)
    except ValidationError as error:
        place, message = refusals(error, ClusterSpec)[0]
        raise UsageFailure(f"{dotted(place)}: {message}") from None
    return replace(wanted.spec(), disk_mib=USUAL_DISK_MIB if disks else 0, clocks=clocks)


def serve(name: str, spec: Mapping[str, Any], disks: bool, clocks: bool) -> int:
    """Start the cluster and serve until `down`."""
    run_id = run_id_of(name)
    with Cluster(layout(spec, disks=disks, clocks=clocks), run_id=run_id) as cluster:
        folder = SecretFolder(run_id)
        configs = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_configs}
        note = Standing(
            name=name,
            described=cluster.spec.described,
            cluster=dict(spec),
            folder=str(folder.path),
            bootstrap_servers=cluster.bootstrap_servers,
            client_config=folder.write("client.properties", "".join(f"{k}={v}\n" for k, v in configs.items())),
            ports={str(broker): node.host_port or 0 for broker, node in cluster.brokers.items()},
            labels=run_labels(run_id, keep=False),
        )
        events = EventBus()
        view = ClusterView(cluster, cluster.admin())
        with (
            Injector(view, FaultEvents(events, phase=name, lanes=()), seed=0) as injector,
            Listener(str(folder.path / SOCKET), "AF_UNIX") as listener,
        ):
            supervisor = Supervisor(name, spec, cluster, injector, view)
            events.add(supervisor.see)
            threading.Thread(target=supervisor.accept, args=[listener], daemon=True).start()
            try:
                note.note()
                supervisor.work()
            finally:
                note.forget()
    return 0


def main() -> None:
    """`python -m kafka_chaos.harness.standing.supervisor NAME`, with the layout as a line of JSON on standard input."""
    end_on_signals()
    wanted = json.loads(sys.stdin.readline())
    run_and_exit(lambda: serve(sys.argv[1], wanted["cluster"], wanted["disks"], wanted["clocks"]))


if __name__ == "__main__":
    main()
