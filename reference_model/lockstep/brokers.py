"""Actions of brokers among themselves, and their answers to the controller: one action, one function.

Sources: Kafka's documentation ("Replication"), KIP-101, KIP-279, KIP-320 (leader epochs), KIP-497 (ISR changes
through the controller), the LeaderAndIsr handling that experiments/behaviours documents. An urgent action happens at
once. An optional one may happen or not, such as the end of a parked fetch, or a checkpoint of the high watermark.
`lockstep/clients.py` has the clients' side.

Left out: the time a leader waits before it drops a follower (`ClusterConfig.lag_is_short`), UpdateMetadata.
"""

from collections.abc import Iterator

from kafka_chaos.reference_model.lockstep.producers import Entry, after_append, after_truncation
from kafka_chaos.reference_model.lockstep.state import (
    CONTROL,
    FOLLOWER,
    HELD_FETCHES,
    LEADER,
    NOBODY,
    NONE,
    OFFLINE,
    REPLICATION,
    ClusterConfig,
    ClusterState,
    EpochStart,
    LeaderAndIsr,
    Replica,
)
from kafka_chaos.reference_model.protocol.entries import EPOCH_SHIFT
from kafka_chaos.reference_model.protocol.isr import high_watermark, watermark_waits
from kafka_chaos.reference_model.protocol.leaders import serves
from kafka_chaos.reference_model.tuples import without


def reachable_leader(state: ClusterState, config: ClusterConfig, follower: Replica) -> Replica | None:
    """The leader that would answer this follower's requests, if it runs, is reached and accepts them."""
    if not follower.runs or follower.role != FOLLOWER or not follower.leader:
        return None
    leader = state.replica(follower.leader)
    cut = any(state.is_cut(channel, follower.broker, leader.broker) for channel in (REPLICATION, HELD_FETCHES))
    if cut or not leader.runs or leader.role != LEADER:
        return None
    return leader if serves(leader.leader_epoch, follower.leader_epoch, checks_epoch=config.protocol.fenced) else None


