"""A model with one rule removed is caught: the invariants and predictions see what the rules prevent."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_chaos.reference_model import Anomaly, Lane, Status, predict
from kafka_chaos.reference_model.explore.core import Core, CoreScope, CoreStep
from kafka_chaos.reference_model.explore.exploration import Exploration, explore
from kafka_chaos.reference_model.explore.state import CoreState, Local, examine
from kafka_chaos.reference_model.lane import exchanges as lane_protocol
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.effects import drop_connections
from kafka_chaos.reference_model.lane.exchanges import request_timeout
from kafka_chaos.reference_model.lane.faults import strike
from kafka_chaos.reference_model.lane.idempotence import check_sequence
from kafka_chaos.reference_model.lane.replication import expand_isr
from kafka_chaos.reference_model.lockstep.clients import send
from kafka_chaos.reference_model.lockstep.controller import expand_isr as expand_cluster_isr
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.producers import Entry, ProducerState
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, EpochStart, Produce
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.entries import entry_of
from kafka_chaos.reference_model.protocol.sequences import Refusal

SCOPE = CoreScope(brokers=2, records=2, leader_epochs=3)
KIP320 = PROTOCOLS["kip320"]


def broken(exploration: Exploration) -> set[str]:
    return {name for name, (holds, _) in exploration.invariants.items() if holds is False}


class CommitsWithoutTheIsr(Core):
    def leader_advance_high_watermark(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        local = self.locals[state[broker]]
        if local.high_watermark < len(local.log):
            after = local._replace(high_watermark=local.high_watermark + 1)
            action = next(self.leader_write(self.initial(), broker))[0]
            yield action, self._with_local(state, broker, after)


class ForgetsItsHighWatermark(Core):
    def leader_write(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        for action, after in super().leader_write(state, broker):
            local = self.locals[after[broker]]
            yield action, self._with_local(after, broker, local._replace(high_watermark=0))


def test_committing_without_the_isr_is_caught() -> None:
    core = CommitsWithoutTheIsr(KIP320, SCOPE)
    assert {"weak_isr", "strong_isr", "committed_records_kept"} <= broken(explore(KIP320, SCOPE, core=core))


def test_a_falling_high_watermark_is_caught() -> None:
    core = ForgetsItsHighWatermark(KIP320, SCOPE)
    assert "high_watermark_monotonic" in broken(explore(KIP320, SCOPE, core=core))


def test_a_follower_that_never_truncates_is_caught() -> None:
    careless = replace(KIP320, truncation=lambda log, watermark, leader_log: len(log))
    assert "followers_agree" in broken(explore(careless, SCOPE))


def test_truncation_to_the_high_watermark_loses_a_committed_record() -> None:
    """Before KIP-101: a follower forgets what it has acknowledged, and leads next."""
    lane = Lane(lane="mutated", min_insync_replicas=2, faults=("kill", "kill"))
    assert predict(lane).status(Anomaly.LOST_WRITE) is Status.FORBIDDEN
    assert predict(replace(lane, kafka_version="0.10.2.2")).status(Anomaly.LOST_WRITE) is Status.PERMITTED


def test_truncation_to_the_end_of_the_last_epoch_lets_replicas_diverge() -> None:
    """KIP-101 without KIP-279: after unclean elections the leader may not know the epoch that it is asked for."""
    lane = Lane(lane="mutated", acks="1", replication_factor=2, unclean_leader_election=True, faults=("kill", "kill"))
    assert predict(lane).status(Anomaly.REPLICA_DIVERGENCE) is Status.FORBIDDEN
    assert predict(replace(lane, kafka_version="1.1.1")).status(Anomaly.REPLICA_DIVERGENCE) is Status.PERMITTED


def lane_replica(role: int, *epochs: int, in_isr: bool = True, leader_epoch: int = 0) -> states.LaneReplica:
    log = tuple(entry_of(number, epoch) for number, epoch in enumerate(epochs))
    return states.LaneReplica(role, in_isr, log, leader_epoch=leader_epoch)


def lane_of(lane: Lane, *replicas: states.LaneReplica, leader_epoch: int = 0) -> states.LaneState:
    return states.initial_state(lane)._replace(replicas=replicas, leader_epoch=leader_epoch)


def test_no_follower_of_a_lane_joins_the_isr_before_the_start_of_the_leader_epoch() -> None:
    """Its predecessor may have committed what the new leader's own high watermark does not show yet."""
    lane = Lane(lane="joins")
    leader = lane_replica(states.LEADER, 0, leader_epoch=1)
    behind = lane_replica(states.FOLLOWER)
    reached = {
        len(outside.log): [
            action.name for action, _ in expand_isr(lane_of(lane, leader, behind, outside, leader_epoch=1), lane)
        ]
        for outside in (lane_replica(states.FOLLOWER, in_isr=False), lane_replica(states.FOLLOWER, 0, in_isr=False))
    }
    assert reached == {0: [], 1: ["expand_isr"]}


