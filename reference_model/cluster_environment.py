"""What is done to a cluster from outside: faults, healing, operators and producers. One action, one function.

Each takes the state, the configuration and its own arguments, and returns the state right after; what the
cluster then does of itself is `ClusterModel.settle`. An action that makes no sense in a state (starting a broker
that runs) raises `ActionError`: a scenario that asks for it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafka_chaos.reference_model.cluster_brokers import truncated
from kafka_chaos.reference_model.cluster_cleaning import apply_retention, compact, roll
from kafka_chaos.reference_model.cluster_controller import (
    decide,
    drop_lagging,
    elect,
    handle,
    request_to,
    session_ended,
    start_reassignment,
    tell,
)
from kafka_chaos.reference_model.cluster_producers import last_sequence
from kafka_chaos.reference_model.cluster_state import (
    CLIENTS,
    CONTROL,
    HELD,
    NOBODY,
    NONE,
    OFFLINE,
    REPLICATION,
    ClusterConfig,
    ClusterState,
    Consumer,
    LeaderAndIsr,
    Produce,
    Replica,
)

CHANNELS = (REPLICATION, HELD, CONTROL, CLIENTS)


class ActionError(ValueError):
    """An action that can't be taken in this state, or whose arguments name nothing there is."""


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
    _require(acks in ("0", "1", "all"), f"acks {acks!r}: expected 0, 1 or all")
    _require(acks == "all" or not idempotent, "an idempotent producer needs acks=all")
    sequence = _next_sequence(state, producer) if idempotent else None
    sent = Produce(record, producer, acks, idempotent, sequence, key, tombstone=tombstone)
    return state._replace(outgoing=(*state.outgoing, sent))


def _next_sequence(state: ClusterState, producer: str) -> int:
    """One after the highest this producer has used, in flight or in any log."""
    used = [sent.sequence for sent in state.outgoing if sent.producer == producer]
    used += [pending.produce.sequence for pending in state.pending if pending.produce.producer == producer]
    used += [last_sequence(replica.producers, producer) for replica in state.replicas]
    return max((number for number in used if number is not None), default=-1) + 1


def give_up(state: ClusterState, config: ClusterConfig, record: str) -> ClusterState:
    """A producer's delivery time-out passes for a record that was not answered."""
    outgoing = tuple(sent for sent in state.outgoing if sent.record != record)
    pending = tuple(waiting for waiting in state.pending if waiting.produce.record != record)
    return state._replace(outgoing=outgoing, pending=pending)


def consume(state: ClusterState, config: ClusterConfig, consumer: str = "c") -> ClusterState:
    """A consumer polls, from offset 0 the first time; it waits until a broker that leads answers."""
    others = tuple(one for one in state.consumers if one.name != consumer)
    known = next((one for one in state.consumers if one.name == consumer), Consumer(consumer))
    return state._replace(consumers=tuple(sorted((*others, known._replace(polling=True)))))


def cut(state: ClusterState, config: ClusterConfig, channel: str, source: int, target: int) -> ClusterState:
    """Requests from one broker to another no longer arrive on a channel; what waited there is broken off."""
    _require(channel in CHANNELS, f"channel {channel!r}: expected {', '.join(CHANNELS)}")
    if channel == REPLICATION:
        follower = _replica(state, source)
        if follower.leader == target:
            state = state.with_replica(follower._replace(parked=False))
    return state._replace(cuts=tuple(sorted({*state.cuts, (channel, source, target)})))


def heal(state: ClusterState, config: ClusterConfig, channel: str, source: int, target: int) -> ClusterState:
    """A cut is lifted."""
    _require((channel, source, target) in state.cuts, f"no cut on {channel} from {source} to {target}")
    return state._replace(cuts=tuple(c for c in state.cuts if c != (channel, source, target)))


