"""The documented behaviours on the full model, with the outcomes that real brokers showed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.lockstep.brokers import handle
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, step
from kafka_chaos.reference_model.lockstep.environment import ACTIONS, forged_request
from kafka_chaos.reference_model.lockstep.observation.cluster import (
    NO_EPOCH,
    Observation,
    ReplicaObservation,
    observe_state,
)
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, Replica
from kafka_chaos.reference_model.protocol import PROTOCOLS
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run


def only(model: ClusterModel, broker: int, name: str) -> object:
    """A replica's field, where all settled states agree on it."""
    values = {getattr(state.replica(broker), name) for state in model.states}
    assert len(values) == 1, values
    return values.pop()


def records(model: ClusterModel, broker: int) -> list[str]:
    logs = {tuple(entry.record for entry in state.replica(broker).log) for state in model.states}
    assert len(logs) == 1, logs
    return list(logs.pop())


def acknowledged(model: ClusterModel) -> dict[str, int | None]:
    (answers,) = {state.acknowledged for state in model.states}
    return dict(answers)


SCENARIO_A = (produce("m1"), produce("m2"), cut(3, 2), step("kill", broker=1))
KNOWS_ONE = Observation(replicas={3: ReplicaObservation(high_watermark=1)})


def scenario_a(protocol: str) -> ClusterModel:
    model = ClusterModel(ClusterConfig(controller=3, protocol=PROTOCOLS[protocol]))
    for action in SCENARIO_A[:3]:
        model.apply(action)
    assert model.narrow(KNOWS_ONE).conforms
    model.apply(SCENARIO_A[3])
    return model


def test_without_epochs_a_follower_drops_a_committed_record_and_then_leads() -> None:
    model = scenario_a("truncate-to-high-watermark")
    assert records(model, 3) == ["m1"]
    model.apply(step("kill", broker=2))
    assert records(model, 3) == ["m1"]
    assert only(model, 3, "role") == "leader"
    assert acknowledged(model) == {"m1": 0, "m2": 1}


def test_with_epochs_it_waits_for_the_leaders_answer_and_keeps_the_record() -> None:
    model = scenario_a("kip320")
    assert only(model, 3, "truncating") is True
    model.apply(step("kill", broker=2))
    assert records(model, 3) == ["m1", "m2"]
    assert only(model, 3, "epochs") == ((0, 0), (2, 2))


def scenario_b(protocol: str) -> ClusterModel:
    config = ClusterConfig(brokers=(1, 2), controller=1, protocol=PROTOCOLS[protocol])
    model = run(config, produce("m1"), produce("m2"))
    checkpointed = ReplicaObservation(high_watermark=2, checkpointed_high_watermark=2)
    assert model.narrow(Observation(replicas={1: checkpointed, 2: checkpointed})).conforms
    for action in (
        *(step("kill", broker=1), step("kill", broker=2), step("power_loss", broker=2, kept=1)),
        *(step("start", broker=2), produce("m3"), step("start", broker=1), produce("m4")),
    ):
        model.apply(action)
    return model


def test_without_epochs_two_logs_diverge_under_equal_high_watermarks() -> None:
    model = scenario_b("truncate-to-high-watermark")
    assert records(model, 1) == ["m1", "m2", "m4"]
    assert records(model, 2) == ["m1", "m3", "m4"]
    assert any(s.replica(1).high_watermark == s.replica(2).high_watermark == 3 for s in model.states)


def test_with_epochs_the_old_leader_truncates_and_agrees() -> None:
    model = scenario_b("kip320")
    assert records(model, 1) == records(model, 2) == ["m1", "m3", "m4"]
    first, *others = only(model, 1, "epochs")  # type: ignore[misc]
    assert first == (0, 0)
    assert [start for _, start in others] == [1]


