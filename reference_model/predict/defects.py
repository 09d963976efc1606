"""Searches a lane with its known defects: which anomalies do they make reachable, and how?

A defect is a variant of the lane: further steps of a producer that does not repeat its requests as Kafka's protocol
says, or brokers that forget how a producer has to begin. Each variant has its ticket in `known_defects.toml` and its
source in `clients/rules.py`. Defects are searched alone and together. `transactional.py` does the same for the defects
of transactions, one by one.

Here the lane has no faults. A slow follower is enough to leave a record in doubt, and an anomaly that is reachable
without a fault is reachable with faults. And the lane has at most three replicas, or min.insync.replicas
if that is more: without a fault no leader is elected, so further followers could only leave the ISR and stay slow,
which changes nothing. Five replicas would take ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, TypeVar

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import ZOOKEEPER, Release, release
from kafka_chaos.reference_model.clients.rules import rules_of_client
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.effects import Action, Step, too_few_in_sync
from kafka_chaos.reference_model.lane.exchanges import append_request
from kafka_chaos.reference_model.lane.idempotence import implicitly_acknowledged, renew_producer_epoch
from kafka_chaos.reference_model.lane.state import (
    INFO,
    NEW,
    NOWHERE,
    OK,
    RETRY,
    WAITING,
    LaneState,
    Record,
    canonical,
    initial_state,
    produce_request,
    record_of,
)
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import tell
from kafka_chaos.reference_model.machine import Story, shown
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS, WITHOUT_EPOCH_CHECK, KnownDefect
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.search import Budget, breadth_first

AnomalyKind = TypeVar("AnomalyKind", bound=Hashable)

MAX_STATES = 20_000
"""A defect's search may end early: what it finds is reachable, and nothing is said of other anomalies."""
EPOCHS_TRUSTED_SINCE: Release = (2, 4)
"""Consumers check their positions by leader epochs only where brokers name these reliably (KAFKA-9212)."""
_READS_ON = "The log grows past the consumer's position, at which it reads on: it misses what came below."
_RETRIED_LATER = (
    "Documentation, max.in.flight.requests.per.connection: with several requests in flight and no idempotence, a send "
    "that fails is retried behind later ones. A new partition's leader may refuse it, and a slow broker may read it "
    "late."
)
_KEEPS_COMMITTED = "A former leader comes back with this record, and keeps it: its high watermark is above (KIP-101)."
_SAME_EPOCH = (
    "All brokers lose power, the controller too. The leader comes back without its log's end, leads in its old leader "
    "epoch, and appends other records; a follower that still has the lost ones can't tell them apart."
)