def truncate(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A new follower truncates its log; urgent. A truncation to the high watermark needs no answer from the leader."""
    for follower in state.replicas:
        if not follower.runs or not follower.truncating:
            continue
        leader = reachable_leader(state, config, follower)
        if leader is None and config.protocol.asks_leader:
            continue
        own_epochs, leader_epochs = epochs_of(follower), epochs_of(leader) if leader else ()
        watermark = follower.high_watermark - follower.log_start
        end = follower.log_start + config.protocol.truncation(own_epochs, watermark, leader_epochs)
        shortened = truncated(follower, end)._replace(truncating=False)
        if leader is not None and config.protocol.fenced and _finds_no_divergence_when_empty(follower, leader):
            shortened = shortened._replace(epochs=follower.epochs)
        yield state.with_replica(shortened)


def _finds_no_divergence_when_empty(follower: Replica, leader: Replica) -> bool:
    """Whether a fetch from an empty log finds no divergence: all of the leader's epochs are newer than the follower's.

    Since fetches tell where to truncate (2.7, KIP-595), nothing is truncated then: the epoch file keeps its line for an
    epoch in which the follower led without any record, until a record in a newer epoch replaces the line.
    """
    if follower.log_end > follower.log_start or not follower.epochs or not leader.epochs:
        return False
    first = leader.epochs[0]
    return follower.epochs[-1].epoch < first.epoch and follower.log_end <= first.start


def epochs_of(replica: Replica) -> tuple[int, ...]:
    """The log in the form of the truncation rules: an entry per offset, with its leader epoch from the epoch file."""
    lines = sorted(replica.epochs, key=lambda line: line.start)
    epochs = []
    for offset in range(replica.log_start, replica.log_end):
        begun = [line.epoch for line in lines if line.start <= offset]
        epochs.append((begun[-1] if begun else 0) << EPOCH_SHIFT)
    return tuple(epochs)


def truncated(replica: Replica, end: int) -> Replica:
    """The replica with its log, epoch file and high watermark cut at an offset."""
    return replica._replace(
        log=tuple(entry for entry in replica.log if entry.offset < end),
        log_end=end,
        epochs=tuple(line for line in replica.epochs if line.start < end),
        high_watermark=min(replica.high_watermark, end),
        flushed=min(replica.flushed, end),
        active_segment=min(replica.active_segment, end),
        producers=after_truncation(replica.producers, replica.log, end),
    )


def fetch(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A follower fetches from its log end; urgent while the leader or the follower learns something from the fetch.

    The request alone tells the leader how far the follower is. A fetch that has nothing to return is parked.
    """
    yield from _answer_held(state)
    for follower in state.replicas:
        leader = reachable_leader(state, config, follower)
        if leader is None or follower.truncating:
            continue
        known_end = dict(leader.fetched).get(follower.broker)
        behind = follower.log_end < leader.log_end
        if known_end == follower.log_end and follower.parked and not behind:
            continue
        if not behind:
            informed = with_fetched_offset(leader, follower)
            parked = follower._replace(parked=True)
            yield state.with_replica(parked).with_replica(with_advanced_watermark(informed, config))
            continue
        # A parked fetch has already told the leader the follower's log end.
        informed = leader if follower.parked else with_advanced_watermark(with_fetched_offset(leader, follower), config)
        yield state.with_replica(informed).with_replica(_received(follower, informed))


def _answer_held(state: ClusterState) -> Iterator[ClusterState]:
    """A parked fetch is answered although the follower's next fetch is held; the leader learns nothing from that."""
    for follower in state.replicas:
        if not follower.runs or not follower.parked or not state.is_cut(HELD_FETCHES, follower.broker, follower.leader):
            continue
        leader = state.replica(follower.leader)
        if leader.runs and leader.role == LEADER and follower.log_end < leader.log_end:
            yield state.with_replica(_received(follower, leader))


def _received(follower: Replica, leader: Replica) -> Replica:
    """The follower after a leader's answer to its fetch."""
    new = tuple(entry for entry in leader.log if entry.offset >= follower.log_end)
    received = append(follower, new, leader.log_end)
    return received._replace(high_watermark=min(leader.high_watermark, leader.log_end), parked=False)


def append(replica: Replica, entries: tuple[Entry, ...], log_end: int) -> Replica:
    """The replica with the leader's entries appended, and a line in the epoch file for each new epoch."""
    epochs = replica.epochs
    for entry in entries:
        if not epochs or epochs[-1].epoch < entry.leader_epoch:
            epochs = _with_epoch(epochs, entry.leader_epoch, entry.offset)
    producers = after_append(replica.producers, entries)
    return replica._replace(log=replica.log + entries, log_end=log_end, epochs=epochs, producers=producers)


def _with_epoch(epochs: tuple[EpochStart, ...], epoch: int, start: int) -> tuple[EpochStart, ...]:
    """The epoch file with another line, which replaces those that start no earlier."""
    return (*(line for line in epochs if line.start < start), EpochStart(epoch, start))


def with_fetched_offset(leader: Replica, follower: Replica) -> Replica:
    """The leader after a fetch request from this follower's log end."""
    fetched = {**dict(leader.fetched), follower.broker: follower.log_end}
    return leader._replace(fetched=tuple(sorted(fetched.items())))


def with_advanced_watermark(leader: Replica, config: ClusterConfig) -> Replica:
    """The leader with the high watermark that the log ends of its ISR allow, as far as the leader knows them.

    Since Kafka 3.7 (KAFKA-15583) the watermark stays where it is while the ISR is smaller than min.insync.replicas.
    """
    if config.watermark_waits_for_min_isr and watermark_waits(len(leader.isr), config.effective_min_isr):
        return leader
    fetched = dict(leader.fetched)
    ends = [fetched.get(broker, -1) for broker in leader.isr if broker != leader.broker]
    return leader._replace(high_watermark=high_watermark(leader.high_watermark, [leader.log_end, *ends]))


def end_parked_fetch(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A parked fetch ends (`replica.fetch.wait.max.ms`) and brings the leader's high watermark; optional."""
    for follower in state.replicas:
        leader = reachable_leader(state, config, follower)
        if leader is None or not follower.parked or follower.log_end != leader.log_end:
            continue
        watermark = min(leader.high_watermark, follower.log_end)
        if watermark > follower.high_watermark:
            yield state.with_replica(follower._replace(high_watermark=watermark))


def checkpoint_meanwhile(state: ClusterState) -> Iterator[tuple[ClusterState, bool]]:
    """The possible checkpoints of a settled cluster: any high watermark between the last checkpoint and now.
    Each comes with False, since no checkpoint is urgent."""
    for replica in state.replicas:
        written = replica.checkpointed_high_watermark
        if replica.runs and replica.role in (LEADER, FOLLOWER) and written != replica.high_watermark:
            next_checkpoint = written + 1 if written < replica.high_watermark else replica.high_watermark
            yield state.with_replica(replica._replace(checkpointed_high_watermark=next_checkpoint)), False


def deliver(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A broker that is not cut off receives the oldest LeaderAndIsr from the controller or a former one; urgent."""
    for request in _first_on_each_connection(state):
        replica = state.replica(request.to)
        if not replica.runs or state.is_cut(CONTROL, request.controller, replica.broker):
            continue
        rest = _delivered(state, request)
        after = replay(replica, request) if config.kraft and not request.stop else handle(replica, request)
        if after.role == LEADER and after.partition_epoch > replica.partition_epoch:
            after = with_advanced_watermark(after, config)
        yield rest.with_replica(after)


def deliver_news_of_isr(state: ClusterState) -> Iterator[ClusterState]:
    """In KRaft mode, a follower replays a change of the ISR alone.

    This commutes with every other internal action, because nothing depends on the ISR that a follower knows.
    """
    for change in _first_on_each_connection(state):
        replica = state.replica(change.to)
        only_isr_changes = replica.role == FOLLOWER and change.leader_epoch == replica.leader_epoch and not change.stop
        if only_isr_changes and replica.runs and not state.is_cut(CONTROL, change.controller, replica.broker):
            yield _delivered(state, change).with_replica(replay(replica, change))


def _delivered(state: ClusterState, request: LeaderAndIsr) -> ClusterState:
    return state._replace(requests=without(state.requests, state.requests.index(request)))


def _first_on_each_connection(state: ClusterState) -> Iterator[LeaderAndIsr]:
    """The first request of each connection between a sender and a broker: the others wait for its answer."""
    connections: set[tuple[int, int]] = set()
    for request in state.requests:
        # In KRaft mode there is one metadata log, whoever writes to it.
        sender = request.controller if state.quorum is None else NOBODY
        if (sender, request.to) not in connections:
            connections.add((sender, request.to))
            yield request


def handle(replica: Replica, request: LeaderAndIsr, *, authorized: bool = True) -> Replica:
    """The replica after its broker has received a LeaderAndIsr.

    A request from a sender without ClusterAction, of a stale controller epoch, or of a stale leader epoch is refused.
    So is a request with the leader epoch that the broker already has.
    """
    if not authorized or request.controller_epoch < replica.controller_epoch:
        return replica
    replica = replica._replace(controller_epoch=request.controller_epoch)
    if replica.role == OFFLINE:
        # The broker refuses the request, but its clients learn of the leader from the UpdateMetadata that follows.
        return replica._replace(leader=request.leader)
    if request.leader_epoch < replica.leader_epoch:
        return replica
    if request.stop:
        return Replica(replica.broker, controller_epoch=request.controller_epoch)
    if request.leader_epoch == replica.leader_epoch and replica.role in (LEADER, FOLLOWER):
        return replica
    if request.leader == NOBODY:
        # Only the clients' metadata changes: a broker neither truncates nor takes the epoch while there is no leader.
        return replica._replace(role=FOLLOWER if replica.role == NONE else replica.role, leader=NOBODY)
    return _in_its_role(_with_leadership(replica, request))


def replay(replica: Replica, change: LeaderAndIsr) -> Replica:
    """The replica after its broker has replayed a change from the metadata log, in KRaft mode.

    If the broker knows the leader epoch already, only the ISR changes. If nobody leads, it follows nobody.
    """
    replica = replica._replace(controller_epoch=change.controller_epoch)
    if replica.role == OFFLINE:
        return replica._replace(leader=change.leader)
    knows_epoch = replica.role in (LEADER, FOLLOWER) and change.leader_epoch == replica.leader_epoch
    replica = _with_leadership(replica, change)
    return replica if knows_epoch else _in_its_role(replica)


def _with_leadership(replica: Replica, change: LeaderAndIsr) -> Replica:
    return replica._replace(
        leader=change.leader, leader_epoch=change.leader_epoch, partition_epoch=change.partition_epoch, isr=change.isr
    )


def _in_its_role(replica: Replica) -> Replica:
    """The replica as leader, with the start offset of its epoch, or as follower, which has to truncate first.

    A replica that led before still knows the log ends of its ISR.
    """
    if replica.leader != replica.broker:
        return replica._replace(role=FOLLOWER, fetched=(), truncating=True, parked=False)
    epochs = replica.epochs
    if not epochs or epochs[-1].epoch < replica.leader_epoch:
        epochs = _with_epoch(epochs, replica.leader_epoch, replica.log_end)
    fetched = tuple((broker, end) for broker, end in replica.fetched if broker in replica.isr)
    return replica._replace(role=LEADER, fetched=fetched, truncating=False, parked=False, epochs=epochs)