def recovery(acks: str, *, idempotent: bool = False) -> ClusterModel:
    """X=1, Y=2, Z=3 of the document on replica recovery."""
    return run(
        ClusterConfig(controller=2),
        *(produce(record, acks, idempotent=idempotent) for record in ("M1", "M2")),
        cut(3, 1),
        produce("M3", acks, idempotent=idempotent),
        cut(2, 1),
        produce("M4", acks, idempotent=idempotent),
        step("kill", broker=1),
    )


def test_acks_all_without_idempotence_duplicates_the_record_that_the_heir_has() -> None:
    model = recovery("all")
    assert records(model, 2) == records(model, 3) == ["M1", "M2", "M3", "M3", "M4"]
    assert acknowledged(model) == {"M1": 0, "M2": 1, "M3": 3, "M4": 4}
    assert only(model, 2, "epochs") == ((0, 0), (1, 3))
    model.apply(step("start", broker=1))
    for action in (heal(3, 1), heal(2, 1)):
        model.apply(action)
    assert records(model, 1) == ["M1", "M2", "M3", "M3", "M4"]
    assert only(model, 2, "isr") == (1, 2, 3)


def test_acks_all_with_idempotence_recognises_it() -> None:
    model = recovery("all", idempotent=True)
    assert records(model, 2) == ["M1", "M2", "M3", "M4"]
    assert acknowledged(model) == {"M1": 0, "M2": 1, "M3": 2, "M4": 3}


def test_acks_1_loses_what_only_the_dead_leader_had() -> None:
    model = recovery("1")
    assert records(model, 2) == records(model, 3) == ["M1", "M2", "M3"]
    assert acknowledged(model) == {"M1": 0, "M2": 1, "M3": 2, "M4": 3}
    model.apply(step("start", broker=1))
    assert records(model, 1) == ["M1", "M2", "M3"]


def test_two_views_of_the_leader_and_their_healing() -> None:
    model = run(
        ClusterConfig(controller=3),
        cut(3, 2, "control"),
        step("reassign", replicas=(2, 1, 3)),
        step("elect_preferred"),
        produce("m1"),
    )
    assert only(model, 2, "leader") == 1
    assert only(model, 1, "leader") == only(model, 3, "leader") == 2
    assert acknowledged(model) == {}
    assert records(model, 1) == records(model, 2) == []
    model.apply(heal(3, 2, "control"))
    assert {only(model, broker, "leader") for broker in (1, 2, 3)} == {2}
    assert acknowledged(model) == {"m1": 0}


def test_before_3_7_min_insync_replicas_refuses_before_and_after_the_append() -> None:
    config = ClusterConfig(brokers=(1, 2), controller=1, min_insync_replicas=2, watermark_waits_for_min_isr=False)
    model = run(config, cut(2, 1), produce("m1"), step("expire_lag"))
    (state,) = {(s.outgoing, s.pending) for s in model.states}
    assert [sent.error for sent in state[0]] == ["NOT_ENOUGH_REPLICAS"]
    assert records(model, 1) == ["m1"]
    stories = " ".join(" ".join(story) for story in model.stories.values())
    assert "NOT_ENOUGH_REPLICAS_AFTER_APPEND" in stories
    model.apply(heal(2, 1))
    assert records(model, 1) == ["m1", "m1"]


def test_since_3_7_the_high_watermark_waits_until_the_isr_is_large_enough() -> None:
    config = ClusterConfig(brokers=(1, 2), controller=1, min_insync_replicas=2)
    model = run(config, cut(2, 1), produce("m1"), step("expire_lag"))
    assert only(model, 1, "isr") == (1,)
    assert only(model, 1, "high_watermark") == 0
    assert acknowledged(model) == {}
    model.apply(produce("m2", "1"))
    assert only(model, 1, "high_watermark") == 0
    model.apply(heal(2, 1))
    assert acknowledged(model) == {"m2": 1, "m1": 0}
    assert only(model, 1, "high_watermark") == 2


