"""Everything that happens in a run, as typed events: the lines of events.jsonl, which listeners receive as objects.

Times are nanoseconds of the machine's monotonic clock, the one that the histories use.
"""

import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened at `ts_ns`."""

    ts_ns: int = field(default_factory=time.monotonic_ns)

    def to_json(self) -> dict[str, Any]:
        """The line of events.jsonl: the fields, and `type` in snake case."""
        return {"ts_ns": self.ts_ns, "type": type_name(type(self)), **dataclasses.asdict(self)}


def type_name(event: type[Event]) -> str:
    """The `type` that events.jsonl gives events of this class: its name in snake case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run was planned. `collects`: the tables, such as `log`, that it collects once its load has ended."""

    run_id: str = ""
    experiment: str = ""
    lanes: tuple[str, ...] = ()
    collects: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """The run begins something that takes time; `text` completes "kafka-chaos is …". `seconds`: how long, if known."""

    text: str
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class StepProgress(Event):
    """Of the parts of the last step `done` are done, of `total`; `what` names the one that comes now."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, kw_only=True)
class ClusterReady(Event):
    """All servers are up. `client_config`: a file with the client settings of a secured listener, else empty."""

    seconds: float
    bootstrap_servers: str
    client_config: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterKept(Event):
    """The run is over, or failed, and its cluster was left running, as `--keep` or `--keep-always` asked.

    `client_config`: a file with the client settings of a secured listener, empty for a plaintext one.
    """

    run_id: str
    containers: tuple[str, ...]
    bootstrap_servers: str
    client_config: str = ""


@dataclass(frozen=True, kw_only=True)
class PhaseStarted(Event):
    """The load of a phase begins, on all lanes unless it names some."""

    phase: str
    lanes: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseEnded(Event):
    """The load of a phase has ended and every record has an outcome.

    `load`: from when to when clients were to attempt what the phase asks for, once each lane had an acknowledgement.
    """

    phase: str
    load: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """Counts so far, per lane: sent, acknowledged, consumed."""

    counts: Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True)
class FaultRequested(Event):
    """A fault is about to be injected; `resolved` are the containers that held its target's role.

    `at` and `duration`: what the schedule asks for, in seconds from the start of the load; `late`: by how many seconds
    it comes later than that. None in a lock-step phase, which waits for conditions. `model_faults`: the kinds of
    `faults` in lanes.json that it amounts to, one for each broker that it hits.
    """

    fault_id: str
    kind: str = "?"
    target: str = ""
    resolved: tuple[str, ...] = ()
    lanes: tuple[str, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model_faults: tuple[str, ...] = ()
    at: float | None = None
    duration: float | None = None
    late: float | None = None


@dataclass(frozen=True, kw_only=True)
class FaultProven(Event):
    """The fault took effect, as `evidence` shows.

    `applied_ns`: when, as far as the evidence tells, such as the end of a process; else when its injection was done.
    """

    fault_id: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    applied_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class FaultNotProven(Event):
    """Nothing showed that the fault took effect."""

    fault_id: str
    reason: str = "no reason given"


@dataclass(frozen=True, kw_only=True)
class FaultHealed(Event):
    """The fault is healed."""

    fault_id: str


@dataclass(frozen=True, kw_only=True)
class OutsideFaults(Event):
    """Somebody else may inject faults of these kinds into the cluster. The run neither reports nor proves them."""

    kinds: tuple[str, ...]
    lanes: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ConfigurationUnread(Event):
    """The run may not read these `configurations` of an attached cluster: its predictions may be those of another."""

    configurations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LeaderChanged(Event):
    """The metadata that clients get names another leader; None means that there is none."""

    lane: str
    partition: int
    before: int | None = None
    leader: int | None


@dataclass(frozen=True, kw_only=True)
class IsrChanged(Event):
    """The metadata that clients get names another ISR."""

    lane: str
    partition: int
    before: tuple[int, ...] = ()
    isr: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ControllerChanged(Event):
    """The metadata that clients get names another controller."""

    before: int | None = None
    controller: int | None


@dataclass(frozen=True, kw_only=True)
class LogTruncated(Event):
    """A broker dropped the end of a replica's log, as its own log says: all records from `offset` on.

    `log_end`: the offset after the last record that it dropped; None where the broker's log does not tell.
    """

    broker: int
    lane: str
    partition: int
    offset: int
    reason: str = "not given"
    log_end: int | None = None


@dataclass(frozen=True, kw_only=True)
class LeaderElected(Event):
    """A broker became leader, as its own log says."""

    broker: int
    lane: str
    partition: int
    leader_epoch: int
    start_offset: int
    isr: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BrokerSessionEnded(Event):
    """The session of the broker `broker` ended, by the log of the controller, node `controller`: others lead instead.

    Most follow from faults. On a machine with too much to do, a session may end by itself.
    """

    broker: int
    controller: int


@dataclass(frozen=True, kw_only=True)
class PartitionOffline(Event):
    """The controller, broker `controller`, left a partition without a leader, as its own log says.

    Nobody leads in `leader_epoch`: without this event, the partition's elections would skip an epoch.
    """

    controller: int
    lane: str
    partition: int
    leader_epoch: int


@dataclass(frozen=True, kw_only=True)
class PartitionChanged(Event):
    """The cluster's state of a partition changed for the time numbered `partition_epoch`, as the log of the node
    `node` says first.

    It rises by one with each change of leader, ISR or replicas, so that a gap shows what no log names: in KRaft mode
    the partition epoch, with ZooKeeper the version of the partition's state there. `isr`: None where the log says that
    it stayed as it was. `newest`: the highest number that any log names, so that the last changes can't be missing.
    """

    node: int
    lane: str
    partition: int
    partition_epoch: int
    isr: tuple[int, ...] | None = None
    newest: int | None = None


@dataclass(frozen=True, kw_only=True)
class HighWatermark(Event):
    """A partition's leader reported its high watermark, in this leader epoch."""

    lane: str
    partition: int
    broker: int | None = None
    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, kw_only=True)
