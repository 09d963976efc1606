"""Everything that happens in a run, as typed events: the lines of events.jsonl, which listeners receive as objects.

Times are nanoseconds of the machine's monotonic clock, as in the histories of producers and consumers.
"""

import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened at `ts_ns`. Every subclass becomes a frozen dataclass, which takes keywords only."""

    ts_ns: int = field(default_factory=time.monotonic_ns)

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def to_json(self) -> dict[str, Any]:
        """The line of events.jsonl: the fields, and `type` in snake case."""
        return {"ts_ns": self.ts_ns, "type": type_name(type(self)), **dataclasses.asdict(self)}


def type_name(event: type[Event]) -> str:
    """The `type` that events.jsonl gives events of this class: its name in snake case."""
    before_each_capital_but_the_first = r"(?<!^)(?=[A-Z])"
    return re.sub(before_each_capital_but_the_first, "_", event.__name__).lower()


class RunStarted(Event):
    """A run begins. `collects`: the tables, such as `log`, that the run collects once its load has ended."""

    run_id: str = ""
    experiment: str = ""
    lanes: tuple[str, ...] = ()
    collects: tuple[str, ...] = ()


class Step(Event):
    """The run begins something that takes time, `seconds` if known; `text` completes "kafka-chaos is …"."""

    text: str
    seconds: float | None = None


class StepProgress(Event):
    """The last `Step` has come further: `done` of its `total` parts are done; `what` names the part that begins."""

    done: int
    total: int
    what: str


class ClusterReady(Event):
    """All servers are up. `client_config`: a file with the client settings of a secured listener, else empty.

    `network`: the container network of the brokers; its containers reach them by `bootstrap_servers_in_network`.
    """

    seconds: float
    bootstrap_servers: str
    client_config: str = ""
    network: str = ""
    bootstrap_servers_in_network: str = ""


class ClusterKept(Event):
    """The run is over, or failed, and its cluster was left running, as `--keep` or `--keep-always` asked.

    The fields about clients and networks are as in `ClusterReady`.
    """

    run_id: str
    containers: tuple[str, ...]
    bootstrap_servers: str
    client_config: str = ""
    network: str = ""
    bootstrap_servers_in_network: str = ""


class PhaseStarted(Event):
    """The load of a phase begins: on `lanes`, or if that is None, on all lanes."""

    phase: str
    lanes: tuple[str, ...] | None = None


class PhaseEnded(Event):
    """The load of a phase has ended and every record has an outcome.

    `load`: from when to when the phase asked clients for load, on the clock of `ts_ns`. That time begins once each lane
    has an acknowledgement.
    """

    phase: str
    load: tuple[int, int] | None = None


class Progress(Event):
    """By lane, how many records have been sent, acknowledged and consumed so far."""

    counts: Mapping[str, tuple[int, int, int]]


class FaultRequested(Event):
    """A fault is about to be injected into the containers `resolved`, which have the role `target` at this time.

    `lanes`: None for all lanes. `at`: when the schedule asks for the fault, in seconds from the start of the load.
    `duration`: in seconds. `late`: the seconds by which the fault comes later than `at`. These three are None in a
    phase in steps, which waits for conditions. `model_faults`: the kinds of `faults` in lanes.json that the fault
    counts as, one for each broker that it hits.
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


class FaultProven(Event):
    """The fault took effect, as `evidence` shows.

    `applied_ns`: when it took effect, if the evidence (such as a process's end) tells; else the end of the injection.
    """

    fault_id: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    applied_ns: int | None = None


class FaultNotProven(Event):
    """Nothing showed that the fault took effect."""

    fault_id: str
    reason: str = "no reason given"


class FaultHealed(Event):
    """The run has healed the fault."""

    fault_id: str


class OutsideFaults(Event):
    """Somebody else may inject faults of these kinds; the run does not report or prove them. `lanes`: None for all."""

    kinds: tuple[str, ...]
    lanes: tuple[str, ...] | None = None


class ConfigurationUnread(Event):
    """The run does not know all settings of an attached cluster: its predictions may assume wrong values.

    `configurations`: whose configuration it may not read, such as `of broker 1`. `untold`: keys that no broker told.
    """

    configurations: tuple[str, ...]
    untold: tuple[str, ...] = ()


class LeaderChanged(Event):
    """A partition has another leader in the metadata that clients get; None means that it has no leader."""

    lane: str
    partition: int
    before: int | None = None
    leader: int | None


class IsrChanged(Event):
    """A partition has another ISR in the metadata that clients get."""

    lane: str
    partition: int
    before: tuple[int, ...] = ()
    isr: tuple[int, ...]


class ControllerChanged(Event):
    """The cluster has another controller in the metadata that clients get; None means that it has none."""

    before: int | None = None
    controller: int | None


class LogTruncated(Event):
    """A broker truncated a replica: it dropped all records from `offset` on, as the broker's log says.

    `log_end`: the offset after the last dropped record; None if the broker's log does not tell.
    """

    broker: int
    lane: str
    partition: int
    offset: int
    reason: str = "not given"
    log_end: int | None = None


class LeaderElected(Event):
    """A broker became leader, as its own log says. `start_offset`: the first offset of its leader epoch."""

    broker: int
    lane: str
    partition: int
    leader_epoch: int
    start_offset: int
    isr: tuple[int, ...]