def test_a_broker_that_is_told_of_no_leader_keeps_its_epoch_and_its_log() -> None:
    (state,) = run(ClusterConfig()).states
    request = forged_request(state, 2, None, 5)._replace(leader=0)
    error, after = handle(state.replica(2), request)
    assert (error, after.leader, after.leader_epoch, after.role) == ("NONE", 0, 0, "follower")
    assert not after.truncating


def test_acks_0_may_be_handed_to_a_former_leader() -> None:
    model = run(ClusterConfig(controller=2), produce("m1", "0"))
    assert records(model, 1) == ["m1"]
    model.apply(step("kill", broker=1))
    model.apply(produce("m2", "0"))
    assert acknowledged(model) == {"m1": None, "m2": None}
    assert {tuple(entry.record for entry in s.replica(2).log) for s in model.states} == {("m1",), ("m1", "m2")}


@pytest.mark.parametrize("unclean", [False, True])
def test_without_a_live_member_of_the_isr_unclean_election_decides(unclean: bool) -> None:
    model = run(
        ClusterConfig(brokers=(1, 2), controller=2, unclean_leader_election=unclean),
        *(cut(2, 1), produce("m1"), step("expire_lag"), step("kill", broker=1)),
    )
    assert acknowledged(model) == {"m1": 0}
    assert only(model, 2, "role") == ("leader" if unclean else "follower")
    model.apply(step("start", broker=1))
    assert records(model, 1) == ([] if unclean else ["m1"])


def test_a_controlled_shutdown_moves_the_leader_first() -> None:
    model = run(ClusterConfig(controller=2), produce("m1"), step("stop", broker=1))
    assert only(model, 2, "role") == "leader"
    assert only(model, 1, "flushed") == only(model, 1, "checkpointed_high_watermark") == 1
    (partition,) = {state.partition for state in model.states}
    assert partition.isr == (2, 3)


def test_a_paused_leader_serves_as_a_zombie_until_it_hears_of_its_successor() -> None:
    config = ClusterConfig(controller=2)
    model = run(config, cut(2, 1, "control"), step("pause", broker=1), step("expire_session", broker=1))
    assert only(model, 2, "role") == "leader"
    model.apply(step("thaw", broker=1))
    assert only(model, 1, "role") == "leader"
    model.apply(produce("m1", "1"))
    at_the_zombie = [state for state in model.states if state.replica(1).log]
    assert at_the_zombie
    assert all(not state.replica(2).log for state in at_the_zombie)
    model.states = frozenset(at_the_zombie)
    model.apply(heal(2, 1, "control"))
    assert records(model, 1) == []
    assert acknowledged(model) == {"m1": 0}


def test_the_controllers_death_raises_the_controller_epoch_and_makes_its_requests_stale() -> None:
    model = run(ClusterConfig(controller=1), step("kill", broker=1))
    for state in model.states:
        assert state.controller_epoch == 2
        error, _ = handle(state.replica(2), forged_request(state, 2, 1, 9))
        assert error == "STALE_CONTROLLER_EPOCH"


def test_a_leader_and_isr_request_is_refused_for_each_named_reason() -> None:
    (state,) = run(ClusterConfig()).states
    replica = state.replica(2)
    newer = forged_request(state, 2, None, 5)
    assert handle(replica, newer)[0] == "NONE"
    assert handle(replica, newer, authorized=False) == ("CLUSTER_AUTHORIZATION_FAILED", replica)
    assert handle(replica._replace(role="offline"), newer)[0] == "KAFKA_STORAGE_ERROR"
    assert handle(replica._replace(leader_epoch=9), newer)[0] == "STALE_CONTROLLER_EPOCH"
    same = forged_request(state, 2, None, None)
    assert handle(replica, same) == ("STALE_CONTROLLER_EPOCH", replica)


def test_a_failed_log_directory_takes_the_replica_offline() -> None:
    model = run(ClusterConfig(controller=3), produce("m1"), step("fail_log_directory", broker=1))
    assert only(model, 1, "role") == "offline"
    assert only(model, 2, "role") == "leader"


