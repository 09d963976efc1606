"""Actions of the controller: one action, one function. `lockstep/brokers.py` has the answers to its requests.

Sources: Kafka's documentation, KIP-497 (ISR changes go through the controller), KIP-380 (a restarted broker gets
no request from before its registration).

Left out: ZooKeeper itself (its writes are atomic and seen at once), UpdateMetadata, cancelling a reassignment.
"""

from collections.abc import Collection, Iterator

from kafka_chaos.reference_model.lockstep.brokers import reachable_leader, with_advanced_watermark
from kafka_chaos.reference_model.lockstep.state import (
    LEADER,
    NOBODY,
    ClusterConfig,
    ClusterState,
    LeaderAndIsr,
    Partition,
    Replica,
)
from kafka_chaos.reference_model.protocol import eligible as elr
from kafka_chaos.reference_model.protocol.isr import lags, may_join_isr, may_leave_isr
from kafka_chaos.reference_model.protocol.leaders import isr_of_elected
from kafka_chaos.reference_model.tuples import excluding


def decide(
    state: ClusterState, config: ClusterConfig, leader: int, isr: tuple[int, ...], *, removes: bool = False
) -> ClusterState:
    """The controller writes a new leader and ISR, and informs every live broker.

    With ZooKeeper, this begins a leader epoch. In KRaft mode, since 3.6 (KAFKA-15021), it does so only if the leader
    changes, or if a reassignment that `removes` replicas ends.
    """
    old = state.partition
    begins_epoch = not config.kraft or removes or leader != old.leader
    partition = with_isr(old, config, isr)._replace(
        leader=leader, leader_epoch=old.leader_epoch + begins_epoch, controller_epoch=state.controller_epoch
    )
    state = state._replace(partition=partition)
    return tell(state, live_brokers(state))


def with_isr(partition: Partition, config: ClusterConfig, isr: Collection[int], unclean: int = NOBODY) -> Partition:
    """The partition with another ISR, and with the eligible replicas that follow from it.

    `unclean`: a broker that comes back from an unclean shutdown, and is not eligible.
    """
    before, after = frozenset(partition.isr), frozenset(isr)
    if config.elects_eligible:
        min_isr = config.effective_min_isr
        eligible = elr.eligible_replicas(frozenset(partition.eligible), before, after, min_isr, frozenset({unclean}))
        last_known = [b for b in partition.replicas if elr.is_last_known_leader(b, before, after)]
        partition = partition._replace(
            eligible=tuple(sorted(eligible)), last_known=tuple(last_known) or partition.last_known
        )
    return partition._replace(isr=tuple(sorted(after)), partition_epoch=partition.partition_epoch + 1)


def live_brokers(state: ClusterState) -> list[int]:
    """The registered brokers of the partition's assignment, which the controller keeps informed."""
    assignment = state.partition.replicas
    return [replica.broker for replica in state.replicas if replica.registered and replica.broker in assignment]


def tell(state: ClusterState, brokers: list[int]) -> ClusterState:
    """The controller sends the partition's state to these brokers."""
    requests = tuple(request_to(state, broker) for broker in brokers)
    return state._replace(requests=state.requests + requests)


def request_to(state: ClusterState, broker: int) -> LeaderAndIsr:
    """The LeaderAndIsr that the controller would send to a broker now."""
    partition = state.partition
    return LeaderAndIsr(
        broker,
        state.controller,
        state.controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.isr,
    )


