"""The notes of standing clusters, by which commands find a cluster and talk to the process that keeps it (`keeper.py`).

Guarantee: a note is written once the cluster serves, and removed with the cluster. The note of a cluster whose process
has died does not count. Only this user can read notes and use sockets.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import EnvironmentFailure, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.files import locked
from kafka_chaos.contract.command.journal import JournalFile, journal_folder, journaled_runs
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.cluster.containers.labels import owner_is_alive

_JOURNAL_KIND = "clusters"
SOCKET = "socket"
"""The name of the socket in a cluster's folder."""


@dataclass(frozen=True, kw_only=True)
class StandingCluster:
    """A cluster that stands from `kafka-chaos cluster up` to `cluster down`, as its note describes it.

    `described`: the layout in words; `cluster`: the layout as keys of an experiment's `cluster`. `mode`: the metadata
    mode. `folder` has the socket. `client_config`: the path of a file with librdkafka's keys. `pid`: the id of the
    process that keeps the cluster. `labels`: the labels of the cluster's containers, which name that process, too.
    Clients in containers of the engine's `network` reach the brokers by `servers_in_network`.
    """

    name: str
    described: str
    cluster: dict[str, Any]
    mode: str
    folder: str
    client_config: str
    pid: int
    labels: dict[str, str] = field(repr=False)
    network: str = ""
    servers_in_network: str = ""

    @property
    def journal(self) -> JournalFile:
        """The file whose first line is the note; each further line is a fault that was injected or healed by hand."""
        return JournalFile(_JOURNAL_KIND, self.name)

    @property
    def configs(self) -> dict[str, str]:
        """The configuration of clients in librdkafka's keys, with the brokers' addresses. Secret."""
        lines = Path(self.client_config).read_text(encoding="utf-8").splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def faults(self) -> dict[str, tuple[str, tuple[str, ...], bool]]:
        """The faults in effect by their ids: the target, the nodes that are hit, and whether the fault is proven."""
        faults = {}
        for line in self.journal.lines()[1:]:
            if "broken" in line:
                target, nodes, proven = line["at"]
                faults[line["broken"]] = (target, tuple(nodes), proven)
            else:
                faults.pop(line["healed"], None)
        return faults

    def ask(self, job: str, listener: Callable[[Event], None] = lambda _: None, **arguments: Any) -> Any:
        """Let the keeper do a job; returns the job's result or raises its error. `listener` gets the job's events."""
        try:
            # Without the lock, a second command would not be refused, but wait for the job of the first.
            with locked(Path(self.folder)), Client(str(Path(self.folder, SOCKET)), "AF_UNIX") as connection:
                try:
                    connection.send((job, arguments))
                    while isinstance(answer := connection.recv(), Event):
                        listener(answer)
                except KeyboardInterrupt:
                    # While this command holds the lock, the signal can't interrupt another command's job.
                    os.kill(self.pid, signal.SIGINT)
                    raise
        except BlockingIOError:
            raise EnvironmentFailure(f"{self.name}: busy with another command; try again when that has ended") from None
        except (EOFError, OSError) as error:
            raise EnvironmentFailure(
                f"the process that keeps the cluster {self.name} has ended; its last words are in "
                f"{log_path(self.name)}, and `kafka-chaos clean` removes what it left"
            ) from error
        if isinstance(answer, KafkaChaosError):
            raise answer
        return answer


def run_id_of(name: str) -> str:
    """The run id in the labels of everything that belongs to a cluster of this name."""
    return f"cluster-{name}"


def log_path(name: str) -> Path:
    """The log of the cluster's process."""
    return journal_folder(_JOURNAL_KIND) / f"{name}.log"


def standing_clusters() -> list[StandingCluster]:
    """This user's standing clusters, sorted by name."""
    journals = [JournalFile(_JOURNAL_KIND, name).lines() for name in journaled_runs(_JOURNAL_KIND)]
    clusters = [StandingCluster(**lines[0]) for lines in journals if lines]
    return [cluster for cluster in clusters if owner_is_alive(cluster.labels)]


def find_cluster(name: str | None) -> StandingCluster:
    """The standing cluster of this name, or without a name the only one; else raises `UsageFailure` that lists all."""
    clusters = {cluster.name: cluster for cluster in standing_clusters()}
    names = ", ".join(clusters) or "none: `kafka-chaos cluster up` starts one"
    if name is None and len(clusters) == 1:
        return next(iter(clusters.values()))
    if name is None:
        raise UsageFailure(f"expected the name of a cluster (--on NAME, or `down NAME`); standing clusters: {names}")
    if name not in clusters:
        raise UsageFailure(f"{name}: no such cluster; standing clusters: {names}")
    return clusters[name]