def test_retention_rolls_an_expired_active_segment_and_moves_the_log_start() -> None:
    model = run(ClusterConfig(), produce("m1"), produce("m2"))
    assert model.narrow(Observation(replicas={b: ReplicaObservation(high_watermark=2) for b in (1, 2, 3)})).conforms
    model.apply(step("apply_retention"))
    for broker in (1, 2, 3):
        assert records(model, broker) == []
        assert only(model, broker, "log_start") == only(model, broker, "active_segment") == 2
    model.apply(produce("m3"))
    assert acknowledged(model)["m3"] == 2
    assert records(model, 3) == ["m3"]


def test_compaction_keeps_the_last_record_per_key_and_the_offsets() -> None:
    keyed = [step("produce", record=f"m{n}", key=key) for n, key in enumerate(("a", "b", "a", "a"))]
    model = run(ClusterConfig(brokers=(1,)), *keyed[:3], step("roll", broker=1), keyed[3], step("compact"))
    (log,) = {state.replica(1).log for state in model.states}
    assert [(entry.offset, entry.record) for entry in log] == [(1, "m1"), (2, "m2"), (3, "m3")]


def test_an_observation_outside_the_model_names_replica_and_field() -> None:
    model = scenario_a("kip320")
    seen = Observation(
        leader=2,
        replicas={
            2: ReplicaObservation(log_end=2, role="leader"),
            3: ReplicaObservation(log=((0, "m1", 0),), log_end=1),
        },
    )
    comparison = model.compare(seen)
    assert not comparison.conforms
    assert {(d.broker, d.field) for d in comparison.differences} == {(3, "log"), (3, "log_end")}
    assert "broker 3, log_end: observed 1, the model allows 2" in map(str, comparison.differences)


def test_a_controller_that_is_none_of_the_brokers_outlives_them() -> None:
    model = run(ClusterConfig(controller=4), produce("m1"), step("kill", broker=1), step("kill", broker=2))
    assert {(s.partition.leader, s.partition.isr, s.controller) for s in model.states} == {(3, (3,), 4)}
    model.apply(step("start", broker=1))
    assert {(s.partition.leader, s.partition.isr) for s in model.settle(model.states)} == {(3, (1, 3))}
    assert {s.controller_epoch for s in model.states} == {1}


def test_a_log_without_leader_epochs_matches_by_its_records_alone() -> None:
    model = scenario_a("kip320")
    (log,) = {state.replica(3).log for state in model.states}
    bare = tuple((entry.offset, entry.record, NO_EPOCH) for entry in log)
    assert model.compare(Observation(replicas={3: ReplicaObservation(log=bare)})).conforms
    assert not model.compare(Observation(replicas={3: ReplicaObservation(log=bare[:-1])})).conforms


def test_a_rule_removed_from_the_model_is_noticed_by_what_was_observed() -> None:
    careless = replace(PROTOCOLS["kip320"], truncation=lambda log, watermark, leader_log: len(log))
    real = scenario_b("kip320")
    mutated_config = replace(real.config, protocol=careless)
    model = run(mutated_config, produce("m1"), produce("m2"), step("kill", broker=1), step("kill", broker=2))
    for action in (step("power_loss", broker=2, kept=1), step("start", broker=2), produce("m3")):
        model.apply(action)
    model.apply(step("start", broker=1))
    seen = Observation(replicas={1: ReplicaObservation(log=((0, "m1", 0), (1, "m3", 3)))})
    differences = model.compare(seen).differences
    assert [(d.broker, d.field) for d in differences] == [(1, "log")]


def test_every_state_of_the_model_conforms_to_itself() -> None:
    model = scenario_a("kip320")
    for state in model.states:
        assert state in model.compare(observe_state(state)).matching


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


def test_every_action_says_what_it_does() -> None:
    assert all(action.__doc__ for action in ACTIONS.values())
    assert isinstance(ClusterConfig().initial().replica(1), Replica)
