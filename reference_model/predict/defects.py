"""Searches a lane with rules changed as known defects change them: which anomalies become reachable, and how.

Defects are searched alone and together, with the rules of the lane's client (`clients/rules.py`).
`transactional.py` does the same for the defects of transactions, one by one.

The lane lives through no fault here. A slow follower is enough to leave a record in doubt, and what the defect makes
reachable without a fault it makes reachable with faults. Nor has it more than three replicas, or as many as its
min.insync.replicas: without a fault nobody is elected, so followers that have left the ISR and stay slow change
nothing. Five replicas would take ten times as long.

Producers that do not repeat their requests as Kafka's protocol says take further steps. Each step is the variant of a
known defect (`known_defects.toml`) and has its source in `clients/rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, TypeVar

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
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
    leader_index,
    record_of,
    request,
)
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import tell
from kafka_chaos.reference_model.machine import Story, shown
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS, READ_ON, KnownDefect
from kafka_chaos.reference_model.search import Budget, breadth_first


def number_anew(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-1005: once a send() has to be repeated, each that is open takes the number that is next at that moment:
    of those that have succeeded or are in flight. The leader has as many numbers as batches, since it takes no other.
    """
    if any(record.status == RETRY for record in state.records):
        held = len(state.replicas[leader_index(state.replicas)].log)
        number = sum(record.status in (OK, WAITING) for record in state.records)
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and number <= held:
                yield from _sent(state, lane, index, [number if number < held else None])


def leave_unnumbered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-3354: what is given to the producer while it repeats older messages has number 0, as the first message of
    each producer epoch. For the leader it is a copy of that one."""
    log = state.replicas[leader_index(state.replicas)].log
    first = [offset for offset, value in enumerate(log) if record_of(value) in state.first_records]
    for index, record in enumerate(state.records):
        if record.status == NEW and index > 0 and state.records[index - 1].status != NEW:
            yield from _sent(state, lane, index, first)


def renew_after_error(state: LaneState, lane: Lane) -> Iterator[Step]:
    """KAFKA-14397: the producer gives a record up when its delivery time-out is over and a broker has answered with an
    error, and renews its epoch at once: what is in flight behind that record has another number when it is sent again.
    """
    for index, record in enumerate(state.records[:-1]):
        if state.producer_epoch == 0 and record.status == RETRY and state.records[index + 1].status in (WAITING, RETRY):
            given_up = state.with_record(index, Record(INFO, 0, NOWHERE))
            yield Action("renew_after_error", -1, index), renew_producer_epoch(given_up, index + 1)


def return_late(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-2619: once a record has to be sent again, it and the next change places in a batch, which the leader takes
    by the number of its first record: what the log has not is appended."""
    if any(record.status == RETRY for record in state.records):
        held = {record_of(value) for value in state.replicas[leader_index(state.replicas)].log}
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and index not in held:
                yield from _sent(state, lane, index, [None])


def repeat_unanswered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-822: a connection is closed while several send() calls are open. What it has not taken is sent again, and
    so is what a send() has written to another broker, whose partition has moved since."""
    for index, record in enumerate(state.records):
        if record.status == NEW and (index == 0 or state.records[index - 1].status != NEW):
            yield Action("connection_closed", -1, index), state.with_record(index, Record(RETRY, 1, NOWHERE))
        elif record.status == OK and lane.partitions > 1:
            yield Action("send_repeated", -1, index), state.with_record(index, Record(RETRY, 1, NOWHERE))


def _sent(state: LaneState, lane: Lane, index: int, held: Iterable[int | None]) -> Iterator[Step]:
    """A record is sent to the leader, which appends it, or takes it for one of those that it holds."""
    leader = leader_index(state.replicas)
    if state.records[index].attempts == 0 or too_few_in_sync(state, lane, state.replicas[leader]):
        return
    for offset in held:
        sent = request(index, state.producer_epoch)
        action, after = append_request(state, lane, leader, sent, offset, awaited=True)
        yield action if offset is None else action._replace(name="taken_for_copy"), after


Name = TypeVar("Name", bound=Hashable)

MAX_STATES = 20_000
"""A defect's search may end early: what it finds is reachable, and of the rest nothing is said."""


@dataclass(frozen=True, slots=True)
class DefectTrace:
    """Known defects that together make an anomaly reachable, and none of them without the others, with the steps of a
    shortest way to it."""

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
        return cls(tuple(KNOWN_DEFECTS[id] for id in (value["id"], *value["with"])), tuple(map(str, value["why"])))


def by_anomaly(traces: Iterable[tuple[Name, DefectTrace]]) -> dict[Name, tuple[DefectTrace, ...]]:
    """The traces of each anomaly."""
    found: dict[Name, tuple[DefectTrace, ...]] = {}
    for anomaly, trace in traces:
        found[anomaly] = (*found.get(anomaly, ()), trace)
    return found


