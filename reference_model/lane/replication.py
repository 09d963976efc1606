"""The actions of a lane's brokers and controller: a function for each, which yields (action, next state) pairs.

Sources: Kafka's documentation ("Replication", `unclean.leader.election.enable`, `replica.lag.time.max.ms`),
KIP-101 and KIP-279 (truncation by leader epoch), KIP-320 (only followers of the leader's own epoch count for
its high watermark and its ISR), KIP-497 for the order of ISR changes. `lane/exchanges.py` names what is left out.
"""

from collections.abc import Iterator

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.effects import Action, Step, drop_connections, observe
from kafka_chaos.reference_model.lane.membership import elections, with_caught_up, without_failed, without_slow
from kafka_chaos.reference_model.protocol.eligible import Standing
from kafka_chaos.reference_model.protocol.isr import may_join_isr, refuses_append
from kafka_chaos.reference_model.protocol.truncation import end_offset_for
from kafka_chaos.reference_model.tuples import with_item


def fetch(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A follower fetches the next record of the serving leader."""
    leader = state.leader
    if leader < 0:
        return
    leader_log = state.replicas[leader].log
    for broker, replica in state.representative_replicas():
        if replica.role == states.FOLLOWER and len(replica.log) < len(leader_log):
            fetched = state.with_replica(broker, replica.with_log(leader_log[: len(replica.log) + 1]))
            yield Action("fetch", broker, detail=str(len(replica.log))), observe(fetched, lane)


def shrink_isr(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """The leader drops a follower from the ISR, because it has not caught up for `replica.lag.time.max.ms`.

    The follower may hold all of this producer's records and lack those of another producer, which no state shows.
    """
    if state.leader < 0:
        return
    for broker, replica in state.representative_replicas():
        if replica.role == states.FOLLOWER and replica.in_isr:
            shrunk = state.with_replicas(without_slow(state.replicas, lane, broker))
            yield Action("shrink_isr", broker), observe(shrunk, lane)


def expand_isr(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A follower joins the ISR once it has reached the high watermark and the start of the leader epoch."""
    leader = state.leader
    if leader < 0:
        return
    epoch_start = end_offset_for(state.replicas[leader].log, state.leader_epoch - 1)
    watermark = state.high_watermark
    for broker, replica in state.representative_replicas():
        follows = replica.role == states.FOLLOWER and not replica.in_isr
        if follows and may_join_isr(len(replica.log), watermark, epoch_start):
            expanded = state.with_replicas(with_caught_up(state.replicas, lane, broker))
            yield Action("expand_isr", broker), observe(expanded, lane)


def elect(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """The controller elects a leader: a live member of the ISR, where there is one (`membership.elections`)."""
    if any(replica.role in (states.LEADER, states.FROZEN_LEADER) for replica in state.replicas):
        return
    for broker, standing, after in elections(state.replicas, lane):
        yield Action(ELECTIONS[standing], broker), lead(state, lane, broker, after)


ELECTIONS = {
    Standing.IN_SYNC: "elect",
    Standing.ELIGIBLE: "elect_eligible",
    Standing.LAST_KNOWN: "elect_last_known",
    Standing.ANY: "elect_unclean",
}
"""The action's name, by what made a replica electable."""


def lead(
    state: states.LaneState, lane: Lane, broker: int, replicas: tuple[states.LaneReplica, ...]
) -> states.LaneState:
    """The state in which `broker` leads in a new leader epoch, and live followers have learned of it and truncated."""
    epoch = state.leader_epoch + 1
    leader = replicas[broker]._replace(role=states.LEADER, in_isr=True, leader_epoch=epoch, believed_isr=states.SHORT)
    replicas = states.follow_leader(with_item(replicas, broker, leader), states.truncation_of(lane))
    return observe(state._replace(replicas=replicas, leader_epoch=epoch), lane)


def learn(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A zombie learns of the new leader: it follows, truncates, and its producers get NOT_LEADER_OR_FOLLOWER.

    With acks=1 the zombie has answered every append by then: an append is answered at once, on a connection that stays.
    """
    leader = state.leader
    if leader < 0:
        return
    for broker, replica in state.representative_replicas():
        if replica.role == states.ZOMBIE and (lane.acks != "1" or not replica.pending):
            dropped = drop_connections(state, broker)
            log = states.truncated(replica.log, state.replicas[leader].log, states.truncation_of(lane))
            follower = dropped.replicas[broker]._replace(
                role=states.FOLLOWER, log=log, leader_epoch=0, believed_isr=states.SHORT
            )
            action = Action("learn", broker, detail=str(len(log)) if log != replica.log else "")
            yield action, dropped.with_replica(broker, follower)


def restart(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A broker that was down starts with the log on its disk, and follows the leader, if there is one."""
    for broker, replica in state.representative_replicas():
        if replica.role == states.DOWN:
            back = with_item(state.replicas, broker, replica._replace(role=states.FOLLOWER))
            replicas = states.follow_leader(back, states.truncation_of(lane))
            log = replicas[broker].log
            action = Action("restart", broker, detail=str(len(log)) if log != replica.log else "")
            yield action, state.with_replicas(replicas)


def thaw(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A frozen broker continues, and believes what it believed before."""
    for broker, replica in state.representative_replicas():
        if replica.role == states.FROZEN_LEADER:
            thawed = with_item(state.replicas, broker, replica._replace(role=states.LEADER))
            replicas = states.follow_leader(thawed, states.truncation_of(lane))
            yield Action("thaw", broker), observe(state.with_replicas(replicas), lane)


def expire(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """The session of a frozen leader expires: the partition has no leader until the next election.

    The broker thaws later. Nobody notices when exactly it thaws, so it may act as a zombie from here on.
    """
    for broker, replica in state.representative_replicas():
        if replica.role == states.FROZEN_LEADER:
            yield Action("expire", broker), depose(state, lane, broker)


def depose(state: states.LaneState, lane: Lane, broker: int) -> states.LaneState:
    """The state in which a broker has lost its leadership and its place in the ISR, without learning of it."""
    size = state.isr_size
    believed = (
        states.SOLE if size == 1 else states.SHORT if refuses_append(size, lane.min_insync_replicas) else states.ENOUGH
    )
    replicas = without_failed(state.replicas, lane, broker, clean=True)
    deposed = replicas[broker]._replace(role=states.ZOMBIE, believed_isr=believed)
    return observe(state.with_replicas(with_item(replicas, broker, deposed)), lane)
