"""Reassignment, consumers and what brokers remember of idempotent producers, on the full model."""

from __future__ import annotations

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, step
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.producers import (
    Entry,
    ProducerState,
    after_append,
    after_truncation,
    remembered,
)
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, Partition
from kafka_chaos.reference_model.protocol.sequences import Refusal, check_batch
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run


def the_partition(model: ClusterModel) -> Partition:
    (partition,) = {state.partition for state in model.states}
    return partition


def records(model: ClusterModel, broker: int) -> list[str]:
    (held,) = {tuple(entry.record for entry in state.replica(broker).log) for state in model.states}
    return list(held)


PAIR = ClusterConfig(assignment=(1, 2), controller=1)


def test_a_partition_may_have_replicas_on_some_brokers_only() -> None:
    model = run(PAIR, produce("m1"))
    assert records(model, 1) == records(model, 2) == ["m1"]
    assert records(model, 3) == []
    assert the_partition(model).isr == (1, 2)


def test_a_reassignment_adds_replicas_waits_for_the_isr_and_then_removes() -> None:
    model = run(PAIR, produce("m1"), cut(3, 1), step("reassign", replicas=(3, 2)))
    waiting = the_partition(model)
    assert (waiting.replicas, waiting.target, waiting.isr, waiting.leader) == ((3, 2, 1), (3, 2), (1, 2), 1)
    model.apply(heal(3, 1))
    done = the_partition(model)
    assert (done.replicas, done.target, done.isr, done.leader) == ((3, 2), (), (2, 3), 3)
    assert records(model, 3) == records(model, 2) == ["m1"]
    assert {state.replica(1).role for state in model.states} == {"none"}
    assert records(model, 1) == []
    model.apply(produce("m2"))
    assert records(model, 3) == records(model, 2) == ["m1", "m2"]


def test_a_replica_that_cannot_be_told_of_its_removal_stays_until_it_can() -> None:
    model = run(PAIR, produce("m1"), cut(1, 2, "control"), step("reassign", replicas=(1, 3)))
    assert the_partition(model).isr == (1, 3)
    assert records(model, 2) == ["m1"]
    model.apply(heal(1, 2, "control"))
    assert records(model, 2) == []


def test_scenario_b_on_two_of_three_brokers_has_the_leader_epochs_that_real_brokers_showed() -> None:
    model = run(PAIR, produce("m1"), produce("m2"))
    known = ReplicaObservation(high_watermark=2, checkpointed_high_watermark=2)
    assert model.narrow(Observation(replicas={1: known, 2: known})).conforms
    for one in (
        *(step("kill", broker=1), step("kill", broker=2), step("power_loss", broker=2, kept=1)),
        *(step("start", broker=2), produce("m3"), step("start", broker=1), produce("m4")),
    ):
        model.apply(one)
    assert {(s.replica(1).epochs, s.replica(2).epochs) for s in model.states} == {(((0, 0), (4, 1)),) * 2}


def batch(sequence: int, offset: int) -> Entry:
    return Entry(offset, f"m{sequence}", 0, "p", sequence)


def test_five_batches_of_a_producer_are_remembered() -> None:
    states = after_append((), [batch(number, number) for number in range(7)])
    assert states == (ProducerState("p", tuple((n, n) for n in range(2, 7))),)
    assert check_batch(remembered(states, "p"), 0, 1) is Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check_batch(remembered(states, "p"), 0, 2) == 2
    assert check_batch(remembered(states, "p"), 0, 7) is None
    assert remembered(states, "another") == []


def test_truncation_gives_back_what_the_log_still_holds() -> None:
    log = [batch(number, number) for number in range(7)]
    states = after_truncation(after_append((), log), log, 6)
    assert states == (ProducerState("p", tuple((n, n) for n in range(1, 6))),)
    assert after_truncation(states, log, 0) == ()


def test_brokers_remember_a_producer_beyond_its_deleted_records_and_over_a_restart() -> None:
    model = run(ClusterConfig(brokers=(1,)), produce("m1", idempotent=True), produce("m2", idempotent=True))
    for one in (step("apply_retention"), step("kill", broker=1), step("start", broker=1)):
        model.apply(one)
    remembered = {state.replica(1).producers for state in model.states}
    assert remembered == {(ProducerState("p", ((0, 0), (1, 1))),)}
    model.apply(produce("m3", idempotent=True))
    assert {state.acknowledged[-1] for state in model.states} == {("m3", 2)}
