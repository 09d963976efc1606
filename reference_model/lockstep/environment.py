"""Actions on a cluster from outside: faults, healing, operators, producers, and the cleaning of logs.

Each action is a function. It takes the state, the configuration and its own arguments, and returns the state right
after; `ClusterModel.settle` adds what the cluster then does by itself. An action that makes no sense in a state, such
as starting a broker that runs, raises `ActionError`: a scenario that asks for it is wrong.

Cleaning is retention and compaction. Every replica cleans its own log, and only closed segments: retention rolls an
expired active segment first, compaction leaves the active one alone. Retention deletes nothing at or above the high
watermark. Left out: segment sizes and times, the compaction lag options and `delete.retention.ms`; the arguments say
what has expired, and whether tombstones have. Sources: Kafka's documentation of `cleanup.policy`, `retention.ms`,
`retention.bytes` and log compaction.
"""

from collections.abc import Callable, Mapping, Sequence

from kafka_chaos.reference_model.lockstep import controller as controllers
from kafka_chaos.reference_model.lockstep import processes, quorum
from kafka_chaos.reference_model.lockstep.brokers import append, handle, with_advanced_watermark
from kafka_chaos.reference_model.lockstep.processes import require, running_replica
from kafka_chaos.reference_model.lockstep.producers import Entry, remembered
from kafka_chaos.reference_model.lockstep.state import (
    CLIENTS,
    CONTROL,
    HELD_FETCHES,
    LEADER,
    OFFLINE,
    QUORUM,
    REPLICATION,
    ClusterConfig,
    ClusterState,
    EpochStart,
    Produce,
)
from kafka_chaos.reference_model.protocol.isr import refuses_append

CHANNELS = (REPLICATION, HELD_FETCHES, CONTROL, CLIENTS, QUORUM)