class BrokerSessionEnded(Event):
    """The session of `broker` ended, so that other brokers lead instead, as the controller's log says.

    Most sessions end because of faults. On an overloaded machine, a session may end by itself. `controller`: the node
    id of the controller.
    """

    broker: int
    controller: int


class PartitionOffline(Event):
    """The controller left a partition without a leader, as the log of broker `controller` says.

    Nobody leads in `leader_epoch`: without this event, the partition's elections would seem to skip an epoch.
    """

    controller: int
    lane: str
    partition: int
    leader_epoch: int


class PartitionChanged(Event):
    """The leader, ISR or replicas of a partition changed. Of the nodes whose logs say so, `node` said it first.

    `partition_epoch` rises by one with each change, so that a gap shows a change that no log names. With ZooKeeper, it
    is the version of the partition's state there. `isr`: None if the ISR did not change.
    `newest`: the highest partition epoch that any log names, which shows whether the last changes are missing.
    """

    node: int
    lane: str
    partition: int
    partition_epoch: int
    isr: tuple[int, ...] | None = None
    newest: int | None = None


class HighWatermark(Event):
    """A partition's leader (`broker`, if known) reported its high watermark in a leader epoch."""

    lane: str
    partition: int
    broker: int | None = None
    leader_epoch: int
    high_watermark: int


class LastStableOffset(Event):
    """A partition's leader reported its last stable offset, up to which `read_committed` consumers may read.

    Reported for transactional lanes only, and only when it has moved.
    """

    lane: str
    partition: int
    broker: int
    last_stable_offset: int


class HarnessPaused(Event):
    """A thread of the harness got no processor for `seconds` up to `ts_ns`, so other processes waited, too."""

    seconds: float


BEGINS = "begins"
"""The `change` of a share group member before its process starts. Without it, the member's deliveries are in doubt."""


class MemberChanged(Event):
    """A member of a group `joins`, `leaves`, `crashes`, `freezes` or `thaws`, as the load asked.

    Or it `is killed` by a fault. Each member of a share group also `begins`. A crash is reported once the member's
    process has ended. `member`: its name in `deliveries/`, or the beginning of its names in `assignments/`.
    """

    group: str
    member: str
    change: str


class ClientNotice(Event):
    """A client reported an error, and goes on."""

    text: str


class ClientStarted(Event):
    """A client of a lane runs as a process of its own. `client` and `version`: its library, as the client reports.

    `timeouts`: its time-outs in milliseconds, as it reports them, by their names in timings.json.
    """

    lane: str
    role: str
    client: str
    version: str
    timeouts: Mapping[str, int] = field(default_factory=dict)


class ReaderStarted(Event):
    """A consumer that comes and goes begins to read a lane from its start. `consumer`: its name in consumed/.

    It reads old records, so its reads do not show how long records waited for the lane's own consumer.
    """

    lane: str
    consumer: str


class ReaderEnded(Event):
    """A consumer that comes and goes has left by itself, or the load ended it."""

    lane: str
    consumer: str


class CallNoted(Event):
    """A `call` of a lane's client (`contract.lane.recovery.CALLS`) has taken a second or more, or failed for good.

    `ended_ns`: None while the call has no answer; a later event with the same `began_ns` has its end. The death of the
    client also ends its calls. `client`: the transactional id, the consumer's name, or the group that called.
    """

    lane: str
    client: str
    call: str
    began_ns: int
    ended_ns: int | None = None
    error: str | None = None


class AcknowledgedWithoutOffset(Event):
    """A producer learned that a broker has `messages` records of a partition, without learning their offsets.

    Either a later record was acknowledged, or the broker answered a retry with DUPLICATE_SEQUENCE_NUMBER. `evidence`:
    the line of the client's log.
    """

    lane: str
    producer_id: int
    partition: int
    messages: int
    evidence: str


class ClientFailed(Event):
    """A client of a lane died, fell silent or broke the client protocol: its reports prove nothing.

    `last_lines`: the last lines of its output and of its log.
    """

    lane: str
    role: str
    problem: str
    last_lines: tuple[str, ...] = ()


class DefectPrecondition(Event):
    """The precondition of a known defect has occurred in a lane's producer, as `evidence` says.

    `defect`: the id that `predict --json` gives the defect. `occurred_ns`: when the precondition occurred, if not at
    `ts_ns`. `transactional_id`: of an EndTxn request that came late. `commits`: whether this request commits.
    `messages`: the number of the producer's first records to `partition` that were acknowledged because a later record
    was. `broker`: the broker whose log has the evidence. Each is None where the defect has no such thing.
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


class LaneJudged(Event):
    """The verdict on one lane; `found` has the number of cases of each anomaly.

    `known_defects`: the known defects that explain forbidden findings. `accepted_defects`: the known defects
    whose findings do not make the command fail.
    """

    lane: str
    verdict: str
    reasons: tuple[str, ...]
    produced: int
    acknowledged: int
    found: Mapping[str, int]
    known_defects: tuple[str, ...] = ()
    accepted_defects: tuple[str, ...] = ()


class RunEnded(Event):
    """The run has its verdict, or failed (verdict `none`)."""

    verdict: str
    seconds: float