def kill(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """SIGKILL: what was in memory is gone, what was written stays."""
    return _down(state, broker, _running(state, broker).log_end)


def power_loss(state: ClusterState, config: ClusterConfig, broker: int, kept: int) -> ClusterState:
    """The machine loses power, or had lost it when it was killed: the log ends at `kept` afterwards.

    What was flushed stays: `kept` lies between the flushed and the written log end.
    """
    replica = _replica(state, broker)
    _require(
        replica.flushed <= kept <= replica.log_end,
        f"broker {broker} keeps between {replica.flushed} and {replica.log_end}, not {kept}",
    )
    return _down(state, broker, kept)


def _down(state: ClusterState, broker: int, log_end: int) -> ClusterState:
    replica = _replica(state, broker)
    if log_end < replica.log_end:
        # Lines of the epoch file are flushed when they are written; the broker cuts them at its next start.
        replica = truncated(replica, log_end)._replace(epochs=replica.epochs)
    stopped = replica._replace(up=False, frozen=False, role=_role_after(replica), fetched=(), parked=False)
    requests = tuple(request for request in state.requests if request.to != broker)
    return state.with_replica(stopped)._replace(requests=requests)


def _role_after(replica: Replica) -> str:
    return OFFLINE if replica.role == OFFLINE else NONE


def stop(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """Controlled shutdown: the leader moves to another member of the ISR, the broker leaves it, flushes its log
    and checkpoints its high watermark."""
    replica = _running(state, broker)
    partition = state.partition
    others = [b for b in partition.replicas if b in partition.isr and b != broker]
    live = [b for b in others if state.replica(b).registered]
    if live and broker in partition.isr and state.controller:
        leader = live[0] if partition.leader == broker else partition.leader
        state = decide(state, leader, tuple(others))
    flushed = replica._replace(flushed=replica.log_end, checkpointed_high_watermark=replica.high_watermark)
    state = _down(state.with_replica(flushed), broker, replica.log_end)
    return session_ended(state, config, broker)


def start(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker starts from its files and registers; the controller tells it what holds now."""
    replica = _replica(state, broker)
    _require(not replica.up, f"broker {broker} runs already")
    if replica.registered:
        state = session_ended(state, config, broker)
    replica = truncated(replica, replica.log_end)
    watermark = min(replica.checkpointed_high_watermark, replica.log_end)
    started = Replica(
        broker,
        role=_role_after(replica),
        high_watermark=watermark,
        log=replica.log,
        log_start=replica.log_start,
        log_end=replica.log_end,
        active_segment=replica.active_segment,
        flushed=replica.flushed,
        checkpointed_high_watermark=watermark,
        epochs=replica.epochs,
        producers=replica.producers,
    )
    return _registered(state.with_replica(started), config, broker)


def _registered(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    if not state.controller:
        return state
    if state.partition.leader == NOBODY:
        electing = elect(state, config)
        if electing.partition != state.partition:
            return electing
    return tell(state, [broker]) if broker in state.partition.replicas else state


def pause(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker's process is frozen."""
    return state.with_replica(_running(state, broker)._replace(frozen=True))


def thaw(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A frozen process runs on, and registers again if its session has ended meanwhile."""
    replica = _replica(state, broker)
    _require(replica.up and replica.frozen, f"broker {broker} is not frozen")
    state = state.with_replica(replica._replace(frozen=False, registered=True))
    return state if replica.registered else _registered(state, config, broker)


def expire_session(state: ClusterState, config: ClusterConfig, broker: int, *, returns: bool = True) -> ClusterState:
    """A broker's ZooKeeper session ends although its process is there.

    One that runs registers again at once, unless it does not reach ZooKeeper: then `register` is when it does.
    """
    replica = _replica(state, broker)
    _require(replica.up and replica.registered, f"broker {broker} has no session")
    state = session_ended(state, config, broker)
    if replica.frozen or not returns:
        return state
    return register(state, config, broker)


def register(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker whose session had ended reaches ZooKeeper again and registers."""
    replica = _running(state, broker)
    _require(not replica.registered, f"broker {broker} is registered")
    return _registered(state.with_replica(replica._replace(registered=True)), config, broker)


def expire_lag(state: ClusterState, config: ClusterConfig) -> ClusterState:
    """`replica.lag.time.max.ms` passes: the leader drops every follower that does not catch up."""
    while (dropped := next(drop_lagging(state, config), None)) is not None:
        state = dropped[1]
    return state


def reassign(state: ClusterState, config: ClusterConfig, replicas: Sequence[int]) -> ClusterState:
    """The assignment gets another order and with it another preferred leader, or other replicas (KIP-455).

    New replicas are added first; once all of them are in the ISR, those that are no longer wanted are removed.
    """
    target = tuple(replicas)
    for broker in target:
        _replica(state, broker)
    _require(
        bool(target) and len(set(target)) == len(target),
        f"a reassignment names one or more different brokers, not {list(target)}",
    )
    partition = state.partition
    same = set(target) == set(partition.replicas) and set(target) <= set(partition.isr)
    if same and not partition.target:
        # There is nothing to wait for; the replicas are told of their new order in a new leader epoch all the same.
        state = state._replace(partition=partition._replace(replicas=target))
        return decide(state, partition.leader, partition.isr) if partition.leader and state.controller else state
    _require(not state.partition.target, "a reassignment is under way")
    _require(bool(state.controller), "there is no controller to reassign replicas")
    return start_reassignment(state, target)


def elect_preferred(state: ClusterState, config: ClusterConfig) -> ClusterState:
    """Preferred leader election: the first replica of the assignment leads, if it is in the ISR and alive."""
    partition = state.partition
    preferred = partition.replicas[0]
    alive = state.replica(preferred).registered and preferred in partition.isr
    if not state.controller or preferred == partition.leader or not alive:
        return state
    return decide(state, preferred, partition.isr)


def fail_log_directory(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker's log directory fails: the replica is offline, and the controller is told."""
    replica = _running(state, broker)._replace(role=OFFLINE, fetched=(), parked=False, truncating=False)
    state = state.with_replica(replica)
    partition = state.partition
    if partition.leader == broker:
        return elect(state, config, excluded=broker)
    if broker in partition.isr and len(partition.isr) > 1:
        return decide(state, partition.leader, tuple(b for b in partition.isr if b != broker))
    return state


def send_leader_and_isr(
    state: ClusterState,
    config: ClusterConfig,
    broker: int,
    *,
    authorized: bool = True,
    controller_epoch: int | None = None,
    leader_epoch: int | None = None,
) -> ClusterState:
    """Somebody sends a broker the controller's present request, with other epochs or without the right to."""
    _, after = handle(
        _running(state, broker),
        forged_request(state, broker, controller_epoch, leader_epoch),
        authorized=authorized,
    )
    return state.with_replica(after)


def forged_request(
    state: ClusterState, broker: int, controller_epoch: int | None, leader_epoch: int | None
) -> LeaderAndIsr:
    """The controller's present request to a broker, with other epochs where given."""
    request = request_to(state, broker)
    if controller_epoch is not None:
        request = request._replace(controller_epoch=controller_epoch)
    return request if leader_epoch is None else request._replace(leader_epoch=leader_epoch)


def _replica(state: ClusterState, broker: int) -> Replica:
    try:
        return state.replica(broker)
    except KeyError as error:
        raise ActionError(error.args[0]) from error


def _running(state: ClusterState, broker: int) -> Replica:
    replica = _replica(state, broker)
    _require(replica.runs, f"broker {broker} does not run")
    return replica


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ActionError(message)


ACTIONS: Mapping[str, Callable[..., ClusterState]] = {
    action.__name__: action
    for action in (
        produce,
        give_up,
        consume,
        cut,
        heal,
        kill,
        power_loss,
        stop,
        start,
        pause,
        thaw,
        expire_session,
        register,
        expire_lag,
        reassign,
        elect_preferred,
        fail_log_directory,
        send_leader_and_isr,
        roll,
        apply_retention,
        compact,
    )
}
"""The external actions by name, as scenarios call them."""