def plain_lane(lane: Lane, /, **settings: Any) -> Lane:
    """A lane of replication alone, without transactions, groups and loops, and with these settings."""
    return replace(lane, transactional=None, group=None, loop=None, **settings)


def known_defects(lane: Lane) -> Mapping[Anomaly, tuple[DefectTrace, ...]]:
    """The known defects that concern a lane, by the anomalies that they make reachable: every set of them of which no
    part is enough."""
    without_faults = plain_lane(
        lane,
        lane="defect",
        topic="",
        partitions=min(lane.partitions, 2),
        replication_factor=min(lane.replication_factor, max(3, lane.min_insync_replicas)),
        cleanup_policy=None,
        faults=(),
    )
    concerned = [KNOWN_DEFECTS[id] for id in VARIANTS if KNOWN_DEFECTS[id].concerns(lane)]
    without_them = _traces((), without_faults) if concerned and not lane.idempotence else {}
    found: dict[Anomaly, tuple[DefectTrace, ...]] = {}
    for size in range(1, len(concerned) + 1):
        for defects in combinations(concerned, size):
            for anomaly, trace in _traces(defects, without_faults).items():
                if anomaly not in without_them and not any(
                    set(one.ids) < set(trace.ids) for one in found.get(anomaly, ())
                ):
                    found[anomaly] = (*found.get(anomaly, ()), trace)
    return found


def read_on(lane: Lane, truncated: Story | None) -> tuple[DefectTrace, ...]:
    """The known defects by which a lane's consumers miss records once a log was replaced below their position. Where no
    record that was read can be truncated (`truncated` is None), no log is.
    """
    concerned = [KNOWN_DEFECTS[id] for id in READ_ON if KNOWN_DEFECTS[id].concerns(lane)]
    return tuple(DefectTrace((defect,), (*truncated, _READS_ON)) for defect in concerned if truncated is not None)


@cache
def _traces(defects: tuple[KnownDefect, ...], lane: Lane) -> Mapping[Anomaly, DefectTrace]:
    variants = [VARIANTS[defect.id] for defect in defects]
    first: dict[Anomaly, LaneState] = {}

    def visit(state: LaneState) -> bool:
        first.update(dict.fromkeys(shown(ending(state), CHECKS, CHECKS.keys() - first.keys()), state))
        return False

    acknowledged = implied if rules_of_client(lane).acknowledges_implicitly else lambda step: step

    def possible(state: LaneState) -> Iterator[Step]:
        yield from map(acknowledged, steps(state, lane, None))
        for variant in variants:
            yield from variant.steps(state, lane)

    initial = initial_state(lane)
    retried = tuple(record._replace(attempts=2) for record in initial.records)
    search = breadth_first(
        canonical(initial._replace(records=retried, forgetful=any(one.forgetful for one in variants)), lane),
        lambda state: [canonical(after, lane) for _, after in possible(state)],
        visit,
        Budget(MAX_STATES),
    )
    return {anomaly: DefectTrace(defects, tell(search.path(state), lane, possible)) for anomaly, state in first.items()}


def implied(step: Step) -> Step:
    """A step as librdkafka takes it: an acknowledgement is one of the records before it, too."""
    action, after = step
    if action.name != "acknowledge" or (implied := implicitly_acknowledged(after, action.record)) == after:
        return step
    return action._replace(name="acknowledge_implicitly"), implied


def renew_after_timeout(state: LaneState, lane: Lane) -> Iterator[Step]:
    """librdkafka-4953: a message of another partition times out. The producer renews its producer epoch and sends all
    that was not acknowledged under the new one."""
    unanswered = [index for index, record in enumerate(state.records) if record.status != OK]
    if state.producer_epoch == 0 and unanswered:
        yield Action("renew_producer_epoch"), renew_producer_epoch(state, unanswered[0])


def nothing_more(state: LaneState, lane: Lane) -> Iterator[Step]:
    """No step beside the lane's own."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Variant:
    """The change that a defect makes to a lane: further steps, or brokers that are `forgetful` (`LaneState`)."""

    steps: Callable[[LaneState, Lane], Iterator[Step]] = nothing_more
    forgetful: bool = False


_READS_ON = "The log grows past the consumer's position, at which it reads on: it misses what came below."


VARIANTS: Mapping[str, Variant] = {
    "librdkafka-4953": Variant(renew_after_timeout),
    "KAFKA-14397": Variant(renew_after_error),
    "KAFKA-15591": Variant(forgetful=True),
    "kafkajs-1005": Variant(number_anew),
    "kafkajs-822": Variant(repeat_unanswered),
    "sarama-2619": Variant(return_late),
    "sarama-3354": Variant(leave_unnumbered),
}
