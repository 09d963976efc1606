"""Actions of dedicated controllers (KRaft): which one is active, and which brokers a new one fences.

The rules are those of `protocol/quorum.py`. A controller that is killed comes back with its log. Controllers reach each
other unless the channel `quorum` is cut between them, and brokers reach all of them. The number of attempts that an
election takes is left out: the epoch counts elections that were won.
"""

from collections.abc import Iterator

from kafka_chaos.reference_model.lockstep.controller import broker_failed
from kafka_chaos.reference_model.lockstep.processes import register, require
from kafka_chaos.reference_model.lockstep.state import NOBODY, ClusterConfig, ClusterState, Quorum
from kafka_chaos.reference_model.protocol.quorum import forces_election, has_majority, may_expire_sessions, stays_active
from kafka_chaos.reference_model.tuples import excluding


def kill_controllers(state: ClusterState, config: ClusterConfig, controllers: tuple[int, ...]) -> ClusterState:
    """SIGKILL of dedicated controllers, all at once."""
    quorum = _quorum(state, controllers)
    for controller in controllers:
        require(controller not in quorum.down, f"controller {controller} does not run")
    campaigned = excluding(quorum.campaigned, controllers)
    return _with_quorum(state, down=(*quorum.down, *controllers), campaigned=campaigned)


def start_controllers(state: ClusterState, config: ClusterConfig, controllers: tuple[int, ...]) -> ClusterState:
    """Controllers that were killed start from their files, all at once: any of them may be elected."""
    quorum = _quorum(state, controllers)
    for controller in controllers:
        require(controller in quorum.down, f"controller {controller} runs already")
    return _with_quorum(state, down=excluding(quorum.down, controllers))


def active_controller_changes(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """Controllers resign, are deposed and are elected, as far as they reach each other; urgent."""
    quorum = state.quorum
    if quorum is None:
        return
    active, voters = state.controller, quorum.voters
    electable = [voter for voter in voters if has_majority(len(state.reached_by(voter)), len(voters))]
    if not active:
        yield from _elect(state, quorum, electable)
    elif active in quorum.down:
        # The active controller is gone.
        yield state._replace(controller=NOBODY)
    elif not stays_active(len(state.reached_by(active)), len(voters), resigns=config.resigns_without_majority):
        campaigned = (*quorum.campaigned, active)
        after = _with_quorum(state, campaigned=campaigned, former_was_reachable=True)
        yield after._replace(controller=NOBODY)
    elif quorum.rival and set(state.reached_by(active)) & set(state.reached_by(quorum.rival)):
        # The active controller learns of its rival.
        yield _take_over(_with_quorum(state, former_was_reachable=True), quorum.rival)
    elif active not in electable and not quorum.rival:
        # Brokers do not hear of the election.
        yield from (_with_quorum(state, rival=rival) for rival in electable)
    else:
        yield from _meet_again(state, config, quorum)


def _elect(state: ClusterState, quorum: Quorum, electable: list[int]) -> Iterator[ClusterState]:
    """Any controller with a majority is elected. If there is none, each controller that runs goes on trying."""
    for controller in electable:
        if controller not in quorum.behind:
            yield _take_over(state, controller)
    trying = excluding(quorum.voters, quorum.down)
    if not electable and not (quorum.interrupted and quorum.campaigned == trying):
        yield _with_quorum(state, interrupted=True, campaigned=trying)


def _take_over(state: ClusterState, controller: int) -> ClusterState:
    """The state after a controller has become active in a new epoch. Controllers that it reaches campaign no longer."""
    quorum = state.quorum
    assert quorum is not None
    may_expire = may_expire_sessions(quorum.interrupted, quorum.former_was_reachable)
    doubted = tuple(r.broker for r in state.replicas if may_expire and r.registered and r.runs)
    reached = state.reached_by(controller)
    state = state._replace(controller=controller, controller_epoch=state.controller_epoch + 1)
    return _with_quorum(
        state,
        rival=NOBODY,
        campaigned=excluding(quorum.campaigned, reached),
        behind=(),
        interrupted=False,
        former_was_reachable=False,
        doubted=doubted,
    )


def _meet_again(state: ClusterState, config: ClusterConfig, quorum: Quorum) -> Iterator[ClusterState]:
    """A controller that campaigned alone meets the active one again, and follows it, or makes the others elect again.

    Nobody votes for the loner, because it lacks what the others have written meanwhile.
    """
    for loner in quorum.campaigned:
        if loner not in state.reached_by(state.controller):
            continue
        after = _with_quorum(state, campaigned=excluding(quorum.campaigned, [loner]))
        if forces_election(campaigned=True, asks_first=config.asks_before_election):
            after = _with_quorum(after, behind=(*quorum.behind, loner))._replace(controller=NOBODY)
        yield after


def doubted_sessions_end(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A new controller hears from a broker in time, or fences it and lets it register again; urgent."""
    quorum = state.quorum
    if quorum is None or not state.controller_runs:
        return
    for broker in quorum.doubted:
        without_doubt = _with_quorum(state, doubted=excluding(quorum.doubted, [broker]))
        yield without_doubt
        yield broker_failed(_with_quorum(without_doubt, returning=(*quorum.returning, broker)), config, broker)
    for broker in quorum.returning:
        after = _with_quorum(state, returning=excluding(quorum.returning, [broker]))
        returns = state.replica(broker).runs and not state.replica(broker).registered
        yield register(after, config, broker) if returns else after


def _quorum(state: ClusterState, controllers: tuple[int, ...]) -> Quorum:
    """The quorum; raises `ActionError` unless all these controllers are in it."""
    voters = () if state.quorum is None else state.quorum.voters
    for controller in controllers:
        require(controller in voters, f"no controller {controller} among the dedicated ones: {list(voters)}")
    assert state.quorum is not None
    return state.quorum


def _with_quorum(state: ClusterState, **changes: object) -> ClusterState:
    """The state with these fields of its quorum replaced; sets of nodes are sorted."""
    assert state.quorum is not None
    sets = {name: tuple(sorted(value)) if isinstance(value, tuple) else value for name, value in changes.items()}
    return state._replace(quorum=state.quorum._replace(**sets))  # type: ignore[arg-type]
