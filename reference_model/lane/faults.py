"""The faults that can hit a lane, as actions of its environment: one kind, one function, one registry.

Each function yields every way in which a fault of its kind can strike a broker in a state. A fault uses up one entry of
`Lane.faults`. Healing (a restart, a thaw, learning of the new leader) uses up none and may come at any later moment.

- A kill ends the process; the operating system keeps what was written. Power loss also drops any suffix of the log,
  since the operating system decides what is flushed when (`log.flush.interval.messages` has its default; with 1, every
  record is flushed). Several brokers that lose power at once are several entries.
- A kill and a power loss are unclean shutdowns: a broker that comes back from one is no eligible leader replica
  (KIP-966). After a controlled shutdown, a pause or a partition, a replica that was eligible still is.
- A pause or a partition that outlasts the session with ZooKeeper, or in KRaft mode with the controller, makes a leader
  a zombie. A paused broker answers nobody; a partitioned one may or may not stay within its clients' reach: both are
  explored.
- A request that arrives twice does not hinder its broker. Every other fault keeps a follower from fetching, and out
  of the ISR, until the follower is back.
"""

from collections.abc import Callable, Iterator, Mapping

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.effects import Action, Step, drop_connections, observe
from kafka_chaos.reference_model.lane.exchanges import deliver
from kafka_chaos.reference_model.lane.membership import without_failed
from kafka_chaos.reference_model.lane.replication import depose, lead
from kafka_chaos.reference_model.protocol.entries import content_of, leader_epoch_of
from kafka_chaos.reference_model.tuples import each_taken, with_item


def kill(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """SIGKILL: connections break, the log stays as it was written."""
    yield Action("kill", broker), fail_broker(state, lane, broker, clean=False)


def power_loss(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """The machine loses power: any suffix of the log that was not flushed is gone."""
    end = len(state.replicas[broker].log)
    for log_end in (end,) if lane.flushes else range(end + 1):
        failed = fail_broker(state, lane, broker, log_end=log_end, clean=False)
        yield Action("power_loss", broker, detail=str(log_end)), failed


def stop(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """Controlled shutdown: leadership first moves to another live member of the ISR, if there is one."""
    heirs = [
        heir for heir, r in state.representative_replicas() if heir != broker and r.role == states.FOLLOWER and r.in_isr
    ]
    stopped = fail_broker(state, lane, broker)
    if state.replicas[broker].role != states.LEADER or not heirs:
        yield Action("stop", broker), stopped
        return
    for heir in heirs:
        yield Action("stop_and_move", broker, detail=str(heir)), lead(stopped, lane, heir, stopped.replicas)


def pause(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """The process is frozen; requests to it pile up in its socket."""
    replica = state.replicas[broker]
    if replica.role == states.LEADER:
        yield Action("pause", broker), state.with_replica(broker, replica._replace(role=states.FROZEN_LEADER))
    elif replica.role == states.FOLLOWER:
        yield Action("pause", broker), fail_broker(state, lane, broker)


def partition(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """The broker is cut off from the other brokers and from the controller, with or without its clients."""
    replica = state.replicas[broker]
    if replica.role == states.LEADER:
        yield Action("partition", broker), depose(state, lane, broker)
        out_of_reach = state.with_replica(broker, replica._replace(role=states.FROZEN_LEADER))
        yield Action("partition_from_clients", broker), out_of_reach
    elif replica.role == states.FOLLOWER:
        yield Action("partition", broker), fail_broker(state, lane, broker)


def session_expiry(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """The session of a broker expires while it runs. Only later does the broker learn that another one leads."""
    replica = state.replicas[broker]
    if replica.role == states.LEADER:
        yield Action("session_expiry", broker), depose(state, lane, broker)
    elif replica.role == states.FOLLOWER:
        yield Action("session_expiry", broker), fail_broker(state, lane, broker)


def repeat(state: states.LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """A produce request arrives twice: the producer knows nothing of the copy, which comes right behind the request.

    So when the copy arrives, the request is still unread, or its record is the last one that the broker appended.
    """
    replica = state.replicas[broker]
    for request in dict.fromkeys((*replica.awaited, *replica.unawaited)):
        copied = replica._replace(unawaited=tuple(sorted((*replica.unawaited, request))))
        yield Action("repeat_queued", broker, states.record_of(request)), state.with_replica(broker, copied)
    last = replica.log[-1] if replica.role in (states.LEADER, states.ZOMBIE) and replica.log else None
    if last is not None and leader_epoch_of(last) == replica.leader_epoch:
        for _, after in deliver(state, lane, broker, content_of(last), awaited=False):
            if after != state:
                yield Action("repeat", broker, states.record_of(last), str(len(replica.log))), after


FAULT_ACTIONS: Mapping[str, Callable[[states.LaneState, Lane, int], Iterator[Step]]] = {
    "kill": kill,
    "power-loss": power_loss,
    "stop": stop,
    "pause": pause,
    "partition": partition,
    "session-expiry": session_expiry,
    "repeat": repeat,
}


def strike(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """Every way in which one of the faults that are left can strike a broker that is not down."""
    for kind, faults_left in each_taken(state.faults):
        rest = state._replace(faults=faults_left)
        for broker, replica in state.representative_replicas():
            if replica.role != states.DOWN:
                yield from FAULT_ACTIONS[kind](rest, lane, broker)


def fail_broker(
    state: states.LaneState, lane: Lane, broker: int, *, log_end: int | None = None, clean: bool = True
) -> states.LaneState:
    """The state after a broker's process has gone or is out of reach, with a log that ends at `log_end` or is whole.

    The broker leaves the ISR as `membership.without_failed` says. `clean`: it shut down cleanly, or still runs.

    With clean elections, a broker that is down counts as back at once: it behaves like one that is back and has fetched
    nothing yet. With unclean elections the two differ, since only a broker that is back can be elected.
    """
    state = drop_connections(state, broker)
    replicas = without_failed(state.replicas, lane, broker, clean=clean)
    replica = replicas[broker]
    role = states.DOWN if lane.unclean_leader_election else states.FOLLOWER
    failed = states.LaneReplica(role, replica.in_isr, replica.log[:log_end], standing=replica.standing)
    replicas = states.follow_leader(with_item(replicas, broker, failed), states.truncation_of(lane))
    return observe(state.with_replicas(replicas), lane)