class LastStableOffset(Event):
    """A partition's leader reported its last stable offset: up to where `read_committed` consumers may read.

    Only of transactional lanes, and only when it has moved.
    """

    lane: str
    partition: int
    broker: int
    last_stable_offset: int


@dataclass(frozen=True, kw_only=True)
class HarnessPaused(Event):
    """Up to `ts_ns` a thread of the harness had work to do and no processor, for so many seconds: other processes of
    the machine waited, too."""

    seconds: float


BEGINS = "begins"
"""The change of a share group's member whose process is about to start: no other member is given records."""


@dataclass(frozen=True, kw_only=True)
class MemberChanged(Event):
    """A member of a group `joins`, `leaves`, `crashes`, `freezes` or `thaws`, as the load asked; or it
    `is killed` by a fault. Each member of a share group `begins`.

    A crash is reported once the member's process has ended. `member` is the beginning of its names in `assignments/`,
    or its name in `deliveries/`.
    """

    group: str
    member: str
    change: str


@dataclass(frozen=True, kw_only=True)
class ClientNotice(Event):
    """An error that a client reported without stopping."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ClientStarted(Event):
    """A client of a lane runs as a process of its own. `client` and `version`: its library, as it says itself.

    `timeouts`: its time-outs in milliseconds, by their names in timings.json, as far as it says them.
    """

    lane: str
    role: str
    client: str
    version: str
    timeouts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReaderStarted(Event):
    """A consumer that comes and goes begins to read a lane from its start. `consumer`: its name in consumed/.

    What it reads again tells nothing of how long the lane's own consumer waited.
    """

    lane: str
    consumer: str


@dataclass(frozen=True, kw_only=True)
class ReaderEnded(Event):
    """A consumer that comes and goes reads no more: it has left, or was ended."""

    lane: str
    consumer: str


@dataclass(frozen=True, kw_only=True)
class CallNoted(Event):
    """A `call` of a lane's client (`contract.lane.recovery.CALLS`) has taken a second or more, or failed for good.

    `ended_ns` None: it has no answer so far; another event with the same `began_ns` tells its end, if it has one. The
    death of the client ends it, too. `client`: the transactional id, the consumer's name, or the group that called.
    """

    lane: str
    client: str
    call: str
    began_ns: int
    ended_ns: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class AcknowledgedWithoutOffset(Event):
    """A producer learned that a broker has this many messages to a partition, and nobody told it where.

    Either a later message was acknowledged, or the broker answered a retry with DUPLICATE_SEQUENCE_NUMBER. `evidence`:
    the line of the client's log.
    """

    lane: str
    producer_id: int
    partition: int
    messages: int
    evidence: str


@dataclass(frozen=True, kw_only=True)
class ClientFailed(Event):
    """A client of a lane died, fell silent or broke the client protocol: what it said proves nothing.

    `last_lines`: what it said and wrote last.
    """

    lane: str
    role: str
    problem: str
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DefectPrecondition(Event):
    """The precondition of a known defect has occurred in a lane's producer, as `evidence` says.

    `defect`: its id, as `predict --json` names it. `occurred_ns`: when, where that was not `ts_ns`. `transactional_id`
    and `commits`: of the EndTxn request that came late, and whether it commits. `partition` and `messages`: how many of
    the producer's first messages to that partition were acknowledged because a later one was. `broker`: whose log has
    the evidence.
    """

    defect: str
    lane: str
    producer_id: int | None = None
    evidence: str
    occurred_ns: int | None = None
    transactional_id: str | None = None
    commits: bool | None = None
    partition: int | None = None
    messages: int | None = None
    broker: int | None = None


@dataclass(frozen=True, kw_only=True)
class LaneJudged(Event):
    """The verdict of one lane; `found` counts the anomalies that were found.

    `known_defects`: those that explain forbidden findings. `accepted_defects`: those that the command accepts, so that
    the lane does not make it fail.
    """

    lane: str
    verdict: str
    reasons: tuple[str, ...]
    produced: int
    acknowledged: int
    found: Mapping[str, int]
    known_defects: tuple[str, ...] = ()
    accepted_defects: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The verdict is known, or the run failed."""

    verdict: str
    seconds: float
