"""Anomalies that a lane can't show, found by searches that leave out its producer.

A bound is a smaller model of the lane. Brokers, controller and faults go by the lane's rules, but there are no
requests, no answers and no outcomes: every broker that takes itself for the leader may append what is left of the load
at any moment. A request that arrives twice is part of that load. So a bound reaches every log that the lane reaches,
and others. An anomaly that a bound does not show is impossible in the lane. One that it shows is left to the lane's own
search, which takes longer.

There are three bounds, for three kinds of anomalies. `docs/decisions/0012-searching-the-model.md` has the proofs.

**Do replicas diverge?** Records do not matter here, because leader epoch and offset identify an entry: an epoch has one
leader, which appends at its log end and drops nothing while it leads. Epoch and offset also determine everything before
the entry. So two logs are equal up to some offset, and have no leader epoch in common from there on. A follower only
takes the next entry of its leader, and it truncates whenever a leader is elected and whenever it begins to follow. So
if truncation turns the follower's log into a prefix of the leader's for each pair of such logs, replicas can't diverge,
under any number of faults. The states are searched only if some pair fails this test.

**Can an entry get lost that a consumer has read?** All logs that hold an entry hold it at the same offset. So if a read
is not confirmed by the final log, its entry is missing there. One entry is marked, and stands for any. With acks=all,
the marked entry also counts as read once a broker could acknowledge it. Then three more anomalies occur only after such
a loss: an acknowledged record is missing, a record is at another offset than acknowledged, and an offset has two
records. If truncation keeps exactly what two logs have in common, the other entries make no difference and are not
loaded: with five replicas that leaves one state in two hundred.

**Do records of an idempotent producer change their order, or come twice?** The entries before an entry were the log of
the broker that appended it. So one broker without faults shows all possible logs, if a producer may renew its producer
epoch at any moment. In the lane, a producer renews its epoch only after an acknowledged record was lost. Where none
can be lost, the load has no attempts for a second producer epoch.

Some answers need no search. With acks=0 each record is sent once, and acknowledged without an offset: none comes twice
unless its request arrives twice, and none is at another offset than acknowledged. The same is proved for an idempotent
producer of two records with acks=all, if elections are clean, only members of the ISR are eligible, and truncation
keeps what two logs share.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import combinations_with_replacement, product, takewhile

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.fault_kinds import REPEAT
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.effects import observe
from kafka_chaos.reference_model.lane.exchanges import may_acknowledge
from kafka_chaos.reference_model.lane.idempotence import check_sequence, renew_producer_epoch
from kafka_chaos.reference_model.lane.steps import steps_of_brokers
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.protocol.entries import entry_of
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.protocol.truncation import Log, Truncation
from kafka_chaos.reference_model.search import Budget, fewest_faults_first

PLAIN, MARKED = 0, 1
"""The two records of a load: the marked entry is the one that may get lost, all others are plain."""
SHOWN_BY_LOST_ENTRIES: Mapping[str, Set[Anomaly]] = {
    "0": {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET},
    "1": {Anomaly.TRUNCATED_READ},
    "all": {Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET},
}
"""For each `acks`, the anomalies that only occur if an entry is lost that counts as read. With acks=0 no answer names
an offset, so two records at one offset have both been in a log."""

Load = tuple[int, ...]
"""For each record, the number of times that it may be appended."""
Successors = Callable[[states.LaneState, Lane], Iterator[states.LaneState]]
"""The next states of a bound."""


def impossible(wanted: Set[Anomaly], lanes: Sequence[Lane], scope: states.Scope, budget: Budget) -> frozenset[Anomaly]:
    """The `wanted` anomalies that are impossible in every one of these lanes, as far as a bound proves it.

    The lanes differ in their faults alone, and have equally many. None is proved impossible once the budget is empty.
    """
    lane, rule = lanes[0], states.truncation_of(lanes[0])
    copies = int(any(REPEAT in each.faults for each in lanes))
    attempts = [scope.attempts_of(lane) for lane in lanes]
    log_lengths = [sum(counts) + copies for counts in attempts]
    undecided = set(wanted)

    def exclude_unless_shown(
        anomalies: Set[Anomaly], precondition: Anomaly, successors: Successors, loads: list[Load]
    ) -> None:
        """Exclude `anomalies` if the bound never shows `precondition`, without which none of them occurs."""
        if undecided & anomalies and not shows(precondition, lanes, loads, successors, budget):
            undecided.difference_update(anomalies)

    keeps_common_entries = all(keeps_what_is_common(rule, *logs) for logs in pairs_of_logs(max(log_lengths), budget))
    elects_from_isr_alone = not (lane.unclean_leader_election or rules_of(lane).elects_eligible)
    sends_two_idempotently = lane.acks == "all" and lane.idempotence and scope.records <= states.DEFAULT_SCOPE.records
    if lane.acks == "0" or (sends_two_idempotently and keeps_common_entries and elects_from_isr_alone):
        undecided -= {Anomaly.OFFSET_MISMATCH}
        if lane.idempotence or not copies:
            undecided -= {Anomaly.DUPLICATE}

    divergence = Anomaly.REPLICA_DIVERGENCE
    without_producer = partial(steps_without_producer, kept_isr=scope.kept_isr)
    if divergence in undecided:
        if any(keeps_too_much(rule, *logs) for logs in pairs_of_logs(max(log_lengths), budget)):
            exclude_unless_shown({divergence}, divergence, without_producer, [(length,) for length in log_lengths])
        else:
            undecided.discard(divergence)

    marked_loads: list[Load] = [(0 if keeps_common_entries else length - 1, 1) for length in log_lengths]
    exclude_unless_shown(SHOWN_BY_LOST_ENTRIES[lane.acks], Anomaly.TRUNCATED_READ, without_producer, marked_loads)

    if lane.idempotence:
        if lane.acks == "all" and Anomaly.LOST_WRITE in wanted - undecided:
            attempts = [scope.attempts_of(lane, may_lose=False) for lane in lanes]
        loads = [tuple([count + copies for count in counts]) for counts in attempts]
        for anomaly in (Anomaly.REORDERED, Anomaly.DUPLICATE):
            exclude_unless_shown({anomaly}, anomaly, appends_in_sequence, loads)
    return frozenset() if budget.reason else frozenset(wanted - undecided)


def keeps_too_much(rule: Truncation, follower: Log, leader: Log) -> bool:
    """Whether a follower that truncates its log by a rule keeps an entry that its leader does not hold there."""
    kept = states.truncated(follower, leader, rule)
    return kept != leader[: len(kept)]


def keeps_what_is_common(rule: Truncation, follower: Log, leader: Log) -> bool:
    """Whether a follower that truncates its log by a rule keeps exactly the entries with which both logs begin."""
    shared = takewhile(lambda entries: entries[0] == entries[1], zip(follower, leader, strict=False))
    return len(states.truncated(follower, leader, rule)) == len(list(shared))


def pairs_of_logs(most_entries: int, budget: Budget) -> Iterator[tuple[Log, Log]]:
    """Every pair of logs that two replicas may have, if both together hold at most `most_entries` different entries.

    The logs share a beginning, and have no leader epoch in common after it. Leader epochs never decrease along a log.
    Only their order matters, so as many epochs as entries are enough. An empty budget ends the pairs early.
    """
    number = 0
    for shared_length, left_length, right_length in product(range(most_entries + 1), repeat=3):
        entries = shared_length + left_length + right_length
        if entries > most_entries:
            continue
        for shared in combinations_with_replacement(range(entries), shared_length):
            later_epochs = range(shared[-1] if shared else 0, entries)
            for left in combinations_with_replacement(later_epochs, left_length):
                other_epochs = [epoch for epoch in later_epochs if epoch not in left]
                for right in combinations_with_replacement(other_epochs, right_length):
                    number += 1
                    if budget.must_end(number):
                        return
                    yield _log(shared + left), _log(shared + right)
    budget.end_search()


def _log(leader_epochs: tuple[int, ...]) -> Log:
    return tuple([entry_of(PLAIN, epoch) for epoch in leader_epochs])


def shows(anomaly: Anomaly, lanes: Sequence[Lane], loads: list[Load], successors: Successors, budget: Budget) -> bool:
    """Whether a bound reaches a state that shows the anomaly, from any of the lanes with its load."""
    lane = lanes[0]
    longest = max(map(sum, loads))
    reads_of_marked = sum(states.read_bit(MARKED, offset) for offset in range(longest))
    is_shown = False

    def visit(state: states.LaneState) -> bool:
        nonlocal is_shown
        is_shown = anomaly in shown(ending(state), CHECKS, {anomaly})
        return is_shown

    def representative(state: states.LaneState) -> states.LaneState:
        """The state that stands for all states with the same answer: its reads tell if the marked entry was read."""
        reads = states.read_bit(MARKED, 0) if state.reads & reads_of_marked else 0
        return states.canonical(state._replace(reads=reads) if reads != state.reads else state, lane)

    def initial_state(lane: Lane, load: Load) -> states.LaneState:
        state = states.initial_state(lane)
        records = tuple([states.Record(states.RETRY, appends, states.NOWHERE) for appends in load])
        return state._replace(records=records, faults=tuple([kind for kind in state.faults if kind != REPEAT]))

    fewest_faults_first(
        [states.canonical(initial_state(each, load), each) for each, load in zip(lanes, loads, strict=True)],
        lambda state: [representative(after) for after in successors(state, lane)],
        visit,
        lambda state: len(lane.faults) - len(state.faults),
        lambda state: states.split_abilities(state, lane, longest),
        budget,
    )
    return is_shown


def steps_without_producer(
    state: states.LaneState, lane: Lane, *, kept_isr: bool = False
) -> Iterator[states.LaneState]:
    """Every next state, where each broker that takes itself for the leader may append any record that is left.

    An entry counts as read as soon as it may be acknowledged with acks=all. `kept_isr`: as in `Scope`.
    """
    for broker, replica in state.representative_replicas():
        if replica.role in (states.LEADER, states.ZOMBIE):
            for index, record in enumerate(state.records):
                if record.attempts:
                    after = _with_appended(state, broker, index, states.produce_request(index, 0))
                    yield _with_acknowledged_read(observe(after, lane), lane)
    for _, after in steps_of_brokers(state, lane, kept_isr=kept_isr):
        yield _with_acknowledged_read(after, lane)


def _with_acknowledged_read(state: states.LaneState, lane: Lane) -> states.LaneState:
    """The state in which the marked entry counts as read if a broker may acknowledge it with acks=all."""
    if lane.acks != "all":
        return state
    for replica in state.replicas:
        if replica.role in (states.LEADER, states.ZOMBIE):
            for offset, value in enumerate(replica.log):
                if states.record_of(value) == MARKED and may_acknowledge(state, lane, replica, offset):
                    return state._replace(reads=state.reads | states.read_bit(MARKED, offset))
    return state


def appends_in_sequence(state: states.LaneState, lane: Lane) -> Iterator[states.LaneState]:
    """Every next state of one leader without faults, which appends whatever sequence numbers allow.

    A record may be sent in each producer epoch so far, and the producer may begin another one at any record.
    """
    leader = state.leader
    for first in range(state.first_records[-1] + 1, len(state.records)):
        yield renew_producer_epoch(state, first)
    for index, record in enumerate(state.records):
        for producer_epoch in range(state.producer_epoch + 1 if record.attempts else 0):
            sent = states.produce_request(index, producer_epoch)
            if check_sequence(state, leader, sent) is None:
                yield _with_appended(state, leader, index, sent)


def _with_appended(state: states.LaneState, broker: int, index: int, sent: int) -> states.LaneState:
    """The state after a broker has appended a request for a record; that leaves the record one attempt fewer."""
    replica, record = state.replicas[broker], state.records[index]
    grown = replica.with_log((*replica.log, entry_of(sent, replica.leader_epoch)))
    return state.with_replica(broker, grown).with_record(index, record._replace(attempts=record.attempts - 1))