def roll(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker closes its active segment. The new one begins at the log end offset."""
    replica = state.replica(broker)
    return state.with_replica(replica._replace(active_segment=replica.log_end))


def apply_retention(state: ClusterState, config: ClusterConfig, expired_below: int | None = None) -> ClusterState:
    """Every running broker deletes its expired segments: those below the offset `expired_below`.

    Without an offset all records have expired, and the active segment is rolled first.
    """
    for replica in state.replicas:
        if replica.runs:
            active = replica.log_end if expired_below is None else replica.active_segment
            limit = replica.log_end if expired_below is None else expired_below
            start = max(replica.log_start, min(limit, active, replica.high_watermark))
            kept = tuple(entry for entry in replica.log if entry.offset >= start)
            earlier = [line for line in replica.epochs if line.start <= start]
            later = tuple(line for line in replica.epochs if line.start > start)
            epochs = (EpochStart(earlier[-1].epoch, start), *later) if earlier else later
            state = state.with_replica(
                replica._replace(log=kept, log_start=start, active_segment=active, epochs=epochs)
            )
    return state


def compact(state: ClusterState, config: ClusterConfig, *, drop_tombstones: bool = False) -> ClusterState:
    """Every running broker keeps the last record per key in its closed segments; offsets stay as they are.

    `drop_tombstones`: `delete.retention.ms` has passed since tombstones were cleaned, so that they go as well.
    """
    for replica in state.replicas:
        if replica.runs:
            cleanable = min(replica.active_segment, replica.high_watermark)
            last = {
                entry.key: entry.offset for entry in replica.log if entry.key is not None and entry.offset < cleanable
            }
            kept = tuple(
                entry
                for entry in replica.log
                if entry.offset >= cleanable
                or entry.key is None
                or (last[entry.key] == entry.offset and not (entry.tombstone and drop_tombstones))
            )
            state = state.with_replica(replica._replace(log=kept))
    return state


def produce(
    state: ClusterState,
    config: ClusterConfig,
    record: str,
    *,
    acks: str = "all",
    producer: str = "p",
    idempotent: bool = False,
    key: str | None = None,
    tombstone: bool = False,
) -> ClusterState:
    """A producer has a record to send; an idempotent one gives it the next sequence number."""
    require(acks in ("0", "1", "all"), f"acks {acks!r}: expected 0, 1 or all")
    require(acks == "all" or not idempotent, "an idempotent producer needs acks=all")
    sequence = _next_sequence(state, producer) if idempotent else None
    sent = Produce(record, producer, acks, idempotent, sequence, key, tombstone=tombstone)
    return state._replace(outgoing=(*state.outgoing, sent))


def _next_sequence(state: ClusterState, producer: str) -> int:
    """The sequence number after the highest one that a producer has used, in flight or in any log."""
    used = [sent.sequence for sent in state.outgoing if sent.producer == producer]
    used += [pending.produce.sequence for pending in state.pending if pending.produce.producer == producer]
    used += [batch.sequence for replica in state.replicas for batch in remembered(replica.producers, producer)]
    return max((number for number in used if number is not None), default=-1) + 1


def send_unanswered(state: ClusterState, config: ClusterConfig, record: str, *, acks: str = "1") -> ClusterState:
    """The leader appends a request whose producer has closed the connection, so that nobody is answered."""
    leader = running_replica(state, state.partition.leader)
    require(leader.role == LEADER, f"broker {leader.broker} does not lead")
    refused = acks == "all" and refuses_append(len(leader.isr), config.effective_min_isr)
    require(not refused, f"broker {leader.broker} refuses {record}: too few replicas are in sync")
    entry = Entry(leader.log_end, record, leader.leader_epoch)
    return state.with_replica(with_advanced_watermark(append(leader, (entry,), leader.log_end + 1), config))


def give_up(state: ClusterState, config: ClusterConfig, record: str) -> ClusterState:
    """A producer's delivery time-out passes for a record that was not answered."""
    outgoing = tuple(sent for sent in state.outgoing if sent.record != record)
    pending = tuple(waiting for waiting in state.pending if waiting.produce.record != record)
    return state._replace(outgoing=outgoing, pending=pending)


def cut(state: ClusterState, config: ClusterConfig, channel: str, source: int, target: int) -> ClusterState:
    """Requests from one broker to another no longer arrive on a channel, and a parked fetch there is broken off."""
    require(channel in CHANNELS, f"channel {channel!r}: expected {', '.join(CHANNELS)}")
    if channel == REPLICATION:
        follower = state.replica(source)
        if follower.leader == target:
            state = state.with_replica(follower._replace(parked=False))
    return state._replace(cuts=tuple(sorted({*state.cuts, (channel, source, target)})))


def heal(state: ClusterState, config: ClusterConfig, channel: str, source: int, target: int) -> ClusterState:
    """A cut is lifted."""
    require((channel, source, target) in state.cuts, f"no cut on {channel} from {source} to {target}")
    return state._replace(cuts=tuple(other for other in state.cuts if other != (channel, source, target)))


def expire_lag(state: ClusterState, config: ClusterConfig) -> ClusterState:
    """`replica.lag.time.max.ms` passes: the leader drops every follower that does not catch up."""
    while (dropped := next(controllers.drop_lagging(state, config), None)) is not None:
        state = dropped
    return state


def reassign(state: ClusterState, config: ClusterConfig, replicas: Sequence[int]) -> ClusterState:
    """The assignment gets another order and with it another preferred leader, or other replicas (KIP-455).

    New replicas are added first; once all of them are in the ISR, those that are no longer wanted are removed.
    """
    target = tuple(replicas)
    for broker in target:
        # Refuses a broker that is not there.
        state.replica(broker)
    require(
        bool(target) and len(set(target)) == len(target),
        f"a reassignment names one or more different brokers, not {list(target)}",
    )
    partition = state.partition
    is_reordered = set(target) == set(partition.replicas) and set(target) <= set(partition.isr)
    if is_reordered and not partition.target:
        # There is nothing to wait for; the replicas still learn of their new order.
        state = state._replace(partition=partition._replace(replicas=target))
        may_decide = partition.leader and state.controller
        return controllers.decide(state, config, partition.leader, partition.isr) if may_decide else state
    require(not state.partition.target, "a reassignment is under way")
    require(bool(state.controller), "there is no controller to reassign replicas")
    return controllers.start_reassignment(state, config, target)


def elect_preferred(state: ClusterState, config: ClusterConfig) -> ClusterState:
    """Preferred leader election: the first replica of the assignment leads, if it is in the ISR and alive."""
    partition = state.partition
    preferred = partition.replicas[0]
    is_electable = state.replica(preferred).registered and preferred in partition.isr
    if not state.controller or preferred == partition.leader or not is_electable:
        return state
    return controllers.decide(state, config, preferred, partition.isr)


def fail_log_directory(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker's log directory fails: the replica is offline, and the controller learns of it."""
    replica = running_replica(state, broker)._replace(role=OFFLINE, fetched=(), parked=False, truncating=False)
    return controllers.replica_failed(state.with_replica(replica), config, broker)


def take_over(state: ClusterState, config: ClusterConfig, controller: int) -> ClusterState:
    """A node that is none of the brokers becomes controller, and informs them, as in a migration to KRaft (KIP-866)."""
    require(controller not in config.brokers, f"{controller} is a broker: expected a KRaft controller's id")
    after = state._replace(controller=controller, controller_epoch=state.controller_epoch + 1)
    return controllers.tell(after, controllers.live_brokers(after))


def send_leader_and_isr(
    state: ClusterState,
    config: ClusterConfig,
    broker: int,
    *,
    authorized: bool = True,
    controller_epoch: int | None = None,
    leader_epoch: int | None = None,
) -> ClusterState:
    """A broker gets the request that the controller would now send, with other epochs or without authorization."""
    request = controllers.request_to(state, broker)
    if controller_epoch is not None:
        request = request._replace(controller_epoch=controller_epoch)
    if leader_epoch is not None:
        request = request._replace(leader_epoch=leader_epoch)
    return state.with_replica(handle(running_replica(state, broker), request, authorized=authorized))


_ACTIONS: tuple[Callable[..., ClusterState], ...] = (
    produce, send_unanswered, give_up, cut, heal,
    processes.kill, processes.power_loss, processes.stop, processes.start, processes.pause, processes.thaw,
    processes.expire_session, processes.register, quorum.kill_controllers, quorum.start_controllers,
    expire_lag, reassign, elect_preferred, fail_log_directory, take_over, send_leader_and_isr, roll,
    apply_retention, compact,
)  # fmt: skip
ACTIONS: Mapping[str, Callable[..., ClusterState]] = {action.__name__: action for action in _ACTIONS}
"""The external actions by name, as scenarios call them."""