def broker_failed(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker's session has ended: it is no longer registered, and leaves the ISR unless it is the last member.

    If there is no controller, the next controller takes the broker out of the ISR when it takes over.
    """
    state = state.with_replica(state.replica(broker)._replace(registered=False))
    return replica_failed(state, config, broker) if state.controller else state


def replica_failed(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A replica failed: if it led, the controller elects another leader, and otherwise takes it out of the ISR."""
    partition = state.partition
    if partition.leader == broker:
        return elect(state, config, excluded=broker)
    isr = isr_without(partition, config, broker)
    return state if isr == partition.isr else decide(state, config, partition.leader, isr)


def isr_without(partition: Partition, config: ClusterConfig, broker: int) -> tuple[int, ...]:
    """The ISR without a broker. The last member stays, unless the cluster has eligible leader replicas."""
    leaves = config.elects_eligible or may_leave_isr(len(partition.isr))
    return excluding(partition.isr, [broker]) if leaves else partition.isr


def elect(state: ClusterState, config: ClusterConfig, *, excluded: int = NOBODY) -> ClusterState:
    """The state in which the first electable replica of the assignment leads, or nobody if there is none.

    `excluded`: a broker that has failed, and leaves the ISR.
    """
    old = partition = state.partition
    registered = {replica.broker for replica in state.replicas if replica.registered}
    live = [broker for broker in old.replicas if broker in registered and broker != excluded]
    if excluded in old.isr:
        # Leaving the ISR and the election are one change of the metadata.
        shrunk = with_isr(old, config, isr_without(old, config, excluded))
        partition = shrunk._replace(partition_epoch=old.partition_epoch)
    isr, eligible, last_known = map(frozenset, (partition.isr, partition.eligible, partition.last_known))
    candidates, standing = elr.electable(
        frozenset(live), isr, eligible, last_known, unclean=config.unclean_leader_election
    )
    state = state._replace(partition=partition)
    elected = next((broker for broker in live if broker in candidates), NOBODY)
    if elected == NOBODY:
        return state if old.leader == NOBODY else decide(state, config, NOBODY, partition.isr)
    clean = standing is elr.Standing.IN_SYNC
    after = decide(state, config, elected, tuple(isr_of_elected(elected, live, partition.isr, clean=clean)))
    eligible = elr.eligible_after_election(elected, frozenset(after.partition.eligible), standing)
    return after._replace(partition=after.partition._replace(eligible=tuple(sorted(eligible)), last_known=()))


def unclean_shutdown(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker registers after an unclean shutdown: it is neither in the ISR nor eligible any more (KIP-966)."""
    if not config.elects_eligible or not state.controller:
        return state
    partition = state.partition
    isr = [member for member in partition.isr if member != broker]
    return state._replace(partition=with_isr(partition, config, isr, unclean=broker))


def session_ends(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """The session of a dead process runs out; urgent. In KRaft mode the active controller has to be there to see it."""
    if state.quorum is not None and not state.controller_runs:
        return
    for replica in state.replicas:
        if not replica.up and replica.registered:
            yield session_ended(state, config, replica.broker)


def session_ended(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """The state after a broker's session has ended. If it was the controller, the next one has to take over."""
    if state.controller == broker:
        state = state._replace(controller=NOBODY)
    return broker_failed(state, config, broker)


def controller_takes_over(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A live broker becomes controller in a new controller epoch, and informs every broker; urgent."""
    if state.controller or state.quorum is not None:
        return
    for replica in state.replicas:
        if replica.runs and replica.registered:
            after = state._replace(controller=replica.broker, controller_epoch=state.controller_epoch + 1)
            yield _catch_up(after, config)


def _catch_up(state: ClusterState, config: ClusterConfig) -> ClusterState:
    """The state after a new controller has handled the failures from before its time, and informed every live broker.

    A controller that sees a leader fail elects another one at once. A new controller first takes each dead broker out
    of the ISR, which leaves the partition without a leader, and then elects one: two leader epochs, as real brokers
    show. A dead last member stays in the ISR, but even so every new controller begins a leader epoch.
    """
    before = state.partition
    for replica in state.replicas:
        partition = state.partition
        if not replica.registered and replica.broker in partition.isr:
            leader = NOBODY if partition.leader == replica.broker else partition.leader
            state = decide(state, config, leader, isr_without(partition, config, replica.broker))
    if not state.partition.leader:
        state = elect(state, config)
    if state.partition == before:
        state = tell(state, live_brokers(state))
    return state


def start_reassignment(state: ClusterState, config: ClusterConfig, target: tuple[int, ...]) -> ClusterState:
    """The controller adds the target's replicas to the assignment and informs the brokers (KIP-455)."""
    old = state.partition
    old_and_new = (*target, *(broker for broker in old.replicas if broker not in target))
    state = state._replace(partition=old._replace(replicas=old_and_new, target=target))
    return decide(state, config, old.leader, old.isr)


def complete_reassignment(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """Once the ISR has all target replicas, they become the assignment, and the other replicas leave; urgent.

    The assignment changes in a new leader epoch. With ZooKeeper, each replica that then leaves the ISR begins another
    one; in KRaft mode all of this is one change.
    """
    partition = state.partition
    if not partition.target or not set(partition.target) <= set(partition.isr) or not state.controller:
        return
    alive = [broker for broker in partition.target if state.replica(broker).registered]
    if not state.controller_runs or not alive:
        return
    removed = [broker for broker in partition.replicas if broker not in partition.target]
    leader = partition.leader if partition.leader in alive else alive[0]
    after = state._replace(partition=partition._replace(replicas=partition.target, target=()))
    if config.kraft:
        after = decide(after, config, leader, excluding(partition.isr, removed), removes=bool(removed))
    else:
        after = decide(after, config, leader, partition.isr)
        for broker in removed:
            if broker in after.partition.isr:
                after = decide(after, config, leader, excluding(after.partition.isr, [broker]))
    stops = tuple(request_to(after, b)._replace(stop=True) for b in removed if state.replica(b).registered)
    yield after._replace(requests=after.requests + stops)


def expand_isr(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """The leader of record admits a follower that has reached the leader's high watermark and epoch start; urgent."""
    leader = leader_of_record(state)
    if leader is None:
        return
    start = leader.epochs[-1].start if leader.epochs else 0
    for broker, end in leader.fetched:
        follower = state.replica(broker)
        caught_up = may_join_isr(end, leader.high_watermark, start) and follower.registered
        if broker not in leader.isr and caught_up and reachable_leader(state, config, follower) is not None:
            yield _with_new_isr(state, config, leader, (*leader.isr, broker))


def shrink_isr(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """The leader of record drops a follower that does not catch up; urgent where the lag time is short."""
    if config.lag_is_short:
        yield from drop_lagging(state, config)


def drop_lagging(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """Every way the leader of record can drop a follower that is cut off and lacks records of the leader."""
    leader = leader_of_record(state)
    if leader is None:
        return
    fetched = dict(leader.fetched)
    for broker in leader.isr:
        if broker == leader.broker:
            continue
        is_cut_off = reachable_leader(state, config, state.replica(broker)) is None
        if is_cut_off and lags(fetched.get(broker, -1), leader.log_end):
            yield _with_new_isr(state, config, leader, excluding(leader.isr, [broker]))


def leader_of_record(state: ClusterState) -> Replica | None:
    """The broker that leads and is the leader in the metadata, in the same epoch; None while no controller runs."""
    partition = state.partition
    if not partition.leader or not state.controller_runs:
        return None
    leader = state.replica(partition.leader)
    leads = leader.role == LEADER and leader.runs and leader.leader_epoch == partition.leader_epoch
    return leader if leads else None


def _with_new_isr(state: ClusterState, config: ClusterConfig, leader: Replica, isr: tuple[int, ...]) -> ClusterState:
    partition = with_isr(state.partition, config, isr)
    changed = leader._replace(isr=partition.isr, partition_epoch=partition.partition_epoch)
    return state._replace(partition=partition).with_replica(with_advanced_watermark(changed, config))
