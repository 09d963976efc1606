"""The actions on a broker's process, its machine and its ZooKeeper session: one action, one function.

As in `lockstep/environment.py`, which has the other actions, each returns the state right after. Sources: Kafka's
documentation ("Graceful shutdown", `log.flush.interval.messages`), KIP-380 (nothing from before a registration).
"""

from kafka_chaos.reference_model.lockstep import state as states
from kafka_chaos.reference_model.lockstep.brokers import truncated
from kafka_chaos.reference_model.lockstep.controller import decide, elect, session_ended, tell, unclean_shutdown

_ON_DISK = ("log", "log_start", "log_end", "active_segment", "flushed", "epochs", "producers")
"""The fields of a replica that outlive its broker's process unchanged."""


def running(state: states.ClusterState, broker: int) -> states.Replica:
    """The replica on a broker; raises `ActionError` unless its process runs and is not frozen."""
    replica = state.replica(broker)
    require(replica.runs, f"broker {broker} does not run")
    return replica


def require(holds: bool, message: str) -> None:
    """Raise `ActionError` with the message unless the condition holds."""
    if not holds:
        raise states.ActionError(message)


def _require_quorum(state: states.ClusterState) -> None:
    """Raise `ActionError` if no controller is active: then no broker starts or shuts down in order, no session ends."""
    require(state.quorum is None or state.controller_runs, "no controller is active")


def kill(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """SIGKILL, which ends a frozen process too: what was in memory is gone, what was written stays."""
    replica = state.replica(broker)
    require(replica.up, f"broker {broker} does not run")
    return _down(state, broker, replica.log_end)


def power_loss(state: states.ClusterState, config: states.ClusterConfig, broker: int, kept: int) -> states.ClusterState:
    """The machine loses power, or had lost it when its broker was killed. Afterwards the log ends at `kept`.

    What was flushed stays: `kept` lies between the flushed and the written log end.
    """
    replica = state.replica(broker)
    require(
        replica.flushed <= kept <= replica.log_end,
        f"broker {broker} keeps between {replica.flushed} and {replica.log_end}, not {kept}",
    )
    return _down(state, broker, kept)


def _down(state: states.ClusterState, broker: int, log_end: int) -> states.ClusterState:
    """The state after a broker's process has ended, with a log that ends at `log_end`."""
    replica = state.replica(broker)
    if log_end < replica.log_end:
        # Lines of the epoch file are flushed when they are written; the broker cuts them at its next start.
        replica = truncated(replica, log_end)._replace(epochs=replica.epochs)
    stopped = replica._replace(
        up=False, frozen=False, cleanly=False, role=_role_after(replica), fetched=(), parked=False
    )
    # Requests to the broker are lost. Of those that it sent as controller, the first one to each broker still arrives,
    # since it lies in a socket already, unless it goes through a cut.
    arriving, sent_to = [], set()
    for request in state.requests:
        if request.controller == broker:
            if request.to in sent_to or state.is_cut(states.CONTROL, broker, request.to):
                continue
            sent_to.add(request.to)
        if request.to != broker:
            arriving.append(request)
    return state.with_replica(stopped)._replace(requests=tuple(arriving))


def _role_after(replica: states.Replica) -> str:
    return states.OFFLINE if replica.role == states.OFFLINE else states.NONE


def stop(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """Controlled shutdown: the broker hands its leadership over, leaves the ISR, flushes its log and checkpoints."""
    replica = running(state, broker)
    _require_quorum(state)
    partition = state.partition
    others = [member for member in partition.replicas if member in partition.isr and member != broker]
    live = [member for member in others if state.replica(member).registered]
    if live and broker in partition.isr and state.controller:
        leader = live[0] if partition.leader == broker else partition.leader
        state = decide(state, config, leader, tuple(others))
    flushed = replica._replace(flushed=replica.log_end, checkpointed_high_watermark=replica.high_watermark)
    state = _down(state.with_replica(flushed), broker, replica.log_end)
    state = state.with_replica(state.replica(broker)._replace(cleanly=True))
    return session_ended(state, config, broker)


def start(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker starts from its files and registers; the controller sends it the present state."""
    replica = state.replica(broker)
    require(not replica.up, f"broker {broker} runs already")
    _require_quorum(state)
    if replica.registered:
        state = session_ended(state, config, broker)
    if not replica.cleanly:
        state = unclean_shutdown(state, config, broker)
    replica = truncated(replica, replica.log_end)
    watermark = min(replica.checkpointed_high_watermark, replica.log_end)
    on_disk = {name: getattr(replica, name) for name in _ON_DISK}
    started = states.Replica(broker, role=_role_after(replica), high_watermark=watermark, **on_disk)
    started = started._replace(checkpointed_high_watermark=watermark)
    return _registered(state.with_replica(started), config, broker)


def _registered(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """The state after the controller has seen a broker register: it elects a leader, or informs the broker."""
    if not state.controller:
        return state
    if state.partition.leader == states.NOBODY:
        after_election = elect(state, config)
        if after_election.partition != state.partition:
            return after_election
    return tell(state, [broker]) if broker in state.partition.replicas else state


def pause(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker's process is frozen."""
    return state.with_replica(running(state, broker)._replace(frozen=True))


def thaw(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A frozen process runs on, and registers again if its session has ended meanwhile."""
    replica = state.replica(broker)
    require(replica.up and replica.frozen, f"broker {broker} is not frozen")
    state = state.with_replica(replica._replace(frozen=False, registered=True))
    return state if replica.registered else _registered(state, config, broker)


def expire_session(
    state: states.ClusterState, config: states.ClusterConfig, broker: int, *, returns: bool = True
) -> states.ClusterState:
    """A broker's ZooKeeper session ends although its process runs.

    A broker that is not frozen registers again at once. Without `returns`, it does so later, by the action `register`.
    """
    replica = state.replica(broker)
    require(replica.up and replica.registered, f"broker {broker} has no session")
    _require_quorum(state)
    state = session_ended(state, config, broker)
    if replica.frozen or not returns:
        return state
    return register(state, config, broker)


def register(state: states.ClusterState, config: states.ClusterConfig, broker: int) -> states.ClusterState:
    """A broker whose session had ended reaches ZooKeeper again and registers."""
    replica = running(state, broker)
    require(not replica.registered, f"broker {broker} is registered")
    return _registered(state.with_replica(replica._replace(registered=True)), config, broker)
