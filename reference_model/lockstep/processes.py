"""The actions on a broker's process, its machine and its session: one action, one function.

The session is the registration, in ZooKeeper or with the active KRaft controller.

Like the other actions (`lockstep/environment.py`), each returns the state right after. Sources: Kafka's documentation
("Graceful shutdown", `log.flush.interval.messages`), KIP-380 (a broker takes no request from before it registered).
"""

from kafka_chaos.reference_model.lockstep import state as states
from kafka_chaos.reference_model.lockstep.brokers import truncated
from kafka_chaos.reference_model.lockstep.controller import decide, elect, session_ended, tell, unclean_shutdown

_ON_DISK = ("log", "log_start", "log_end", "active_segment", "flushed", "epochs", "producers")
"""The fields of a replica that outlive its broker's process unchanged."""


def running_replica(state: states.ClusterState, broker: int) -> states.Replica:
    """The replica on a broker; raises `ActionError` unless its process runs and is not frozen."""
    replica = state.replica(broker)
    require(replica.runs, f"broker {broker} does not run")
    return replica


def require(holds: bool, message: str) -> None:
    """Raise `ActionError` with the message unless the condition holds."""
    if not holds:
        raise states.ActionError(message)


def _require_active_controller(state: states.ClusterState) -> None:
    """Raise `ActionError` unless KRaft has an active controller to register brokers, shut them down or end sessions."""
    require(state.quorum is None or state.controller_runs, "no controller is active")


def kill(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """SIGKILL, which ends a frozen process too: what was in memory is gone, what was written stays."""
    replica = state.replica(broker)
    require(replica.up, f"broker {broker} does not run")
    return _down(state, broker, replica.log_end)


def power_loss(state: states.ClusterState, config: states.ClusterConfig, broker: int, kept: int) -> states.ClusterState:
    """A broker's machine loses power, whether the broker runs or was killed. Its log then ends at the offset `kept`.

    What was flushed stays: `kept` lies between the flushed and the written log end.
    """
    replica = state.replica(broker)
    require(
        replica.flushed <= kept <= replica.log_end,
        f"the log of broker {broker} may end between {replica.flushed} and {replica.log_end}, not at {kept}",
    )
    return _down(state, broker, kept)


def _down(state: states.ClusterState, broker: int, log_end: int) -> states.ClusterState:
    """The state after a broker's process has ended, with a log that ends at `log_end`."""
    replica = state.replica(broker)
    if log_end < replica.log_end:
        # Lines of the epoch file are flushed when they are written, so all are kept until `start` cuts them.
        replica = truncated(replica, log_end)._replace(epochs=replica.epochs)
    role = states.OFFLINE if replica.role == states.OFFLINE else states.NONE  # A failed log directory stays offline.
    stopped = replica._replace(up=False, frozen=False, ended_cleanly=False, role=role, fetched=(), parked=False)
    # Requests to the broker are lost. Of the requests that it sent as controller, the first one to each broker still
    # arrives, since it lies in a socket already, unless it goes through a cut.
    arriving, sent_to = [], set()
    for request in state.requests:
        if request.controller == broker:
            if request.to in sent_to or state.is_cut(states.CONTROL, broker, request.to):
                continue
            sent_to.add(request.to)
        if request.to != broker:
            arriving.append(request)
    return state.with_replica(stopped)._replace(requests=tuple(arriving))


def stop(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """Controlled shutdown: the broker hands its leadership over, leaves the ISR, flushes its log and checkpoints."""
    replica = running_replica(state, broker)
    _require_active_controller(state)
    partition = state.partition
    others = [member for member in partition.replicas if member in partition.isr and member != broker]
    live = [member for member in others if state.replica(member).registered]
    # With nobody to hand over to, the controller only sees the session end; the shutdown is clean all the same.
    if live and broker in partition.isr and state.controller:
        leader = live[0] if partition.leader == broker else partition.leader
        state = decide(state, config, leader, tuple(others))
    flushed = replica._replace(flushed=replica.log_end, checkpointed_high_watermark=replica.high_watermark)
    state = _down(state.with_replica(flushed), broker, replica.log_end)
    state = state.with_replica(state.replica(broker)._replace(ended_cleanly=True))
    return session_ended(state, config, broker)


def start(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker starts from its files and registers; the controller sends it the present state."""
    replica = state.replica(broker)
    require(not replica.up, f"broker {broker} runs already")
    _require_active_controller(state)
    if replica.registered:  # It starts before its former session has run out.
        state = session_ended(state, config, broker)
    if not replica.ended_cleanly:
        state = unclean_shutdown(state, config, broker)
    replica = truncated(replica, replica.log_end)  # This cuts the epoch file.
    watermark = min(replica.checkpointed_high_watermark, replica.log_end)
    on_disk = {name: getattr(replica, name) for name in _ON_DISK}
    started = states.Replica(
        broker, role=replica.role, high_watermark=watermark, checkpointed_high_watermark=watermark, **on_disk
    )
    return _after_registration(state.with_replica(started), config, broker)


def _after_registration(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """The state after the controller has seen a broker register: it elects a missing leader, or informs the broker."""
    if not state.controller:
        return state
    if state.partition.leader == states.NOBODY:
        after_election = elect(state, config)
        if after_election.partition != state.partition:
            return after_election
    return tell(state, [broker]) if broker in state.partition.replicas else state


def pause(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker's process is frozen."""
    return state.with_replica(running_replica(state, broker)._replace(frozen=True))


def thaw(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A frozen process continues, and registers again if its session has ended meanwhile."""
    replica = state.replica(broker)
    require(replica.up and replica.frozen, f"broker {broker} is not frozen")
    state = state.with_replica(replica._replace(frozen=False, registered=True))
    return state if replica.registered else _after_registration(state, config, broker)


def expire_session(
    state: states.ClusterState, config: states.ClusterConfig, broker: int, *, returns: bool = True
) -> states.ClusterState:
    """A broker's session ends although its process runs.

    A broker that is not frozen registers again at once if it `returns`, and otherwise by the action `register`.
    """
    replica = state.replica(broker)
    require(replica.up and replica.registered, f"broker {broker} has no session")
    _require_active_controller(state)
    state = session_ended(state, config, broker)
    if replica.frozen or not returns:
        return state
    return register(state, config, broker)


def register(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker whose session had ended registers again."""
    replica = running_replica(state, broker)
    require(not replica.registered, f"broker {broker} is registered")
    return _after_registration(state.with_replica(replica._replace(registered=True)), config, broker)