def test_no_broker_joins_the_isr_of_the_full_model_before_the_start_of_the_leader_epoch() -> None:
    config = ClusterConfig()
    state = config.initial()
    entries = tuple(Entry(offset, f"m{offset}", 0) for offset in range(2))
    leader = state.replica(1)._replace(
        leader_epoch=1, isr=(1, 2), log=entries, log_end=2,
        epochs=(EpochStart(0, 0), EpochStart(1, 2)), high_watermark=0,
    )  # fmt: skip
    partition = state.partition._replace(leader_epoch=1, isr=(1, 2))
    follower = state.replica(3)._replace(leader_epoch=1)

    def joins(end: int) -> bool:
        leading = leader._replace(fetched=((2, 0), (3, end)))
        after = state._replace(partition=partition).with_replica(leading).with_replica(follower)
        return any(after.partition.isr == (1, 2, 3) for after in expand_cluster_isr(after, config))

    assert [joins(end) for end in (0, 1, 2)] == [False, False, True]


def test_no_broker_joins_the_isr_of_the_core_while_the_high_watermark_is_below_the_leader_epoch() -> None:
    leader = Local((entry_of(0, 0), entry_of(1, 1)), 0, 1, 0, 0b011)
    follower = Local((), 0, 1, 0, 0b011)
    assert not examine(KIP320, 0, leader, follower).may_join_isr
    assert examine(KIP320, 0, leader._replace(high_watermark=1), follower._replace(log=leader.log[:1])).may_join_isr


def test_a_controlled_shutdown_of_a_lane_moves_the_leader_first() -> None:
    """No moment without a leader: the next one comes from the ISR, in the next epoch, and the old one has left it."""
    lane = Lane(lane="stops", faults=("stop",))
    initial = states.initial_state(lane)
    stopped = [
        (action, after)
        for action, after in strike(initial, lane)
        if initial.replicas[action.broker].role == states.LEADER
    ]
    assert {action.name for action, _ in stopped} == {"stop_and_move"}
    for action, after in stopped:
        assert [replica.role for replica in after.replicas].count(states.LEADER) == 1
        assert after.replicas[action.broker].role == states.FOLLOWER
        assert not after.replicas[action.broker].in_isr
        assert after.leader_epoch == 1


def test_a_controlled_shutdown_in_the_full_model_moves_the_leader_first() -> None:
    """Also where it is the controller itself that stops: its successor finds a leader in place."""
    config = ClusterConfig(controller=1)
    stopped = ACTIONS["stop"](config.initial(), config, broker=1)
    assert (stopped.partition.leader, stopped.partition.leader_epoch, stopped.partition.isr) == (2, 1, (2, 3))
    killed = ACTIONS["kill"](config.initial(), config, broker=1)
    assert (killed.partition.leader, killed.partition.leader_epoch) == (1, 0)


def test_requests_in_the_socket_of_a_frozen_broker_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request in flight does not keep the order: what the producer gave up is read after the thaw."""
    lane = Lane(lane="frozen", acks="1", max_in_flight=1, faults=("pause",))
    assert predict(lane).status(Anomaly.REORDERED) is Status.PERMITTED

    def lose(state: states.LaneState, broker: int, *, socket_survives: bool = False) -> states.LaneState:
        return drop_connections(state, broker)

    monkeypatch.setattr(lane_protocol, "drop_connections", lose)
    assert predict(lane).status(Anomaly.REORDERED) is Status.FORBIDDEN


def test_a_closed_connection_leaves_its_requests_in_the_frozen_socket() -> None:
    lane = Lane(lane="frozen", acks="1", faults=("pause",))
    frozen = lane_replica(states.FROZEN_LEADER)._replace(awaited=(0, 1))
    ((action, after),) = request_timeout(lane_of(lane, lane_replica(states.FOLLOWER), frozen), lane)
    assert action.name == "close"
    assert (after.replicas[1].awaited, after.replicas[1].unawaited) == ((), (0, 1))


def test_a_broker_without_the_batch_before_refuses_the_next() -> None:
    """KIP-98: a producer begins with sequence number 0."""
    lane = Lane(lane="sequence", idempotence=True)
    empty = lane_of(lane, lane_replica(states.FOLLOWER), lane_replica(states.LEADER))
    assert check_sequence(empty, 1, 0) is None
    assert check_sequence(empty, 1, 1) is Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check_sequence(empty._replace(takes_any_first_batch=True), 1, 1) is None
    holds = lane_of(lane, lane_replica(states.FOLLOWER), lane_replica(states.LEADER, 0))
    assert check_sequence(holds, 1, 1) is None
    assert check_sequence(holds, 1, 0) == 0


@pytest.mark.parametrize(("batches", "taken"), [((), [0, 1, 5]), (((0, 0),), [1]), (((4, 0),), [5])])
def test_a_broker_that_does_not_know_a_producer_takes_any_first_sequence(
    batches: tuple[tuple[int, int], ...], taken: list[int]
) -> None:
    """KAFKA-15591, KAFKA-19880: 3.9 checks the sequence number only behind a batch that it remembers."""
    config = ClusterConfig(brokers=(1,))
    state = config.initial()
    known = (ProducerState("p", batches),) if batches else ()
    log = tuple(Entry(offset, f"m{sequence}", 0, "p", sequence) for sequence, offset in batches)
    state = state.with_replica(state.replica(1)._replace(producers=known, log=log, log_end=len(log)))

    def appends(sequence: int) -> bool:
        produce = Produce("new", idempotent=True, sequence=sequence)
        return any(after.replica(1).log_end > len(log) for after in send(state._replace(outgoing=(produce,)), config))

    assert [sequence for sequence in (0, 1, 5) if appends(sequence)] == taken
