"""The documented behaviours on the full model, with the outcomes that real brokers showed."""

import pytest

from kafka_chaos.reference_model.lockstep.brokers import handle
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.controller import request_to
from kafka_chaos.reference_model.lockstep.observation import NO_EPOCH, Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.producers import ProducerState
from kafka_chaos.reference_model.lockstep.state import ActionError, ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import step
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run, the_partition


def records(model: ClusterModel, broker: int) -> list[str]:
    logs = {tuple(entry.record for entry in state.replica(broker).log) for state in model.states}
    assert len(logs) == 1, logs
    return list(logs.pop())


def scenario_a() -> ClusterModel:
    """The follower that knows of one record alone is cut off from the next leader, and its own is killed."""
    model = run(ClusterConfig(controller=3), produce("m1"), produce("m2"), cut(3, 2))
    assert model.narrow(Observation(replicas={3: ReplicaObservation(high_watermark=1)})).conforms
    model.apply(step("kill", broker=1))
    return model


def test_before_3_7_min_insync_replicas_refuses_before_and_after_the_append() -> None:
    config = ClusterConfig(brokers=(1, 2), controller=1, min_insync_replicas=2, watermark_waits_for_min_isr=False)
    model = run(config, cut(2, 1), produce("m1"), step("expire_lag"))
    (state,) = {(s.outgoing, s.pending) for s in model.states}
    assert [sent.error for sent in state[0]] == ["NOT_ENOUGH_REPLICAS"]
    assert records(model, 1) == ["m1"]
    model.apply(heal(2, 1))
    assert records(model, 1) == ["m1", "m1"]


def test_a_broker_that_is_told_of_no_leader_keeps_its_epoch_and_its_log() -> None:
    (state,) = run(ClusterConfig()).states
    after = handle(state.replica(2), request_to(state, 2)._replace(leader=0, leader_epoch=5))
    assert (after.leader, after.leader_epoch, after.role) == (0, 0, "follower")
    assert not after.truncating


def test_an_observation_outside_the_model_names_replica_and_field() -> None:
    model = scenario_a()
    seen = Observation(
        leader=2,
        replicas={
            2: ReplicaObservation(log_end=2, role="leader"),
            3: ReplicaObservation(log=((0, "m1", 0),), log_end=1),
        },
    )
    comparison = model.compare(seen)
    assert not comparison.conforms
    assert {(d.place, d.field) for d in comparison.differences} == {(3, "log"), (3, "log_end")}
    assert "broker 3, log_end: observed 1, the model allows 2" in map(str, comparison.differences)


def test_a_controller_that_is_none_of_the_brokers_outlives_them() -> None:
    model = run(ClusterConfig(controller=4), produce("m1"), step("kill", broker=1), step("kill", broker=2))
    assert {(s.partition.leader, s.partition.isr, s.controller) for s in model.states} == {(3, (3,), 4)}
    model.apply(step("start", broker=1))
    assert {(s.partition.leader, s.partition.isr) for s in model.settle(model.states)} == {(3, (1, 3))}
    assert {s.controller_epoch for s in model.states} == {1}


def test_a_log_without_leader_epochs_matches_by_its_records_alone() -> None:
    model = scenario_a()
    (log,) = {state.replica(3).log for state in model.states}
    bare = tuple((entry.offset, entry.record, NO_EPOCH) for entry in log)
    assert model.compare(Observation(replicas={3: ReplicaObservation(log=bare)})).conforms
    assert not model.compare(Observation(replicas={3: ReplicaObservation(log=bare[:-1])})).conforms


def test_every_state_of_the_model_conforms_to_itself() -> None:
    model = scenario_a()
    for state in model.states:
        assert state in model.compare(model.observe(state)).matching


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: step("explode", broker=1), "expected an action"),
        (lambda: step("start", broker=1), "runs already"),
        (lambda: step("kill", broker=9), "no broker 9"),
        (lambda: step("kill", node=1), "kill"),
        (lambda: cut(1, 2, "carrier pigeon"), "expected replication"),
        (lambda: heal(1, 2), "no cut"),
        (lambda: produce("m", "2"), "expected 0, 1 or all"),
        (lambda: step("reassign", replicas=(1, 1)), "different brokers"),
        (lambda: step("reassign", replicas=(1, 9)), "no broker 9"),
    ],
)
def test_an_action_that_makes_no_sense_is_refused(action: object, message: str) -> None:
    model = ClusterModel(ClusterConfig())
    with pytest.raises(ActionError, match=message):
        model.apply(action())  # type: ignore[operator]


PAIR = ClusterConfig(assignment=(1, 2), controller=1)


def test_a_replica_that_cannot_be_told_of_its_removal_stays_until_it_can() -> None:
    model = run(PAIR, produce("m1"), cut(1, 2, "control"), step("reassign", replicas=(1, 3)))
    assert the_partition(model).isr == (1, 3)
    assert records(model, 2) == ["m1"]
    model.apply(heal(1, 2, "control"))
    assert records(model, 2) == []


def test_brokers_remember_a_producer_beyond_its_deleted_records_and_over_a_restart() -> None:
    model = run(ClusterConfig(brokers=(1,)), produce("m1", idempotent=True), produce("m2", idempotent=True))
    for one in (step("apply_retention"), step("kill", broker=1), step("start", broker=1)):
        model.apply(one)
    remembered = {state.replica(1).producers for state in model.states}
    assert remembered == {(ProducerState("p", ((0, 0), (1, 1))),)}
    model.apply(produce("m3", idempotent=True))
    assert {state.acknowledged[-1] for state in model.states} == {("m3", 2)}
