"""Outer bounds of a lane: a load without a producer. What it can't show, the lane can't show.

Whoever takes itself for the leader appends at any moment what the load has left, whether anybody sent it or not. So
the state has no requests, no answers and no outcomes; brokers, controller and faults go by the lane's own rules. Three
questions need no more:

- Whether replicas diverge: a leader epoch has one leader, which appends at its log end and drops nothing while it
  leads. So leader epoch and offset identify an entry; which record it holds does not matter. They name all that lies
  before it, too: two logs are the same up to some offset, and have no leader epoch in common from there on. A follower
  takes its leader's next entry, and truncates whenever somebody begins to lead or it begins to follow. So if truncation
  leaves it the beginning of its leader's log for any two such logs, no faults make replicas diverge, however many: that
  needs no search of states.
- Whether an entry that was shown to a consumer can be missing in the final log. An entry stays at its offset in every
  log that holds it. So a read that is lost is an entry that is lost, and one entry is marked for all: it may be any.
  With acks=all, whatever a broker might acknowledge counts as shown; then an acknowledged record that is lost or is
  elsewhere, and two records that are named for one offset, are such entries, too.
  Where truncation keeps exactly what two logs have in common, the other entries change none of that: they are not
  even loaded. A log then holds the marked entry or it does not, and five replicas have two hundred times fewer states.
  `docs/decisions/0012-searching-the-model.md` goes through the steps.
- Whether records change their order or come twice in a log that sequence numbers guard. What a log holds before an
  entry was the log of a broker when that was appended. So one log without faults shows all, if a producer may renew its
  epoch at any moment. It only does where an acknowledged record is gone: where none can be, its records have the
  attempts of a producer that never does.

With acks=0 each record is sent once and acknowledged without an offset: none comes twice, none is elsewhere. Nor does
the second of an idempotent producer's two, where elections are clean and nobody is eligible but the ISR (proof: there).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import combinations_with_replacement, product

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.effects import observe
from kafka_chaos.reference_model.lane.exchanges import may_acknowledge
from kafka_chaos.reference_model.lane.idempotence import check_sequence, renew_producer_epoch
from kafka_chaos.reference_model.lane.state import (
    DEFAULT_SCOPE,
    LEADER,
    NOWHERE,
    RETRY,
    ZOMBIE,
    LaneState,
    Record,
    Scope,
    canonical,
    different,
    initial_state,
    leader_index,
    read_bit,
    record_of,
    request,
    split_means,
    truncated,
    truncation_of,
    with_log,
    with_record,
    with_replica,
)
from kafka_chaos.reference_model.lane.steps import of_brokers
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.protocol.entries import appended
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.protocol.truncation import Log, Truncation
from kafka_chaos.reference_model.search import Budget, fewest_faults_first

PLAIN, MARKED = 0, 1
"""The records of a load whose entries have no names, but for one."""
OF_LOST_ENTRIES: Mapping[str, Set[Anomaly]] = {
    "0": {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET},
    "1": {Anomaly.TRUNCATED_READ},
    "all": {Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET},
}
"""By acks, the anomalies that are a lost entry that was shown. With acks=0 no acknowledgement names an offset."""

Load = tuple[int, ...]
"""How often each record may be appended."""
Successors = Callable[[LaneState, Lane], Iterator[LaneState]]


def excluded(questions: Set[Anomaly], lanes: Sequence[Lane], scope: Scope, budget: Budget) -> frozenset[Anomaly]:
    """Those of the anomalies that none of the lanes can show, as far as a bound excludes them.

    The lanes differ in their faults alone, and have as many. An empty budget excludes nothing.
    """
    attempts = [scope.attempts_of(lane) for lane in lanes]
    appends = [sum(counts) for counts in attempts]
    acks, idempotence = lanes[0].acks, lanes[0].idempotence
    of_load = partial(without_producer, kept_isr=scope.kept_isr)
    rule = truncation_of(lanes[0])
    exact = all(keeps_what_is_common(rule, *logs) for logs in pairs_of_logs(max(appends), budget))
    clean = exact and not (lanes[0].unclean_leader_election or rules_of(lanes[0]).elects_eligible)
    renews_once = acks == "all" and idempotence and scope.records <= DEFAULT_SCOPE.records
    appended_once = acks == "0" or (renews_once and clean)
    found = frozenset(questions & {Anomaly.DUPLICATE, Anomaly.OFFSET_MISMATCH}) if appended_once else frozenset()
    diverges = questions & {Anomaly.REPLICA_DIVERGENCE}
    if diverges and not any(keeps_too_much(rule, *logs) for logs in pairs_of_logs(max(appends), budget)):
        found |= diverges

    def ask(anomalies: Set[Anomaly], of: Anomaly, successors: Successors, loads: list[Load]) -> None:
        nonlocal found
        if (questions & anomalies) - found and not shows(of, lanes, loads, successors, budget):
            found |= questions & anomalies

    divergence, lost = Anomaly.REPLICA_DIVERGENCE, Anomaly.TRUNCATED_READ
    ask({divergence}, divergence, of_load, [(count,) for count in appends])
    ask(OF_LOST_ENTRIES[acks], lost, of_load, [(0 if exact else count - 1, 1) for count in appends])
    if idempotence:
        in_epoch = [scope.attempts_of(lane, may_lose=False) for lane in lanes]
        kept = acks == "all" and Anomaly.LOST_WRITE in found
        for anomaly in (Anomaly.REORDERED, Anomaly.DUPLICATE):
            ask({anomaly}, anomaly, in_sequence, in_epoch if kept else attempts)
    return found if not budget.reason else frozenset()


def keeps_too_much(rule: Truncation, follower: Log, leader: Log) -> bool:
    """Whether a follower that truncates its log by the rule keeps something else than its leader holds."""
    kept = truncated(follower, leader, rule)
    return kept != leader[: len(kept)]


def keeps_what_is_common(rule: Truncation, follower: Log, leader: Log) -> bool:
    """Whether a follower that truncates its log by the rule keeps all that its log and its leader's begin
    with, and no more."""
    common = next((at for at, entries in enumerate(zip(follower, leader, strict=False)) if len(set(entries)) > 1), None)
    return len(truncated(follower, leader, rule)) == (min(len(follower), len(leader)) if common is None else common)


def pairs_of_logs(most: int, budget: Budget) -> Iterator[tuple[Log, Log]]:
    """The logs that any two replicas may have, of at most so many different entries; leader epochs count by their order
    alone. An empty budget ends them early."""
    number = 0
    for same, one, other in product(range(most + 1), repeat=3):
        if (entries := same + one + other) > most:
            continue
        for common in combinations_with_replacement(range(entries), same):
            later = range(common[-1] if common else 0, entries)
            for rest in combinations_with_replacement(later, one):
                for others in combinations_with_replacement([epoch for epoch in later if epoch not in rest], other):
                    number += 1
                    if budget.is_empty(number):
                        return
                    yield _log(common + rest), _log(common + others)
    budget.close()


def _log(leader_epochs: tuple[int, ...]) -> Log:
    return tuple([appended(PLAIN, epoch) for epoch in leader_epochs])


def shows(anomaly: Anomaly, lanes: Sequence[Lane], loads: list[Load], successors: Successors, budget: Budget) -> bool:
    """Whether a bound shows an anomaly with the loads of the lanes."""
    lane = lanes[0]
    most = max(map(sum, loads))
    marks = sum(read_bit(MARKED, offset) for offset in range(most))
    found = False

    def visit(state: LaneState) -> bool:
        nonlocal found
        found = anomaly in shown(ending(state), CHECKS, {anomaly})
        return found

    def same(state: LaneState) -> LaneState:
        """Of what was shown, whether the marked entry is among it."""
        reads = read_bit(MARKED, 0) if state.reads & marks else 0
        return canonical(state._replace(reads=reads) if reads != state.reads else state, lane)

    fewest_faults_first(
        [canonical(_loaded(each, load), each) for each, load in zip(lanes, loads, strict=True)],
        lambda state: [same(after) for after in successors(state, lane)],
        visit,
        lambda state: len(lane.faults) - len(state.faults),
        lambda state: split_means(state, lane, most),
        budget,
    )
    return found


def _loaded(lane: Lane, load: Load) -> LaneState:
    return initial_state(lane)._replace(records=tuple([Record(RETRY, appends, NOWHERE) for appends in load]))


def without_producer(state: LaneState, lane: Lane, *, kept_isr: bool = False) -> Iterator[LaneState]:
    """Every next state of brokers that append what they like: what they might acknowledge they have shown."""
    for broker, replica in different(state.replicas):
        if replica.role in (LEADER, ZOMBIE):
            for index, record in enumerate(state.records):
                if record.attempts:
                    yield _acknowledged(observe(_appended(state, broker, index, request(index, 0)), lane), lane)
    for _, after in of_brokers(state, lane, kept_isr=kept_isr):
        yield _acknowledged(after, lane)


def _acknowledged(state: LaneState, lane: Lane) -> LaneState:
    if lane.acks != "all":
        return state
    for replica in state.replicas:
        if replica.role in (LEADER, ZOMBIE):
            for offset, value in enumerate(replica.log):
                if record_of(value) == MARKED and may_acknowledge(state, lane, replica, offset):
                    return state._replace(reads=state.reads | read_bit(MARKED, offset))
    return state


def in_sequence(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """Every next state of a leader that takes what sequence numbers allow, in each of the producer's epochs so far."""
    leader = leader_index(state.replicas)
    for first in range(state.first_records[-1] + 1, len(state.records)):
        yield renew_producer_epoch(state, first)
    for index, record in enumerate(state.records):
        for producer_epoch in range(state.producer_epoch + 1 if record.attempts else 0):
            sent = request(index, producer_epoch)
            if check_sequence(state, leader, sent) is None:
                yield _appended(state, leader, index, sent)


def _appended(state: LaneState, broker: int, index: int, sent: int) -> LaneState:
    replica, record = state.replicas[broker], state.records[index]
    grown = with_log(replica, (*replica.log, appended(sent, replica.leader_epoch)))
    return with_record(with_replica(state, broker, grown), index, record._replace(attempts=record.attempts - 1))