def number_anew(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-1005: once a send() has to be repeated, each open send() takes the sequence number that is next by then.

    The next number counts the records that have succeeded or are in flight. The leader treats a record whose number it
    has already as a duplicate.
    """
    if any(record.status == RETRY for record in state.records):
        log_end = len(state.replicas[state.leader].log)
        number = sum(record.status in (OK, WAITING) for record in state.records)
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and number <= log_end:
                yield from _send(state, lane, index, [number if number < log_end else None])


def leave_unnumbered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-3354: a message that the producer is given while it repeats older ones has sequence number 0.

    So has the first message of each producer epoch. The leader treats the new message as a duplicate of that first one.
    """
    log = state.replicas[state.leader].log
    firsts = [offset for offset, value in enumerate(log) if record_of(value) in state.first_records]
    for index, record in enumerate(state.records):
        if record.status == NEW and index > 0 and state.records[index - 1].status != NEW:
            yield from _send(state, lane, index, firsts)


def renew_after_error(state: LaneState, lane: Lane) -> Iterator[Step]:
    """KAFKA-14397: a producer that gives a record up after an error renews its producer epoch at once.

    It gives the record up when the delivery time-out is over. Records in flight behind it have other sequence numbers
    when they are sent again.
    """
    for index, record in enumerate(state.records[:-1]):
        if state.producer_epoch == 0 and record.status == RETRY and state.records[index + 1].status in (WAITING, RETRY):
            given_up = state.with_record(index, Record(INFO, 0, NOWHERE))
            yield Action("renew_after_error", record=index), renew_producer_epoch(given_up, index + 1)


def resend_behind_next(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-2619: a record that has to be sent again comes behind the next record.

    Both are in one batch, which the leader takes by the sequence number of its first record. So it appends any record
    that its log does not have.
    """
    if any(record.status == RETRY for record in state.records):
        in_log = {record_of(value) for value in state.replicas[state.leader].log}
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and index not in in_log:
                yield from _send(state, lane, index, [None])


def repeat_unanswered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-822: a connection is closed while several send() calls are open, and they repeat more than they should.

    Records that were not written to the connection are sent again. So are records that a send() has written to another
    broker, whose partition has moved since.
    """
    for index, record in enumerate(state.records):
        if record.status == NEW and (index == 0 or state.records[index - 1].status != NEW):
            yield Action("connection_closed", record=index), state.with_record(index, Record(RETRY, 1, NOWHERE))
        elif record.status == OK and lane.partitions > 1:
            yield Action("send_repeated", record=index), state.with_record(index, Record(RETRY, 1, NOWHERE))


def renew_after_timeout(state: LaneState, lane: Lane) -> Iterator[Step]:
    """librdkafka-4953: a message to another partition times out, and the producer renews its producer epoch.

    It then sends every unacknowledged record in the new epoch.
    """
    unanswered = [index for index, record in enumerate(state.records) if record.status != OK]
    if state.producer_epoch == 0 and unanswered:
        yield Action("renew_producer_epoch"), renew_producer_epoch(state, unanswered[0])


def _send(state: LaneState, lane: Lane, index: int, held_at: Iterable[int | None]) -> Iterator[Step]:
    """A step per offset in `held_at`: the leader takes the record as a duplicate of that entry; None: it appends."""
    leader = state.leader
    if state.records[index].attempts == 0 or too_few_in_sync(state, lane, state.replicas[leader]):
        return
    for offset in held_at:
        sent = produce_request(index, state.producer_epoch)
        action, after = append_request(state, lane, leader, sent, offset, awaited=True)
        yield action if offset is None else action._replace(name="taken_for_copy"), after


FURTHER_STEPS: Mapping[str, Callable[[LaneState, Lane], Iterator[Step]] | None] = {
    "librdkafka-4953": renew_after_timeout,
    "KAFKA-14397": renew_after_error,
    "KAFKA-15591": None,
    "kafkajs-1005": number_anew,
    "kafkajs-822": repeat_unanswered,
    "sarama-2619": resend_behind_next,
    "sarama-3354": leave_unnumbered,
}
"""For each defect, the steps that it adds to a lane; None if it sets `LaneState.takes_any_first_batch` instead."""


@dataclass(frozen=True, slots=True)
class DefectTrace:
    """Known defects that make an anomaly reachable, and `why`: the steps of a shortest way to it.

    Each of the defects is needed.
    """

    defects: tuple[KnownDefect, ...]
    why: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the defects."""
        return tuple(defect.id for defect in self.defects)

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`: the first defect, and the ids of the others as `with`."""
        first, *others = self.defects
        return {**first.to_json(), "with": [defect.id for defect in others], "why": list(self.why)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DefectTrace:
        """Read back what `to_json` gave."""
        return cls(tuple(MODELLED_DEFECTS[id] for id in (value["id"], *value["with"])), tuple(map(str, value["why"])))


def by_anomaly(traces: Iterable[tuple[AnomalyKind, DefectTrace]]) -> dict[AnomalyKind, tuple[DefectTrace, ...]]:
    """The traces of each anomaly."""
    grouped: dict[AnomalyKind, tuple[DefectTrace, ...]] = {}
    for anomaly, trace in traces:
        grouped[anomaly] = (*grouped.get(anomaly, ()), trace)
    return grouped


def plain_lane(lane: Lane, /, **settings: Any) -> Lane:
    """A lane of replication alone, without transactions, groups and loops, and with these settings."""
    return replace(lane, transactional=None, group=None, loop=None, **settings)


def defect_traces(lane: Lane) -> Mapping[Anomaly, tuple[DefectTrace, ...]]:
    """For each anomaly, a trace of every minimal set of known defects that makes the anomaly reachable in a lane."""
    without_faults = plain_lane(
        lane,
        lane="defect",
        topic="",
        partitions=min(lane.partitions, 2),
        replication_factor=min(lane.replication_factor, max(3, lane.min_insync_replicas)),
        cleanup_policy=None,
        faults=(),
    )
    lane_defects = [MODELLED_DEFECTS[id] for id in FURTHER_STEPS if MODELLED_DEFECTS[id].concerns(lane)]
    # Without faults and defects, only lanes that are not idempotent show anomalies.
    reachable_anyway = _traces((), without_faults) if lane_defects and not lane.idempotence else {}
    traces: dict[Anomaly, tuple[DefectTrace, ...]] = {}
    for size in range(1, len(lane_defects) + 1):
        for defects in combinations(lane_defects, size):
            for anomaly, trace in _traces(defects, without_faults).items():
                earlier_traces = traces.get(anomaly, ())
                is_minimal = not any(set(other.ids) < set(trace.ids) for other in earlier_traces)
                if anomaly not in reachable_anyway and is_minimal:
                    traces[anomaly] = (*earlier_traces, trace)
    return traces


def traces_after_truncated_read(lane: Lane, truncated: Story | None) -> tuple[DefectTrace, ...]:
    """The traces of the known defects by which consumers miss records that were replaced below their position.

    `truncated`: the story to a record that was read and then truncated. If it is None, no log is replaced like this.
    """
    if truncated is None:
        return ()
    lane_defects = [MODELLED_DEFECTS[id] for id in WITHOUT_EPOCH_CHECK if MODELLED_DEFECTS[id].concerns(lane)]
    return tuple(DefectTrace((defect,), (*truncated, _READS_ON)) for defect in lane_defects)


def beyond_search(lane: Lane, truncated: Story | None) -> Iterator[tuple[Anomaly, Story]]:
    """The anomalies that a lane may show although its states can't, each with its story.

    `truncated`: the story to a record that was read and then truncated, if the search found one.
    """
    if lane.acks != "0" and not lane.idempotence and lane.max_in_flight > 1:
        yield Anomaly.REORDERED, (_RETRIED_LATER,)
    if truncated is not None:
        if release(lane.version) < EPOCHS_TRUSTED_SINCE:
            yield Anomaly.UNSEEN, (*truncated, _READS_ON)
        if not rules_of(lane).protocol.asks_leader:
            yield Anomaly.REPLICA_DIVERGENCE, (*truncated, _KEEPS_COMMITTED)
    all_lose_power = lane.faults.count("power-loss") >= lane.replication_factor > 1
    if all_lose_power and not lane.flushes and lane.mode == ZOOKEEPER:
        yield Anomaly.REPLICA_DIVERGENCE, (_SAME_EPOCH,)


@cache
def _traces(defects: tuple[KnownDefect, ...], lane: Lane) -> Mapping[Anomaly, DefectTrace]:
    further_steps = [FURTHER_STEPS[defect.id] for defect in defects]
    acknowledges_implicitly = rules_of_client(lane).acknowledges_implicitly
    nearest: dict[Anomaly, LaneState] = {}

    def visit(state: LaneState) -> bool:
        nearest.update(dict.fromkeys(shown(ending(state), CHECKS, CHECKS.keys() - nearest.keys()), state))
        return False

    def next_steps(state: LaneState) -> Iterator[Step]:
        lane_steps = steps(state, lane, None)
        yield from map(_acknowledging_implicitly, lane_steps) if acknowledges_implicitly else lane_steps
        for steps_of_defect in further_steps:
            if steps_of_defect is not None:
                yield from steps_of_defect(state, lane)

    initial = initial_state(lane)
    retried = tuple(record._replace(attempts=2) for record in initial.records)
    search = breadth_first(
        canonical(initial._replace(records=retried, takes_any_first_batch=None in further_steps), lane),
        lambda state: [canonical(after, lane) for _, after in next_steps(state)],
        visit,
        Budget(MAX_STATES),
    )
    return {
        anomaly: DefectTrace(defects, tell(search.path(state), lane, next_steps)) for anomaly, state in nearest.items()
    }


def _acknowledging_implicitly(step: Step) -> Step:
    """The step as librdkafka takes it: an acknowledged record acknowledges the records before it, too."""
    action, after = step
    if action.name != "acknowledge" or (acknowledged := implicitly_acknowledged(after, action.record)) == after:
        return step
    return action._replace(name="acknowledge_implicitly"), acknowledged
